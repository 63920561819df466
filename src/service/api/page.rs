// SPDX-License-Identifier: GPL-3.0-or-later
//! The page for browsers: four files inside the program, which read the same JSON as every other
//! client. The page changes nothing and loads nothing from elsewhere.

use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

/// Content policy: own files only, no frames, no forms.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Answers with a file of the page; `kind` is its kind of text.
pub(super) async fn file(kind: &str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, &*format!("text/{kind}; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // The next version of the daemon brings another page.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}
