// SPDX-License-Identifier: GPL-3.0-or-later
//! Extractors of the parts of a request, with errors in one common form.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use phalanx_messages::rest::ErrorBody;

pub(super) fn error(status: StatusCode, text: impl Into<String>) -> Response {
    (status, Json(ErrorBody { error: text.into() })).into_response()
}

/// Returns the refusal for lack of memory.
pub(super) fn no_room() -> Response {
    Failure::Unavailable("what is asked at once fills the memory for it".to_owned()).into_response()
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self {
            Failure::BadRequest(_) => StatusCode::BAD_REQUEST,
            Failure::NotFound(_) => StatusCode::NOT_FOUND,
            Failure::Conflict(_) => StatusCode::CONFLICT,
            Failure::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut response = error(status, self.to_string());
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// Defines axum's extractor `$of` with errors in the common form.
macro_rules! extractor {
    ($name:ident, $of:ident) => {
        pub(super) struct $name<T>(pub(super) T);

        impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for $name<T> {
            type Rejection = Response;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
                match $of::from_request_parts(parts, state).await {
                    Ok($of(value)) => Ok(Self(value)),
                    Err(rejection) => Err(error(StatusCode::BAD_REQUEST, rejection.body_text())),
                }
            }
        }
    };
}

extractor!(Arg, Path);
extractor!(Params, Query);

pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            let text = "expected a body of content-type application/json";
            return Err(error(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| error(rejection.status(), rejection.body_text()))?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|wrong| error(StatusCode::BAD_REQUEST, format!("body: {wrong}")))
    }
}
