// SPDX-License-Identifier: GPL-3.0-or-later
//! What can be typed. Help, manual pages and completion come from here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::agent::AgentArgs;
use super::collector::CollectorCommand;
use super::exit::{ABOUT_ALL, DOCTOR_EXIT_CODES, EXIT_CODES};
use super::hdfs::HdfsArgs;
use super::record::RecordCommand;
use super::replay::ReplayArgs;
use super::share::ShareArgs;
use super::simulate::SimulateArgs;
use super::solve::SolveArgs;
use super::splits::SplitsArgs;
use super::whatif::WhatIfArgs;
use phalanx_core::target::Target;

/// Ask phalanxd about placement, or check its configuration.
#[derive(Debug, Parser)]
#[command(name = "phalanx", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(after_long_help = ABOUT_ALL, subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Top,
}

/// Options that every command takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Global {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Control socket of phalanxd [default: of --config, else $PHALANX_SOCKET, else of
    /// /etc/phalanx/phalanx.toml]
    #[arg(long, global = true, value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
    /// Where phalanxd listens on another host (control.listen there): http://HOST[:PORT]; several
    /// with commas are asked in turn [default: $PHALANX_MASTER, else control.masters of
    /// /etc/phalanx/phalanx.toml, where there is no control socket]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        value_delimiter = ',',
        conflicts_with = "socket"
    )]
    pub master: Vec<Target>,
    /// Configuration of phalanxd, which names the socket
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Top {
    /// The ones that end with one report.
    #[command(flatten)]
    Command(Command),
    /// Solve one problem given as JSON, without the daemon
    #[command(after_help = EXIT_CODES)]
    Solve(SolveArgs),
    /// Show which task of a job reads which blocks of its input
    #[command(after_help = EXIT_CODES)]
    Splits(SplitsArgs),
    /// Look into the HDFS of the site
    Hdfs(HdfsArgs),
    /// Run what phalanxd assigns to this node, until ended by a signal
    #[command(after_help = EXIT_CODES)]
    Agent(AgentArgs),
    /// Split an input over nodes by what each can do
    #[command(after_help = EXIT_CODES)]
    Share(ShareArgs),
    /// Register programs that measure the nodes, and see what they give
    Collector {
        /// What to do.
        #[command(subcommand)]
        command: CollectorCommand,
    },
    /// Simulate a log under one or several policies, without the daemon
    #[command(after_help = EXIT_CODES)]
    Simulate(Box<SimulateArgs>),
    /// Record what phalanxd decides, and everything that it decides from
    Record {
        /// What to do.
        #[command(subcommand)]
        command: RecordCommand,
    },
    /// Decide again what was recorded: the same way, or under another configuration (--config)
    ///
    /// The recorded questions and events go to the code that answers Slurm, and each answer is
    /// compared to the last bit with the recorded one. With --config each question is decided
    /// under that configuration too, in the state that there was. Orders and splits that gang,
    /// bag and data planning made then are followed as they were recorded.
    #[command(after_help = EXIT_CODES)]
    Replay(ReplayArgs),
    /// Simulate the live queue under another configuration (--config) and under the one in force
    ///
    /// Nothing is changed: phalanxd is asked for nodes, jobs and learned runtimes, and the
    /// simulation runs here. Jobs that wait for something else than resources are left out.
    /// --config names the other configuration only: the control socket is that of --socket,
    /// $PHALANX_SOCKET or /etc/phalanx/phalanx.toml.
    #[command(after_help = EXIT_CODES)]
    WhatIf(WhatIfArgs),
}

/// The commands that end with one report.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show the daemon, the plugin, and what became of Slurm's placement calls
    #[command(after_help = EXIT_CODES)]
    Status,
    /// Show usage and weight of each resource, and usage and dispersion of each node
    #[command(after_help = EXIT_CODES)]
    Nodes,
    /// Show why a job runs where it runs, or why it waits
    #[command(after_help = EXIT_CODES)]
    Explain {
        /// Job: 123, 120_7 (array task) or 130+1 (component of a het job)
        #[arg(value_name = "JOB")]
        job: String,
    },
    /// Show how often Slurm and the decisions of shadow mode agreed
    #[command(after_help = EXIT_CODES)]
    Shadow {
        /// Begin of the period: a duration back from now (90min, 24h, 7d) or a time
        /// (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z)
        #[arg(long, value_name = "TIME", default_value = "24h")]
        since: String,
    },
    /// Show the plan for the pending jobs
    #[command(after_help = EXIT_CODES)]
    Plan {
        /// Only job arrays as bags of tasks: split, makespan, energy, profit and its bound
        #[arg(long)]
        bags: bool,
    },
    /// Check a configuration without the daemon
    #[command(after_help = EXIT_CODES)]
    Config {
        /// What to do with it.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show what ran, what was learned from it, and add what ran before
    #[command(after_help = EXIT_CODES)]
    History {
        /// What to do with it.
        #[command(subcommand)]
        command: HistoryCommand,
    },
    /// Make phalanxd read its configuration again
    ///
    /// A wrong file is refused and the configuration in force stays. Root and
    /// SlurmUser may do this, and the users of [control] allowed_uids.
    #[command(after_help = EXIT_CODES)]
    Reload,
    /// Check this host: PluginDir, versions, sockets, munge, slurm.conf, clock
    ///
    /// Each finding says what is so, what follows, and which line to change.
    /// Nothing is changed. Run it as root to see also what slurmctld has loaded.
    #[command(after_help = DOCTOR_EXIT_CODES)]
    Doctor {
        /// slurm.conf to look at [default: $SLURM_CONF, else /etc/slurm/slurm.conf]
        #[arg(long, value_name = "FILE")]
        slurm_conf: Option<PathBuf>,
    },
    /// Write manual pages and completion scripts into a directory
    #[command(hide = true)]
    Generate {
        /// Directory, made if missing: man/, bash/, zsh/, fish/ below it
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
}

/// `phalanx history`
#[derive(Clone, Debug, Subcommand)]
pub enum HistoryCommand {
    /// Show how fast job classes run on which nodes
    #[command(after_help = EXIT_CODES)]
    Speeds {
        /// Only this job class
        #[arg(long, value_name = "CLASS")]
        class: Option<String>,
        /// Only this node
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
    /// Show what is believed of power and energy, and where it comes from
    #[command(after_help = EXIT_CODES)]
    Energy,
    /// Show runs of jobs that ended, newest first
    #[command(after_help = EXIT_CODES)]
    Runs {
        /// Begin of the period: a duration back from now (90min, 24h, 7d) or a time
        /// (2026-11-20, 2026-11-20T08:00, 2026-11-20T08:00:00Z)
        #[arg(long, value_name = "TIME", default_value = "24h")]
        since: String,
        /// Most runs that are shown
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        limit: u32,
    },
    /// Add what sacct knows: its output, or with --sacct the accounting of this cluster
    ///
    /// The text is that of `sacct --parsable2` or `--parsable`, with its header, plain or
    /// compressed (gzip, Zstandard); JobID, State, Start and End or Elapsed are needed, JobName,
    /// User, Account, NodeList and ReqTRES wanted. Times are of this machine's time zone. A run
    /// that is known already counts once. While phalanxd runs, it takes the runs in (root,
    /// SlurmUser and the users of [control] allowed_uids may do this); else they are written to
    /// the file of its configuration.
    #[command(after_help = EXIT_CODES)]
    Import {
        /// Text of sacct; - for standard input
        #[arg(value_name = "FILE", required_unless_present = "sacct", conflicts_with = "sacct")]
        file: Option<PathBuf>,
        /// Run sacct, for all users
        #[arg(long)]
        sacct: bool,
        /// With --sacct: begin of the period
        #[arg(long, value_name = "TIME", default_value = "30d")]
        since: String,
    },
}

/// `phalanx config`
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a file: every problem with line, column, key and what was expected
    #[command(after_help = EXIT_CODES)]
    Check {
        /// File to check [default: the one of --config, or /etc/phalanx/phalanx.toml]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}
