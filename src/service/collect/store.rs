// SPDX-License-Identifier: GPL-3.0-or-later
//! The tables on disk: registrations (`t_DP`), latest values (`t_Data`) and past values.
//!
//! The first two contain the columns of the source paper's tables. Times are in milliseconds.

use std::path::Path;

use phalanx_core::number::{nearest_i64, nearest_u64};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::latest::Unwritten;
use crate::sqlite::{self, Database, Error, Schema, signed};
use phalanx_messages::collect::{Point, Registration, UseChange, Value};

/// Application id of the file: "PhlC" in ASCII.
const APPLICATION_ID: i64 = 0x5068_6c43;

const STEPS: &[&str] = &["
CREATE TABLE t_DP (
  data_name    TEXT PRIMARY KEY,
  registration TEXT NOT NULL CHECK (json_valid(registration)),
  cmd          TEXT GENERATED ALWAYS AS (registration ->> '$.cmd'),
  time_max     INTEGER GENERATED ALWAYS AS (registration ->> '$.every_ms'),
  timeout      INTEGER GENERATED ALWAYS AS (registration ->> '$.timeout_ms'),
  kind         TEXT GENERATED ALWAYS AS (registration ->> '$.kind'),
  nodes        TEXT GENERATED ALWAYS AS (registration ->> '$.nodes'),
  enabled      INTEGER GENERATED ALWAYS AS (registration ->> '$.enabled')
) STRICT;

CREATE TABLE t_Data (
  id          TEXT PRIMARY KEY,
  data_name   TEXT NOT NULL,
  node_name   TEXT NOT NULL,
  data_value  ANY NOT NULL,
  time_ms     INTEGER NOT NULL,
  received_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX t_Data_name ON t_Data (data_name);

CREATE TABLE t_Key (
  seq       INTEGER PRIMARY KEY,
  data_name TEXT NOT NULL,
  node_name TEXT NOT NULL,
  UNIQUE (data_name, node_name)
) STRICT;

CREATE TABLE t_Past (
  key         INTEGER NOT NULL,
  received_ms INTEGER NOT NULL,
  time_ms     INTEGER NOT NULL,
  data_value  ANY NOT NULL,
  PRIMARY KEY (key, received_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE t_Use (
  key      TEXT PRIMARY KEY,
  name     TEXT NOT NULL,
  fallback TEXT
) STRICT;
"];

/// Maximum number of past values that one step of pruning deletes.
const PRUNE_ROWS: i64 = 20_000;
/// Maximum number of unused pages returned to the file system in one step.
const PRUNE_PAGES: i64 = 2000;

/// Contents of a database when it was opened.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) registrations: Vec<Registration>,
    pub(super) uses: Vec<(String, UseChange)>,
    /// Rows of name, node, value, time, receipt.
    pub(super) values: Vec<(String, String, Value, u64, u64)>,
}

/// An open database.
#[derive(Debug)]
pub(super) struct Store {
    database: Database,
    max_bytes: u64,
    /// Whether the oldest values are being deleted until the file is well below its bound.
    shrinking: bool,
}

/// A value as a column: a wrapper, as both the trait and the type are of other crates.
struct Column<'a>(&'a Value);

impl ToSql for Column<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Number(number) => ToSqlOutput::from(*number),
            Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

/// Returns a number or text; any other type, written by another program, is left out.
fn value_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Value>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Real(number) if number.is_finite() => Some(Value::Number(number)),
        ValueRef::Integer(_) => Some(Value::Number(row.get(column)?)),
        ValueRef::Text(_) => Some(Value::Text(row.get(column)?)),
        _ => None,
    })
}

/// Returns a time of the file; a negative one is 0.
fn time_of(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(nearest_u64(row.get::<_, i64>(column)?))
}

impl Store {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path, max_mb: u32) -> Result<(Store, Held), Error> {
        let schema = Schema { application_id: APPLICATION_ID, steps: STEPS };
        let database = Database::open(path, schema)?;
        let mut store = Store { database, max_bytes: 0, shrinking: false };
        store.set_max_mb(max_mb)?;
        let held = held(&store.database.connection).map_err(Error::sql(path, "read"))?;
        Ok((store, held))
    }

    pub(super) fn set_max_mb(&mut self, max_mb: u32) -> Result<(), Error> {
        self.max_bytes = u64::from(max_mb) << 20;
        self.database.bound(self.max_bytes)
    }

    /// Returns whether the file was deleted or replaced.
    pub(super) fn moved(&self) -> bool {
        self.database.moved()
    }

    /// Writes a registration; durable when it returns.
    pub(super) fn put_registration(&mut self, registration: &Registration) -> Result<(), Error> {
        let json = serde_json::to_string(registration).unwrap_or_default();
        self.database.change("write", |t| {
            t.prepare_cached(
                "INSERT OR REPLACE INTO t_DP (data_name, registration) VALUES (?1, ?2)",
            )?
            .execute(params![registration.name, json])
            .map(|_| ())
        })
    }

    /// Deletes a registration and its latest values; past ones stay.
    pub(super) fn remove_registration(&mut self, name: &str) -> Result<(), Error> {
        self.database.change("write", |t| {
            t.execute("DELETE FROM t_DP WHERE data_name = ?1", [name])?;
            t.execute("DELETE FROM t_Data WHERE data_name = ?1", [name])?;
            Ok(())
        })
    }

    /// Writes an administrator's choice for a use, or deletes it with `None`.
    pub(super) fn put_use(&mut self, key: &str, change: Option<&UseChange>) -> Result<(), Error> {
        self.database.change("write", |t| {
            match change {
                Some(c) => t.execute(
                    "INSERT OR REPLACE INTO t_Use (key, name, fallback) VALUES (?1, ?2, ?3)",
                    params![key, c.name, c.fallback],
                )?,
                None => t.execute("DELETE FROM t_Use WHERE key = ?1", [key])?,
            };
            Ok(())
        })
    }

    /// Writes values in one transaction.
    pub(super) fn put_values(&mut self, values: &[Unwritten]) -> Result<(), Error> {
        self.database.change("write", |t| {
            let mut latest = t.prepare_cached(
                "INSERT INTO t_Data (id, data_name, node_name, data_value, time_ms, received_ms) \
                 VALUES (?1 || '/' || ?2, ?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (id) DO UPDATE SET data_value = excluded.data_value, \
                 time_ms = excluded.time_ms, received_ms = excluded.received_ms",
            )?;
            let mut key = t.prepare_cached(
                "INSERT OR IGNORE INTO t_Key (data_name, node_name) VALUES (?1, ?2)",
            )?;
            let mut past = t.prepare_cached(
                "INSERT OR REPLACE INTO t_Past (key, received_ms, time_ms, data_value) \
                 SELECT seq, ?3, ?4, ?5 FROM t_Key WHERE data_name = ?1 AND node_name = ?2",
            )?;
            for v in values {
                let (time, received) = (signed(v.time_ms), signed(v.received_ms));
                latest.execute(params![v.name, v.node, Column(&v.value), time, received])?;
                if v.historic {
                    key.execute(params![v.name, v.node])?;
                    past.execute(params![v.name, v.node, received, time, Column(&v.value)])?;
                }
            }
            Ok(())
        })
    }

    /// Deletes a bounded number of past values that are older than `before_ms`, or the oldest ones
    /// if the file is too large. Returns whether there may be more to do.
    pub(super) fn prune(&mut self, before_ms: u64) -> Result<bool, Error> {
        let failed = Error::sql(&self.database.path, "prune");
        let used = self.database.used_bytes()?;
        // From nine tenths of the bound down to three quarters.
        self.shrinking = used > self.max_bytes / 10 * if self.shrinking { 7 } else { 9 };
        let old = "DELETE FROM t_Past WHERE (key, received_ms) IN \
                   (SELECT key, received_ms FROM t_Past WHERE received_ms < ?1 LIMIT ?2)";
        let connection = &self.database.connection;
        let mut deleted =
            connection.execute(old, params![signed(before_ms), PRUNE_ROWS]).map_err(&failed)?;
        if self.shrinking {
            let oldest = "DELETE FROM t_Past WHERE (key, received_ms) IN (SELECT key, received_ms \
                          FROM t_Past ORDER BY received_ms LIMIT ?1)";
            deleted += connection.execute(oldest, [PRUNE_ROWS]).map_err(&failed)?;
        }
        connection
            .execute(
                "DELETE FROM t_Key WHERE NOT EXISTS (SELECT 1 FROM t_Past WHERE key = t_Key.seq)",
                [],
            )
            .map_err(&failed)?;
        connection
            .execute_batch(&format!("PRAGMA incremental_vacuum({PRUNE_PAGES})"))
            .map_err(&failed)?;
        Ok(i64::try_from(deleted).is_ok_and(|deleted| deleted >= PRUNE_ROWS))
    }
}

fn held(connection: &Connection) -> rusqlite::Result<Held> {
    let mut held = Held::default();
    let mut rows = connection.prepare("SELECT registration FROM t_DP ORDER BY data_name")?;
    for json in rows.query_map([], |row| row.get::<_, String>(0))? {
        // What another hand made invalid does not run.
        if let Ok(registration) = serde_json::from_str::<Registration>(&json?)
            && registration.check().is_ok()
        {
            held.registrations.push(registration);
        }
    }
    let mut rows = connection.prepare("SELECT key, name, fallback FROM t_Use")?;
    let change =
        |row: &Row<'_>| Ok((row.get(0)?, UseChange { name: row.get(1)?, fallback: row.get(2)? }));
    held.uses = rows.query_map([], change)?.collect::<rusqlite::Result<_>>()?;
    let mut rows = connection
        .prepare("SELECT data_name, node_name, data_value, time_ms, received_ms FROM t_Data")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(value) = value_of(row, 2)? {
            let times = (time_of(row, 3)?, time_of(row, 4)?);
            held.values.push((row.get(0)?, row.get(1)?, value, times.0, times.1));
        }
    }
    Ok(held)
}

/// Returns past values of one node between two moments, the newest `limit` of them, oldest first.
pub(super) fn past(
    path: &Path,
    (name, node): (&str, &str),
    (since_ms, until_ms): (u64, u64),
    limit: usize,
) -> Result<Vec<Point>, Error> {
    sqlite::read(path, |connection| {
        let key: Option<i64> = connection
            .query_row(
                "SELECT seq FROM t_Key WHERE data_name = ?1 AND node_name = ?2",
                [name, node],
                |row| row.get(0),
            )
            .optional()?;
        let mut statement = connection.prepare(
            "SELECT time_ms, received_ms, data_value FROM t_Past WHERE key = ?1 \
             AND received_ms BETWEEN ?2 AND ?3 ORDER BY received_ms DESC LIMIT ?4",
        )?;
        let limit = nearest_i64(limit as u64);
        let mut rows = statement.query(params![key, signed(since_ms), signed(until_ms), limit])?;
        let mut points = Vec::new();
        while let Some(row) = rows.next()? {
            if let Some(value) = value_of(row, 2)? {
                let (time_ms, received_ms) = (time_of(row, 0)?, time_of(row, 1)?);
                points.push(Point { time_ms, received_ms, value });
            }
        }
        points.reverse();
        Ok(points)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn item(name: &str, node: &str, value: Value, received_ms: u64, historic: bool) -> Unwritten {
        let (name, node) = (name.into(), node.into());
        Unwritten { name, node, value, time_ms: received_ms - 1, received_ms, historic }
    }

    #[test]
    fn what_was_written_is_there_after_opening_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("collect.sqlite");
        let (mut store, held) = Store::open(&path, 16).unwrap();
        assert!(held.registrations.is_empty() && held.values.is_empty());
        let registration = Registration {
            name: "a".into(),
            cmd: "/c/a".into(),
            args: vec!["x y".into()],
            every_ms: 2000,
            ..Registration::default()
        };
        store.put_registration(&registration).unwrap();
        let change = UseChange { name: "a".into(), fallback: None };
        store.put_use("share.capability", Some(&change)).unwrap();
        let text = Value::Text("ver 1".into());
        store
            .put_values(&[
                item("a", "n1", Value::Number(0.5), 100, true),
                item("a", "n1", Value::Number(0.25), 200, true),
                item("a", "n2", text.clone(), 200, false),
            ])
            .unwrap();
        let (mut store, held) = Store::open(&path, 16).unwrap();
        assert_eq!(held.registrations, [registration]);
        assert_eq!(held.uses, [("share.capability".to_owned(), change)]);
        let n1 = ("a".to_owned(), "n1".to_owned(), Value::Number(0.25), 199, 200);
        assert!(held.values.contains(&n1) && held.values.len() == 2, "{held:?}");
        assert!(held.values.iter().any(|value| value.2 == text));
        // The two tables of the design, for other programs.
        let sql = "SELECT p.cmd || p.time_max || d.data_value FROM t_DP p JOIN t_Data d USING \
                   (data_name) WHERE d.id = 'a/n1'";
        let joined: String = sqlite::read(&path, |c| c.query_row(sql, [], |r| r.get(0))).unwrap();
        assert_eq!(joined, "/c/a20000.25");
        let all = past(&path, ("a", "n1"), (0, u64::MAX), 10).unwrap();
        assert_eq!(all.iter().map(|p| p.received_ms).collect::<Vec<_>>(), [100, 200]);
        assert_eq!(past(&path, ("a", "n1"), (101, 1000), 10).unwrap().len(), 1);
        assert_eq!(past(&path, ("a", "n1"), (0, 1000), 1).unwrap()[0].received_ms, 200);
        assert!(past(&path, ("a", "n2"), (0, 1000), 10).unwrap().is_empty());
        assert!(!store.prune(150).unwrap());
        assert_eq!(past(&path, ("a", "n1"), (0, 1000), 10).unwrap().len(), 1);
        store.remove_registration("a").unwrap();
        store.put_use("share.capability", None).unwrap();
        let (_, held) = Store::open(&path, 16).unwrap();
        assert!(held.registrations.is_empty() && held.values.is_empty() && held.uses.is_empty());
    }

    /// Goal: the file stays below its bound however much is written.
    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("collect.sqlite");
        let (mut store, _) = Store::open(&path, 1).unwrap();
        let mut full = 0;
        for round in 0..60_u64 {
            let value = Value::Text("x".repeat(100));
            let batch: Vec<Unwritten> = (0..200)
                .map(|i| item(&format!("d{i}"), "n1", value.clone(), 1 + round, true))
                .collect();
            full += u32::from(store.put_values(&batch).is_err());
            while store.prune(0).unwrap() {}
        }
        assert_eq!(full, 0);
        assert!(std::fs::metadata(&path).unwrap().len() <= 1 << 20);
        let left = past(&path, ("d0", "n1"), (0, 1000), 1000).unwrap();
        assert!(left.len() < 60 && left.last().unwrap().received_ms == 60, "{}", left.len());
    }
}
