// SPDX-License-Identifier: GPL-3.0-or-later
#![allow(clippy::unwrap_used)]
