// SPDX-License-Identifier: GPL-3.0-or-later
//! Ends of the running jobs in order, and the windows in which Slurm looks at them.

use std::collections::HashMap;

/// A time: unix seconds.
pub type Second = u32;

/// A time that never comes.
pub const NEVER: Second = Second::MAX;

/// Most steps of the search for a job on the candidates.
const STEPS_MAX: usize = 4096;
/// Width of Slurm's first window, of which that window's end is a multiple, seconds.
const WINDOW_S: u64 = 30;

/// Ends of the jobs, first to last.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    /// Ends in order, without jobs that never end, which Slurm does not look at.
    sorted: Vec<(Second, u32)>,
    by_id: HashMap<u32, Second>,
}

/// Window of ends after which Slurm tests again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// End of the window's last job on the candidates, which is what Slurm answers.
    pub(super) end_s: Second,
    /// Id of the job with that end.
    pub(super) last: u32,
    /// The first job on the candidates, by which all windows are aligned.
    pub(super) first: u32,
}

impl Ends {
    /// Number of jobs.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn set(&mut self, id: u32, end_s: Second) {
        self.remove(id);
        self.by_id.insert(id, end_s);
        if end_s < NEVER
            && let Err(at) = self.sorted.binary_search(&(end_s, id))
        {
            self.sorted.insert(at, (end_s, id));
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        let Some(end_s) = self.by_id.remove(&id) else { return };
        if let Ok(at) = self.sorted.binary_search(&(end_s, id)) {
            self.sorted.remove(at);
        }
    }

    /// The window whose test is the first that sees the end of all jobs up to `time`, as
    /// Slurm's `_will_run_test` walks through them until 24.05; `overlaps` says which jobs are on
    /// the candidates. `None`: there is none, it took too long to find, or it depends on how
    /// Slurm sorted equal ends.
    ///
    /// A window is closed by the first job on the candidates after which, in the list of *all*
    /// jobs, one follows that ends beyond the window; so a job on other nodes just before the
    /// border moves the border to the next job on the candidates, however late that ends.
    pub(super) fn window(
        &self,
        time: Second,
        mut overlaps: impl FnMut(u32) -> bool,
    ) -> Option<Window> {
        let mut look = Look { sorted: &self.sorted, overlaps: &mut overlaps, steps: 0 };
        let first = look.next(0)?;
        let first_s = look.end(first)?;
        let start = u64::from(first_s);
        let start = start + WINDOW_S - start % WINDOW_S;
        // Of equal ends Slurm may have one elsewhere after the first on the candidates.
        let mut at = self.sorted.partition_point(|(end_s, _)| *end_s < first_s);
        let mut width = WINDOW_S;
        loop {
            let border = start + width;
            let beyond = self.sorted.partition_point(|(end_s, _)| u64::from(*end_s) <= border);
            let before = beyond.saturating_sub(1).max(at);
            let (last, after) = match look.among(at, before)? {
                Among::All => (before, before + 1),
                Among::Some(on) => (on, NONE),
                Among::None => {
                    let next = look.next(before + 1)?;
                    let certain = matches!(look.among(at, next)?, Among::All);
                    (next, if certain { next + 1 } else { NONE })
                }
            };
            let end_s = look.end(last)?;
            if end_s >= time {
                return Some(Window { end_s, last: look.id(last)?, first: look.id(first)? });
            }
            at = after;
            let next = u64::from(look.end(at)?);
            width *= 2;
            while next > start + width {
                width *= 2;
            }
        }
    }
}

/// Position that stands for no place in the list.
const NONE: usize = usize::MAX;

/// Jobs of one end on the candidates.
enum Among {
    All,
    /// Some jobs, the first of them at this place.
    Some(usize),
    None,
}

/// A walk through the list.
struct Look<'a, F> {
    sorted: &'a [(Second, u32)],
    overlaps: &'a mut F,
    steps: usize,
}

impl<F: FnMut(u32) -> bool> Look<'_, F> {
    fn end(&self, at: usize) -> Option<Second> {
        self.sorted.get(at).map(|(end_s, _)| *end_s)
    }

    fn id(&self, at: usize) -> Option<u32> {
        self.sorted.get(at).map(|(_, id)| *id)
    }

    /// Whether the job at a place of the list is on the candidates; `None`: there is none, or too
    /// many were looked at.
    fn is_on(&mut self, at: usize) -> Option<bool> {
        let id = self.id(at)?;
        self.steps += 1;
        (self.steps <= STEPS_MAX).then(|| (self.overlaps)(id))
    }

    /// Returns the next job on the candidates.
    fn next(&mut self, from: usize) -> Option<usize> {
        (from..self.sorted.len()).find_map(|at| match self.is_on(at) {
            Some(false) => None,
            Some(true) => Some(Some(at)),
            None => Some(None),
        })?
    }

    /// Returns which jobs that end with the one at a place are on candidates, from `from` on.
    fn among(&mut self, from: usize, at: usize) -> Option<Among> {
        let end_s = self.end(at)?;
        let start = self.sorted.partition_point(|(other, _)| *other < end_s).max(from);
        let mut all = true;
        let mut first = None;
        for at in (start..self.sorted.len()).take_while(|at| self.sorted[*at].0 == end_s) {
            match self.is_on(at)? {
                true => first = first.or(Some(at)),
                false => all = false,
            }
        }
        Some(match first {
            Some(_) if all => Among::All,
            Some(at) => Among::Some(at),
            None => Among::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(list: &[Second]) -> Ends {
        let mut ends = Ends::default();
        for (id, &end_s) in (0..).zip(list) {
            ends.set(id, end_s);
        }
        ends
    }

    #[test]
    fn equal_ends_here_and_elsewhere_leave_later_windows_open() {
        // Slurm may have either of the first two last in its first window.
        let ends = ends(&[1009, 1009, 1051, 1200]);
        assert_eq!(at(&ends, 1009, &[1]), Some(1009));
        assert_eq!(at(&ends, 1009, &[0]), Some(1009));
        assert_eq!(at(&ends, 1051, &[1]), None);
        assert_eq!(at(&ends, 1051, &[0]), None);
    }

    fn at(ends: &Ends, time: Second, others: &[u32]) -> Option<Second> {
        ends.window(time, |id| !others.contains(&id)).map(|window| window.end_s)
    }

    #[test]
    fn windows_double_from_the_first_end() {
        // Aligned to 1020 and 30 s wide: up to 1050, 1080, 1140, 1260.
        let ends = ends(&[1000, 1040, 1060, 1100, 1130, 1250]);
        assert_eq!(at(&ends, 1000, &[]), Some(1040));
        assert_eq!(at(&ends, 1041, &[]), Some(1060));
        assert_eq!(at(&ends, 1061, &[]), Some(1130));
        assert_eq!(at(&ends, 1131, &[]), Some(1250));
        assert_eq!(at(&ends, 1251, &[]), None);
    }

    #[test]
    fn a_job_elsewhere_before_the_border_lets_the_next_one_in() {
        let ends = ends(&[1000, 1040, 1060, 1100]);
        assert_eq!(at(&ends, 1000, &[1]), Some(1060));
        // The last ones elsewhere: what is left of the list makes the last window.
        assert_eq!(at(&ends, 1041, &[2]), Some(1100));
        assert_eq!(at(&ends, 1000, &[0]), Some(1060));
    }

    #[test]
    fn ends_move_and_jobs_without_one_are_not_looked_at() {
        let mut ends = ends(&[1000, 1040]);
        ends.set(0, NEVER);
        ends.set(1, 2000);
        assert_eq!(ends.window(0, |_| true).unwrap().first, 1);
        ends.remove(1);
        ends.remove(7);
        assert_eq!(at(&ends, 0, &[]), None);
    }
}
