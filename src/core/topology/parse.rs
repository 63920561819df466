// SPDX-License-Identifier: GPL-3.0-or-later
//! Readers of the text of `scontrol show topology` and of topology.conf.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Domain, Kind, Parts, Topology};
use crate::NodeIdx;
use crate::hostlist;
use crate::limits::{TEXT_NAMES_MAX, TOPOLOGY_DEPTH_MAX, TOPOLOGY_DOMAINS_MAX};
use crate::number::as_u32;
use crate::slurm_conf::{self, Form};
use crate::snapshot::Table;

/// Unknown nodes that are named.
const UNKNOWN_NODES_NAMED: usize = 8;
/// Slurm's levels of aggregated blocks.
const BLOCK_LEVELS_MAX: u32 = 16;
/// Levels of blocks where none are configured.
const BLOCK_LEVELS_DEFAULT: u32 = 5;

/// An error of a topology's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("topology{}: {what}", at(*line))]
pub struct TopologyError {
    /// Number of the line, from 1; 0 if no line is at fault.
    pub line: usize,
    /// Text that was found, and text that was expected.
    pub what: String,
}

fn at(line: usize) -> String {
    if line == 0 { String::new() } else { format!(", line {line}") }
}

pub(super) fn error<T>(line: usize, what: impl Into<String>) -> Result<T, TopologyError> {
    Err(TopologyError { line, what: what.into() })
}

/// A line of a topology, all of which is understood as pairs.
pub(super) struct Line(pub(super) slurm_conf::Line);

impl Line {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).filter(|value| !value.is_empty() && *value != "(null)")
    }

    pub(super) fn number(&self, key: &str) -> Result<Option<u32>, TopologyError> {
        let number = |value: &str| match value.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => error(self.0.number, format!("{key}: expected a number, got \"{value}\"")),
        };
        self.get(key).map_or(Ok(None), number)
    }

    pub(super) fn first_key(&self) -> &str {
        self.0.settings.first().map_or("", |pair| &pair.key)
    }
}

/// Reads what Slurm prints of one topology. `head` has name, plugin, release and
/// what the text may lack, block size and levels; its kind follows from the plugin.
///
/// # Errors
/// The first line that is not understood.
pub fn parse(text: &str, head: Parts, table: &Table) -> Result<Topology, TopologyError> {
    let kind = Kind::of_plugin(&head.plugin);
    read(&lines(text, Form::Printed)?, Parts { kind, ..head }, table, true)
}

/// Reads a topology.conf. Its kind follows from what it has, switches or blocks.
///
/// # Errors
/// The first line that is not understood.
///
/// # Example
/// ```
/// use phalanx_core::snapshot::{Table, TableNode};
/// use phalanx_core::topology::parse_conf;
/// let node = |name: &str| TableNode { name: name.into(), ..TableNode::default() };
/// let table = Table { nodes: vec![node("n1"), node("n2")], ..Table::default() };
/// let text = "SwitchName=s1 Nodes=n[1-2]\n";
/// assert_eq!(parse_conf(text, 0, &table)?.nodes_of(0).len(), 2);
/// assert_eq!(
///     parse_conf("Switch=s1", 0, &table).unwrap_err().to_string(),
///     "topology, line 1: expected SwitchName=, BlockName= or BlockSizes=, got \"switch\""
/// );
/// # Ok::<(), phalanx_core::topology::TopologyError>(())
/// ```
pub fn parse_conf(text: &str, slurm: u32, table: &Table) -> Result<Topology, TopologyError> {
    let lines = lines(text, Form::File)?;
    let known = ["switchname", "blockname", "blocksizes"];
    if let Some(line) = lines.iter().find(|line| !known.contains(&line.first_key())) {
        let what = "expected SwitchName=, BlockName= or BlockSizes=";
        return error(line.0.number, format!("{what}, got \"{}\"", line.first_key()));
    }
    let blocks = lines.iter().any(|line| line.first_key() == "blockname");
    let (kind, plugin) = match (blocks, lines.is_empty()) {
        (true, _) => (Kind::Block, "block"),
        (false, false) => (Kind::Tree, "tree"),
        (false, true) => (Kind::Flat, "flat"),
    };
    let (name, plugin) = (Arc::from("default"), Arc::from(plugin));
    let head = Parts { name, plugin, kind, slurm, is_default: true, ..Parts::default() };
    read(&lines, head, table, false)
}

pub(super) fn lines(text: &str, form: Form) -> Result<Vec<Line>, TopologyError> {
    let checked = |line: slurm_conf::Line| {
        let word = line.rest.split([' ', '\t', '=']).next().unwrap_or_default();
        if !line.rest.is_empty() {
            return error(line.number, format!("expected KEY=VALUE, got \"{word}\""));
        }
        if line.settings.iter().any(|pair| pair.value.starts_with('"')) {
            return error(line.number, "a quotation mark without its second one");
        }
        Ok(Line(line))
    };
    slurm_conf::lines(text, form).into_iter().map(checked).collect()
}

fn read(
    lines: &[Line],
    mut head: Parts,
    table: &Table,
    printed: bool,
) -> Result<Topology, TopologyError> {
    head.table_len = as_u32(table.nodes.len());
    let named = table.nodes.iter().enumerate().filter(|(_, node)| !node.name.is_empty());
    let mut names = Names {
        nodes: named.map(|(at, node)| (&*node.name, NodeIdx::new(at))).collect(),
        unknown: Vec::new(),
        room: TEXT_NAMES_MAX,
    };
    if lines.len() > TOPOLOGY_DOMAINS_MAX {
        return error(0, format!("more than {TOPOLOGY_DOMAINS_MAX} switches or blocks"));
    }
    match head.kind {
        Kind::Tree => head.domains = switches(lines, &mut names, printed)?,
        Kind::Block => blocks(lines, &mut names, &mut head, printed)?,
        Kind::Flat | Kind::Other | Kind::Unknown => {}
    }
    head.unknown_nodes = names.unknown;
    Ok(Topology::from(head))
}

/// The node table by name.
struct Names<'a> {
    nodes: HashMap<&'a str, NodeIdx>,
    unknown: Vec<Arc<str>>,
    /// Names that the rest of the text may still expand to.
    room: usize,
}

impl Names<'_> {
    /// The nodes of a line; Slurm only warns of unknown ones.
    fn nodes(&mut self, line: &Line) -> Result<Vec<NodeIdx>, TopologyError> {
        let mut nodes = Vec::new();
        for name in expand(line, "nodes", &mut self.room)? {
            match self.nodes.get(&*name) {
                Some(node) => nodes.push(*node),
                None if self.unknown.len() < UNKNOWN_NODES_NAMED => self.unknown.push(name.into()),
                None => {}
            }
        }
        Ok(nodes)
    }
}

/// The names of a line; `room` falls by their number.
pub(super) fn expand(at: &Line, key: &str, room: &mut usize) -> Result<Vec<String>, TopologyError> {
    let names = hostlist::expand_within(at.get(key).unwrap_or(""), room);
    names.or_else(|why| error(at.0.number, format!("{key}: {why}")))
}

fn name_of(line: &Line, key: &str, what: &str) -> Result<Arc<str>, TopologyError> {
    match line.get(key) {
        Some(name) if line.first_key() == key => Ok(name.into()),
        _ => error(line.0.number, format!("expected {what}=, got \"{}\"", line.first_key())),
    }
}

fn switches(
    lines: &[Line],
    names: &mut Names<'_>,
    printed: bool,
) -> Result<Vec<Domain>, TopologyError> {
    let mut domains: Vec<Domain> = Vec::with_capacity(lines.len());
    let mut by_name: HashMap<Arc<str>, u32> = HashMap::new();
    for (at, line) in (0u32..).zip(lines) {
        let name = name_of(line, "switchname", "SwitchName")?;
        if by_name.insert(Arc::clone(&name), at).is_some() {
            return error(line.0.number, format!("switch \"{name}\" has been there before"));
        }
        let leaf = is_leaf(line, printed)?;
        let nodes = if leaf { names.nodes(line)? } else { Vec::new() };
        domains.push(Domain { name, level: u32::from(!leaf), nodes, parent: None });
    }
    for (at, line) in (0u32..).zip(lines) {
        if domains[at as usize].level == 0 {
            continue;
        }
        for child in expand(line, "switches", &mut names.room)? {
            match by_name.get(&*child) {
                Some(&below) if below != at => domains[below as usize].parent = Some(at),
                _ => {
                    let what = format!("switches: expected another switch, got \"{child}\"");
                    return error(line.0.number, what);
                }
            }
        }
    }
    set_levels(&mut domains, lines)?;
    Ok(domains)
}

/// Whether a switch is a leaf: a leaf names nodes, and an empty one names nothing.
fn is_leaf(line: &Line, printed: bool) -> Result<bool, TopologyError> {
    if printed && let Some(level) = line.number("level")? {
        return Ok(level == 0);
    }
    Ok(line.get("nodes").is_some() || line.get("switches").is_none())
}

/// Sets each switch one level above the highest switch below it.
fn set_levels(domains: &mut [Domain], lines: &[Line]) -> Result<(), TopologyError> {
    for start in 0..domains.len() {
        let (mut at, mut level) = (start, domains[start].level.min(1));
        while let Some(parent) = domains[at].parent {
            level += 1;
            if level as usize > TOPOLOGY_DEPTH_MAX {
                let number = lines.get(start).map_or(0, |line| line.0.number);
                return error(number, format!("more than {TOPOLOGY_DEPTH_MAX} switches above"));
            }
            at = parent as usize;
            domains[at].level = domains[at].level.max(level);
        }
    }
    Ok(())
}

fn blocks(
    lines: &[Line],
    names: &mut Names<'_>,
    head: &mut Parts,
    printed: bool,
) -> Result<(), TopologyError> {
    let mut base: Vec<Domain> = Vec::new();
    let mut sizes: Vec<u32> = Vec::new();
    let mut known = HashSet::new();
    for line in lines {
        match line.first_key() {
            "blockname" => {
                let name = name_of(line, "blockname", "BlockName")?;
                if !known.insert(Arc::clone(&name)) {
                    return error(line.0.number, format!("block \"{name}\" has been there before"));
                }
                let nodes = names.nodes(line)?;
                base.push(Domain { name, level: 0, nodes, parent: None });
                sizes.extend(line.number("blocksize")?);
            }
            "aggregatedblock" if printed => sizes.extend(line.number("blocksize")?),
            "blocksizes" if !printed => sizes = listed_sizes(line)?,
            other => {
                return error(line.0.number, format!("expected BlockName=, got \"{other}\""));
            }
        }
    }
    let given = head.block_size > 0 && !head.block_levels.is_empty();
    if sizes.is_empty() && printed && !given {
        return error(0, "block sizes are not printed by this release and were not given");
    }
    if !sizes.is_empty() || !given {
        let first = base.iter().map(|block| block.nodes.len()).find(|&len| len > 0);
        head.block_size = sizes.iter().copied().min().or(first.map(as_u32)).unwrap_or(0);
        head.block_levels = levels(&sizes, head.block_size)?;
    }
    if head.block_size == 0 {
        return error(0, "expected BlockSizes= or a block with nodes");
    }
    let base_count = as_u32(base.len());
    let upto = head.block_levels.iter().position(|&level| 1u64 << level >= u64::from(base_count));
    head.block_levels.truncate(upto.map_or(usize::MAX, |last| last + 1));
    head.domains = aggregate(base, &head.block_levels)?;
    Ok(())
}

fn listed_sizes(line: &Line) -> Result<Vec<u32>, TopologyError> {
    let text = line.get("blocksizes").unwrap_or("");
    let size = |size: &str| match size.trim().parse() {
        Ok(size) if size > 0 => Ok(size),
        _ => error(line.0.number, format!("BlockSizes: expected numbers above 0, got \"{size}\"")),
    };
    text.split(',').map(size).collect()
}

fn levels(sizes: &[u32], base: u32) -> Result<Vec<u32>, TopologyError> {
    if sizes.is_empty() {
        return Ok((0..BLOCK_LEVELS_DEFAULT).collect());
    }
    let mut levels = vec![0];
    for &size in sizes {
        let blocks = size.checked_div(base).unwrap_or(0);
        let level = blocks.checked_ilog2().unwrap_or(0);
        if u64::from(base) << level != u64::from(size) || level >= BLOCK_LEVELS_MAX {
            let what = format!("block size {size}: expected {base} times a power of two");
            return error(0, what);
        }
        levels.push(level);
    }
    levels.sort_unstable();
    levels.dedup();
    Ok(levels)
}

/// The blocks and, level by level, the aggregates above them.
fn aggregate(base: Vec<Domain>, levels: &[u32]) -> Result<Vec<Domain>, TopologyError> {
    let blocks = base.len();
    let mut domains = base;
    // Position of the first domain of the level below, and the blocks in each.
    let (mut below, mut width) = (0, 1usize);
    for &level in levels.iter().filter(|level| **level > 0) {
        let first = domains.len();
        let next_width = 1usize << level;
        for group in 0..blocks.div_ceil(next_width) {
            let members = group * next_width..((group + 1) * next_width).min(blocks);
            let names: Vec<&str> = domains[members.clone()].iter().map(|b| &*b.name).collect();
            let name = hostlist::compress(&names).into();
            for child in members.step_by(width) {
                domains[below + child / width].parent = Some(as_u32(first + group));
            }
            domains.push(Domain { name, level, ..Domain::default() });
        }
        (below, width) = (first, next_width);
    }
    if domains.len() > TOPOLOGY_DOMAINS_MAX {
        return error(0, format!("more than {TOPOLOGY_DOMAINS_MAX} blocks and aggregates"));
    }
    Ok(domains)
}
