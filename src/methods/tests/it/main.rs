// SPDX-License-Identifier: GPL-3.0-or-later
//! Worked examples, properties and exact oracles of the methods.

mod exact;
mod fuzz_declaration;
mod golden_bag;
mod golden_balance;
mod golden_bisect;
mod golden_gang;
mod golden_share;
mod prop_bag;
mod prop_balance;
mod prop_bisect;
mod prop_deaths;
#[allow(clippy::disallowed_methods, reason = "a search with a deadline needs a clock")]
mod prop_gang;
mod prop_share;
mod prop_stream;
