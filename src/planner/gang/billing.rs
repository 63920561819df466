// SPDX-License-Identifier: GPL-3.0-or-later
//! Payments of jobs by the TRESBillingWeights of their partition.
//!
//! As in slurm.conf(5): the sum of weight times amount over the resources, CPUs alone in a
//! partition without weights. `PriorityFlags=MAX_TRES` is not looked at.

use std::collections::HashMap;

use phalanx_core::snapshot::{Job, Snapshot};

/// Weights of a node's resources in the order of the dimensions, memory by the MiB, and of the
/// node itself.
#[derive(Debug, Clone, PartialEq)]
struct Weights {
    per_unit: Vec<f64>,
    node: f64,
}

/// The weights of all partitions.
pub(super) struct Billing<'a> {
    of: HashMap<&'a str, Weights>,
    cpus: Weights,
}

impl<'a> Billing<'a> {
    /// Reads the weights of all partitions; `None` where none has any. `names` are the dimensions,
    /// CPUs first.
    pub(super) fn new(snapshot: &'a Snapshot, names: &[String]) -> Option<Self> {
        let weights = |text: &str| parse(text, names);
        let of: HashMap<&str, Weights> = snapshot
            .partitions
            .iter()
            .filter_map(|partition| Some((&*partition.name, weights(&partition.billing)?)))
            .collect();
        let cpus = weights("cpu=1").filter(|_| !of.is_empty())?;
        Some(Self { of, cpus })
    }

    /// The payment of a task of the job for the given amounts.
    pub(super) fn payment(&self, job: &Job, amounts: &[f64]) -> f64 {
        let first = job.partitions.split(',').find_map(|name| self.of.get(name));
        let weights = first.unwrap_or(&self.cpus);
        let terms = amounts.iter().zip(&weights.per_unit).map(|(amount, w)| amount * w);
        terms.fold(weights.node, |sum, term| sum + term)
    }
}

/// Parses `CPU=1.0,Mem=0.25G,GRES/gpu:a100=2`; `None` if none of the weights is known.
fn parse(text: &str, names: &[String]) -> Option<Weights> {
    let mut weights = Weights { per_unit: vec![0.0; names.len()], node: 0.0 };
    let mut found = false;
    for (key, value) in text.split(',').filter_map(|item| item.trim().split_once('=')) {
        let key = key.trim().to_ascii_lowercase();
        let Some(weight) = weight(value.trim(), key == "mem") else { continue };
        let slot = match names.iter().position(|name| name.eq_ignore_ascii_case(&key)) {
            Some(at) => weights.per_unit.get_mut(at),
            None => (key == "node").then_some(&mut weights.node),
        };
        if let Some(slot) = slot {
            *slot = weight;
            found = true;
        }
    }
    found.then_some(weights)
}

/// Reads a billing weight with its unit: per MiB of memory, per one of everything else.
fn weight(text: &str, memory: bool) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    // Memory is counted in MiB, all else by one.
    let base = if memory { 2 } else { 0 };
    let power = match text.strip_prefix(number)?.to_ascii_uppercase().as_str() {
        "" => base,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    let value: f64 = number.parse().ok()?;
    let weight = value / 1024.0_f64.powi(power - base);
    (weight.is_finite() && weight >= 0.0).then_some(weight)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_as_slurm_writes_them() {
        let names = ["cpu", "mem", "idle", "gres/gpu", "gres/gpu:a100"].map(str::to_owned);
        let read = |text: &str| parse(text, &names).map(|w| (w.per_unit, w.node));
        let full = read("CPU=1.5,Mem=0.25G,GRES/gpu=2.0,GRES/gpu:a100=3,Node=4,energy=9").unwrap();
        assert_eq!(full, (vec![1.5, 0.25 / 1024.0, 0.0, 2.0, 3.0], 4.0));
        assert_eq!(read("mem=.25").unwrap().0[1], 0.25);
        assert_eq!(read("Mem=1M").unwrap().0[1], 1.0);
        assert_eq!(read("Mem=1K").unwrap().0[1], 1024.0);
        assert_eq!(read("Mem=1T").unwrap().0[1], 1.0 / 1_048_576.0);
        assert_eq!(read("cpu=1K").unwrap().0[0], 1.0 / 1024.0);
        for nothing in ["", "license/x=3", "cpu=-1", "cpu=inf", "cpu=1X", "cpu", "=", "cpu=1e"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
