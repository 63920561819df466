// SPDX-License-Identifier: GPL-3.0-or-later
//! Damaged requests on a connection, through everything before the daemon's answer.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::io;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use phalanx_fuzz::{kind_of, run};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use super::auth;
use super::backend::{AuditQuery, Backend};
use super::doors::{Client, Doors};
use super::handler::Shared;
use super::listen::Serving;
use super::peer::{Access, Peer};
use super::routes::routes;
use crate::collect::{Collect, DataService, Now, Settings};
use crate::failure::Failure;
use phalanx_core::run::Run;
use phalanx_messages::collect::UsedValues;
use phalanx_messages::rest::{
    ActivityReport, AuditReport, DecisionsReport, DrillReport, EnergyReport, Explain,
    ForgiveReport, ImportReport, NodesReport, PlanReport, RecordRequest, RecordingStatus,
    ReloadReport, RunJoules, RunsReport, ShadowReport, SpeedsReport, Status,
};
use phalanx_methods::data_jobs::blockmap::BlockMap;
use phalanx_planner::state::State as LiveState;

const WORDS: [&str; 30] = [
    "GET ",
    "POST ",
    "PUT ",
    "PATCH ",
    "DELETE ",
    "OPTIONS ",
    " HTTP/1.1\r\n",
    "\r\n",
    ": ",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Content-Type: application/json\r\n",
    "/v1/status",
    "/v1/history/import",
    "/v1/record",
    "/v1/agents/n1/sync",
    "/v1/data/x/n1",
    "/v1/use/share.capability",
    "/metrics",
    "%2e%2e%2f",
    "?",
    "since=",
    "&limit=",
    "null",
    "[{}]",
    "\"",
    "18446744073709551616",
    "1e400",
    "0\r\n\r\n",
];

/// A daemon that knows nothing yet.
pub(super) struct Empty(DataService);

impl Empty {
    pub(super) fn new() -> Self {
        let collect = Arc::new(Collect::new(Settings::default(), Now::read()));
        Self(DataService { collect, agent_uids: Vec::new() })
    }
}

fn none<T>() -> Result<T, Failure> {
    Err(Failure::Unavailable("nothing yet".to_owned()))
}

impl Backend for Empty {
    fn status(&self) -> Status {
        Status::default()
    }
    fn queue(&self) -> super::metrics::Queue {
        <_>::default()
    }
    fn nodes(&self) -> Result<NodesReport, Failure> {
        none()
    }
    fn explain(&self, _: &str, user: Option<u32>) -> Result<Explain, Failure> {
        Err(Failure::Conflict(format!("for {user:?}")))
    }
    fn block_map(&self, _: u32, _: Option<u32>) -> Result<Arc<BlockMap>, Failure> {
        none()
    }
    fn shadow(&self, _: Option<u64>) -> Result<ShadowReport, Failure> {
        none()
    }
    fn report(&self, _: Option<u64>) -> Result<ActivityReport, Failure> {
        none()
    }
    fn audit(&self, _: &AuditQuery, user: Option<u32>) -> Result<AuditReport, Failure> {
        Err(Failure::Conflict(format!("for {user:?}")))
    }
    fn latest(&self, _: Option<u32>) -> Result<DecisionsReport, Failure> {
        none()
    }
    fn plan(&self) -> Result<PlanReport, Failure> {
        none()
    }
    fn state(&self) -> Result<LiveState, Failure> {
        none()
    }
    fn runs(&self, _: Option<u64>, _: Option<u32>) -> Result<RunsReport, Failure> {
        none()
    }
    fn speeds(&self, _: Option<&str>, _: Option<&str>) -> Result<SpeedsReport, Failure> {
        none()
    }
    fn energy(&self) -> Result<EnergyReport, Failure> {
        none()
    }
    fn data_service(&self) -> &DataService {
        &self.0
    }
    fn used(
        &self,
        _: &str,
        _: Option<Vec<String>>,
        _: Option<&str>,
    ) -> Result<UsedValues, Failure> {
        none()
    }
    fn metered(&self, _: Option<Vec<RunJoules>>) -> Option<(i64, i64)> {
        None
    }
    fn import(&self, runs: Vec<Run>) -> Result<ImportReport, Failure> {
        Err(Failure::Conflict(format!("{} runs", runs.len())))
    }
    fn reload(&self) -> ReloadReport {
        ReloadReport::default()
    }
    fn forgive(&self, _: &str) -> Result<ForgiveReport, Failure> {
        none()
    }
    fn drill(&self) -> DrillReport {
        DrillReport::default()
    }
    fn record(&self, _: RecordRequest) -> Result<RecordingStatus, Failure> {
        none()
    }
}

/// A client that sends these bytes, waits for the answer, and then disconnects.
struct Wire {
    input: Vec<u8>,
    sent: usize,
    /// Number of requests that are being answered; the client stays while there are any.
    under_way: Arc<AtomicUsize>,
    /// Number of consecutive reads without any bytes.
    idle: u32,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.sent == self.input.len() {
            // Its task goes on when the answer is there, or at once.
            if self.under_way.load(Relaxed) > 0 {
                return Poll::Pending;
            }
            self.idle += 1;
            if self.idle < 4 {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            return Poll::Ready(Ok(()));
        }
        let end = self.input.len().min(self.sent + buf.remaining());
        buf.put_slice(&self.input[self.sent..end]);
        self.sent = end;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answer.lock().unwrap().extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns the answer to these bytes.
async fn answer(
    serving: Serving,
    input: &[u8],
    peer: Peer,
    under_way: Arc<AtomicUsize>,
) -> Vec<u8> {
    let place = serving.shared.doors.connect(Client::Trusted).unwrap();
    let answer = Arc::new(Mutex::new(Vec::new()));
    let (input, answered) = (input.to_vec(), Arc::clone(&answer));
    let wire = Wire { input, sent: 0, under_way, idle: 0, answer: answered };
    serving.connection(wire, peer, place).await;
    std::mem::take(&mut answer.lock().unwrap())
}

#[test]
fn requests() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_stop, stop) = watch::channel(false);
    let doors = Arc::new(Doors::new(Arc::default()));
    doors.counters.hide(false);
    let access = Access { public_read: true, allowed_uids: vec![7], ..Access::default() };
    let shared = Arc::new(Shared {
        backend: Arc::new(Empty::new()),
        access,
        doors: Arc::clone(&doors),
        stop,
    });
    let bounded = Arc::clone(&shared);
    let check = move |request, next| auth::bounded(Arc::clone(&bounded), request, next);
    let under_way = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&under_way);
    // Inside of the one that reads bodies, which the client may cut off.
    let count = move |request: Request, next: Next| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Relaxed);
            let answer = next.run(request).await;
            counted.fetch_sub(1, Relaxed);
            answer
        }
    };
    let routes = routes(Arc::clone(&shared)).layer(from_fn(count)).layer(from_fn(check));
    let serving = Serving { routes, shared };
    run("http", &WORDS, |input| {
        let ways = [7, 8].map(|uid| {
            let peer = Peer { uid: Some(uid), ..Peer::default() };
            let answered =
                runtime.block_on(answer(serving.clone(), input, peer, Arc::clone(&under_way)));
            let text = String::from_utf8_lossy(&answered);
            let body = text.rsplit("\r\n\r\n").next().unwrap_or_default();
            let known = text.is_empty() || text.starts_with("HTTP/1.");
            assert!(known && !text.starts_with("HTTP/1.1 500"), "{text}");
            kind_of(text.lines().next().unwrap_or_default())
                ^ kind_of(&body.replace(['"', '`'], " ")).rotate_left(9)
        });
        assert_eq!(doors.connected(), 0);
        ways[0] ^ ways[1].rotate_left(21)
    });
}
