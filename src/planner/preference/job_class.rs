// SPDX-License-Identifier: GPL-3.0-or-later
//! Classes of jobs that no plan has seen yet, since Slurm may ask at once: told apart as types of
//! jobs are, as far as a question's data allow.

use serde::{Deserialize, Serialize};

use phalanx_core::shape::Shape;
use phalanx_core::snapshot::Job;
use phalanx_methods::learn::{ClassKey, account_key, name_key};

/// Facts in a question that tell the job's class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOrigin {
    /// User id.
    pub user_id: u32,
    /// Key of the job's account, see [`account_key`].
    pub account_key: u32,
    /// Key of the job's name, see [`name_key`].
    pub name_key: u16,
}

impl JobOrigin {
    /// The origin of a job in the queue.
    pub fn of(job: &Job) -> Self {
        Self {
            user_id: job.user_id,
            account_key: account_key(&job.account),
            name_key: name_key(&job.name),
        }
    }
}

/// Owner of a job, in the form in which classes go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Classes go neither by account nor by user.
    Anyone,
    /// User id.
    User(u32),
    /// Key of the account.
    Account(u32),
    /// User id of a job without an account, where classes go by account.
    NoAccount(u32),
    /// Key of the account, user id.
    Both(u32, u32),
}

/// Fewest nodes, CPUs of the whole job, whether GRES are asked for.
type Request = (u32, u32, bool);

/// Key of the jobs that count as one class; `None` where classes do not go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobClassKey {
    who: Owner,
    name_key: Option<u16>,
    request: Option<Request>,
}

/// Rule of what tells job classes apart. Data that a question lacks (memory,
/// partition, QOS, a declared class) are left out: types that differ in them alone
/// have one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobClassRule {
    account: bool,
    user: bool,
    name: bool,
    request: bool,
}

impl JobClassRule {
    /// Makes the rule for the keys of `learn.class_by`.
    pub fn new(class_by: &[ClassKey]) -> Self {
        let has = |key| class_by.contains(&key);
        Self {
            account: has(ClassKey::Account),
            user: has(ClassKey::User),
            name: has(ClassKey::Name),
            request: has(ClassKey::Shape),
        }
    }

    /// The key of the class of jobs with this origin and request.
    pub fn key(self, origin: JobOrigin, shape: &Shape) -> JobClassKey {
        let JobOrigin { user_id, account_key: account, name_key } = origin;
        let who = match (self.account, self.user) {
            (false, false) => Owner::Anyone,
            (false, true) => Owner::User(user_id),
            (true, false) if account == account_key("") => Owner::NoAccount(user_id),
            (true, false) => Owner::Account(account),
            (true, true) => Owner::Both(account, user_id),
        };
        let request = (shape.min_nodes.max(1), shape.min_cpus, !shape.gres.is_empty());
        JobClassKey {
            who,
            name_key: self.name.then_some(name_key),
            request: self.request.then_some(request),
        }
    }

    /// Returns the rule that a key was made by.
    pub(super) fn of(key: &JobClassKey) -> Self {
        Self {
            account: matches!(key.who, Owner::Account(_) | Owner::NoAccount(_) | Owner::Both(..)),
            user: matches!(key.who, Owner::User(_) | Owner::Both(..)),
            name: key.name_key.is_some(),
            request: key.request.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preference::JobKey;

    fn job(account: &str, user_id: u32, name: &str, cpus: u32) -> Job {
        let shape = Shape { min_cpus: cpus, ..Shape::default() };
        Job { account: account.into(), user_id, name: name.into(), shape, ..Job::default() }
    }

    #[test]
    fn a_key_tells_apart_what_types_go_by_and_nothing_else() {
        use ClassKey::{Account, Memory, Name, Shape as Request, User};
        let base = job("phys", 5, "train_1", 4);
        let others = [
            ("account", job("bio", 5, "train_1", 4)),
            ("user", job("phys", 6, "train_1", 4)),
            ("name", job("phys", 5, "sweep_1", 4)),
            ("request", job("phys", 5, "train_1", 8)),
            ("number", job("phys", 5, "train_2", 4)),
        ];
        let cases: [(&[ClassKey], &[&str]); 6] = [
            (&[Account, Name, Request], &["account", "name", "request"]),
            (&[Account], &["account"]),
            (&[User, Name], &["user", "name"]),
            (&[Account, User], &["account", "user"]),
            (&[Request, Memory], &["request"]),
            (&[Memory], &[]),
        ];
        for (class_by, apart) in cases {
            let by = JobClassRule::new(class_by);
            let key = by.key(JobOrigin::of(&base), &base.shape);
            assert_eq!(JobClassRule::of(&key), by, "{class_by:?}");
            let key = JobKey::Class(key);
            assert!(key.holds(&base, JobOrigin::of(&base)));
            for (what, other) in &others {
                assert_eq!(
                    key.holds(other, JobOrigin::of(other)),
                    !apart.contains(what),
                    "{class_by:?}: {what}"
                );
            }
        }
    }

    #[test]
    fn where_there_is_no_account_types_go_by_the_user() {
        let by = JobClassRule::new(&[ClassKey::Account]);
        let [own, same, other] =
            [("x", 5), ("y", 5), ("x", 6)].map(|(name, user)| job("", user, name, 1));
        let key = by.key(JobOrigin::of(&own), &own.shape);
        assert_eq!(JobClassRule::of(&key), by);
        let key = JobKey::Class(key);
        let holds = |job: &Job| key.holds(job, JobOrigin::of(job));
        assert!(holds(&same));
        assert!(!holds(&other));
        assert!(!holds(&job("phys", 5, "x", 1)));
    }
}
