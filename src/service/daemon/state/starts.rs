// SPDX-License-Identifier: GPL-3.0-or-later
//! Waits of the jobs that started, as polls show them, and GPUs that were stranded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use crate::api::metrics::{Queue, Waits};
use phalanx_core::run::wait_s;
use phalanx_core::snapshot::{JobState, Snapshot};

/// Longest time between two samples of stranded GPUs for which the first one counts.
const SAMPLE_MAX_S: f64 = 300.0;

/// Counts since the start of the daemon.
#[derive(Debug, Default)]
pub struct Starts {
    /// Jobs that have started and that Slurm still knows, with their starts; `None` before the
    /// first poll, whose jobs' starts were not seen.
    known: Option<BTreeMap<u32, i64>>,
    waits: BTreeMap<Arc<str>, Waits>,
    stranded: Option<(Instant, f64)>,
    stranded_gpu_s: f64,
}

impl Starts {
    /// Counts the waits of jobs that have started since the last poll.
    pub fn saw(&mut self, snapshot: &Snapshot) {
        // One that was cancelled before it began has no nodes, and the end as its start.
        let has_begun = |state| state != JobState::Pending;
        let jobs = snapshot.all_jobs().filter(|job| has_begun(job.state) && !job.nodes.is_empty());
        let known = self.known.replace(jobs.clone().map(|job| (job.id, job.start_s)).collect());
        let Some(known) = known else { return };
        for job in jobs.filter(|job| known.get(&job.id) != Some(&job.start_s)) {
            if let Some(wait_s) = wait_s(job.submit_s, job.eligible_s, job.start_s) {
                self.waits.entry(Arc::clone(&job.partitions)).or_default().add(wait_s);
            }
        }
    }

    /// Takes the present number of stranded GPUs.
    pub fn stranded(&mut self, gpus: f64, now: Instant) {
        if let Some((since, gpus)) = self.stranded.replace((now, gpus)) {
            let passed_s = now.saturating_duration_since(since).as_secs_f64();
            self.stranded_gpu_s += gpus * passed_s.min(SAMPLE_MAX_S);
        }
    }

    /// The counts, and the jobs by partition and state.
    pub fn queue(&self, snapshot: Option<&Snapshot>) -> Queue {
        let mut jobs: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for job in snapshot.into_iter().flat_map(|snapshot| snapshot.all_jobs()) {
            let state = match job.state {
                JobState::Pending => "pending",
                JobState::Suspended => "suspended",
                JobState::Running if !job.state_text.contains("COMPLETING") => "running",
                JobState::Running | JobState::Ended => continue,
            };
            // A job may wait in several.
            for partition in job.partitions.split(',') {
                *jobs.entry((partition.to_owned(), state)).or_default() += job.task_count.max(1);
            }
        }
        let waits = self.waits.iter().map(|(name, waits)| (name.to_string(), waits.clone()));
        Queue { jobs, waits: waits.collect(), stranded_gpu_s: self.stranded_gpu_s }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::api::metrics::WAIT_EDGES_S;
    use phalanx_core::snapshot::{Job, shared};
    use std::time::Duration;

    fn job(id: u32, state: JobState, partitions: &str, start_s: i64) -> Job {
        let nodes = if state == JobState::Pending { "" } else { "n1" };
        Job {
            id,
            state,
            partitions: partitions.into(),
            submit_s: 100,
            eligible_s: Some(160),
            start_s,
            nodes: nodes.into(),
            task_count: 1,
            ..Job::default()
        }
    }

    fn picture(jobs: Vec<Job>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.jobs = shared(jobs);
        snapshot
    }

    #[test]
    fn each_start_counts_once_by_partition_from_eligibility() {
        use JobState::{Ended, Pending, Running, Suspended};
        let mut starts = Starts::default();
        starts.saw(&picture(vec![job(1, Running, "cpu", 170), job(2, Pending, "cpu,gpu", 900)]));
        let waits = |starts: &Starts| -> Vec<(String, u64, i64)> {
            let queue = starts.queue(None);
            queue.waits.iter().map(|(of, w)| (of.clone(), w.counts.iter().sum(), w.sum_s)).collect()
        };
        assert_eq!(waits(&starts), [], "what started before the daemon is not known");
        let cancelled = Job { nodes: "".into(), ..job(5, Ended, "cpu", 200) };
        let now = picture(vec![
            job(1, Ended, "cpu", 170),
            job(2, Running, "gpu", 200),
            job(3, Ended, "cpu", 161),
            job(4, Suspended, "cpu", 260),
            Job { task_count: 7, ..job(6, Pending, "cpu,gpu", 0) },
            cancelled,
        ]);
        starts.saw(&now);
        starts.saw(&now);
        let expected = [("cpu".to_owned(), 2, 101), ("gpu".to_owned(), 1, 40)];
        assert_eq!(waits(&starts), expected);
        // A requeued job starts anew.
        starts.saw(&picture(vec![job(2, Running, "gpu", 300)]));
        assert_eq!(waits(&starts)[1], ("gpu".to_owned(), 2, 180));
        assert_eq!(waits(&starts)[0], expected[0]);

        let jobs = starts.queue(Some(&now)).jobs;
        let of = |partition: &str, state| jobs.get(&(partition.to_owned(), state)).copied();
        assert_eq!((of("cpu", "pending"), of("gpu", "pending")), (Some(7), Some(7)));
        assert_eq!((of("gpu", "running"), of("cpu", "running")), (Some(1), None));
        assert_eq!(of("cpu", "suspended"), Some(1));
    }

    #[test]
    fn waits_lie_in_the_bucket_of_their_edge() {
        let mut waits = Waits::default();
        [0, 1, 2, 60, 61, i64::MAX].into_iter().for_each(|wait_s| waits.add(wait_s));
        let at = |edge_s| WAIT_EDGES_S.iter().position(|edge| *edge == edge_s).unwrap();
        assert_eq!((waits.counts[at(1)], waits.counts[at(60)]), (2, 1));
        assert_eq!(waits.counts.iter().sum::<u64>(), 6);
        assert_eq!(waits.counts.last(), Some(&1), "behind the last edge");
    }

    #[test]
    fn stranded_gpus_count_while_they_are_seen() {
        let (mut starts, begin) = (Starts::default(), Instant::now());
        let mut at = |after_s, gpus| {
            starts.stranded(gpus, begin + Duration::from_secs(after_s));
            starts.queue(None).stranded_gpu_s
        };
        assert_eq!((at(0, 4.0), at(60, 2.0), at(120, 0.0)), (0.0, 240.0, 360.0));
        assert_eq!((at(180, 1.0), at(10_000, 0.0)), (360.0, 660.0), "slurmctld was away");
    }
}
