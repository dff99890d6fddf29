//! `/v1/schema`: JSON schemas of all objects and plugins.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};
use tollhouse_admin::{Subsystem, plugin_documents};
use tollhouse_model::schema;

use super::reply::found;
use super::state::Introspection;

pub(super) async fn all(State(introspection): State<Introspection>) -> Response {
    let cores = schema::core_names().filter_map(schema::core);
    let main: Map<String, Value> =
        cores.map(|core| (core.name().to_owned(), core.document().clone())).collect();
    found(&json!({
        "main": main,
        "plugins": plugin_documents(&introspection.catalogue, Subsystem::Http),
        "stream_plugins": plugin_documents(&introspection.catalogue, Subsystem::Stream),
    }))
}
