//! Whether the process lives, and whether it has something to serve: for probes of whoever runs it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::reply::{found, json_reply};
use super::state::Introspection;

/// It answers, so it lives.
pub(super) async fn alive() -> Response {
    found(&json!({ "status": "ok" }))
}

/// Cores share what they serve, so that all have a configuration as soon as one has. A part that
/// clients need and that is down makes the process unready; what is in service is served.
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
    /// Why the process should get no traffic, if it should not.
    pub(super) fn why_unready(&self) -> Option<String> {
        if !self.configuration.is_ready() {
            return Some("worker id: 0 has not received configuration".to_owned());
        }
        let mut outages = self.outages.list().into_iter();
        let needed = outages.find(|(part, _)| part.is_needed());
        needed.map(|(part, reason)| format!("{} is down: {reason}", part.name()))
    }
}
