//! Liveness and readiness endpoints for probes.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::reply::{found, json_reply};
use super::state::Introspection;

/// Liveness: an answer means that the process runs.
pub(super) async fn alive() -> Response {
    found(&json!({ "status": "ok" }))
}

/// Readiness: 200 once a configuration is in service, unless a part that clients need is down.
/// Workers share the configuration, so that all switch to it together. An unready process still
/// serves its configuration.
pub(super) async fn ready(State(introspection): State<Introspection>) -> Response {
    match introspection.why_unready() {
        None => found(&json!({ "status": "ok" })),
        Some(error) => {
            let body = json!({ "status": "error", "error": error });
            json_reply(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
    }
}

impl Introspection {
    /// Returns the reason why the process should get no traffic; `None` if it is ready.
    pub(super) fn why_unready(&self) -> Option<String> {
        if !self.configuration.is_ready() {
            return Some("worker id: 0 has not received configuration".to_owned());
        }
        let mut outages = self.outages.list().into_iter();
        let needed = outages.find(|(part, _)| part.is_needed());
        needed.map(|(part, reason)| format!("{} is down: {reason}", part.name()))
    }
}
