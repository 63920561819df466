// SPDX-License-Identifier: GPL-3.0-or-later
//! Bounds of connections, threads and memory, for each client and in all.
//!
//! Users who may not change anything share small bounds, so that none of them can keep
//! administrators, agents or the other users from asking, or fill the memory of the host.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use axum::body::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use phalanx_core::limits::{
    API_ADDRESS_STRANGERS_MAX, API_ANSWERS_BYTES_MAX, API_BLOCKING_THREADS, API_BODIES_BYTES_MAX,
    API_CONNECTIONS_MAX, API_LOCAL_CONNECTIONS_MAX, API_PUBLIC_THREADS, API_REFUSALS,
    API_STRANGERS_MAX, API_TRUSTED_CONNECTIONS_MAX, API_USER_CONNECTIONS_MAX,
    API_USER_QUESTIONS_MAX, MUNGE_THREADS,
};
use phalanx_core::number::as_u32;
use phalanx_ffi::locks::lock;

/// Owner of connections and questions that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Client {
    /// A user who may change the daemon: bounded only in all.
    Trusted,
    /// A local user, or one known by a credential.
    User(u32),
    Address(IpAddr),
}

/// Counts of the API for the status page.
#[derive(Debug, Default)]
pub struct Counters {
    pub connections_refused: AtomicU64,
    /// Number of requests of users without the right to make them.
    pub forbidden: AtomicU64,
    /// Number of bodies and answers refused for lack of room.
    pub no_room: AtomicU64,
    /// Connections closed because their client did not read.
    pub slow_readers: AtomicU64,
    /// Whether slurm.conf is known and hides nothing from users, which it may until known.
    shown: AtomicBool,
    /// Reason why a configured TCP listener does not listen.
    pub listen_error: Mutex<Option<String>>,
}

impl Counters {
    /// Sets whether slurm.conf's `PrivateData`, or a comparison, hides anything from users.
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
    as_u32(bytes.div_ceil(1024))
}

/// A connection over TCP without a valid credential yet.
#[derive(Debug)]
struct Stranger {
    address: IpAddr,
    leave: Arc<Notify>,
}

/// The bounds and their use.
#[derive(Debug)]
pub(super) struct Doors {
    pub(super) counters: Arc<Counters>,
    /// Connections whose user is known, those over TCP apart.
    connections: Mutex<HashMap<(Client, bool), usize>>,
    /// Connections over TCP without a valid credential yet, the oldest first.
    strangers: Mutex<VecDeque<Stranger>>,
    /// Clients beyond the bounds that are told so at once.
    pub(super) refusals: Arc<Semaphore>,
    /// Simultaneous questions of users who may change the daemon, and of others.
    trusted: Arc<Semaphore>,
    public: Arc<Semaphore>,
    /// Simultaneous questions by user.
    questions: Mutex<HashMap<Client, Weak<Semaphore>>>,
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// Permits to wait for munged, and those of them that unknown clients may have.
    pub(super) munge: Arc<Semaphore>,
    checks: Arc<Semaphore>,
}

impl Doors {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        let room = |bytes: usize| Arc::new(Semaphore::new(bytes / 1024));
        Self {
            counters,
            connections: Mutex::default(),
            strangers: Mutex::default(),
            refusals: Arc::new(Semaphore::new(API_REFUSALS)),
            trusted: Arc::new(Semaphore::new(API_BLOCKING_THREADS)),
            public: Arc::new(Semaphore::new(API_PUBLIC_THREADS)),
            questions: Mutex::default(),
            bodies: room(API_BODIES_BYTES_MAX),
            answers: room(API_ANSWERS_BYTES_MAX),
            munge: Arc::new(Semaphore::new(MUNGE_THREADS)),
            checks: Arc::new(Semaphore::new(MUNGE_THREADS / 2)),
        }
    }

    /// Takes the place of a user's connection, held until dropped; `None`: there are too many.
    pub(super) fn connect(self: &Arc<Self>, client: Client) -> Option<Place> {
        self.take(client, false)?;
        Some(self.place(client, Arc::default()))
    }

    fn place(self: &Arc<Self>, client: Client, leave: Arc<Notify>) -> Place {
        Place { doors: Arc::clone(self), place: Mutex::new((client, false)), leave }
    }

    /// Admits a connection without a user: the oldest such of its address, or of all, leaves.
    pub(super) fn let_in(self: &Arc<Self>, address: IpAddr) -> Place {
        let leave = Arc::new(Notify::new());
        let mut all = lock(&self.strangers);
        let full = all.iter().filter(|of| of.address == address).count();
        let at = all.iter().position(|of| of.address == address);
        let at = at.filter(|_| full >= API_ADDRESS_STRANGERS_MAX);
        let at = at.or((all.len() >= API_STRANGERS_MAX).then_some(0));
        if let Some(oldest) = at.and_then(|at| all.remove(at)) {
            oldest.leave.notify_one();
            Counters::count(&self.counters.connections_refused);
        }
        all.push_back(Stranger { address, leave: Arc::clone(&leave) });
        self.place(Client::Address(address), leave)
    }

    fn take(&self, client: Client, remote: bool) -> Option<()> {
        let mut connections = lock(&self.connections);
        let is_user = |client: &Client| matches!(client, Client::User(_));
        let (max, all_max) = match (is_user(&client), remote) {
            (true, _) => (API_USER_CONNECTIONS_MAX, API_LOCAL_CONNECTIONS_MAX),
            (false, true) => (API_CONNECTIONS_MAX, API_CONNECTIONS_MAX),
            (false, false) => (API_TRUSTED_CONNECTIONS_MAX, API_TRUSTED_CONNECTIONS_MAX),
        };
        let beside = |(c, r): &(Client, bool)| is_user(c) == is_user(&client) && *r == remote;
        let all: usize = connections.iter().filter(|(of, _)| beside(of)).map(|(_, n)| n).sum();
        let own = connections.get(&(client, remote)).copied().unwrap_or(0);
        if own >= max || all >= all_max {
            Counters::count(&self.counters.connections_refused);
            return None;
        }
        connections.insert((client, remote), own + 1);
        Some(())
    }

    /// Returns the number of present connections.
    pub(super) fn connected(&self) -> usize {
        lock(&self.connections).values().sum::<usize>() + lock(&self.strangers).len()
    }

    /// Waits for a turn to ask; returns `None` only at shutdown.
    pub(super) async fn turn(&self, client: Client) -> Option<Turn> {
        if client == Client::Trusted {
            let turn = Arc::clone(&self.trusted).acquire_owned().await.ok()?;
            return Some(Turn { own: None, turn });
        }
        let own = self.questions_of(client).acquire_owned().await.ok()?;
        let turn = Arc::clone(&self.public).acquire_owned().await.ok()?;
        Some(Turn { own: Some(own), turn })
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

    /// Counts the memory of an answer until the answer was sent; `None`: there is no room.
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

    /// Takes room for more bytes of bodies; `None`: there is no room.
    pub(super) fn body(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.bodies).try_acquire_many_owned(kib(bytes)).ok();
        if room.is_none() {
            Counters::count(&self.counters.no_room);
        }
        room
    }
}

#[derive(Debug)]
pub(super) struct Place {
    doors: Arc<Doors>,
    /// Client, and whether it was known by a credential over TCP.
    place: Mutex<(Client, bool)>,
    /// Signal that another connection needs the place.
    pub(super) leave: Arc<Notify>,
}

impl Place {
    /// Returns the client if it has sent no valid credential yet.
    pub(super) fn stranger(&self) -> Option<Client> {
        Some(lock(&self.place).0).filter(|client| matches!(client, Client::Address(_)))
    }

    /// Waits until a client that is not known yet may have its credential checked: an address has
    /// few checks at a time, and all such clients together leave threads for known ones.
    pub(super) async fn check(place: Option<&Self>) -> Option<[OwnedSemaphorePermit; 2]> {
        let (doors, client) = (&place?.doors, place?.stranger()?);
        let own = doors.questions_of(client).acquire_owned().await.ok()?;
        Some([own, Arc::clone(&doors.checks).acquire_owned().await.ok()?])
    }

    /// Gives a known client's place after a first valid credential; returns whether there is one.
    pub(super) fn known(&self, client: Client) -> bool {
        let strange = self.stranger().is_some();
        let taken = !strange || self.doors.take(client, true).is_some();
        if strange && taken {
            self.leave_strangers();
            *lock(&self.place) = (client, true);
        }
        taken
    }

    fn leave_strangers(&self) {
        lock(&self.doors.strangers).retain(|of| !Arc::ptr_eq(&of.leave, &self.leave));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let place = *lock(&self.place);
        self.leave_strangers();
        let mut connections = lock(&self.doors.connections);
        if let Some(count) = connections.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&place);
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Turn {
    /// Permit of the user's own bound, kept until the answer was sent.
    pub(super) own: Option<OwnedSemaphorePermit>,
    /// Permit of a thread, kept until the work is done.
    pub(super) turn: OwnedSemaphorePermit,
}

/// Does work off the runtime's thread, and is the only way to do so. The permits belong to the work
/// and not to its client: one that goes away leaves its work behind, and were its permits free by
/// then, the next would queue before everybody's threads.
pub(super) async fn off_thread<P: Send + 'static, T: Send + 'static>(
    permits: P,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(P, T), JoinError> {
    let work = move || {
        let done = work();
        (permits, done)
    };
    #[expect(clippy::disallowed_methods, reason = "with its permits, as all others have to")]
    tokio::task::spawn_blocking(work).await
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

    /// Goal: a client that asks and goes away leaves no more work behind than there are threads for
    /// its user, and an administrator's work begins at once.
    #[test]
    fn work_that_nobody_waits_for_keeps_its_permits() {
        let doors = Arc::new(Doors::new(Arc::default()));
        let (begun, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(API_BLOCKING_THREADS + API_PUBLIC_THREADS)
            .build()
            .unwrap();
        runtime.block_on(async {
            for at in 0..240u8 {
                let (doors, begun, open) = (doors.clone(), begun.clone(), open.clone());
                let asks = tokio::spawn(async move {
                    let permits = doors.turn(Client::Address([127, 0, 1, at % 24].into())).await;
                    begun.fetch_add(1, Ordering::Relaxed);
                    let wait = move || {
                        while !open.load(Ordering::Relaxed) {
                            std::thread::yield_now();
                        }
                    };
                    off_thread(permits, wait).await.map(|_| ())
                });
                tokio::task::yield_now().await;
                asks.abort();
            }
            let permits = doors.turn(Client::Trusted).await;
            let asked = off_thread(permits, || 7);
            let answer = tokio::time::timeout(std::time::Duration::from_secs(20), asked).await;
            assert_eq!(answer.map(|done| done.unwrap().1), Ok(7));
            assert_eq!(begun.load(Ordering::Relaxed), API_PUBLIC_THREADS as u64);
            open.store(true, Ordering::Relaxed);
        });
    }

    /// Goal: unknown clients push out only each other; a known client has a place of its own.
    #[test]
    fn strangers_have_a_pool_of_their_own() {
        let doors = Arc::new(Doors::new(Arc::default()));
        let byte = |of: usize| u8::try_from(of).unwrap();
        let come = |at: usize| doors.let_in([10, 0, byte(at / 256), byte(at % 256)].into());
        let first: Vec<_> = (0..API_ADDRESS_STRANGERS_MAX).map(|_| come(0)).collect();
        let asked_to_leave = |place: &Place| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let left =
                async { tokio::time::timeout(Default::default(), place.leave.notified()).await };
            runtime.unwrap().block_on(left).is_ok()
        };
        assert!(first[0].known(Client::Trusted) && first[0].stranger().is_none());
        let newest = [come(0), come(0)];
        let left: Vec<bool> = first.iter().map(asked_to_leave).collect();
        assert_eq!(left.iter().position(|left| *left), Some(1), "the oldest that is not known");
        assert_eq!(left.iter().filter(|left| **left).count(), 1);
        let many: Vec<_> = (1..=API_STRANGERS_MAX).map(come).collect();
        assert_eq!(lock(&doors.strangers).len(), API_STRANGERS_MAX);
        let users: Vec<_> = many.iter().take_while(|place| place.known(Client::User(7))).collect();
        assert_eq!(users.len(), API_USER_CONNECTIONS_MAX);
        assert!(
            doors.connect(Client::Trusted).is_some() && doors.connect(Client::User(7)).is_some()
        );
        drop((first, many, newest));
        assert_eq!(doors.connected(), 0);
    }

    /// Goal: credentials of an address that floods keep neither those of other addresses nor, of
    /// known clients, a thread.
    #[test]
    fn credentials_of_strangers_take_turns_by_address() {
        let doors = Arc::new(Doors::new(Arc::default()));
        let come = |at| doors.let_in([10, 0, 0, at].into());
        let (flood, other, known) = ([(); 4].map(|()| come(1)), come(2), come(1));
        assert!(known.known(Client::Trusted));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let soon = tokio::time::timeout(Default::default(), Place::check(Some(&known))).await;
            assert!(soon.is_ok_and(|turn| turn.is_none()), "it needs no turn");
            let mut held = Vec::new();
            for place in &flood[..2] {
                held.push(Place::check(Some(place)).await.unwrap());
            }
            let mut third = Box::pin(Place::check(Some(&flood[2])));
            let mut fourth = Box::pin(Place::check(Some(&flood[3])));
            let mut others = Box::pin(Place::check(Some(&other)));
            // They come one after the other, the address that floods first.
            for wait in [&mut third, &mut fourth, &mut others] {
                assert!(tokio::time::timeout(Default::default(), wait).await.is_err());
            }
            held.pop();
            let got = tokio::select! {
                biased;
                _ = third => "the flood",
                _ = fourth => "the flood",
                _ = others => "the other",
            };
            assert_eq!(got, "the other");
        });
    }

    /// Goal: of the questions that wait, those of one user are few.
    #[test]
    fn questions_take_turns_by_user() {
        let doors = Arc::new(Doors::new(Arc::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut held = Vec::new();
            for _ in 0..API_USER_QUESTIONS_MAX {
                held.push(doors.turn(Client::User(7)).await.unwrap());
            }
            let mut more = Box::pin(doors.turn(Client::User(7)));
            let mut others = Box::pin(doors.turn(Client::User(8)));
            for wait in [&mut more, &mut others] {
                assert!(tokio::time::timeout(Default::default(), wait).await.is_err());
            }
            held.pop();
            let got = tokio::select! {
                biased;
                _ = more => 7,
                _ = others => 8,
            };
            assert_eq!(got, 8);
            assert!(doors.turn(Client::Trusted).await.is_some());
        });
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
