// SPDX-License-Identifier: GPL-3.0-or-later
//! The answer to `phalanx report audit`, and the receipts of `phalanx explain`.

use nix::unistd::{Uid, User};

use super::explain_key::{JobKey, parsed};
use crate::api::{AuditQuery, Failure};
use crate::daemon::shared::Shared;
use crate::history::Scope;
use phalanx_ffi::clock::now_ms;
use phalanx_messages::rest::{AuditReport, Receipt};

/// Time before the present from which receipts are shown by default, 30 days, milliseconds.
const SINCE_MS: u64 = 30 * 24 * 3600 * 1000;
/// Most lines of one report.
const LINES_MAX: usize = 20_000;
/// Most lines of one job in an explanation.
const OF_JOB_MAX: usize = 20;

/// Returns the receipts that `user` may see; `None` may see all.
pub(super) fn report(
    shared: &Shared,
    asked: &AuditQuery,
    user: Option<u32>,
) -> Result<AuditReport, Failure> {
    if user.is_some() && shared.responder.settings().draw.is_some() {
        let text = "administrators alone see this during a live comparison";
        return Err(Failure::Conflict(text.to_owned()));
    }
    let wanted = asked.user.as_deref().map(uid_of).transpose()?;
    if user.is_some() && wanted.is_some_and(|uid| Some(uid) != user) {
        return Err(Failure::NotFound("users see their own jobs alone".to_owned()));
    }
    let since_ms = asked.since.unwrap_or_else(|| now_ms().saturating_sub(SINCE_MS));
    let job = asked.job.as_deref().map(parsed).transpose()?.map(JobKey::recorded);
    let scope = Scope { user: user.or(wanted), job };
    let mut found = shared.reader.audit(since_ms, scope, LINES_MAX)?;
    for row in &mut found.rows {
        let known = User::from_uid(Uid::from_raw(row.user_id)).ok().flatten();
        row.user = known.map(|user| user.name).unwrap_or_default();
    }
    found.compared = shared.status_report().plugin.compared;
    Ok(found)
}

/// The receipts of one job; none while the history can not be read.
pub(super) fn of_job(shared: &Shared, key: JobKey) -> Vec<Receipt> {
    let scope = Scope { user: None, job: Some(key.recorded()) };
    shared.reader.audit(0, scope, OF_JOB_MAX).map(|found| found.receipts).unwrap_or_default()
}

fn uid_of(text: &str) -> Result<u32, Failure> {
    let named = || User::from_name(text).ok().flatten().map(|user| user.uid.as_raw());
    let uid = text.parse().ok().or_else(named);
    uid.ok_or_else(|| Failure::BadRequest(format!("user `{text}`: not known on this host")))
}
