// SPDX-License-Identifier: GPL-3.0-or-later
//! Options that every command takes, and the daemon that they name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Client, Method};
use crate::exit::Failure;
use crate::outcome::Outcome;
use phalanx_config::{Config, DEFAULT_PATH};
use phalanx_messages::target::Target;

/// Environment variable with the control socket.
const SOCKET_VARIABLE: &str = "PHALANX_SOCKET";
/// Environment variable with the addresses of daemons on other hosts, with commas.
const MASTER_VARIABLE: &str = "PHALANX_MASTER";

/// Options that every command takes.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Control socket of phalanxd [default: the one of --config, else $PHALANX_SOCKET, else the
    /// one of /etc/phalanx/phalanx.toml]
    #[arg(long, global = true, value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
    /// Address of phalanxd on another host (control.listen there): http://HOST[:PORT]; several
    /// with commas are asked in turn [default: $PHALANX_MASTER, else control.masters of
    /// /etc/phalanx/phalanx.toml, if there is no control socket]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        value_delimiter = ',',
        conflicts_with = "socket"
    )]
    pub master: Vec<Target>,
    /// Configuration of phalanxd to read [default: /etc/phalanx/phalanx.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl Global {
    /// Asks for a report and shows it.
    pub fn report<T: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        text: fn(&T) -> String,
    ) -> Result<Outcome, Failure> {
        self.exchange(Method::GET, path, None::<&()>, text)
    }

    /// Asks for anything, with a JSON body or without, and shows the answer as [`Global::report`]
    /// does.
    pub fn exchange<T: DeserializeOwned + Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        text: impl FnOnce(&T) -> String,
    ) -> Result<Outcome, Failure> {
        let client = self.client()?;
        let reply = client.ask(method, path, body)?;
        self.show(&client.parse::<T>(reply.expect_success()?)?, text)
    }

    /// Shows a report that this program made itself.
    pub fn show<T: Serialize>(
        &self,
        report: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<Outcome, Failure> {
        if self.json { Outcome::json(report) } else { Ok(Outcome::ok(text(report))) }
    }

    /// The configuration of `--config`, if the option is given.
    pub fn given_config(&self) -> Result<Option<Config>, Failure> {
        let config = self.config.as_ref().map(|file| Config::load(file)).transpose();
        config.map_err(Failure::usage)
    }

    /// The control socket: the given one, else that of the given configuration, else of the
    /// environment, else of the default configuration if it can be read, else the default one.
    pub fn control_socket(&self) -> Result<PathBuf, Failure> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        if let Some(config) = self.given_config()? {
            return Ok(config.control.socket);
        }
        Ok(variable(SOCKET_VARIABLE).map_or_else(|| default_config().control.socket, PathBuf::from))
    }

    /// The daemon that commands ask: the given one, else that of the given configuration, else of
    /// the environment, else of the default configuration. Of a configuration, its own socket and
    /// then its `control.masters`.
    pub fn client(&self) -> Result<Client, Failure> {
        let given = |targets| Ok(Client { targets, munge_socket: None, answered_by: None });
        if !self.master.is_empty() {
            return given(self.master.clone());
        }
        if let Some(socket) = &self.socket {
            return Ok(Client::local(socket.clone()));
        }
        if let Some(config) = self.given_config()? {
            return Ok(configured(&config));
        }
        let mut targets = Vec::new();
        if let Some(socket) = variable(SOCKET_VARIABLE) {
            targets.push(Target::Unix(socket.into()));
        }
        if let Some(urls) = variable(MASTER_VARIABLE) {
            for url in urls.to_string_lossy().split(',') {
                let target = url.trim().parse::<Target>();
                targets.push(
                    target
                        .map_err(|error| Failure::usage(format!("{MASTER_VARIABLE}: {error}")))?,
                );
            }
        }
        if targets.is_empty() { Ok(configured(&default_config())) } else { given(targets) }
    }
}

/// The file of the usual place, or the defaults: users need not be able to read it, and the daemon
/// may well run while somebody edits it.
pub fn default_config() -> Config {
    Config::load(Path::new(DEFAULT_PATH)).unwrap_or_default()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn configured(config: &Config) -> Client {
    let control = &config.control;
    let mut client = Client::local(control.socket.clone());
    // Checked with the configuration.
    client.targets.extend(control.masters.iter().filter_map(|url| url.parse::<Target>().ok()));
    client.munge_socket = config.munge_socket();
    client
}
