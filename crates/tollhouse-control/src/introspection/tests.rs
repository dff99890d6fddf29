//! Objects out of a store and out of a document. Paths are tested from outside.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tollhouse_config::{Bootstrap, Document, Fingerprints, Format, declarative};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::Services;
use tollhouse_store::{Location, Operation, Transaction};

use super::state::ServerInfo;
use super::*;
use crate::configuration::ObjectSource;
use crate::console::sampler::Sampler;
use crate::discovery::{NodeSources, SourceSettings};
use crate::identity::Identity;
use crate::metrics::MetricsPage;
use crate::outages::{Outages, Part};
use crate::staples::{Asking, Staples};

fn introspection() -> Introspection {
    let identity =
        Identity { id: "me".to_owned(), hostname: "here".to_owned(), boot_time_s: 1_700_000_000 };
    let services = Services::new("APISIX");
    Introspection {
        metrics: MetricsPage::new(Arc::default(), Arc::default(), &services),
        health: Arc::default(),
        staples: Arc::new(Staples::new(Asking::Off, "".as_ref(), Arc::default())),
        node_sources: Arc::new(NodeSources::open(&SourceSettings {
            bootstrap: &Bootstrap::default(),
            bound: &Arc::default(),
        })),
        configuration: Arc::default(),
        outages: Arc::new(Outages::new(Arc::default())),
        catalogue: crate::plugins::catalogue(),
        brand: tollhouse_plugin::Brand::default(),
        identity: Arc::new(identity),
        server_info: Some(ServerInfo { version: "3.18.0", store: "file" }),
        sampler: Arc::new(Sampler::new(Arc::default())),
        keyring: Arc::new(Keyring::generate().expect("random numbers")),
    }
}

/// Status and document of an answer.
async fn read(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    assert!(body.ends_with(b"\n"), "{body:?}");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

async fn route(introspection: &Introspection, id: &str) -> (StatusCode, Value) {
    read(objects::route(State(introspection.clone()), Path(id.to_owned())).await).await
}

async fn routes(introspection: &Introspection) -> Value {
    let (status, routes) = read(objects::routes(State(introspection.clone())).await).await;
    assert_eq!(status, StatusCode::OK);
    routes
}

fn document(text: &Value) -> Document {
    declarative::parse(&text.to_string(), Format::Json, &|_| None).expect("a document")
}

#[tokio::test]
async fn nothing_is_told_before_there_is_anything() {
    let introspection = introspection();
    assert_eq!(routes(&introspection).await, json!([]));
    let (status, body) = route(&introspection, "9").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(body, json!({"error_msg": "route[9] not found"}));
}

#[tokio::test]
async fn objects_of_a_store_come_with_its_revisions() {
    let introspection = introspection();
    let store = tollhouse_store::open(&Location::Memory).expect("a store");
    let put = |key: &str, value: Value| Operation::put(key, value.to_string());
    for (key, value) in [
        ("/p/routes/1", json!({"id": "1", "uri": "/1"})),
        ("/p/routes/2", json!({"id": "2", "uri": "/2"})),
        ("/p/routes/1", json!({"id": "1", "uri": "/3"})),
        ("/p/plugin_metadata/http-logger", json!({"log_format": {}})),
    ] {
        let transaction = Transaction { conditions: Vec::new(), operations: vec![put(key, value)] };
        store.commit(transaction).await.expect("a commit");
    }
    introspection.configuration.set_objects(ObjectSource::Store(store, "/p".to_owned()));
    let all = routes(&introspection).await;
    let told = |index: usize, name: &str| all[index][name].clone();
    assert_eq!(all.as_array().map(Vec::len), Some(2));
    assert_eq!((told(0, "createdIndex"), told(0, "modifiedIndex")), (json!(1), json!(3)));
    assert_eq!((told(1, "createdIndex"), told(1, "modifiedIndex")), (json!(2), json!(2)));
    let (status, body) = route(&introspection, "1").await;
    assert_eq!((status, &body["key"]), (StatusCode::OK, &json!("/p/routes/1")));
    assert_eq!(body["value"]["uri"], "/3");
    assert_eq!(route(&introspection, "1/2").await.0, StatusCode::NOT_FOUND);
    let name = Path("http-logger".to_owned());
    let (_, body) = read(objects::plugin_metadata(State(introspection.clone()), name).await).await;
    assert_eq!(body, json!({"log_format": {}, "id": "http-logger"}));
}

#[tokio::test]
async fn objects_of_a_document_come_with_its_number_and_without_secrets() {
    let introspection = introspection();
    let csrf = json!({"csrf": {"key": "very-secret"}});
    let first = document(&json!({"routes": [{"id": 1, "uri": "/1", "plugins": csrf}]}));
    let second = document(&json!({"routes": [
        {"id": 1, "uri": "/1", "plugins": csrf}, {"id": 2, "uri": "/2"},
    ]}));
    let prints = Fingerprints::from_document(&first).followed_by(&second);
    introspection.configuration.set_objects(ObjectSource::Document(Arc::new(prints)));
    let all = routes(&introspection).await;
    assert_eq!((&all[0]["modifiedIndex"], &all[1]["modifiedIndex"]), (&json!(1), &json!(2)));
    assert_eq!(all[1]["key"], "/apisix/routes/2");
    assert!(!all.to_string().contains("very-secret"), "{all}");
}

#[tokio::test]
async fn health_of_what_is_not_checked_is_refused_with_the_reason() {
    let introspection = introspection();
    let document = document(&json!({"routes": [{"id": "1", "uri": "/1"}]}));
    let prints = Arc::new(Fingerprints::from_document(&document));
    introspection.configuration.set_objects(ObjectSource::Document(prints));
    for (kind, id, status, text) in [
        ("routes", "1", StatusCode::NOT_FOUND, "no checker for routes[1]"),
        ("routes", "9", StatusCode::NOT_FOUND, "routes[9] not found"),
        ("stream_routes", "1", StatusCode::NOT_FOUND, "stream_routes[1] not found"),
        ("consumers", "1", StatusCode::BAD_REQUEST, "invalid src type consumers"),
    ] {
        let path = Path((kind.to_owned(), id.to_owned()));
        let answer = health::one(State(introspection.clone()), path, Default::default()).await;
        assert_eq!(read(answer).await, (status, json!({"error_msg": text})));
    }
}

#[tokio::test]
async fn the_gateway_is_ready_with_its_first_configuration() {
    let introspection = introspection();
    let ask = || status::ready(State(introspection.clone()));
    let (status, body) = read(ask().await).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body["error"], "worker id: 0 has not received configuration");
    introspection.configuration.set_ready();
    assert_eq!(read(ask().await).await, (StatusCode::OK, json!({"status": "ok"})));
}

#[tokio::test]
async fn server_info_comes_with_its_plugin() {
    let mut introspection = introspection();
    let (_, body) = read(process::server_info(State(introspection.clone())).await).await;
    let expected = json!({"hostname": "here", "version": "3.18.0", "id": "me",
        "boot_time": 1_700_000_000, "etcd_version": "file"});
    assert_eq!(body, expected);
    introspection.server_info = None;
    let answer = process::server_info(State(introspection)).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_registry_that_is_down_makes_the_process_unready_and_a_store_does_not() {
    let introspection = introspection();
    introspection.configuration.set_ready();
    introspection.outages.report(Part::Store, "it is away");
    let ready = || status::ready(State(introspection.clone()));
    assert_eq!(ready().await.status(), StatusCode::OK);
    introspection.outages.report(Part::Registry, "its port is taken");
    let (status, body) = read(ready().await).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body["error"], "registry is down: its port is taken");
    let (_, body) = read(process::configuration(State(introspection.clone())).await).await;
    let parts: Vec<_> =
        body["down"].as_array().expect("a list").iter().map(|it| &it["part"]).collect();
    assert_eq!(parts, ["store", "registry"]);
    introspection.outages.clear(Part::Registry);
    assert_eq!(ready().await.status(), StatusCode::OK);
}

#[tokio::test]
async fn traffic_has_the_version_the_start_and_the_last_seconds() {
    let (status, answer) = read(process::traffic(State(introspection())).await).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&answer["hostname"], &answer["started_at"]),
        (&json!("here"), &json!(1_700_000_000))
    );
    assert_eq!((&answer["seconds"], &answer["nodes"]), (&json!([]), &Value::Null));
}
