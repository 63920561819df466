// SPDX-License-Identifier: GPL-3.0-or-later
//! A pending gang takes its place on full servers; whole gangs that stand in its way go.
//!
//! What a large gang needs, on as many servers, is hardly ever what gangs removed by chance leave.
//! Here they go server by server, where the least has to, until each of its tasks has a place.

use super::guide::Guide;
use super::instance::{Instance, NONE, narrow};
use super::problem::KINDS_MAX;
use super::search::Island;
use super::state::{SHUT, State};

/// Servers looked at for each task that fits nowhere.
const SERVERS: usize = 8;
/// Gangs that may go.
const JOBS_MAX: usize = 30;
/// Most that all of them may be worth, as a multiple of what comes.
const LOSS_MAX: f64 = 2.0;
/// The widest row: all kinds of a problem, and one of the cuts.
const ROW_MAX: usize = KINDS_MAX + 1;
/// Work of looking at one server.
const ASK_WORK: u64 = 4;

/// Who stands in the way of one task; reused, so that nothing is allocated in the search.
#[derive(Debug, Default)]
pub(super) struct Way {
    standing: Vec<(f64, u32)>,
    going: Vec<u32>,
    /// Those of the server where they are worth least.
    least: Vec<u32>,
}

impl Island {
    /// Places a pending job; what goes for it is saved as after any removal. When too much would
    /// have to go the job stays pending, and what has gone by then remains so.
    pub(super) fn oust(&mut self, instance: &Instance, guide: &Guide, job: usize) {
        let taste = self.taste(instance);
        let (range, spread) = (instance.job_tasks(job), instance.spread[job]);
        let mut loss = LOSS_MAX * guide.job_worth[job];
        let mut done = range.start;
        while done < range.end {
            let task = instance.insert_order[done] as usize;
            let ty = instance.task_type[task] as usize;
            let found = self.state.choose(instance, guide, ty, taste);
            let found = found.or_else(|| self.clear_for(instance, guide, (job, ty), &mut loss));
            let Some((server, option)) = found else { break };
            self.state.put(instance, task, server, option);
            if spread {
                self.state.shut(server as usize, -SHUT);
            }
            done += 1;
        }
        let placed = &instance.insert_order[range.start..done];
        if spread {
            for task in placed {
                self.state.shut(self.state.server[*task as usize] as usize, SHUT);
            }
        }
        if done < range.end {
            placed.iter().for_each(|task| self.state.take(instance, *task as usize));
            return;
        }
        self.state.mark(instance, job, true);
        self.inserted.push(narrow(job));
    }

    /// Removes what stands in the way of one task of `job` where, of some servers, that is worth
    /// least; none when it is worth more than `loss`, of which what goes is taken.
    fn clear_for(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        (job, ty): (usize, usize),
        loss: &mut f64,
    ) -> Option<(u32, usize)> {
        let (mut least, mut found) = (f64::INFINITY, None);
        for _ in 0..SERVERS {
            let Some((server, option)) = self.draw_edge(instance, guide, ty) else { continue };
            self.state.work += ASK_WORK;
            let cost = self.way.ask(instance, guide, &self.state, (job, ty, server as usize));
            if cost < least {
                (least, found) = (cost, Some((server, option)));
                std::mem::swap(&mut self.way.going, &mut self.way.least);
            }
        }
        if least > *loss || self.removed.len() + self.way.least.len() > JOBS_MAX {
            return None;
        }
        *loss -= least;
        for at in 0..self.way.least.len() {
            self.remove(instance, self.way.least[at] as usize);
        }
        found
    }

    /// A server on which a type may run; none where it may not run on the one drawn.
    fn draw_edge(&mut self, instance: &Instance, guide: &Guide, ty: usize) -> Option<(u32, usize)> {
        if guide.ranks.are_listed() {
            let edge = guide.ranks.draw(ty, &mut self.rng)?;
            return Some((edge.server, edge.option as usize));
        }
        let server = narrow(self.rng.below(instance.servers));
        Some((server, instance.option_on(ty, server)?))
    }
}

impl Way {
    /// What the gangs are worth that have to go for one task of type `ty` of `job`: those of the
    /// least density first. Infinite when it does not fit without them either.
    fn ask(
        &mut self,
        instance: &Instance,
        guide: &Guide,
        state: &State,
        (job, ty, server): (usize, usize, usize),
    ) -> f64 {
        self.standing.clear();
        self.going.clear();
        let mut task = state.first_task(server);
        while task != NONE {
            let other = instance.job_of[task as usize] as usize;
            if other != job {
                self.standing.push((guide.density[other], task));
            }
            task = state.task_after(task);
        }
        self.standing.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let kinds = instance.kinds;
        let lack = &mut [0; ROW_MAX][..kinds];
        let free = &state.free[server * kinds..(server + 1) * kinds];
        for ((lack, a), f) in lack.iter_mut().zip(instance.row(ty)).zip(free) {
            *lack = a - f;
        }
        let mut cost = 0.0;
        for (_, task) in &self.standing {
            if lack.iter().all(|lack| *lack <= 0) {
                return cost;
            }
            let row = instance.row(instance.task_type[*task as usize] as usize);
            let other = instance.job_of[*task as usize];
            if !self.going.contains(&other) {
                if !row.iter().zip(&*lack).any(|(a, lack)| *a > 0 && *lack > 0) {
                    continue;
                }
                self.going.push(other);
                cost += guide.job_worth[other as usize];
            }
            lack.iter_mut().zip(row).for_each(|(lack, a)| *lack -= a);
        }
        if lack.iter().all(|lack| *lack <= 0) { cost } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::gang::best::share_prices;
    use crate::gang::guide::Guide;
    use crate::gang::instance::{Instance, NONE};
    use crate::gang::rng::Stream;
    use crate::gang::search::Island;
    use crate::gang::state::{State, Taste};
    use serde_json::{Value, json};

    /// One gang of two tasks that need a whole server each, and four small ones that fill the two.
    fn full(value: f64, spread: bool) -> (Instance, Guide) {
        let task = |cpus: u32, mean: f64| {
            let edge = |server| json!({"server": server, "mean": mean, "count": 1});
            json!({"request": [cpus], "edges": [edge("a"), edge("b")]})
        };
        let mut jobs: Vec<Value> =
            (0..4).map(|at| json!({"id": format!("small{at}"), "tasks": [task(2, 1.0)]})).collect();
        let (cpus, mean) = if spread { (2, value / 2.0) } else { (4, value / 2.0) };
        jobs.push(json!({"id": "big", "tasks": vec![task(cpus, mean); 2], "spread": spread}));
        let problem = json!({
            "kinds": ["cpu"], "slot": 1, "g": "none",
            "servers": [{"name": "a", "capacity": [4]}, {"name": "b", "capacity": [4]}],
            "jobs": jobs,
        });
        let instance = Instance::compile(&serde_json::from_value(problem).unwrap()).unwrap();
        let guide = Guide::new(&instance, &share_prices(&instance, 0.0));
        (instance, guide)
    }

    /// All small gangs placed, and then the big one in place of what stands in its way.
    fn after_oust(value: f64, spread: bool) -> (Instance, Island) {
        let (instance, guide) = full(value, spread);
        let mut state = State::new(&instance);
        let taste = Taste { tight: 0.1, window: None };
        for job in 0..4 {
            assert!(state.insert_job(&instance, &guide, job, taste));
        }
        let mut island = Island::new(&instance, Stream::new(7, 0), &state);
        island.oust(&instance, &guide, 4);
        (instance, island)
    }

    #[test]
    fn a_gang_takes_its_place_and_what_stood_there_goes() {
        let (_, island) = after_oust(10.0, false);
        let mut servers = island.state.server[4..].to_vec();
        servers.sort_unstable();
        assert_eq!(servers, [0, 1]);
        assert!((0..4).all(|job| !island.state.is_placed(job) && island.state.server[job] == NONE));
        assert_eq!((island.state.placed, &island.state.free), (1, &vec![0, 0]));
    }

    #[test]
    fn no_more_goes_than_the_gang_is_worth_twice() {
        let (instance, island) = after_oust(1.0, false);
        assert!(!island.state.is_placed(4) && island.state.server[4..] == [NONE, NONE]);
        // What has gone by then has given its room back.
        let used: i32 = instance.capacity.iter().zip(&island.state.free).map(|(c, f)| c - f).sum();
        assert_eq!(used, instance.row(0)[0] * i32::try_from(island.state.placed).unwrap());
        assert!(island.state.placed >= 2);
    }

    #[test]
    fn tasks_of_a_spread_gang_take_different_servers() {
        let (_, island) = after_oust(10.0, true);
        let mut servers = island.state.server[4..].to_vec();
        servers.sort_unstable();
        assert_eq!(servers, [0, 1]);
        assert_eq!((island.state.placed, &island.state.free), (3, &vec![0, 0]));
    }

    #[test]
    fn an_undone_step_leaves_nothing_behind() {
        let (instance, mut island) = after_oust(10.0, false);
        island.undo(&instance);
        assert!((0..4).all(|job| island.state.is_placed(job)) && !island.state.is_placed(4));
        assert_eq!(island.state.free, [0, 0]);
    }
}
