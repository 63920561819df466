// SPDX-License-Identifier: GPL-3.0-or-later
//! Proofs of answers: which are given, how they fared, and which kind is switched off.
//!
//! Stock makes every result; a proof only says that its result for few nodes may stand for that for
//! all. Which ones the plugin compares with stock in full it does not tell; the first that does not
//! hold switches its kind off until the configuration is loaded again.

use log::warn;
use phalanx_ffi::wire::{self, AnswerHead, Proof, ProofResult, WireName};

use phalanx_core::NodeIdx;
use phalanx_core::shape::Shape;
use phalanx_messages::rest::ProofStatus;
use phalanx_planner::cluster::{Cluster, RunningJob};
use phalanx_planner::place::Candidates;
use phalanx_planner::proof::{Earliest, NEVER, Prover, Second, Times};

/// The kinds of proofs that are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proving {
    /// Proofs of TEST_ONLY calls.
    pub test_only: bool,
    /// Proofs of WILL_RUN calls.
    pub will_run: bool,
    /// Proofs of RUN_NOW calls that cannot fit.
    pub no_fit: bool,
}

/// A proof that was given and whose outcome is not known yet.
#[derive(Debug, Clone, Default)]
struct Given {
    ask_seq: u64,
    job_id: u32,
    partition: String,
    shape: Shape,
    earliest: Option<Earliest>,
    nodes: Vec<NodeIdx>,
}

/// All proofs, and their state by kind.
#[derive(Debug, Default)]
pub struct Proofs {
    prover: Prover,
    counts: [ProofStatus; 3],
    given: Given,
    /// Scratch space for nodes.
    nodes: Vec<NodeIdx>,
    words: Vec<u64>,
}

/// A proof for one ask.
#[derive(Debug)]
pub struct Proved {
    kind: Proof,
    earliest: Option<Earliest>,
}

impl Proofs {
    pub(crate) fn set_cluster(&mut self, cluster: &Cluster) {
        self.prover = Prover::new(cluster);
    }

    pub(crate) fn set_job(&mut self, cluster: &Cluster, job: &RunningJob) {
        self.prover.set_job(cluster.jobs().get(&job.id), job);
    }

    pub(crate) fn end_job(&mut self, cluster: &Cluster, id: u32) {
        if let Some(job) = cluster.jobs().get(&id) {
            self.prover.end_job(job);
        }
    }

    /// Switches every kind on again.
    pub fn forgive(&mut self) {
        for counts in &mut self.counts {
            counts.off = false;
        }
    }

    /// Returns the counts by kind: TEST_ONLY, WILL_RUN, RUN_NOW that cannot fit.
    pub fn counts(&self) -> [ProofStatus; 3] {
        self.counts.clone()
    }

    fn of(&mut self, kind: Proof) -> Option<&mut ProofStatus> {
        self.counts.get_mut(usize::try_from(kind.raw().checked_sub(1)?).ok()?)
    }

    /// Counts an ask that a proof may answer.
    pub fn asked(&mut self, ask: &wire::Ask<'_>) {
        if ask.has(wire::PHX_ASK_PROVE)
            && let Some(counts) = ask.mode().and_then(|mode| self.of(kind_of(mode)))
        {
            counts.asked += 1;
        }
    }

    /// Returns a proof for an ask, if there is one; `out` then has the nodes to try.
    pub fn prove(
        &mut self,
        proving: Proving,
        cluster: &Cluster,
        ask: &wire::Ask<'_>,
        shape: &Shape,
        now_s: u64,
        out: &mut Vec<u32>,
    ) -> Option<Proved> {
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.clear();
        // What stock is asked about in full: candidates of ours or not.
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.extend_from_slice(ask.candidates);
        words.iter_mut().zip(ask.left_out).for_each(|(word, left)| *word |= left);
        let proved = self.find(proving, cluster, (ask, &words, shape), now_s, &mut nodes);
        self.words = words;
        out.clear();
        if proved.is_some() {
            out.extend(nodes.iter().map(|node| node.raw()));
        }
        self.nodes = nodes;
        proved
    }

    fn find(
        &mut self,
        proving: Proving,
        cluster: &Cluster,
        (ask, words, shape): (&wire::Ask<'_>, &[u64], &Shape),
        now_s: u64,
        nodes: &mut Vec<NodeIdx>,
    ) -> Option<Proved> {
        let kind = kind_of(ask.mode()?);
        let wanted = match kind {
            Proof::TestOnly => proving.test_only,
            Proof::WillRun => proving.will_run,
            Proof::NoFit | Proof::None => proving.no_fit,
        };
        if !wanted || !ask.has(wire::PHX_ASK_PROVE) || self.of(kind)?.off {
            return None;
        }
        let untold = ask.has(wire::PHX_ASK_LEFT_OUT) && ask.left_out.is_empty();
        if kind != Proof::TestOnly && (!ask.has(wire::PHX_ASK_CORES) || untold) {
            return None;
        }
        let candidates = Candidates::new(words);
        let earliest = match kind {
            Proof::TestOnly => {
                self.prover.could_run(cluster, shape, candidates, nodes);
                (!nodes.is_empty()).then_some(None)?
            }
            Proof::WillRun => {
                let times = times(ask, now_s)?;
                let found = self.prover.earliest(cluster, shape, candidates, times, nodes)?;
                let to_s = second(ask.head.to_time);
                if to_s > 0 && found.not_before_s > to_s {
                    // Slurm does not look beyond the end that it was given.
                    nodes.clear();
                }
                Some(found)
            }
            Proof::NoFit | Proof::None => {
                self.prover.cannot_fit(cluster, shape, candidates).then_some(None)?
            }
        };
        if nodes.len() > wire::PHX_ANSWER_NODES_MAX as usize {
            return None;
        }
        let counts = self.of(kind)?;
        counts.proved += 1;
        self.given = Given {
            ask_seq: ask.seq(),
            job_id: ask.head.job_id,
            partition: ask.head.partition.name().into_owned(),
            shape: shape.clone(),
            earliest,
            nodes: nodes.clone(),
        };
        Some(Proved { kind, earliest })
    }

    /// Whether too few candidates have room for the request now, whatever Slurm does.
    pub(crate) fn cannot_fit(
        &mut self,
        cluster: &Cluster,
        shape: &Shape,
        candidates: Candidates<'_>,
    ) -> bool {
        self.prover.cannot_fit(cluster, shape, candidates)
    }

    /// Counts the plugin's report on the outcome of an ask.
    pub fn outcome(&mut self, outcome: &wire::Outcome) {
        let Some(kind) = Proof::from_raw(u32::from(outcome.proof)) else { return };
        let Some(result) = ProofResult::from_raw(outcome.proof_result) else { return };
        let Some(counts) = self.of(kind) else { return };
        match result {
            ProofResult::None => {}
            ProofResult::Accepted | ProofResult::Verified => counts.accepted += 1,
            ProofResult::Rejected => counts.rejected += 1,
            ProofResult::Refuted => {
                counts.refuted += 1;
                if !counts.off {
                    counts.off = true;
                    self.say_refuted(kind, outcome);
                }
            }
        }
    }

    fn say_refuted(&self, kind: Proof, outcome: &wire::Outcome) {
        let given = &self.given;
        if given.ask_seq != outcome.ask_seq {
            warn!("a proof of {kind} was refuted; none is given until the next reload");
            return;
        }
        let nodes: Vec<u32> = given.nodes.iter().map(|node| node.raw()).collect();
        let (start, full_start) = (outcome.start, outcome.full_start);
        warn!(
            "a proof of {kind} was refuted; none is given until the next reload: job {} in \
             partition {}, request {:?}, proved {:?}, nodes {nodes:?}, Slurm on these {start}, on \
             all candidates {full_start}",
            given.job_id, given.partition, given.shape, given.earliest,
        );
    }
}

/// Returns the statement that can be proved of a call.
fn kind_of(mode: wire::Mode) -> Proof {
    match mode {
        wire::Mode::TestOnly => Proof::TestOnly,
        wire::Mode::WillRun => Proof::WillRun,
        wire::Mode::RunNow => Proof::NoFit,
    }
}

/// Returns the times of a WILL_RUN ask. A later start is after the jobs that end before it.
fn times(ask: &wire::Ask<'_>, now_s: u64) -> Option<Times> {
    let now_s = Second::try_from(now_s).ok()?;
    let from_s = second(ask.head.from_time);
    Some(Times {
        now_s,
        from_s: if from_s > now_s { from_s - 1 } else { 0 },
        windows: ask.has(wire::PHX_ASK_WINDOWS),
    })
}

fn second(time: u64) -> Second {
    Second::try_from(time).unwrap_or(NEVER)
}

impl Proved {
    /// Returns the head of the answer with the nodes that were found.
    pub fn head(
        &self,
        ask: &wire::Ask<'_>,
        nodes: &[u32],
        decision: u64,
        generation: u64,
    ) -> AnswerHead {
        let job_id = ask.head.job_id;
        let head = if nodes.is_empty() {
            wire::Answer::no_opinion_head(job_id, wire::Reason::NoFit, decision, generation)
        } else {
            wire::Answer::narrow_head(job_id, decision, generation)
        };
        let earliest = self.earliest.unwrap_or(Earliest { not_before_s: 0, until_s: 0 });
        let times = (earliest.not_before_s.into(), earliest.until_s.into());
        head.with_proof(self.kind, times)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use phalanx_planner::cluster::{Held, Table, TableNode};
    use zerocopy::FromZeros;

    const NOW: u64 = 1_000_000;
    const ALL: Proving = Proving { test_only: true, will_run: true, no_fit: true };

    /// Returns 128 nodes of 8 CPUs; node `n` is full for `100 + n` seconds.
    fn cluster() -> Cluster {
        let node =
            |at: u32| TableNode { name: format!("n{at}").into(), cpus: 8, ..TableNode::default() };
        let table = Table { nodes: (0..128).map(node).collect(), ..Table::default() };
        let mut cluster = Cluster::new(table);
        for at in 0..128u32 {
            let held = vec![Held { node: at.into(), cpus: 8, ..Held::default() }];
            let end_s = NOW + 100 + u64::from(at);
            cluster.set_job(RunningJob { id: at + 1, end_s, held, ..Default::default() }, |_| {});
        }
        cluster
    }

    struct Case {
        cluster: Cluster,
        proofs: Proofs,
        head: wire::AskHead,
        nodes: Vec<u32>,
        few: bool,
    }

    impl Case {
        fn new() -> Self {
            let mut head = wire::AskHead::new_zeroed();
            head.mode = wire::Mode::WillRun.raw();
            head.flags = wire::PHX_ASK_PROVE | wire::PHX_ASK_CORES | wire::PHX_ASK_WINDOWS;
            let cluster = cluster();
            let mut proofs = Proofs::default();
            proofs.set_cluster(&cluster);
            Self { cluster, proofs, head, nodes: Vec::new(), few: false }
        }

        fn prove(&mut self, proving: Proving) -> Option<Proved> {
            let shape =
                Shape { min_nodes: 2, max_nodes: 2, req_nodes: 2, min_cpus: 2, ..Shape::default() };
            let ask = wire::Ask::new(&self.head, if self.few { &[7, 0] } else { &[!0, !0] });
            self.proofs.prove(proving, &self.cluster, &ask, &shape, NOW, &mut self.nodes)
        }

        fn ends(&mut self, result: ProofResult) {
            let mut outcome = wire::Outcome::new_zeroed();
            outcome.proof = u16::try_from(Proof::WillRun.raw()).unwrap();
            outcome.proof_result = result.raw();
            self.proofs.outcome(&outcome);
        }
    }

    #[test]
    fn each_kind_of_call_has_its_proof() {
        let mut case = Case::new();
        let proved = case.prove(ALL).unwrap();
        let earliest = proved.earliest.unwrap();
        assert_eq!(u64::from(earliest.not_before_s), NOW + 101);
        assert!(case.nodes.contains(&0) && case.nodes.contains(&1));
        let ask = wire::Ask::new(&case.head, &[!0, !0]);
        let head = proved.head(&ask, &case.nodes, 5, 1);
        assert_eq!((head.verdict, head.proof), (wire::Verdict::Narrow.raw(), 2));
        assert_eq!((head.not_before, head.flags), (NOW + 101, wire::PHX_A_PROOF));
        assert!(head.until >= head.not_before);
        case.head.mode = wire::Mode::TestOnly.raw();
        assert!(case.prove(ALL).is_some());
        assert_eq!(case.nodes.len(), 16);
        case.head.mode = wire::Mode::RunNow.raw();
        assert!(case.prove(ALL).is_some());
        assert!(case.nodes.is_empty());
        assert!(case.prove(Proving { no_fit: false, ..ALL }).is_none());
    }

    #[test]
    fn what_the_plugin_excludes_is_not_proved() {
        let mut case = Case::new();
        let flags = case.head.flags;
        for changed in [
            flags & !wire::PHX_ASK_PROVE,
            flags & !wire::PHX_ASK_CORES,
            flags | wire::PHX_ASK_LEFT_OUT,
        ] {
            case.head.flags = changed;
            assert!(case.prove(ALL).is_none(), "{changed:#x}");
        }
        case.head.flags = flags;
        assert!(case.prove(ALL).is_some());
        case.few = true;
        assert!(case.prove(ALL).is_none(), "the nodes are most of the candidates");
        assert!(case.nodes.is_empty());
    }

    #[test]
    fn beyond_the_wanted_end_there_is_no_start() {
        let mut case = Case::new();
        case.head.to_time = NOW + 100;
        assert!(case.prove(ALL).is_some());
        assert!(case.nodes.is_empty(), "the call fails");
        case.head.to_time = NOW + 101;
        assert!(case.prove(ALL).is_some());
        assert!(!case.nodes.is_empty());
        // The jobs that end before the wanted start make room for it.
        case.head.from_time = NOW + 120;
        case.head.to_time = 0;
        let earliest = case.prove(ALL).unwrap().earliest.unwrap();
        assert_eq!(u64::from(earliest.not_before_s), NOW + 119);
        assert_eq!(earliest.until_s, earliest.not_before_s);
    }

    #[test]
    fn the_first_wrong_one_ends_its_kind() {
        let mut case = Case::new();
        (0..4).for_each(|_| assert!(case.prove(ALL).is_some()));
        for result in [ProofResult::Accepted, ProofResult::Rejected, ProofResult::Verified] {
            case.ends(result);
        }
        let [_, counts, _] = case.proofs.counts();
        assert_eq!((counts.proved, counts.accepted, counts.rejected), (4, 2, 1));
        assert_eq!((counts.refuted, counts.off), (0, false));
        case.ends(ProofResult::Refuted);
        assert!(case.prove(ALL).is_none());
        case.head.mode = wire::Mode::TestOnly.raw();
        assert!(case.prove(ALL).is_some(), "only its own kind");
        case.head.mode = wire::Mode::WillRun.raw();
        case.proofs.forgive();
        assert!(case.prove(ALL).is_some());
    }
}
