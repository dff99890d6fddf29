//! The side listeners: control API, metrics, status pages.
//!
//! Each on an address of its own. What the control API answers is in `introspection`; answers are
//! made from shared state, and no request here touches a serving thread.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tollhouse_config::{Bootstrap, bootstrap};
use tollhouse_net::accept::{self, Bounds};
use tollhouse_net::listener_tls::ListenerTls;
use tollhouse_net::local_name::HostNames;
use tollhouse_telemetry::prometheus::CONTENT_TYPE as METRICS_TYPE;

use super::state::Introspection;
use super::{control_api, status_pages};
use crate::context::ControlContext;
use crate::plugins::endpoints::METRICS_PATH;
use crate::process::handover::Predecessor;

/// Where the side listeners stand; `None` where one is off.
#[derive(Debug, Default)]
pub struct SideListeners {
    /// The control API.
    pub control: Option<SocketAddr>,
    /// The metrics.
    pub metrics: Option<SocketAddr>,
    /// Whether the control API speaks TLS.
    pub control_is_tls: bool,
    /// Whether the metrics do.
    pub metrics_are_tls: bool,
    /// The status pages.
    pub status: Option<SocketAddr>,
    /// Whether they do.
    pub status_is_tls: bool,
    tasks: Vec<AbortHandle>,
    /// Names of this machine.
    hosts: HostNames,
    /// Connections to each at a time.
    connections_max: usize,
}

impl SideListeners {
    /// Stops listening, so that a successor finds the ports free.
    pub fn stop(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// How long the head of a request may take, and how long a connection may idle between two: probes
/// and scrapers come every minute at most.
const HEAD_TIME_MAX: Duration = Duration::from_secs(75);

/// How long a side port that a predecessor still holds is waited for.
const PORT_WAIT: Duration = Duration::from_secs(5);

/// Starts every side listener of the bootstrap file.
///
/// # Errors
/// The first address that cannot be listened on, or certificate that cannot be used, with the remedy.
pub async fn start_all(
    cx: &ControlContext,
    introspection: &Introspection,
    predecessor: Predecessor,
) -> anyhow::Result<SideListeners> {
    let bootstrap = &cx.bootstrap;
    let connections_max = cx.descriptors.side;
    let hosts = HostNames::new(&bootstrap.listen.hosts);
    let mut side = SideListeners { connections_max, hosts, ..SideListeners::default() };
    if let Some(address) = first(&bootstrap.listen.control) {
        let app = control_api(introspection.clone());
        let tls = tls("control.tls", &bootstrap.control.tls)?;
        side.control_is_tls = tls.is_some();
        let bound = side.start(address, Served { app, tls }, predecessor).await;
        side.control = Some(bound.with_context(|| in_use("listen.control", address))?);
    }
    // The exporter's own switch counts too: APISIX's users turn the page off there.
    if let Some(address) = first(&bootstrap.listen.metrics)
        && exports_metrics(bootstrap)
    {
        let app = metrics_page(introspection.clone());
        let tls = tls("metrics.tls", &bootstrap.metrics.tls)?;
        side.metrics_are_tls = tls.is_some();
        let bound = side.start(address, Served { app, tls }, predecessor).await;
        side.metrics = Some(bound.with_context(|| in_use("listen.metrics", address))?);
    }
    if let Some(address) = first(&bootstrap.listen.status) {
        let app = status_pages(introspection.clone());
        let tls = tls("status.tls", &bootstrap.status.tls)?;
        side.status_is_tls = tls.is_some();
        let bound = side.start(address, Served { app, tls }, predecessor).await;
        side.status = Some(bound.with_context(|| in_use("listen.status", address))?);
    }
    Ok(side)
}

pub(crate) fn in_use(key: &str, address: SocketAddr) -> String {
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
    /// Serves on `address`; returns the address bound.
    async fn start(
        &mut self,
        address: SocketAddr,
        served: Served,
        predecessor: Predecessor,
    ) -> std::io::Result<SocketAddr> {
        let listener = bind(address, predecessor).await?;
        let bound = listener.local_addr()?;
        // It ends with the process, or is cut for a successor.
        let bounds = Bounds {
            name: "side",
            connections_max: self.connections_max,
            drain_time: Duration::ZERO,
        };
        let never = std::future::pending();
        let everybody = |_| true;
        let hosts = self.hosts.clone();
        let task = tokio::spawn(accept::serve(listener, bounds, never, everybody, {
            move |stream, _, _| take(stream, served.clone(), hosts.clone())
        }));
        self.tasks.push(task.abort_handle());
        Ok(bound)
    }

    /// Tells the console where they listen.
    pub(crate) fn publish_addresses(&self, cx: &ControlContext) {
        cx.bound.set("control", self.control);
        cx.bound.set("metrics", self.metrics);
        cx.bound.set("status", self.status);
    }
}

/// What a listener serves, and how.
#[derive(Clone)]
struct Served {
    app: Router,
    tls: Option<ListenerTls>,
}

async fn take(stream: TcpStream, served: Served, hosts: HostNames) {
    let Served { app, tls } = served;
    let from_this_machine = stream.local_addr().is_ok_and(|local| local.ip().is_loopback());
    let no_websites = middleware::from_fn_with_state(hosts, no_websites);
    let app = if from_this_machine { app.layer(no_websites) } else { app };
    let Some(tls) = tls else { return connection(stream, app).await };
    match tls.accept(stream).await {
        Ok(stream) => connection(stream, app).await,
        Err(error) => tracing::debug!(%error, "a handshake of a side listener failed"),
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, app: Router) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let service = TowerToHyperService::new(app);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection to a side listener ended early");
    }
}

/// The certificate of a listener for operators, whose keys begin with `name`, if it has one.
///
/// # Errors
/// A file cannot be read, or is none of what it should be.
pub(crate) fn tls(name: &str, tls: &bootstrap::ListenerTls) -> anyhow::Result<Option<ListenerTls>> {
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else { return Ok(None) };
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("{name}: {} cannot be read", path.display()))
    };
    let authorities = tls.client_ca.as_deref().map(read).transpose()?;
    let config = ListenerTls::from_pem(&read(cert)?, &read(key)?, authorities.as_deref())
        .with_context(|| name.to_owned())?;
    Ok(Some(config))
}

/// Where no key is asked for and nobody but this machine is meant, a browser of this machine must not
/// be led here by a website: neither by a name that it has had resolved to loopback, nor by a link or a form.
async fn no_websites(State(hosts): State<HostNames>, request: Request, next: Next) -> Response {
    if !is_websites(&hosts, &request) {
        return next.run(request).await;
    }
    let text = "only calls to an address, a local name or one of listen.hosts, and from no other website, are \
                answered here\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

fn is_websites(hosts: &HostNames, request: &Request) -> bool {
    // What is no text is no name of this machine either.
    let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or(".."));
    hosts.may_be_a_websites(text(header::HOST).unwrap_or_default(), text(header::ORIGIN))
}

/// Binds, waiting a little for a predecessor that is just leaving.
pub(crate) async fn bind(
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

/// The first address of a list, for listeners that have one.
fn first(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    addresses.first().copied()
}
