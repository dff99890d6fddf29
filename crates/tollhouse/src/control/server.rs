//! What can be asked of a running gateway: metrics, health of nodes, problems of the configuration.
//!
//! Read-only, on listeners of their own (APISIX: control API §7.4, metrics §7.5 paths). Answers are
//! made from shared state; no request here touches a serving thread.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use std::time::Duration;

use anyhow::Context;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tollhouse_config::Bootstrap;
use tollhouse_telemetry::prometheus::CONTENT_TYPE as METRICS_TYPE;
use tollhouse_upstream::HealthSupervisor;

use super::metrics::MetricsPage;
use crate::plugins::METRICS_PATH;
use crate::wire::first;

/// What the listeners answer from.
#[derive(Debug, Clone)]
pub struct Introspection {
    /// Counters of all cores.
    pub metrics: MetricsPage,
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

/// Where the side listeners stand; `None` where one is off.
#[derive(Debug, Default)]
pub struct SideListeners {
    /// The control API.
    pub control: Option<SocketAddr>,
    /// The metrics.
    pub metrics: Option<SocketAddr>,
    tasks: Vec<AbortHandle>,
}

impl SideListeners {
    /// Stops listening, so that a successor finds the ports free.
    pub fn stop(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Whether another process is about to leave the side ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predecessor {
    /// A port in use is somebody else's.
    None,
    /// It lets go of them once it knows that this process serves.
    Leaving,
}

/// How long a side port that a predecessor still holds is waited for.
const PORT_WAIT: Duration = Duration::from_secs(5);

/// Starts every side listener of the bootstrap file.
///
/// # Errors
/// The first address that cannot be listened on, with the remedy.
pub async fn start_all(
    bootstrap: &Bootstrap,
    introspection: &Introspection,
    predecessor: Predecessor,
) -> anyhow::Result<SideListeners> {
    let mut side = SideListeners::default();
    if let Some(address) = first(&bootstrap.listen.control) {
        let app = control_api(introspection.clone());
        let bound = side.start(address, app, predecessor).await;
        side.control = Some(bound.with_context(|| in_use("listen.control", address))?);
    }
    if let Some(address) = first(&bootstrap.listen.metrics)
        && exports_metrics(bootstrap)
    {
        let app = metrics_page(introspection.clone());
        let bound = side.start(address, app, predecessor).await;
        side.metrics = Some(bound.with_context(|| in_use("listen.metrics", address))?);
    }
    Ok(side)
}

pub(super) fn in_use(key: &str, address: SocketAddr) -> String {
    format!("cannot listen on {address}; set {key} to another address, or to an empty one for none")
}

/// Whether `plugin_attr.prometheus` leaves the listener on; off, `public-api` shows the page.
fn exports_metrics(bootstrap: &Bootstrap) -> bool {
    let attributes = bootstrap.plugin_attr.get("prometheus");
    let on = attributes.and_then(|attributes| attributes.get("enable_export_server"));
    on.and_then(Value::as_bool).unwrap_or(true)
}

fn metrics_page(introspection: Introspection) -> Router {
    Router::new()
        .route(METRICS_PATH, get(metrics))
        .route("/metrics", get(metrics))
        .with_state(introspection)
}

fn control_api(introspection: Introspection) -> Router {
    Router::new()
        .route("/v1/healthcheck", get(health))
        .route("/v1/healthcheck/{kind}/{id}", get(health_of))
        .route("/v1/configuration", get(configuration))
        .with_state(introspection)
}

impl SideListeners {
    /// Serves `app` on `address`; returns the address bound.
    async fn start(
        &mut self,
        address: SocketAddr,
        app: Router,
        predecessor: Predecessor,
    ) -> std::io::Result<SocketAddr> {
        let listener = bind(address, predecessor).await?;
        let bound = listener.local_addr()?;
        let task = tokio::spawn(async move { axum::serve(listener, app).await });
        self.tasks.push(task.abort_handle());
        Ok(bound)
    }
}

/// Binds, waiting a little for a predecessor that is just leaving.
pub(super) async fn bind(
    address: SocketAddr,
    predecessor: Predecessor,
) -> std::io::Result<tokio::net::TcpListener> {
    let deadline = tokio::time::Instant::now() + PORT_WAIT;
    let may_wait = || predecessor == Predecessor::Leaving && tokio::time::Instant::now() < deadline;
    let mut attempts = tokio::time::interval(Duration::from_millis(50));
    loop {
        attempts.tick().await;
        match tokio::net::TcpListener::bind(address).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && may_wait() => {}
            bound => return bound,
        }
    }
}

async fn metrics(State(introspection): State<Introspection>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], introspection.metrics.body())
}

async fn configuration(State(introspection): State<Introspection>) -> Json<Value> {
    Json(introspection.configuration.get())
}

async fn health(State(introspection): State<Introspection>) -> Json<Value> {
    let reports = introspection.health.report();
    Json(serde_json::to_value(reports).unwrap_or_default())
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
    match introspection.health.report_of(&format!("{kind}/{id}")) {
        Some(report) => Json(report).into_response(),
        None => {
            let error = json!({ "error_msg": format!("no checker for {kind}[{id}]") });
            (StatusCode::NOT_FOUND, Json(error)).into_response()
        }
    }
}
