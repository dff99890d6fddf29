//! The side listeners: control API, metrics, status pages.
//!
//! Each on an address of its own. What the control API answers is in `introspection`; answers are
//! made from shared state, and no request here touches a serving thread.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::Value;
use tokio::task::AbortHandle;
use tollhouse_config::Bootstrap;
use tollhouse_telemetry::prometheus::CONTENT_TYPE as METRICS_TYPE;

use super::endpoints::METRICS_PATH;
use super::introspection::{Introspection, control_api, status_pages};
use crate::wire::first;

/// Where the side listeners stand; `None` where one is off.
#[derive(Debug, Default)]
pub struct SideListeners {
    /// The control API.
    pub control: Option<SocketAddr>,
    /// The metrics.
    pub metrics: Option<SocketAddr>,
    /// The status pages.
    pub status: Option<SocketAddr>,
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
    if let Some(address) = first(&bootstrap.listen.status) {
        let app = status_pages(introspection.clone());
        let bound = side.start(address, app, predecessor).await;
        side.status = Some(bound.with_context(|| in_use("listen.status", address))?);
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
