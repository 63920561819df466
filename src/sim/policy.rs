// SPDX-License-Identifier: GPL-3.0-or-later
//! Names of the policies.

/// The policy that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// By arrival; the first that does not fit blocks all.
    Fcfs,
    /// EASY backfill with the users' limits.
    Easy,
    /// EASY with the mean of the user's two latest runtimes, shortest first.
    EasyPlus,
    /// Slurm's `select/cons_tres`: first node that fits, by Weight.
    Stock,
    /// The node with least left.
    BestFit,
    /// The node whose free vector points least along the request.
    DotProduct,
    /// Kubernetes' NodeResourcesBalancedAllocation.
    K8sBalanced,
    /// Fragmentation gradient descent (Weng et al., ATC'23).
    Fgd,
    /// The balance method as published.
    BalanceSeed,
    /// The improved balance method.
    Balance,
    /// The gang method as published.
    GangSeed,
    /// The improved gang method.
    Gang,
    /// Slurm's own scheduling: main pass, backfill with limits, first node that fits.
    Slurm,
    /// The same with the daemon: its order of starts and its choice of nodes.
    Phalanx,
    /// The order and the backfill of the research: more than Slurm can be made to do.
    Research,
}

/// All policies with their names.
pub const POLICIES: [(&str, Policy); 15] = [
    ("fcfs", Policy::Fcfs),
    ("easy", Policy::Easy),
    ("easy++", Policy::EasyPlus),
    ("stock", Policy::Stock),
    ("best-fit", Policy::BestFit),
    ("dot-product", Policy::DotProduct),
    ("k8s-balanced", Policy::K8sBalanced),
    ("fgd", Policy::Fgd),
    ("balance-seed", Policy::BalanceSeed),
    ("balance", Policy::Balance),
    ("gang-seed", Policy::GangSeed),
    ("gang", Policy::Gang),
    ("slurm", Policy::Slurm),
    ("phalanx", Policy::Phalanx),
    ("research", Policy::Research),
];

impl Policy {
    /// The policy of a name.
    ///
    /// # Errors
    /// One line with the names there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = POLICIES.iter().find(|(known, _)| *known == name);
        found.map(|(_, policy)| *policy).ok_or_else(|| {
            let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            format!("expected one of {}, got {name:?}", names.join(", "))
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        POLICIES.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}
