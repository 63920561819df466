// SPDX-License-Identifier: GPL-3.0-or-later
//! The decision on one page, with nothing but std: jobs that ask for CPUs, memory and GPUs of nodes
//! without known cores, on a flat network or on leaf switches below one switch. The steps are those
//! of `docs/methods.md`, 5 and 6: nodes with room, the lightest classes, few leaves, the least
//! score, preferred nodes where they are worth it, and never worse than stock's own choice.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// CPUs, MiB and GPUs.
pub type Amounts = [u64; 3];
/// Difference below which scores are equal.
const TIE: f64 = 1e-12;
/// Mean score by which equal nodes may be worse than others.
const GANG: f64 = 0.05;
/// Most sets of equally good leaves whose nodes are compared.
const PLANS: usize = 4;

#[derive(Debug, Clone, Default)]
pub struct Node {
    pub total: Amounts,
    pub used: Amounts,
    pub weight: u32,
    pub last_end_s: u64,
    pub leaf: usize,
    pub offered: bool,
}

/// A job of `nodes` nodes, each of which gives `each`.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    pub nodes: usize,
    pub each: Amounts,
    pub whole: bool,
    pub now_s: u64,
    pub limit_s: u64,
    /// Sets of preferred nodes, the best first, each with its worth.
    pub sets: Vec<(Vec<usize>, f64)>,
    /// Worth of nodes outside all sets.
    pub other: f64,
}

#[derive(Debug, Clone, Default)]
pub struct Site {
    pub nodes: Vec<Node>,
    /// Leaf switches; 0: the network is flat.
    pub leaves: usize,
    /// Number of pending jobs that lack each amount.
    pub lacks: Amounts,
    pub weight_cost: Option<f64>,
    pub leaf_cost: Option<f64>,
}

/// Nodes among which a choice is made, and whether heavier nodes of a set come first.
#[derive(Clone, Copy, Default)]
pub struct Pool<'a> {
    set: Option<&'a [usize]>,
    any_weight: bool,
}

/// Chosen nodes, and the number of ordered pairs of idle nodes that no longer share a leaf.
type Choice = Option<(Vec<usize>, u64)>;
/// Leaves, and the number of nodes to take of each.
type Plan = Vec<(usize, usize)>;
/// Whether a node is of a lighter class.
type Lighter<'a> = &'a dyn Fn(usize) -> bool;
/// Weights from the heaviest down, leaves, CPUs.
type Costs = (Vec<u32>, usize, u64);

impl Site {
    /// The nodes that the job gets, ascending.
    pub fn decide(&self, ask: &Ask) -> Option<Vec<usize>> {
        for (set, worth) in &ask.sets {
            let within = |any_weight| Pool { set: Some(set), any_weight };
            let light = self.choose(ask, within(false));
            let is_heavier = light.is_none() && self.classes().len() > 1;
            let own = light.or_else(|| self.choose(ask, within(true)).filter(|_| is_heavier));
            let Some(own) = own else { continue };
            let best = self.choose(ask, Pool::default());
            let Some(best) = best.filter(|_| is_heavier || (self.leaves > 0 && own.0.len() > 1))
            else {
                return Some(own.0);
            };
            let inside = |node: &usize| ask.sets.iter().position(|(set, _)| set.contains(node));
            let of = |node: &usize| inside(node).map_or(ask.other, |at| ask.sets[at].1);
            let gain = worth - best.0.iter().map(of).fold(f64::INFINITY, f64::min);
            let more = self.on(&own.0).saturating_sub(self.on(&best.0));
            let breaks = more == 0 && (self.on(&own.0), own.1) > (self.on(&best.0), best.1);
            let cost = |times: usize, each: Option<f64>| match times {
                0 => 0.0,
                _ => each.map_or(f64::INFINITY, |each| each * times as f64),
            };
            let costs = cost(is_heavier.into(), self.weight_cost) + cost(more, self.leaf_cost);
            let is_free = !is_heavier && more == 0;
            if gain > costs || (is_free && !breaks) {
                return Some(own.0);
            }
        }
        self.choose(ask, Pool::default()).map(|(nodes, _)| nodes)
    }

    /// The choice among the nodes of a pool, no worse than stock's.
    pub fn choose(&self, ask: &Ask, pool: Pool<'_>) -> Choice {
        let (nodes, loss) = self.by_class(ask, pool)?;
        let stock = self.stock(ask, &self.with_room(ask))?;
        let (own, theirs) = (self.costs(ask, &nodes), self.costs(ask, &stock));
        let by_weight = pool.any_weight || own.0 <= theirs.0;
        let by_leaves = pool.set.is_some() || own.1 <= theirs.1;
        let is_within = by_weight && by_leaves && own.2 <= theirs.2;
        match (is_within, pool.set) {
            (true, _) => Some((nodes, loss)),
            (false, Some(_)) => None,
            (false, None) => Some((stock, 0)),
        }
    }

    fn costs(&self, ask: &Ask, nodes: &[usize]) -> Costs {
        let mut weights: Vec<u32> = nodes.iter().map(|&node| self.nodes[node].weight).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let cpus = if ask.whole { nodes.iter().map(|&n| self.nodes[n].total[0]).sum() } else { 0 };
        (weights, self.on(nodes), cpus)
    }

    /// Stock's own choice of nodes with room: the lightest, on the fewest leaves, else from the run
    /// of neighbours that suffices with the fewest CPUs.
    fn stock(&self, ask: &Ask, nodes: &[usize]) -> Option<Vec<usize>> {
        let gpus = |node: usize| if ask.each[2] == 0 { 0 } else { self.nodes[node].total[2] };
        let class =
            |node: usize| (self.nodes[node].weight, if ask.whole { 255 - gpus(node) } else { 0 });
        let mut order = nodes.to_vec();
        order.sort_by_key(|&node| (class(node), self.nodes[node].leaf, node));
        let last = class(*order.get(ask.nodes - 1)?);
        let mut taken: Vec<usize> = order.iter().copied().filter(|&n| class(n) < last).collect();
        let own: Vec<usize> = order.into_iter().filter(|&node| class(node) == last).collect();
        let cpus = |node: usize| match (ask.whole, ask.each[2]) {
            (true, 0) => self.nodes[node].total[0] / ask.each[0] * ask.each[0],
            _ => ask.each[0],
        };
        let is_same = |a: &usize, b: &usize| self.nodes[*a].leaf == self.nodes[*b].leaf;
        let near = |a: &usize, b: &usize| is_same(a, b) && (self.leaves > 0 || a + 1 == *b);
        let mut sets: Vec<Vec<usize>> = own.chunk_by(near).map(<[usize]>::to_vec).collect();
        if self.leaves > 0 {
            let held: Vec<usize> = taken.iter().map(|&node| self.nodes[node].leaf).collect();
            let is_held = |set: &Vec<usize>| held.contains(&self.nodes[set[0]].leaf);
            let (beside, others): (Vec<_>, Vec<_>) = sets.into_iter().partition(is_held);
            taken.extend(beside.concat().iter().take(ask.nodes - taken.len()));
            sets = others;
        }
        let sum = |set: &[usize]| set.iter().map(|&node| cpus(node)).sum::<u64>();
        while taken.len() < ask.nodes {
            let left = ask.nodes - taken.len();
            let cpus_left = (ask.nodes as u64 * ask.each[0]).saturating_sub(sum(&taken));
            let size = |set: &[usize]| if self.leaves > 0 { set.len() as u64 } else { sum(set) };
            let suffices = |set: &[usize]| set.len() >= left && sum(set) >= cpus_left;
            let mut best = 0;
            for at in 1..sets.len() {
                let (known, new) = (&sets[best], &sets[at]);
                // As in the original a run of more CPUs wins even over one that suffices.
                let may_win = self.leaves == 0 || !suffices(known);
                let is_better = match suffices(new) {
                    true => !suffices(known) || size(new) < size(known),
                    false => may_win && size(new) > size(known),
                };
                best = if is_better { at } else { best };
            }
            let mut set = sets.remove(best);
            if self.leaves == 0 && left == 1 {
                set.retain(|&node| cpus(node) >= cpus_left);
                set.sort_by_key(|&node| cpus(node));
            }
            taken.extend(set.into_iter().take(left));
        }
        taken.sort_unstable();
        Some(taken)
    }

    /// Number of leaves that the nodes are on.
    fn on(&self, nodes: &[usize]) -> usize {
        let leaves: BTreeSet<usize> = nodes.iter().map(|&node| self.nodes[node].leaf).collect();
        if self.leaves > 0 { leaves.len() } else { 0 }
    }

    fn classes(&self) -> BTreeSet<u32> {
        self.nodes.iter().map(|node| node.weight).collect()
    }

    fn is_idle(&self, node: usize) -> bool {
        self.nodes[node].used == [0; 3]
    }

    /// Idle candidates of a leaf.
    fn idle_on(&self, leaf: usize) -> u64 {
        let here = (0..self.nodes.len()).filter(|&node| self.nodes[node].leaf == leaf);
        here.filter(|&node| self.nodes[node].offered && self.is_idle(node)).count() as u64
    }

    /// The candidates with room for the request.
    fn with_room(&self, ask: &Ask) -> Vec<usize> {
        let fits = |&node: &usize| {
            let Node { total, used, offered, .. } = &self.nodes[node];
            let has = (0..3).all(|of| used[of] + ask.each[of] <= total[of]);
            *offered && has && (!ask.whole || self.is_idle(node))
        };
        (0..self.nodes.len()).filter(fits).collect()
    }

    /// The lightest nodes that hold the job: all of the lighter classes, and some of the last
    /// class.
    pub fn by_class(&self, ask: &Ask, pool: Pool<'_>) -> Choice {
        let classes = self.classes();
        for &class in &classes {
            let weight = |node: usize| self.nodes[node].weight;
            // Lighter ones outside the set come first, too.
            let here = |set: Option<&[usize]>, node: usize| {
                let in_set = set.is_none_or(|set| set.contains(&node));
                weight(node) < class + u32::from(in_set) && (in_set || !pool.any_weight)
            };
            let lighter = |node: usize| weight(node) < class;
            let split = |set| {
                let mut nodes = self.with_room(ask);
                nodes.retain(|&node| here(set, node));
                match (self.leaves, ask.nodes) {
                    (0, _) => self.flat(ask, nodes, &lighter),
                    (_, 1) => self.single(ask, &nodes),
                    _ => self.on_leaves(ask, &nodes, &lighter),
                }
            };
            if let Some(found) = split(pool.set) {
                return Some(found);
            }
            let is_last = classes.last() == Some(&class);
            if pool.set.is_some() && !pool.any_weight && !is_last && split(None).is_some() {
                return None;
            }
        }
        None
    }

    /// Chooses nodes of a flat network; whole nodes are the smallest, since a job is charged for
    /// all of each.
    fn flat(&self, ask: &Ask, mut nodes: Vec<usize>, lighter: Lighter<'_>) -> Choice {
        if ask.whole {
            let size = |node: usize| if lighter(node) { 0 } else { self.nodes[node].total[0] };
            let mut sizes: Vec<u64> = nodes.iter().map(|&node| size(node)).collect();
            sizes.sort_unstable();
            let most = *sizes.get(ask.nodes - 1)?;
            nodes.retain(|&node| size(node) <= most);
        }
        let is_forced = |&node: &usize| ask.nodes > 1 && lighter(node);
        let (mut chosen, rest): (Vec<usize>, Vec<usize>) = nodes.into_iter().partition(is_forced);
        let missing = ask.nodes.checked_sub(chosen.len())?;
        chosen.extend(self.least(ask, &rest, missing)?);
        chosen.sort_unstable();
        Some((chosen, 0))
    }

    /// Chooses one node: the kind by score, then the leaf of fewest candidates, then a busy node.
    fn single(&self, ask: &Ask, nodes: &[usize]) -> Choice {
        let first = *self.least(ask, nodes, 1)?.first()?;
        let harm = |node: usize| {
            let leaf = self.nodes[node].leaf;
            let beside = nodes.iter().filter(|&&other| self.nodes[other].leaf == leaf).count();
            (beside, self.is_idle(node), self.idle_on(leaf))
        };
        let alike = |node: &usize| self.nodes[*node].total == self.nodes[first].total;
        let alike: Vec<usize> = nodes.iter().copied().filter(alike).collect();
        let least = alike.iter().map(|&node| harm(node)).min()?;
        let alike: Vec<usize> = alike.into_iter().filter(|&node| harm(node) == least).collect();
        self.least(ask, &alike, 1).map(|nodes| (nodes, 0))
    }

    /// Chooses several nodes on the fewest leaves: one leaf that holds all, else the largest leaves
    /// whole and a part of the last, the one that parts the fewest idle nodes.
    fn on_leaves(&self, ask: &Ask, nodes: &[usize], lighter: Lighter<'_>) -> Choice {
        let leaf_of = |node: usize| self.nodes[node].leaf;
        let of = |leaf: usize, is_light: bool| -> Vec<usize> {
            let own = nodes.iter().copied().filter(|&n| leaf_of(n) == leaf);
            own.filter(|&node| lighter(node) == is_light).collect()
        };
        let idle_of = |list: &[usize]| list.iter().filter(|&&n| self.is_idle(n)).count() as u64;
        let forced: Vec<usize> = nodes.iter().copied().filter(|&node| lighter(node)).collect();
        let mut missing = ask.nodes.checked_sub(forced.len())?;
        let mut held: Vec<usize> = (0..self.leaves).filter(|&l| !of(l, true).is_empty()).collect();
        held.sort_by_key(|&leaf| (self.idle_on(leaf) - idle_of(&of(leaf, true)), leaf));
        let free: Vec<Vec<usize>> = (0..self.leaves).map(|leaf| of(leaf, false)).collect();
        let loss = |leaf: usize, take: usize| {
            let busy = free[leaf].len() as u64 - idle_of(&free[leaf]);
            let taken = idle_of(&of(leaf, true)) + (take as u64).saturating_sub(busy);
            let idle = self.idle_on(leaf);
            idle.pow(2) - idle.saturating_sub(taken).pow(2)
        };
        let holds: Vec<usize> = (0..self.leaves).filter(|&l| free[l].len() >= missing).collect();
        let least = holds.iter().map(|&leaf| loss(leaf, missing)).min();
        let is_best = |&leaf: &usize| held.is_empty() && Some(loss(leaf, missing)) == least;
        let best: Vec<usize> = holds.into_iter().filter(is_best).collect();
        let mut plans: Vec<Plan> = best.iter().map(|&leaf| vec![(leaf, missing)]).collect();
        if best.len() > PLANS {
            let nodes: Vec<usize> = best.iter().flat_map(|&leaf| free[leaf].clone()).collect();
            plans = vec![vec![(leaf_of(self.least(ask, &nodes, 1)?[0]), missing)]];
        }
        if best.is_empty() {
            let mut rest: Vec<usize> = (0..self.leaves).filter(|l| !held.contains(l)).collect();
            rest.sort_by_key(|&leaf| (Reverse(free[leaf].len()), leaf));
            let mut plan: Plan = Vec::new();
            for (at, leaf) in held.iter().chain(&rest).copied().enumerate() {
                let is_held = at < held.len();
                if missing == 0 && !is_held {
                    break;
                }
                let holds = |leaf: &&usize| free[**leaf].len() >= missing;
                let unused = rest.iter().skip(at.saturating_sub(held.len())).filter(holds);
                let last = unused.min_by_key(|&&leaf| (loss(leaf, missing), leaf));
                let leaf = if is_held { leaf } else { *last.unwrap_or(&leaf) };
                let take = free[leaf].len().min(missing);
                missing -= take;
                plan.push((leaf, take));
            }
            plans.extend((missing == 0).then_some(plan));
        }
        let mut best: Option<(f64, Vec<usize>, u64)> = None;
        for plan in plans {
            let mut chosen = forced.clone();
            for &(leaf, take) in plan.iter().filter(|(_, take)| *take > 0) {
                chosen.extend(self.least(ask, &free[leaf], take)?);
            }
            chosen.sort_unstable();
            let scores = chosen.iter().map(|&node| self.score(ask, node));
            let mean = scores.sum::<f64>() / chosen.len() as f64;
            if best.as_ref().is_none_or(|(least, ..)| mean < least - TIE) {
                let loss = plan.iter().map(|&(leaf, take)| loss(leaf, take)).sum();
                best = Some((mean, chosen, loss));
            }
        }
        best.map(|(_, nodes, loss)| (nodes, loss))
    }

    /// The `wanted` nodes of least score, or equal nodes, if these are nearly as good.
    fn least(&self, ask: &Ask, nodes: &[usize], wanted: usize) -> Option<Vec<usize>> {
        let score = |&node: &usize| (self.score(ask, node), node);
        let take = |of: &dyn Fn(&&usize) -> bool| -> Option<(f64, Vec<usize>)> {
            let mut scored: Vec<(f64, usize)> = nodes.iter().filter(of).map(score).collect();
            scored.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let mut from = 0;
            while from < scored.len().min(wanted) {
                let run = scored[from..].partition_point(|s| s.0 <= scored[from].0 + TIE);
                scored[from..from + run].sort_by_key(|scored| scored.1);
                from += run;
            }
            scored.truncate(wanted);
            let mean = scored.iter().map(|scored| scored.0).sum::<f64>() / wanted as f64;
            (scored.len() == wanted).then(|| (mean, scored.iter().map(|s| s.1).collect()))
        };
        let (mean, overall) = take(&|_| true)?;
        let mut best: Option<(f64, Vec<usize>)> = None;
        let kind = |node: usize| self.nodes[node].total;
        let is_new = |&at: &usize| self.nodes[..at].iter().all(|node| node.total != kind(at));
        if overall.windows(2).all(|pair| kind(pair[0]) == kind(pair[1])) {
            return Some(overall);
        }
        for first in (0..self.nodes.len()).filter(is_new) {
            let alike = take(&|&&node| kind(node) == kind(first));
            let Some((score, chosen)) = alike else { continue };
            if score <= mean + GANG && best.as_ref().is_none_or(|(least, _)| score < least - TIE) {
                best = Some((score, chosen));
            }
        }
        Some(best.map_or(overall, |(_, chosen)| chosen))
    }

    /// Weights of the amounts by scarcity.
    fn weights(&self) -> [f64; 3] {
        let sum = |get: &dyn Fn(&Node) -> u64| self.nodes.iter().map(get).sum::<u64>() as f64;
        let pending = self.lacks.iter().sum::<u64>().max(1) as f64;
        let scarcity = |of: usize| {
            let usage = sum(&|node| node.used[of]) / sum(&|node| node.total[of]).max(1.0);
            (0.05 + usage + self.lacks[of] as f64 / pending).powi(4)
        };
        let all: f64 = (0..3).map(scarcity).sum();
        [0, 1, 2].map(|of| 0.15 / 3.0 + 0.85 * scarcity(of) / all)
    }

    /// The score of `docs/methods.md`, 5 (c).
    fn score(&self, ask: &Ask, node: usize) -> f64 {
        let Node { total, used, last_end_s, .. } = &self.nodes[node];
        let has: Vec<usize> = (0..3).filter(|&of| total[of] > 0).collect();
        let weights = self.weights();
        let share: f64 = has.iter().map(|&of| weights[of]).sum();
        let w = |of: usize| weights[of] / share;
        let u = |of: usize| used[of] as f64 / total[of] as f64;
        let q = |of: usize| ask.each[of] as f64 / total[of] as f64;
        let mean = |of: &dyn Fn(usize) -> f64| has.iter().map(|&at| w(at) * of(at)).sum::<f64>();
        let (mean_u, mean_q) = (mean(&u), mean(&q));
        let terms = mean(&|of| {
            let over = q(of) - mean_q;
            let stranding = if ask.each[of] == 0 { 1.5 * (1.0 - u(of)) } else { 0.0 };
            2.0 * (u(of) - mean_u) * over + over * over - 0.2 * u(of) + stranding
        });
        let from = ask.now_s.max(*last_end_s);
        let longer = (ask.now_s + ask.limit_s).saturating_sub(from) as f64;
        terms + longer / ask.limit_s.max(1) as f64
    }
}
