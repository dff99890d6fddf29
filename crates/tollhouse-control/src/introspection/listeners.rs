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
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;
use tokio::sync::watch;
use tollhouse_config::{Bootstrap, bootstrap};
use tollhouse_net::listener_tls::{ListenerTls, ListenerTlsError};
use tollhouse_net::local_name::HostNames;
use tollhouse_telemetry::exposition::Format;
use tollhouse_web::{Limits, Listener, Peer, host_and_origin, until_stopped};

use super::state::Introspection;
use super::{control_api, status_pages};
use crate::console::bound::BoundAddresses;
use crate::context::ControlContext;
use crate::plugins::endpoints;
use crate::process::handover::Predecessor;

/// Running side listeners; each is `None` if it is off.
#[derive(Debug)]
pub struct SideListeners {
    pub control: Option<SideListener>,
    pub metrics: Option<SideListener>,
    pub status: Option<SideListener>,
    /// Becomes true when the listeners must end.
    stopped: watch::Sender<bool>,
}

#[derive(Debug, Clone, Copy)]
pub struct SideListener {
    /// Bound address.
    pub address: SocketAddr,
    pub is_tls: bool,
}

impl SideListeners {
    /// Stops listening, so that a successor can bind the ports.
    pub fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Publishes the bound addresses for the console.
    pub(crate) fn publish_addresses(&self, bound: &BoundAddresses) {
        for (name, listener) in
            [("control", self.control), ("metrics", self.metrics), ("status", self.status)]
        {
            bound.set(name, listener.map(|listener| listener.address));
        }
    }
}

/// Timeout for a request head, and idle timeout of a connection. Probes and scrapers usually send a
/// request every minute.
const HEAD_TIME_MAX: Duration = Duration::from_secs(75);

/// Maximum time for requests in progress to finish after the stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Maximum wait for a side port that a leaving predecessor still holds.
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
    let listen = &bootstrap.listen;
    let hosts = HostNames::new(&listen.hosts);
    let stopped = watch::Sender::new(false);
    let start = async |name: &'static str, addresses: &[SocketAddr], settings, app: Router| {
        let Some(&address) = addresses.first() else { return Ok(None) };
        let tls = tls(&format!("{name}.tls"), settings)?;
        let is_tls = tls.is_some();
        let in_use = || in_use(&format!("listen.{name}"), address);
        let socket = bind(address, predecessor).await.with_context(in_use)?;
        let address = socket.local_addr()?;
        let limits = Limits {
            name,
            connections_max: cx.descriptors.side,
            head_time_max: HEAD_TIME_MAX,
            drain_time_max: DRAIN_TIME_MAX,
        };
        let app = app.layer(middleware::from_fn_with_state(hosts.clone(), no_websites));
        let stopped = until_stopped(stopped.subscribe());
        tokio::spawn(tollhouse_web::serve(Listener { socket, tls, limits }, app, stopped));
        anyhow::Ok(Some(SideListener { address, is_tls }))
    };
    let app = control_api(introspection.clone());
    let control = start("control", &listen.control, &bootstrap.control.tls, app).await?;
    // APISIX users turn the listener off with the plugin attribute, so that it is honoured too.
    let metrics = if exports_metrics(bootstrap) { &*listen.metrics } else { &[] };
    let app = metrics_page(introspection.clone(), endpoints::metrics_path(&bootstrap.plugin_attr));
    let metrics = start("metrics", metrics, &bootstrap.metrics.tls, app).await?;
    let app = status_pages(introspection.clone());
    let status = start("status", &listen.status, &bootstrap.status.tls, app).await?;
    Ok(SideListeners { control, metrics, status, stopped })
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

/// Returns the pages of the metrics listener: `/metrics`, and `path`, which is compared as it is
/// written.
fn metrics_page(introspection: Introspection, path: &str) -> Router {
    let path = path.to_owned();
    let other = move |state: State<Introspection>, uri: Uri, headers: HeaderMap| {
        let is_page = uri.path() == path;
        async move {
            match is_page {
                true => metrics(state, headers).await.into_response(),
                false => StatusCode::NOT_FOUND.into_response(),
            }
        }
    };
    Router::new().route("/metrics", get(metrics)).fallback(get(other)).with_state(introspection)
}

/// Returns the TLS settings of a listener for operators; `None` without a certificate. `name` is
/// the prefix of its settings.
///
/// # Errors
/// If a file cannot be read or is not a valid certificate, key or CA.
pub(crate) fn tls(name: &str, tls: &bootstrap::ListenerTls) -> anyhow::Result<Option<ListenerTls>> {
    read_tls(name, tls, ListenerTls::from_pem)
}

/// Returns the TLS settings of the Admin API, which answers clients without a valid certificate
/// with the reason, as APISIX does.
///
/// # Errors
/// For the reasons of [`tls`].
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
    let is_local = request.extensions().get::<Peer>().is_some_and(|peer| peer.is_local);
    let (host, origin) = host_and_origin(request.headers());
    if !is_local || !hosts.may_be_a_websites(host, origin) {
        return next.run(request).await;
    }
    let text = "only calls to an address, a local name or one of listen.hosts, and from no other website, are \
                answered here\n";
    (StatusCode::FORBIDDEN, text).into_response()
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

async fn metrics(
    State(introspection): State<Introspection>,
    headers: HeaderMap,
) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let content_type = [(header::CONTENT_TYPE, format.content_type())];
    (content_type, introspection.metrics.body(format))
}
