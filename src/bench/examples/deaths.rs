// SPDX-License-Identifier: GPL-3.0-or-later
//! Accusations of good nodes over many seeded histories:
//! `cargo run --release -p phalanx-bench --example deaths -- 100000`.

#[path = "../../methods/tests/it/prop_deaths.rs"]
mod prop_deaths;

use prop_deaths::{ALL, history};

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let each = count / ALL.len() as u64;
    let accused: Vec<usize> = std::thread::scope(|scope| {
        let one = |dying| {
            scope.spawn(move || (0..each).filter(|&seed| history(seed, dying, None).0 > 0).count())
        };
        ALL.map(one).into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    for (dying, accused) in ALL.iter().zip(accused) {
        println!("{dying:?}: {accused} of {each} histories");
    }
}
