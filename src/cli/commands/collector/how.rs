// SPDX-License-Identifier: GPL-3.0-or-later
//! Options of a registration.

use clap::ValueEnum;

use crate::time::duration;
use phalanx_core::collect::{Kind, Output, Patch, ValueType};

/// How a registered program runs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct How {
    /// Time between two runs, such as 500ms, 30s, 5m [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    every: Option<u64>,
    /// Longest run [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    timeout: Option<u64>,
    /// Whether it measures, or computes from its inputs [default: collector]
    #[arg(long, value_enum)]
    kind: Option<KindWord>,
    /// Where it runs: all, a hostlist, or @master [default: all]
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
    /// Data that a processor reads
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',')]
    inputs: Option<Vec<String>>,
    /// Run on so many of the nodes; 0: on each [default: 0]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// An argument of the program; may be given several times
    #[arg(long = "arg", value_name = "TEXT", allow_hyphen_values = true)]
    args: Option<Vec<String>>,
    /// User to run as [default: [collect] run_as]
    #[arg(long, value_name = "USER")]
    run_as: Option<String>,
    /// One value, or lines NODE VALUE (with --nodes @master) [default: value]
    #[arg(long, value_enum)]
    output: Option<OutputWord>,
    /// Type of the value [default: number]
    #[arg(long = "type", value_enum)]
    value_type: Option<TypeWord>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindWord {
    Collector,
    Processor,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputWord {
    Value,
    Nodes,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TypeWord {
    Number,
    Text,
}

/// A duration in milliseconds; a number alone is seconds.
fn milliseconds(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a time such as 500ms, 30s or 5m, got {text:?}");
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000).ok_or_else(expected);
    }
    let duration = duration(text).ok_or_else(expected)?;
    u64::try_from(duration.as_millis()).map_err(|_| expected())
}

impl How {
    /// The change of a registration that these options ask for.
    pub fn patch(self, name: Option<String>, cmd: Option<String>) -> Patch {
        Patch {
            name,
            cmd,
            kind: self.kind.map(|kind| match kind {
                KindWord::Collector => Kind::Collector,
                KindWord::Processor => Kind::Processor,
            }),
            args: self.args,
            every_ms: self.every,
            timeout_ms: self.timeout,
            nodes: self.nodes,
            inputs: self.inputs,
            replicas: self.replicas,
            run_as: self.run_as,
            output: self.output.map(|output| match output {
                OutputWord::Value => Output::Value,
                OutputWord::Nodes => Output::Nodes,
            }),
            value_type: self.value_type.map(|value_type| match value_type {
                TypeWord::Number => ValueType::Number,
                TypeWord::Text => ValueType::Text,
            }),
            enabled: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_usual_forms() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2", 2000)] {
            assert_eq!(milliseconds(text), Ok(ms), "{text}");
        }
        for text in ["", "x", "-1s", "1.5", "99999999999999999999"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }
}
