// SPDX-License-Identifier: GPL-3.0-or-later
//! The nearest known word to a misspelled one.

use strsim::osa_distance;

/// Returns the candidate nearest to `word`, if near enough to be meant: at most one edit for each
/// three letters begun; ties go to the first candidate.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (word.chars().count() / 3 + 1).min(3);
    let distance = |candidate: &&str| osa_distance(&word.to_lowercase(), candidate);
    let near = candidates.into_iter().filter(|candidate| distance(candidate) <= limit);
    near.min_by_key(distance)
}
