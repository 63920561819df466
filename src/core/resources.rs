// SPDX-License-Identifier: GPL-3.0-or-later
//! One amount for each resource dimension.

use super::Amount;

/// Amounts by dimension: a request, a node's total, what is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVec(Vec<Amount>);

impl ResourceVec {
    /// Nothing, in `dims` dimensions.
    #[must_use]
    pub fn zero(dims: usize) -> Self {
        Self(vec![Amount::ZERO; dims])
    }

    /// The given amounts, one for each dimension.
    #[must_use]
    pub fn new(amounts: Vec<Amount>) -> Self {
        Self(amounts)
    }

    /// The amounts, one for each dimension.
    #[must_use]
    pub fn as_slice(&self) -> &[Amount] {
        &self.0
    }

    /// Number of dimensions.
    #[must_use]
    pub fn dims(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is asked for or in use in any dimension.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|amount| *amount == Amount::ZERO)
    }

    /// Adds `other`, saturating at [`Amount::MAX`] in each dimension.
    pub fn add(&mut self, other: &[Amount]) {
        for (own, more) in self.0.iter_mut().zip(other) {
            *own = own.saturating_add(*more);
        }
    }

    /// Subtracts `other`, stopping at zero in each dimension.
    pub fn sub(&mut self, other: &[Amount]) {
        for (own, less) in self.0.iter_mut().zip(other) {
            *own = own.saturating_sub(*less);
        }
    }
}

impl std::ops::Deref for ResourceVec {
    type Target = [Amount];

    fn deref(&self) -> &[Amount] {
        &self.0
    }
}

impl FromIterator<Amount> for ResourceVec {
    fn from_iter<I: IntoIterator<Item = Amount>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}
