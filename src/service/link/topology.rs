// SPDX-License-Identifier: GPL-3.0-or-later
//! The topologies of a full state, joined from their parts.

use log::warn;
use phalanx_core::snapshot::Table;
use phalanx_core::topology::{self, Kind, Parts, Topology};
use phalanx_ffi::wire::{self, WireName};

use crate::link::protocol_error::ProtocolError;

/// One topology in the form that the plugin sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RawTopology {
    index: u16,
    /// Name of the topology, `default` before Slurm 25.05.
    name: String,
    /// Slurm's plugin: `flat`, `tree`, `block` or another.
    plugin: String,
    /// Whether partitions that name no topology use this one.
    default: bool,
    /// Whether Slurm could not tell the topology, so that what depends on it is left to Slurm.
    unknown: bool,
    /// BlockSizes of the configuration where the text lacks them; else empty.
    block_sizes: Vec<u32>,
    /// Text as `scontrol show topology` prints it.
    text: Vec<u8>,
}

impl RawTopology {
    /// Reads a topology's text; a text that is not understood makes the topology unknown, and is
    /// logged.
    fn read(&self, slurm: u32, table: &Table) -> Topology {
        let unknown = || Topology::from(Parts { kind: Kind::Unknown, ..self.head(slurm) });
        if self.unknown {
            warn!("topology {}: Slurm cannot tell it", self.name);
            return unknown();
        }
        let text = match std::str::from_utf8(&self.text) {
            Ok(text) => text,
            Err(error) => {
                warn!("topology {}: {error}", self.name);
                return unknown();
            }
        };
        topology::parse(text, self.head(slurm), table).unwrap_or_else(|error| {
            warn!("{}: {error}", self.name);
            unknown()
        })
    }

    fn head(&self, slurm: u32) -> Parts {
        let base = self.block_sizes.first().copied().unwrap_or(0);
        let levels =
            self.block_sizes.iter().filter_map(|size| size.checked_div(base)?.checked_ilog2());
        Parts {
            name: self.name.as_str().into(),
            plugin: self.plugin.as_str().into(),
            is_default: self.default,
            slurm,
            block_size: base,
            block_levels: levels.collect(),
            ..Parts::default()
        }
    }
}

/// Reads all topologies of a full state.
pub(super) fn read(raw: &[RawTopology], slurm: u32, table: &Table) -> Vec<Topology> {
    raw.iter().map(|topology| topology.read(slurm, table)).collect()
}

/// The topologies of a sync, in the order of their index.
#[derive(Debug, Default)]
pub(super) struct Topologies {
    whole: Vec<RawTopology>,
    part: Option<RawTopology>,
}

impl Topologies {
    /// Takes one message, a topology or a part of one.
    pub(super) fn add(&mut self, message: &wire::Topology<'_>) -> Result<(), ProtocolError> {
        let order = |when| ProtocolError::Order { got: wire::Type::Topology, when };
        let head = message.head;
        let mut topology = match self.part.take() {
            Some(part) if !message.is_first() && part.index == head.index => part,
            Some(_) => return Err(order("before the last part of another")),
            None if !message.is_first() => return Err(order("without its first part")),
            None => self.first(head).ok_or_else(|| order("twice, or before one below it"))?,
        };
        if topology.text.len() + message.text.len() > wire::PHX_TOPOLOGY_BYTES_MAX as usize {
            return Err(order("with too long a text"));
        }
        topology.text.extend_from_slice(message.text);
        if message.is_last() {
            self.whole.push(topology);
        } else {
            self.part = Some(topology);
        }
        Ok(())
    }

    /// Returns a topology without its text; `None` for an index out of order.
    fn first(&self, head: &wire::TopologyHead) -> Option<RawTopology> {
        let flags = u32::from(head.flags);
        (usize::from(head.index) == self.whole.len()).then(|| RawTopology {
            index: head.index,
            name: head.name.name().into_owned(),
            plugin: head.plugin.name().into_owned(),
            default: flags & wire::PHX_TOPOLOGY_DEFAULT != 0,
            unknown: flags & wire::PHX_TOPOLOGY_UNKNOWN != 0,
            block_sizes: head.block_sizes.iter().copied().take_while(|&size| size > 0).collect(),
            text: Vec::new(),
        })
    }

    /// Returns all topologies, or an error if a last part is missing.
    pub(super) fn finish(self) -> Result<Vec<RawTopology>, ProtocolError> {
        match self.part {
            None => Ok(self.whole),
            Some(_) => Err(ProtocolError::Order {
                got: wire::Type::SyncEnd,
                when: "before the last part of a topology",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use phalanx_core::snapshot::TableNode;
    use wire::{PHX_PART_FIRST, PHX_PART_LAST, PHX_TOPOLOGY_DEFAULT, TopologyHead};
    use zerocopy::FromZeros;

    use super::*;

    fn add(topologies: &mut Topologies, index: u16, flags: u32, text: &[u8]) -> Result<(), String> {
        let head = TopologyHead {
            index,
            flags: u16::try_from(flags).unwrap(),
            name: wire::wire_name("top").unwrap(),
            plugin: wire::wire_name("block").unwrap(),
            block_sizes: [4, 8, 0, 0, 0, 0, 0, 0],
            ..TopologyHead::new_zeroed()
        };
        let message = wire::Topology { head: &head, text };
        topologies.add(&message).map_err(|error| error.to_string())
    }

    #[test]
    fn parts_join_to_one_text() {
        let mut topologies = Topologies::default();
        let whole = PHX_PART_FIRST | PHX_PART_LAST;
        add(&mut topologies, 0, PHX_PART_FIRST | PHX_TOPOLOGY_DEFAULT, b"Block").unwrap();
        add(&mut topologies, 0, PHX_TOPOLOGY_DEFAULT, b"Name").unwrap();
        add(&mut topologies, 0, PHX_PART_LAST, b"=b0\n").unwrap();
        add(&mut topologies, 1, whole, b"").unwrap();
        let found = topologies.finish().unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].text, b"BlockName=b0\n");
        assert_eq!((&*found[0].name, &*found[0].plugin), ("top", "block"));
        assert_eq!(found[0].block_sizes, [4, 8]);
        assert!(found[0].default && !found[1].default && !found[1].unknown);
    }

    #[test]
    fn parts_out_of_turn_are_refused() {
        let whole = PHX_PART_FIRST | PHX_PART_LAST;
        let refused = |parts: &[(u16, u32)], why: &str| {
            let mut topologies = Topologies::default();
            let (last, before) = parts.split_last().unwrap();
            for &(index, flags) in before {
                add(&mut topologies, index, flags, b"x").unwrap();
            }
            let error = add(&mut topologies, last.0, last.1, b"x").unwrap_err();
            assert_eq!(error, format!("TOPOLOGY came {why}"));
        };
        refused(&[(0, PHX_PART_LAST)], "without its first part");
        refused(&[(1, whole)], "twice, or before one below it");
        refused(&[(0, whole), (0, whole)], "twice, or before one below it");
        refused(&[(0, PHX_PART_FIRST), (1, 0)], "before the last part of another");
        refused(&[(0, PHX_PART_FIRST), (0, whole)], "before the last part of another");
        let mut open = Topologies::default();
        add(&mut open, 0, PHX_PART_FIRST, b"x").unwrap();
        let error = open.finish().unwrap_err().to_string();
        assert_eq!(error, "SYNC_END came before the last part of a topology");
    }

    #[test]
    fn a_text_without_end_is_refused() {
        let mut topologies = Topologies::default();
        let text = vec![b'x'; wire::PHX_TOPOLOGY_TEXT_MAX as usize];
        let most = wire::PHX_TOPOLOGY_BYTES_MAX / wire::PHX_TOPOLOGY_TEXT_MAX;
        for part in 0..most {
            add(&mut topologies, 0, if part == 0 { PHX_PART_FIRST } else { 0 }, &text).unwrap();
        }
        let error = add(&mut topologies, 0, PHX_PART_LAST, b"x").unwrap_err();
        assert_eq!(error, "TOPOLOGY came with too long a text");
    }

    #[test]
    fn texts_become_topologies_over_the_table() {
        let node = |name: &str| TableNode { name: name.into(), ..TableNode::default() };
        let nodes = ["n0", "n1", "n2", "n3"].map(node).to_vec();
        let table = Table { nodes, ..Table::default() };
        let raw = |plugin: &str, text: &[u8]| RawTopology {
            name: "top".into(),
            plugin: plugin.into(),
            text: text.to_vec(),
            block_sizes: vec![2, 4],
            ..RawTopology::default()
        };
        let tree = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]\n\
                    SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[2-3]\n\
                    SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=s[0-1]\n";
        let blocks =
            "BlockName=b0 BlockIndex=0 Nodes=n[0-1]\nBlockName=b1 BlockIndex=1 Nodes=n[2-3]\n";
        let found = read(
            &[
                raw("tree", tree.as_bytes()),
                raw("block", blocks.as_bytes()),
                raw("tree", b"Switch"),
                raw("tree", &[0xff]),
                RawTopology { unknown: true, ..raw("tree", b"") },
                raw("flat", b""),
            ],
            0x0017_0b00,
            &table,
        );
        let kinds: Vec<Kind> = found.iter().map(Topology::kind).collect();
        use Kind::{Block, Flat, Tree, Unknown};
        assert_eq!(kinds, [Tree, Block, Unknown, Unknown, Unknown, Flat]);
        assert_eq!(found[0].leaf_count(), 2);
        assert_eq!(found[1].parts().block_size, 2);
        assert_eq!(found[1].parts().block_levels, [0, 1]);
        assert_eq!(&**found[2].name(), "top");
    }
}
