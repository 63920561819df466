// SPDX-License-Identifier: GPL-3.0-or-later
//! Edges one by one, where types may run on few of many servers that all differ: by server, and by
//! type from the best one down.
//!
//! Looking at all servers of a cluster for every task, or at all open tasks for every server, is
//! mostly looking at what has no edge there.

use super::guide::to_f32;
use super::instance::{Instance, narrow};
use super::rng::Stream;
use rayon::prelude::*;

/// Edges by server; empty where a type has edges to many servers, or to whole classes of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edges {
    start: Vec<u32>,
    /// (type, option), by ascending type.
    of_server: Vec<(u32, u32)>,
}

impl Edges {
    pub(crate) fn new(instance: &Instance) -> Edges {
        let mut start = vec![0; instance.servers + 1];
        let servers_of = |option: usize| {
            let opt = &instance.opts[option];
            opt.lo as usize..opt.hi as usize
        };
        for option in 0..instance.opts.len() {
            servers_of(option).for_each(|server| start[server + 1] += 1);
        }
        for server in 0..instance.servers {
            start[server + 1] += start[server];
        }
        let mut next = start.clone();
        let mut of_server = vec![(0, 0); start[instance.servers] as usize];
        for ty in 0..instance.types {
            for option in instance.type_opts(ty) {
                for server in servers_of(option) {
                    of_server[next[server] as usize] = (narrow(ty), narrow(option));
                    next[server] += 1;
                }
            }
        }
        Edges { start, of_server }
    }

    pub(crate) fn are_listed(&self) -> bool {
        !self.start.is_empty()
    }

    /// (type, option) of those that may run on a server; none where edges are not listed.
    pub(crate) fn of(&self, server: usize) -> Option<&[(u32, u32)]> {
        let range = *self.start.get(server)? as usize..*self.start.get(server + 1)? as usize;
        self.of_server.get(range)
    }
}

/// An edge of a type at some prices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranked {
    /// Reduced value.
    pub(crate) value: f32,
    pub(crate) server: u32,
    pub(crate) option: u32,
}

/// Edges of each type by descending reduced value; empty where the instance lists none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranks {
    start: Vec<u32>,
    edges: Vec<Ranked>,
}

impl Ranks {
    pub(crate) fn new(instance: &Instance, reduced: &[f64]) -> Ranks {
        if !instance.edges.are_listed() {
            return Ranks::default();
        }
        let row = |ty: usize| {
            let options = instance.type_opts(ty).flat_map(|option| {
                let opt = &instance.opts[option];
                let value = to_f32(reduced[option]);
                (opt.lo..opt.hi).map(move |server| Ranked { value, server, option: narrow(option) })
            });
            let mut row: Vec<Ranked> = options.collect();
            row.sort_unstable_by(|a, b| b.value.total_cmp(&a.value).then(a.server.cmp(&b.server)));
            row
        };
        let rows: Vec<Vec<Ranked>> = (0..instance.types).into_par_iter().map(row).collect();
        let mut ranks = Ranks { start: vec![0], edges: Vec::new() };
        for row in rows {
            ranks.edges.extend(row);
            ranks.start.push(narrow(ranks.edges.len()));
        }
        ranks
    }

    pub(crate) fn are_listed(&self) -> bool {
        !self.start.is_empty()
    }

    /// One of a type's edges, by chance; none where it has none.
    pub(crate) fn draw(&self, ty: usize, rng: &mut Stream) -> Option<Ranked> {
        let edges = self.of(ty);
        (!edges.is_empty()).then(|| edges[rng.below(edges.len())])
    }

    pub(crate) fn of(&self, ty: usize) -> &[Ranked] {
        &self.edges[self.start[ty] as usize..self.start[ty + 1] as usize]
    }
}
