// SPDX-License-Identifier: GPL-3.0-or-later
//! GRES kinds that runs asked for, with the time of the latest run.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Kinds that are remembered; Slurm has few.
const KINDS_MAX: usize = 64;

/// End of the latest run that asked for a GRES kind, unix seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    newest_s: BTreeMap<Arc<str>, i64>,
}

impl Asked {
    /// Adds the request of a run, `cpu=4,gres/gpu:a100=2`; returns whether it says anything new.
    pub(super) fn add(&mut self, tres: &str, end_s: i64) -> bool {
        let mut new = false;
        for (name, count) in tres.split(',').filter_map(|text| text.split_once('=')) {
            let Some(gres) = name.trim().strip_prefix("gres/") else { continue };
            let kind = gres.split(':').next().unwrap_or_default();
            let known = self.newest_s.get(kind).copied();
            let room = known.is_some() || self.newest_s.len() < KINDS_MAX;
            if count.trim() != "0" && room && known.is_none_or(|newest| newest < end_s) {
                self.newest_s.insert(Arc::from(kind), end_s);
                new = true;
            }
        }
        new
    }

    pub(super) fn newest_s(&self, kind: &str) -> Option<i64> {
        self.newest_s.get(kind).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_request_of_each_kind_is_known() {
        let mut asked = Asked::default();
        assert!(asked.add("billing=4,cpu=4,gres/gpu:a100=2,node=1", 50));
        assert!(asked.add("cpu=1,gres/gpu=1,gres/nic=0", 70));
        assert!(!asked.add("gres/gpu=1", 60));
        assert!(!asked.add("cpu=1,mem=1G", 90));
        assert_eq!((asked.newest_s("gpu"), asked.newest_s("nic")), (Some(70), None));
        (0..2 * KINDS_MAX).for_each(|n| assert_eq!(asked.add(&format!("gres/k{n}=1"), 1), n < 63));
    }
}
