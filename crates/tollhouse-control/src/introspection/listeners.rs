//! Listeners for operators, each on its own address: control API, metrics, and status pages.
//!
//! The module `introspection` has the answers of the control API. Answers are made from shared
//! state, so that no request here touches a worker thread.

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
use tollhouse_net::listener_tls::{ListenerTls, ListenerTlsError};
use tollhouse_net::local_name::HostNames;
use tollhouse_telemetry::prometheus::CONTENT_TYPE as METRICS_TYPE;

use super::state::Introspection;
use super::{control_api, status_pages};
use crate::console::bound::BoundAddresses;
use crate::context::ControlContext;
use crate::plugins::endpoints::METRICS_PATH;
use crate::process::handover::Predecessor;

/// Running side listeners; an address is `None` if the listener is off.
#[derive(Debug, Default)]
pub struct SideListeners {
    pub control: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    /// Whether the control API uses TLS.
    pub control_is_tls: bool,
    /// Whether the metrics listener uses TLS.
    pub metrics_are_tls: bool,
    pub status: Option<SocketAddr>,
    /// Whether the status pages use TLS.
    pub status_is_tls: bool,
    tasks: Vec<AbortHandle>,
    /// Host names that requests may use for this machine.
    hosts: HostNames,
    /// Limit of concurrent connections per listener.
    connections_max: usize,
}

impl SideListeners {
    /// Stops listening, so that a successor can bind the ports.
    pub fn stop(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Timeout for a request head, and idle timeout of a connection. Probes and scrapers usually send a
/// request every minute.
const HEAD_TIME_MAX: Duration = Duration::from_secs(75);

/// Time to wait for a side port that a leaving predecessor still holds.
const PORT_WAIT: Duration = Duration::from_secs(5);

/// Starts all side listeners of the bootstrap file.
///
/// # Errors
/// If an address cannot be listened on or a certificate cannot be used; the text names the setting.
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
        let bound = side.start(address, ListenerApp { app, tls }, predecessor).await;
        side.control = Some(bound.with_context(|| in_use("listen.control", address))?);
    }
    // APISIX users turn the listener off with the plugin attribute, so that it is honoured too.
    if let Some(address) = first(&bootstrap.listen.metrics)
        && exports_metrics(bootstrap)
    {
        let app = metrics_page(introspection.clone());
        let tls = tls("metrics.tls", &bootstrap.metrics.tls)?;
        side.metrics_are_tls = tls.is_some();
        let bound = side.start(address, ListenerApp { app, tls }, predecessor).await;
        side.metrics = Some(bound.with_context(|| in_use("listen.metrics", address))?);
    }
    if let Some(address) = first(&bootstrap.listen.status) {
        let app = status_pages(introspection.clone());
        let tls = tls("status.tls", &bootstrap.status.tls)?;
        side.status_is_tls = tls.is_some();
        let bound = side.start(address, ListenerApp { app, tls }, predecessor).await;
        side.status = Some(bound.with_context(|| in_use("listen.status", address))?);
    }
    Ok(side)
}

pub(crate) fn in_use(key: &str, address: SocketAddr) -> String {
    format!("cannot listen on {address}; set {key} to another address, or to an empty one for none")
}

/// Whether `plugin_attr.prometheus` enables the metrics listener. If disabled, the page can be
/// served by the `public-api` plugin.
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
    /// Starts serving on `address`; returns the bound address.
    async fn start(
        &mut self,
        address: SocketAddr,
        served: ListenerApp,
        predecessor: Predecessor,
    ) -> std::io::Result<SocketAddr> {
        let listener = bind(address, predecessor).await?;
        let bound = listener.local_addr()?;
        // Never drained: the listener ends with the process or is aborted for a successor.
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

    /// Publishes the bound addresses for the console.
    pub(crate) fn publish_addresses(&self, bound: &BoundAddresses) {
        bound.set("control", self.control);
        bound.set("metrics", self.metrics);
        bound.set("status", self.status);
    }
}

/// Content of a listener, with its TLS settings.
#[derive(Clone)]
struct ListenerApp {
    app: Router,
    tls: Option<ListenerTls>,
}

async fn take(stream: TcpStream, served: ListenerApp, hosts: HostNames) {
    let ListenerApp { app, tls } = served;
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

/// TLS settings of a listener for operators; `None` without a certificate. `name` is the prefix of
/// its settings.
///
/// # Errors
/// If a file cannot be read or is not a valid certificate, key or CA.
pub(crate) fn tls(name: &str, tls: &bootstrap::ListenerTls) -> anyhow::Result<Option<ListenerTls>> {
    read_tls(name, tls, ListenerTls::from_pem)
}

/// TLS settings of the Admin API, which answers clients without a valid certificate with the
/// reason, as APISIX does.
///
/// # Errors
/// As [`tls`].
pub(crate) fn admin_tls(tls: &bootstrap::ListenerTls) -> anyhow::Result<Option<ListenerTls>> {
    read_tls("admin.tls", tls, ListenerTls::answering_strangers)
}

type FromPem = fn(&[u8], &[u8], Option<&[u8]>) -> Result<ListenerTls, ListenerTlsError>;

fn read_tls(
    name: &str,
    tls: &bootstrap::ListenerTls,
    from_pem: FromPem,
) -> anyhow::Result<Option<ListenerTls>> {
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else { return Ok(None) };
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("{name}: {} cannot be read", path.display()))
    };
    let authorities = tls.client_ca.as_deref().map(read).transpose()?;
    let config = from_pem(&read(cert)?, &read(key)?, authorities.as_deref())
        .with_context(|| name.to_owned())?;
    Ok(Some(config))
}

/// Refuses requests that a website may have caused. Loopback listeners have no authentication, so
/// that a website must not reach them through a local browser: by a DNS name that resolves to
/// loopback, a link, or a form.
async fn no_websites(State(hosts): State<HostNames>, request: Request, next: Next) -> Response {
    if !is_websites(&hosts, &request) {
        return next.run(request).await;
    }
    let text = "only calls to an address, a local name or one of listen.hosts, and from no other website, are \
                answered here\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

fn is_websites(hosts: &HostNames, request: &Request) -> bool {
    // A header that is not text is replaced by an invalid host name, so that the request is
    // refused.
    let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or(".."));
    hosts.may_be_a_websites(text(header::HOST).unwrap_or_default(), text(header::ORIGIN))
}

/// Binds a listener; retries while a leaving predecessor still holds the port.
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

fn first(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    addresses.first().copied()
}
