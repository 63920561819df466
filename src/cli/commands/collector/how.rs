// SPDX-License-Identifier: GPL-3.0-or-later
//! Options of a registration.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;

use crate::time::duration;
use phalanx_messages::collect::{Kind, Output, Patch, ValueType};

/// Options of a registered program.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct How {
    /// Time between two runs, such as 500ms, 30s, 5m [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    every: Option<u64>,
    /// Longest run [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    timeout: Option<u64>,
    /// Whether it measures, or computes from its inputs [default: collector]
    #[arg(long, value_parser = one_of::<Kind>(["collector", "processor"]))]
    kind: Option<Kind>,
    /// Nodes to run it on: all, a hostlist, or @master [default: all]
    #[arg(long, value_name = "LIST")]
    nodes: Option<String>,
    /// Data that a processor reads
    #[arg(long, value_name = "NAME,NAME,...", value_delimiter = ',')]
    inputs: Option<Vec<String>>,
    /// Run on N of the nodes; 0: on each [default: 0]
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    /// An argument of the program; may be given several times
    #[arg(long = "arg", value_name = "TEXT", allow_hyphen_values = true)]
    args: Option<Vec<String>>,
    /// User to run as [default: [collect] run_as]
    #[arg(long, value_name = "USER")]
    run_as: Option<String>,
    /// One value, or lines NODE VALUE (with --nodes @master) [default: value]
    #[arg(long, value_parser = one_of::<Output>(["value", "nodes"]))]
    output: Option<Output>,
    /// Type of the value [default: number]
    #[arg(long = "type", value_parser = one_of::<ValueType>(["number", "text"]))]
    value_type: Option<ValueType>,
    /// When it starts to run, in the daemon's local time, such as 'Mon..Fri 08:00'; '': it always
    /// runs
    #[arg(long, value_name = "CALENDAR")]
    start: Option<String>,
    /// When it stops, such as 'Mon..Fri 18:00'; '': never
    #[arg(long, value_name = "CALENDAR")]
    stop: Option<String>,
}

/// Parses an enumeration by the words that it has in JSON.
fn one_of<T>(words: [&'static str; 2]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value(word.into()))
}

/// Parses a duration into milliseconds; a number alone is seconds.
fn milliseconds(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a time such as 500ms, 30s or 5m, got {text:?}");
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000).ok_or_else(expected);
    }
    let duration = duration(text).ok_or_else(expected)?;
    u64::try_from(duration.as_millis()).map_err(|_| expected())
}

impl How {
    /// Returns the change of a registration that the options ask for.
    pub fn patch(self, name: Option<String>, cmd: Option<String>) -> Patch {
        Patch {
            name,
            cmd,
            kind: self.kind,
            args: self.args,
            every_ms: self.every,
            timeout_ms: self.timeout,
            nodes: self.nodes,
            inputs: self.inputs,
            replicas: self.replicas,
            run_as: self.run_as,
            output: self.output,
            value_type: self.value_type,
            enabled: None,
            except: None,
            start: self.start,
            stop: self.stop,
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
