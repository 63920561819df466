// SPDX-License-Identifier: GPL-3.0-or-later
//! Values, and the requests that store them.

use serde::{Deserialize, Serialize};

use super::{ValueType, short};
use phalanx_core::limits;

/// A collected value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Value {
    /// A finite number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Value {
    /// Returns the number, if the value is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// Reads a program's output as a value of a type.
    ///
    /// # Errors
    /// Fails with the reason for which it is no such value.
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

    /// Reads a value of a request.
    ///
    /// # Errors
    /// Fails with the reason for which it is no such value.
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

/// One value to store. An error of the value itself is reported by index,
/// so that one bad value never costs the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// Name of the datum.
    pub name: String,
    /// Node; absent: the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// A finite number or text; anything else is refused by its index.
    pub value: serde_json::Value,
    /// Time of the measurement by the source's clock, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Age of the value when sent, by the source's monotonic clock, in milliseconds.
    #[serde(default)]
    pub age_ms: u64,
}

/// `POST /v1/data`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Values; each names its node.
    #[cfg_attr(feature = "schema", schemars(length(max = limits::COLLECT_BATCH_MAX)))]
    pub values: Vec<Put>,
}

/// `PUT /v1/data/{name}/{node}`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PutOne {
    /// A number or text.
    #[cfg_attr(feature = "schema", schemars(with = "Value"))]
    pub value: serde_json::Value,
    /// Time of the measurement by the source's clock, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Age of the value when sent, by the source's monotonic clock, in milliseconds.
    #[serde(default)]
    pub age_ms: u64,
}

/// A value of a request that was not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// Position of the value in the request, from 0.
    pub index: usize,
    /// Reason of the refusal.
    pub reason: String,
}

/// Result of storing the values of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stored {
    /// Values stored.
    pub stored: usize,
    /// Values that were not stored.
    pub refused: Vec<Refused>,
}
