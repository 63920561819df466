// SPDX-License-Identifier: GPL-3.0-or-later
//! Tests of the program `phalanx`, run as users run it.

mod cli;
mod collectors;
mod commands;
mod report;
mod simulate;
mod solve_balance;
mod splits;
