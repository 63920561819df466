// SPDX-License-Identifier: GPL-3.0-or-later
//! Numbers of tasks by type and gang, which is all that bounds by type need of gangs.

use phalanx_core::number::as_u32;

/// Types and numbers of tasks by gang.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// End of each gang's types.
    ends: Vec<u32>,
    types: Vec<(u32, f64)>,
}

impl Counts {
    /// Adds a gang, given by the types of its tasks.
    pub fn push(&mut self, mut types: Vec<u32>) {
        types.sort_unstable();
        let runs = types.chunk_by(|a, b| a == b);
        self.types.extend(runs.map(|run| (run[0], run.len() as f64)));
        self.ends.push(as_u32(self.types.len()));
    }

    /// Number of gangs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Types of one gang, each with the number of tasks.
    pub fn gang(&self, at: usize) -> &[(u32, f64)] {
        let first = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.types[first as usize..self.ends[at] as usize]
    }

    /// Sum of the worths of a gang's tasks, given by type.
    pub fn sum(&self, at: usize, worth: &[f64]) -> f64 {
        self.gang(at).iter().map(|(ty, n)| worth[*ty as usize] * n).sum()
    }

    /// Tasks of each type in all gangs.
    pub fn by_type(&self, types: usize) -> Vec<f64> {
        let mut total = vec![0.0; types];
        self.types.iter().for_each(|(ty, n)| total[*ty as usize] += n);
        total
    }
}
