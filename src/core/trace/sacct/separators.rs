// SPDX-License-Identifier: GPL-3.0-or-later
//! Separators that are part of a text: the ways in which a line can be read.

/// Ways that are tried at most.
const WAYS_MAX: usize = 300;
/// Most texts of one line that may have separators in them.
const TEXTS_MAX: usize = 3;

/// A text's place among the columns, and how many separators are part of it.
type Part = (usize, usize);

/// Fields of a line, and where each lies in it.
pub(super) struct Split<'a> {
    line: &'a str,
    /// Begin and end of each piece between separators, bytes.
    pieces: Vec<(usize, usize)>,
}

impl<'a> Split<'a> {
    pub(super) fn of(line: &'a str, separator: &str) -> Self {
        let (mut begin, mut pieces) = (0, Vec::new());
        for piece in line.split(separator) {
            pieces.push((begin, begin + piece.len()));
            begin += piece.len() + separator.len();
        }
        Self { line, pieces }
    }

    /// Pieces between separators.
    pub(super) fn count(&self) -> usize {
        self.pieces.len()
    }

    /// The first `count` pieces as they are.
    pub(super) fn first(&self, count: usize) -> Vec<&'a str> {
        self.pieces.iter().take(count).filter_map(|(from, to)| self.line.get(*from..*to)).collect()
    }

    /// Splits into `count` fields, where `more` separators belong to texts at `places` (ascending):
    /// all in one text first, then in two and three.
    pub(super) fn ways(&self, count: usize, more: usize, places: &[usize]) -> Vec<Vec<&'a str>> {
        let mut parts = Vec::new();
        for texts in 1..=TEXTS_MAX.min(more).min(places.len()) {
            share(&mut parts, &mut Vec::new(), texts, more, places);
        }
        parts.iter().filter_map(|parts| self.joined(count, parts)).collect()
    }

    fn joined(&self, count: usize, parts: &[Part]) -> Option<Vec<&'a str>> {
        let mut at = 0;
        (0..count)
            .map(|column| {
                let more = parts.iter().find(|(place, _)| *place == column).map_or(0, |p| p.1);
                let ((begin, _), (_, end)) = (self.pieces.get(at)?, self.pieces.get(at + more)?);
                at += more + 1;
                self.line.get(*begin..*end)
            })
            .collect()
    }
}

/// Adds to `found` the ways to give `more` separators to exactly `texts` of `places`.
fn share(
    found: &mut Vec<Vec<Part>>,
    own: &mut Vec<Part>,
    texts: usize,
    more: usize,
    places: &[usize],
) {
    if found.len() >= WAYS_MAX {
        return;
    }
    if texts == 0 {
        found.push(own.clone());
        return;
    }
    for (at, place) in places.iter().enumerate() {
        let rest = places.get(at + 1..).unwrap_or_default();
        // The last text takes all that is left; the others leave one for each that follows.
        let fewest = if texts == 1 { more } else { 1 };
        for taken in fewest..=(more + 1).saturating_sub(texts) {
            own.push((*place, taken));
            share(found, own, texts - 1, more - taken, rest);
            own.pop();
        }
    }
}
