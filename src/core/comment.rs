// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings of a job in its comment: `key=value` tokens between semicolons.
//!
//! `sbatch --comment="class=train;work=1200"` declares a class and reports 1,200 units of work.
//! Text that is no such token is the user's own and is passed over.

/// Most bytes of the value of a token.
const VALUE_BYTES_MAX: usize = 4096;

/// The value of the last token `key=value` of a comment; spaces around both are dropped.
///
/// The last one counts, so that a job may append to what was given at submission.
#[must_use]
pub fn token<'a>(comment: &'a str, key: &str) -> Option<&'a str> {
    let tokens = comment.split(';').filter_map(|part| part.split_once('='));
    let mut values = tokens.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
    values.next_back().filter(|value| !value.is_empty() && value.len() <= VALUE_BYTES_MAX)
}

/// The work units that a job reports with `work=NUMBER`: finite and above 0, else `None`.
#[must_use]
pub fn work_units(comment: &str) -> Option<f64> {
    let number = token(comment, "work")?.parse::<f64>().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stand_beside_other_text() {
        let text = "hello; class = train ;hdfs-input=/a=b;class=eval";
        assert_eq!(token(text, "class"), Some("eval"));
        assert_eq!(token(text, "hdfs-input"), Some("/a=b"));
        assert_eq!(token(text, "hello"), None);
        assert_eq!(token("class=", "class"), None);
    }

    #[test]
    fn work_is_a_positive_number() {
        assert_eq!(work_units("class=x;work=12.5"), Some(12.5));
        for bad in ["", "work=", "work=-1", "work=0", "work=inf", "work=nan", "work=1 2", "works=1"]
        {
            assert_eq!(work_units(bad), None, "{bad}");
        }
    }
}
