//! Calls for circuit breakers of the first generation, which Polaris refuses since 1.14.

use super::HttpApi;
use super::failure::Failure;
use super::language::Language;
use super::reply::{BATCH_QUERY, BATCH_WRITE, RESPONSE, Reply};
use super::route::{Route, Routes, get, post, put};
use crate::code::Code;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use std::future::{Ready, ready};

const TEXT: &str = "API is Deprecated";

/// Routes of all calls.
pub(super) fn routes() -> Routes {
    let all = post(refuse(BATCH_WRITE)).merge(put(refuse(BATCH_WRITE)));
    let release = read(BATCH_QUERY).merge(post(refuse(BATCH_WRITE)));
    Routes::new()
        .route("/naming/v1/circuitbreakers", all)
        .route("/naming/v1/circuitbreakers/version", post(refuse(BATCH_WRITE)))
        .route("/naming/v1/circuitbreakers/delete", post(refuse(BATCH_WRITE)))
        .route("/naming/v1/circuitbreakers/unbind", post(refuse(BATCH_WRITE)))
        .route("/naming/v1/circuitbreakers/release", release)
        .route("/naming/v1/circuitbreakers/master", read(BATCH_QUERY))
        .route("/naming/v1/circuitbreaker", read(BATCH_QUERY))
        .route("/naming/v1/circuitbreaker/versions", read(BATCH_QUERY))
        .route("/naming/v1/circuitbreaker/token", read(RESPONSE))
        .route("/naming/v1/service/circuitbreaker", read(BATCH_QUERY))
}

fn read(message: &'static str) -> Route {
    get(refuse(message))
}

/// Returns a handler that refuses every request.
fn refuse(
    message: &'static str,
) -> impl Fn(State<HttpApi>, Request) -> Ready<Response<Body>> + Clone {
    move |_, request| {
        let language = Language::wanted(request.uri(), request.headers());
        let failure = Failure::with(Code::BadRequest, TEXT);
        ready(Reply::failure(message, &failure).print(language))
    }
}
