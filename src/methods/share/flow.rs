// SPDX-License-Identifier: GPL-3.0-or-later
//! A maximum flow from groups of like items to the nodes that hold their data.
//!
//! # Source
//! E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
//! estimation", Soviet Math. Doklady 11, 1970; as placement: M. Isard et al., "Quincy", SOSP 2009.

use std::collections::VecDeque;

/// An arc of the network. The arc at index `a ^ 1` is its reverse.
#[derive(Debug, Clone, Copy)]
struct Arc {
    to: usize,
    room: u64,
}

/// Vertices are the groups, then the nodes, then source and sink.
struct Network {
    arcs: Vec<Arc>,
    /// Arcs that leave each vertex.
    leaving: Vec<Vec<usize>>,
    /// Number of arcs from the source to each vertex; none where it cannot be reached.
    level: Vec<Option<usize>>,
    /// First arc of each vertex that may still lead to the sink.
    next: Vec<usize>,
}

/// Sends as much of `stock` (by group) as `room` (by node) takes along `edges` (nodes of each
/// group); returns the amounts by group, in the order of its edges.
pub(super) fn maximum(stock: &[u64], room: &[u64], edges: &[Vec<usize>]) -> Vec<Vec<u64>> {
    let (source, sink) = (stock.len() + room.len(), stock.len() + room.len() + 1);
    let mut network = Network {
        arcs: Vec::new(),
        leaving: vec![Vec::new(); sink + 1],
        level: Vec::new(),
        next: Vec::new(),
    };
    let mut of_group = Vec::with_capacity(stock.len());
    for (group, nodes) in edges.iter().enumerate() {
        network.join(source, group, stock[group]);
        let arcs = nodes.iter().map(|node| network.join(group, stock.len() + node, stock[group]));
        of_group.push(arcs.collect::<Vec<usize>>());
    }
    for (node, &room) in room.iter().enumerate() {
        network.join(stock.len() + node, sink, room);
    }
    while network.measure(source, sink) {
        network.fill(source, sink);
    }
    // What has passed an arc is what its opposite can take back.
    let passed = |arcs: &Vec<usize>| arcs.iter().map(|&arc| network.arcs[arc ^ 1].room).collect();
    of_group.iter().map(passed).collect()
}

impl Network {
    fn join(&mut self, from: usize, to: usize, room: u64) -> usize {
        let arc = self.arcs.len();
        self.arcs.push(Arc { to, room });
        self.arcs.push(Arc { to: from, room: 0 });
        self.leaving[from].push(arc);
        self.leaving[to].push(arc + 1);
        arc
    }

    /// Finds the distance of each vertex; returns whether the sink can be reached.
    fn measure(&mut self, source: usize, sink: usize) -> bool {
        self.level = vec![None; self.leaving.len()];
        self.next = vec![0; self.leaving.len()];
        self.level[source] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(at) = queue.pop_front() {
            let further = self.level[at].map(|level| level + 1);
            for &arc in &self.leaving[at] {
                let Arc { to, room } = self.arcs[arc];
                if room > 0 && self.level[to].is_none() {
                    self.level[to] = further;
                    queue.push_back(to);
                }
            }
        }
        self.level[sink].is_some()
    }

    /// Fills all shortest paths.
    fn fill(&mut self, source: usize, sink: usize) {
        let mut path: Vec<usize> = Vec::new();
        loop {
            let at = path.last().map_or(source, |&arc| self.arcs[arc].to);
            if at == sink {
                let rooms = path.iter().map(|&arc| self.arcs[arc].room);
                let amount = rooms.min().unwrap_or(0);
                for &arc in &path {
                    self.arcs[arc].room -= amount;
                    self.arcs[arc ^ 1].room += amount;
                }
                let full = path.iter().position(|&arc| self.arcs[arc].room == 0);
                path.truncate(full.unwrap_or(0));
                continue;
            }
            match self.leaving[at].get(self.next[at]) {
                Some(&arc) if self.leads_on(at, arc) => path.push(arc),
                Some(_) => self.next[at] += 1,
                None => {
                    // A dead end: the arc that led here is passed over.
                    let Some(arc) = path.pop() else { return };
                    self.next[self.arcs[arc ^ 1].to] += 1;
                }
            }
        }
    }

    fn leads_on(&self, at: usize, arc: usize) -> bool {
        let Arc { to, room } = self.arcs[arc];
        room > 0 && self.level[to].is_some_and(|to| self.level[at].is_some_and(|at| to == at + 1))
    }
}
