// SPDX-License-Identifier: GPL-3.0-or-later
//! Bounds of connections, threads and memory, for each client and in all.
//!
//! Users who may not change anything share small bounds, so that none of them can keep
//! administrators, agents or the other users from asking, or fill the memory of the host.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use phalanx_core::limits::{
    API_ADDRESS_CONNECTIONS_MAX, API_ANSWERS_BYTES_MAX, API_BLOCKING_THREADS, API_BODIES_BYTES_MAX,
    API_CONNECTIONS_MAX, API_LOCAL_CONNECTIONS_MAX, API_PUBLIC_THREADS, API_USER_CONNECTIONS_MAX,
    API_USER_QUESTIONS_MAX, MUNGE_THREADS,
};
use phalanx_ffi::locks::lock;

/// Owner of connections and questions that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// A user who may change the daemon: bounded only in all.
    Trusted,
    /// A local user, or one known by a credential.
    User(u32),
    /// A client at an address.
    Address(IpAddr),
}

/// Counts of the API for the status page.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections refused because of a bound.
    pub connections_refused: AtomicU64,
    /// Requests of users without the right to make them.
    pub forbidden: AtomicU64,
    /// Bodies and answers refused for lack of room.
    pub no_room: AtomicU64,
    /// Connections closed because their client did not read.
    pub slow_readers: AtomicU64,
    /// Whether slurm.conf is known and hides nothing from users; until then it may.
    shown: AtomicBool,
    /// Reason why a configured TCP listener does not listen.
    pub listen_error: Mutex<Option<String>>,
}

impl Counters {
    /// Sets whether slurm.conf's `PrivateData` hides anything from users.
    pub fn hide(&self, hidden: bool) {
        self.shown.store(!hidden, Ordering::Relaxed);
    }

    /// Returns whether slurm.conf lets users see data of other users.
    pub fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the kibibytes that a number of bytes takes, for semaphores.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// The bounds and their use.
#[derive(Debug)]
pub(super) struct Doors {
    pub(super) counters: Arc<Counters>,
    connections: Mutex<HashMap<Client, usize>>,
    /// Simultaneous questions of users who may change the daemon, and of others.
    trusted: Semaphore,
    public: Semaphore,
    /// Simultaneous questions by user.
    questions: Mutex<HashMap<Client, Weak<Semaphore>>>,
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// Threads that may wait for munged.
    pub(super) munge: Arc<Semaphore>,
}

impl Doors {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        let room = |bytes: usize| Arc::new(Semaphore::new(bytes / 1024));
        Self {
            counters,
            connections: Mutex::default(),
            trusted: Semaphore::new(API_BLOCKING_THREADS),
            public: Semaphore::new(API_PUBLIC_THREADS),
            questions: Mutex::default(),
            bodies: room(API_BODIES_BYTES_MAX),
            answers: room(API_ANSWERS_BYTES_MAX),
            munge: Arc::new(Semaphore::new(MUNGE_THREADS)),
        }
    }

    /// Takes the place of a connection, held until dropped; `None`: there are too many.
    pub(super) fn connect(self: &Arc<Self>, client: Client) -> Option<Place> {
        let mut connections = lock(&self.connections);
        let (local, max) = match client {
            Client::Trusted => (false, API_CONNECTIONS_MAX),
            Client::User(_) => (true, API_USER_CONNECTIONS_MAX),
            Client::Address(_) => (false, API_ADDRESS_CONNECTIONS_MAX),
        };
        let counted = |c: &Client| matches!(c, Client::User(_)) == local;
        let all: usize = connections.iter().filter(|(c, _)| counted(c)).map(|(_, n)| n).sum();
        let all_max = if local { API_LOCAL_CONNECTIONS_MAX } else { API_CONNECTIONS_MAX };
        let own = connections.entry(client).or_default();
        if *own >= max || all >= all_max {
            if *own == 0 {
                connections.remove(&client);
            }
            Counters::count(&self.counters.connections_refused);
            return None;
        }
        *own += 1;
        Some(Place { doors: Arc::clone(self), client })
    }

    /// Returns the number of present connections.
    pub(super) fn connected(&self) -> usize {
        lock(&self.connections).values().sum()
    }

    /// Waits for a turn to ask; returns `None` only at shutdown.
    pub(super) async fn turn(&self, client: Client) -> Option<Turn<'_>> {
        if client == Client::Trusted {
            let turn = self.trusted.acquire().await.ok()?;
            return Some(Turn { own: None, _turn: turn });
        }
        let own = self.questions_of(client).acquire_owned().await.ok()?;
        let turn = self.public.acquire().await.ok()?;
        Some(Turn { own: Some(own), _turn: turn })
    }

    fn questions_of(&self, client: Client) -> Arc<Semaphore> {
        let mut questions = lock(&self.questions);
        if let Some(own) = questions.get(&client).and_then(Weak::upgrade) {
            return own;
        }
        questions.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(API_USER_QUESTIONS_MAX));
        questions.insert(client, Arc::downgrade(&own));
        own
    }

    /// Counts the memory of an answer until it was sent; `None`: there is no room.
    pub(super) fn answer(
        &self,
        bytes: Vec<u8>,
        own: Option<OwnedSemaphorePermit>,
    ) -> Option<Bytes> {
        let Ok(room) = Arc::clone(&self.answers).try_acquire_many_owned(kib(bytes.len())) else {
            Counters::count(&self.counters.no_room);
            return None;
        };
        Some(Bytes::from_owner(Counted { bytes, _room: room, _own: own }))
    }

    /// Takes room for more bytes of bodies; `None`: there is none.
    pub(super) fn body(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.bodies).try_acquire_many_owned(kib(bytes)).ok();
        if room.is_none() {
            Counters::count(&self.counters.no_room);
        }
        room
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place {
    doors: Arc<Doors>,
    client: Client,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = lock(&self.doors.connections);
        if let Some(count) = connections.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.client);
            }
        }
    }
}

/// A turn of one question.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    /// Permit of the user's own bound, kept until the answer was sent.
    pub(super) own: Option<OwnedSemaphorePermit>,
    _turn: tokio::sync::SemaphorePermit<'a>,
}

struct Counted {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
    _own: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_few_connections_and_others_still_theirs() {
        let doors = Arc::new(Doors::new(Arc::default()));
        let places: Vec<_> = std::iter::from_fn(|| doors.connect(Client::User(7))).collect();
        assert_eq!(places.len(), API_USER_CONNECTIONS_MAX);
        assert!(doors.connect(Client::User(8)).is_some());
        assert!(doors.connect(Client::Trusted).is_some());
        let others: Vec<_> = (100..).map_while(|uid| doors.connect(Client::User(uid))).collect();
        assert_eq!(others.len(), API_LOCAL_CONNECTIONS_MAX - API_USER_CONNECTIONS_MAX);
        assert!(doors.connect(Client::Trusted).is_some());
        drop(places);
        assert!(doors.connect(Client::User(7)).is_some());
        assert_eq!(doors.counters.connections_refused.load(Ordering::Relaxed), 2);
        drop(others);
        assert_eq!(doors.connected(), 0);
    }

    #[test]
    fn memory_is_taken_until_the_bytes_are_gone() {
        let doors = Doors::new(Arc::default());
        let most = API_ANSWERS_BYTES_MAX / 4;
        let held: Vec<_> = std::iter::from_fn(|| doors.answer(vec![0; most], None)).collect();
        assert_eq!(held.len(), 4);
        assert!(doors.answer(vec![0; 1], None).is_none());
        let slices: Vec<_> = held.iter().map(|bytes| bytes.slice(0..1)).collect();
        drop(held);
        assert!(doors.answer(vec![0; 1], None).is_none(), "a slice keeps the whole");
        drop(slices);
        assert!(doors.answer(vec![0; 1], None).is_some());
        let body = doors.body(API_BODIES_BYTES_MAX);
        assert!(body.is_some() && doors.body(1).is_none());
    }
}
