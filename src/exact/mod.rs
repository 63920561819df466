// SPDX-License-Identifier: GPL-3.0-or-later
//! Oracles: slow, simple solvers that share no code with the methods they judge.

pub mod gang;
pub mod gang_esdp;
