//! What concerns the process as a whole: who it is, the configuration it serves, and two requests
//! that scripts send and that have nothing to do here.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::reply::{found, no_such_page};
use super::state::Introspection;

/// Revision and problems of the configuration in service, and which parts of the process are down.
pub(super) async fn configuration(State(introspection): State<Introspection>) -> Response {
    let mut status = introspection.configuration.status();
    let outages = introspection.outages.list();
    let down =
        outages.into_iter().map(|(part, reason)| json!({"part": part.name(), "reason": reason}));
    status["down"] = down.collect();
    status["ready"] = introspection.why_unready().is_none().into();
    found(&status)
}

/// Who this gateway is.
pub(super) async fn server_info(State(introspection): State<Introspection>) -> Response {
    let Some(info) = introspection.server_info else {
        return no_such_page(State(introspection)).await;
    };
    let identity = &introspection.identity;
    found(&json!({
        "hostname": identity.hostname,
        "version": info.version,
        "id": identity.id,
        "boot_time": identity.boot_time_s,
        "etcd_version": info.store,
    }))
}

/// Memory is given back as it becomes free: there is nothing to collect.
pub(super) async fn collect_garbage() -> Response {
    StatusCode::OK.into_response()
}

/// Plugins are part of the program: there is nothing to load anew.
pub(super) async fn reload_plugins() -> Response {
    "done".into_response()
}
