// SPDX-License-Identifier: GPL-3.0-or-later
//! Handlers: each checks the user's rights, takes the request apart and answers in JSON.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request};
use axum::handler::Handler;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use log::warn;
use serde::Serialize;
use tokio::sync::watch;

use super::backend::Backend;
use super::doors::{Doors, Turn, off_thread};
use super::extract::{error, no_room};
use super::peer::{Access, Peer};
use crate::failure::Failure;

/// The bytes of an answer, or a response in their place.
type Made = Result<Result<Vec<u8>, Response>, Failure>;

/// The state behind all routes.
pub(super) struct Shared {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) access: Access,
    pub(super) doors: Arc<Doors>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Shared {
    /// Returns the refusal of a user who may not read.
    pub(super) fn unreadable(&self, peer: Peer) -> Option<Response> {
        if !self.access.may_read(peer) {
            return Some(error(StatusCode::FORBIDDEN, "control.public_read is off"));
        }
        let text = "slurm.conf's PrivateData hides this from users, or was not read yet; your own \
                    jobs: phalanx explain JOB";
        let hidden = !self.doors.counters.is_shown() && !self.access.may_change(peer);
        hidden.then(|| error(StatusCode::FORBIDDEN, text))
    }

    /// Returns the refusal of a user who may not change anything.
    pub(super) fn unchangeable(&self, peer: Peer) -> Option<Response> {
        let text = "changes need root, SlurmUser, phalanxd's user or control.allowed_uids";
        (!self.access.may_change(peer)).then(|| error(StatusCode::FORBIDDEN, text))
    }

    /// Returns the refusal of a user, no administrator, whose agents may not send values.
    pub(super) fn no_agent(&self, peer: Peer) -> Option<Response> {
        let service = self.backend.data_service();
        let agent = peer.uid.is_some_and(|uid| service.agent_uids.contains(&uid));
        let text = "handing in values needs root, SlurmUser, phalanxd's user, \
                    control.allowed_uids or collect.agent_uids";
        (!agent && !self.access.may_change(peer)).then(|| error(StatusCode::FORBIDDEN, text))
    }

    /// Answers in JSON, off the runtime's thread: `ask` may read a database, and its answer may
    /// be large.
    pub(super) async fn answer<T: Serialize>(
        &self,
        peer: Peer,
        ask: impl FnOnce(&dyn Backend) -> Result<T, Failure> + Send + 'static,
    ) -> Response {
        let json = |backend: &dyn Backend| {
            Ok(serde_json::to_vec(&ask(backend)?).map_err(|wrong| {
                warn!("control: answer: {wrong}");
                error(StatusCode::INTERNAL_SERVER_ERROR, "question failed")
            }))
        };
        self.off_thread(peer, "application/json", json).await
    }

    /// Answers off the runtime's thread, in any form, when it is the user's turn. The memory of the
    /// answer is counted until it was sent.
    pub(super) async fn off_thread(
        &self,
        peer: Peer,
        kind: &'static str,
        ask: impl FnOnce(&dyn Backend) -> Made + Send + 'static,
    ) -> Response {
        let Some(permits) = self.doors.turn(self.access.client(peer)).await else {
            return error(StatusCode::SERVICE_UNAVAILABLE, "stopping");
        };
        let backend = Arc::clone(&self.backend);
        match off_thread(permits, move || ask(&*backend)).await {
            Ok((Turn { own, turn }, Ok(Ok(body)))) => {
                drop(turn);
                match self.doors.answer(body, own) {
                    Some(body) => {
                        ([(header::CONTENT_TYPE, kind)], Body::from(body)).into_response()
                    }
                    None => no_room(),
                }
            }
            Ok((_, Ok(Err(response)))) => response,
            Ok((_, Err(failure))) => failure.into_response(),
            Err(join) => {
                warn!("control: question failed: {join}");
                error(StatusCode::INTERNAL_SERVER_ERROR, "question failed")
            }
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An answer, or the reason why there is none.
pub(super) type Told<T> = Result<T, Failure>;

/// A handler for users whom `refuse` does not refuse.
#[derive(Clone)]
pub(super) struct Ask<F> {
    refuse: fn(&Shared, Peer) -> Option<Response>,
    make: F,
}

/// Answers users who may read with the result of `ask`, which gets the parts `A` of the request.
pub(super) fn read<A, T, F>(
    ask: F,
) -> Ask<impl FnOnce(&dyn Backend, A, Request) -> Told<T> + Clone + Send + Sync + 'static>
where
    F: FnOnce(&dyn Backend, A) -> Result<T, Failure> + Clone + Send + Sync + 'static,
{
    let make = move |backend: &dyn Backend, args, _: Request| ask(backend, args);
    Ask { refuse: Shared::unreadable, make }
}

/// Answers users who may change something with the result of `make`, which gets the parts `A` of
/// the request and its body `C`. The body is read only then.
pub(super) fn change<A, C, T, F>(make: F) -> Ask<F>
where
    F: FnOnce(&dyn Backend, A, C) -> Result<T, Failure>,
{
    Ask { refuse: Shared::unchangeable, make }
}

impl<A, C, T, F> Handler<(A, C, T), Arc<Shared>> for Ask<F>
where
    A: FromRequestParts<Arc<Shared>> + Send + 'static,
    C: FromRequest<Arc<Shared>> + Send + 'static,
    T: Serialize + 'static,
    F: FnOnce(&dyn Backend, A, C) -> Result<T, Failure> + Clone + Send + Sync + 'static,
{
    type Future = Answer;

    fn call(self, request: Request, shared: Arc<Shared>) -> Answer {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let peer = peer_of(&parts.extensions);
            if let Some(refused) = (self.refuse)(&shared, peer) {
                return refused;
            }
            let args = match A::from_request_parts(&mut parts, &shared).await {
                Ok(args) => args,
                Err(rejected) => return rejected.into_response(),
            };
            let body = C::from_request(Request::from_parts(parts, body), &shared).await;
            match body.map_err(IntoResponse::into_response) {
                Ok(body) => {
                    shared.answer(peer, move |backend| (self.make)(backend, args, body)).await
                }
                Err(rejected) => rejected,
            }
        })
    }
}

/// Declares the router, and for the tests that make `openapi.json` what it serves: method, path,
/// operationId and handler. What a handler does not tell stands after the operationId: the parts of
/// the request with its answer in JSON, or the content type of a text.
macro_rules! resources {
    ($($method:ident $path:literal $name:ident
        $($kind:literal)? $(($($part:ty),*) -> $answer:ty)? => $handler:expr;)+) => {
        pub(super) fn router() -> axum::Router<std::sync::Arc<Shared>> {
            axum::Router::new()$(.route($path, on(MethodFilter::$method, $handler)))+
        }

        #[cfg(test)]
        pub(super) fn operations() -> Vec<crate::api::openapi::Operation> {
            use crate::api::openapi::operation;
            vec![$(operation!(
                (stringify!($method), $path, stringify!($name)),
                $handler $(, $kind)? $(, [$($part),*] $answer)?
            )),+]
        }
    };
}
pub(super) use resources;

/// Returns the user of a request; none where the listener gave none.
pub(super) fn peer_of(extensions: &axum::http::Extensions) -> Peer {
    extensions.get::<ConnectInfo<Peer>>().map(|info| info.0).unwrap_or_default()
}
