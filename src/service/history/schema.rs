// SPDX-License-Identifier: GPL-3.0-or-later
//! The tables of the history; see [`Schema`](crate::sqlite::Schema) for how they may change.

/// `PRAGMA application_id` of the history's files: "Phlx" in ASCII.
pub(super) const APPLICATION_ID: i64 = 0x5068_6c78;

/// Steps of the schema; the first makes version 1 of an empty file.
pub(super) const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE decisions (
  seq           INTEGER PRIMARY KEY,
  decision      INTEGER NOT NULL,
  time_ms       INTEGER NOT NULL,
  job_id        INTEGER NOT NULL,
  array_job_id  INTEGER,
  array_task_id INTEGER,
  het_job_id    INTEGER,
  user_id       INTEGER NOT NULL,
  partition     TEXT NOT NULL,
  ask           TEXT NOT NULL,
  mode          TEXT NOT NULL,
  verdict       TEXT NOT NULL,
  reason        TEXT,
  nodes         TEXT NOT NULL,
  node_count    INTEGER NOT NULL,
  generation    INTEGER NOT NULL,
  latency_us    INTEGER NOT NULL,
  explain       TEXT,
  outcome_ms     INTEGER,
  outcome_reason TEXT,
  outcome_rc     INTEGER,
  outcome_nodes  INTEGER,
  ask_ns         INTEGER
) STRICT;
CREATE INDEX decisions_decision ON decisions (decision);
CREATE INDEX decisions_job ON decisions (job_id);
CREATE INDEX decisions_task ON decisions (array_job_id, array_task_id)
  WHERE array_job_id IS NOT NULL;
CREATE INDEX decisions_time ON decisions (time_ms);

CREATE TABLE placements (
  seq           INTEGER PRIMARY KEY,
  time_ms       INTEGER NOT NULL,
  job_id        INTEGER NOT NULL,
  array_job_id  INTEGER,
  array_task_id INTEGER,
  het_job_id    INTEGER,
  user_id       INTEGER NOT NULL,
  partition     TEXT NOT NULL,
  mode          TEXT NOT NULL,
  nodes         TEXT NOT NULL,
  node_count    INTEGER NOT NULL,
  decision      INTEGER,
  dispersion_actual  REAL,
  dispersion_decided REAL
) STRICT;
CREATE INDEX placements_job ON placements (job_id);
CREATE INDEX placements_task ON placements (array_job_id, array_task_id)
  WHERE array_job_id IS NOT NULL;
CREATE INDEX placements_time ON placements (time_ms);

CREATE TABLE job_ends (
  seq     INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,
  job_id  INTEGER NOT NULL,
  state   TEXT NOT NULL
) STRICT;
CREATE INDEX job_ends_job ON job_ends (job_id);
CREATE INDEX job_ends_time ON job_ends (time_ms);
",
    "
CREATE TABLE runs (
  seq           INTEGER PRIMARY KEY,
  time_ms       INTEGER NOT NULL,
  job           TEXT NOT NULL,
  job_id        INTEGER NOT NULL,
  array_job_id  INTEGER,
  array_task_id INTEGER,
  het_job_id    INTEGER,
  user          TEXT NOT NULL,
  account       TEXT NOT NULL,
  name          TEXT NOT NULL,
  declared      TEXT,
  class         TEXT NOT NULL,
  partition     TEXT NOT NULL,
  qos           TEXT NOT NULL,
  nodes         TEXT NOT NULL,
  node_count    INTEGER NOT NULL,
  node_class    TEXT NOT NULL,
  submit_s      INTEGER NOT NULL,
  start_s       INTEGER NOT NULL,
  end_s         INTEGER NOT NULL,
  elapsed_ms    INTEGER NOT NULL,
  limit_min     INTEGER,
  state         TEXT NOT NULL,
  exit_code     INTEGER NOT NULL,
  exit_signal   INTEGER NOT NULL,
  cpus          INTEGER NOT NULL,
  tres_req      TEXT NOT NULL,
  tres_alloc    TEXT NOT NULL,
  work          REAL,
  joules        REAL,
  placed_by     TEXT NOT NULL,
  source        TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX runs_run ON runs (job, start_s);
CREATE INDEX runs_time ON runs (time_ms);
",
    "
CREATE TABLE samples (
  seq       INTEGER PRIMARY KEY,
  time_ms   INTEGER NOT NULL,
  pending   INTEGER NOT NULL,
  running   INTEGER NOT NULL,
  resources TEXT NOT NULL
) STRICT;
CREATE INDEX samples_time ON samples (time_ms);
",
    "ALTER TABLE placements ADD COLUMN compared TEXT;",
    "ALTER TABLE runs ADD COLUMN arm TEXT NOT NULL DEFAULT '';",
    "ALTER TABLE runs ADD COLUMN eligible_s INTEGER;",
    "ALTER TABLE placements ADD COLUMN delta INTEGER;",
];
