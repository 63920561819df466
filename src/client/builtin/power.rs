// SPDX-License-Identifier: GPL-3.0-or-later
//! Energy of the CPU packages by RAPL (Linux `Documentation/power/powercap`).

use std::fs;
use std::path::Path;

use super::context::{Counters, text};

const POWERCAP: &str = "sys/class/powercap";

/// Returns microjoules by package. Zones below a package (`intel-rapl:0:0`) are part of it;
/// `intel-rapl-mmio` counts the same energy again.
pub(super) fn energy(root: &Path) -> Result<Counters, String> {
    let missing = || format!("/{POWERCAP}: no package with RAPL on this node");
    let entries = fs::read_dir(root.join(POWERCAP)).map_err(|_| missing())?;
    let mut counters = Counters::default();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(("intel-rapl", number)) = name.split_once(':') else { continue };
        if number.contains(':') {
            continue;
        }
        let read = |file: &str| -> Result<u64, String> {
            let path = format!("{POWERCAP}/{name}/{file}");
            let text = text(root, &path)?;
            text.trim().parse().map_err(|_| format!("/{path}: expected microjoules"))
        };
        counters.values.insert(name.clone(), read("energy_uj")?);
        if let Ok(wrap) = read("max_energy_range_uj") {
            counters.wraps.insert(name, wrap);
        }
    }
    if counters.values.is_empty() { Err(missing()) } else { Ok(counters) }
}
