// SPDX-License-Identifier: GPL-3.0-or-later
//! The queue to the data service: values, the newest ones if there are too many, and the latest
//! report of each registration that fails.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::schedule::{Done, backoff_ms};
use crate::slot::{Finished, RunError};
use phalanx_core::limits::{AGENT_BATCH_MAX, AGENT_BATCH_TEXT_BYTES_MAX, AGENT_QUEUE_MAX};
use phalanx_ffi::clock::millis;
use phalanx_messages::collect::{Output, Put, Registration, RunReport, Value};

/// Values and reports that wait for a request.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    values: VecDeque<(Instant, Put)>,
    runs: BTreeMap<String, (Instant, RunReport)>,
    dropped: u64,
    /// Contents of the request under way: the number of first values, and the reports.
    sent_values: usize,
    sent_runs: Vec<String>,
}

impl Outbox {
    /// Returns how many values were dropped because the queue was full.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the result of a run; returns false if the result is no value.
    pub(super) fn add(&mut self, done: &Done, result: Finished, now_ms: u64) -> bool {
        let name = &done.registration.name;
        let time_ms = now_ms.saturating_sub(age_ms(result.at, Instant::now()));
        let text = result.output.as_ref().map_err(ToString::to_string);
        match text.and_then(|text| values(&done.registration, text)) {
            Ok(values) => {
                for (node, value) in values {
                    self.push(result.at, put(name, node, value, time_ms));
                }
                self.runs.remove(name);
                if done.failures_before > 0 {
                    let report = RunReport { exit: Some(0), ..report(done, &result, time_ms, 0) };
                    self.runs.insert(name.clone(), (result.at, report));
                }
                true
            }
            Err(error) => {
                let failures = done.failures_before.saturating_add(1);
                let mut report = report(done, &result, time_ms, failures);
                match &result.output {
                    Ok(_) => report.exit = Some(0),
                    Err(RunError::Exit(status)) => report.exit = Some(*status),
                    Err(RunError::Signal(signal)) => report.signal = Some(*signal),
                    Err(_) => {}
                }
                report.error = Some(error);
                self.runs.insert(name.clone(), (result.at, report));
                false
            }
        }
    }

    fn push(&mut self, at: Instant, put: Put) {
        if self.values.len() >= AGENT_QUEUE_MAX {
            self.values.pop_front();
            self.dropped += 1;
            self.sent_values = self.sent_values.saturating_sub(1);
        }
        self.values.push_back((at, put));
    }

    /// True if there are more values than one request takes.
    pub(super) fn has_more(&self) -> bool {
        self.batch() < self.values.len()
    }

    /// Returns how many of the oldest values one request takes: at least one, if there are any.
    fn batch(&self) -> usize {
        let mut bytes = 0;
        let fits = |(_, put): &&(Instant, Put)| {
            let before = bytes;
            bytes += put.value.as_str().map_or(0, str::len);
            before < AGENT_BATCH_TEXT_BYTES_MAX
        };
        self.values.iter().take(AGENT_BATCH_MAX).take_while(fits).count()
    }

    /// Returns the oldest values, with their ages at `now`.
    pub(super) fn values(&mut self, now: Instant) -> Vec<Put> {
        let oldest = self.values.iter().take(self.batch());
        let aged = |(at, put): &(Instant, Put)| Put { age_ms: age_ms(*at, now), ..put.clone() };
        let values: Vec<Put> = oldest.map(aged).collect();
        self.sent_values = values.len();
        values
    }

    /// Returns all reports on runs, each with its age at `now`.
    pub(super) fn runs(&mut self, now: Instant) -> Vec<RunReport> {
        self.sent_runs = self.runs.keys().cloned().collect();
        let aged = |(at, run): &(Instant, RunReport)| {
            let age_ms = age_ms(*at, now);
            RunReport { age_ms, ..run.clone() }
        };
        self.runs.values().map(aged).collect()
    }

    /// Drops the contents of the request, which succeeded.
    pub(super) fn handed_over(&mut self) {
        let values = std::mem::take(&mut self.sent_values);
        self.values.drain(..values.min(self.values.len()));
        for name in std::mem::take(&mut self.sent_runs) {
            self.runs.remove(&name);
        }
    }
}

fn report(done: &Done, result: &Finished, time_ms: u64, failures: u32) -> RunReport {
    RunReport {
        name: done.registration.name.clone(),
        time_ms,
        took_ms: millis(result.took),
        stderr: result.stderr.clone(),
        failures: u64::from(failures),
        backoff_ms: backoff_ms(done.registration.every_ms, failures),
        ..RunReport::default()
    }
}

fn age_ms(at: Instant, now: Instant) -> u64 {
    millis(now.saturating_duration_since(at))
}

fn put(name: &str, node: Option<String>, value: Value, time_ms: u64) -> Put {
    let value = match value {
        Value::Number(number) => serde_json::json!(number),
        Value::Text(text) => text.into(),
    };
    Put { name: name.to_owned(), node, value, time_ms: Some(time_ms), age_ms: 0 }
}

/// Returns the values in the output of a run.
fn values(
    registration: &Registration,
    printed: &str,
) -> Result<Vec<(Option<String>, Value)>, String> {
    if registration.output == Output::Value {
        return Ok(vec![(None, Value::parse(printed, registration.value_type)?)]);
    }
    let lines = printed.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let of = |(at, line): (usize, &str)| {
        let (node, value) = line
            .trim()
            .split_once(char::is_whitespace)
            .ok_or_else(|| format!("line {}: expected NODE VALUE", at + 1))?;
        let value = Value::parse(value, registration.value_type)
            .map_err(|error| format!("line {}: {error}", at + 1))?;
        Ok((Some(node.to_owned()), value))
    };
    lines.map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use phalanx_core::limits::{COLLECT_BODY_BYTES_MAX, COLLECT_TEXT_BYTES_MAX};
    use phalanx_messages::collect::ValueType;

    fn done(output: Output, failures_before: u32) -> Done {
        let registration = Registration { name: "x".to_owned(), output, ..Registration::default() };
        Done { registration, failures_before }
    }

    fn result(output: Result<&str, RunError>) -> Finished {
        let (took, at) = (Duration::from_millis(7), Instant::now());
        Finished { id: 1, output: output.map(str::to_owned), stderr: "e".to_owned(), took, at }
    }

    #[test]
    fn values_wait_until_they_are_handed_over() {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        assert!(outbox.add(&done(Output::Value, 0), result(Ok("1.5")), 5));
        assert_eq!(outbox.values(now)[0].value, 1.5);
        assert_eq!(outbox.values(now + Duration::from_secs(1))[0].age_ms / 900, 1, "still there");
        assert!(outbox.add(&done(Output::Value, 0), result(Ok("2")), 5));
        outbox.handed_over();
        assert_eq!(outbox.values(now)[0].value, 2.0);
        assert!(outbox.runs(now).is_empty());
    }

    #[test]
    fn bad_values_are_reports_and_the_next_good_run_is_one_too() {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        for bad in ["nan", "inf", "-inf", "1e999", "", "1 2", "0x10", "NaN"] {
            assert!(!outbox.add(&done(Output::Value, 3), result(Ok(bad)), 5), "{bad}");
            let run = outbox.runs(now).remove(0);
            assert_eq!((run.exit, run.failures, run.backoff_ms), (Some(0), 4, 210_000), "{bad}");
            assert!(run.error.is_some());
        }
        assert!(outbox.values(now).is_empty());
        assert!(!outbox.add(&done(Output::Value, 0), result(Err(RunError::Signal(9))), 5));
        assert_eq!(outbox.runs(now)[0].signal, Some(9));
        assert!(outbox.add(&done(Output::Value, 1), result(Ok("1")), 5));
        let run = outbox.runs(now).remove(0);
        assert_eq!((run.error, run.failures), (None, 0));
    }

    #[test]
    fn the_oldest_make_room() {
        let mut outbox = Outbox::default();
        for i in 0..AGENT_QUEUE_MAX + 10 {
            outbox.add(&done(Output::Value, 0), result(Ok(&i.to_string())), 5);
        }
        assert_eq!(outbox.dropped(), 10);
        assert_eq!(outbox.values(Instant::now())[0].value, 10.0);
        assert!(outbox.has_more());
    }

    /// Goal: long texts do not make a request that the data service refuses for its length.
    #[test]
    fn long_texts_go_in_several_requests() {
        let (mut outbox, now) = (Outbox::default(), Instant::now());
        let long = "\"".repeat(COLLECT_TEXT_BYTES_MAX);
        let mut done = done(Output::Value, 0);
        done.registration.value_type = ValueType::Text;
        for _ in 0..100 {
            assert!(outbox.add(&done, result(Ok(&long)), 5));
        }
        let mut requests = 0;
        while !outbox.values.is_empty() {
            let body = serde_json::to_vec(&outbox.values(now)).unwrap();
            assert!(body.len() <= COLLECT_BODY_BYTES_MAX, "{}", body.len());
            assert_eq!(outbox.has_more(), outbox.sent_values < outbox.values.len());
            outbox.handed_over();
            requests += 1;
        }
        assert!((2..10).contains(&requests), "{requests}");
    }

    #[test]
    fn lines_of_nodes() {
        let mut outbox = Outbox::default();
        assert!(outbox.add(&done(Output::Nodes, 0), result(Ok("n1 1\n\nn2\t 2.5\n")), 5));
        let values = outbox.values(Instant::now());
        assert_eq!(values[1].node.as_deref(), Some("n2"));
        assert!(!outbox.add(&done(Output::Nodes, 0), result(Ok("n1 1\nn2")), 5));
        let error = outbox.runs(Instant::now()).remove(0).error.unwrap();
        assert_eq!(error, "line 2: expected NODE VALUE");
    }
}
