//! `/v1/healthcheck`: health of nodes, from active and passive checks.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::Value;
use tollhouse_model::{Id, Kind};
use tollhouse_upstream::HealthReport;

use super::reply::{found, refusal};
use super::state::Introspection;
use super::{health_page, objects};

/// Kinds of objects that can have health checks.
const KINDS: [Kind; 4] = [Kind::Route, Kind::Service, Kind::Upstream, Kind::StreamRoute];

/// Answers with the health of all checked nodes, as JSON or an HTML page.
pub(super) async fn all(
    State(introspection): State<Introspection>,
    headers: HeaderMap,
) -> Response {
    let reports = introspection.health.report();
    if wants_page(&headers) {
        return Html(health_page::render(&reports)).into_response();
    }
    found(&serde_json::to_value(reports).unwrap_or_default())
}

/// Refuses a path without an object id.
pub(super) async fn without_id(Path(kind): Path<String>) -> Response {
    let text = format!("missing src id for src type {kind}");
    refusal(StatusCode::NOT_FOUND, text)
}

/// Returns the health of one object's nodes, or 404 if the object does not exist or has no checks.
pub(super) async fn one(
    State(introspection): State<Introspection>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let Some(kind) = KINDS.into_iter().find(|kind| kind.plural() == name) else {
        return refusal(StatusCode::BAD_REQUEST, format!("invalid src type {name}"));
    };
    if let Some(report) = introspection.health.report_of(&format!("{name}/{id}")) {
        return respond(report, &headers);
    }
    let exists = match objects::exists(&introspection, kind, &Id::new(id.as_str())).await {
        Ok(exists) => exists,
        Err(response) => return *response,
    };
    let text = match exists {
        objects::Exists::Yes => format!("no checker for {name}[{id}]"),
        objects::Exists::No => format!("{name}[{id}] not found"),
    };
    refusal(StatusCode::NOT_FOUND, text)
}

fn respond(report: HealthReport, headers: &HeaderMap) -> Response {
    if wants_page(headers) {
        return Html(health_page::render(&[report])).into_response();
    }
    found(&serde_json::to_value(report).unwrap_or(Value::Null))
}

/// Whether the client accepts HTML, as browsers do.
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.into_iter().any(|value| value.contains("text/html"))
}
