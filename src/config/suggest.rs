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
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = osa_distance(&word.to_lowercase(), candidate);
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}
