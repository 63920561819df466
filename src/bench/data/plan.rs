// SPDX-License-Identifier: GPL-3.0-or-later
//! Time and quality of planning data-parallel jobs of given shape, and of dealing one large input.
//!
//!     phalanx-bench data-plan

use std::time::{Duration, Instant};

use phalanx_methods::data_jobs::bisect::Attenuation;
use phalanx_methods::data_jobs::bisect::rigid::{Block, Form, Job, Problem, Rule, plan};
use phalanx_methods::data_jobs::blockmap::{
    Assignment, NodeTasks, Pace, Split, assign, level, remote_share,
};

/// Pseudo-random numbers that need no crate.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn hosts(&mut self, count: usize, of: usize) -> Vec<usize> {
        let mut hosts: Vec<usize> = Vec::new();
        while hosts.len() < count {
            let host = usize::try_from(self.below(of as u64)).unwrap_or(0);
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts.sort_unstable();
        hosts
    }
}

pub fn run() {
    let mut random = Random(7);
    let (hosts, cores) = (1000, 32);
    let jobs: Vec<Job> = (0..200)
        .map(|_| {
            let nodes = 4 << random.below(5);
            let own = random.hosts((nodes * 2).min(hosts), hosts);
            let mut block = || {
                let at = random.hosts(3, own.len());
                Block { size_mb: 128.0, replicas: at.iter().map(|&i| own[i]).collect() }
            };
            Job {
                speed_mb_per_s: 50.0,
                attenuation: Attenuation::Linear(0.001),
                speeds: Vec::new(),
                blocks: (0..500).map(|_| block()).collect(),
                forms: vec![Form { hosts: nodes, cores: 4 }],
                allowed: (0..hosts).map(|host| (host, 0.0)).collect(),
            }
        })
        .collect();
    let problem = Problem { hosts: vec![vec![0.0; cores]; hosts], transfer_mb_per_s: 125.0, jobs };
    for limit_ms in [300, 10_000] {
        let started = Instant::now();
        let deadline = started + Duration::from_millis(limit_ms);
        let found = plan(&problem, Rule::Best, &|| Instant::now() >= deadline);
        let remote: f64 = found.jobs.iter().flatten().map(|p| p.remote_mb).sum();
        println!(
            "200 jobs, 100,000 blocks, {limit_ms} ms: {} ms, makespan {:.0} ms, bound {:.0} ms \
             ({:+.2} %), {:.1} % local, {} probes",
            started.elapsed().as_millis(),
            found.makespan_ms,
            found.lower_bound_ms,
            100.0 * (found.makespan_ms / found.lower_bound_ms - 1.0),
            100.0 * (1.0 - remote / 12_800_000.0),
            found.probes,
        );
    }
    let split = |i: u32, at: &[usize]| Split {
        file: 0,
        offset: u64::from(i) << 27,
        length: 1 << 27,
        held: at.iter().map(|&h| (u32::try_from(h).unwrap_or(0), 1 << 27)).collect(),
    };
    let splits: Vec<Split> = (0..100_000).map(|i| split(i, &random.hosts(3, 64))).collect();
    let nodes: Vec<Option<usize>> = (0..64).map(Some).collect();
    for speeds in [[1.0; 4], [1.0, 2.0, 4.0, 8.0]] {
        let tasks: Vec<NodeTasks> =
            (0..64).map(|node| NodeTasks { tasks: 32, speed: speeds[node % 4] }).collect();
        let started = Instant::now();
        let pace = Pace { remote_extra: 0.4, remote_share: remote_share(0.03, &tasks) };
        let dealt = assign(&splits, &nodes, &tasks, pace);
        // As the daemon does: equal nodes get whole blocks.
        let (parts, cut) = match speeds == [1.0; 4] {
            true => (splits.clone(), dealt.clone()),
            false => level(&splits, &dealt, &nodes, &tasks, pace),
        };
        let took = started.elapsed().as_millis();
        let sum: f64 = speeds.iter().sum::<f64>() / speeds.iter().copied().fold(0.0, f64::max);
        // All local, all together.
        let ideal = 100_000.0 / (2048.0 * sum / 4.0);
        let last = |dealt: &Assignment| {
            dealt.loads.iter().copied().fold(0.0, f64::max) / f64::from(1 << 27) / ideal
        };
        println!(
            "one input of 100,000 blocks to 2,048 tasks of speeds {speeds:?}: {took} ms, the last \
             ends at {:.3} of the ideal, {:.3} with {} cuts",
            last(&dealt),
            last(&cut),
            parts.len() - splits.len()
        );
    }
}
