// SPDX-License-Identifier: GPL-3.0-or-later
//! The agents and their last reports.

use std::collections::BTreeMap;

use super::clock::Now;
use phalanx_core::limits::{COLLECT_HOLD_MS_MAX, COLLECT_REPORT_BYTES_MAX, NODES_MAX};
use phalanx_core::number::nearest_i64;
use phalanx_messages::collect::{AgentReport, RunReport, SyncRequest};

/// Time that an agent may be silent beyond its announced wait, in milliseconds.
const GRACE_MS: u64 = 15_000;

#[derive(Debug, Default)]
pub(super) struct Agent {
    /// Version and counts of the agent; node, age and liveness are set in a report.
    counts: AgentReport,
    /// Monotonic time of the last sync.
    seen_ms: i64,
    /// Monotonic time after which the agent counts as dead.
    alive_until_ms: i64,
    /// Number of the agent's syncs, so that a late loss of an old connection is recognised.
    turn: u64,
    /// Last report of each registration, with its monotonic time.
    pub(super) runs: BTreeMap<String, (i64, RunReport)>,
}

#[derive(Debug, Default)]
pub(super) struct Agents {
    by_node: BTreeMap<String, Agent>,
}

impl Agents {
    /// Records the beginning of a sync; `known` returns which runs are known. Returns the sync's
    /// number, `None` if there are too many agents.
    pub(super) fn begin(
        &mut self,
        node: &str,
        request: &SyncRequest,
        known: impl Fn(&str) -> bool,
        now: Now,
    ) -> Option<u64> {
        if self.by_node.len() >= NODES_MAX && !self.by_node.contains_key(node) {
            return None;
        }
        let agent = self.by_node.entry(node.to_owned()).or_default();
        let wait = request.wait_ms.min(COLLECT_HOLD_MS_MAX);
        agent.counts.version = clip(&request.version, 64);
        agent.counts.generation = request.generation;
        agent.counts.dropped = request.dropped;
        agent.seen_ms = now.mono_ms;
        agent.alive_until_ms = now.ago(0) + nearest_i64(wait + GRACE_MS);
        agent.turn += 1;
        agent.runs.retain(|name, _| known(name));
        for run in request.runs.iter().filter(|run| known(&run.name)) {
            let mut run = run.clone();
            run.stderr = clip(&run.stderr, COLLECT_REPORT_BYTES_MAX);
            run.error = run.error.map(|error| clip(&error, COLLECT_REPORT_BYTES_MAX));
            agent.runs.insert(run.name.clone(), (now.ago(run.age_ms), run));
        }
        Some(agent.turn)
    }

    pub(super) fn count(&mut self, node: &str, stored: usize, refused: usize) {
        if let Some(agent) = self.by_node.get_mut(node) {
            agent.counts.values += stored as u64;
            agent.counts.refused += refused as u64;
        }
    }

    /// Records the answer to a sync.
    pub(super) fn end(&mut self, node: &str, generation: u64, now: Now) {
        if let Some(agent) = self.by_node.get_mut(node) {
            agent.seen_ms = now.mono_ms;
            agent.counts.generation = generation;
        }
    }

    /// Records that the connection of an agent broke while its answer was held.
    pub(super) fn lost(&mut self, node: &str, turn: u64, now: Now) {
        if let Some(agent) = self.by_node.get_mut(node)
            && agent.turn == turn
        {
            agent.alive_until_ms = now.mono_ms;
        }
    }

    pub(super) fn get(&self, node: &str) -> Option<&Agent> {
        self.by_node.get(node)
    }

    /// Returns the nodes of the agents that are alive, in order.
    pub(super) fn alive(&self, now: Now) -> Vec<&str> {
        let alive = self.by_node.iter().filter(|(_, agent)| agent.alive_until_ms > now.mono_ms);
        alive.map(|(node, _)| node.as_str()).collect()
    }

    pub(super) fn report(&self, now: Now) -> Vec<AgentReport> {
        let line = |(node, agent): (&String, &Agent)| AgentReport {
            node: node.clone(),
            last_seen_ms: now.since(agent.seen_ms),
            connected: agent.alive_until_ms > now.mono_ms,
            ..agent.counts.clone()
        };
        self.by_node.iter().map(line).collect()
    }
}

/// Returns at most `bytes_max` bytes, cut at a character's end.
fn clip(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(mono_ms: i64) -> Now {
        Now { wall_ms: 0, mono_ms }
    }

    #[test]
    fn agents_live_as_long_as_they_said_and_a_little_longer() {
        let mut agents = Agents::default();
        let request = SyncRequest { wait_ms: 1000, ..SyncRequest::default() };
        let turn = agents.begin("n1", &request, |_| true, at(0)).unwrap();
        assert_eq!(agents.alive(at(15_999)), ["n1"]);
        assert!(agents.alive(at(16_000)).is_empty());
        let next = agents.begin("n1", &request, |_| true, at(100)).unwrap();
        agents.lost("n1", turn, at(200));
        assert_eq!(agents.alive(at(201)), ["n1"]);
        agents.lost("n1", next, at(200));
        assert!(agents.alive(at(201)).is_empty());
    }

    #[test]
    fn reports_are_bounded_and_of_known_runs() {
        let mut agents = Agents::default();
        let run =
            RunReport { name: "a".into(), stderr: "\u{e9}".repeat(4000), ..RunReport::default() };
        let other = RunReport { name: "b".into(), ..RunReport::default() };
        let request = SyncRequest { runs: vec![run, other], ..SyncRequest::default() };
        agents.begin("n1", &request, |name| name == "a", at(0));
        let runs = &agents.get("n1").unwrap().runs;
        assert_eq!(runs.len(), 1);
        assert!(runs["a"].1.stderr.len() <= COLLECT_REPORT_BYTES_MAX);
    }
}
