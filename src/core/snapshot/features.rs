// SPDX-License-Identifier: GPL-3.0-or-later
//! Slurm's `--constraint` expressions, as far as they decide which nodes a job
//! may use at all.
//!
//! `a&b`, `a|b`, parentheses, `[a|b]` (all nodes alike) and `[a*2&b*1]`
//! (counts). For the question "may this node take part" both bracket forms
//! mean "any of them", because each node needs to match one branch only.
//! Source: `src/slurmctld/job_mgr.c` `build_feature_list`, sbatch(1).

/// A parsed constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// Node has the feature.
    Has(String),
    /// Node meets all constraints.
    All(Vec<Constraint>),
    /// Node meets at least one constraint.
    Any(Vec<Constraint>),
}

/// Most parentheses in one another, and most operators in all, as each may nest operands.
const NESTED_MAX: (usize, usize) = (32, 1000);

impl Constraint {
    /// Parses an expression.
    ///
    /// # Errors
    /// The byte position and what was expected there.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text: text.as_bytes(), at: 0, operators: 0 };
        let parsed = parser.expression(false, 0)?;
        if parser.at != parser.text.len() {
            return Err(format!("position {}: unexpected `{}`", parser.at, parser.rest()));
        }
        Ok(parsed)
    }

    /// Whether a node with `features` satisfies the expression.
    pub fn matches<S: AsRef<str>>(&self, features: &[S]) -> bool {
        match self {
            Self::Has(name) => features.iter().any(|f| f.as_ref() == name),
            Self::All(parts) => parts.iter().all(|p| p.matches(features)),
            Self::Any(parts) => parts.iter().any(|p| p.matches(features)),
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    operators: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> String {
        String::from_utf8_lossy(self.text.get(self.at..).unwrap_or_default()).into_owned()
    }

    /// Slurm evaluates `&` and `|` from left to right with equal rank.
    /// `counted`: inside brackets, where every operator separates branches.
    fn expression(&mut self, counted: bool, depth: usize) -> Result<Constraint, String> {
        let mut left = self.operand(depth)?;
        while let Some(op @ (b'&' | b'|' | b',')) = self.peek() {
            (self.at, self.operators) = (self.at + 1, self.operators + 1);
            let right = self.operand(depth)?;
            let join_all = op != b'|' && !counted;
            left = join(left, right, join_all);
        }
        Ok(left)
    }

    fn operand(&mut self, depth: usize) -> Result<Constraint, String> {
        if depth > NESTED_MAX.0 || self.operators > NESTED_MAX.1 {
            return Err(format!("position {}: nested too deeply", self.at));
        }
        match self.peek() {
            Some(open @ (b'[' | b'(')) => {
                self.at += 1;
                let inner = self.expression(open == b'[', depth + 1)?;
                let close = if open == b'[' { b']' } else { b')' };
                if self.peek() != Some(close) {
                    return Err(format!("position {}: expected `{}`", self.at, char::from(close)));
                }
                self.at += 1;
                self.count();
                Ok(inner)
            }
            _ => self.name(),
        }
    }

    fn name(&mut self) -> Result<Constraint, String> {
        let start = self.at;
        while let Some(c) = self.peek() {
            if b"&|,[]()*".contains(&c) {
                break;
            }
            self.at += 1;
        }
        if start == self.at {
            return Err(format!("position {start}: expected a feature name"));
        }
        let bytes = self.text.get(start..self.at).unwrap_or_default();
        let name = String::from_utf8_lossy(bytes).trim().to_owned();
        self.count();
        Ok(Constraint::Has(name))
    }

    /// `*N` behind a name or bracket: a number of nodes, no filter.
    fn count(&mut self) {
        if self.peek() == Some(b'*') {
            self.at += 1;
            while self.peek().is_some_and(|c| c.is_ascii_digit()) {
                self.at += 1;
            }
        }
    }
}

fn join(left: Constraint, right: Constraint, all: bool) -> Constraint {
    match (left, all) {
        (Constraint::All(mut parts), true) => {
            parts.push(right);
            Constraint::All(parts)
        }
        (Constraint::Any(mut parts), false) => {
            parts.push(right);
            Constraint::Any(parts)
        }
        (left, true) => Constraint::All(vec![left, right]),
        (left, false) => Constraint::Any(vec![left, right]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching() {
        let cases: &[(&str, &[&str], bool)] = &[
            ("a", &["a"], true),
            ("a&b", &["a"], false),
            ("a&b", &["b", "a"], true),
            ("a|b", &["b"], true),
            ("[a*2&b*1]", &["b"], true),
            ("[a*2&b*1]", &["c"], false),
            ("[a|b]&c", &["b"], false),
            ("[a|b]&c", &["b", "c"], true),
            ("(a|b)&c", &["a", "c"], true),
            ("[(a&b)*2&c*1]", &["a"], false),
            ("[(a&b)*2&c*1]", &["a", "b"], true),
        ];
        for (text, features, expected) in cases {
            let parsed = Constraint::parse(text).unwrap();
            assert_eq!(parsed.matches(features), *expected, "{text} on {features:?}");
        }
    }

    #[test]
    fn errors_name_the_position() {
        for (text, position) in [("", 0), ("a&", 2), ("(a", 2), ("a]", 1), ("[a|b", 4)] {
            let error = Constraint::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("position {position}:")), "{text}: {error}");
        }
        assert!(Constraint::parse(&"(".repeat(100)).is_err());
        let deep = Constraint::parse(&"a&b|".repeat(100_000)).unwrap_err();
        assert_eq!(deep, "position 2002: nested too deeply");
        let deepest = format!("{}a", "a&b|".repeat(500));
        assert!(Constraint::parse(&deepest).unwrap().matches(&["a"]));
    }
}
