// SPDX-License-Identifier: GPL-3.0-or-later
//! Search of `cons_tres` for a start in the future: running jobs are taken away in the order of
//! their ends, several at once in windows that grow, and a fit is tested for after each window
//! (`_will_run_test()`). So a start is the end of a window's last job, not the earliest possible.

/// Length of the first window, seconds.
const FIRST_S: i64 = 30;

/// The windows of one search.
#[derive(Debug, Clone)]
pub(crate) struct Windows {
    width_s: i64,
    /// End of the first window.
    base_s: Option<i64>,
}

impl Windows {
    pub(crate) fn new() -> Self {
        Self { width_s: FIRST_S, base_s: None }
    }

    /// Takes away a job with nodes of interest; `next_s`: the end of the next job. Returns whether
    /// a fit is tested for at this point.
    pub(crate) fn is_full(&mut self, end_s: i64, next_s: Option<i64>) -> bool {
        let first = || end_s + (self.width_s - end_s.rem_euclid(self.width_s));
        let base_s = *self.base_s.get_or_insert_with(first);
        let Some(next_s) = next_s else { return true };
        if next_s <= base_s.saturating_add(self.width_s) {
            return false;
        }
        self.width_s = self.width_s.saturating_mul(2);
        while next_s > base_s.saturating_add(self.width_s) {
            self.width_s = self.width_s.saturating_mul(2);
        }
        true
    }

    /// The end of the open window, once it has a job.
    pub(crate) fn reach_s(&self) -> i64 {
        self.base_s.map_or(i64::MIN, |base_s| base_s.saturating_add(self.width_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_double_until_the_next_job_falls_in() {
        let mut windows = Windows::new();
        // The first job ends at 95: the base is 120, the first window reaches to 150.
        assert!(!windows.is_full(95, Some(140)));
        assert!(windows.is_full(140, Some(151)), "the second one reaches to 180");
        assert!(!windows.is_full(151, Some(180)));
        assert!(windows.is_full(180, Some(1000)), "then to 120 + 960");
        assert!(!windows.is_full(1000, Some(1080)));
        assert!(windows.is_full(1080, None));
    }
}
