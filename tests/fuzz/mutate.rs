// SPDX-License-Identifier: GPL-3.0-or-later
//! Mutates an input.

/// Numbers at which lengths and counts go wrong.
const NUMBERS: [u64; 18] = [
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    127,
    128,
    255,
    256,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_fffe,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Generator of numbers from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Makes the generator of `seed`'s numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.number()) * end as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Returns one of `all`, which is not empty.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    #[allow(clippy::cast_possible_truncation)] // the low bits are meant
    fn byte(&mut self) -> u8 {
        self.number() as u8
    }
}

/// Changes `input` one to eight times; parts of `others` and `words` get into it.
pub(crate) fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str], random: &mut Random) {
    for _ in 0..=(random.below(8).min(random.below(8))) {
        let at = random.below(input.len() + 1);
        match random.below(12) {
            0 => flip(input, at, random),
            1 => replace(input, at, &[random.byte()]),
            2 => remove(input, at, random),
            3 => repeat(input, at, random),
            4 | 5 => number(input, at, random),
            6 => digits(input, at, random),
            7 => {
                let other = random.of(others);
                let from = random.below(other.len() + 1);
                let len = random.below(other.len() - from + 1).min(256);
                insert(input, at, &other[from..from + len]);
            }
            8 => {
                let other = random.of(others);
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            9 => input.truncate(at),
            _ if words.is_empty() => insert(input, at, &[random.byte()]),
            10 => insert(input, at, random.of(words).as_bytes()),
            _ => replace(input, at, random.of(words).as_bytes()),
        }
    }
}

/// Repeats a part of `input`, half of the time a whole line, until there are `bytes` bytes; half of
/// the time each repetition has another number in it.
pub(crate) fn grow(input: &mut Vec<u8>, bytes: usize, random: &mut Random) {
    let mut from = random.below(input.len());
    let mut to = (from + 1 + random.below(64)).min(input.len());
    if random.below(2) == 0 {
        let is_end = |byte: &u8| *byte == b'\n';
        from = input[..from].iter().rposition(is_end).map_or(0, |at| at + 1);
        to = input[to..].iter().position(is_end).map_or(input.len(), |at| to + at + 1);
    }
    let part = input[from..to].to_vec();
    let number = part.iter().position(u8::is_ascii_digit).filter(|_| random.below(2) == 0);
    let mut all = Vec::with_capacity(bytes + part.len());
    for count in 0..bytes.saturating_sub(input.len()).div_ceil(part.len().max(1)) {
        let (head, tail) = part.split_at(number.unwrap_or(part.len()));
        all.extend_from_slice(head);
        if let Some((_, rest)) = tail.split_first() {
            all.extend(count.to_string().bytes());
            all.extend_from_slice(rest);
        }
    }
    insert(input, to, &all);
}

fn flip(input: &mut [u8], at: usize, random: &mut Random) {
    let bit = random.below(8);
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << bit;
    }
}

fn insert(input: &mut Vec<u8>, at: usize, part: &[u8]) {
    input.splice(at..at, part.iter().copied());
}

fn replace(input: &mut Vec<u8>, at: usize, part: &[u8]) {
    let end = (at + part.len()).min(input.len());
    input.splice(at..end, part.iter().copied());
}

fn remove(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let most = (input.len() - at).min(64);
    let len = random.below(most + 1);
    input.drain(at..at + len);
}

fn repeat(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let len = random.below((input.len() - at).min(64) + 1);
    let part = input[at..at + len].repeat(1 + random.below(8));
    insert(input, at, &part);
}

/// Replaces a number by one at a boundary, or by one more or less.
fn number(input: &mut [u8], at: usize, random: &mut Random) {
    let len = 1 << random.below(4);
    let Some(place) = input.get_mut(at..at + len) else { return };
    let mut bytes = [0; 8];
    bytes[..len].copy_from_slice(place);
    let there = u64::from_le_bytes(bytes);
    let new = match random.below(3) {
        0 => there.wrapping_add(1 + random.number() % 16),
        1 => there.wrapping_sub(1 + random.number() % 16),
        _ => *random.of(&NUMBERS),
    };
    place.copy_from_slice(&new.to_le_bytes()[..len]);
    if random.below(2) == 0 {
        place.reverse();
    }
}

/// Replaces the next decimal number by another one.
fn digits(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|n| at + n) else {
        return;
    };
    let len = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let new = match random.below(2) {
        0 => random.of(&NUMBERS).to_string(),
        _ => (random.number() >> random.below(64)).to_string(),
    };
    input.splice(start..start + len, new.bytes());
}
