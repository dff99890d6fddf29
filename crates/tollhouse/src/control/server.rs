//! What can be asked of a running gateway: metrics, health of nodes, problems of the configuration.
//!
//! Read-only, on listeners of their own (APISIX: control API §7.4, metrics §7.5 paths). Answers are
//! made from shared state; no request here touches a serving thread.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{json, Value};
use tollhouse_telemetry::Registry;
use tollhouse_upstream::HealthSupervisor;

/// Text format 0.0.4 of Prometheus.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the listeners answer from.
#[derive(Debug, Clone)]
pub struct Introspection {
    /// Counters of all cores.
    pub metrics: Arc<Registry>,
    /// Health of nodes.
    pub health: Arc<HealthSupervisor>,
    /// The configuration in service.
    pub configuration: Arc<Configuration>,
}

/// What is told about the configuration in service.
#[derive(Debug, Default)]
pub struct Configuration {
    status: Mutex<Value>,
}

impl Configuration {
    /// Replaces what is told.
    pub fn set(&self, status: Value) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn get(&self) -> Value {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves the metrics on `address`; returns the address bound.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve_metrics(
    address: SocketAddr,
    introspection: Introspection,
) -> std::io::Result<SocketAddr> {
    let app = Router::new()
        .route("/apisix/prometheus/metrics", get(metrics))
        .route("/metrics", get(metrics))
        .with_state(introspection);
    start(address, app).await
}

/// Serves the control API on `address`; returns the address bound.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve_control(
    address: SocketAddr,
    introspection: Introspection,
) -> std::io::Result<SocketAddr> {
    let app = Router::new()
        .route("/v1/healthcheck", get(health))
        .route("/v1/healthcheck/{kind}/{id}", get(health_of))
        .route("/v1/configuration", get(configuration))
        .with_state(introspection);
    start(address, app).await
}

async fn start(address: SocketAddr, app: Router) -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(bound)
}

async fn metrics(State(introspection): State<Introspection>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], introspection.metrics.render())
}

async fn configuration(State(introspection): State<Introspection>) -> Json<Value> {
    Json(introspection.configuration.get())
}

async fn health(State(introspection): State<Introspection>) -> Json<Value> {
    let reports = introspection.health.reports();
    Json(reports.iter().map(|report| report.to_json()).collect())
}

/// One checker, or APISIX's words for why there is none.
async fn health_of(
    State(introspection): State<Introspection>,
    Path((kind, id)): Path<(String, String)>,
) -> Response {
    if !matches!(kind.as_str(), "routes" | "services" | "upstreams") {
        let error = json!({ "error_msg": format!("invalid src type {kind}") });
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    let name = format!("/apisix/{kind}/{id}");
    match introspection.health.reports().iter().find(|report| report.name == name) {
        Some(report) => Json(report.to_json()).into_response(),
        None => {
            let error = json!({ "error_msg": format!("no checker for {kind}[{id}]") });
            (StatusCode::NOT_FOUND, Json(error)).into_response()
        }
    }
}
