// SPDX-License-Identifier: GPL-3.0-or-later
//! Settings of scheduling in slurm.conf, with Slurm's own defaults.

use phalanx_core::number::{as_f64, nearest_u64, nearest_usize};
use phalanx_planner::order::largest_weight;

/// `SchedulerParameters` and priorities that decide when jobs start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// `bf_interval`, seconds; `None`: there is no backfill.
    pub bf_interval_s: Option<i64>,
    /// `bf_window`, in seconds.
    pub bf_window_s: i64,
    /// `bf_resolution`, seconds.
    pub bf_resolution_s: i64,
    /// `bf_max_job_test`.
    pub bf_max_job_test: usize,
    /// `bf_job_part_count_reserve`: jobs of a partition with nodes reserved at once; 0: all.
    pub bf_job_part_count_reserve: usize,
    /// `bf_min_age_reserve`, seconds.
    pub bf_min_age_reserve_s: i64,
    /// `bf_min_prio_reserve`; as in Slurm, a value out of range counts as 0.
    pub bf_min_prio_reserve: u32,
    /// `default_queue_depth`.
    pub queue_depth: usize,
    /// `sched_interval`, seconds.
    pub sched_interval_s: i64,
    /// `batch_sched_delay`, seconds.
    pub batch_sched_delay_s: i64,
    /// `defer`: jobs are not tried as they are submitted.
    pub defer: bool,
    /// Keys of `SchedulerParameters` that are not simulated.
    pub ignored: Vec<String>,
    /// Priorities.
    pub priority: Priority,
    /// The largest weight of a factor of priorities.
    pub largest_weight: u32,
}

/// Keys of slurm.conf with the weights of the factors of priorities.
pub const WEIGHTS: [&str; 7] = [
    "PriorityWeightAge",
    "PriorityWeightAssoc",
    "PriorityWeightFairshare",
    "PriorityWeightJobSize",
    "PriorityWeightPartition",
    "PriorityWeightQOS",
    "PriorityWeightTRES",
];

/// `PriorityType`, and the settings by which priorities differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Priority {
    /// `priority/basic`: jobs start by submission, which the daemon cannot change.
    Basic,
    /// `priority/multifactor`, by age alone.
    Multifactor {
        /// `PriorityWeightAge`.
        weight_age: u32,
        /// `PriorityMaxAge`, seconds.
        max_age_s: i64,
        /// `PriorityCalcPeriod`, seconds.
        period_s: i64,
    },
}

/// A week: Slurm's `PriorityMaxAge`.
const MAX_AGE_S: i64 = 7 * 86_400;

impl Default for Parameters {
    /// Slurm's defaults, with priorities by age.
    fn default() -> Self {
        Self {
            bf_interval_s: Some(30),
            bf_window_s: 86_400,
            bf_resolution_s: 60,
            bf_max_job_test: 500,
            bf_job_part_count_reserve: 0,
            bf_min_age_reserve_s: 0,
            bf_min_prio_reserve: 0,
            queue_depth: 100,
            sched_interval_s: 60,
            batch_sched_delay_s: 3,
            defer: false,
            ignored: Vec::new(),
            priority: Priority::Multifactor {
                weight_age: 1000,
                max_age_s: MAX_AGE_S,
                period_s: 300,
            },
            largest_weight: 1000,
        }
    }
}

impl Parameters {
    /// Reads the settings of a slurm.conf, given by keys in Slurm's spelling.
    ///
    /// # Errors
    /// The setting, what was expected and what it is.
    pub fn of_conf<'a>(get: &dyn Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let mut found = Self::default();
        for word in get("SchedulerParameters").unwrap_or_default().split(',') {
            let (key, value) = word.trim().split_once('=').unwrap_or((word.trim(), ""));
            let number = || {
                value.parse::<i64>().map_err(|_| {
                    format!("SchedulerParameters: {key}: expected a number, got {value:?}")
                })
            };
            let above_0 = || {
                number().and_then(|n| {
                    let wrong = || format!("SchedulerParameters: {key}: expected above 0, got {n}");
                    if n > 0 { Ok(n) } else { Err(wrong()) }
                })
            };
            let size = || number().map(|n| nearest_usize(nearest_u64(n)));
            match key.to_ascii_lowercase().as_str() {
                "bf_interval" => found.bf_interval_s = Some(number()?).filter(|n| *n > 0),
                "bf_window" => found.bf_window_s = above_0()?.saturating_mul(60),
                "bf_resolution" => found.bf_resolution_s = above_0()?,
                "bf_max_job_test" | "max_job_bf" => {
                    found.bf_max_job_test = nearest_usize(nearest_u64(above_0()?));
                }
                "bf_job_part_count_reserve" => found.bf_job_part_count_reserve = size()?,
                "bf_min_age_reserve" => found.bf_min_age_reserve_s = number()?.max(0),
                "bf_min_prio_reserve" => {
                    found.bf_min_prio_reserve = u32::try_from(number()?).unwrap_or(0);
                }
                "default_queue_depth" => found.queue_depth = size()?,
                "sched_interval" => found.sched_interval_s = number()?.max(1),
                "batch_sched_delay" => found.batch_sched_delay_s = number()?.max(0),
                "defer" => found.defer = true,
                // Passes here are never cut, so they have nothing to go on with.
                "" | "bf_continue" => {}
                _ => found.ignored.push(key.to_owned()),
            }
        }
        if get("SchedulerType").is_some_and(|kind| kind.ends_with("builtin")) {
            found.bf_interval_s = None;
        }
        found.priority = match get("PriorityType") {
            Some(kind) if kind.ends_with("basic") => Priority::Basic,
            _ => priority(get)?,
        };
        found.largest_weight = largest_weight(WEIGHTS.into_iter().filter_map(get));
        Ok(found)
    }

    /// Points by which a priority rises in a day of waiting.
    pub(crate) fn points_a_day(&self) -> f64 {
        let Priority::Multifactor { weight_age, max_age_s, .. } = self.priority else { return 0.0 };
        f64::from(weight_age) * 86_400.0 / as_f64(max_age_s.max(1).unsigned_abs())
    }

    /// Whether the daemon can change the order of starts.
    pub fn takes_order(&self) -> bool {
        self.priority != Priority::Basic
    }
}

fn priority<'a>(get: &dyn Fn(&str) -> Option<&'a str>) -> Result<Priority, String> {
    let wrong = |key: &str, value: &str| format!("{key}: expected a time, got {value:?}");
    let weight = get("PriorityWeightAge").unwrap_or("0");
    let weight_age = weight
        .parse()
        .map_err(|_| format!("PriorityWeightAge: expected a number, got {weight:?}"))?;
    let seconds = |key: &str, default_s: i64, bare_s: i64| match get(key) {
        None => Ok(default_s),
        Some(text) => duration_s(text, bare_s).filter(|s| *s > 0).ok_or_else(|| wrong(key, text)),
    };
    Ok(Priority::Multifactor {
        weight_age,
        max_age_s: seconds("PriorityMaxAge", MAX_AGE_S, 60)?,
        period_s: seconds("PriorityCalcPeriod", 300, 60)?,
    })
}

/// Seconds of `m:s`, `h:m:s` or `d-h[:m[:s]]`; a number alone counts units of `bare_s` seconds.
pub fn duration_s(text: &str, bare_s: i64) -> Option<i64> {
    let (days, rest) = text.split_once('-').map_or((None, text), |(d, rest)| (Some(d), rest));
    let parts: Option<Vec<i64>> = rest.split(':').map(|part| part.parse().ok()).collect();
    let parts = parts?;
    let units: &[i64] = match (days, parts.len()) {
        (Some(_), 1..=3) => &[3600, 60, 1],
        (None, 1) => &[bare_s],
        (None, 2) => &[60, 1],
        (None, 3) => &[3600, 60, 1],
        _ => return None,
    };
    let days: i64 = days.map_or(Some(0), |days| days.parse().ok())?;
    Some(days * 86_400 + parts.iter().zip(units).map(|(part, unit)| part * unit).sum::<i64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[(&str, &'static str)]) -> Result<Parameters, String> {
        let find = |key: &str| lines.iter().find(|(name, _)| *name == key).map(|(_, v)| *v);
        Parameters::of_conf(&find)
    }

    #[test]
    fn slurm_conf_is_read_as_slurm_does() {
        let empty = of(&[]).unwrap();
        let Priority::Multifactor { weight_age: 0, .. } = empty.priority else {
            panic!("{empty:?}");
        };
        let text = "bf_continue,bf_interval=2, bf_window=10,defer,bf_resolution=1,\
                    bf_max_job_test=7,bf_min_prio_reserve=9,max_rpc_cnt=8,bf_min_age_reserve=60,\
                    bf_job_part_count_reserve=3,default_queue_depth=5";
        let found = of(&[
            ("SchedulerParameters", text),
            ("PriorityWeightAge", "10"),
            ("PriorityMaxAge", "1-0"),
            ("PriorityCalcPeriod", "2"),
        ])
        .unwrap();
        assert_eq!((found.bf_interval_s, found.bf_window_s), (Some(2), 600));
        assert_eq!((found.bf_resolution_s, found.bf_max_job_test, found.defer), (1, 7, true));
        assert_eq!((found.bf_min_prio_reserve, found.bf_min_age_reserve_s), (9, 60));
        assert_eq!((found.bf_job_part_count_reserve, found.queue_depth), (3, 5));
        assert_eq!(found.ignored, ["max_rpc_cnt"]);
        let priority = Priority::Multifactor { weight_age: 10, max_age_s: 86_400, period_s: 120 };
        assert_eq!(found.priority, priority);
        assert_eq!((found.largest_weight, found.points_a_day()), (10, 10.0));
        assert!(!of(&[("PriorityType", "priority/basic")]).unwrap().takes_order());
        assert_eq!(of(&[("SchedulerType", "sched/builtin")]).unwrap().bf_interval_s, None);
        let wrong = of(&[("SchedulerParameters", "bf_window=x")]).unwrap_err();
        assert_eq!(wrong, "SchedulerParameters: bf_window: expected a number, got \"x\"");
        assert!(of(&[("PriorityMaxAge", "soon")]).unwrap_err().contains("PriorityMaxAge"));
    }
}
