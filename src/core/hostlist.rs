// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's short form of node names: `node[01-12,14],gpu[1-2]`.
//!
//! [`expand`] reads it, [`compress`] writes it; `expand(compress(names))`
//! gives the names back in their order. Several brackets in one name multiply,
//! the last one running fastest. A leading zero fixes the width of a range.

use std::fmt::Write as _;

use crate::limits::{HOSTLIST_DIGITS_MAX, HOSTLIST_NAME_BYTES_MAX, HOSTLIST_NAMES_MAX};

/// An error of an expression that is no hostlist, with its byte position, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hostlist{0}")]
pub struct HostlistError(String);

fn wrong<T>(at: usize, what: &str) -> Result<T, HostlistError> {
    Err(HostlistError(format!(", byte {at}: {what}")))
}

/// A piece of one name: fixed text, or the numbers of one bracket.
enum Part<'a> {
    Text(&'a str),
    Ranges(Vec<Range>),
}

#[derive(Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    /// Digits when the range has leading zeros, else 0.
    width: usize,
}

/// The names that `text` stands for, in order; commas and blanks part them, as many as there are.
///
/// # Errors
/// Fails as [`HostlistError`] lists; more than `names_max` names are refused before they
/// are made.
///
/// # Example
/// ```
/// use phalanx_core::hostlist::expand;
/// assert_eq!(expand("n[08-10],gpu[1-2]x", 100)?, ["n08", "n09", "n10", "gpu1x", "gpu2x"]);
/// assert_eq!(
///     expand("n[3-1]", 100).unwrap_err().to_string(),
///     "hostlist, byte 2: the range 3-1 ends before it begins"
/// );
/// # Ok::<(), phalanx_core::hostlist::HostlistError>(())
/// ```
pub fn expand(text: &str, names_max: usize) -> Result<Vec<String>, HostlistError> {
    let mut names = Vec::new();
    each(text, names_max, |parts| append(parts, &mut String::new(), &mut names))?;
    Ok(names)
}

/// The nodes of a list that Slurm wrote: none if it is too long or cannot be read, so that the job
/// or reservation with the list counts on no node rather than on the wrong ones.
#[must_use]
pub fn nodes(text: &str) -> Vec<String> {
    expand(text, HOSTLIST_NAMES_MAX).unwrap_or_default()
}

/// The names of one of several lists; `room`, which bounds the names of all lists, falls by their
/// number.
///
/// # Errors
/// Fails as [`expand`] does.
pub fn expand_within(text: &str, room: &mut usize) -> Result<Vec<String>, HostlistError> {
    let names = expand(text, *room)?;
    *room -= names.len();
    Ok(names)
}

/// Number of names that `text` stands for; takes time by the text's length, whatever that number.
///
/// # Errors
/// Fails as [`expand`] does, but where a name is too long.
pub fn count(text: &str, names_max: usize) -> Result<usize, HostlistError> {
    each(text, names_max, |_| Ok(()))
}

/// Hands on the parts of each name between commas; the number of names that they stand for.
fn each(
    text: &str,
    names_max: usize,
    mut take: impl FnMut(&[Part<'_>]) -> Result<(), HostlistError>,
) -> Result<usize, HostlistError> {
    let (mut from, mut found) = (0, 0);
    while from <= text.len() && !text.is_empty() {
        let (parts, end) = parse_name(text, from)?;
        from = end + 1;
        if parts.is_empty() {
            continue;
        }
        let Some(more) = product(&parts, names_max - found) else {
            let text = format!(": more names than the {names_max} that are left to it");
            return Err(HostlistError(text));
        };
        found += more;
        take(&parts)?;
    }
    Ok(found)
}

/// Reads one name up to the next comma or blank outside brackets; returns its parts and
/// where it ends.
fn parse_name(text: &str, from: usize) -> Result<(Vec<Part<'_>>, usize), HostlistError> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let mut at = from;
    let mut text_from = from;
    while at < bytes.len() && !b", \t\n".contains(&bytes[at]) {
        match bytes[at] {
            b'[' => {
                if at > text_from {
                    parts.push(Part::Text(&text[text_from..at]));
                }
                let Some(close) = text[at..].find(']').map(|inside| at + inside) else {
                    return wrong(at, "brackets do not match");
                };
                parts.push(Part::Ranges(parse_ranges(text, at + 1, close)?));
                at = close + 1;
                text_from = at;
            }
            b']' => return wrong(at, "brackets do not match"),
            byte if byte.is_ascii_control() => {
                return wrong(at, &format!("unexpected character {:?}", char::from(byte)));
            }
            _ => at += 1,
        }
    }
    if at > text_from {
        parts.push(Part::Text(&text[text_from..at]));
    }
    Ok((parts, at))
}

fn parse_ranges(text: &str, from: usize, to: usize) -> Result<Vec<Range>, HostlistError> {
    let mut ranges = Vec::new();
    let mut at = from;
    if let Some(inner) = text[from..to].find('[') {
        return wrong(from + inner, "brackets do not match");
    }
    for piece in text[from..to].split(',') {
        let (low_text, high_text) = piece.split_once('-').unwrap_or((piece, piece));
        let low = number(low_text, at)?;
        let high = number(high_text, at + piece.len() - high_text.len())?;
        if low > high {
            return wrong(at, &format!("the range {low}-{high} ends before it begins"));
        }
        let padded = low_text.len() > 1 && low_text.starts_with('0');
        ranges.push(Range { low, high, width: if padded { low_text.len() } else { 0 } });
        at += piece.len() + 1;
    }
    Ok(ranges)
}

fn number(text: &str, at: usize) -> Result<u64, HostlistError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits
        && (1..=HOSTLIST_DIGITS_MAX).contains(&text.len())
        && let Ok(value) = text.parse()
    {
        return Ok(value);
    }
    let digits = HOSTLIST_DIGITS_MAX;
    wrong(at, &format!("expected a number of 1 to {digits} digits, got \"{text}\""))
}

/// Number of names of `parts` if there are at most `max`.
fn product(parts: &[Part<'_>], max: usize) -> Option<usize> {
    let mut product: u64 = 1;
    for part in parts {
        if let Part::Ranges(ranges) = part {
            let mut sum: u64 = 0;
            for range in ranges {
                sum = sum.checked_add(range.high - range.low + 1)?;
            }
            product = product.checked_mul(sum)?;
        }
    }
    usize::try_from(product).ok().filter(|&product| product <= max)
}

fn append(
    parts: &[Part<'_>],
    name: &mut String,
    names: &mut Vec<String>,
) -> Result<(), HostlistError> {
    if name.len() > HOSTLIST_NAME_BYTES_MAX {
        let text = format!(": a name is longer than {HOSTLIST_NAME_BYTES_MAX} bytes");
        return Err(HostlistError(text));
    }
    let Some((first, rest)) = parts.split_first() else {
        names.push(name.clone());
        return Ok(());
    };
    let base = name.len();
    match first {
        Part::Text(text) => {
            name.push_str(text);
            append(rest, name, names)?;
            name.truncate(base);
        }
        Part::Ranges(ranges) => {
            for range in ranges {
                for value in range.low..=range.high {
                    // Writing to a String cannot fail.
                    let _ = write!(name, "{value:0width$}", width = range.width);
                    append(rest, name, names)?;
                    name.truncate(base);
                }
            }
        }
    }
    Ok(())
}

/// The short form of `names`, in their order: neighbours that differ only in
/// their last number share a bracket.
///
/// # Example
/// ```
/// use phalanx_core::hostlist::compress;
/// assert_eq!(compress(&["n08", "n09", "n10", "n12", "gpu1"]), "n[08-10,12],gpu1");
/// ```
#[must_use]
pub fn compress<S: AsRef<str>>(names: &[S]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < names.len() {
        let first = Split::of(names[at].as_ref());
        let mut end = at + 1;
        if first.digits.is_some() {
            while end < names.len() && first.same_group(&Split::of(names[end].as_ref())) {
                end += 1;
            }
        }
        if !out.is_empty() {
            out.push(',');
        }
        if end == at + 1 {
            out.push_str(names[at].as_ref());
        } else {
            out.push_str(first.prefix);
            out.push('[');
            write_runs(&names[at..end], &mut out);
            out.push(']');
            out.push_str(first.suffix);
        }
        at = end;
    }
    out
}

/// A name split around its last number.
struct Split<'a> {
    prefix: &'a str,
    digits: Option<(&'a str, u64)>,
    suffix: &'a str,
}

impl<'a> Split<'a> {
    fn of(name: &'a str) -> Self {
        let end = name.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
        let head = &name[..end];
        let start = head
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8));
        let digits = &name[start..end];
        let value = number(digits, 0).ok();
        Self {
            prefix: &name[..start],
            digits: value.map(|value| (digits, value)),
            suffix: &name[end..],
        }
    }

    fn same_group(&self, other: &Self) -> bool {
        other.digits.is_some() && self.prefix == other.prefix && self.suffix == other.suffix
    }
}

/// `01-03,07`: runs of numbers that follow each other in the same width.
fn write_runs<S: AsRef<str>>(names: &[S], out: &mut String) {
    let mut run: Option<(&str, &str, u64)> = None;
    let mut first = true;
    let mut flush = |run: (&str, &str, u64), out: &mut String| {
        if !first {
            out.push(',');
        }
        first = false;
        out.push_str(run.0);
        if run.0 != run.1 {
            out.push('-');
            out.push_str(run.1);
        }
    };
    for name in names {
        let Some((text, value)) = Split::of(name.as_ref()).digits else { continue };
        run = match run {
            Some((low, high, last)) if last + 1 == value && follows(low, high, text) => {
                Some((low, text, value))
            }
            Some(done) => {
                flush(done, out);
                Some((text, text, value))
            }
            None => Some((text, text, value)),
        };
    }
    if let Some(done) = run {
        flush(done, out);
    }
}

/// Whether a range that began as `low` and ends with `high` so far may go on with `text`: padded
/// numbers keep their width, others have no leading zero.
fn follows(low: &str, high: &str, text: &str) -> bool {
    let padded = low.len() > 1 && low.starts_with('0');
    if padded {
        return text.len() == low.len();
    }
    text.len() == high.len() || (text.len() == high.len() + 1 && !text.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn brackets_multiply_the_last_fastest() {
        let names = expand("r[1-2]n[09-10]-ib,login", 100).unwrap();
        assert_eq!(names, ["r1n09-ib", "r1n10-ib", "r2n09-ib", "r2n10-ib", "login"]);
        for none in ["", ",", " , "] {
            assert_eq!(expand(none, 0).unwrap(), Vec::<String>::new());
        }
        assert_eq!(expand(",a,, b\tc[1-2],\n", 100).unwrap(), ["a", "b", "c1", "c2"]);
    }

    #[test]
    fn errors_name_the_place() {
        let many = "hostlist: more names than the 100 that are left to it";
        for (text, expected) in [
            ("n[1-2", "hostlist, byte 1: brackets do not match"),
            ("n1-2]", "hostlist, byte 4: brackets do not match"),
            ("n[1[2]]", "hostlist, byte 3: brackets do not match"),
            ("n[a]", "hostlist, byte 2: expected a number of 1 to 18 digits, got \"a\""),
            ("n[]", "hostlist, byte 2: expected a number of 1 to 18 digits, got \"\""),
            ("n[1-]", "hostlist, byte 4: expected a number of 1 to 18 digits, got \"\""),
            ("n[1,9-7]", "hostlist, byte 4: the range 9-7 ends before it begins"),
            ("n\r1", "hostlist, byte 1: unexpected character '\\r'"),
            ("n[1-999]", many),
            ("n[1-999999999999999999][1-999999999999999999]", many),
        ] {
            assert_eq!(expand(text, 100).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn widths_are_kept() {
        assert_eq!(compress(&["n9", "n10", "n11"]), "n[9-11]");
        assert_eq!(compress(&["n09", "n10", "n11"]), "n[09-11]");
        assert_eq!(compress(&["n99", "n100"]), "n[99-100]");
        assert_eq!(compress(&["n099", "n100"]), "n[099-100]");
        assert_eq!(compress(&["n99", "n0100"]), "n[99,0100]");
        assert_eq!(compress(&["n0", "n1", "n01"]), "n[0-1,01]");
        assert_eq!(compress(&["b", "a1", "a2x", "a3x"]), "b,a1,a[2-3]x");
        assert_eq!(compress::<&str>(&[]), "");
    }

    proptest! {
        #[test]
        fn round_trip(
            names in prop::collection::vec("[a-c]{0,2}[0-9]{0,4}(-[xy])?[0-9]{1,3}", 0..40),
        ) {
            let text = compress(&names);
            prop_assert_eq!(expand(&text, 10_000).unwrap(), names);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-b0-9,\\[\\]\\- ]{0,24}") {
            let count = count(&text, 1000);
            prop_assert_eq!(count, expand(&text, 1000).map(|names| names.len()));
            if let Ok(names) = expand(&text, 1000) {
                prop_assert_eq!(expand(&compress(&names), 1000).unwrap(), names);
            }
        }
    }
}
