// SPDX-License-Identifier: GPL-3.0-or-later
//! Prices of task sizes that balance what servers hold with what jobs ask, softly at first.
//!
//! A server earns what its best pattern brings, and all servers of a zone choose the same one: a
//! descent by best patterns moves from one to the next for hundreds of steps. Here all patterns have
//! weights instead, `exp(profit / heat)`, and so have the zones that a task may choose, and the start
//! of its job. The mean of all patterns comes from one table (`lattice.rs`). What is then asked of a
//! size and what there is of it differ by a factor, and its logarithm times the heat is the step of
//! the price, as in iterative proportional fitting (Sinkhorn 1967). Kinds that a table leaves out have
//! a price by the unit. Heat falls, and prices tend to those of the linear program of all patterns.
//! They are no bound: the wages that they leave prove one (`wages.rs`).

use super::counts::Counts;
use super::offers::{Offer, Offers};
use super::relax::Relaxation;
use rayon::prelude::*;

/// Cells times sizes of one table at most, and of all.
const WORK_ZONE_MAX: usize = 6_000_000;
const WORK_MAX: usize = 8_000_000;
/// Zones and offers at most, and the part of all rent that tables must know.
const ZONES_MAX: usize = 400;
const OFFERS_MAX: usize = 250_000;
const KNOWN_LEAST: f64 = 0.1;
/// Rounds without a deadline, and with one at most.
const ROUNDS: u32 = 100;
const ROUNDS_TIMED_MAX: u32 = 400;
/// Heat at first and at last, as parts of a task's mean worth.
const HEAT: (f64, f64) = (0.05, 0.002);
/// Part of the way to where what is asked and what there is would meet.
const STRIDE: f64 = 0.5;
/// Tasks that make no difference, and the longest step, in heats.
const FEW_TASKS: f64 = 0.01;
const STEP_MAX: f64 = 4.0;

/// Prices in a zone.
#[derive(Debug)]
struct Zone {
    /// By size of the table.
    price: Vec<f64>,
    held: Vec<f64>,
    asked: Vec<f64>,
    /// By kind: price of a unit of what is not in the table, units asked for, and the sum of the
    /// squares by task.
    unit: Vec<f64>,
    units_asked: Vec<f64>,
    squares: Vec<f64>,
    /// What the offers pay.
    paid: Vec<f64>,
    /// Scratch space.
    values: Vec<f64>,
    relaxation: Relaxation,
}

impl Zone {
    /// Begins with the prices of units.
    fn new(offers: &Offers<'_>, at: usize) -> Zone {
        let instance = offers.instance;
        let kinds = instance.kinds;
        let sizes = offers.table(at).map_or(0, |table| table.sizes.len());
        let mut zone = Zone {
            price: vec![0.0; sizes],
            held: vec![0.0; sizes],
            asked: vec![0.0; sizes],
            unit: offers.price[at * kinds..(at + 1) * kinds].to_vec(),
            units_asked: vec![0.0; kinds],
            squares: vec![0.0; kinds],
            paid: vec![0.0; offers.of(at).len()],
            values: Vec::new(),
            relaxation: Relaxation::default(),
        };
        if let Some(table) = offers.table(at) {
            for (offer, size) in offers.of(at).iter().zip(&table.size_of) {
                if let Some(price) = zone.price.get_mut(*size as usize) {
                    let row = instance.row(offer.ty as usize);
                    let known = (0..kinds).filter(|k| table.has[*k]);
                    *price = known.map(|k| f64::from(row[k]) * zone.unit[k]).sum();
                }
            }
            let units = zone.unit.iter_mut().zip(&table.has);
            units.filter(|(_, has)| **has).for_each(|(unit, _)| *unit = 0.0);
        }
        zone.set_paid(offers, at);
        zone
    }

    fn set_paid(&mut self, offers: &Offers<'_>, at: usize) {
        let size_of = offers.table(at).map_or(&[][..], |table| &table.size_of);
        for (item, (paid, offer)) in self.paid.iter_mut().zip(offers.of(at)).enumerate() {
            let size = size_of.get(item).and_then(|size| self.price.get(*size as usize));
            let row = offers.instance.row(offer.ty as usize).iter().zip(&self.unit);
            let units: f64 = row.map(|(a, unit)| f64::from(*a) * unit).sum();
            *paid = size.unwrap_or(&0.0) + units;
        }
    }

    /// Numbers of each size in the mean of all patterns; false where floats cannot tell.
    fn set_held(&mut self, offers: &Offers<'_>, at: usize, heat: f64) -> bool {
        let Some(table) = offers.table(at) else { return true };
        let lattice = &table.lattice;
        self.relaxation.clear(table.sizes[0].len());
        for (size, price) in table.sizes.iter().zip(&self.price) {
            self.relaxation.push(lattice.parts(*size).into_iter(), *price, u32::MAX);
        }
        let by_axis = self.relaxation.prices();
        let near = std::array::from_fn(|axis| by_axis[axis]);
        let what = (table.sizes.as_slice(), self.price.as_slice());
        let found = lattice.mean(what, (near, heat), &mut self.values, &mut self.held);
        let servers = offers.servers(at);
        self.held.iter_mut().for_each(|held| *held *= servers);
        found.is_some()
    }

    /// Counts what the types, of which so many tasks are asked for, ask of this zone.
    fn set_asked(&mut self, offers: &Offers<'_>, at: usize, (market, heat): (&Choice, f64)) {
        self.asked.fill(0.0);
        self.units_asked.fill(0.0);
        self.squares.fill(0.0);
        let size_of = offers.table(at).map_or(&[][..], |table| &table.size_of);
        for (item, (paid, offer)) in self.paid.iter().zip(offers.of(at)).enumerate() {
            let tasks = market.tasks_at(offer, *paid, heat);
            let size = size_of.get(item).and_then(|size| self.asked.get_mut(*size as usize));
            if let Some(asked) = size {
                *asked += tasks;
            }
            let row = offers.instance.row(offer.ty as usize).iter();
            let sums = self.units_asked.iter_mut().zip(&mut self.squares);
            for ((units, squares), amount) in sums.zip(row) {
                let amount = f64::from(*amount);
                *units += tasks * amount;
                *squares += tasks * amount * amount;
            }
        }
    }

    /// Moves the prices to where what is asked and what there is would meet.
    fn step(&mut self, offers: &Offers<'_>, at: usize, heat: f64) {
        for ((price, held), asked) in self.price.iter_mut().zip(&self.held).zip(&self.asked) {
            let factor = (asked + FEW_TASKS) / (held + FEW_TASKS);
            *price = moved(*price, factor, heat);
        }
        let has = offers.table(at).map_or(&[][..], |table| &table.has);
        let servers = offers.servers(at);
        let there = |k: usize| servers * f64::from(offers.capacity(at)[k]);
        let scarce = |k: usize| self.unit[k] > 0.0 || self.units_asked[k] > there(k);
        let priced = |k: &usize| !has.get(*k).is_some_and(|has| *has) && scarce(*k);
        let kinds: Vec<usize> = (0..self.unit.len()).filter(priced).collect();
        for k in &kinds {
            let (asked, there) = (self.units_asked[*k], there(*k));
            // The heat by the unit, at the mean request.
            let heat = heat * asked / self.squares[*k] / kinds.len() as f64;
            let nothing = self.squares[*k] <= f64::MIN_POSITIVE || there <= 0.0;
            let unit = self.unit[*k];
            self.unit[*k] = if nothing { 0.5 * unit } else { moved(unit, asked / there, heat) };
        }
    }
}

/// A price after a step to where so much more is asked than there is.
fn moved(price: f64, factor: f64, heat: f64) -> f64 {
    (price + STRIDE * heat * factor.ln().clamp(-STEP_MAX, STEP_MAX)).max(0.0)
}

/// What types choose, by type.
#[derive(Debug, Default)]
struct Choice {
    /// The most that any zone leaves, and the weight of all zones beside that one.
    most: Vec<f64>,
    weight: Vec<f64>,
    /// What all zones together leave.
    left: Vec<f64>,
    /// Tasks asked for.
    tasks: Vec<f64>,
}

impl Choice {
    fn new(types: usize) -> Choice {
        let zeros = || vec![0.0; types];
        Choice { most: zeros(), weight: zeros(), left: zeros(), tasks: zeros() }
    }

    fn weight_of(&self, offer: &Offer, paid: f64, heat: f64) -> f64 {
        ((offer.worth - paid - self.most[offer.ty as usize]) / heat).exp()
    }

    /// How many of the type's tasks ask for this offer.
    fn tasks_at(&self, offer: &Offer, paid: f64, heat: f64) -> f64 {
        let ty = offer.ty as usize;
        self.tasks[ty] * self.weight_of(offer, paid, heat) / self.weight[ty]
    }

    fn set_most(&mut self, zones: &[Zone], offers: &Offers<'_>) {
        self.most.fill(f64::NEG_INFINITY);
        for (at, zone) in zones.iter().enumerate() {
            for (offer, paid) in offers.of(at).iter().zip(&zone.paid) {
                let most = &mut self.most[offer.ty as usize];
                *most = most.max(offer.worth - paid);
            }
        }
    }

    fn set(&mut self, zones: &[Zone], offers: &Offers<'_>, heat: f64) {
        self.set_most(zones, offers);
        self.weight.fill(0.0);
        for (at, zone) in zones.iter().enumerate() {
            for (offer, paid) in offers.of(at).iter().zip(&zone.paid) {
                self.weight[offer.ty as usize] += self.weight_of(offer, *paid, heat);
            }
        }
        for ((left, most), weight) in self.left.iter_mut().zip(&self.most).zip(&self.weight) {
            *left = if *weight > 0.0 { most + heat * weight.ln() } else { 0.0 };
        }
        self.ask(&offers.instance.counts, heat);
    }

    /// Tasks of each type that jobs start.
    fn ask(&mut self, counts: &Counts, heat: f64) {
        self.tasks.fill(0.0);
        for gang in 0..counts.len() {
            let tasks: f64 = counts.gang(gang).iter().map(|(_, n)| n).sum();
            let profit = counts.sum(gang, &self.left) / tasks;
            let started = 1.0 / (1.0 + (-profit / heat).exp());
            for (ty, n) in counts.gang(gang) {
                self.tasks[*ty as usize] += n * started;
            }
        }
    }
}

/// Prices in all zones.
#[derive(Debug)]
pub(super) struct Soft {
    zones: Vec<Zone>,
    choice: Choice,
    /// Mean worth of a task.
    worth: f64,
}

impl Soft {
    /// From prices by the unit; sets tables. None, and no tables, where those would know little, or
    /// nothing is worth anything.
    pub(super) fn new(offers: &mut Offers<'_>, worth: f64) -> Option<Soft> {
        let instance = offers.instance;
        if instance.zones > ZONES_MAX || offers.len() > OFFERS_MAX || worth <= 0.0 {
            return None;
        }
        offers.set_tables((WORK_MAX / instance.zones.max(1)).min(WORK_ZONE_MAX), true);
        let (mut all, mut known) = (0.0, 0.0);
        for zone in 0..instance.zones {
            let has = offers.table(zone).map_or(&[][..], |table| &table.has);
            for (k, amount) in offers.capacity(zone).iter().enumerate() {
                let unit = offers.price[zone * instance.kinds + k];
                let rent = offers.servers(zone) * f64::from(*amount) * unit;
                all += rent;
                known += if has.get(k).is_some_and(|has| *has) { rent } else { 0.0 };
            }
        }
        if known < KNOWN_LEAST * all {
            offers.drop_tables();
            return None;
        }
        let zones = (0..instance.zones).map(|zone| Zone::new(offers, zone)).collect();
        Some(Soft { zones, choice: Choice::new(instance.types), worth })
    }

    /// How far prices are, from 0 to 1, after so many rounds and this share of the time.
    pub(super) fn progress(round: u32, spent: Option<f64>) -> f64 {
        let rounds = if spent.is_some() { ROUNDS_TIMED_MAX } else { ROUNDS };
        spent.unwrap_or(0.0).max(f64::from(round) / f64::from(rounds))
    }

    /// One round.
    pub(super) fn round(&mut self, offers: &Offers<'_>, progress: f64) {
        let heat = self.worth * HEAT.0 * (HEAT.1 / HEAT.0).powf(progress);
        self.choice.set(&self.zones, offers, heat);
        let choice = &self.choice;
        self.zones.par_iter_mut().enumerate().for_each(|(at, zone)| {
            zone.set_asked(offers, at, (choice, heat));
            if !zone.set_held(offers, at, heat) {
                zone.held.copy_from_slice(&zone.asked);
            }
            zone.step(offers, at, heat);
            zone.set_paid(offers, at);
        });
    }

    /// Wages of types, which is what the best of their zones leaves them; 0 without any.
    pub(super) fn set_wages(&mut self, offers: &Offers<'_>, wage: &mut [f64]) {
        self.choice.set_most(&self.zones, offers);
        for (wage, most) in wage.iter_mut().zip(&self.choice.most) {
            *wage = if most.is_finite() { *most } else { 0.0 };
        }
    }

    /// Price of a unit by kind in a zone, of what is not in its table.
    pub(super) fn units(&self, zone: usize) -> &[f64] {
        &self.zones[zone].unit
    }
}
