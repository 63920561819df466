// SPDX-License-Identifier: GPL-3.0-or-later
//! Lines of slurm.conf, topology.conf and of what `scontrol show` prints, read by Slurm's rule
//! (slurm.conf(5); `src/common/parse_config.c` of Slurm): comments, continued lines, escapes, and
//! `KEY = VALUE` with blanks around `=`, an operator before it, and quoted values.

/// A pair of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Key in small letters.
    pub key: String,
    /// Value of the setting without quotes.
    pub value: String,
}

/// A line that is not empty, continued lines joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the line in the text, from 1; of a continued line, that of its first part.
    pub number: usize,
    /// Text without comments and escapes.
    pub text: String,
    /// Settings of the line, in the order written.
    pub settings: Vec<Setting>,
    /// Text behind the last pair; empty where the whole line is pairs.
    pub rest: String,
}

impl Line {
    /// Value of a key in small letters; the last one counts, as for Slurm.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.iter().rev().find(|pair| pair.key == key).map(|pair| &*pair.value)
    }

    /// File named by an `Include` line.
    pub fn include(&self) -> Option<&str> {
        let (word, name) = self.text.split_once(char::is_whitespace)?;
        word.eq_ignore_ascii_case("include").then(|| name.trim())
    }
}

/// Origin of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file: blanks may follow `=`, so a value is never empty unless quoted.
    File,
    /// Output of `scontrol show`: a value is empty where a blank follows `=`.
    Printed,
}

/// Lines of a text that are not empty.
///
/// # Example
/// ```
/// use phalanx_core::slurm_conf::{Form, lines};
/// let text = "NodeName = n[1-4] CPUs=8 Reason=\"no CPUs=1\" # comment\n";
/// let line = &lines(text, Form::File)[0];
/// assert_eq!((line.get("nodename"), line.get("cpus")), (Some("n[1-4]"), Some("8")));
/// ```
pub fn lines(text: &str, form: Form) -> Vec<Line> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut raw = text.lines().zip(1..).peekable();
    while let Some((line, number)) = raw.next() {
        let (begin, mut joined) = open.take().unwrap_or((number, String::new()));
        let bare = without_comment(line);
        let continued = without_continuation(bare);
        joined.push_str(continued.unwrap_or(bare));
        if continued.is_some() && raw.peek().is_some() {
            open = Some((begin, joined));
            continue;
        }
        let text = without_escapes(joined.trim());
        if !text.is_empty() {
            let (settings, rest) = settings(&text, form);
            found.push(Line { number: begin, settings, rest, text });
        }
    }
    found
}

/// The part before `#`, unless an odd number of `\` stands before the `#`.
fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            '#' if !escaped => return &line[..at],
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    line
}

/// The part before an odd number of `\` at the end, with one of them removed; `None` where there is
/// none.
fn without_continuation(line: &str) -> Option<&str> {
    let end = line.trim_end();
    let slashes = end.len() - end.trim_end_matches('\\').len();
    (slashes % 2 == 1).then(|| &end[..end.len() - 1])
}

fn without_escapes(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            c => out.push(c),
        }
    }
    out
}

fn settings(text: &str, form: Form) -> (Vec<Setting>, String) {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((pair, behind)) = setting(rest, form) {
        found.push(pair);
        rest = behind;
    }
    (found, rest.trim().to_owned())
}

/// The pair at the beginning of a text, and the text behind it.
fn setting(text: &str, form: Form) -> Option<(Setting, &str)> {
    let text = text.trim_start();
    let in_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let end = text.find(|c| !in_key(c)).filter(|end| *end > 0)?;
    let (key, behind) = text.split_at(end);
    let behind = behind.trim_start();
    let behind = behind.strip_prefix(['-', '+', '*', '/']).unwrap_or(behind);
    let behind = behind.strip_prefix('=')?;
    let behind = if form == Form::File { behind.trim_start() } else { behind };
    let ends_word = |after: &str| after.is_empty() || after.starts_with(char::is_whitespace);
    let quoted = behind.strip_prefix('"').and_then(|inside| inside.split_once('"'));
    let (value, behind) = quoted.filter(|(_, after)| ends_word(after)).or_else(|| {
        let word = behind.split_at(behind.find(char::is_whitespace).unwrap_or(behind.len()));
        (form == Form::Printed || !word.0.is_empty()).then_some(word)
    })?;
    Some((Setting { key: key.to_ascii_lowercase(), value: value.to_owned() }, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let all = lines(text, Form::File).into_iter().flat_map(|line| line.settings);
        all.map(|pair| (pair.key, pair.value)).collect()
    }

    #[test]
    fn blanks_operators_and_quotes() {
        let text = "NodeName = n[1-4]  CPUs= 8 RealMemory =32000 Reason=\"bad CPUs=1 dimm\"\n\
                    Nodes+=a Nodes -= b Empty=\"\" Path=\"x\"y\n";
        let wanted = [
            ("nodename", "n[1-4]"),
            ("cpus", "8"),
            ("realmemory", "32000"),
            ("reason", "bad CPUs=1 dimm"),
            ("nodes", "a"),
            ("nodes", "b"),
            ("empty", ""),
            ("path", "\"x\"y"),
        ];
        assert_eq!(pairs(text), wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn comments_continuations_and_escapes() {
        let text = "# A=1\nA=b\\#c # d\nB=1,\\\n2\nC=x\\\\ \\ \n D=2\nE=3 \\";
        let found = lines(text, Form::File);
        let numbers: Vec<usize> = found.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 3, 5, 7]);
        let value = |at: usize, key: &str| found[at].get(key).unwrap().to_owned();
        assert_eq!((value(0, "a"), value(1, "b")), ("b#c".to_owned(), "1,2".to_owned()));
        assert_eq!((value(2, "c"), value(2, "d")), ("x\\".to_owned(), "2".to_owned()));
        assert_eq!((value(3, "e"), found[3].rest.as_str()), ("3".to_owned(), ""));
    }

    #[test]
    fn what_is_no_pair_is_the_rest() {
        let found = lines("Include  more.conf\nA=1 nonsense B=2\nC=\n", Form::File);
        assert_eq!((found[0].include(), found[1].include()), (Some("more.conf"), None));
        assert_eq!((found[1].settings.len(), found[1].rest.as_str()), (1, "nonsense B=2"));
        assert_eq!((found[2].settings.len(), found[2].rest.as_str()), (0, "C="));
        let printed = &lines("C= D=2", Form::Printed)[0];
        assert_eq!((printed.get("c"), printed.get("d")), (Some(""), Some("2")));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[ -~\\n]{0,200}") {
            for form in [Form::File, Form::Printed] {
                let all = lines(&text, form);
                proptest::prop_assert!(all.iter().all(|line| !line.text.is_empty()));
            }
        }
    }
}
