// SPDX-License-Identifier: GPL-3.0-or-later
//! Ids, units and sets that every other module speaks in.

pub mod shape;
