// SPDX-License-Identifier: GPL-3.0-or-later
//! The resources of the API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use serde::Deserialize;

use super::backend::{AuditQuery, Backend};
use super::extract::{Arg, Body, Params, error};
use super::handler::{Shared, change, read, resources};
use super::peer::Peer;
use super::{collect, metrics, page};
use crate::failure::Failure;
use phalanx_core::limits::IMPORT_RUNS_MAX;
use phalanx_core::run::Run;
use phalanx_messages::rest::heat::HeatReport;
#[cfg(test)]
use phalanx_messages::rest::{AuditReport, Explain};
#[cfg(test)]
use phalanx_methods::data_jobs::blockmap::BlockMap;

/// The description of every resource (OpenAPI 3.1), made by the tests of `super::openapi`.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// Runs for the history.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Import(#[cfg_attr(test, schemars(length(max = IMPORT_RUNS_MAX)))] Vec<Run>);

resources! {
    GET "/v1/status" status => read(|b, ()| Ok(b.status()));
    GET "/v1/nodes" nodes => read(|b, ()| b.nodes());
    POST "/v1/nodes/{node}/forgive" forgive =>
        change(|b, Arg(node): Arg<String>, _: Request| b.forgive(&node));
    GET "/v1/heat" heat => read(|b, ()| Ok(HeatReport::of(&b.nodes()?)));
    GET "/v1/explain/{job}" explain (Arg<String>) -> Explain => explain;
    GET "/v1/jobs/{id}/blocks" blockMap (Arg<u32>) -> BlockMap => block_map;
    GET "/v1/shadow" shadow => read(|b, Params(q): Params<SinceQuery>| b.shadow(q.since));
    GET "/v1/report" report => read(|b, Params(q): Params<SinceQuery>| b.report(q.since));
    GET "/v1/audit" audit (Params<AuditQuery>) -> AuditReport => audit;
    GET "/v1/decisions" decisions => read(|b, Params(q): Params<ListQuery>| b.latest(q.limit));
    GET "/v1/plan" plan => read(|b, ()| b.plan());
    GET "/v1/state" state => read(|b, ()| b.state());
    GET "/v1/history/runs" runs =>
        read(|b, Params(q): Params<RunsQuery>| b.runs(q.since, q.limit));
    GET "/v1/history/speeds" speeds => read(|b, Params(q): Params<SpeedsQuery>| {
        b.speeds(q.class.as_deref(), q.node.as_deref())
    });
    GET "/v1/history/energy" energy => read(|b, ()| b.energy());
    POST "/v1/history/energy" metered => change(|b, (), Body(found)| Ok(b.metered(found)));
    POST "/v1/history/import" import => change(|b, (), Body(Import(runs))| {
        if runs.len() > IMPORT_RUNS_MAX {
            let text = format!("expected at most {IMPORT_RUNS_MAX} runs");
            return Err(Failure::BadRequest(text));
        }
        b.import(runs)
    });
    POST "/v1/reload" reload => change(|b, (), _: Request| Ok(b.reload()));
    POST "/v1/drill" drill => change(|b, (), _: Request| Ok(b.drill()));
    POST "/v1/record" record => change(|b, (), Body(request)| b.record(request));
    GET "/openapi.json" openapi "application/json" => openapi;
    GET "/metrics" metrics "application/openmetrics-text" => metrics;
    GET "/healthz" healthz "text/plain" => healthz;
    GET "/" page "text/html" => || page::file("html", include_str!("page/index.html"));
    GET "/page.css" pageStyle "text/css" => || page::file("css", include_str!("page/page.css"));
    GET "/page.js" pageScript "text/javascript" =>
        || page::file("javascript", include_str!("page/page.js"));
    GET "/history.js" historyScript "text/javascript" =>
        || page::file("javascript", include_str!("page/history.js"));
}

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    router()
        .merge(collect::router())
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        // Bodies are bounded by the path, where their user is known.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

async fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "no such resource; see phalanx(1)")
}

async fn wrong_method() -> Response {
    error(StatusCode::METHOD_NOT_ALLOWED, "this resource has other methods; see /openapi.json")
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// Answers everybody, since the metrics name no user and no job.
async fn metrics(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
) -> Response {
    let text = |b: &dyn Backend| Ok(Ok(metrics::text(&b.sources()).into_bytes()));
    shared.off_thread(peer, metrics::CONTENT_TYPE, text).await
}

/// Answers as long as the daemon lives; the watchdog finds threads that hang.
async fn healthz() -> Response {
    "ok\n".into_response()
}

/// Explains a job to whoever may read; to its user also where slurm.conf hides jobs from users.
async fn explain(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Arg(job): Arg<String>,
) -> Response {
    let refused = shared.unreadable(peer);
    let own = peer.uid.filter(|_| refused.is_some() && shared.access.may_read(peer));
    match refused.filter(|_| own.is_none()) {
        Some(refused) => refused,
        None => shared.answer(peer, move |b| b.explain(&job, own)).await,
    }
}

/// Answers with receipts: an administrator with all, others with their own, also where reading is
/// public.
async fn audit(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Params(asked): Params<AuditQuery>,
) -> Response {
    let Some(uid) = peer.uid.filter(|_| shared.access.may_read(peer)) else {
        return error(StatusCode::FORBIDDEN, "receipts are for the users of the jobs");
    };
    let user = (!shared.access.may_change(peer)).then_some(uid);
    shared.answer(peer, move |b| b.audit(&asked, user)).await
}

/// Answers with a block map to its job's user only, even where reading is public.
async fn block_map(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Arg(job): Arg<u32>,
) -> Response {
    let Some(uid) = peer.uid else {
        return error(StatusCode::FORBIDDEN, "a block map is for its job's user");
    };
    let user = (!shared.access.may_change(peer)).then_some(uid);
    shared.answer(peer, move |b| b.block_map(job, user)).await
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct SinceQuery {
    /// Begin of the period, unix milliseconds.
    since: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Most decisions that are listed, at most 1000.
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct RunsQuery {
    /// Earliest end, unix milliseconds.
    since: Option<u64>,
    /// Most runs.
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct SpeedsQuery {
    /// Only this class of jobs.
    class: Option<String>,
    /// Only this node.
    node: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::doors::Doors;
    use crate::api::fuzz::Empty;
    use crate::api::peer::Access;
    use http_body_util::BodyExt;

    /// Goal: users get their own receipts also where all may read, and nobody gets them unnamed.
    #[test]
    fn receipts_are_for_their_users() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = |public_read: bool, uid: Option<u32>| {
            let access = Access { public_read, allowed_uids: vec![7], ..Access::default() };
            let (_sender, stop) = tokio::sync::watch::channel(false);
            let doors = Arc::new(Doors::new(Arc::default()));
            let shared = Arc::new(Shared { backend: Arc::new(Empty::new()), access, doors, stop });
            let peer = ConnectInfo(Peer { uid, remote: uid.is_none(), address: None });
            runtime.block_on(async {
                let answer = audit(State(shared), peer, Params(AuditQuery::default())).await;
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                String::from_utf8_lossy(&body).into_owned()
            })
        };
        for (public_read, uid, said) in [
            (true, Some(5), "for Some(5)"),
            (true, Some(7), "for None"),
            (true, None, "for the users of the jobs"),
            (false, Some(5), "for the users of the jobs"),
            (false, Some(7), "for None"),
        ] {
            let body = ask(public_read, uid);
            assert!(body.contains(said), "{public_read} {uid:?}: {body}");
        }
    }

    /// Goal: where slurm.conf hides jobs, users are answered for their own jobs, a stranger is not,
    /// nobody is where reading is off, and all may read what names nobody. A right to read is none
    /// to change anything.
    #[test]
    fn what_is_hidden_from_whom() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ask = |hidden: bool, public_read: bool, uid: Option<u32>| {
            let doors = Arc::new(Doors::new(Arc::default()));
            doors.counters.hide(hidden);
            let access = Access { public_read, allowed_uids: vec![7], ..Access::default() };
            let (_sender, stop) = tokio::sync::watch::channel(false);
            let shared = Arc::new(Shared { backend: Arc::new(Empty::new()), access, doors, stop });
            let peer = || ConnectInfo(Peer { uid, remote: uid.is_none(), address: None });
            assert_eq!(shared.unchangeable(peer().0).is_none(), uid == Some(7));
            runtime.block_on(async {
                let open = metrics(State(Arc::clone(&shared)), peer()).await;
                assert_eq!(open.status(), StatusCode::OK, "/metrics for {uid:?}");
                let answer = explain(State(shared), peer(), Arg("7".to_owned())).await;
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                String::from_utf8_lossy(&body).into_owned()
            })
        };
        for (hidden, public_read, uid, said) in [
            (false, true, Some(5), "for None"),
            (false, true, None, "for None"),
            (true, true, Some(5), "for Some(5)"),
            (true, true, Some(7), "for None"),
            (true, true, None, "PrivateData hides"),
            (true, false, Some(5), "public_read is off"),
            (true, false, Some(7), "for None"),
        ] {
            let body = ask(hidden, public_read, uid);
            assert!(body.contains(said), "{hidden} {public_read} {uid:?}: {body}");
        }
    }
}
