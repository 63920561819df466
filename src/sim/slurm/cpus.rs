// SPDX-License-Identifier: GPL-3.0-or-later
//! Sets of numbered CPUs as ranges: large machines, few jobs at once.

use super::slots::Group;

/// CPUs by ranges: ascending, not touching, the end excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cpus(Vec<(u64, u64)>);

impl Cpus {
    /// The first `count` CPUs.
    pub(crate) fn all(count: u64) -> Self {
        Self(if count == 0 { Vec::new() } else { vec![(0, count)] })
    }

    /// Number of CPUs.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(begin, end)| end - begin).sum()
    }

    /// The lowest `count` CPUs of the set; all if there are fewer.
    pub(crate) fn lowest(&self, mut count: u64) -> Self {
        let mut found = Vec::new();
        for &(begin, end) in &self.0 {
            let taken = count.min(end - begin);
            if taken == 0 {
                break;
            }
            found.push((begin, begin + taken));
            count -= taken;
        }
        Self(found)
    }

    /// CPUs that both sets have.
    pub(crate) fn both(&self, other: &Self) -> Self {
        let mut found = Vec::new();
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&&(a_begin, a_end)), Some(&&(b_begin, b_end))) = (a.peek(), b.peek()) {
            let (begin, end) = (a_begin.max(b_begin), a_end.min(b_end));
            if begin < end {
                found.push((begin, end));
            }
            if a_end <= b_end {
                a.next()
            } else {
                b.next()
            };
        }
        Self(found)
    }

    /// Adds the CPUs of `other`; the two sets have none in common.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
        self.0.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.0.len());
        for &(begin, end) in &self.0 {
            match joined.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((begin, end)),
            }
        }
        self.0 = joined;
    }
}

impl Group for Cpus {
    fn keep(&mut self, other: &Self) -> bool {
        *self = self.both(other);
        !self.0.is_empty()
    }

    fn drop_all(&mut self, other: &Self) {
        let mut left = Vec::with_capacity(self.0.len() + 1);
        let mut gone = other.0.iter().peekable();
        for &(mut begin, end) in &self.0 {
            while let Some(&&(from, to)) = gone.peek().filter(|(from, _)| *from < end) {
                if to > begin {
                    if from > begin {
                        left.push((begin, from));
                    }
                    begin = to;
                }
                if to >= end {
                    break;
                }
                gone.next();
            }
            if begin < end {
                left.push((begin, end));
            }
        }
        self.0 = left;
    }

    fn gains(&self, next: &Self, free: &Self, now: &Self) -> bool {
        let after = self.both(next);
        after.both(&free.both(now)).count() < after.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn set(bits: u32) -> Cpus {
        let mut found = Cpus::default();
        (0..16).filter(|i| bits >> i & 1 == 1).for_each(|i| found.add(&Cpus(vec![(i, i + 1)])));
        found
    }

    fn members(cpus: &Cpus) -> BTreeSet<u64> {
        cpus.0.iter().flat_map(|&(begin, end)| begin..end).collect()
    }

    /// Goal: ranges do what sets do. Method: all pairs of a sample of sets of 16.
    #[test]
    fn ranges_are_sets() {
        let sample: Vec<u32> = (0..200u32).map(|i| i.wrapping_mul(2_654_435_761) >> 16).collect();
        for &a in sample.iter().chain(&[0, 0xffff]) {
            for &b in &sample {
                let (one, other) = (set(a), set(b));
                let (left, right) = (members(&one), members(&other));
                assert_eq!(members(&one.both(&other)), &left & &right);
                let mut rest = one.clone();
                rest.drop_all(&other);
                assert_eq!(members(&rest), &left - &right, "{a:b} without {b:b}");
                assert_eq!(rest, set(a & !b), "ranges do not touch");
                assert_eq!(one.gains(&one, &other, &other), !left.is_subset(&right));
                let lowest: BTreeSet<u64> = left.iter().copied().take(5).collect();
                assert_eq!(members(&one.lowest(5)), lowest);
            }
        }
        assert_eq!(Cpus::all(7).count(), 7);
    }
}
