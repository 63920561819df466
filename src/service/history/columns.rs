// SPDX-License-Identifier: GPL-3.0-or-later
//! Records as rows: one list of columns for each table, by which rows are written and read, and
//! for each report that a query makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::types::{Null, ToSqlOutput};
use rusqlite::{Row, ToSql, Transaction, params_from_iter};

use super::records::{
    DecisionRecord, JobEndRecord, JobRef, OutcomeRecord, PlacementRecord, SampleRecord,
};
use phalanx_core::limits::EXPLAIN_BYTES_MAX;
use phalanx_core::run::Run;
use phalanx_messages::rest::{
    AnswerSums, AskReport, DecisionReport, LatestDecision, LeafSums, LocalSums, Receipt, ShadowDiff,
};

/// A value of a column. SQLite has no unsigned numbers of 64 bits, which are therefore kept as
/// signed ones.
trait Cell: Sized {
    fn put(&self) -> rusqlite::Result<ToSqlOutput<'_>>;
    fn take(row: &Row<'_>, name: &str) -> rusqlite::Result<Self>;
}

macro_rules! cells {
    ($($kind:ty),*) => {
        $(impl Cell for $kind {
            fn put(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.to_sql()
            }
            fn take(row: &Row<'_>, name: &str) -> rusqlite::Result<Self> {
                row.get(name)
            }
        })*
    };
}

cells!(u8, u32, i32, i64, f64, String);
cells!(Option<u32>, Option<i64>, Option<f64>, Option<bool>, Option<String>);

impl Cell for u64 {
    fn put(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.cast_signed().into())
    }
    fn take(row: &Row<'_>, name: &str) -> rusqlite::Result<Self> {
        row.get(name).map(i64::cast_unsigned)
    }
}

impl Cell for Option<u64> {
    fn put(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.map_or_else(|| Null.into(), |number| number.cast_signed().into()))
    }
    fn take(row: &Row<'_>, name: &str) -> rusqlite::Result<Self> {
        Ok(row.get::<_, Option<i64>>(name)?.map(i64::cast_unsigned))
    }
}

/// Kept as JSON; a text that cannot be read costs the sample its resources.
impl Cell for BTreeMap<String, [f64; 3]> {
    fn put(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(serde_json::to_string(self).unwrap_or_default().into())
    }
    fn take(row: &Row<'_>, name: &str) -> rusqlite::Result<Self> {
        Ok(serde_json::from_str(&row.get::<_, String>(name)?).unwrap_or_default())
    }
}

/// Kept as JSON; scores of which the text is too long, or cannot be read, are left out.
impl Cell for Option<Arc<DecisionReport>> {
    fn put(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = self.as_deref().and_then(|scores| serde_json::to_string(scores).ok());
        let text = text.filter(|text| text.len() <= EXPLAIN_BYTES_MAX);
        Ok(text.map_or_else(|| Null.into(), Into::into))
    }
    fn take(row: &Row<'_>, name: &str) -> rusqlite::Result<Self> {
        let text: Option<String> = row.get(name)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).map(Arc::new))
    }
}

/// A record or report whose fields are columns of a table or query.
pub(super) trait Columns: Sized {
    fn names() -> Vec<&'static str>;
    fn values<'r>(&'r self, out: &mut Vec<ToSqlOutput<'r>>) -> rusqlite::Result<()>;
    fn read(row: &Row<'_>) -> rusqlite::Result<Self>;
}

macro_rules! columns {
    ($record:ident { $($name:ident)* } $($inner:ident: $kind:ident)* $(.. $rest:expr)?) => {
        impl Columns for $record {
            fn names() -> Vec<&'static str> {
                [&[$(stringify!($name)),*][..] $(, &$kind::names())*].concat()
            }
            fn values<'r>(&'r self, out: &mut Vec<ToSqlOutput<'r>>) -> rusqlite::Result<()> {
                $(out.push(self.$name.put()?);)*
                $(self.$inner.values(out)?;)*
                Ok(())
            }
            fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self {
                    $($name: Cell::take(row, stringify!($name))?,)*
                    $($inner: $kind::read(row)?,)*
                    $(..$rest)?
                })
            }
        }
    };
}

columns!(JobRef { job_id array_job_id array_task_id het_job_id user_id partition });
columns!(AskReport { time_ms ask verdict reason nodes } .. AskReport::default());
columns!(DecisionRecord {
    decision mode node_count generation latency_us explain
} job: JobRef ask: AskReport);
columns!(OutcomeRecord {
    decision job_id outcome_ms outcome_reason outcome_rc outcome_nodes ask_ns
});
columns!(PlacementRecord { time_ms mode nodes node_count decision compared delta } job: JobRef);
columns!(JobEndRecord { time_ms job_id state });
columns!(SampleRecord { time_ms pending running resources });
columns!(Run {
    job job_id array_job_id array_task_id het_job_id user account name declared class partition qos
    nodes node_count node_class submit_s eligible_s start_s end_s elapsed_ms limit_min state
    exit_code exit_signal cpus tres_req tres_alloc work joules placed_by arm source
});
columns!(LatestDecision {
    time_ms job partition ask mode nodes reason outcome placed latency_us
});
columns!(Receipt {
    time_ms kind job job_id user_id partition decision reason nodes node_count leaves not_ready
    held_ms delta
});
columns!(ShadowDiff { job_id time_ms slurm phalanx });
columns!(AnswerSums { asked with_nodes placed mean_us });
columns!(LeafSums { starts mean fewest_mean on_fewest });
columns!(LocalSums { starts share });

/// SQL term of a record's job as users write it; while its array waits, the array.
pub(super) const JOB: &str = "coalesce(array_job_id || '_' || array_task_id, job_id || '') AS job";

/// Inserts a record, with one more column where there is one; returns the number of new rows.
pub(super) fn insert<R: Columns>(
    transaction: &Transaction<'_>,
    into: &str,
    record: &R,
    more: Option<(&'static str, i64)>,
) -> rusqlite::Result<usize> {
    let (mut names, mut values) = (R::names(), Vec::new());
    record.values(&mut values)?;
    names.extend(more.map(|(name, _)| name));
    values.extend(more.map(|(_, value)| ToSqlOutput::from(value)));
    let places = vec!["?"; names.len()].join(",");
    let sql = format!("INSERT {into} ({}) VALUES ({places})", names.join(","));
    transaction.prepare_cached(&sql)?.execute(params_from_iter(values))
}
