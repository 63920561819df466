// SPDX-License-Identifier: GPL-3.0-or-later
//! Handlers: each checks the user's rights, takes the request apart and answers in JSON.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Request};
use axum::handler::Handler;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use log::warn;
use serde::Serialize;
use tokio::sync::watch;

use super::backend::Backend;
use super::extract::error;
use super::peer::{Access, Peer};
use crate::failure::Failure;

/// The state behind all routes.
pub(super) struct Shared {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) access: Access,
    pub(super) stop: watch::Receiver<bool>,
}

impl Shared {
    /// The refusal of a user who may not read.
    pub(super) fn unreadable(&self, peer: Peer) -> Option<Response> {
        let refused = || error(StatusCode::FORBIDDEN, "control.public_read is off");
        (!self.access.may_read(peer)).then(refused)
    }

    /// Answers in JSON, off the runtime's thread: `ask` may read a database, and its answer may
    /// be large.
    pub(super) async fn answer<T: Serialize>(
        &self,
        ask: impl FnOnce(&dyn Backend) -> Result<T, Failure> + Send + 'static,
    ) -> Response {
        self.off_thread(move |backend| {
            Ok(match serde_json::to_vec(&ask(backend)?) {
                Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
                Err(wrong) => {
                    warn!("control: answer: {wrong}");
                    error(StatusCode::INTERNAL_SERVER_ERROR, "question failed")
                }
            })
        })
        .await
    }

    /// Answers off the runtime's thread, in any form.
    pub(super) async fn off_thread(
        &self,
        ask: impl FnOnce(&dyn Backend) -> Result<Response, Failure> + Send + 'static,
    ) -> Response {
        let backend = Arc::clone(&self.backend);
        let work = move || ask(&*backend).unwrap_or_else(IntoResponse::into_response);
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|join| {
            warn!("control: question failed: {join}");
            error(StatusCode::INTERNAL_SERVER_ERROR, "question failed")
        })
    }
}

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler for users who may read.
#[derive(Clone)]
pub(super) struct Read<F>(F);

/// Answers with the result of `ask`, which gets the parts `A` of the request.
pub(super) fn read<A, T, F>(ask: F) -> Read<F>
where
    F: FnOnce(&dyn Backend, A) -> Result<T, Failure>,
{
    Read(ask)
}

impl<A, T, F> Handler<(A, T), Arc<Shared>> for Read<F>
where
    A: FromRequestParts<Arc<Shared>> + Send + 'static,
    T: Serialize + 'static,
    F: FnOnce(&dyn Backend, A) -> Result<T, Failure> + Clone + Send + Sync + 'static,
{
    type Future = Answer;

    fn call(self, request: Request, shared: Arc<Shared>) -> Answer {
        Box::pin(async move {
            let (mut parts, _) = request.into_parts();
            if let Some(refused) = shared.unreadable(peer_of(&parts.extensions)) {
                return refused;
            }
            let args = A::from_request_parts(&mut parts, &shared).await;
            match args.map_err(IntoResponse::into_response) {
                Ok(args) => shared.answer(move |backend| (self.0)(backend, args)).await,
                Err(rejected) => rejected,
            }
        })
    }
}

/// A handler for users who may change something.
#[derive(Clone)]
pub(super) struct Change<F>(F);

/// Answers with the result of `make`, which gets the parts `A` of the request and its body `C`.
/// The body is looked at only if the user may change something.
pub(super) fn change<A, C, T, F>(make: F) -> Change<F>
where
    F: FnOnce(&dyn Backend, A, C) -> Result<T, Failure>,
{
    Change(make)
}

impl<A, C, T, F> Handler<(A, C, T), Arc<Shared>> for Change<F>
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
            if !shared.access.may_change(peer_of(&parts.extensions)) {
                let text = "changes need root, SlurmUser, phalanxd's user or control.allowed_uids";
                return error(StatusCode::FORBIDDEN, text);
            }
            let args = match A::from_request_parts(&mut parts, &shared).await {
                Ok(args) => args,
                Err(rejected) => return rejected.into_response(),
            };
            let body = C::from_request(Request::from_parts(parts, body), &shared).await;
            match body.map_err(IntoResponse::into_response) {
                Ok(body) => shared.answer(move |backend| (self.0)(backend, args, body)).await,
                Err(rejected) => rejected,
            }
        })
    }
}

/// The user of a request; nobody where the listener gave none.
fn peer_of(extensions: &axum::http::Extensions) -> Peer {
    extensions.get::<ConnectInfo<Peer>>().map(|info| info.0).unwrap_or_default()
}
