// SPDX-License-Identifier: GPL-3.0-or-later
//! `[compare]`: the live comparison with Slurm alone, and the draw of its jobs.

use sha2::{Digest, Sha256};

use super::section::{SHARE, reload, section};
use phalanx_core::run::Run;
use phalanx_core::snapshot::Job;

section! {
    /// `[compare]`: the live comparison with Slurm alone.
    CompareConfig in "compare" {
        /// Fraction of the jobs that Phalanx treats; the others are the control arm.
        share: f64 = 1.0 => reload(SHARE),
    }
}

/// Assignment of jobs to the control arm, which Slurm alone treats. A job's arm stays the same
/// while the secret does; a larger share only moves jobs out of the control arm. A job's id alone
/// does not tell its arm.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// Secret that is hashed with the id of a job, so that users cannot tell its arm.
    pub key: String,
    /// `compare.share`.
    pub share: f64,
    /// Unix second since which the share is in force.
    pub since_s: i64,
}

impl Draw {
    /// Returns whether a job is in the control arm; an array or het job is drawn as one.
    pub fn is_slurms(&self, job_id: u32, array: Option<u32>, het: Option<u32>) -> bool {
        let drawn = het.or(array).unwrap_or(job_id).to_le_bytes();
        let hash = Sha256::new().chain_update(&self.key).chain_update(drawn).finalize();
        let number = hash.iter().take(4).fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        f64::from(number) / 4_294_967_296.0 >= self.share
    }

    /// Returns whether Slurm alone treats a job of the queue.
    pub fn is_slurms_job(&self, job: &Job) -> bool {
        self.is_slurms(job.id, job.array_job_id, job.het_job_id)
    }

    /// Returns the arm of a run, [`Run::arm`]; none for a job that is older than the comparison.
    pub fn arm(&self, run: &Run) -> String {
        match self.is_slurms(run.job_id, run.array_job_id, run.het_job_id) {
            _ if run.submit_s < self.since_s => String::new(),
            true => format!("slurm {}", self.share),
            false => format!("phalanx {}", self.share),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn draw(key: &str, share: f64) -> Draw {
        Draw { key: key.to_owned(), share, since_s: 100 }
    }

    /// Goal: as many jobs as the share says are drawn, whatever their ids, parity or neighbours.
    #[test]
    fn the_draw_is_fair() {
        for (at, share) in [0.5, 0.1, 0.9].into_iter().enumerate() {
            let draw = draw(&format!("secret {at}"), share);
            let slurms = |id: u32| draw.is_slurms(id, None, None);
            // 16 cells: the last three bits of an id, and whether the job before is Slurm's.
            let mut cells = [[0.0_f64; 2]; 16];
            for id in 1..=80_000 {
                let cell = (id % 8) as usize * 2 + usize::from(slurms(id - 1));
                cells[cell][usize::from(slurms(id))] += 1.0;
            }
            let expect = [share, 1.0 - share];
            let chi = |cell: &[f64; 2]| {
                let all = cell[0] + cell[1];
                let of = |at: usize| (cell[at] - all * expect[at]).powi(2) / (all * expect[at]);
                of(0) + of(1)
            };
            // 16 degrees of freedom: above 39.3 in one of 1,000.
            let chi: f64 = cells.iter().map(chi).sum();
            assert!(chi < 39.3, "{share}: {chi}");
        }
    }

    #[test]
    fn a_share_is_from_0_to_1() {
        let parse = |share: &str| {
            let text = format!("[compare]\nshare = {share}\n");
            crate::Config::parse(&text, std::path::Path::new("p.toml"))
        };
        for (share, is) in [("0", 0.0), ("0.25", 0.25), ("1.0", 1.0)] {
            assert_eq!(parse(share).map_err(|error| error.to_string()).unwrap().compare.share, is);
        }
        for wrong in ["-0.1", "1.5", "nan", "true", "\"half\""] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(
                error.contains("p.toml:2:9: compare.share: expected a number from 0"),
                "{error}"
            );
        }
    }

    /// Goal: known arms stay, so that every release and machine draws the same.
    #[test]
    fn the_draw_stays_the_same() {
        let of = |draw: &Draw| -> String {
            let arm = |id| if draw.is_slurms(id, None, None) { 's' } else { 'p' };
            (1..=16).map(arm).collect()
        };
        assert_eq!(of(&draw("a", 0.5)), "psspsppsspspsspp");
        assert_eq!(of(&draw("b", 0.5)), "ppppspsppssssppp");
        assert_eq!(of(&draw("a", 0.0)), "s".repeat(16));
        assert_eq!(of(&draw("a", 1.0)), "p".repeat(16));
    }

    #[test]
    fn a_larger_share_takes_no_job_from_phalanx() {
        let (some, more) = (draw("a", 0.3), draw("a", 0.6));
        let slurms = |draw: &Draw, id| draw.is_slurms(id, None, None);
        assert!((0..5000).all(|id| slurms(&some, id) || !slurms(&more, id)));
    }

    #[test]
    fn arrays_and_het_jobs_are_drawn_as_one() {
        let draw = draw("a", 0.5);
        let of = |job, array, het| draw.is_slurms(job, array, het);
        for id in 1..200 {
            let own = of(id, None, None);
            assert!((1000..1050).all(|task| of(task, Some(id), None) == own), "{id}");
            assert!((1000..1050).all(|part| of(part, None, Some(id)) == own), "{id}");
        }
    }

    #[test]
    fn runs_of_older_jobs_have_no_arm() {
        let draw = draw("a", 0.5);
        let run = |job_id, submit_s| Run { job_id, submit_s, ..Run::default() };
        let arms = |submit_s| (1..=16).map(|id| draw.arm(&run(id, submit_s))).collect::<Vec<_>>();
        assert!(arms(99).iter().all(String::is_empty));
        for arm in ["slurm 0.5", "phalanx 0.5"] {
            assert!(arms(100).contains(&arm.to_owned()), "{arm}");
        }
    }
}
