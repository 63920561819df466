// SPDX-License-Identifier: GPL-3.0-or-later
//! `phalanx collector agent`.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::exit::Failure;
use crate::global::Global;
use crate::outcome::Outcome;
use crate::site::own_node;
use phalanx_client::accounting;
use phalanx_client::agent::{AgentOptions, HttpService, run};
use phalanx_client::remote::Connection;
use phalanx_core::limits::AGENT_REPLY_BYTES_MAX;
use phalanx_messages::collect::MASTER;
use phalanx_messages::target::Target;

/// Run the programs that phalanxd assigns to this node, until a signal
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Name of this node in Slurm, or @master for the programs of phalanxd's host
    /// [default: $SLURMD_NODENAME, else the host's name up to its first dot]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Directory of programs that may be run; may be given several times [default:
    /// /etc/phalanx/collectors]
    #[arg(long, value_name = "DIRECTORY")]
    command_dir: Vec<PathBuf>,
    /// User that programs run as unless their registration names another
    #[arg(long, value_name = "USER", default_value = "nobody")]
    run_as: String,
    /// User that registrations may name besides --run-as; may be given several times
    #[arg(long, value_name = "USER")]
    allow_run_as: Vec<String>,
    /// Accept answers over TCP only from root and this user, as which phalanxd runs
    #[arg(long, value_name = "USER", default_value = "slurm")]
    server_user: String,
    /// Socket of munged, if not the machine's default
    #[arg(long, value_name = "SOCKET")]
    munge_socket: Option<PathBuf>,
    /// Log every turn
    #[arg(long, short)]
    verbose: bool,
}

/// Directory of programs unless the arguments name another.
const COMMAND_DIR: &str = "/etc/phalanx/collectors";
/// Longest time from a signal to the agent's end.
const STOP: Duration = Duration::from_secs(2);

impl Args {
    /// Runs the agent until SIGTERM or SIGINT.
    pub fn run(&self, global: &Global) -> Result<Outcome, Failure> {
        start(global, self).map(|()| Outcome::ok(""))
    }
}

fn start(global: &Global, arguments: &Args) -> Result<(), Failure> {
    let level = if arguments.verbose { log::LevelFilter::Debug } else { log::LevelFilter::Info };
    let mut logger = env_logger::Builder::new();
    // The journal has its own times.
    let _ = logger.filter_level(level).format_timestamp(None).format_target(false).try_init();
    let cannot =
        |what: &str, error: &dyn std::fmt::Display| Failure::usage(format!("{what}: {error}"));
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    signals.thread_block().map_err(|error| cannot("signals", &error))?;
    let (target, options) = options(global, arguments)?;
    log::info!("agent of {} for {target}", options.node);
    let service = HttpService::new(
        target.clone(),
        &options.node,
        arguments.munge_socket.clone(),
        servers(&arguments.server_user),
    )
    .map_err(|error| cannot("agent", &error))?;
    static STOPPED: AtomicBool = AtomicBool::new(false);
    if options.node == MASTER {
        let phalanxd = Connection::new(target.clone(), None, None, AGENT_REPLY_BYTES_MAX)
            .map_err(|error| cannot("agent", &error))?;
        std::thread::Builder::new()
            .name("accounting".to_owned())
            .spawn(move || accounting::run(phalanxd))
            .map_err(|error| cannot("agent", &error))?;
    }
    let thread = std::thread::Builder::new()
        .name("agent".to_owned())
        .spawn(move || run(service, options, &STOPPED))
        .map_err(|error| cannot("agent", &error))?;
    let signal = signals.wait().map_err(|error| cannot("signals", &error))?;
    log::info!("{signal}: ending what runs");
    STOPPED.store(true, Ordering::Relaxed);
    // Programs end at once; the request that the agent is in may be held for
    // longer, and nothing is lost with it.
    let until = Instant::now() + STOP;
    while !thread.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn options(global: &Global, arguments: &Args) -> Result<(Target, AgentOptions), Failure> {
    let target = match global.master.as_slice() {
        [] => Target::Unix(global.control_socket()?),
        [target] => target.clone(),
        _ => {
            let text = "--master: an agent feeds one phalanxd: start one agent for each";
            return Err(Failure::usage(text));
        }
    };
    let node = match &arguments.node {
        Some(node) => node.clone(),
        None => own_node()?,
    };
    if node == MASTER && matches!(target, Target::Tcp(_)) {
        return Err(Failure::usage(format!(
            "--node {MASTER} runs beside phalanxd, without --master"
        )));
    }
    let command_dirs = if arguments.command_dir.is_empty() {
        vec![PathBuf::from(COMMAND_DIR)]
    } else {
        arguments.command_dir.clone()
    };
    let options = AgentOptions {
        command_dirs,
        run_as: arguments.run_as.clone(),
        run_as_allowed: arguments.allow_run_as.clone(),
        service: target.to_string(),
        root: "/".into(),
        // Different on each node and at each start.
        seed: RandomState::new().hash_one(&node),
        node,
    };
    Ok((target, options))
}

/// Returns the user ids whose answers over TCP count: root's, and that of phalanxd's user, if any.
pub fn servers(user: &str) -> Vec<u32> {
    let named = nix::unistd::User::from_name(user).ok().flatten();
    let id = named.map(|user| user.uid.as_raw()).or_else(|| user.parse().ok());
    std::iter::once(0).chain(id).collect()
}
