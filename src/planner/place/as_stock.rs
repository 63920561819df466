// SPDX-License-Identifier: GPL-3.0-or-later
//! Stock's own choice of nodes at the moment of an ask.

use super::candidates::Candidates;
use super::topology::{Form, by_switches};
use crate::cluster::Cluster;
use crate::stock::{Ask, Offer, Refused, Taken, choose, offers};
use phalanx_core::NodeIdx;
use phalanx_core::layout::BySocket;
use phalanx_core::shape::Shape;
use phalanx_core::topology::{Kind, Topology};

/// Tier and Weight of a candidate, as Slurm sees them.
pub(super) fn class_of(cluster: &Cluster, candidates: Candidates<'_>, node: NodeIdx) -> (u32, u32) {
    match candidates.classes() {
        Some(classes) => classes.key(node).unwrap_or((u32::MAX, 0)),
        None => (0, cluster.weight(node)),
    }
}

/// The nodes that stock would take of candidates in these classes.
pub(super) fn stock_choice(
    cluster: &Cluster,
    forms: &[Form],
    shape: &Shape,
    candidates: Candidates<'_>,
    nodes: impl Iterator<Item = NodeIdx>,
    class: impl Fn(NodeIdx) -> (u32, u32),
) -> Result<Vec<Taken>, Refused> {
    let ask = Ask::new(shape)?;
    let topology = topology_of(cluster, forms, shape)?;
    let offers = offers_of(cluster, shape, candidates, nodes, class);
    choose(&ask, &offers, cluster.table(), topology).map(|chosen| chosen.taken)
}

/// Amounts that a job could have of the nodes, leaving out cores that it may not use.
pub(super) fn offers_of(
    cluster: &Cluster,
    shape: &Shape,
    candidates: Candidates<'_>,
    nodes: impl Iterator<Item = NodeIdx>,
    class: impl Fn(NodeIdx) -> (u32, u32),
) -> Vec<Offer> {
    let kept = |node: NodeIdx| {
        let kept = candidates.excluded().iter().find(|kept| kept.node == node);
        kept.map_or_else(BySocket::default, |kept| kept.cores)
    };
    offers(cluster, shape, nodes, class, kept)
}

/// The topology by which stock chooses; `None`: it uses none.
pub(super) fn topology_of<'a>(
    cluster: &'a Cluster,
    forms: &'a [Form],
    shape: &Shape,
) -> Result<Option<(&'a Topology, &'a Form)>, Refused> {
    let table = cluster.table();
    if table.topologies.is_empty() || !by_switches(&shape.topology) {
        return Ok(None);
    }
    let unknown = Refused::Unknown("topology not known");
    let (at, topology) = table.topology_at(shape.topology.index).ok_or(unknown)?;
    match (forms.get(at).ok_or(unknown)?, topology.kind()) {
        (Form::None, Kind::Flat) => Ok(None),
        (Form::None, _) => Err(unknown),
        (form, _) => Ok(Some((topology, form))),
    }
}
