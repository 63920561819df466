// SPDX-License-Identifier: GPL-3.0-or-later
//! Prints what libslurm says about the cluster of `SLURM_CONF`: one line of
//! JSON for each record, then how long each load took.
//!
//! `dump [ROWS]`: at most ROWS records of each table (default 10).

use std::fmt::Display;
use std::time::Instant;

use phalanx_slurm::{
    ConfRow, JobRow, LicenseRow, Load, NodeDetail, NodeRow, PartitionRow, Record, ReservationRow,
    Row, Slurm, SlurmError, Table, UpdateTime,
};

/// A JSON object, written field by field.
struct Line(String);

impl Line {
    fn new(kind: &str) -> Self {
        Line(format!("{{\"kind\":{kind:?}"))
    }

    fn text(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            // Rust's escapes of control characters are not JSON's.
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            self.0 += &format!(",{name:?}:{value:?}");
        }
        self
    }

    fn number(mut self, name: &str, value: impl Display) -> Self {
        self.0 += &format!(",{name:?}:{value}");
        self
    }

    fn debug(self, name: &str, value: impl std::fmt::Debug) -> Self {
        let value = format!("{value:?}");
        self.text(name, Some(&value))
    }

    fn print(self) {
        println!("{}}}", self.0);
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("dump: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), SlurmError> {
    let rows = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(10);
    let slurm = Slurm::init()?;
    let detail = NodeDetail { gres_used: true, partitions: true };
    let quick = NodeDetail::default();
    table("conf", rows, |since| slurm.load_conf(since), conf)?;
    table("partition", rows, |since| slurm.load_partitions(since), partition)?;
    table("node", rows, |since| slurm.load_nodes(since, detail), node)?;
    table("node_quick", 0, |since| slurm.load_nodes(since, quick), node)?;
    table("job", rows, |since| slurm.load_jobs(since), job)?;
    table("reservation", rows, |since| slurm.load_reservations(since), reservation)?;
    table("licence", rows, |since| slurm.load_licenses(since), licence)
}

fn conf(row: ConfRow<'_>) -> Line {
    Line::new("conf")
        .text("cluster", row.cluster_name())
        .text("version", row.version())
        .number("slurm_user_id", row.slurm_user_id())
        .text("select_type", row.select_type())
        .number("select_type_param", row.select_type_param())
        .text("scheduler_parameters", row.sched_params())
        .number("backfill_interval_s", row.backfill_interval_s())
        .text("plugin_dir", row.plugin_dir())
        .text("priority_type", row.priority_type())
        .text("preempt_type", row.preempt_type())
        .number("preempt_mode", row.preempt_mode())
}

fn partition(row: PartitionRow<'_>) -> Line {
    Line::new("partition")
        .text("name", row.name())
        .text("nodes", row.nodes())
        .number("starts_jobs", row.starts_jobs())
        .number("tier", row.priority_tier())
        .debug("time_max_min", row.time_max_min())
        .debug("nodes_max", row.nodes_max())
        .debug("over_subscribe", row.over_subscribe())
        .text("tres", row.tres())
}

fn reservation(row: ReservationRow<'_>) -> Line {
    Line::new("reservation")
        .text("name", row.name())
        .text("nodes", row.nodes())
        .number("start_s", row.start_s().unwrap_or(0))
        .number("end_s", row.end_s().unwrap_or(0))
        .number("flags", row.flags())
        .debug("cores", row.cores())
        .text("users", row.users())
        .text("tres", row.tres())
}

fn licence(row: LicenseRow<'_>) -> Line {
    Line::new("licence")
        .text("name", row.name())
        .number("total", row.total())
        .number("in_use", row.in_use())
        .number("available", row.available())
}

fn node(row: NodeRow<'_>) -> Line {
    Line::new("node")
        .text("name", row.name())
        .text("address", row.address())
        .text("state", Some(row.state().base().as_str()))
        .number("available", row.state().is_available())
        .number("cpus", row.cpus_usable())
        .number("cpus_allocated", row.cpus_allocated())
        .number("memory_mib", row.memory_usable_mib())
        .number("memory_allocated_mib", row.memory_allocated_mib())
        .debug("memory_free_mib", row.memory_free_mib())
        .debug("watts", row.watts())
        .text("gres", row.gres())
        .text("gres_used", row.gres_used())
        .text("features", row.features())
        .number("weight", row.weight())
        .text("partitions", row.partitions())
        .text("tres", row.tres())
        .text("reason", row.reason())
}

fn job(row: JobRow<'_>) -> Line {
    Line::new("job")
        .number("id", row.id())
        .debug("array", (row.array_job_id(), row.array_task_id()))
        .text("array_tasks", row.array_tasks())
        .debug("het", (row.het_job_id(), row.het_job_offset()))
        .text("state", Some(row.state().base().as_str()))
        .number("reason", row.reason())
        .number("user_id", row.user_id())
        .text("partition", row.partition())
        .text("name", row.name())
        .number("priority", row.priority())
        .debug("nice", row.nice())
        .debug("site_factor", row.site_factor())
        .debug("time_limit_min", row.time_limit_min())
        .number("cpus", row.cpus_min())
        .debug("cpus_max", row.cpus_max())
        .number("nodes_min", row.nodes_min())
        .debug("nodes_max", row.nodes_max())
        .debug("tasks", row.tasks())
        .debug("cpus_per_task", row.cpus_per_task())
        .debug("memory", row.memory())
        .debug("sharing", row.sharing())
        .debug("core_spec", row.core_spec())
        .text("nodes", row.nodes())
        .text("req_nodes", row.req_nodes())
        .text("exc_nodes", row.exc_nodes())
        .text("features", row.features())
        .text("tres_req", row.tres_req())
        .text("tres_alloc", row.tres_alloc())
        .text("tres_per_node", row.tres_per_node())
        .text("tres_per_job", row.tres_per_job())
        .text("licenses", row.licenses())
        .text("dependency", row.dependency())
        .text("comment", row.comment())
}

/// Loads a table, prints some rows, loads it again with its own time, and
/// prints what both took.
fn table<R: Record>(
    kind: &str,
    rows: usize,
    load: impl Fn(UpdateTime) -> Result<Load<Table<R>>, SlurmError>,
    line: impl Fn(Row<'_, R>) -> Line,
) -> Result<(), SlurmError> {
    let start = Instant::now();
    let loaded = load(UpdateTime::NEVER)?;
    let first_us = start.elapsed().as_micros();
    let Load::New(table) = loaded else {
        eprintln!("dump: {kind}: nothing, though asked for everything");
        return Ok(());
    };
    table.iter().take(rows).for_each(|row| line(row).print());
    let start = Instant::now();
    let again = load(table.updated())?;
    let again_us = start.elapsed().as_micros();
    Line::new("load")
        .text("table", Some(kind))
        .number("records", table.len())
        .number("memory_bytes", table.memory_bytes())
        .number("load_us", first_us)
        .number("again_us", again_us)
        .number("again_unchanged", matches!(again, Load::Unchanged))
        .print();
    Ok(())
}
