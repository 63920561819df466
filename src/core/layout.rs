// SPDX-License-Identifier: GPL-3.0-or-later
//! Cores, sockets and hardware threads: what a request takes of a node, counted as Slurm
//! counts it.
//!
//! Slurm gives whole cores to jobs. How many follows from the CPUs that a job may use of
//! each core ([`CoreAsk::cpus_per_core`]); whether they are there may hang on how the free
//! ones lie on the sockets ([`tasks_on`]). Source: `_allocate_sc` and
//! `_can_job_run_on_node` of cons_tres, `job_resources_get_node_cpu_cnt`.

use serde::{Deserialize, Serialize};

/// Most sockets of a node that are told apart; a node with more counts as one socket.
pub const SOCKETS_MAX: usize = 8;

/// Counts of cores by socket.
pub type BySocket = [u16; SOCKETS_MAX];

/// Whether all counts are zero, so that recordings leave them out.
#[must_use]
pub fn is_zero(cores: &BySocket) -> bool {
    *cores == BySocket::default()
}

/// Cores of a node. All zero where nothing is known: then its CPUs are cores on one socket.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(default)]
pub struct NodeCores {
    /// CPUs of a core that jobs are given: 1 where CPUs are cores, else its threads.
    pub cpus_per_core: u16,
    /// Sockets.
    pub sockets: u16,
    /// Cores on all sockets.
    pub cores: u32,
    /// Cores that are kept for the system, on the last of each socket.
    pub spec_cores: u32,
}

impl NodeCores {
    /// Whether nothing is known of the cores, so that recordings leave them out.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// CPUs of a core that jobs are given, at least 1.
    #[must_use]
    pub fn per_core(&self) -> u64 {
        u64::from(self.cpus_per_core.max(1))
    }

    /// Sockets that are told apart.
    fn counted_sockets(&self) -> usize {
        let sockets = usize::from(self.sockets);
        if (1..=SOCKETS_MAX).contains(&sockets) { sockets } else { 1 }
    }

    fn per_socket(&self) -> u64 {
        u64::from(self.cores) / self.counted_sockets() as u64
    }

    /// Cores of a socket that jobs may have beside `spec` ones of the node that the system keeps:
    /// one of each socket in turn, from the last socket on.
    fn on_socket(&self, at: usize, spec: u64) -> u64 {
        let sockets = self.counted_sockets();
        let behind = sockets.saturating_sub(1 + at) as u64;
        let kept = spec.saturating_sub(behind).div_ceil(sockets as u64);
        self.per_socket().saturating_sub(kept)
    }

    /// Free cores by socket: all but `used`, `excluded` and those that the system or the job
    /// keeps for the system. `used_cpus` are in use on the whole node: where the counts by
    /// socket say less, nothing is known of the sockets.
    #[must_use]
    pub fn free(
        &self,
        ask: &CoreAsk,
        used_cpus: u64,
        used: &BySocket,
        excluded: &BySocket,
    ) -> FreeCores {
        let spec = ask.layout.spec_on(self);
        let sockets = self.counted_sockets();
        let used_cores = used_cpus.div_ceil(self.per_core());
        let count = |cores: &BySocket| cores.iter().map(|&n| u64::from(n)).sum::<u64>();
        let none = [0; SOCKETS_MAX];
        let mut free = FreeCores { cores: none, unused: none, sockets, per_socket: 0 };
        if sockets == 1 || count(used) < used_cores {
            let gone = used_cores.max(count(used)).max(count(excluded)) + spec;
            free.sockets = 1;
            free.per_socket = u64::from(self.cores);
            free.cores[0] = free.per_socket.saturating_sub(gone);
            free.unused[0] = free.per_socket.saturating_sub(spec);
            return free;
        }
        free.per_socket = self.per_socket();
        let slots = free.cores.iter_mut().zip(&mut free.unused).enumerate();
        for (at, (slot, unused)) in slots.take(sockets) {
            let taken = |cores: &BySocket| cores.get(at).map_or(0, |&n| u64::from(n));
            *unused = self.on_socket(at, spec);
            *slot = unused.saturating_sub(taken(used).max(taken(excluded)));
        }
        free
    }
}

/// Free cores of a node by socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeCores {
    cores: [u64; SOCKETS_MAX],
    /// Cores of each socket that are free without other jobs.
    unused: [u64; SOCKETS_MAX],
    sockets: usize,
    per_socket: u64,
}

/// Options of a request that decide how many cores it takes, and where. 0: not given.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(default)]
pub struct Layout {
    /// `--threads-per-core`, and 1 by `--hint=nomultithread`, `compute_bound` and
    /// `memory_bound`.
    pub threads_per_core: u16,
    /// `--ntasks-per-core`.
    pub ntasks_per_core: u16,
    /// `--ntasks-per-socket`.
    pub ntasks_per_socket: u16,
    /// `--sockets-per-node`: least.
    pub sockets_per_node: u16,
    /// `--cores-per-socket`: fewest free cores of each socket.
    pub cores_per_socket: u16,
    /// `--core-spec`, `--thread-spec`: cores kept for the system on each node.
    pub core_spec: u16,
    /// [`core_spec`](Self::core_spec) counts threads.
    pub spec_is_threads: bool,
    /// `CR_ONE_TASK_PER_CORE`.
    pub one_task_per_core: bool,
    /// Whole cores are charged, `CR_CORE` or `CR_SOCKET`.
    pub whole_cores: bool,
    /// Whole sockets are given, `CR_SOCKET`.
    pub whole_sockets: bool,
}

impl Layout {
    /// Whether no option is given, so that recordings leave the layout out.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Options of the user that decide about cores.
    pub fn options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (self.threads_per_core > 0, "--threads-per-core"),
            (self.ntasks_per_core > 0, "--ntasks-per-core"),
            (self.ntasks_per_socket > 0, "--ntasks-per-socket"),
            (self.sockets_per_node > 1, "--sockets-per-node"),
            (self.cores_per_socket > 1, "--cores-per-socket"),
            (self.core_spec > 0 && !self.spec_is_threads, "--core-spec"),
            (self.core_spec > 0 && self.spec_is_threads, "--thread-spec"),
        ];
        given.into_iter().filter(|(given, _)| *given).map(|(_, option)| option)
    }

    /// Whether the layout depends on how free cores lie on the sockets.
    fn is_by_socket(&self) -> bool {
        self.ntasks_per_socket > 0
            || self.sockets_per_node > 1
            || self.cores_per_socket > 1
            || self.core_spec > 0
            || self.whole_sockets
    }

    /// Cores that the job keeps for the system instead of the node's own ones.
    fn spec_of(&self, node: &NodeCores) -> Option<u64> {
        let threads_are_cores = node.per_core() == 1;
        let counts = self.core_spec > 0 && (!self.spec_is_threads || threads_are_cores);
        counts.then_some(u64::from(self.core_spec))
    }

    /// Cores of a node that the system keeps from the job.
    fn spec_on(&self, node: &NodeCores) -> u64 {
        self.spec_of(node).unwrap_or(u64::from(node.spec_cores))
    }
}

/// A request for one node, as far as it is about cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoreAsk {
    /// Tasks on the node.
    pub tasks: u64,
    /// CPUs of a task; 0 if not given.
    pub cpus_per_task: u32,
    /// Fewest CPUs on the node, as threads of cores.
    pub cpus: u64,
    /// `--mincpus`.
    pub pn_min_cpus: u32,
    /// `--ntasks-per-node`; 0 if not given.
    pub ntasks_per_node: u32,
    /// `--overcommit`.
    pub overcommit: bool,
    /// Whether the job takes whole nodes.
    pub whole: bool,
    /// Whether the job asks for GRES.
    pub gres: bool,
    /// Whether the job asks for CPUs by GRES.
    pub cpus_per_gres: bool,
    /// The options.
    pub layout: Layout,
}

/// Tasks and CPUs of a job on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnNode {
    /// Most tasks, where there may not be more tasks than CPUs.
    pub tasks: u64,
    /// CPUs that the job may use, as threads of cores.
    pub cpus: u64,
}

impl CoreAsk {
    /// CPUs that the job may use of each core; `None` if it may not use this node at all.
    #[must_use]
    pub fn cpus_per_core(&self, node: &NodeCores) -> Option<u64> {
        let per_core = node.per_core();
        let layout = &self.layout;
        let threads = u64::from(layout.threads_per_core);
        if threads > per_core && layout.ntasks_per_core == 0 {
            return None;
        }
        if layout.one_task_per_core && self.cpus_per_gres {
            return Some(per_core);
        }
        let by_tasks = u64::from(layout.ntasks_per_core) * u64::from(self.cpus_per_task.max(1));
        let given = [by_tasks, threads].into_iter().filter(|most| *most > 0);
        Some(given.fold(per_core, u64::min))
    }

    /// Whether each task begins on a core of its own and takes several cores.
    fn has_own_cores(&self, per_core: u64) -> bool {
        self.layout.ntasks_per_core == 1 && u64::from(self.cpus_per_task) > per_core
    }

    /// Fewest cores that the job takes, whatever else is free.
    fn cores(&self, per_core: u64) -> u64 {
        let least = self.cpus.div_ceil(per_core);
        if self.overcommit || !self.has_own_cores(per_core) {
            return least;
        }
        let each = u64::from(self.cpus_per_task).div_ceil(per_core);
        least.max(self.tasks.saturating_mul(each))
    }

    /// CPUs that other jobs lose to the job, in whole cores or sockets; `None` if the node can
    /// never hold it.
    #[must_use]
    pub fn cpus_taken(&self, node: &NodeCores) -> Option<u64> {
        let cores = self.cores(self.cpus_per_core(node)?);
        let mut given = cores;
        if self.layout.whole_sockets && node.cores > 0 {
            let spec = self.layout.spec_on(node);
            let on = (0..node.counted_sockets()).map(|at| node.on_socket(at, spec));
            let mut sums = on.scan(0, |sum, on| {
                *sum += on;
                Some(*sum)
            });
            let held = sums.find(|sum| *sum >= cores);
            let beyond = || cores.checked_next_multiple_of(node.per_socket().max(1));
            given = held.or_else(beyond).unwrap_or(u64::MAX);
        }
        Some(given.saturating_mul(node.per_core()))
    }

    /// CPUs for which a request of memory by CPU is charged.
    #[must_use]
    pub fn cpus_charged(&self, node: &NodeCores) -> u64 {
        let per_core = node.per_core();
        let threads = u64::from(self.layout.threads_per_core);
        let charged = if threads > 0 { per_core.min(threads) } else { per_core };
        if self.whole && node.cores > 0 {
            let spec = self.layout.spec_on(node);
            return u64::from(node.cores).saturating_sub(spec).saturating_mul(charged);
        }
        if !self.layout.whole_cores {
            return self.cpus;
        }
        let cores = self.cpus_taken(node).unwrap_or(0) / per_core;
        self.cpus.max(cores.saturating_mul(charged))
    }

    /// Whether the request depends on how a node's free cores lie on its sockets.
    #[must_use]
    pub fn is_by_socket(&self, node: &NodeCores) -> bool {
        node.cores > 0 && self.layout.is_by_socket()
    }

    /// Whether the node's free cores hold the request.
    #[must_use]
    pub fn fits(&self, node: &NodeCores, free: &FreeCores) -> bool {
        tasks_on(node, free, self).is_some_and(|on| on.cpus >= self.cpus)
    }
}

/// Most tasks and CPUs of a job that `free` cores of a node hold; `None` if Slurm would not use the
/// node for the job.
#[must_use]
pub fn tasks_on(node: &NodeCores, free: &FreeCores, ask: &CoreAsk) -> Option<OnNode> {
    let per_core = ask.cpus_per_core(node)?;
    let cores = usable(node, free, ask)?;
    let sum: u64 = cores.iter().sum();
    let pn_min_cpus = u64::from(ask.pn_min_cpus);
    if sum == 0 || sum * per_core < pn_min_cpus {
        return None;
    }
    let each = u64::from(ask.cpus_per_task.max(1));
    let per_socket = u64::from(ask.layout.ntasks_per_socket);
    let tasks_of = |cores: &u64| match per_socket {
        0 => cores * per_core,
        most => most.min(cores * per_core),
    };
    let mut tasks: u64 = cores.iter().map(tasks_of).sum();
    let per_node = u64::from(ask.ntasks_per_node);
    if per_node > 0 && !ask.whole && !ask.cpus_per_gres {
        tasks = tasks.min(per_node);
    }
    let mut cpus = sum * per_core;
    if !ask.gres {
        let own_cores = ask.has_own_cores(per_core);
        let held = if own_cores { sum / each.div_ceil(per_core) } else { cpus / each };
        let most = if own_cores { held } else { tasks.min(held) };
        cpus = most * each;
        if !own_cores {
            tasks = most;
        }
    }
    if (per_node > tasks && !ask.overcommit) || cpus < pn_min_cpus {
        return None;
    }
    cpus = limited(ask, per_core, &cores, free.per_socket, cpus);
    cpus -= spec_threads(node, ask, cpus);
    let least = match (per_node, ask.overcommit) {
        (0, _) => 1,
        (tasks, _) => tasks,
    };
    (cpus >= least * each).then_some(OnNode { tasks: cpus / each, cpus })
}

/// Cores by socket that the job may use: those of sockets with enough free ones. A socket is in use
/// where a job has cores of it; cores kept for the system do not count.
fn usable(node: &NodeCores, free: &FreeCores, ask: &CoreAsk) -> Option<[u64; SOCKETS_MAX]> {
    let layout = &ask.layout;
    let per_socket = free.per_socket;
    if u64::from(layout.ntasks_per_socket) > node.per_core() * per_socket {
        return None;
    }
    let least = u64::from(layout.cores_per_socket).max(1);
    let mut cores = free.cores;
    let mut sockets = 0;
    for (count, unused) in cores.iter_mut().zip(free.unused) {
        if *count < least || (layout.whole_sockets && *count < unused) {
            *count = 0;
        } else {
            sockets += 1;
        }
    }
    (sockets >= u64::from(layout.sockets_per_node.max(1))).then_some(cores)
}

/// CPUs, at most `cpus`, of the cores that `--ntasks-per-socket` leaves.
fn limited(
    ask: &CoreAsk,
    per_core: u64,
    cores: &[u64; SOCKETS_MAX],
    per_socket: u64,
    cpus: u64,
) -> u64 {
    let each = u64::from(ask.cpus_per_task.max(1));
    let most = match u64::from(ask.layout.ntasks_per_socket) {
        0 => per_socket,
        tasks => (tasks * each).div_ceil(per_core).max(1),
    };
    let cores: u64 = cores.iter().map(|count| most.min(*count)).sum();
    if ask.has_own_cores(per_core) {
        let task = each.div_ceil(per_core);
        let begun = ((cores % task) * per_core).min(each);
        return cpus.min(cores / task * each + begun);
    }
    cpus.min(cores * per_core)
}

/// Threads that `--thread-spec` takes of the job's own CPUs.
fn spec_threads(node: &NodeCores, ask: &CoreAsk, cpus: u64) -> u64 {
    let layout = &ask.layout;
    let all = u64::from(node.cores) * node.per_core();
    let threads = u64::from(layout.core_spec);
    let counts = layout.spec_is_threads && node.per_core() > 1;
    if counts && cpus + threads > all { threads.min(cpus) } else { 0 }
}

#[cfg(test)]
mod tests;
