// SPDX-License-Identifier: GPL-3.0-or-later
//! The nodes that a job may get, borrowed from the caller.

use serde::{Deserialize, Serialize};

use super::classes::Classes;
use phalanx_core::layout::BySocket;
use phalanx_core::{Bits, NodeIdx, NodeSet};
use phalanx_methods::balance::Span;

/// Cores of a node that reservations keep from a job, by socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// The node.
    pub node: NodeIdx,
    /// The cores.
    pub cores: BySocket,
}

/// The candidates as words of a bitmap over the node table, all of them or within a list of nodes.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    words: &'a [u64],
    within: Option<&'a [NodeIdx]>,
    /// Whether heavier nodes within the list do where lighter ones outside hold the job.
    any_weight: bool,
    excluded: &'a [Excluded],
    classes: Option<Classes<'a>>,
    span: Option<Span>,
    full: bool,
}

impl<'a> Candidates<'a> {
    /// Takes all nodes whose bit is set.
    pub fn new(words: &'a [u64]) -> Self {
        Self {
            words,
            within: None,
            any_weight: false,
            excluded: &[],
            classes: None,
            span: None,
            full: false,
        }
    }

    /// Notes that too few of the candidates have room for the job now.
    pub fn known_full(self) -> Self {
        Self { full: true, ..self }
    }

    /// Whether it is known that no choice of the candidates can hold the job now.
    pub(super) fn are_full(&self) -> bool {
        self.full
    }

    /// Replaces the classes of the node table by `classes`.
    pub fn in_classes(self, classes: Classes<'a>) -> Self {
        Self { classes: Some(classes), ..self }
    }

    /// Sets the time for which the job would run.
    pub fn for_time(self, span: Option<Span>) -> Self {
        Self { span, ..self }
    }

    /// Time for which the job would run; `None` if it is not known.
    pub fn span(&self) -> Option<Span> {
        self.span
    }

    /// Classes that came with the question.
    pub fn classes(&self) -> Option<Classes<'a>> {
        self.classes
    }

    /// Keeps only the candidates in `nodes`; as with Slurm, lighter nodes outside come before
    /// heavier ones inside.
    pub fn within(self, nodes: &'a [NodeIdx]) -> Self {
        Self { within: Some(nodes), ..self }
    }

    /// Keeps heavier candidates within the list before lighter ones outside.
    pub fn of_any_weight(self) -> Self {
        Self { any_weight: true, ..self }
    }

    /// The candidates, also outside the list.
    pub(super) fn everywhere(self) -> Self {
        Self { within: None, ..self }
    }

    /// Whether only a list may be chosen from, and whether it may cost heavier nodes.
    pub(super) fn preferred(&self) -> (bool, bool) {
        (self.within.is_some(), self.any_weight)
    }

    /// Whether lighter candidates outside the list come first.
    pub(super) fn is_by_weight(&self) -> bool {
        self.within.is_some() && !self.any_weight
    }

    /// Leaves out the cores in `excluded`.
    pub fn without(self, excluded: &'a [Excluded]) -> Self {
        Self { excluded, ..self }
    }

    /// The words of the bitmap.
    pub fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Cores that the job may not have.
    pub fn excluded(&self) -> &'a [Excluded] {
        self.excluded
    }

    /// Whether the node's bit is set.
    pub fn has(&self, node: NodeIdx) -> bool {
        self.words.get(node.at() / 64).is_some_and(|word| word >> (node.at() % 64) & 1 == 1)
    }

    /// The nodes whose bit is set, ascending, also outside the list.
    pub fn iter(&self) -> Bits<'a> {
        Bits::of(self.words)
    }

    /// Number of bits that are set, also outside the list.
    pub fn count(&self) -> usize {
        self.iter().len()
    }

    /// Whether the bitmap is of a table with this number of nodes.
    pub(super) fn is_over(&self, nodes: usize) -> bool {
        self.words.len() == nodes.div_ceil(64)
    }

    /// Makes `set` hold all candidates, including those outside the preferred list.
    pub(super) fn put_all_into(&self, set: &mut NodeSet) {
        set.assign_words(self.words);
    }

    /// Makes `set` hold exactly the candidates.
    pub(super) fn put_into(&self, set: &mut NodeSet) {
        let Some(nodes) = self.within else {
            set.assign_words(self.words);
            return;
        };
        set.assign_words(&[]);
        set.extend(nodes.iter().copied().filter(|node| self.has(*node)));
    }
}
