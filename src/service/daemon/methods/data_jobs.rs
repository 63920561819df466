// SPDX-License-Identifier: GPL-3.0-or-later
//! Data-parallel jobs in the daemon: jobs whose input is known go near it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::round::{PlacementMethod, Round, no_plan};
use crate::daemon::node_speeds::NodeSpeeds;
use crate::daemon::state::inputs::{CommentUpdate, Input, JobData, tasks_of, with_words};
use phalanx_config::DataMode;
use phalanx_core::NodeIdx;
use phalanx_core::limits::DATA_ELEMENTS_MAX;
use phalanx_core::number::as_f64;
use phalanx_core::snapshot::Job;
use phalanx_methods::data_jobs::bisect::Attenuation;
use phalanx_methods::data_jobs::blockmap::{Elements, Locality, Split};
use phalanx_methods::learn::{JobTraits, class_of};
use phalanx_planner::data_jobs::{
    DataJob, Inputs, Piece, can_be_planned, key_of, may_start, near, node_numbers, nowhere, plan,
};
use phalanx_planner::preference::{DataNote, JobKey, Method, MethodPlan, Note, Preference};

/// Longest search of one plan: a third of the time between two plans.
const SEARCH_DEADLINE: Duration = Duration::from_millis(300);

#[derive(Default)]
pub struct DataJobs {
    /// Comments to be written once the preferences are in force.
    comments: Vec<CommentUpdate>,
}

impl PlacementMethod for DataJobs {
    fn plan(&mut self, round: &Round<'_>) -> MethodPlan {
        let config = &round.config.data_jobs;
        let keep = keep(round);
        if config.mode == DataMode::Off {
            return no_plan(Method::DataJobs);
        }
        round.inputs.observe(round.snapshot, keep);
        let numbers = node_numbers(round.snapshot);
        let (mut jobs, mut away) = (Vec::new(), Vec::new());
        let waits = |job: &&Job| may_start(job) && !(round.has_begun)(JobKey::Job(job.id));
        for job in round.snapshot.all_jobs().filter(waits) {
            let Some(data) = round.inputs.job(job.id) else { continue };
            match self.judge(round, job, &data, &numbers) {
                Judged::Wait => {}
                Judged::Plan(data) => jobs.push(*data),
                Judged::Elements(elements, rest) => {
                    jobs.extend(elements);
                    away.push(*rest);
                }
                Judged::Nowhere(preference) => away.push(*preference),
            }
        }
        if jobs.is_empty() && away.is_empty() {
            return no_plan(Method::DataJobs);
        }
        let deadline = Instant::now() + SEARCH_DEADLINE;
        let now_s = round.now_s();
        let remaining_s = |job: &Job| remaining_s(round, job, now_s);
        let inputs = Inputs {
            snapshot: round.snapshot,
            usages: round.usages,
            now_ms: round.now_ms,
            rule: config.rule(),
            transfer_mb_per_s: config.transfer_mb_per_s,
            remaining_s: &remaining_s,
            expired: &|| Instant::now() >= deadline,
        };
        let mut method_plan = plan(&inputs, jobs);
        for preference in method_plan.preferences.iter().chain(&away) {
            if let (JobKey::Job(job) | JobKey::Array(job), Note::Data(note)) =
                (preference.key, &preference.note)
            {
                round.inputs.planned(job, note);
            }
        }
        method_plan.report.terms.insert("without_plan".to_owned(), as_f64(away.len() as u64));
        method_plan.preferences.extend(away);
        method_plan
    }

    fn in_force(&mut self, round: &Round<'_>) {
        for update in self.comments.drain(..) {
            round.inputs.comment(update);
        }
    }
}

/// Returns an attenuation as `explain` shows it.
fn in_words(attenuation: &Attenuation) -> String {
    match attenuation {
        Attenuation::Linear(alpha) => format!("linear alpha={alpha:.4}"),
        Attenuation::Amdahl(beta) => format!("amdahl beta={beta:.4}"),
        Attenuation::Table(values) => {
            format!("table f({})={:.4}", values.len(), values.last().unwrap_or(&1.0))
        }
    }
}

enum Judged<'a> {
    /// The job's input is being looked up.
    Wait,
    Plan(Box<DataJob<'a>>),
    /// The next tasks of an array with their parts of the input; a preference of later ones.
    Elements(Vec<DataJob<'a>>, Box<Preference>),
    Nowhere(Box<Preference>),
}

/// Returns the time for which the result of an input's look-up is used.
fn keep(round: &Round<'_>) -> Duration {
    Duration::from_secs(round.config.hdfs.cache_s.max(1).into())
}

impl DataJobs {
    fn judge<'a>(
        &mut self,
        round: &Round<'a>,
        job: &'a Job,
        data: &JobData,
        numbers: &HashMap<Arc<str>, NodeIdx>,
    ) -> Judged<'a> {
        let away = |note| Judged::Nowhere(Box::new(nowhere(job, round.now_ms, note)));
        let Some(key) = &data.key else {
            let error = data.error.clone();
            self.comment(job, data, error.as_deref());
            return away(DataNote { input: job.comment.to_string(), error, ..DataNote::default() });
        };
        let keep = keep(round);
        let Some(input) = round.inputs.input_to_plan(key, keep, data.commented) else {
            return Judged::Wait;
        };
        let text = comment_text(&input.note);
        self.comment(job, data, text.as_deref());
        let mut note = input.note.clone();
        if key.declaration.locality == Locality::Off {
            note.warnings.push("locality=off: any nodes".to_owned());
        }
        let off = key.declaration.locality == Locality::Off;
        if note.error.is_some() || off || !can_be_planned(job) {
            return away(note);
        }
        let own = round.inputs.part(data, input.splits.len());
        let pieces = pieces(&input, input.splits.get(own).unwrap_or_default(), numbers);
        let required = key.declaration.locality == Locality::Require;
        if required {
            note.warnings.push(required_warning(&pieces, round.config.require_wait_s()));
        }
        let (speed, attenuation, speeds) = core_speed(round, job, &mut note);
        let whole = DataJob {
            job,
            key: key_of(job),
            pieces,
            speed_mb_per_s: speed,
            attenuation,
            speeds: speeds.into(),
            required,
            note,
        };
        match elements(round, &whole, data, &input, numbers) {
            Some(elements) => Judged::Elements(elements, Box::new(near(&whole, round.now_ms))),
            None => Judged::Plan(Box::new(whole)),
        }
    }

    /// Has the comment of a job written, even an empty one, so that slurmctld looks at the job
    /// again.
    fn comment(&mut self, job: &Job, data: &JobData, words: Option<&str>) {
        if !data.commented {
            let comment = with_words(&job.comment, words);
            let locality = data.key.as_ref().map(|key| key.declaration.locality);
            let requires_nodes = locality == Some(Locality::Require);
            self.comments.push(CommentUpdate { job_id: job.id, comment, requires_nodes });
        }
    }
}

/// Returns the speed of a job's class on the fastest nodes, its attenuation, and its speeds on all
/// nodes; the note explains the first two.
fn core_speed(round: &Round<'_>, job: &Job, note: &mut DataNote) -> (f64, Attenuation, Vec<f64>) {
    let node_speeds = NodeSpeeds {
        capability: round.data_capability,
        core_speeds: round.core_speeds,
        config: round.config,
        snapshot: round.snapshot,
    };
    let (speed, attenuation, runs) = node_speeds.core(job);
    let names = round.snapshot.nodes.iter().map(|node| &*node.name);
    let on = node_speeds.of(job, &attenuation, names);
    let speed = on.core.unwrap_or(speed);
    (note.speed_mb_per_s, note.speed_runs) = (speed, runs);
    note.attenuation = in_words(&attenuation);
    (speed, attenuation, on.parts)
}

/// Returns the warning for a job with `locality=require`.
fn required_warning(pieces: &[Piece], most_s: u64) -> String {
    if pieces.iter().all(|piece| piece.nodes.is_empty()) {
        return "locality=require: no node holds any of it, so any nodes".to_owned();
    }
    format!("locality=require: waits at most {most_s} s for nodes that hold it")
}

/// Returns the next tasks of a waiting array, each with the part of the input of its index; none
/// where it is not known which tasks wait.
fn elements<'a>(
    round: &Round<'_>,
    whole: &DataJob<'a>,
    data: &JobData,
    input: &Input,
    numbers: &HashMap<Arc<str>, NodeIdx>,
) -> Option<Vec<DataJob<'a>>> {
    let (JobKey::Array(array), Some(span)) = (whole.key, data.elements) else { return None };
    let listed = tasks_of(whole.job)?;
    let waiting = listed.iter().map(|&task| (task, JobKey::Element(array, task)));
    let waiting = waiting.filter(|(_, key)| !(round.has_begun)(*key));
    let one = |(task, key): (u32, JobKey)| {
        let element = Elements::of(task.into(), span.min, span.max, span.count)?;
        let part = input.splits.get(element.range(input.splits.len()))?;
        Some(DataJob { key, pieces: pieces(input, part, numbers), ..whole.clone() })
    };
    Some(waiting.take(DATA_ELEMENTS_MAX).filter_map(one).collect())
}

/// Returns text for the job's comment, which tells the user what should be known without asking.
fn comment_text(note: &DataNote) -> Option<String> {
    if let Some(error) = &note.error {
        return Some(format!("{error}; placed as if it read nothing"));
    }
    let mut words = Vec::new();
    if note.unreadable > 0 {
        words.push(format!("{} blocks cannot be read now", note.unreadable));
    }
    if !note.unmapped.is_empty() {
        words.push(format!("no Slurm nodes: {}", note.unmapped.join(" ")));
    }
    words.extend(note.warnings.iter().cloned());
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns the splits with the nodes that hold them; a split that no node holds whole counts as a
/// part for each of its holders.
fn pieces(input: &Input, splits: &[Split], numbers: &HashMap<Arc<str>, NodeIdx>) -> Vec<Piece> {
    let number = |node: &Option<Arc<str>>| numbers.get(node.as_ref()?).copied();
    let nodes: Vec<Option<NodeIdx>> = input.nodes.iter().map(number).collect();
    let node = |at: u32| nodes.get(at as usize).copied().flatten();
    let mut pieces = Vec::with_capacity(splits.len());
    for split in splits {
        let whole = split.held.iter().filter(|(_, bytes)| *bytes >= split.length);
        let mut on: Vec<NodeIdx> = whole.filter_map(|(at, _)| node(*at)).collect();
        on.sort_unstable();
        on.dedup();
        let all: u64 = split.held.iter().map(|(_, bytes)| *bytes).sum();
        if !on.is_empty() || all == 0 {
            pieces.push(Piece { bytes: split.length, nodes: on });
            continue;
        }
        for &(at, bytes) in &split.held {
            let part = u128::from(split.length) * u128::from(bytes) / u128::from(all);
            let bytes = u64::try_from(part).unwrap_or(split.length);
            pieces.push(Piece { bytes, nodes: node(at).into_iter().collect() });
        }
    }
    pieces
}

/// Returns the seconds that a running job will still take, by its class and at most its limit.
fn remaining_s(round: &Round<'_>, job: &Job, now_s: i64) -> f64 {
    let seconds = |s: i64| f64::from(i32::try_from(s.max(0)).unwrap_or(i32::MAX));
    let limit = if job.end_s > 0 { seconds(job.end_s - now_s) } else { f64::INFINITY };
    let class = class_of(&JobTraits::of(job), &round.config.learn.class_by);
    let known = round.speeds.seconds(&class, now_s);
    let ran = seconds(now_s - job.start_s);
    let expected = if known.count > 0.0 { (known.mean - ran).max(1.0) } else { limit };
    expected.min(limit).min(86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::measured_values::MeasuredValues;
    use crate::daemon::state::core_speeds::CoreSpeeds;
    use crate::daemon::state::inputs::DataInputs;
    use phalanx_config::Config;
    use phalanx_core::snapshot::{Builder, shared};
    use phalanx_methods::learn::Speeds;
    use phalanx_planner::data_jobs::Capability;
    use phalanx_planner::ends::Outlook;
    use std::collections::BTreeMap;

    /// Goal: what is told of a job's plan is that of its start: a job that the last poll shows as
    /// pending, but that has begun, is not planned on what it left of the nodes. Nor is a task of
    /// an array.
    #[test]
    fn a_job_that_has_begun_is_not_planned_again() {
        let mut builder = Builder::default();
        let job = |id| Job {
            id,
            priority: 1,
            comment: "hdfs-input=/a;locality=nowhere".into(),
            ..Job::default()
        };
        let comment = "hdfs-input=/b".into();
        let array = Job { array_job_id: Some(3), label: "3_[0-3]".into(), comment, ..job(3) };
        builder.draft.jobs = shared([job(1), job(2), array]);
        let snapshot = builder.build(1, 1).unwrap();
        let inputs = DataInputs::default();
        inputs.observe(&snapshot, Duration::MAX);
        let key = inputs.job(3).unwrap().key.unwrap();
        inputs.put(key, Input::default(), Duration::ZERO);
        let begun = [JobKey::Job(1), JobKey::Element(3, 1)];
        let round = Round {
            config: &Config::default(),
            snapshot: &snapshot,
            usages: &[],
            speeds: &Speeds::default(),
            failed_on: &BTreeMap::new(),
            core_speeds: &CoreSpeeds::default(),
            inputs: &inputs,
            data_capability: &Capability::default(),
            measured: &MeasuredValues::new(),
            outlook: &Outlook::default(),
            pause_s: 0.0,
            held_s: &|_| 0.0,
            has_begun: &|key| begun.contains(&key),
            done: &[],
            now_ms: 1000,
        };
        let planned = DataJobs::default().plan(&round).preferences;
        let keys: Vec<JobKey> = planned.iter().map(|preference| preference.key).collect();
        let tasks = [0, 2, 3].map(|task| JobKey::Element(3, task));
        assert_eq!(keys, [&tasks[..], &[JobKey::Job(2), JobKey::Array(3)]].concat());
    }
}
