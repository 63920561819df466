// SPDX-License-Identifier: GPL-3.0-or-later
//! From what was typed to what is to be done.

use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, SpanRelativeTo, Timestamp};

use super::args::{Command, ConfigCommand, Global, HistoryCommand};
use super::client::Masters;
use super::exit::{Exit, Failure};
use phalanx_core::target::Target;
use phalanx_service::config::{self, Config};

/// What to do, with everything looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// `config check`
    Check {
        /// The file.
        file: PathBuf,
        /// JSON instead of text.
        json: bool,
    },
    /// `generate`
    Generate {
        /// Where to.
        directory: PathBuf,
    },
    /// `doctor`
    Doctor {
        /// slurm.conf.
        conf: PathBuf,
        /// phalanx.toml.
        config: PathBuf,
        /// Control socket.
        socket: PathBuf,
        /// JSON instead of text.
        json: bool,
    },
    /// `status`
    Status(Ask),
    /// `nodes`
    Nodes(Ask),
    /// `explain`
    Explain(Ask),
    /// `shadow`
    Shadow(Ask),
    /// `plan`
    Plan(Ask, bool),
    /// `reload`
    Reload(Ask),
    /// `history speeds`
    Speeds(Ask),
    /// `history energy`
    Energy(Ask),
    /// `history runs`
    Runs(Ask),
    /// `history import`
    Import(Import),
}

/// A request to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Where the daemon listens.
    pub(super) masters: Masters,
    /// Path of the request with its query.
    pub(super) path: String,
    /// JSON instead of text.
    pub(super) json: bool,
}

/// An import of what ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// Where the text comes from.
    pub(super) from: From,
    /// Control socket.
    pub(super) socket: PathBuf,
    /// Configuration, for when nobody listens there.
    pub(super) config: Option<PathBuf>,
    /// JSON instead of text.
    pub(super) json: bool,
}

/// Where accounting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Text of sacct.
    File(PathBuf),
    /// Its standard input.
    Stdin,
    /// sacct itself, since unix milliseconds.
    Sacct(i64),
}

/// Environment variable with the control socket.
const SOCKET_VARIABLE: &str = "PHALANX_SOCKET";
/// Environment variable with the addresses of daemons on other hosts, with commas.
const MASTER_VARIABLE: &str = "PHALANX_MASTER";

/// # Errors
/// [`Exit::Usage`] for a job, time or configuration that is none.
pub(super) fn resolve(global: Global, command: Command) -> Result<Action, Failure> {
    let ask = |path: String| -> Result<Ask, Failure> {
        Ok(Ask { masters: masters(&global)?, path, json: global.json })
    };
    Ok(match command {
        Command::Status => Action::Status(ask("/v1/status".to_owned())?),
        Command::Nodes => Action::Nodes(ask("/v1/nodes".to_owned())?),
        Command::Explain { job } => Action::Explain(ask(format!("/v1/explain/{}", job_id(&job)?))?),
        Command::Shadow { since } => {
            let since_ms = since_ms(&since, Timestamp::now(), &TimeZone::system())?;
            Action::Shadow(ask(format!("/v1/shadow?since={since_ms}"))?)
        }
        Command::Plan { bags } => Action::Plan(ask("/v1/plan".to_owned())?, bags),
        Command::History { command } => history(&global, command, ask)?,
        Command::Reload => Action::Reload(ask("/v1/reload".to_owned())?),
        Command::Config { command: ConfigCommand::Check { file } } => {
            let file = file.or(global.config).unwrap_or_else(|| config::DEFAULT_PATH.into());
            Action::Check { file, json: global.json }
        }
        Command::Doctor { slurm_conf } => {
            let conf = super::doctor::find_conf(slurm_conf);
            // A wrong configuration is something to report, not to stop at.
            let socket = socket(&global).unwrap_or_else(|_| Config::default().control.socket);
            let config = global.config.unwrap_or_else(|| config::DEFAULT_PATH.into());
            Action::Doctor { conf, config, socket, json: global.json }
        }
        Command::Generate { directory } => Action::Generate { directory },
    })
}

fn history(
    global: &Global,
    command: HistoryCommand,
    ask: impl Fn(String) -> Result<Ask, Failure>,
) -> Result<Action, Failure> {
    let since = |text: &str| since_ms(text, Timestamp::now(), &TimeZone::system());
    Ok(match command {
        HistoryCommand::Speeds { class, node } => {
            let named = [("class", class), ("node", node)];
            let given = named.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            let query: Vec<String> =
                given.map(|(name, value)| format!("{name}={}", escape(value))).collect();
            Action::Speeds(ask(format!("/v1/history/speeds?{}", query.join("&")))?)
        }
        HistoryCommand::Energy => Action::Energy(ask("/v1/history/energy".to_owned())?),
        HistoryCommand::Runs { since: text, limit } => {
            let since_ms = since(&text)?;
            Action::Runs(ask(format!("/v1/history/runs?since={since_ms}&limit={limit}"))?)
        }
        HistoryCommand::Import { file, sacct: _, since: text } => Action::Import(Import {
            from: match file {
                Some(file) if file.as_os_str() == "-" => From::Stdin,
                Some(file) => From::File(file),
                None => From::Sacct(since(&text)?),
            },
            socket: socket(global)?,
            config: global.config.clone(),
            json: global.json,
        }),
    })
}

/// A value of a query, percent-encoded.
fn escape(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let one = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    value.bytes().map(one).collect()
}

/// The control socket: as given, else of the configuration given, else of the
/// environment, else of the default configuration if that can be read, else
/// the default one.
pub(super) fn socket(global: &Global) -> Result<PathBuf, Failure> {
    if let Some(socket) = &global.socket {
        return Ok(socket.clone());
    }
    if let Some(file) = &global.config {
        let config =
            Config::load(file).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        return Ok(config.control.socket);
    }
    if let Some(socket) = variable(SOCKET_VARIABLE) {
        return Ok(socket.into());
    }
    // Users need not be able to read it, and the daemon may well run while
    // somebody edits it.
    let config = Config::load(Path::new(config::DEFAULT_PATH)).unwrap_or_default();
    Ok(config.control.socket)
}

/// Where the daemon is to be asked: as given, else of the configuration given, else of the
/// environment, else of the default configuration. Of a configuration, its own socket and then
/// its `control.masters`.
pub(super) fn masters(global: &Global) -> Result<Masters, Failure> {
    let given = |targets| Ok(Masters { targets, munge_socket: None });
    if !global.master.is_empty() {
        return given(global.master.clone());
    }
    if let Some(socket) = &global.socket {
        return Ok(Masters::local(socket.clone()));
    }
    if let Some(file) = &global.config {
        let config =
            Config::load(file).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        return Ok(configured(&config));
    }
    let mut targets = Vec::new();
    if let Some(socket) = variable(SOCKET_VARIABLE) {
        targets.push(Target::Unix(socket.into()));
    }
    if let Some(urls) = variable(MASTER_VARIABLE) {
        for url in urls.to_string_lossy().split(',') {
            let target = url.trim().parse::<Target>();
            targets.push(target.map_err(|error| {
                Failure::new(Exit::Usage, format!("{MASTER_VARIABLE}: {error}"))
            })?);
        }
    }
    if !targets.is_empty() {
        return given(targets);
    }
    Ok(configured(&Config::load(Path::new(config::DEFAULT_PATH)).unwrap_or_default()))
}

fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn configured(config: &Config) -> Masters {
    let control = &config.control;
    let mut masters = Masters::local(control.socket.clone());
    // Checked with the configuration.
    masters.targets.extend(control.masters.iter().filter_map(|url| url.parse::<Target>().ok()));
    masters.munge_socket =
        (!control.munge_socket.is_empty()).then(|| (&control.munge_socket).into());
    masters
}

/// Checks a job's form: digits, then `_` and digits, then `+` and digits.
fn job_id(text: &str) -> Result<&str, Failure> {
    let number = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u32>().is_ok()
    };
    let (rest, component) = match text.split_once('+') {
        Some((rest, component)) => (rest, Some(component)),
        None => (text, None),
    };
    let (id, task) = match rest.split_once('_') {
        Some((id, task)) => (id, Some(task)),
        None => (rest, None),
    };
    if number(id) && component.is_none_or(number) && task.is_none_or(number) {
        return Ok(text);
    }
    let message = format!("JOB: expected a job such as 123, 120_7 or 130+1, got {text:?}");
    Err(Failure::new(Exit::Usage, message))
}

/// Unix milliseconds of a time, or of so long before `now`.
fn since_ms(text: &str, now: Timestamp, zone: &TimeZone) -> Result<i64, Failure> {
    let wrong = || {
        let message = format!(
            "--since: expected a duration (90min, 24h, 7d) or a time \
             (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z), got {text:?}"
        );
        Failure::new(Exit::Usage, message)
    };
    let time = if let Ok(time) = text.parse::<Timestamp>() {
        time
    } else if let Ok(time) = text.parse::<DateTime>() {
        zone.to_timestamp(time).map_err(|_| wrong())?
    } else {
        let span: Span = text.parse().map_err(|_| wrong())?;
        if span.is_negative() {
            return Err(wrong());
        }
        let back = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
        now.checked_sub(back).map_err(|_| wrong())?
    };
    Ok(time.as_millisecond().max(0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn jobs() {
        for good in ["1", "4294967295", "120_7", "130+1", "120_7+0"] {
            assert_eq!(job_id(good).unwrap(), good);
        }
        for bad in ["", "x", "-1", "+1", "1+", "_1", "1_", "1_[2-3]", "1.0", "4294967296", "1/2"] {
            let failure = job_id(bad).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn times() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let at = |text: &str| {
            let ms = since_ms(text, now, &zone).unwrap();
            Timestamp::from_millisecond(ms).unwrap().to_string()
        };
        assert_eq!(at("90min"), "2026-11-21T10:30:00Z");
        assert_eq!(at("24h"), "2026-11-20T12:00:00Z");
        assert_eq!(at("7d"), "2026-11-14T12:00:00Z");
        assert_eq!(at("1w 2h"), "2026-11-14T10:00:00Z");
        assert_eq!(at("2026-11-20"), "2026-11-19T23:00:00Z");
        assert_eq!(at("2026-11-20T08:00"), "2026-11-20T07:00:00Z");
        assert_eq!(at("2026-11-20T08:00:00Z"), "2026-11-20T08:00:00Z");
        assert_eq!(at("1900-01-01"), "1970-01-01T00:00:00Z");
        for bad in ["", "yesterday", "24", "-1h", "1y", "2026-13-01"] {
            assert_eq!(since_ms(bad, now, &zone).unwrap_err().exit, Exit::Usage, "{bad}");
        }
    }
}
