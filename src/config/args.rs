// SPDX-License-Identifier: GPL-3.0-or-later
//! The command line of `phalanxd`; its help and manual page come from here.

use std::path::PathBuf;

use clap::Parser;

use crate::DEFAULT_PATH;

/// The end of the manual page phalanx-gate(8).
const ABOUT_GATE: &str = "\
It has no configuration: phalanxd says what to ask and where to listen, by the
section [hdfs] and the key control.listen of phalanx.toml(5). It connects again
whenever phalanxd was started anew.

Signals:
  TERM, INT  end; jobs that declare inputs in HDFS are placed as others, and
             nobody listens at control.listen, meanwhile

Files:
  /run/phalanx/gate.sock  socket of phalanxd
  /run/phalanx/door.sock  socket of phalanxd for each client over TCP";

/// Asks NameNodes and listens for phalanxd, which itself speaks to no host but slurmctld's.
#[derive(Debug, Parser)]
#[command(name = "phalanx-gate", version)]
#[command(after_long_help = ABOUT_GATE)]
pub struct GateArgs {
    /// Socket of phalanxd.
    #[arg(long, value_name = "PATH", default_value = "/run/phalanx/gate.sock")]
    pub socket: PathBuf,
}

/// The end of the manual page phalanxd(8).
const ABOUT_DAEMON: &str = "\
Signals:
  HUP        read the configuration again; a wrong one is refused
  TERM, INT  end; Slurm places jobs by itself meanwhile

Files:
  /etc/phalanx/phalanx.toml        configuration, see phalanx.toml(5)
  /run/phalanx/plugin.sock         socket of the overlay plugin in slurmctld
  /run/phalanx/control.sock        socket of phalanx(1)
  /var/lib/phalanx/history.sqlite  decisions and placements

Environment:
  SLURM_CONF  slurm.conf, where it is not in Slurm's usual place";

/// Decides which nodes Slurm's jobs get; asked by the overlay plugin inside
/// slurmctld over a Unix socket.
#[derive(Debug, Parser)]
#[command(name = "phalanxd", version)]
#[command(after_long_help = ABOUT_DAEMON)]
pub struct Args {
    /// Configuration file.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
}
