// SPDX-License-Identifier: GPL-3.0-or-later
//! What the servers of each zone may run: items by zone, and tables of their patterns.

use super::guide::Guide;
use super::instance::{Instance, narrow};
use super::table::Table;
use rayon::prelude::*;

/// A type that a server of some zone may run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) ty: u32,
    /// At most so many tasks.
    pub(super) most: u32,
    pub(super) worth: f64,
    /// Request times the zone's prices; 0 of a type that requests nothing.
    pub(super) size: f64,
}

/// Offers by zone.
#[derive(Debug)]
pub(super) struct Offers<'a> {
    pub(super) instance: &'a Instance,
    start: Vec<u32>,
    items: Vec<Offer>,
    /// By zone, where there are any.
    tables: Vec<Option<Table>>,
    /// Price per unit by (zone, kind).
    pub(super) price: Vec<f64>,
    /// Tasks of each type in possible jobs.
    pub(super) total: Vec<f64>,
}

impl<'a> Offers<'a> {
    /// By prices per unit.
    pub(super) fn new(instance: &'a Instance, guide: &Guide, price: Vec<f64>) -> Offers<'a> {
        let mut total = vec![0.0; instance.types];
        let counts = &instance.counts;
        for (ty, n) in (0..counts.len()).flat_map(|gang| counts.gang(gang)) {
            total[*ty as usize] += n;
        }
        let kinds = instance.kinds;
        let mut by_zone: Vec<Vec<Offer>> = vec![Vec::new(); instance.zones];
        for ty in (0..instance.types).filter(|ty| total[*ty] > 0.0) {
            let row = instance.row(ty);
            // Rounded up, so that nothing is left out.
            let most = narrow(whole(total[ty]));
            let nothing = row.iter().all(|a| *a == 0);
            for at in instance.type_opts(ty) {
                let zone = instance.opts[at].zone as usize;
                let price = &price[zone * kinds..(zone + 1) * kinds];
                let size = row.iter().zip(price).map(|(a, p)| f64::from(*a) * p).sum::<f64>();
                let size = if nothing { 0.0 } else { size.max(1e-300) };
                by_zone[zone].push(Offer { ty: narrow(ty), most, worth: guide.worth[at], size });
            }
        }
        let mut items = Vec::with_capacity(instance.opts.len());
        let mut start = vec![0];
        for row in by_zone {
            items.extend(row);
            start.push(narrow(items.len()));
        }
        Offers { instance, start, items, tables: Vec::new(), price, total }
    }

    /// Number of offers in all zones.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn of(&self, zone: usize) -> &[Offer] {
        &self.items[self.start[zone] as usize..self.start[zone + 1] as usize]
    }

    pub(super) fn table(&self, zone: usize) -> Option<&Table> {
        self.tables.get(zone)?.as_ref()
    }

    /// Sets tables of cells times sizes of at most `work`: of all kinds that items need, or of the
    /// dearest that this is enough for.
    pub(super) fn set_tables(&mut self, work: usize, partly: bool) {
        let instance = self.instance;
        let table = |zone: usize| {
            let row = |offer: &Offer| instance.row(offer.ty as usize);
            let rows: Vec<&[i32]> = self.of(zone).iter().map(row).collect();
            let needed = |k: &usize| rows.iter().any(|row| row[*k] > 0);
            let mut kinds: Vec<usize> = (0..instance.kinds).filter(needed).collect();
            let capacity = self.capacity(zone);
            if !partly {
                return Table::new(capacity, &rows, &kinds, work);
            }
            let price = &self.price[zone * instance.kinds..];
            let paid = |k: usize| price[k] * f64::from(capacity[k]);
            kinds.sort_by(|a, b| paid(*b).total_cmp(&paid(*a)).then(a.cmp(b)));
            Table::widest(capacity, &rows, &kinds, work)
        };
        self.tables = (0..instance.zones).into_par_iter().map(table).collect();
    }

    pub(super) fn drop_tables(&mut self) {
        self.tables.clear();
    }

    /// Of one server.
    pub(super) fn capacity(&self, zone: usize) -> &'a [i32] {
        let first = self.instance.zone_start[zone] as usize * self.instance.kinds;
        &self.instance.capacity[first..first + self.instance.kinds]
    }

    /// Number of servers.
    pub(super) fn servers(&self, zone: usize) -> f64 {
        f64::from(self.instance.zone_start[zone + 1] - self.instance.zone_start[zone])
    }

    /// What a task is worth at its best, in the mean.
    pub(super) fn mean_worth(&self, guide: &Guide) -> f64 {
        let asked = self.total.iter().zip(&guide.best_worth).filter(|(n, _)| **n > 0.0);
        let (mut sum, mut tasks) = (0.0, 0.0);
        for (n, worth) in asked {
            sum += n * worth.max(0.0);
            tasks += n;
        }
        sum / f64::max(tasks, 1.0)
    }
}

/// A count kept as a float, rounded up.
pub(super) fn whole(count: f64) -> usize {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = count.ceil() as usize;
    whole
}
