// SPDX-License-Identifier: GPL-3.0-or-later
//! What all servers are worth to one task, and the best of them.

/// Servers scanned at a time.
pub(crate) const LANES: usize = 8;

/// What each server is worth to a task, -inf where it does not fit.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    row: Vec<f32>,
    /// Largest of each run of `LANES` servers.
    tops: Vec<f32>,
}

impl Scores {
    pub(crate) fn new(padded: usize) -> Scores {
        Scores {
            row: vec![f32::NEG_INFINITY; padded],
            tops: vec![f32::NEG_INFINITY; padded / LANES],
        }
    }

    /// Scores each server by value minus price of its leftover.
    pub(crate) fn scan(
        &mut self,
        columns: &[i32],
        request: &[i32],
        value: &[f32],
        price: (&[f32], f32),
    ) {
        for run in 0..self.tops.len() {
            self.scan_run(run, columns, request, value, price);
        }
    }

    /// The same, but for runs on no server of which the request fits: `peaks` by run and kind is
    /// the most that is free on one of its servers.
    pub(crate) fn scan_open(
        &mut self,
        (columns, peaks): (&[i32], &[i32]),
        request: &[i32],
        value: &[f32],
        price: (&[f32], f32),
    ) {
        for (run, peaks) in peaks.chunks_exact(request.len()).enumerate() {
            if request.iter().zip(peaks).all(|(a, most)| a <= most) {
                self.scan_run(run, columns, request, value, price);
            } else {
                self.tops[run] = f32::NEG_INFINITY;
            }
        }
    }

    /// Scores `LANES` servers at a time in loops that the compiler turns into vector code.
    #[inline(always)]
    fn scan_run(
        &mut self,
        run: usize,
        columns: &[i32],
        request: &[i32],
        value: &[f32],
        (rest, tight): (&[f32], f32),
    ) {
        let (padded, first) = (self.row.len(), run * LANES);
        let (row, value) = (&mut self.row[first..][..LANES], &value[first..][..LANES]);
        let mut lack = [0_i32; LANES];
        let mut left = [0.0_f32; LANES];
        for (k, (a, p)) in request.iter().zip(rest).enumerate() {
            let column = &columns[k * padded + first..][..LANES];
            for l in 0..LANES {
                let over = column[l] - a;
                lack[l] |= over;
                left[l] += p * over as f32;
            }
        }
        for l in 0..LANES {
            // A negative sign bit anywhere says that some kind lacks; spread over all bits it
            // selects -inf. Branches here would keep the loop from becoming vector code.
            let mask = (lack[l] >> 31).cast_unsigned();
            let bits = (value[l] - tight * left[l]).to_bits();
            row[l] = f32::from_bits((bits & !mask) | (f32::NEG_INFINITY.to_bits() & mask));
        }
        self.tops[run] = largest(row);
    }

    /// Leaves a server out.
    pub(crate) fn leave_out(&mut self, server: usize) {
        self.row[server] = f32::NEG_INFINITY;
        let run = server / LANES;
        self.tops[run] = largest(&self.row[run * LANES..][..LANES]);
    }

    /// The first of the largest scores, unless all are -inf.
    pub(crate) fn best(&self) -> Option<usize> {
        let mut best = (f32::NEG_INFINITY, 0);
        for (run, top) in self.tops.iter().enumerate() {
            best = if *top > best.0 { (*top, run) } else { best };
        }
        let (top, run) = best;
        let row = &self.row[run * LANES..][..LANES];
        let at = row.iter().position(|score| *score == top && top > f32::NEG_INFINITY)?;
        Some(run * LANES + at)
    }
}

/// Largest of one run of scores.
fn largest(row: &[f32]) -> f32 {
    let max = |a: f32, b: f32| if b > a { b } else { a };
    let mut half = [f32::NEG_INFINITY; LANES / 2];
    for l in 0..LANES / 2 {
        half[l] = max(row[l], row[l + LANES / 2]);
    }
    max(max(half[0], half[1]), max(half[2], half[3]))
}

#[cfg(test)]
mod tests {
    use super::{LANES, Scores};

    #[test]
    fn the_best_server_is_the_first_of_the_largest() {
        let padded = 4 * LANES;
        // One kind, of which nothing is free on the last six.
        let columns: Vec<i32> = (0..padded).map(|s| if s < padded - 6 { 3 } else { -1 }).collect();
        let value: Vec<f32> = (0..padded).map(|s| (s * 7 % 11) as f32).collect();
        let mut scores = Scores::new(padded);
        assert_eq!(scores.best(), None);
        let peaks: Vec<i32> = columns.chunks(LANES).map(|run| run[0]).collect();
        scores.scan_open((&columns, &peaks), &[2], &value, (&[1.0], 0.5));
        let open = scores.best();
        scores.scan(&columns, &[2], &value, (&[1.0], 0.5));
        assert_eq!(scores.best(), open);
        let mut left: Vec<usize> = (0..padded - 6).collect();
        while let Some(best) = scores.best() {
            let first = left.iter().copied().reduce(|a, b| if value[b] > value[a] { b } else { a });
            assert_eq!(Some(best), first);
            left.retain(|server| *server != best);
            scores.leave_out(best);
        }
        assert!(left.is_empty());
    }
}
