// SPDX-License-Identifier: GPL-3.0-or-later
//! Use of the GPUs by their makers' tools.

use std::path::{Path, PathBuf};

/// Tools that report GPUs, with their paths in packages and their arguments.
const TOOLS: [(Tool, &[&str], &[&str]); 2] = [
    (
        Tool::NvidiaSmi,
        &["usr/bin/nvidia-smi", "usr/local/bin/nvidia-smi"],
        &["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"],
    ),
    (
        Tool::RocmSmi,
        &["opt/rocm/bin/rocm-smi", "usr/bin/rocm-smi", "usr/local/bin/rocm-smi"],
        &["--showuse", "--json"],
    ),
];

/// The way to run a built-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// A call of [`run`](super::run), which may block for a while.
    Call,
    /// A program with its arguments, and the tool whose [`Tool::parse`] reads its output.
    Program(PathBuf, &'static [&'static str], Tool),
}

/// A command by which a maker of GPUs shows their use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// NVIDIA's `nvidia-smi`.
    NvidiaSmi,
    /// AMD's `rocm-smi`.
    RocmSmi,
}

/// Returns the first tool that is installed.
pub(super) fn plan(root: &Path) -> Result<Plan, String> {
    for (tool, paths, args) in TOOLS {
        let found = paths.iter().map(|path| root.join(path)).find(|path| path.exists());
        if let Some(path) = found {
            return Ok(Plan::Program(path, args, tool));
        }
    }
    Err("neither nvidia-smi nor rocm-smi on this node".to_owned())
}

impl Tool {
    /// Returns the mean use of the GPUs, 0 to 1, without those that report no use.
    pub fn parse(self, printed: &str) -> Result<f64, String> {
        let percents: Vec<f64> = match self {
            Tool::NvidiaSmi => {
                printed.lines().filter_map(|line| line.trim().parse().ok()).collect()
            }
            Tool::RocmSmi => rocm(printed)?,
        };
        let valid: Vec<f64> =
            percents.into_iter().filter(|percent| (0.0..=100.0).contains(percent)).collect();
        if valid.is_empty() {
            return Err("no GPU reports its use".to_owned());
        }
        Ok(valid.iter().sum::<f64>() / valid.len() as f64 / 100.0)
    }
}

/// Parses `{"card0": {"GPU use (%)": "12"}, ...}`, with further keys.
fn rocm(printed: &str) -> Result<Vec<f64>, String> {
    let cards: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(printed).map_err(|error| format!("rocm-smi: {error}"))?;
    let of = |card: &serde_json::Value| match card.get("GPU use (%)")? {
        serde_json::Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    Ok(cards.values().filter_map(of).collect())
}
