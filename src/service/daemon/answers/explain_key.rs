// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs as users write them.

use crate::api::Failure;

/// A job, parsed from the form that users write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobKey {
    Id(u32),
    /// Waiting tasks of an array.
    Array(u32),
    Task(u32, u32),
    Component(u32, u32),
}

impl JobKey {
    pub(super) fn first(self) -> u32 {
        match self {
            Self::Id(id) | Self::Array(id) | Self::Task(id, _) | Self::Component(id, _) => id,
        }
    }

    /// Id of the job or array, and the task, in the form of recorded jobs.
    pub(super) fn recorded(self) -> (u32, Option<u32>) {
        match self {
            Self::Component(leader, offset) => (leader.saturating_add(offset), None),
            Self::Task(array, task) => (array, Some(task)),
            Self::Id(id) | Self::Array(id) => (id, None),
        }
    }
}

/// Parses a job in the form that users write.
pub(super) fn parsed(text: &str) -> Result<JobKey, Failure> {
    let wrong = || format!("job `{text}`: expected 123, 123_4, 123_[1-6] or 123+1");
    parse_job(text).ok_or_else(|| Failure::BadRequest(wrong()))
}

fn parse_job(text: &str) -> Option<JobKey> {
    if let Some((array, task)) = text.split_once('_') {
        if task.starts_with('[') && task.ends_with(']') {
            return Some(JobKey::Array(array.parse().ok()?));
        }
        return Some(JobKey::Task(array.parse().ok()?, task.parse().ok()?));
    }
    if let Some((leader, offset)) = text.split_once('+') {
        return Some(JobKey::Component(leader.parse().ok()?, offset.parse().ok()?));
    }
    text.parse().ok().map(JobKey::Id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names() {
        assert_eq!(parse_job("12"), Some(JobKey::Id(12)));
        assert_eq!(parse_job("12_3"), Some(JobKey::Task(12, 3)));
        assert_eq!(parse_job("12+1"), Some(JobKey::Component(12, 1)));
        assert_eq!(parse_job("12_[1-6%2]"), Some(JobKey::Array(12)));
        for bad in
            ["", "x", "12_", "12_[", "x_[1]", "_3", "12_3_4", "-1", "4294967296", "12.5", "../x"]
        {
            assert_eq!(parse_job(bad), None, "{bad}");
        }
    }
}
