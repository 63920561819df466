// SPDX-License-Identifier: GPL-3.0-or-later
//! A problem compiled into dense arrays: fixed-point resources, task types, server classes.
//!
//! Tasks with equal request and equal edges share a *type*; servers with equal capacity and equal
//! edges from every type form a *class*. Servers are renumbered so that classes, and capacities,
//! are contiguous, from small to large. A *zone* is a run of classes that share resource prices;
//! it is one class unless the product of types and classes would not fit in memory.

use super::counts::Counts;
use super::problem::{Problem, ServerNames, Task};
use super::units::{Unit, push_units};
use crate::learn::{Exploration, variance_proxy};
use foldhash::fast::RandomState;
use phalanx_core::problem::InputError;
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// Keeps the best plan, and lines different: of equal ones the later is shaken.
pub const NONE: u32 = u32::MAX;
/// Most tasks of a problem.
pub const TASKS_MAX: usize = 1 << 26;
/// Most options (type, zone) kept; with more, classes are merged into coarser zones.
const OPTIONS_MAX: usize = 1_500_000;
/// Pairs of type and server up to which the option of each is kept in a table (16 MB).
const TABLE_MAX: usize = 4_000_000;

/// Converts an index, which fits by construction: all arrays are shorter than `NONE`.
pub fn narrow(i: usize) -> u32 {
    debug_assert!(i < NONE as usize, "{i} is no index");
    u32::try_from(i).unwrap_or(NONE)
}

/// Servers `lo..hi` on which a type may run, with the terms of its value there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Opt {
    pub lo: u32,
    pub hi: u32,
    pub zone: u32,
    /// 1 for an edge that was never tried while exploration is on, else 0.
    pub untried: u32,
    /// mean - cost.
    pub lin: f64,
    /// Variance proxy; 0 for untried edges.
    pub s2: f64,
}

/// The compiled problem. Arrays by type or server have `kinds` entries per row.
#[derive(Debug, Clone)]
pub struct Instance {
    pub kinds: usize,
    pub servers: usize,
    /// Internal server -> index in the problem.
    pub input_of: Vec<u32>,
    /// Index in the problem -> internal server.
    pub internal_of: Vec<u32>,
    pub capacity: Vec<i32>,
    pub class_of: Vec<u32>,
    pub classes: usize,
    pub zone_of: Vec<u32>,
    pub zones: usize,
    /// First server of each zone, and `servers` at the end.
    pub zone_start: Vec<u32>,
    /// Whether some zone holds servers with different edges.
    pub merged: bool,
    pub types: usize,
    pub request: Vec<i32>,
    /// Requests divided by `kind_scale`.
    pub request_f: Vec<f64>,
    /// Largest capacity of each kind, in units, at least 1.
    pub kind_scale: Vec<f64>,
    pub opt_start: Vec<u32>,
    pub opts: Vec<Opt>,
    /// Option by (type, server) or `NONE`; empty when the instance is too large for it.
    pub option_table: Vec<u32>,
    pub task_type: Vec<u32>,
    pub job_of: Vec<u32>,
    /// First task of each job, and the number of tasks at the end.
    pub job_start: Vec<u32>,
    /// Tasks of each job, hardest first, in the ranges of `job_start`.
    pub insert_order: Vec<u32>,
    /// Requests of whole jobs.
    pub job_request: Vec<i64>,
    /// Tasks by type of the possible jobs.
    pub counts: Counts,
    /// Jobs whose every task has an option.
    pub possible: Vec<bool>,
    /// Jobs whose tasks must be on different servers.
    pub spread: Vec<bool>,
    pub delta: f64,
    /// Weight of an untried edge in scalar objectives: above any difference of indexes.
    pub untried_weight: f64,
    /// Whether some option was never tried while exploration is on.
    pub has_untried: bool,
}

/// Terms of one edge as given, before classes are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// mean - cost.
    pub lin: f64,
    /// Variance proxy; 0 for untried edges.
    pub s2: f64,
    /// 1 for an edge that was never tried while exploration is on, else 0.
    pub untried: u32,
}

struct TypeSpec<'a> {
    task: &'a Task,
    /// (input server, terms), ascending.
    edges: Vec<(u32, Terms)>,
    /// (group, terms), ascending.
    groups: Vec<(u32, Terms)>,
    any: Option<Terms>,
}

impl TypeSpec<'_> {
    /// Terms on the servers of a group that are not listed one by one.
    fn of_group(&self, group: u32) -> Option<Terms> {
        let found = self.groups.iter().find(|(g, _)| *g == group);
        found.map(|(_, terms)| *terms).or(self.any)
    }

    fn read<'a>(
        problem: &'a Problem,
        exploration: &Exploration,
        (j, q): (usize, usize),
        (names, group_names): (&ServerNames<'_>, &HashMap<&str, u32>),
    ) -> Result<TypeSpec<'a>, InputError> {
        let task = &problem.jobs[j].tasks[q];
        let (paid, g) = (problem.cost_of(task), used_g(exploration));
        let mut edges: Vec<(u32, Terms)> = Vec::with_capacity(task.edges.len());
        let mut last = None;
        for (e, edge) in task.edges.iter().enumerate() {
            last = names.find(&edge.server, last);
            let Some(server) = last else {
                let path = format!("jobs[{j}].tasks[{q}].edges[{e}].server");
                let message = format!("unknown server {:?}", edge.server);
                return Err(InputError::new(path, message));
            };
            edges.push((narrow(server), Terms::new(edge.mean, edge.count, paid, g)));
        }
        edges.sort_unstable_by_key(|(server, _)| *server);
        let mut groups: Vec<(u32, Terms)> = Vec::with_capacity(task.groups.len());
        for edge in task.groups.iter() {
            // Unknown names were refused by the problem's own check.
            let group = group_names.get(edge.group.as_str()).copied().unwrap_or(NONE);
            groups.push((group, Terms::new(edge.mean, edge.count, paid, g)));
        }
        groups.sort_unstable_by_key(|(group, _)| *group);
        let any = task.any.map(|any| Terms::new(any.mean, any.count, paid, g));
        Ok(TypeSpec { task, edges, groups, any })
    }

    /// Bits of request and edges: equal for tasks of one type.
    fn words(&self) -> impl Iterator<Item = u64> {
        let request = self.task.request.iter().map(|a| a.to_bits());
        let any = self.any.iter().flat_map(|t| t.bits());
        let lists = [&self.groups, &self.edges].map(|list| list.len() as u64);
        let listed = self.groups.iter().chain(&self.edges);
        let listed = listed.flat_map(|(at, t)| std::iter::once(u64::from(*at)).chain(t.bits()));
        request.chain([u64::from(self.any.is_some())]).chain(any).chain(lists).chain(listed)
    }

    fn digest(&self, hashes: &RandomState) -> u64 {
        let mut hasher = hashes.build_hasher();
        self.words().for_each(|word| hasher.write_u64(word));
        hasher.finish()
    }

    fn by_zone(&self) -> bool {
        self.any.is_some() || !self.groups.is_empty()
    }
}

impl Instance {
    pub fn jobs(&self) -> usize {
        self.job_start.len() - 1
    }

    pub fn tasks(&self) -> usize {
        self.task_type.len()
    }

    /// Task indexes of a job in input order.
    pub fn job_tasks(&self, job: usize) -> std::ops::Range<usize> {
        self.job_start[job] as usize..self.job_start[job + 1] as usize
    }

    /// Option indexes of a type, by ascending first server.
    pub fn type_opts(&self, ty: usize) -> std::ops::Range<usize> {
        self.opt_start[ty] as usize..self.opt_start[ty + 1] as usize
    }

    /// The option by which type `ty` runs on `server`, if it may.
    pub fn option_on(&self, ty: usize, server: u32) -> Option<usize> {
        if !self.option_table.is_empty() {
            let option = self.option_table[ty * self.servers + server as usize];
            return (option != NONE).then_some(option as usize);
        }
        let range = self.type_opts(ty);
        let opts = &self.opts[range.clone()];
        let after = opts.partition_point(|o| o.lo <= server);
        let mut found = None;
        // Explicit options lie inside the merged zone that starts before them, so the nearest
        // option that begins at or before the server and covers it is the most specific one.
        for at in (0..after).rev() {
            if opts[at].hi > server {
                found = Some(range.start + at);
                break;
            }
            if !self.merged || opts[at].zone != self.zone_of[server as usize] {
                break;
            }
        }
        found
    }

    /// Worth of an option before prices, with the tangent of slope `theta` for the root.
    pub fn worth(&self, opt: &Opt, theta: f64) -> f64 {
        opt.lin + theta * opt.s2 + f64::from(opt.untried) * self.untried_weight
    }

    /// Request of a type.
    pub fn row(&self, ty: usize) -> &[i32] {
        &self.request[ty * self.kinds..(ty + 1) * self.kinds]
    }

    /// Request of a whole job.
    pub fn job_row(&self, job: usize) -> &[i64] {
        &self.job_request[job * self.kinds..(job + 1) * self.kinds]
    }

    /// True when the capacity of an empty `server` covers one task of type `ty`.
    pub fn fits_empty(&self, ty: usize, server: usize) -> bool {
        let k = self.kinds;
        let request = &self.request[ty * k..(ty + 1) * k];
        let capacity = &self.capacity[server * k..(server + 1) * k];
        request.iter().zip(capacity).all(|(a, c)| a <= c)
    }

    /// Compiles a problem that [`Problem::validate`] accepted.
    pub fn compile(problem: &Problem) -> Result<Instance, InputError> {
        let tasks: usize = problem.jobs.iter().map(|job| job.tasks.len()).sum();
        if tasks > TASKS_MAX {
            let message = format!("{tasks} tasks in all, the limit TASKS_MAX is {TASKS_MAX}");
            return Err(InputError::new("jobs", message));
        }
        let exploration = problem.exploration();
        let (specs, task_type) = collect_types(problem, &exploration)?;
        // A problem without kinds has one that nobody needs, so that rows are never empty.
        let kinds = problem.kinds.len().max(1);
        let scale = Unit::of(problem);
        let mut input_capacity = Vec::with_capacity(problem.servers.len() * kinds);
        for server in &problem.servers {
            push_units(&mut input_capacity, &server.capacity, &scale);
        }
        let groups = Groups::of(problem);
        let listed = Rows::by_server(&specs, problem.servers.len());
        let order = order_servers(kinds, &listed, &input_capacity, &groups.of_server);
        let mut instance = Instance::empty(kinds, problem.servers.len(), &exploration);
        instance.set_servers(&order, &input_capacity);
        instance.set_requests(&specs, &scale);
        let by_zone = specs.iter().filter(|s| s.by_zone()).count();
        instance.set_zones(by_zone, &groups.of_server);
        instance.set_options(&specs, &listed, &groups.of_server);
        instance.set_table();
        instance.set_jobs(problem, task_type);
        instance.set_untried_weight();
        Ok(instance)
    }

    fn empty(kinds: usize, servers: usize, exploration: &Exploration) -> Instance {
        Instance {
            kinds,
            servers,
            input_of: vec![0; servers],
            internal_of: vec![0; servers],
            capacity: Vec::with_capacity(servers * kinds),
            class_of: vec![0; servers],
            classes: 0,
            zone_of: vec![0; servers],
            zones: 0,
            zone_start: vec![0],
            merged: false,
            types: 0,
            request: Vec::new(),
            request_f: Vec::new(),
            kind_scale: Vec::new(),
            opt_start: vec![0],
            opts: Vec::new(),
            option_table: Vec::new(),
            task_type: Vec::new(),
            job_of: Vec::new(),
            job_start: vec![0],
            insert_order: Vec::new(),
            job_request: Vec::new(),
            counts: Counts::default(),
            possible: Vec::new(),
            spread: Vec::new(),
            delta: exploration.delta(),
            untried_weight: 0.0,
            has_untried: false,
        }
    }

    fn set_servers(&mut self, order: &[(u32, bool)], input_capacity: &[i32]) {
        let kinds = self.kinds;
        for (internal, (input, same)) in order.iter().enumerate() {
            let input = *input as usize;
            self.input_of[internal] = narrow(input);
            self.internal_of[input] = narrow(internal);
            self.capacity.extend_from_slice(&input_capacity[input * kinds..(input + 1) * kinds]);
            self.classes += usize::from(!*same);
            self.class_of[internal] = narrow(self.classes - 1);
        }
    }

    fn set_requests(&mut self, specs: &[TypeSpec<'_>], scale: &[Unit]) {
        self.types = specs.len();
        for spec in specs {
            push_units(&mut self.request, &spec.task.request, scale);
        }
        self.set_scales();
    }

    fn set_scales(&mut self) {
        self.kind_scale = scales(self.kinds, &self.capacity);
        let scales = self.kind_scale.iter().cycle();
        self.request_f = self.request.iter().zip(scales).map(|(a, s)| f64::from(*a) / s).collect();
    }

    /// Cuts the servers into zones: one per class, or runs of classes when there are too many.
    fn set_zones(&mut self, types: usize, groups: &[u32]) {
        let zones_max = (OPTIONS_MAX / types.max(1)).max(1);
        self.merged = self.classes > zones_max;
        let (mut class_seen, mut group_seen) = (NONE, NONE);
        for server in 0..self.servers {
            let class = self.class_of[server];
            // With merging, a new zone starts when its share of the servers is used up.
            let group = groups[self.input_of[server] as usize];
            let due = self.zones * self.servers <= server * zones_max || group != group_seen;
            group_seen = group;
            if class != class_seen && (!self.merged || due) {
                if self.zones > 0 {
                    self.zone_start.push(narrow(server));
                }
                self.zones += 1;
            }
            class_seen = class;
            self.zone_of[server] = narrow(self.zones - 1);
        }
        self.zone_start.push(narrow(self.servers));
    }

    fn set_options(&mut self, specs: &[TypeSpec<'_>], listed: &Rows, groups: &[u32]) {
        let rows = listed.by_type(specs, &self.input_of);
        self.opts.reserve(rows.edges.len());
        let mut row: Vec<Opt> = Vec::new();
        for (ty, spec) in specs.iter().enumerate() {
            row.clear();
            for (server, terms) in rows.row(ty) {
                let class = self.class_of[*server as usize];
                let zone = self.zone_of[*server as usize];
                let same = row.last().is_some_and(|o| self.class_of[o.lo as usize] == class);
                match row.last_mut() {
                    Some(last) if same && last.hi == *server => last.hi = server + 1,
                    _ => row.push(terms.over(*server, server + 1, zone)),
                }
            }
            if spec.by_zone() {
                self.add_zones(&mut row, |first| {
                    spec.of_group(groups[self.input_of[first as usize] as usize])
                });
            }
            for opt in &row {
                if (opt.lo..opt.hi).any(|s| self.fits_empty(ty, s as usize)) {
                    self.opts.push(*opt);
                    self.has_untried |= opt.untried == 1;
                }
            }
            self.opt_start.push(narrow(self.opts.len()));
        }
    }

    /// Builds the table of options where it is small enough.
    fn set_table(&mut self) {
        if self.types * self.servers > TABLE_MAX {
            return;
        }
        let mut table = vec![NONE; self.types * self.servers];
        for ty in 0..self.types {
            for option in self.type_opts(ty) {
                // Later options are the more specific ones; see `option_on`.
                let first = ty * self.servers;
                let opt = &self.opts[option];
                table[first + opt.lo as usize..first + opt.hi as usize].fill(narrow(option));
            }
        }
        self.option_table = table;
    }

    /// Adds an option for every zone that is not wholly listed and has terms, by its first server.
    fn add_zones(&self, row: &mut Vec<Opt>, terms: impl Fn(u32) -> Option<Terms>) {
        let listed = row.len();
        let mut at = 0;
        for zone in 0..self.zones {
            let (lo, hi) = (self.zone_start[zone], self.zone_start[zone + 1]);
            let mut covered = 0;
            while at < listed && row[at].lo < hi {
                covered += row[at].hi - row[at].lo;
                at += 1;
            }
            if covered < hi - lo
                && let Some(terms) = terms(lo)
            {
                row.push(terms.over(lo, hi, narrow(zone)));
            }
        }
        // A zone's own option comes before the listed ones inside it; see `option_on`.
        row.sort_by_key(|o| (o.lo, std::cmp::Reverse(o.hi)));
    }

    fn set_jobs(&mut self, problem: &Problem, task_type: Vec<u32>) {
        let kinds = self.kinds;
        self.task_type = task_type;
        let mut size = vec![0.0; self.types];
        for (ty, size) in size.iter_mut().enumerate() {
            *size = self.request_f[ty * kinds..(ty + 1) * kinds].iter().sum();
        }
        for (j, job) in problem.jobs.iter().enumerate() {
            let start = self.job_start[j] as usize;
            let end = start + job.tasks.len();
            self.job_start.push(narrow(end));
            self.job_of.resize(end, narrow(j));
            let types = &self.task_type;
            let mut order: Vec<u32> = (narrow(start)..narrow(end)).collect();
            order.sort_by(|a, b| {
                let (a, b) = (types[*a as usize], types[*b as usize]);
                size[b as usize].total_cmp(&size[a as usize]).then(a.cmp(&b))
            });
            self.insert_order.extend(order);
            let mut possible = true;
            for task in start..end {
                let ty = self.task_type[task] as usize;
                possible &= !self.type_opts(ty).is_empty();
            }
            self.possible.push(possible);
            if possible {
                self.counts.push(self.task_type[start..end].to_vec());
            }
            self.spread.push(job.spread && end - start > 1);
        }
        self.set_job_requests();
    }

    fn set_job_requests(&mut self) {
        let kinds = self.kinds;
        self.job_request = vec![0; self.jobs() * kinds];
        for (ty, job) in self.task_type.iter().zip(&self.job_of) {
            let sums = self.job_request[*job as usize * kinds..].iter_mut();
            let row = &self.request[*ty as usize * kinds..(*ty as usize + 1) * kinds];
            sums.zip(row).for_each(|(sum, amount)| *sum = sum.saturating_add(i64::from(*amount)));
        }
    }

    fn set_untried_weight(&mut self) {
        if !self.has_untried {
            return;
        }
        let (mut lin, mut s2) = (0.0, 0.0);
        for ty in &self.task_type {
            let opts = &self.opts[self.type_opts(*ty as usize)];
            lin += opts.iter().map(|o| o.lin.abs()).fold(0.0, f64::max);
            s2 += opts.iter().map(|o| o.s2).fold(0.0, f64::max);
        }
        self.untried_weight = 2.0 * lin + 2.0 * f64::sqrt(s2) + 1.0;
    }
}

/// Value of g(t) in formula 11; `None` while exploration is off.
pub fn used_g(exploration: &Exploration) -> Option<f64> {
    exploration.is_on().then(|| exploration.g())
}

impl Terms {
    /// Makes the terms of an edge; `g` is that of [`used_g`].
    pub fn new(mean: f64, count: f64, cost: f64, g: Option<f64>) -> Terms {
        let tried = count > 0.0;
        let lin = if tried { mean } else { 0.0 } - cost;
        let Some(g) = g else {
            return Terms { lin, s2: 0.0, untried: 0 };
        };
        let s2 = if tried { variance_proxy(g, count) } else { 0.0 };
        Terms { lin, s2, untried: u32::from(!tried) }
    }

    fn over(self, lo: u32, hi: u32, zone: u32) -> Opt {
        Opt { lo, hi, zone, untried: self.untried, lin: self.lin, s2: self.s2 }
    }

    fn bits(self) -> [u64; 3] {
        [self.lin.to_bits(), self.s2.to_bits(), u64::from(self.untried)]
    }
}

/// Groups of servers by number, in the order in which they first appear.
struct Groups<'a> {
    by_name: HashMap<&'a str, u32>,
    /// Group of each input server; `NONE` for a server without one.
    of_server: Vec<u32>,
}

impl<'a> Groups<'a> {
    fn of(problem: &'a Problem) -> Groups<'a> {
        let mut by_name = HashMap::new();
        let mut of_server = Vec::with_capacity(problem.servers.len());
        for server in &problem.servers {
            let next = narrow(by_name.len());
            let name = server.group.as_deref();
            of_server.push(name.map_or(NONE, |name| *by_name.entry(name).or_insert(next)));
        }
        Groups { by_name, of_server }
    }
}

/// Finds the task types; returns them and the type of every task.
fn collect_types<'a>(
    problem: &'a Problem,
    exploration: &Exploration,
) -> Result<(Vec<TypeSpec<'a>>, Vec<u32>), InputError> {
    let mut different: Vec<(usize, usize)> = Vec::new();
    let mut task_type = Vec::new();
    let mut last = None;
    for (j, job) in problem.jobs.iter().enumerate() {
        for (q, task) in job.tasks.iter().enumerate() {
            if last != Some(task) {
                different.push((j, q));
                last = Some(task);
            }
            task_type.push(narrow(different.len() - 1));
        }
    }
    let names = ServerNames::of(&problem.servers);
    let groups = Groups::of(problem).by_name;
    let hashes = RandomState::default();
    let read = |at: &(usize, usize)| {
        let spec = TypeSpec::read(problem, exploration, *at, (&names, &groups))?;
        let digest = spec.digest(&hashes);
        Ok((spec, digest))
    };
    let read: Result<Vec<_>, InputError> = different.par_iter().map(read).collect();
    let mut known: HashMap<u64, Vec<u32>, RandomState> = HashMap::default();
    let mut specs: Vec<TypeSpec<'_>> = Vec::new();
    let types = read?.into_iter().map(|(spec, digest)| {
        let alike = known.entry(digest).or_default();
        let found = alike.iter().find(|ty| specs[**ty as usize].words().eq(spec.words()));
        found.copied().unwrap_or_else(|| {
            let ty = narrow(specs.len());
            specs.push(spec);
            alike.push(ty);
            ty
        })
    });
    let types: Vec<u32> = types.collect();
    task_type.iter_mut().for_each(|ty| *ty = types[*ty as usize]);
    Ok((specs, task_type))
}

/// Edges in rows whose lengths are known beforehand.
struct Rows {
    edges: Vec<(u32, Terms)>,
    /// First edge of each row, and the place where the row's next edge goes.
    starts: Vec<usize>,
    next: Vec<usize>,
}

impl Rows {
    fn of(lengths: impl Iterator<Item = usize>) -> Rows {
        let mut all = 0;
        let before = |length| {
            all += length;
            all - length
        };
        let starts: Vec<usize> = lengths.map(before).collect();
        let edges = vec![(NONE, Terms { lin: 0.0, s2: 0.0, untried: 0 }); all];
        Rows { edges, next: starts.clone(), starts }
    }

    fn push(&mut self, row: usize, edge: (u32, Terms)) {
        self.edges[self.next[row]] = edge;
        self.next[row] += 1;
    }

    fn row(&self, row: usize) -> &[(u32, Terms)] {
        &self.edges[self.starts[row]..self.next[row]]
    }

    /// Edges listed one by one: by input server, and then by type.
    fn by_server(specs: &[TypeSpec<'_>], servers: usize) -> Rows {
        let mut lengths = vec![0; servers];
        for (server, _) in specs.iter().flat_map(|spec| &spec.edges) {
            lengths[*server as usize] += 1;
        }
        let mut rows = Rows::of(lengths.into_iter());
        for (ty, spec) in specs.iter().enumerate() {
            for (server, terms) in &spec.edges {
                rows.push(*server as usize, (narrow(ty), *terms));
            }
        }
        rows
    }

    /// The rows in the order of types, and within a type of internal servers.
    fn by_type(&self, specs: &[TypeSpec<'_>], input_of: &[u32]) -> Rows {
        let mut rows = Rows::of(specs.iter().map(|spec| spec.edges.len()));
        for (internal, input) in input_of.iter().enumerate() {
            for (ty, terms) in self.row(*input as usize) {
                rows.push(*ty as usize, (narrow(internal), *terms));
            }
        }
        rows
    }
}

fn compare_edges(a: &[(u32, Terms)], b: &[(u32, Terms)]) -> Ordering {
    let key = |(ty, terms): &(u32, Terms)| (*ty, terms.bits());
    a.iter().map(key).cmp(b.iter().map(key))
}

/// Largest capacity of each kind, at least 1.
fn scales(kinds: usize, capacity: &[i32]) -> Vec<f64> {
    let most = |k| capacity.iter().skip(k).step_by(kinds).max().copied();
    (0..kinds).map(|k| f64::from(most(k).unwrap_or(1).max(1))).collect()
}

/// Orders servers by group, size, capacity and edges; the flag tells whether a server is of the
/// same class as the one before.
fn order_servers(
    kinds: usize,
    listed: &Rows,
    capacity: &[i32],
    groups: &[u32],
) -> Vec<(u32, bool)> {
    let servers = capacity.len() / kinds;
    let row = |s: u32| &capacity[s as usize * kinds..(s as usize + 1) * kinds];
    let scale = scales(kinds, capacity);
    let size = |s: u32| row(s).iter().zip(&scale).map(|(c, u)| f64::from(*c) / u).sum::<f64>();
    let sizes: Vec<f64> = (0..narrow(servers)).map(size).collect();
    let mut order: Vec<u32> = (0..narrow(servers)).collect();
    let compare = |a: u32, b: u32| {
        let by_group = groups[a as usize].cmp(&groups[b as usize]);
        by_group
            .then_with(|| sizes[a as usize].total_cmp(&sizes[b as usize]))
            .then_with(|| row(a).cmp(row(b)))
            .then_with(|| compare_edges(listed.row(a as usize), listed.row(b as usize)))
    };
    order.sort_by(|a, b| compare(*a, *b).then(a.cmp(b)));
    let same = |i: usize| i > 0 && compare(order[i - 1], order[i]).is_eq();
    (0..servers).map(|i| (order[i], same(i))).collect()
}
