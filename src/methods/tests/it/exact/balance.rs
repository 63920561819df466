// SPDX-License-Identifier: GPL-3.0-or-later
//! Oracles for the balance method: the best set of nodes for one job, and how
//! many jobs of a list can be placed at all.

/// Largest number of nodes for [`best_nodes`], which tries 2^n subsets.
pub const NODES_MAX: usize = 20;
/// Largest number of placements tried by [`most_jobs`].
pub const STEPS_MAX: u64 = 20_000_000;

/// Nodes of a small instance: amounts by dimension, in any unit.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// Total of each node by dimension.
    pub total: Vec<Vec<f64>>,
    /// Amount in use of each node by dimension.
    pub used: Vec<Vec<f64>>,
}

impl Nodes {
    fn fits(&self, node: usize, request: &[f64]) -> bool {
        let pairs = self.used[node].iter().zip(&self.total[node]);
        pairs.zip(request).all(|((used, total), amount)| used + amount <= total + 1e-9)
    }

    /// Dispersion of a node with `request` added, after formula 4 of the
    /// method; dimensions with a total of 0 drop out.
    #[must_use]
    pub fn dispersion(&self, node: usize, request: &[f64], weights: &[f64]) -> f64 {
        let own: Vec<usize> =
            (0..weights.len()).filter(|&dim| self.total[node][dim] > 0.0).collect();
        let share: f64 = own.iter().map(|&dim| weights[dim]).sum();
        if share <= 0.0 {
            return 0.0;
        }
        let usage = |dim: usize| (self.used[node][dim] + request[dim]) / self.total[node][dim];
        let count = own.iter().fold(0.0, |count, _| count + 1.0);
        let mean = own.iter().map(|&dim| usage(dim)).sum::<f64>() / count;
        let squares = own.iter().map(|&dim| weights[dim] / share * (usage(dim) - mean).powi(2));
        squares.sum::<f64>().sqrt()
    }
}

/// The `wanted` nodes on which the sum of dispersions after placement is
/// least, and that sum, by trying every subset; `None` when no subset fits or
/// there are more than [`NODES_MAX`] nodes.
#[must_use]
pub fn best_nodes(
    nodes: &Nodes,
    request: &[f64],
    weights: &[f64],
    wanted: usize,
) -> Option<(Vec<usize>, f64)> {
    let count = nodes.total.len();
    if count > NODES_MAX {
        return None;
    }
    let mut best: Option<(Vec<usize>, f64)> = None;
    for subset in 0u32..1 << count {
        if subset.count_ones() as usize != wanted {
            continue;
        }
        let chosen: Vec<usize> = (0..count).filter(|node| subset >> node & 1 == 1).collect();
        if !chosen.iter().all(|&node| nodes.fits(node, request)) {
            continue;
        }
        let sum = chosen.iter().map(|&node| nodes.dispersion(node, request, weights)).sum();
        if best.as_ref().is_none_or(|(_, least)| sum < *least) {
            best = Some((chosen, sum));
        }
    }
    best
}

/// The largest number of single-node jobs of `jobs` that fit together, by
/// trying every assignment; `None` after [`STEPS_MAX`] steps.
#[must_use]
pub fn most_jobs(nodes: &Nodes, jobs: &[Vec<f64>]) -> Option<usize> {
    let mut search = Packing { nodes: nodes.clone(), jobs, best: 0, steps: 0 };
    search.place(0, 0);
    (search.steps <= STEPS_MAX).then_some(search.best)
}

/// An upper bound on [`most_jobs`]: in each dimension alone, over all nodes
/// together, the smallest requests first.
#[must_use]
pub fn jobs_bound(nodes: &Nodes, jobs: &[Vec<f64>]) -> usize {
    let dims = nodes.total.first().map_or(0, Vec::len);
    let bound = |dim: usize| {
        let free = |node: usize| nodes.total[node][dim] - nodes.used[node][dim];
        let mut room: f64 = (0..nodes.total.len()).map(free).sum::<f64>() + 1e-9;
        let mut sizes: Vec<f64> = jobs.iter().map(|job| job[dim]).collect();
        sizes.sort_by(f64::total_cmp);
        let fits = sizes.iter().take_while(|&&size| {
            room -= size;
            room >= 0.0
        });
        fits.count()
    };
    (0..dims).map(bound).min().unwrap_or(0)
}

struct Packing<'a> {
    nodes: Nodes,
    jobs: &'a [Vec<f64>],
    best: usize,
    steps: u64,
}

impl Packing<'_> {
    fn place(&mut self, job: usize, placed: usize) {
        self.best = self.best.max(placed);
        self.steps += 1;
        let left = self.jobs.len() - job;
        if left == 0 || placed + left <= self.best || self.steps > STEPS_MAX {
            return;
        }
        let request = &self.jobs[job];
        for node in 0..self.nodes.total.len() {
            if self.nodes.fits(node, request) {
                self.change(node, request, 1.0);
                self.place(job + 1, placed + 1);
                self.change(node, request, -1.0);
            }
        }
        self.place(job + 1, placed);
    }

    fn change(&mut self, node: usize, request: &[f64], sign: f64) {
        for (used, amount) in self.nodes.used[node].iter_mut().zip(request) {
            *used += sign * amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_exact() {
        let nodes = Nodes { total: vec![vec![10.0, 4.0]; 2], used: vec![vec![0.0; 2]; 2] };
        let jobs: Vec<Vec<f64>> =
            [[6.0, 1.0], [6.0, 1.0], [4.0, 3.0], [4.0, 3.0], [1.0, 0.0]].map(Vec::from).into();
        assert_eq!(most_jobs(&nodes, &jobs), Some(4));
        assert_eq!(jobs_bound(&nodes, &jobs), 4);
        assert_eq!(most_jobs(&nodes, &jobs[..4]), Some(4));
    }

    #[test]
    fn best_nodes_need_room() {
        let nodes = Nodes {
            total: vec![vec![10.0, 10.0]; 3],
            used: vec![vec![9.0, 0.0], vec![2.0, 4.0], vec![0.0, 0.0]],
        };
        let (chosen, sum) = best_nodes(&nodes, &[2.0, 0.0], &[0.5, 0.5], 2).unwrap();
        assert_eq!(chosen, [1, 2]);
        assert!((sum - 0.1).abs() < 1e-12, "{sum}");
        assert_eq!(best_nodes(&nodes, &[2.0, 0.0], &[0.5, 0.5], 3), None);
    }
}
