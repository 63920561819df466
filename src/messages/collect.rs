// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages between the data service, its agents and its clients.
//!
//! A *registration* (row of `t_DP` in `docs/methods.md`, section Share) names a program
//! that makes one datum; a *value* (row of `t_Data`) is what it printed on one
//! node. Answers may gain fields; requests refuse unknown ones.

mod agents;
pub mod calendar;
mod reports;
mod uses;
mod value;

pub use agents::{RunReport, SyncReply, SyncRequest};
pub use reports::{
    AgentReport, AgentsReport, CollectorReport, CollectorsReport, DataName, DataNames, DataReport,
    InstanceReport, Instances, Past, Point, Row, State, Totals,
};
use serde::{Deserialize, Serialize};
use sha2::Digest;
pub use uses::{TakenFrom, UseChange, UseReport, UsedValue, UsedValues, UsesReport};
pub use value::{Batch, Put, PutOne, Refused, Stored, Value};

use phalanx_core::hostlist;
use phalanx_core::limits;

/// Pseudo node on which the daemon itself runs registrations.
pub const MASTER: &str = "@master";
/// Pseudo node whose values are the whole cluster's.
pub const CLUSTER: &str = "@cluster";
/// [`Registration::nodes`] for every node with an agent.
pub const ALL: &str = "all";
/// Beginning of a command that is part of the agent.
pub const BUILTIN: &str = "builtin:";

/// Origin of a registration's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Measures.
    #[default]
    Collector,
    /// Computes from other data, which it gets on standard input.
    Processor,
}

/// Meaning of the lines of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// One value, of the node it ran on.
    #[default]
    Value,
    /// Lines `NODE VALUE`; on `@master` only.
    Nodes,
}

/// Type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    /// A finite number.
    #[default]
    Number,
    /// Text.
    Text,
}

/// Name that stands for the configured resources of the nodes, which are never stale.
pub const CONFIGURATION: &str = "configuration";
/// Name that stands for what was learned from ended jobs.
pub const HISTORY: &str = "history";
/// Name that stands for no datum.
pub const NONE: &str = "none";
/// Word of `balance.health`: neither a datum nor failed jobs put a node last.
pub const OFF: &str = "off";

/// Origin of a registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `[collector.NAME]` of the configuration.
    Config,
    /// REST or the command line.
    #[default]
    Api,
}

/// Pattern of the names that [`valid_name`] takes.
pub const NAME_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_.:-]{0,62}$";

/// Declares [`Registration`], its default and [`Patch`]: each field with its type, its type in a
/// change, and its default.
macro_rules! registration {
    ($($(#[$more:meta])* $field:ident: $kind:ty, $new:ty = $default:expr;)*) => {
        /// A program that makes one datum.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        pub struct Registration {
            /// Name of the datum.
            #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME_PATTERN)))]
            pub name: String,
            $($(#[$more])* pub $field: $kind,)*
            /// Number that grows with each change of the registration.
            pub version: u64,
            /// Origin of the registration.
            pub origin: Origin,
            /// Last change, unix milliseconds.
            pub changed_ms: u64,
        }

        impl Default for Registration {
            fn default() -> Self {
                Self {
                    name: String::new(),
                    $($field: $default,)*
                    version: 1,
                    origin: Origin::Api,
                    changed_ms: 0,
                }
            }
        }

        /// A new registration, or a change of one, in which absent fields stay.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        pub struct Patch {
            /// Name of the datum.
            #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME_PATTERN)))]
            pub name: Option<String>,
            $($(#[$more])* pub $field: Option<$new>,)*
        }

        impl Patch {
            /// Applies the fields that are present; the caller handles the name.
            pub fn apply(self, to: &mut Registration) {
                $(
                    if let Some(new) = self.$field {
                        to.$field = new.into();
                    }
                )*
                to.run_as.take_if(|user| user.is_empty());
            }
        }
    };
}

registration! {
    /// Collector or processor.
    kind: Kind, Kind = Kind::Collector;
    /// Absolute path of the program, below one of `collect.command_dirs`, or `builtin:NAME`.
    cmd: String, String = String::new();
    /// Arguments of the command; there is no shell.
    args: Vec<String>, Vec<String> = Vec::new();
    /// Time between two runs, milliseconds.
    #[cfg_attr(feature = "schema", schemars(range(
        min = limits::COLLECT_EVERY_MS.0, max = limits::COLLECT_EVERY_MS.1
    )))]
    every_ms: u64, u64 = 30_000;
    /// Longest run, milliseconds.
    #[cfg_attr(feature = "schema", schemars(range(
        min = limits::COLLECT_TIMEOUT_MS.0, max = limits::COLLECT_TIMEOUT_MS.1
    )))]
    timeout_ms: u64, u64 = 5_000;
    /// Nodes that run it: `all` with an agent, a hostlist, or `@master`, the daemon itself.
    nodes: String, String = ALL.to_owned();
    /// Data that a processor reads.
    inputs: Vec<String>, Vec<String> = Vec::new();
    /// Number of nodes on which the registration runs; 0: every node.
    replicas: u32, u32 = 0;
    /// User to run as; null, or empty in a change: the configured user.
    run_as: Option<String>, String = None;
    /// Meaning of the output.
    output: Output, Output = Output::Value;
    /// Type of the value.
    #[serde(rename = "type")]
    value_type: ValueType, ValueType = ValueType::Number;
    /// Whether the registration is switched on.
    enabled: bool, bool = true;
    /// Nodes on which it was stopped, as a hostlist.
    except: String, String = String::new();
    /// Times at which the registration starts to run, by the local time of phalanxd's host, such as
    /// `Mon..Fri 08:00`, `*-*-01 06:30` or `2026-12-01 08:00`; empty: it always runs.
    start: String, String = String::new();
    /// Times at which the registration stops to run; empty: never.
    stop: String, String = String::new();
}

/// Returns whether `name` can be the name of a datum.
#[must_use]
pub fn valid_name(name: &str) -> bool {
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
    begins && name.len() <= limits::COLLECT_NAME_BYTES_MAX && name.bytes().all(rest)
}

/// Returns whether `name` can be the name of a node, or is a pseudo node.
#[must_use]
pub fn valid_node(node: &str) -> bool {
    let part = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    let plain = !node.is_empty() && node.len() <= limits::COLLECT_NAME_BYTES_MAX;
    (plain && node.bytes().all(part)) || node == CLUSTER
}

impl Registration {
    /// Checks everything that can be checked without looking at files.
    ///
    /// # Errors
    /// The first field that is wrong, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        self.check_within(&mut limits::TEXT_NAMES_MAX.clone())
    }

    /// Checks one of several registrations; `room`, the number of nodes that all of them may list,
    /// falls.
    ///
    /// # Errors
    /// Fails as [`check`](Self::check) does.
    pub fn check_within(&self, room: &mut usize) -> Result<(), String> {
        if !valid_name(&self.name) {
            return Err(format!(
                "name: expected 1 to {} letters, digits, `_`, `.`, `:` or `-`, a letter or `_` \
                 first, got {:?}",
                limits::COLLECT_NAME_BYTES_MAX,
                short(&self.name)
            ));
        }
        if [CONFIGURATION, HISTORY, NONE].contains(&self.name.as_str()) {
            return Err(format!("name: {} has a meaning of its own", self.name));
        }
        self.check_command()?;
        within("every_ms", self.every_ms, limits::COLLECT_EVERY_MS)?;
        within("timeout_ms", self.timeout_ms, limits::COLLECT_TIMEOUT_MS)?;
        self.check_nodes(room)?;
        self.check_times()?;
        self.check_inputs()?;
        let user = self.run_as.as_deref().unwrap_or("nobody");
        let part = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if user.is_empty() || user.len() > 32 || !user.bytes().all(part) {
            return Err(format!("run_as: expected the name of a user, got {:?}", short(user)));
        }
        Ok(())
    }

    /// Returns the name after `builtin:`, if the command is one.
    #[must_use]
    pub fn builtin(&self) -> Option<&str> {
        self.cmd.strip_prefix(BUILTIN)
    }

    fn check_command(&self) -> Result<(), String> {
        let path_max = limits::COLLECT_PATH_BYTES_MAX;
        let word = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let good = match self.builtin() {
            Some(name) => !name.is_empty() && word(name),
            None => self.cmd.starts_with('/') && !self.cmd.contains('\0'),
        };
        if !good || self.cmd.len() > path_max {
            return Err(format!(
                "cmd: expected an absolute path of at most {path_max} bytes or builtin:NAME, got \
                 {:?}",
                short(&self.cmd)
            ));
        }
        let bytes: usize = self.args.iter().map(String::len).sum();
        let (args_max, bytes_max) = (limits::COLLECT_ARGS_MAX, limits::COLLECT_ARGS_BYTES_MAX);
        if self.args.len() > args_max || bytes > bytes_max {
            return Err(format!(
                "args: expected at most {args_max} of together at most {bytes_max} bytes, got {} \
                 of {bytes}",
                self.args.len()
            ));
        }
        if self.args.iter().any(|arg| arg.contains('\0')) {
            return Err("args: expected no NUL byte in them".to_owned());
        }
        Ok(())
    }

    fn check_nodes(&self, room: &mut usize) -> Result<(), String> {
        let max = limits::COLLECT_NODES_BYTES_MAX;
        for (key, bytes) in [("nodes", self.nodes.len()), ("except", self.except.len())] {
            if bytes > max {
                return Err(format!("{key}: expected at most {max} bytes, got {bytes}"));
            }
        }
        let mut names = |text: &str| {
            let names = hostlist::expand_within(text, room).map_err(|e| e.to_string())?;
            match names.iter().all(|name| valid_node(name)) {
                true => Ok(names),
                false => Err(format!("expected a hostlist, got {:?}", short(text))),
            }
        };
        if self.nodes != ALL
            && self.nodes != MASTER
            && names(&self.nodes).map_err(|error| format!("nodes: {error}"))?.is_empty()
        {
            return Err("nodes: expected `all`, `@master` or a hostlist, got \"\"".to_owned());
        }
        names(&self.except).map_err(|error| format!("except: {error}"))?;
        if self.output == Output::Nodes && self.nodes != MASTER {
            return Err("output: \"nodes\" needs nodes = \"@master\"".to_owned());
        }
        if self.nodes == MASTER && self.replicas > 1 {
            return Err(format!("replicas: there is one master, got {}", self.replicas));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), String> {
        for (field, text) in [("start", &self.start), ("stop", &self.stop)] {
            if !text.is_empty() {
                calendar::Calendar::parse(text)
                    .map_err(|expected| format!("{field}: {expected}, got {:?}", short(text)))?;
            }
        }
        if self.start.is_empty() && !self.stop.is_empty() {
            return Err("stop: expected a start as well".to_owned());
        }
        Ok(())
    }

    fn check_inputs(&self) -> Result<(), String> {
        let max = limits::COLLECT_INPUTS_MAX;
        if self.inputs.len() > max {
            return Err(format!("inputs: expected at most {max}, got {}", self.inputs.len()));
        }
        if let Some(bad) = self.inputs.iter().find(|input| !valid_name(input)) {
            return Err(format!("inputs: expected names of data, got {:?}", short(bad)));
        }
        if self.inputs.contains(&self.name) {
            return Err(format!("inputs: {} would read itself", self.name));
        }
        if self.kind == Kind::Collector && !self.inputs.is_empty() {
            return Err("inputs: only a processor has them (kind = \"processor\")".to_owned());
        }
        Ok(())
    }
}

fn within(field: &str, value: u64, (min, max): (u64, u64)) -> Result<(), String> {
    let wrong = || format!("{field}: expected {min} to {max}, got {value}");
    if (min..=max).contains(&value) { Ok(()) } else { Err(wrong()) }
}

/// Returns the first characters, for messages.
#[must_use]
pub fn short(text: &str) -> String {
    const CHARS: usize = 60;
    if text.chars().count() <= CHARS {
        return text.to_owned();
    }
    text.chars().take(CHARS).chain("...".chars()).collect()
}

/// Header by which a client asks for a proof of the answer, and in which the proof comes.
pub const PROOF_HEADER: &str = "phalanx-proof";

/// Returns the content of the MUNGE credential that proves an answer: it is valid for the request
/// with this credential, this status and body only.
#[must_use]
pub fn answer_text(request_credential: &str, status: u16, body: &[u8]) -> String {
    let mut hash = sha2::Sha256::new();
    // Of known length, so that nothing of the body counts as credential.
    hash.update((request_credential.len() as u64).to_le_bytes());
    hash.update(request_credential.as_bytes());
    hash.update(body);
    with_hash(format!("phalanx-answer/1\n{status}\n"), hash)
}

/// Appends a hash and the line end to `text`.
fn with_hash(text: String, hash: sha2::Sha256) -> String {
    let hex = |byte: u8| format!("{byte:02x}");
    text + &hash.finalize().into_iter().map(hex).collect::<String>() + "\n"
}

/// Returns the beginning of the content of a request's MUNGE credential. `realm` is the daemon's
/// from `WWW-Authenticate`; without it the credential is valid at any daemon of the same munged
/// users.
#[must_use]
pub fn request_head(realm: Option<&str>, method: &str, path: &str) -> String {
    match realm {
        Some(realm) => format!("phalanx/2\n{realm}\n{method}\n{path}\n"),
        None => format!("phalanx/1\n{method}\n{path}\n"),
    }
}

/// Returns the content of a request's MUNGE credential, which is valid for this request only.
/// `path` is the path with its query as sent.
#[must_use]
pub fn request_text(realm: Option<&str>, method: &str, path: &str, body: &[u8]) -> String {
    with_hash(request_head(realm, method, path), sha2::Sha256::new_with_prefix(body))
}
