// SPDX-License-Identifier: GPL-3.0-or-later
//! Independent checker of placements, from plain numbers.
//!
//! Shares no code with the methods that make placements, so that a defect
//! there does not hide here. It is used before a plan is published and in tests.

use std::fmt;

/// A job's placement to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Name of the job in messages.
    pub job: String,
    /// Positions of the job's nodes.
    pub nodes: Vec<usize>,
    /// Number of nodes that the job must have.
    pub nodes_wanted: usize,
    /// Amounts that the job takes on each of its nodes, by dimension, in ticks.
    pub request: Vec<u64>,
    /// Whether nothing else may run on the job's nodes.
    pub whole_node: bool,
}

/// A rule that a placement breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The job.
    pub job: String,
    /// The rule and the numbers.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}: {}", self.job, self.what)
    }
}

/// Checks placements that hold at the same time on nodes with `total` and
/// `used` (each node's amounts by dimension, in ticks): every job has exactly
/// its number of nodes, all different and existing; no
/// dimension of any node is exceeded by a job that takes some of it; no job
/// shares a whole node.
///
/// # Errors
/// The first violation, in the order of the placements.
pub fn check(
    total: &[Vec<u64>],
    used: &[Vec<u64>],
    placements: &[Placement],
) -> Result<(), Violation> {
    let mut filled: Vec<Vec<u64>> = used.to_vec();
    let mut taken_whole = vec![false; total.len()];
    let mut touched = vec![false; total.len()];
    for placement in placements {
        check_list(total.len(), placement)?;
        for &node in &placement.nodes {
            if placement.whole_node
                && (touched[node] || used[node].iter().any(|&amount| amount > 0))
            {
                return Err(violation(placement, format!("whole node {node} is in use")));
            }
            if taken_whole[node] {
                return Err(violation(placement, format!("node {node} is taken as a whole")));
            }
            touched[node] = true;
            taken_whole[node] = placement.whole_node;
            check_capacity(&total[node], &mut filled[node], node, placement)?;
        }
    }
    Ok(())
}

fn violation(placement: &Placement, what: String) -> Violation {
    Violation { job: placement.job.clone(), what }
}

fn check_list(len: usize, placement: &Placement) -> Result<(), Violation> {
    let nodes = &placement.nodes;
    if nodes.len() != placement.nodes_wanted {
        let what = format!("has {} nodes, wants {}", nodes.len(), placement.nodes_wanted);
        return Err(violation(placement, what));
    }
    let mut sorted = nodes.clone();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(violation(placement, format!("node {} appears twice", pair[0])));
    }
    for &node in nodes {
        if node >= len {
            return Err(violation(placement, format!("node {node} of {len} does not exist")));
        }
    }
    Ok(())
}

fn check_capacity(
    total: &[u64],
    filled: &mut [u64],
    node: usize,
    placement: &Placement,
) -> Result<(), Violation> {
    let request = &placement.request;
    if request.len() != total.len() || filled.len() != total.len() {
        let what = format!("{} dimensions on a node of {}", request.len(), total.len());
        return Err(violation(placement, what));
    }
    for (dim, &amount) in request.iter().enumerate() {
        let sum = u128::from(filled[dim]) + u128::from(amount);
        if amount > 0 && sum > u128::from(total[dim]) {
            let what = format!(
                "node {node}, dimension {dim}: {} in use + {amount} asked > {} in total",
                filled[dim], total[dim]
            );
            return Err(violation(placement, what));
        }
        filled[dim] = u64::try_from(sum).unwrap_or(u64::MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, nodes: &[usize], request: &[u64]) -> Placement {
        Placement {
            job: name.to_owned(),
            nodes: nodes.to_vec(),
            nodes_wanted: nodes.len(),
            request: request.to_vec(),
            whole_node: false,
        }
    }

    fn complaint(placements: &[Placement]) -> String {
        let total = [vec![4, 8], vec![4, 8], vec![4, 0]];
        let used = [vec![0, 0], vec![1, 0], vec![0, 0]];
        check(&total, &used, placements).map_or_else(|found| found.to_string(), |()| String::new())
    }

    #[test]
    fn every_rule_can_fail() {
        let good = [job("a", &[0, 1], &[3, 4]), job("b", &[0], &[1, 4])];
        assert_eq!(complaint(&good), "");
        let cases = [
            (Placement { nodes_wanted: 3, ..good[0].clone() }, "job a: has 2 nodes, wants 3"),
            (job("a", &[1, 0, 1], &[1, 1]), "job a: node 1 appears twice"),
            (job("a", &[3], &[1, 1]), "job a: node 3 of 3 does not exist"),
            (
                job("a", &[1], &[4, 1]),
                "job a: node 1, dimension 0: 1 in use + 4 asked > 4 in total",
            ),
            (job("a", &[1], &[4]), "job a: 1 dimensions on a node of 2"),
            (Placement { whole_node: true, ..good[0].clone() }, "job a: whole node 1 is in use"),
            (
                job("a", &[2], &[1, 1]),
                "job a: node 2, dimension 1: 0 in use + 1 asked > 0 in total",
            ),
        ];
        for (placement, expected) in cases {
            assert_eq!(complaint(&[placement]), expected);
        }
        let twice = [job("a", &[0], &[3, 1]), job("b", &[0], &[2, 1])];
        let expected = "job b: node 0, dimension 0: 3 in use + 2 asked > 4 in total";
        assert_eq!(complaint(&twice), expected);
        let whole = Placement { whole_node: true, ..job("w", &[0], &[1, 1]) };
        let after = [whole.clone(), job("b", &[0], &[1, 1])];
        assert_eq!(complaint(&after), "job b: node 0 is taken as a whole");
        assert_eq!(complaint(&[job("b", &[0], &[1, 1]), whole]), "job w: whole node 0 is in use");
    }
}
