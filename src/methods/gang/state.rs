// SPDX-License-Identifier: GPL-3.0-or-later
//! One assignment under construction: who runs where, what is free, and its exact score.

use super::edges::Ranked;
use super::guide::Guide;
use super::instance::{Instance, NONE, narrow};
use super::scores::{LANES, Scores};
use super::tree::FreeTree;
use crate::learn::confidence_index;

/// Servers of one range that are compared; longer ranges show this window of them.
const WINDOW_SERVERS: usize = 64;
/// More than any server has free, and little enough that sums still fit an `i32`.
pub(super) const SHUT: i32 = 1 << 30;
/// Servers touched lately that are tried before the tree.
const HOT_SERVERS_MAX: usize = 24;

/// Exact value of an assignment; `untried` is compared first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Score {
    pub(crate) untried: u64,
    pub(crate) lin: f64,
    pub(crate) s2: f64,
}

impl Score {
    /// Formula 13 without the infinite part.
    pub(crate) fn index(&self, instance: &Instance) -> f64 {
        confidence_index(instance.delta, self.lin, self.s2)
    }

    /// One number that orders scores, up to rounding.
    pub(crate) fn scalar(&self, instance: &Instance) -> f64 {
        self.untried as f64 * instance.untried_weight + self.lin + self.s2.max(0.0).sqrt()
    }

    /// Better by more than rounding.
    pub(crate) fn beats(&self, other: &Score, instance: &Instance) -> bool {
        if self.untried != other.untried {
            return self.untried > other.untried;
        }
        let (a, b) = (self.index(instance), other.index(instance));
        a > b + 1e-12 * b.abs().max(1.0)
    }
}

/// A gang-complete assignment within capacity, with indexes for fast moves.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Server of each task, or `NONE`.
    pub(crate) server: Vec<u32>,
    /// Option by which each placed task runs.
    pub(crate) option: Vec<u32>,
    pub(crate) free: Vec<i32>,
    /// The same by kind, padded to whole lanes with -1.
    columns: Vec<i32>,
    /// Where servers are many: the most that is free on one of each run of lanes, by kind.
    peaks: Vec<i32>,
    padded: usize,
    /// What is left of the cluster's capacity when jobs placed have theirs.
    total_free: Vec<i64>,
    /// Jobs, the placed ones first.
    pub(crate) queue: Vec<u32>,
    queue_at: Vec<u32>,
    pub(crate) placed: usize,
    head: Vec<u32>,
    next: Vec<u32>,
    prev: Vec<u32>,
    tree: FreeTree,
    hot: Vec<u32>,
    /// Window of each zone that greedy insertion fills.
    frontier: Vec<u32>,
    /// Where all servers are looked at: what each was worth to the last task.
    scores: Scores,
    untried: u64,
    lin: f64,
    s2: f64,
    /// Servers looked at: a deterministic measure of work.
    pub(crate) work: u64,
}

/// How a server is chosen among those that fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taste {
    /// Weight of what stays free on the server (best fit); 0 = first fit.
    pub(crate) tight: f32,
    /// Where long ranges are looked at, modulo their length; `None` = at the frontier that
    /// greedy insertion has reached.
    pub(crate) window: Option<u32>,
}

/// The server in `lo..hi` with the cheapest leftover among those that fit, and that leftover.
fn scan_range(
    columns: &[i32],
    padded: usize,
    (lo, hi): (usize, usize),
    request: &[i32],
    rest: &[f32],
) -> Option<(usize, f32)> {
    let mut best = [f32::INFINITY; LANES];
    let mut found = [NONE; LANES];
    let (first, end) = (narrow(lo), narrow(hi));
    let mut start = lo - lo % LANES;
    while start < hi {
        let mut lack = [0_i32; LANES];
        let mut left = [0.0_f32; LANES];
        for (k, (a, p)) in request.iter().zip(rest).enumerate() {
            let column = &columns[k * padded + start..][..LANES];
            for l in 0..LANES {
                let over = column[l] - a;
                lack[l] |= over;
                left[l] += p * over as f32;
            }
        }
        for l in 0..LANES {
            let at = narrow(start + l);
            let inside = (at >= first) & (at < end);
            let better = (lack[l] >= 0) & (left[l] < best[l]) & inside;
            best[l] = if better { left[l] } else { best[l] };
            found[l] = if better { at } else { found[l] };
        }
        start += LANES;
    }
    let mut at: Option<(usize, f32)> = None;
    for (server, left) in found.into_iter().zip(best).filter(|(s, _)| *s != NONE) {
        let server = server as usize;
        if at.is_none_or(|(s, b)| left < b || (left == b && server < s)) {
            at = Some((server, left));
        }
    }
    at
}

/// How many edges were looked at, and the one worth most less the price of what stays free there;
/// for so many kinds, or for any number with 0.
fn best_edge<'a, const KINDS: usize>(
    edges: &'a [Ranked],
    request: &[i32],
    free: &[i32],
    (rest, tight): (&[f32], f32),
) -> (usize, Option<&'a Ranked>) {
    let kinds = if KINDS > 0 { KINDS } else { request.len() };
    let (request, rest) = (&request[..kinds], &rest[..kinds]);
    let (mut best, mut found) = (f32::NEG_INFINITY, None);
    for (at, edge) in edges.iter().enumerate() {
        if edge.value <= best {
            return (at, found);
        }
        let free = &free[edge.server as usize * kinds..][..kinds];
        // Without branches: the sign of any difference tells that a kind lacks.
        let lack = request.iter().zip(free).fold(0, |lack, (a, f)| lack | (f - a));
        if lack < 0 {
            continue;
        }
        let over = request.iter().zip(free).zip(rest);
        let left: f32 = over.map(|((a, f), price)| price * (f - a) as f32).sum();
        let value = edge.value - tight * left;
        if value > best {
            (best, found) = (value, Some(edge));
        }
    }
    (edges.len(), found)
}

impl State {
    pub(crate) fn new(instance: &Instance) -> State {
        let (servers, tasks, jobs) = (instance.servers, instance.tasks(), instance.jobs());
        let kinds = instance.kinds;
        let mut total_free = vec![0_i64; kinds];
        for row in instance.capacity.chunks_exact(kinds.max(1)) {
            total_free.iter_mut().zip(row).for_each(|(t, c)| *t += i64::from(*c));
        }
        let listed = instance.edges.are_listed();
        let dense = !listed && !instance.dense_option.is_empty();
        let padded = servers.next_multiple_of(LANES);
        let mut columns = vec![-1; padded * kinds];
        for (at, c) in instance.capacity.iter().enumerate() {
            columns[(at % kinds) * padded + at / kinds] = *c;
        }
        let wide = dense && !instance.few;
        let mut peaks = vec![-1; if wide { padded / LANES * kinds } else { 0 }];
        if wide {
            for (at, c) in instance.capacity.iter().enumerate() {
                let peak = &mut peaks[at / kinds / LANES * kinds + at % kinds];
                *peak = i32::max(*peak, *c);
            }
        }
        State {
            server: vec![NONE; tasks],
            option: vec![NONE; tasks],
            free: instance.capacity.clone(),
            columns,
            peaks,
            padded,
            total_free,
            queue: (0..narrow(jobs)).collect(),
            queue_at: (0..narrow(jobs)).collect(),
            placed: 0,
            head: vec![NONE; servers],
            next: vec![NONE; tasks],
            prev: vec![NONE; tasks],
            tree: FreeTree::new(instance, !dense && !listed),
            hot: Vec::with_capacity(HOT_SERVERS_MAX),
            frontier: instance.zone_start[..instance.zones].to_vec(),
            scores: Scores::new(if dense { padded } else { 0 }),
            untried: 0,
            lin: 0.0,
            s2: 0.0,
            work: 0,
        }
    }

    /// Makes this state equal to `other` without allocating.
    pub(crate) fn copy_from(&mut self, other: &State) {
        self.server.copy_from_slice(&other.server);
        self.option.copy_from_slice(&other.option);
        self.free.copy_from_slice(&other.free);
        self.columns.copy_from_slice(&other.columns);
        self.peaks.copy_from_slice(&other.peaks);
        self.total_free.copy_from_slice(&other.total_free);
        self.queue.copy_from_slice(&other.queue);
        self.queue_at.copy_from_slice(&other.queue_at);
        self.placed = other.placed;
        self.head.copy_from_slice(&other.head);
        self.next.copy_from_slice(&other.next);
        self.prev.copy_from_slice(&other.prev);
        self.tree.copy_from(&other.tree);
        self.hot.clear();
        self.frontier.copy_from_slice(&other.frontier);
        (self.untried, self.lin, self.s2) = (other.untried, other.lin, other.s2);
    }

    /// Score by the running sums.
    pub(crate) fn score(&self) -> Score {
        Score { untried: self.untried, lin: self.lin, s2: self.s2 }
    }

    /// Sums the score again in task order, so that rounding does not pile up.
    pub(crate) fn rescore(&mut self, instance: &Instance) -> Score {
        let (mut untried, mut lin, mut s2) = (0, 0.0, 0.0);
        for option in self.option.iter().filter(|o| **o != NONE) {
            let opt = &instance.opts[*option as usize];
            untried += u64::from(opt.untried);
            lin += opt.lin;
            s2 += opt.s2;
        }
        (self.untried, self.lin, self.s2) = (untried, lin, s2);
        self.score()
    }

    pub(crate) fn is_placed(&self, job: usize) -> bool {
        (self.queue_at[job] as usize) < self.placed
    }

    /// First task on `server`; follow with [`State::task_after`].
    pub(crate) fn first_task(&self, server: usize) -> u32 {
        self.head[server]
    }

    pub(crate) fn task_after(&self, task: u32) -> u32 {
        self.next[task as usize]
    }

    /// True when one more task of type `ty` fits on `server` now.
    pub(crate) fn fits(&self, instance: &Instance, ty: usize, server: usize) -> bool {
        let free = &self.free[server * instance.kinds..(server + 1) * instance.kinds];
        instance.row(ty).iter().zip(free).all(|(a, f)| a <= f)
    }

    /// True when a task of type `ty` fits once one of type `other` has left `server`.
    pub(crate) fn fits_without(
        &self,
        instance: &Instance,
        ty: usize,
        server: usize,
        other: usize,
    ) -> bool {
        let free = &self.free[server * instance.kinds..(server + 1) * instance.kinds];
        let both = instance.row(ty).iter().zip(instance.row(other));
        both.zip(free).all(|((a, leaving), f)| *a <= f + leaving)
    }

    /// Puts a task on a server that fits, by option `option`.
    pub(crate) fn put(&mut self, instance: &Instance, task: usize, server: u32, option: usize) {
        debug_assert!(self.server[task] == NONE);
        self.work += 1;
        let opt = &instance.opts[option];
        self.server[task] = server;
        self.option[task] = narrow(option);
        self.untried += u64::from(opt.untried);
        self.lin += opt.lin;
        self.s2 += opt.s2;
        let s = server as usize;
        let head = self.head[s];
        (self.next[task], self.prev[task]) = (head, NONE);
        if head != NONE {
            self.prev[head as usize] = narrow(task);
        }
        self.head[s] = narrow(task);
        self.shift_free::<true>(instance, instance.task_type[task] as usize, s);
    }

    /// Takes a task off its server.
    pub(crate) fn take(&mut self, instance: &Instance, task: usize) {
        let server = self.server[task] as usize;
        let opt = &instance.opts[self.option[task] as usize];
        self.untried -= u64::from(opt.untried);
        self.lin -= opt.lin;
        self.s2 -= opt.s2;
        let (next, prev) = (self.next[task], self.prev[task]);
        if prev == NONE {
            self.head[server] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
        (self.server[task], self.option[task]) = (NONE, NONE);
        self.shift_free::<false>(instance, instance.task_type[task] as usize, server);
        self.heat(server);
    }

    /// Takes what a type requests from a server (`PUT`), or gives it back.
    fn shift_free<const PUT: bool>(&mut self, instance: &Instance, ty: usize, server: usize) {
        let kinds = instance.kinds;
        let free = &mut self.free[server * kinds..(server + 1) * kinds];
        let mut at = server;
        for (f, a) in free.iter_mut().zip(instance.row(ty)) {
            let change = if PUT { -a } else { *a };
            *f += change;
            self.columns[at] += change;
            at += self.padded;
        }
        self.note_free(server);
    }

    /// Brings up to date what the tree or the peaks know of a server.
    fn note_free(&mut self, server: usize) {
        let kinds = self.total_free.len();
        if self.tree.is_used() {
            self.tree.update(server, &self.free[server * kinds..(server + 1) * kinds]);
        }
        if self.peaks.is_empty() {
            return;
        }
        let first = server - server % LANES;
        let peaks = &mut self.peaks[server / LANES * kinds..][..kinds];
        let columns = self.columns.chunks_exact(self.padded);
        for (peak, column) in peaks.iter_mut().zip(columns) {
            *peak = column[first..first + LANES].iter().copied().fold(-1, i32::max);
        }
    }

    fn heat(&mut self, server: usize) {
        let server = narrow(server);
        if self.tree.is_used() && !self.hot.contains(&server) {
            if self.hot.len() == HOT_SERVERS_MAX {
                self.hot.remove(0);
            }
            self.hot.push(server);
        }
    }

    /// A job is possible, and its whole request within what jobs placed have left.
    pub(crate) fn may_fit(&self, instance: &Instance, job: usize) -> bool {
        let need = instance.job_row(job).iter();
        instance.possible[job] && need.zip(&self.total_free).all(|(a, f)| a <= f)
    }

    /// Moves a job whose tasks are all placed (or all not) to its part of the queue.
    pub(crate) fn mark(&mut self, instance: &Instance, job: usize, placed: bool) {
        debug_assert!(self.is_placed(job) != placed);
        let to = if placed { self.placed } else { self.placed - 1 };
        let from = self.queue_at[job] as usize;
        let other = self.queue[to];
        self.queue.swap(from, to);
        self.queue_at[job] = narrow(to);
        self.queue_at[other as usize] = narrow(from);
        let sign = if placed { -1 } else { 1 };
        self.placed = if placed { self.placed + 1 } else { self.placed - 1 };
        for (t, a) in self.total_free.iter_mut().zip(instance.job_row(job)) {
            *t += sign * a;
        }
    }

    /// Takes all tasks of a placed job off.
    pub(crate) fn remove_job(&mut self, instance: &Instance, job: usize) {
        for task in instance.job_tasks(job) {
            self.take(instance, task);
        }
        self.mark(instance, job, false);
    }

    /// Places all tasks of a pending job by the guide's prices, or leaves everything as it was.
    pub(crate) fn insert_job(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        job: usize,
        taste: Taste,
    ) -> bool {
        self.work += 1;
        if !self.may_fit(instance, job) {
            return false;
        }
        let range = instance.job_tasks(job);
        let spread = instance.spread[job];
        let mut done = range.start;
        let mut before = None;
        for at in range.clone() {
            let task = instance.insert_order[at] as usize;
            let ty = instance.task_type[task] as usize;
            let found = match before.filter(|(last, _, _)| *last == ty) {
                // Filling a server only makes it a better choice for the next task of its type.
                Some((_, server, option))
                    if !spread && self.fits(instance, ty, server as usize) =>
                {
                    Some((server, option))
                }
                Some((_, server, _)) => self.choose_next(instance, guide, (ty, server), taste),
                None => self.choose(instance, guide, ty, taste),
            };
            let Some((server, option)) = found else { break };
            before = Some((ty, server, option));
            self.put(instance, task, server, option);
            if spread {
                self.shut(server as usize, -SHUT);
            }
            done = at + 1;
        }
        if spread {
            for at in range.start..done {
                let server = self.server[instance.insert_order[at] as usize];
                self.shut(server as usize, SHUT);
            }
        }
        if done < range.end {
            for at in range.start..done {
                self.take(instance, instance.insert_order[at] as usize);
            }
            return false;
        }
        self.mark(instance, job, true);
        true
    }

    /// Makes a server look full (`-SHUT`) while the rest of a spread job is placed, and open again.
    pub(super) fn shut(&mut self, server: usize, by: i32) {
        let kinds = self.total_free.len();
        self.free[server * kinds] += by;
        self.columns[server] += by;
        self.note_free(server);
    }

    /// The best server for one task of type `ty`, and the option that it uses there.
    pub(crate) fn choose(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        ty: usize,
        taste: Taste,
    ) -> Option<(u32, usize)> {
        if guide.ranks.are_listed() {
            return self.choose_by_rank(instance, guide, ty, taste);
        }
        if guide.dense.is_empty() {
            return self.choose_by_tree(instance, guide, ty, taste);
        }
        self.work += (instance.servers / 16 + 2) as u64;
        let request = instance.row(ty);
        let value = &guide.dense[ty * self.padded..(ty + 1) * self.padded];
        let price = (guide.rest_f32.as_slice(), taste.tight);
        if self.peaks.is_empty() {
            self.scores.scan(&self.columns, request, value, price);
        } else {
            self.scores.scan_open((&self.columns, &self.peaks), request, value, price);
        }
        self.best_scored(instance, ty)
    }

    /// The next best server when `last`, chosen for the same type before, has no room for more,
    /// while nothing but tasks on `last` has changed.
    fn choose_next(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        (ty, last): (usize, u32),
        taste: Taste,
    ) -> Option<(u32, usize)> {
        if guide.dense.is_empty() {
            return self.choose(instance, guide, ty, taste);
        }
        self.work += (instance.servers / 64 + 1) as u64;
        self.scores.leave_out(last as usize);
        self.best_scored(instance, ty)
    }

    fn best_scored(&self, instance: &Instance, ty: usize) -> Option<(u32, usize)> {
        let server = self.scores.best()?;
        Some((narrow(server), instance.dense_option[ty * instance.servers + server] as usize))
    }

    /// The best of the edges one by one, until the others are worth less wherever they fit.
    fn choose_by_rank(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        ty: usize,
        taste: Taste,
    ) -> Option<(u32, usize)> {
        let (edges, request) = (guide.ranks.of(ty), instance.row(ty));
        let rest = (guide.rest_f32.as_slice(), taste.tight);
        let (looks, found) = match instance.kinds {
            1 => best_edge::<1>(edges, request, &self.free, rest),
            2 => best_edge::<2>(edges, request, &self.free, rest),
            3 => best_edge::<3>(edges, request, &self.free, rest),
            4 => best_edge::<4>(edges, request, &self.free, rest),
            _ => best_edge::<0>(edges, request, &self.free, rest),
        };
        self.work += (looks / 8 + 1) as u64;
        found.map(|edge| (edge.server, edge.option as usize))
    }

    fn choose_by_tree(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        ty: usize,
        taste: Taste,
    ) -> Option<(u32, usize)> {
        let mut best = f64::NEG_INFINITY;
        let mut found = None;
        for at in instance.type_opts(ty) {
            let option = guide.option_order[at] as usize;
            self.work += 1;
            if guide.reduced[option] <= best {
                break;
            }
            let Some((server, left)) = self.choose_in(instance, guide, (ty, option), taste) else {
                continue;
            };
            let score = guide.reduced[option] - f64::from(taste.tight * left);
            if score > best {
                best = score;
                found = Some((narrow(server), option));
            }
        }
        let (server, option) = found?;
        if !instance.merged {
            return Some((server, option));
        }
        // In a merged zone the server may have an edge of its own.
        Some((server, instance.option_on(ty, server).unwrap_or(option)))
    }

    /// A server of one option, with the price of its leftover: the best of a window and of the
    /// servers touched lately, else the first that the tree finds.
    fn choose_in(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        (ty, option): (usize, usize),
        taste: Taste,
    ) -> Option<(usize, f32)> {
        let request = instance.row(ty);
        let opt = &instance.opts[option];
        let (lo, hi) = (opt.lo as usize, opt.hi as usize);
        let scan = |range| scan_range(&self.columns, self.padded, range, request, &guide.rest_f32);
        if hi - lo <= WINDOW_SERVERS {
            self.work += ((hi - lo) / 16 + 1) as u64;
            return scan((lo, hi));
        }
        self.work += 8;
        let zone = opt.zone as usize;
        let start = match taste.window {
            Some(at) => lo + at as usize % (hi - lo),
            None => (self.frontier[zone] as usize).clamp(lo, hi - 1),
        };
        let mut best = scan((start, (start + WINDOW_SERVERS).min(hi)));
        for s in self.hot.iter().map(|s| *s as usize).filter(|s| (lo..hi).contains(s)) {
            let found = scan((s, s + 1));
            let cheaper = |left: f32| best.is_none_or(|(_, b)| left < b);
            if found.is_some_and(|(_, left)| cheaper(left)) {
                best = found;
            }
        }
        if best.is_some() {
            return best;
        }
        self.work += 16;
        let first = self.tree.first_fit(start, hi, request);
        let server = first.or_else(|| self.tree.first_fit(lo, start, request))?;
        if taste.window.is_none() && server >= start {
            // The window is full for this size: slide on, but keep its newest half in sight.
            let slid = (start + WINDOW_SERVERS / 4).min(server);
            self.frontier[zone] = narrow(slid);
        }
        scan((server, server + 1))
    }

    /// Rebuilds a state from servers by task; jobs that do not fit as given stay pending.
    pub(crate) fn adopt(&mut self, instance: &Instance, server: &[u32]) {
        for job in 0..instance.jobs() {
            let range = instance.job_tasks(job);
            let mut complete = instance.possible[job];
            let mut done = range.start;
            for task in range.clone() {
                let ty = instance.task_type[task] as usize;
                let at = server[task];
                let option = if at == NONE { None } else { instance.option_on(ty, at) };
                let twice = instance.spread[job] && server[range.start..task].contains(&at);
                match option {
                    Some(option) if !twice && self.fits(instance, ty, at as usize) => {
                        self.put(instance, task, at, option);
                        done = task + 1;
                    }
                    _ => {
                        complete = false;
                        break;
                    }
                }
            }
            if complete {
                self.mark(instance, job, true);
            } else {
                (range.start..done).for_each(|task| self.take(instance, task));
            }
        }
    }
}
