// SPDX-License-Identifier: GPL-3.0-or-later
//! Jobs that no plan has seen yet, since Slurm may ask at once: they are known
//! by what types of jobs go by, as far as a question tells it.

use serde::{Deserialize, Serialize};

use super::JobKey;
use phalanx_core::shape::Shape;
use phalanx_core::snapshot::Job;
use phalanx_methods::learn::{ClassKey, account_key, name_key};

/// What a question tells of its job beside the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signs {
    /// User id.
    pub user_id: u32,
    /// Of its account, see [`account_key`].
    pub account_key: u32,
    /// Of its name, see [`name_key`].
    pub name_key: u16,
}

impl Signs {
    /// Of a job in the queue.
    pub fn of(job: &Job) -> Self {
        Self {
            user_id: job.user_id,
            account_key: account_key(&job.account),
            name_key: name_key(&job.name),
        }
    }
}

/// Whose a job is, as far as types go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// Types go neither by account nor by user.
    Anyone,
    /// User id.
    User(u32),
    /// Key of the account.
    Account(u32),
    /// User id of a job without an account, where types go by it.
    NoAccount(u32),
    /// Key of the account, user id.
    Both(u32, u32),
}

/// Nodes, CPUs of the whole job, whether GRES are asked for.
type Request = (u32, u32, bool);

/// Jobs that are taken for one type; `None` where types do not go by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Like {
    who: Who,
    name_key: Option<u16>,
    request: Option<Request>,
}

/// Which signs tell types apart. What a question does not tell (memory,
/// partition, QOS, a declared class) is left out: types that differ in it alone
/// have one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LikeBy {
    account: bool,
    user: bool,
    name: bool,
    request: bool,
}

impl LikeBy {
    /// Of the keys of `learn.class_by`.
    pub fn new(class_by: &[ClassKey]) -> Self {
        let has = |key| class_by.contains(&key);
        Self {
            account: has(ClassKey::Account),
            user: has(ClassKey::User),
            name: has(ClassKey::Name),
            request: has(ClassKey::Shape),
        }
    }

    /// The key of jobs like one of these signs and this request.
    pub fn key(self, signs: Signs, shape: &Shape) -> JobKey {
        let Signs { user_id, account_key: account, name_key } = signs;
        let who = match (self.account, self.user) {
            (false, false) => Who::Anyone,
            (false, true) => Who::User(user_id),
            (true, false) if account == account_key("") => Who::NoAccount(user_id),
            (true, false) => Who::Account(account),
            (true, true) => Who::Both(account, user_id),
        };
        let request = (shape.wanted_nodes(), shape.min_cpus, !shape.gres.is_empty());
        JobKey::Like(Like {
            who,
            name_key: self.name.then_some(name_key),
            request: self.request.then_some(request),
        })
    }

    /// What this key was made by; `None` of a key of certain jobs.
    pub(super) fn of(key: &JobKey) -> Option<Self> {
        let JobKey::Like(like) = key else { return None };
        Some(Self {
            account: matches!(like.who, Who::Account(_) | Who::NoAccount(_) | Who::Both(..)),
            user: matches!(like.who, Who::User(_) | Who::Both(..)),
            name: like.name_key.is_some(),
            request: like.request.is_some(),
        })
    }
}

impl JobKey {
    /// Whether a job of the queue with these signs is one of these.
    pub fn holds(&self, job: &Job, signs: Signs) -> bool {
        match self {
            Self::Job(id) => *id == job.id,
            Self::Element(array, task) => {
                (job.array_job_id, job.array_task_id) == (Some(*array), Some(*task))
            }
            Self::Array(array) => job.array_job_id.unwrap_or(job.id) == *array,
            Self::Like(_) => LikeBy::of(self).is_some_and(|by| by.key(signs, &job.shape) == *self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let by = LikeBy::new(class_by);
            let key = by.key(Signs::of(&base), &base.shape);
            assert_eq!(LikeBy::of(&key), Some(by), "{class_by:?}");
            assert!(key.holds(&base, Signs::of(&base)));
            for (what, other) in &others {
                assert_eq!(
                    key.holds(other, Signs::of(other)),
                    !apart.contains(what),
                    "{class_by:?}: {what}"
                );
            }
        }
    }

    #[test]
    fn where_there_is_no_account_types_go_by_the_user() {
        let by = LikeBy::new(&[ClassKey::Account]);
        let [own, same, other] =
            [("x", 5), ("y", 5), ("x", 6)].map(|(name, user)| job("", user, name, 1));
        let key = by.key(Signs::of(&own), &own.shape);
        assert_eq!(LikeBy::of(&key), Some(by));
        let holds = |job: &Job| key.holds(job, Signs::of(job));
        assert!(holds(&same));
        assert!(!holds(&other));
        assert!(!holds(&job("phys", 5, "x", 1)));
    }
}
