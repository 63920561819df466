// SPDX-License-Identifier: GPL-3.0-or-later
//! Nodes in one argument: `128x(cpu=64,mem=256G,gpu=4)+16x(cpu=128,mem=1T)`.

use super::shorten;
use crate::limits::NODES_MAX;
use crate::number::whole;

/// A simulated node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeSpec {
    /// Name of the node, unique in the cluster.
    pub name: String,
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Memory, MiB.
    pub memory_mb: u64,
    /// Whole GPUs.
    pub gpus: u32,
    /// GPU model; empty if the model does not matter.
    pub model: String,
    /// Slurm's Weight: low ones are taken first.
    pub weight: u32,
    /// Features, by which jobs choose nodes.
    pub features: Vec<String>,
    /// Watts idle, and with all CPUs in use, if known.
    pub watts: Option<[f64; 2]>,
    /// Speed of the nodes, where it differs from the log's nodes.
    pub speed: Option<f64>,
}

/// Reads a specification.
///
/// # Errors
/// One line that quotes the group and says what was expected.
pub fn parse(text: &str) -> Result<Vec<NodeSpec>, String> {
    let mut nodes = Vec::new();
    for group in text.split('+') {
        let group = group.trim();
        let (count, node) = parse_group(group).map_err(|what| {
            format!("{:?}: {what}; for example 128x(cpu=64,mem=256G,gpu=4)", shorten(group))
        })?;
        if nodes.len() + count > NODES_MAX {
            return Err(format!("more than {NODES_MAX} nodes"));
        }
        for _ in 0..count {
            nodes.push(NodeSpec { name: format!("n{:05}", nodes.len()), ..node.clone() });
        }
    }
    Ok(nodes)
}

fn parse_group(group: &str) -> Result<(usize, NodeSpec), String> {
    let (count, inside) = group.split_once("x(").ok_or("expected COUNTx(KEY=VALUE,...)")?;
    let inside = inside.strip_suffix(')').ok_or("the closing parenthesis is missing")?;
    let count: usize = match count.trim().parse() {
        Ok(count @ 1..=NODES_MAX) => count,
        _ => return Err(format!("expected a number of nodes from 1 to {NODES_MAX} before x(")),
    };
    let mut node = NodeSpec { weight: 1, ..NodeSpec::default() };
    let mut keys: Vec<&str> = Vec::new();
    for pair in inside.split(',') {
        let (key, value) = pair.split_once('=').ok_or("expected KEY=VALUE between commas")?;
        let key = key.trim();
        set(&mut node, key, value.trim())?;
        if keys.contains(&key) {
            return Err(format!("{key} is given twice"));
        }
        keys.push(key);
    }
    if node.cpu_milli == 0 {
        return Err("expected cpu=NUMBER, at least 1".to_owned());
    }
    Ok((count, node))
}

fn set(node: &mut NodeSpec, key: &str, value: &str) -> Result<(), String> {
    let wrong = |wanted: &str| format!("{key}: expected {wanted}, got {:?}", shorten(value));
    match key {
        "cpu" => {
            let cpus: u32 = value.parse().map_err(|_| wanted_number(key, value))?;
            node.cpu_milli = u64::from(cpus) * 1000;
        }
        "mem" => node.memory_mb = memory_mb(value).ok_or_else(|| wrong("a size such as 256G"))?,
        "gpu" => node.gpus = value.parse().map_err(|_| wanted_number(key, value))?,
        "idle" | "busy" => {
            let watts: f64 = value.parse().map_err(|_| wrong("watts"))?;
            if !(0.0..=1e6).contains(&watts) {
                return Err(wrong("watts from 0 to 1000000"));
            }
            let [idle, busy] = node.watts.unwrap_or_default();
            node.watts = Some(if key == "idle" { [watts, busy] } else { [idle, watts] });
        }
        "speed" => {
            let speed = value.parse().ok().filter(|speed| (0.01..=100.0).contains(speed));
            node.speed = Some(speed.ok_or_else(|| wrong("a number from 0.01 to 100"))?);
        }
        "weight" => node.weight = value.parse().map_err(|_| wanted_number(key, value))?,
        "model" if !value.is_empty() => value.clone_into(&mut node.model),
        "model" => return Err(wrong("a name")),
        _ => {
            return Err(format!(
                "unknown key {key:?}, expected cpu, mem, gpu, model, weight, idle, busy or speed"
            ));
        }
    }
    Ok(())
}

fn wanted_number(key: &str, value: &str) -> String {
    format!("{key}: expected a whole number, got {:?}", shorten(value))
}

/// `256G`, `62.50GB`, `31000M`, or MiB without a unit: in MiB, rounded up.
pub fn memory_mb(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.chars().next().map(|c| c.to_ascii_uppercase()) {
        Some('K') => -10,
        None | Some('M') => 0,
        Some('G') => 10,
        Some('T') => 20,
        Some('P') => 30,
        Some(_) => return None,
    };
    let mib = digits.parse::<f64>().ok()? * 2.0_f64.powi(shift);
    // Below 2^53 a double is exact.
    (0.0..9e15).contains(&mib).then(|| whole(mib.ceil()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_joined_and_numbered() {
        let nodes = parse("2x(cpu=64,mem=256G,gpu=4) + 1x(cpu=8,model=T4)").unwrap();
        assert_eq!(nodes.len(), 3);
        let (cpu, mem, gpus) = (nodes[1].cpu_milli, nodes[1].memory_mb, nodes[1].gpus);
        assert_eq!((cpu, mem, gpus), (64_000, 262_144, 4));
        assert_eq!((nodes[2].name.as_str(), nodes[2].model.as_str()), ("n00002", "T4"));
    }

    #[test]
    fn memory_has_units() {
        for (text, mib) in
            [("8G", 8192), ("62.50G", 64_000), ("31000M", 31_000), ("1K", 1), ("2T", 2_097_152)]
        {
            assert_eq!(memory_mb(text), Some(mib), "{text}");
        }
        assert_eq!(memory_mb("8X"), None);
        assert_eq!(memory_mb("-8G"), None);
        assert_eq!(memory_mb("G"), None);
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (text, part) in [
            ("", "expected COUNTx("),
            ("0x(cpu=1)", "from 1 to"),
            ("2x(cpu=1", "closing"),
            ("2x(mem=1G)", "cpu=NUMBER"),
            ("2x(cpu=many)", "whole number"),
            ("2x(cpu=8,mem=1G,cpu=4)", "cpu is given twice"),
            ("2x(cpu=1,disk=5)", "unknown key \"disk\""),
            ("2x(cpu=1,mem=1X)", "a size such as 256G"),
            ("99999999x(cpu=1)", "from 1 to"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
