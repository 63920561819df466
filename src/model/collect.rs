// SPDX-License-Identifier: GPL-3.0-or-later
//! What the data service, its agents and its clients say to each other.
//!
//! A *registration* (row of `t_DP` in `methods.md` section 3) names a program
//! that makes one datum; a *value* (row of `t_Data`) is what it printed on one
//! node. Answers may gain fields; requests refuse unknown ones.

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::model::hostlist;

/// Pseudo node on which the daemon itself runs registrations.
pub const MASTER: &str = "@master";
/// Pseudo node whose values are the whole cluster's.
pub const CLUSTER: &str = "@cluster";
/// [`Registration::nodes`] for every node with an agent.
pub const ALL: &str = "all";
/// Beginning of a command that is part of the agent.
pub const BUILTIN: &str = "builtin:";

/// Where the input of a registration comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Measures.
    #[default]
    Collector,
    /// Computes from other data, which it gets on standard input.
    Processor,
}

/// What the lines of the output mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// One value, of the node it ran on.
    #[default]
    Value,
    /// Lines `NODE VALUE`; on [`MASTER`] only.
    Nodes,
}

/// Type of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    /// A finite number.
    #[default]
    Number,
    /// Text of at most [`limits::COLLECT_TEXT_BYTES_MAX`] bytes.
    Text,
}

/// Stands for a datum: what the nodes are configured to have. Never stale.
pub const CONFIGURATION: &str = "configuration";
/// Stands for a datum: what was learned from jobs that ended.
pub const HISTORY: &str = "history";
/// Stands for a datum: nothing.
pub const NONE: &str = "none";

/// Who made a registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `[collector.NAME]` of the configuration.
    Config,
    /// REST or the command line.
    #[default]
    Api,
}

/// A program that makes one datum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Registration {
    /// Name of the datum.
    pub name: String,
    /// Collector or processor.
    pub kind: Kind,
    /// Absolute path of the program, or `builtin:NAME`.
    pub cmd: String,
    /// Its arguments; there is no shell.
    pub args: Vec<String>,
    /// Time between two runs, milliseconds.
    pub every_ms: u64,
    /// Longest run, milliseconds.
    pub timeout_ms: u64,
    /// [`ALL`], a hostlist, or [`MASTER`].
    pub nodes: String,
    /// Data that a processor reads.
    pub inputs: Vec<String>,
    /// Run on so many of the nodes; 0: on each.
    pub replicas: u32,
    /// User to run as; `None`: the configured one.
    pub run_as: Option<String>,
    /// What the output means.
    pub output: Output,
    /// Type of the value.
    #[serde(rename = "type")]
    pub value_type: ValueType,
    /// Whether it runs.
    pub enabled: bool,
    /// Grows with each change of this registration.
    pub version: u64,
    /// Who made it.
    pub origin: Origin,
    /// Last change, unix milliseconds.
    pub changed_ms: u64,
}

impl Default for Registration {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: Kind::Collector,
            cmd: String::new(),
            args: Vec::new(),
            every_ms: 30_000,
            timeout_ms: 5_000,
            nodes: ALL.to_owned(),
            inputs: Vec::new(),
            replicas: 0,
            run_as: None,
            output: Output::Value,
            value_type: ValueType::Number,
            enabled: true,
            version: 1,
            origin: Origin::Api,
            changed_ms: 0,
        }
    }
}

/// A registration or a change of one: what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patch {
    /// See [`Registration::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// See [`Registration::kind`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// See [`Registration::cmd`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    /// See [`Registration::args`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// See [`Registration::every_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// See [`Registration::timeout_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// See [`Registration::nodes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// See [`Registration::inputs`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// See [`Registration::replicas`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// See [`Registration::run_as`]; empty: the configured one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    /// See [`Registration::output`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// See [`Registration::value_type`].
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub value_type: Option<ValueType>,
    /// See [`Registration::enabled`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl Patch {
    /// Changes what is said; the name is the caller's business.
    pub fn apply(self, to: &mut Registration) {
        fn set<T>(slot: &mut T, new: Option<T>) {
            if let Some(new) = new {
                *slot = new;
            }
        }
        set(&mut to.kind, self.kind);
        set(&mut to.cmd, self.cmd);
        set(&mut to.args, self.args);
        set(&mut to.every_ms, self.every_ms);
        set(&mut to.timeout_ms, self.timeout_ms);
        set(&mut to.nodes, self.nodes);
        set(&mut to.inputs, self.inputs);
        set(&mut to.replicas, self.replicas);
        if let Some(user) = self.run_as {
            to.run_as = (!user.is_empty()).then_some(user);
        }
        set(&mut to.output, self.output);
        set(&mut to.value_type, self.value_type);
        set(&mut to.enabled, self.enabled);
    }
}

/// Whether this can be the name of a datum.
#[must_use]
pub fn valid_name(name: &str) -> bool {
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let rest = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
    begins && name.len() <= limits::COLLECT_NAME_BYTES_MAX && name.bytes().all(rest)
}

/// Whether this can be the name of a node, or is a pseudo node.
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
        self.check_nodes()?;
        self.check_inputs()?;
        let user = self.run_as.as_deref().unwrap_or("nobody");
        let part = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if user.is_empty() || user.len() > 32 || !user.bytes().all(part) {
            return Err(format!("run_as: expected the name of a user, got {:?}", short(user)));
        }
        Ok(())
    }

    /// Name after `builtin:`, if the command is one.
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

    fn check_nodes(&self) -> Result<(), String> {
        if self.nodes.len() > limits::COLLECT_NODES_BYTES_MAX {
            let max = limits::COLLECT_NODES_BYTES_MAX;
            return Err(format!("nodes: expected at most {max} bytes, got {}", self.nodes.len()));
        }
        if self.nodes != ALL && self.nodes != MASTER {
            let names = hostlist::expand(&self.nodes, limits::NODES_MAX)
                .map_err(|error| format!("nodes: {error}"))?;
            if names.is_empty() || !names.iter().all(|name| valid_node(name)) {
                return Err(format!(
                    "nodes: expected `all`, `@master` or a hostlist, got {:?}",
                    short(&self.nodes)
                ));
            }
        }
        if self.output == Output::Nodes && self.nodes != MASTER {
            return Err("output: \"nodes\" needs nodes = \"@master\"".to_owned());
        }
        if self.nodes == MASTER && self.replicas > 1 {
            return Err(format!("replicas: there is one master, got {}", self.replicas));
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
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(format!("{field}: expected {min} to {max}, got {value}"))
}

/// The first characters, for messages.
#[must_use]
pub fn short(text: &str) -> String {
    const CHARS: usize = 60;
    if text.chars().count() <= CHARS {
        return text.to_owned();
    }
    text.chars().take(CHARS).chain("...".chars()).collect()
}

/// What was collected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A finite number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Value {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// What a program printed, as a value of this type.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(printed: &str, value_type: ValueType) -> Result<Value, String> {
        let text = printed.trim();
        match value_type {
            ValueType::Text => Value::Text(text.to_owned()).checked(),
            ValueType::Number => {
                let number: f64 =
                    text.parse().map_err(|_| format!("not a number: {:?}", short(text)))?;
                Value::Number(number).checked()
            }
        }
    }

    /// A value of a request.
    ///
    /// # Errors
    /// Why it is none.
    pub fn from_json(value: &serde_json::Value) -> Result<Value, String> {
        match value {
            serde_json::Value::Number(number) => number
                .as_f64()
                .ok_or_else(|| format!("not a finite number: {number}"))
                .and_then(|number| Value::Number(number).checked()),
            serde_json::Value::String(text) => Value::Text(text.clone()).checked(),
            other => Err(format!("expected a number or text, got {}", kind_of(other))),
        }
    }

    fn checked(self) -> Result<Value, String> {
        match &self {
            Value::Number(number) if !number.is_finite() => {
                Err(format!("not a finite number: {number}"))
            }
            Value::Text(text) if text.len() > limits::COLLECT_TEXT_BYTES_MAX => Err(format!(
                "expected at most {} bytes of text, got {}",
                limits::COLLECT_TEXT_BYTES_MAX,
                text.len()
            )),
            Value::Text(text) if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') => {
                Err("control characters in the text".to_owned())
            }
            _ => Ok(self),
        }
    }
}

fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "a truth value",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "text",
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::Object(_) => "an object",
    }
}

/// One value to store. What is wrong with the value itself is told by index,
/// so that one bad value never costs the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// Name of the datum.
    pub name: String,
    /// Node; absent: the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A number or text.
    pub value: serde_json::Value,
    /// When it was measured by the source's clock, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// How long ago that was when it was sent, by the source's monotonic clock.
    #[serde(default)]
    pub age_ms: u64,
}

/// `POST /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// At most [`limits::COLLECT_BATCH_MAX`]; each names its node.
    pub values: Vec<Put>,
}

/// `PUT /v1/data/{name}/{node}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutOne {
    /// A number or text.
    pub value: serde_json::Value,
    /// See [`Put::time_ms`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// See [`Put::age_ms`].
    #[serde(default)]
    pub age_ms: u64,
}

/// A value of a request that was not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Its position in the request, from 0.
    pub index: usize,
    /// Why.
    pub reason: String,
}

/// What became of the values of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Values stored.
    pub stored: usize,
    /// The others.
    pub refused: Vec<Refused>,
}

/// One run of an instance that did not simply give a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunReport {
    /// Name of the registration.
    pub name: String,
    /// When it ended, by the agent's clock, unix milliseconds.
    pub time_ms: u64,
    /// How long ago that was when it was sent.
    pub age_ms: u64,
    /// How long it ran.
    pub took_ms: u64,
    /// Exit status, if it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// Signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why there is no value; absent after a good run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// End of its standard error.
    pub stderr: String,
    /// Failures in a row.
    pub failures: u64,
    /// Pause before the next try, beyond the period.
    pub backoff_ms: u64,
}

/// `POST /v1/agents/{node}/sync`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SyncRequest {
    /// Generation of the assignments that the agent runs; 0: none.
    pub generation: u64,
    /// Longest time to hold the answer while the generation stays the same.
    pub wait_ms: u64,
    /// The agent's version.
    pub version: String,
    /// Values dropped for want of room since the agent started.
    pub dropped: u64,
    /// Values since the last sync.
    pub values: Vec<Put>,
    /// Runs that failed, and first good ones after a failure.
    pub runs: Vec<RunReport>,
}

/// Answer to [`SyncRequest`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SyncReply {
    /// Generation of the assignments in force.
    pub generation: u64,
    /// The daemon's clock, unix milliseconds.
    pub now_ms: u64,
    /// Values that were not stored.
    pub refused: Vec<Refused>,
    /// All that the node runs; `None` when the generation is the agent's own.
    pub assignments: Option<Vec<Registration>>,
}

/// The latest value of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Node.
    pub node: String,
    /// What was collected.
    pub value: Value,
    /// When, by the source's clock, unix milliseconds.
    pub time_ms: u64,
    /// When it arrived, by the daemon's clock, unix milliseconds.
    pub received_ms: u64,
    /// Its age by monotonic clocks.
    pub age_ms: u64,
    /// Whether it is too old to be used.
    pub stale: bool,
}

/// `GET /v1/data/{name}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataReport {
    /// Name of the datum.
    pub name: String,
    /// Period of its registration, if there is one.
    pub every_ms: Option<u64>,
    /// Age from which on a value is stale.
    pub stale_after_ms: u64,
    /// By node name.
    pub values: Vec<Row>,
}

/// One line of `GET /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataName {
    /// Name of the datum.
    pub name: String,
    /// Nodes with a value.
    pub nodes: u64,
    /// Of these, usable ones.
    pub fresh: u64,
    /// Of these, too old ones.
    pub stale: u64,
    /// Largest age.
    pub oldest_age_ms: u64,
    /// Smallest age.
    pub newest_age_ms: u64,
}

/// `GET /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNames {
    /// By name.
    pub names: Vec<DataName>,
}

/// One past value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// By the source's clock, unix milliseconds.
    pub time_ms: u64,
    /// By the daemon's clock, unix milliseconds.
    pub received_ms: u64,
    /// What was collected.
    pub value: Value,
}

/// `GET /v1/data/{name}/{node}/history`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// Name of the datum.
    pub name: String,
    /// Node.
    pub node: String,
    /// Oldest first.
    pub points: Vec<Point>,
}

/// How the instances of a registration are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No node has an agent for it, or none has run it yet.
    #[default]
    Waiting,
    /// Every instance gives values.
    Running,
    /// Some instance fails, or its value is stale.
    Failing,
    /// Switched off.
    Stopped,
}

/// Instances of one registration by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instances {
    /// Nodes that should run it and have an agent.
    pub assigned: u64,
    /// Nodes with a usable value.
    pub fresh: u64,
    /// Nodes whose value is too old.
    pub stale: u64,
    /// Nodes whose last run failed.
    pub failing: u64,
}

/// One registration in `GET /v1/collectors`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorReport {
    /// The registration.
    #[serde(flatten)]
    pub registration: Registration,
    /// All instances together.
    pub state: State,
    /// How many are how.
    pub instances: Instances,
    /// The latest error of any node.
    pub last_error: Option<String>,
    /// One entry a node (`GET /v1/collectors/{name}` only), failing ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes_state: Vec<InstanceReport>,
}

/// One instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    /// Node.
    pub node: String,
    /// How it is.
    pub state: State,
    /// Age of its value.
    pub age_ms: Option<u64>,
    /// Its last reported run, usually a failed one.
    pub run: Option<RunReport>,
}

/// `GET /v1/collectors`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectorsReport {
    /// Generation of the assignments in force.
    pub generation: u64,
    /// By name.
    pub collectors: Vec<CollectorReport>,
}

/// One agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Node.
    pub node: String,
    /// Its version.
    pub version: String,
    /// Age of its last sync.
    pub last_seen_ms: u64,
    /// Whether it counts as alive.
    pub connected: bool,
    /// Generation that it runs.
    pub generation: u64,
    /// Values received.
    pub values: u64,
    /// Values that it dropped for want of room.
    pub dropped: u64,
    /// Its values that were refused.
    pub refused: u64,
}

/// `GET /v1/agents`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentsReport {
    /// By node.
    pub agents: Vec<AgentReport>,
}

/// The service in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Registrations.
    pub registrations: u64,
    /// Agents that are alive.
    pub agents: u64,
    /// Latest values.
    pub values: u64,
    /// Of these, too old ones.
    pub stale: u64,
    /// Values written to the database since the start.
    pub written: u64,
    /// Failures of the database.
    pub errors: u64,
    /// Text of the last one, until a write succeeds.
    pub last_error: Option<String>,
    /// Times that the wall clock was set.
    pub clock_jumps: u64,
}

/// Which datum a method uses, and what instead when it is stale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseChange {
    /// Name of the datum, or `configuration`.
    pub name: String,
    /// What stands in for stale values; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// One line of `GET /v1/use`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseReport {
    /// What uses it, such as `share.capability`.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// What stands in for stale values.
    pub fallback: String,
    /// Configuration or REST.
    pub origin: Origin,
    /// Nodes with a usable value.
    pub fresh: u64,
    /// Nodes whose value is too old.
    pub stale: u64,
}

/// `GET /v1/use`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsesReport {
    /// By key.
    pub uses: Vec<UseReport>,
}

/// Where a node's value came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TakenFrom {
    /// Its own fresh value.
    #[default]
    Data,
    /// The fallback, scaled to the other nodes' fresh values.
    Scaled,
    /// The fallback.
    Fallback,
}

/// What a method takes for one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsedValue {
    /// Node.
    pub node: String,
    /// The number.
    pub value: f64,
    /// Where it came from.
    pub from: TakenFrom,
    /// Age of the node's own value, if it has one.
    pub age_ms: Option<u64>,
}

/// `GET /v1/use/{key}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsedValues {
    /// What uses it.
    pub key: String,
    /// Name of the datum.
    pub name: String,
    /// What stands in for stale values.
    pub fallback: String,
    /// In the order asked for.
    pub values: Vec<UsedValue>,
}

/// What a MUNGE credential of a request carries: it is good for this request
/// only. `path` is the path with its query as sent.
#[must_use]
pub fn request_text(method: &str, path: &str, body: &[u8]) -> String {
    use sha2::Digest;
    use std::fmt::Write as _;
    let mut text = format!("phalanx/1\n{method}\n{path}\n");
    for byte in sha2::Sha256::digest(body) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}
