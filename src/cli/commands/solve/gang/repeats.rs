// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading of problems whose tasks repeat: what is written like the task before is not read again.
//!
//! The tasks of a gang are mostly alike, and with their edges they are most of a large problem.

use serde::Deserialize;
use serde::de::IgnoredAny;

use phalanx_methods::gang::{Job, Problem, Task};

/// The problem in `bytes`; none where the text is not one, or not written as they mostly are.
/// Reading it as any other text then finds the error, or the problem.
pub(super) fn read(bytes: &[u8]) -> Option<Problem> {
    let mut text = Text { bytes, at: 0 };
    let mut jobs = Vec::new();
    // The last task read, and how it was written.
    let (mut task, mut written) = (Task::default(), &b"?"[..]);
    let rest = text.object_but("jobs", |text| {
        let mut tasks = Vec::new();
        let rest = text.object_but("tasks", |text| {
            if !text.take(written) {
                let first = text.at;
                task = text.value()?;
                written = &bytes[first..text.at];
            }
            tasks.push(task.clone());
            Some(())
        })?;
        let job: Job = serde_json::from_slice(&rest).ok()?;
        jobs.push(Job { tasks, ..job });
        Some(())
    })?;
    text.skip_space();
    if text.at < bytes.len() {
        return None;
    }
    let problem: Problem = serde_json::from_slice(&rest).ok()?;
    Some(Problem { jobs, ..problem })
}

/// A JSON text, read from the front on.
struct Text<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Text<'a> {
    fn skip_space(&mut self) {
        let space = self.bytes[self.at..].iter().take_while(|b| b" \n\r\t".contains(b));
        self.at += space.count();
    }

    /// Goes on behind `wanted` if that comes next.
    fn take(&mut self, wanted: &[u8]) -> bool {
        let found = self.bytes[self.at..].starts_with(wanted);
        self.at += if found { wanted.len() } else { 0 };
        found
    }

    /// Goes on behind `mark` and the space around it if that comes next.
    fn mark(&mut self, mark: u8) -> Option<()> {
        self.skip_space();
        let found = self.take(&[mark]);
        self.skip_space();
        found.then_some(())
    }

    fn value<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let mut values =
            serde_json::Deserializer::from_slice(&self.bytes[self.at..]).into_iter::<T>();
        let value = values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(value)
    }

    /// An object with an array `name`, of which `each` reads the elements; returns its text without
    /// them.
    fn object_but(
        &mut self,
        name: &str,
        mut each: impl FnMut(&mut Text<'a>) -> Option<()>,
    ) -> Option<Vec<u8>> {
        let first = self.at;
        let mut rest = None;
        self.list(b"{}", |text| {
            let key: &str = text.value()?;
            text.mark(b':')?;
            if key != name {
                return text.value::<IgnoredAny>().map(|_| ());
            }
            if rest.is_some() {
                return None;
            }
            let before = &text.bytes[first..text.at];
            text.list(b"[]", &mut each)?;
            rest = Some(([before, b"[]"].concat(), text.at));
            Some(())
        })?;
        let (mut rest, behind) = rest?;
        rest.extend_from_slice(&self.bytes[behind..self.at]);
        Some(rest)
    }

    /// What stands between two brackets, separated by commas.
    fn list(
        &mut self,
        brackets: &[u8; 2],
        mut each: impl FnMut(&mut Text<'a>) -> Option<()>,
    ) -> Option<()> {
        self.mark(brackets[0])?;
        if self.take(&brackets[1..]) {
            return Some(());
        }
        loop {
            each(self)?;
            self.skip_space();
            if self.take(&brackets[1..]) {
                return Some(());
            }
            self.mark(b',')?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use phalanx_methods::gang::Problem;

    const TASK: &str = r#"{"request": [1], "edges": [{"server": "s", "mean": 1, "count": 2}]}"#;

    fn text(jobs: &str) -> String {
        format!(
            r#" {{"kinds": ["cpu"], "jobs" : {jobs} , "servers": [{{"name": "s", "capacity": [4]}}]}} "#
        )
    }

    #[test]
    fn reads_what_any_reader_reads() {
        let other = TASK.replace('2', "3");
        for jobs in [
            "[]".to_owned(),
            format!(r#"[{{"id": "a", "tasks": [{TASK}]}}]"#),
            format!(r#"[ {{ "tasks" :[ {TASK} , {TASK},{TASK}] , "spread": true, "id": "a" }} ]"#),
            format!(
                r#"[{{"id": "a", "tasks": [{TASK},{other},{other},{TASK}]}},
                    {{"id": "b]", "tasks": [{TASK}]}}, {{"id": "c", "tasks": []}}]"#
            ),
        ] {
            let text = text(&jobs);
            let expected: Problem = serde_json::from_str(&text).unwrap();
            let found = read(text.as_bytes());
            assert_eq!(found.as_ref(), Some(&expected), "{text}");
        }
    }

    #[test]
    fn tasks_written_alike_share_their_edges() {
        let problem =
            read(text(&format!(r#"[{{"id": "a", "tasks": [{TASK}, {TASK}]}}]"#)).as_bytes());
        let tasks = &problem.unwrap().jobs[0].tasks;
        assert!(std::sync::Arc::ptr_eq(&tasks[0].edges, &tasks[1].edges));
    }

    #[test]
    fn leaves_what_is_no_problem_to_others() {
        let job = |rest: &str| text(&format!(r#"[{{"id": "a"{rest}}}]"#));
        for text in [
            String::new(),
            "[]".to_owned(),
            "{}".to_owned(),
            text("3"),
            text("[3]"),
            text(r#"[], "jobs": []"#),
            text(r#"[], "kind": 1"#),
            text("[]") + "x",
            text("[,]"),
            job(""),
            job(r#", "tasks": 3"#),
            job(r#", "tasks": [], "tasks": []"#),
            job(r#", "tasks": [], "size": 3"#),
            job(&format!(r#", "tasks": [{TASK}{TASK}]"#)),
            job(&format!(r#", "tasks": [{TASK},]"#)),
            job(&format!(r#", "tasks": [{TASK}"#)),
            job(&format!(r#", "tasks": [{TASK}, {}]"#, TASK.replace("1]", "1"))),
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
            assert!(serde_json::from_str::<Problem>(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_it_reads_of_a_damaged_text_any_reader_reads_too() {
        let job = |id: &str| format!(r#"{{"id": "{id}", "tasks": [{TASK}, {TASK}]}}"#);
        let whole = text(&format!("[{}, {}]", job("a"), job("b"))).into_bytes();
        let (mut read_anyway, mut refused) = (0, 0);
        for at in 0..whole.len() {
            let mut shorter = whole.clone();
            shorter.remove(at);
            let damaged = b"\"{}[],: 1a\\\n\xff".iter().map(|byte| {
                let mut other = whole.clone();
                other[at] = *byte;
                other
            });
            for damaged in damaged.chain([shorter]) {
                if let Some(found) = read(&damaged) {
                    let expected: Option<Problem> = serde_json::from_slice(&damaged).ok();
                    assert_eq!(expected, Some(found), "{}", String::from_utf8_lossy(&damaged));
                    read_anyway += 1;
                } else {
                    refused += 1;
                }
            }
        }
        assert!(read_anyway > 300 && refused > 1_000, "{read_anyway} {refused}");
    }
}
