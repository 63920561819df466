// SPDX-License-Identifier: GPL-3.0-or-later
//! HTTP over the control socket: what clients see.

pub mod types;
