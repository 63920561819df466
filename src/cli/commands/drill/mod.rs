// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx drill`: failures of README's table on the live controller, in mode shadow. phalanxd
//! alone is touched, by signals and by systemd. Whatever ends this program on the way, phalanxd
//! runs again: systemd starts a killed daemon, and a process of its own sends SIGCONT. With
//! `--start` nobody does if this program is killed in the three seconds before its command.
//!
//! phalanxd alone is touched, by signals and by systemd. Whatever ends this program on the way, it
//! runs again: systemd starts a daemon that was killed, and a process of its own sends SIGCONT.
//! With `--start` nobody does if this program is killed in the three seconds before its command.

mod render;

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;

use crate::client::{Client, Method};
use crate::command::output;
use crate::exit::{Exit, Failure};
use crate::global::Global;
use crate::outcome::Outcome;
use phalanx_core::number::as_f64;
use phalanx_messages::rest::{DrillReport, PluginStatus, Status};
use render::{Report, Row};

/// Let phalanxd hang, die and restart on purpose, and show what that costs slurmctld
///
/// On the controller, as root, and only in mode shadow, where no answer counts. Meanwhile sinfo
/// and sbatch --test-only ask slurmctld all the time: each must be answered, and all must be as
/// before. Slurm, its jobs and all files are left alone. It takes half a minute.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Shell command that starts a killed phalanxd where systemd does not, as in a container;
    /// "true" where something else starts it
    #[arg(long, value_name = "COMMAND")]
    start: Option<String>,
    /// Options of sbatch --test-only where it needs some, such as --account=NAME
    #[arg(last = true, value_name = "OPTION")]
    sbatch: Vec<String>,
}

/// Rows of README's table that are tried: what is done, and how.
const TRIED: [(&str, &str, Provoke); 3] = [
    ("daemon hangs or is slow", "hangs, 10x 90 ms", hang),
    (KILLED, "killed", die),
    (KILLED, "restarted", restart),
];
const SBATCH: &str = "sbatch --test-only (its options: behind --)";
const KILLED: &str = "daemon killed, stopped, or not there";
/// Rows of README's table that are not tried, and the reason.
const NOT_TRIED: [(&str, &str); 9] = [
    ("either again and again for half an hour", "would leave the overlay ejected"),
    ("wrong answer or proof, garbage", "this phalanxd gives none"),
    ("Slurm does not take the nodes", "mode shadow offers none"),
    ("daemon falls behind", "needs a flood of jobs"),
    ("`slurmctld` restarted", "it is left alone; try: systemctl restart slurmctld"),
    ("Slurm updated, overlay not", "needs another Slurm"),
    ("wrong configuration at reload", "files are left alone; see phalanx daemon check"),
    ("disk full, history damaged or deleted", "files are left alone"),
    ("`slurmctld` does not answer the daemon", "it is left alone"),
];
/// Time for which the daemon hangs: shorter than 50 asks in vain take, so that the breaker stays
/// closed, and nothing adds up to an ejection.
const HANG: Duration = Duration::from_millis(90);
const HANGS: u32 = 10;
/// Time for which the commands are watched before anything fails, and a killed daemon is away.
const WATCH: Duration = Duration::from_secs(3);
/// Longest time until the state before the failure is back.
const BACK: Duration = Duration::from_secs(30);
/// Interval at which the overlay reports its counters, with a margin: one second.
const COUNTED: Duration = Duration::from_millis(1500);
/// Time until the overlay knows of a request to the daemon.
const TOLD: Duration = Duration::from_millis(500);
/// Longest time of a command, beyond three times the longest one before any failure.
const COMMAND_MS: f64 = 1000.0;
/// Milliseconds that all asks of a minute together may wait in vain.
const IN_VAIN_MS: f64 = 1200.0;

/// A way to make phalanxd fail, with a command that starts it in place of systemd.
type Provoke = fn(Pid, Option<&str>) -> Result<(), String>;

/// A daemon under test.
struct Drill {
    socket: PathBuf,
    client: Client,
    /// Commands that ask slurmctld.
    commands: Vec<(&'static str, Vec<String>)>,
    start: Option<String>,
}

impl Args {
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        let socket = global.control_socket()?;
        let client = Client::local(socket.clone());
        let before: Status = client.get("/v1/status")?;
        fit(&before).map_err(Failure::negative)?;
        let test = ["--test-only", "--wrap=true"].map(str::to_owned).into_iter();
        let test = test.chain(self.sbatch.clone()).collect();
        let shown = vec!["-h".to_owned(), "-o%D".to_owned()];
        let commands = vec![("sinfo", shown), ("sbatch", test)];
        let mut drill = Drill { socket, client, commands, start: self.start.clone() };
        let pid = drill.daemon().map_err(Failure::negative)?;
        kill(pid, Signal::SIGCONT)
            .map_err(|error| Failure::negative(format!("phalanxd: {error}; run this as root")))?;
        let report = drill.all(&before, pid)?;
        let exit = if report.held { Exit::Ok } else { Exit::Negative };
        Ok(global.show(&report, render::text)?.ends_with(exit))
    }
}

/// Whether no job is affected, and the overlay is in use.
fn fit(status: &Status) -> Result<(), String> {
    let (config, plugin) = (&status.config, &status.plugin);
    let own = config.partition_modes.iter().chain(&config.account_modes);
    if let Some((name, _)) = own.clone().find(|(_, mode)| *mode == "enforce") {
        return Err(format!("{name} is in mode enforce: a drill is for mode shadow"));
    }
    if config.mode != "shadow" {
        return Err(format!("mode is {}: a drill is for mode shadow", config.mode));
    }
    if !(plugin.connected && plugin.synced && plugin.breaker == "closed") {
        return Err("the overlay is not in use: see phalanx doctor".to_owned());
    }
    Ok(())
}

impl Drill {
    /// Returns the process that listens at the control socket.
    fn daemon(&self) -> Result<Pid, String> {
        let stream = UnixStream::connect(&self.socket).map_err(|error| error.to_string())?;
        let peer = getsockopt(&stream, PeerCredentials).map_err(|error| error.to_string())?;
        let name = std::fs::read_to_string(format!("/proc/{}/comm", peer.pid()));
        match name.unwrap_or_default().trim() {
            "phalanxd" => Ok(Pid::from_raw(peer.pid())),
            other => Err(format!("{other:?} listens at {}", self.socket.display())),
        }
    }

    fn all(&mut self, before: &Status, pid: Pid) -> Result<Report, Failure> {
        let mut not_tried: Vec<_> = NOT_TRIED.map(|(row, why)| (row, why.to_owned())).into();
        for command in std::mem::take(&mut self.commands) {
            match ask(&command) {
                Ok(_) => self.commands.push(command),
                Err(error) if command.0 == "sbatch" => not_tried.push((SBATCH, error)),
                Err(error) => return Err(Failure::negative(error)),
            }
        }
        self.wait_for_answers()?;
        sleep(TOLD);
        let mut quiet = Row { done: "nothing", ..Row::default() };
        let was = self.client.get::<Status>("/v1/status")?.plugin;
        let until = Instant::now() + WATCH;
        self.watch(&mut quiet, || Instant::now() < until);
        sleep(COUNTED);
        quiet.count(&was, &self.client.get::<Status>("/v1/status")?.plugin);
        let systemd = output("systemctl", &["show", "-pMainPID", "-pRestart", "phalanxd"], b"");
        let restarts = systemd.is_ok_and(|text| {
            let has = |line: &str| text.lines().any(|own| own == line);
            has(&format!("MainPID={pid}")) && has("Restart=always")
        });
        let mut rows = vec![quiet];
        for (failure, done, provoke) in TRIED {
            let lost =
                rows.last().is_some_and(|row| !row.failure.is_empty() && row.back_s.is_none());
            if lost || failure == KILLED && !restarts && self.start.is_none() {
                let why =
                    if lost { "phalanxd is lost" } else { "no systemd restarts it: see --start" };
                not_tried.push((done, why.to_owned()));
                continue;
            }
            rows.push(self.one(before, Row { failure, done, ..Row::default() }, provoke, &rows)?);
        }
        let held = rows.iter().all(|row| row.wrong.is_empty());
        Ok(Report { held, rows, not_tried })
    }

    /// Provokes one failure, and reports what it cost.
    fn one(
        &self,
        before: &Status,
        mut row: Row,
        provoke: Provoke,
        rows: &[Row],
    ) -> Result<Row, Failure> {
        let pid = self.daemon().map_err(Failure::negative)?;
        self.wait_for_answers()?;
        let was: Status = self.client.get("/v1/status")?;
        let begin = Instant::now();
        let (done, back) = scope(|threads| {
            let failing = threads.spawn(|| {
                let done = provoke(pid, self.start.as_deref());
                let over = Instant::now();
                while over.elapsed() < BACK {
                    if self.is_as(before) {
                        return (done, Some(over.elapsed()));
                    }
                    sleep(HANG);
                }
                (done, None)
            });
            self.watch(&mut row, || !failing.is_finished());
            failing.join().unwrap_or_else(|_| (Err("a thread ended".to_owned()), None))
        });
        row.wrong.extend(done.err());
        row.back_s = back.map(|time| time.as_secs_f64());
        match back {
            None => row.wrong.push(format!("not as before within {} s", BACK.as_secs())),
            Some(_) => {
                sleep(COUNTED);
                let now: Status = self.client.get("/v1/status")?;
                row.count(&was.plugin, &now.plugin);
            }
        }
        let longest = COMMAND_MS + 3.0 * rows.first().map_or(0.0, |quiet| quiet.longest_ms);
        if row.longest_ms > longest {
            row.wrong.push(format!("a command took {:.0} ms", row.longest_ms));
        }
        let minutes = (begin.elapsed().as_secs_f64() / 60.0).ceil();
        if row.in_vain_ms > IN_VAIN_MS * minutes {
            row.wrong.push(format!("slurmctld waited {:.0} ms in vain", row.in_vain_ms));
        }
        Ok(row)
    }

    /// Makes slurmctld wait for answers for a minute, as it does not where none is in force.
    fn wait_for_answers(&self) -> Result<(), Failure> {
        let reply = self.client.ask(Method::POST, "/v1/drill", None::<&()>)?;
        self.client.parse::<DrillReport>(reply.expect_success()?).map(|_| ())
    }

    /// Runs the commands in turn and times them.
    fn watch(&self, row: &mut Row, goes_on: impl Fn() -> bool) {
        while goes_on() {
            for command in &self.commands {
                let begin = Instant::now();
                if let Err(error) = ask(command) {
                    row.wrong.push(error);
                }
                row.commands += 1;
                row.longest_ms = row.longest_ms.max(begin.elapsed().as_secs_f64() * 1000.0);
            }
        }
    }

    /// Whether daemon and overlay are in the state of `before`, with the same slurmctld.
    fn is_as(&self, before: &Status) -> bool {
        self.client.get::<Status>("/v1/status").is_ok_and(|now| {
            let same = |status: &Status| {
                let config = &status.config;
                let modes = (config.partition_modes.clone(), config.account_modes.clone());
                (config.mode.clone(), modes, status.plugin.pid, status.plugin.ejections)
            };
            fit(&now).is_ok() && same(&now) == same(before)
        })
    }
}

impl Row {
    /// Counts what the overlay did since the row began.
    fn count(&mut self, was: &PluginStatus, now: &PluginStatus) {
        let since = |of: fn(&PluginStatus) -> u64| of(now).saturating_sub(of(was));
        self.asks = since(|plugin| plugin.asks);
        self.in_vain = self.asks.saturating_sub(since(|plugin| plugin.answers));
        self.in_vain_ms = as_f64(since(|plugin| plugin.late_ns)) / 1e6;
        let grew = |bucket: &&(u64, u64)| !was.ask_ns.buckets.contains(bucket);
        let edges = now.ask_ns.buckets.iter().filter(grew).map(|(edge, _)| *edge);
        // Without a call in the drill's time the job step called nothing: it took none.
        self.call_ms = as_f64(edges.max().unwrap_or(0)) / 1e6;
    }
}

/// Runs a command that asks slurmctld.
fn ask((program, words): &(&'static str, Vec<String>)) -> Result<String, String> {
    output(program, &words.iter().map(String::as_str).collect::<Vec<_>>(), b"")
}

/// Stops the daemon again and again. A process of its own lets the daemon go on when this one ends.
fn hang(pid: Pid, _: Option<&str>) -> Result<(), String> {
    let words = ["-c".to_owned(), format!("read -r _; kill -CONT {pid}")];
    let mut guard = Command::new("/bin/sh");
    let guard = guard.args(words).stdin(Stdio::piped()).process_group(0).spawn();
    let mut guard = guard.map_err(|error| error.to_string())?;
    let mut done = Ok(());
    for _ in 0..HANGS {
        done = done.and(kill(pid, Signal::SIGSTOP));
        sleep(HANG);
        done = done.and(kill(pid, Signal::SIGCONT));
        sleep(HANG * 4);
    }
    let _ = guard.wait();
    done.map_err(|error| format!("phalanxd: {error}"))
}

/// Kills the daemon, which systemd would start again by itself.
fn die(pid: Pid, start: Option<&str>) -> Result<(), String> {
    kill(pid, Signal::SIGKILL).map_err(|error| format!("phalanxd: {error}"))?;
    sleep(WATCH);
    let Some(command) = start else {
        return output("systemctl", &["start", "phalanxd"], b"").map(|_| ());
    };
    started(command)
}

fn restart(pid: Pid, start: Option<&str>) -> Result<(), String> {
    let Some(command) = start else {
        return output("systemctl", &["restart", "phalanxd"], b"").map(|_| ());
    };
    kill(pid, Signal::SIGTERM).map_err(|error| format!("phalanxd: {error}"))?;
    let asked = Instant::now();
    // A process that nobody has waited for yet has no program any more.
    while std::fs::read_link(format!("/proc/{pid}/exe")).is_ok() {
        if asked.elapsed() > BACK {
            return Err(format!("phalanxd: no end within {} s of SIGTERM", BACK.as_secs()));
        }
        sleep(HANG);
    }
    started(command)
}

/// Runs the administrator's command; a daemon that it starts may go on writing.
fn started(command: &str) -> Result<(), String> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let done = shell.process_group(0).status().map_err(|error| format!("{command}: {error}"))?;
    if done.success() { Ok(()) } else { Err(format!("{command}: {done}")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use phalanx_messages::rest::Quantiles;

    #[test]
    fn each_row_of_readme_is_tried_or_not_for_a_reason() {
        let readme = include_str!("../../../../README.md");
        let table = readme.split("## How it fails safe").nth(1).unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let known = TRIED.iter().map(|(row, ..)| *row).chain(NOT_TRIED.map(|(row, _)| row));
        let mut known: Vec<&str> = known.collect();
        known.dedup();
        let rows: Vec<&str> = rows.skip(1).take(known.len()).collect();
        let missing = |all: &[&str], of: &[&str]| {
            let lacks = of.iter().filter(|row| !all.contains(row));
            lacks.map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(missing(&known, &rows), Vec::<String>::new());
        assert_eq!(missing(&rows, &known), Vec::<String>::new());
    }

    #[test]
    fn only_where_nothing_is_at_stake() {
        let mut status = Status::default();
        status.config.mode = "shadow".into();
        let (connected, synced, breaker) = (true, true, "closed".into());
        status.plugin = PluginStatus { connected, synced, breaker, ..<_>::default() };
        assert_eq!(fit(&status), Ok(()));
        let but = |change: fn(&mut Status)| {
            let mut other = status.clone();
            change(&mut other);
            fit(&other).unwrap_err()
        };
        assert!(but(|s| s.config.mode = "enforce".into()).contains("mode is enforce"));
        assert!(but(|s| s.config.mode = "off".into()).contains("mode is off"));
        let own = |s: &mut Status| {
            s.config.account_modes.insert("a".into(), "enforce".into());
        };
        assert_eq!(but(own), "a is in mode enforce: a drill is for mode shadow");
        assert!(but(|s| s.plugin.breaker = "open".into()).contains("not in use"));
        assert!(but(|s| s.plugin.connected = false).contains("not in use"));
    }

    /// State of a process, as `ps` writes it.
    fn state(pid: Pid) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?')
    }

    fn until(what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            sleep(Duration::from_millis(1));
        }
    }

    /// Stops the process of id `PHALANX_DRILLED`, in a process that
    /// `a_daemon_goes_on_when_the_drill_is_killed` starts and kills.
    #[test]
    #[ignore = "row unit of make test: a_daemon_goes_on_when_the_drill_is_killed starts it"]
    fn a_drill_to_kill() {
        let pid = std::env::var("PHALANX_DRILLED").unwrap().parse().unwrap();
        hang(Pid::from_raw(pid), None).unwrap();
    }

    /// Goal: a drill that is killed while the daemon hangs does not leave the daemon hanging.
    #[test]
    fn a_daemon_goes_on_when_the_drill_is_killed() {
        let pid_of = |child: &std::process::Child| Pid::from_raw(child.id().try_into().unwrap());
        let mut daemon = Command::new("sleep").arg("600").spawn().unwrap();
        let test = "commands::drill::tests::a_drill_to_kill";
        let mut drill = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored"])
            .env("PHALANX_DRILLED", daemon.id().to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (hung, killer) = (pid_of(&daemon), pid_of(&drill));
        until("the daemon never hung", || {
            let hangs = state(hung) == 'T';
            // Whoever is stopped cannot end the hang between this look and the kill.
            kill(killer, Signal::SIGSTOP).unwrap();
            until("the drill never stopped", || state(killer) == 'T');
            let both = hangs && state(hung) == 'T';
            kill(killer, if both { Signal::SIGKILL } else { Signal::SIGCONT }).unwrap();
            both
        });
        drill.wait().unwrap();
        until("the daemon still hangs", || state(hung) != 'T');
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    #[test]
    fn costs_are_those_of_the_failure() {
        let plugin = |asks, answers, late_ns, buckets: &[(u64, u64)]| PluginStatus {
            asks,
            answers,
            late_ns,
            ask_ns: Quantiles { buckets: buckets.to_vec(), ..<_>::default() },
            ..<_>::default()
        };
        let mut row = Row::default();
        let was = plugin(10, 9, 2_000_000, &[(1000, 5), (9_000_000, 1)]);
        row.count(&was, &plugin(30, 25, 9_500_000, &[(1000, 6), (2_100_000, 4), (9_000_000, 1)]));
        assert_eq!((row.asks, row.in_vain, row.in_vain_ms, row.call_ms), (20, 4, 7.5, 2.1));
    }
}
