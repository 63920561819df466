// SPDX-License-Identifier: GPL-3.0-or-later
//! Choice of the next pending request: the one of least urgency key among those in a window, with a
//! bound on the times that each of them is overtaken.

use std::collections::VecDeque;

/// A pending request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Shape of the request, as a number of the caller's.
    pub shape: u32,
    /// Number of later requests that went first.
    pub overtaken: u32,
}

/// A window of pending requests, in the order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Window {
    waiting: VecDeque<Waiting>,
    overtakes_max: u32,
    overtaken_max: u32,
}

impl Window {
    /// A window in which no request is overtaken more often than `most` times.
    pub fn new(overtakes_max: u32) -> Self {
        Self { overtakes_max, ..Self::default() }
    }

    /// Number of requests in the window.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Largest number of times that a request was overtaken so far.
    pub fn overtaken_max(&self) -> u32 {
        self.overtaken_max
    }

    /// A request arrives.
    pub fn push(&mut self, shape: u32) {
        self.waiting.push_back(Waiting { shape, overtaken: 0 });
    }

    /// Drops requests by shape; returns how many were dropped.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|pod| keep(pod.shape));
        before - self.waiting.len()
    }

    /// Takes the next request: of the least key, and of equal keys the first; the oldest if it was
    /// overtaken as often as allowed. No request is overtaken more often than the oldest, as one
    /// that overtakes another overtakes the oldest.
    pub fn take(&mut self, key: impl Fn(u32) -> f64) -> Option<u32> {
        let oldest = self.waiting.front()?;
        let at = if oldest.overtaken >= self.overtakes_max {
            0
        } else {
            let keys = self.waiting.iter().map(|pod| key(pod.shape)).enumerate();
            keys.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(at, _)| at)
        };
        for pod in self.waiting.iter_mut().take(at) {
            pod.overtaken += 1;
            self.overtaken_max = self.overtaken_max.max(pod.overtaken);
        }
        self.waiting.remove(at).map(|pod| pod.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_key_goes_first_until_the_bound() {
        let mut window = Window::new(2);
        for shape in [9, 5, 1, 2, 3] {
            window.push(shape);
        }
        let order: Vec<u32> = std::iter::from_fn(|| window.take(f64::from)).collect();
        assert_eq!(order, [1, 2, 9, 5, 3], "both were overtaken twice, then they go");
        assert_eq!((window.overtaken_max(), window.len()), (2, 0));
        window.push(4);
        window.push(6);
        assert_eq!(window.retain(|shape| shape != 4), 1);
        assert_eq!((window.take(f64::from), window.len()), (Some(6), 0));
    }
}
