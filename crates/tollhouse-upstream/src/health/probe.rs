//! Probe of a node, from the connection to its outcome.
//!
//! `checker.rs` schedules probes; `state.rs` defines the effect of an outcome on health.

mod grpc;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollhouse_http::element::{Authority, FieldName, FieldValue, Method, OriginForm};
use tollhouse_http::{Framing, HeadWriter, Known};
use tollhouse_model::upstream::{ActiveCheck, CheckKind, Checks, ProxyHeader};
use tollhouse_net::tls::{Connector, Trust};
use tollhouse_net::{Stream, connect, proxy_protocol, tls};
use tollhouse_stdx::Endpoint;

/// Maximum number of bytes read of a response. The status is in the first 13; a longer line is not
/// read to its end.
const STATUS_LINE_BYTES_MAX: usize = 512;

/// Timeout if the configuration says 0, which would fail every node; equals the schema's default.
const TIMEOUT_WHEN_ZERO: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Probe {
    pub address: Endpoint,
    /// Host for the `Host` header and for the server name of TLS.
    pub host: String,
    pub checks: Arc<Checks>,
    /// Authorities (PEM) that verify the node's certificate; `None` means the system's.
    pub authorities: Option<Arc<str>>,
    /// PROXY protocol header at the start of connections to the node.
    pub proxy_protocol: Option<ProxyHeader>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The TCP connection was established; result of a probe of type `tcp`.
    Connected,
    /// An http or https probe was answered with this status; for gRPC, the HTTP status equivalent
    /// to the response.
    Answered(u16),
    /// The connection was refused or broken, TLS failed, or the response was not HTTP.
    Failed,
    TimedOut,
}

pub type Probing = Pin<Box<dyn Future<Output = ProbeOutcome> + Send>>;

/// Performs probes: over sockets, or by a script in tests.
pub trait Prober: Send + Sync + 'static {
    /// Performs a probe within its timeout.
    fn probe(self: Arc<Self>, probe: Probe) -> Probing;
}

#[derive(Default)]
pub struct SocketProber {
    /// TLS connector that verifies certificates. Created at the first https probe that needs it,
    /// because reading the system's roots takes milliseconds.
    verifying: OnceLock<Option<Connector>>,
    trusting: OnceLock<Option<Connector>>,
}

impl Prober for SocketProber {
    fn probe(self: Arc<Self>, probe: Probe) -> Probing {
        Box::pin(async move {
            let timeout = match probe.checks.active.timeout {
                Duration::ZERO => TIMEOUT_WHEN_ZERO,
                timeout => timeout,
            };
            match tokio::time::timeout(timeout, self.exchange(&probe)).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => ProbeOutcome::Failed,
                Err(_) => ProbeOutcome::TimedOut,
            }
        })
    }
}

impl SocketProber {
    async fn exchange(&self, probe: &Probe) -> io::Result<ProbeOutcome> {
        let active = &probe.checks.active;
        let header = own_header(probe);
        let mut stream = match active.kind {
            CheckKind::Tcp => {
                connect::connect_announced(probe.address, &header).await?;
                return Ok(ProbeOutcome::Connected);
            }
            CheckKind::Http | CheckKind::Grpc => {
                connect::connect_announced(probe.address, &header).await?
            }
            CheckKind::Https => {
                let connector = self.connector(probe).ok_or(io::ErrorKind::Unsupported)?;
                self.connect_tls(probe, &connector).await?
            }
            CheckKind::Grpcs => {
                let connector = self.connector(probe).ok_or(io::ErrorKind::Unsupported)?;
                self.connect_tls(probe, &connector.for_http2()).await?
            }
        };
        if matches!(active.kind, CheckKind::Grpc | CheckKind::Grpcs) {
            return grpc::check(&mut stream, &probe.host, &active.grpc_service).await;
        }
        stream.write_all(&request(active, &probe.host)).await?;
        stream.flush().await?;
        Ok(read_status(&mut stream).await?.map_or(ProbeOutcome::Failed, ProbeOutcome::Answered))
    }

    async fn connect_tls(&self, probe: &Probe, connector: &Connector) -> io::Result<Stream> {
        let name = probe.host.trim_matches(['[', ']']);
        let header = own_header(probe);
        connect::connect_tls_announced(probe.address, connector, name, &header).await
    }

    fn connector(&self, probe: &Probe) -> Option<Connector> {
        let open = |trust| tls::connector(None, trust).ok();
        if !probe.checks.active.https_verify_certificate {
            return self.trusting.get_or_init(|| open(Trust::Anybody)).clone();
        }
        match &probe.authorities {
            // Created for each probe, at a fraction of the cost of the handshake, so that no state
            // is kept for removed upstreams.
            Some(authorities) => open(Trust::Authorities(authorities)),
            None => self.verifying.get_or_init(|| open(Trust::System)).clone(),
        }
    }
}

/// Returns the PROXY protocol header for a node that expects one; the header states that the probe
/// has no client. A separate port for checks receives none, because it is not proxied.
fn own_header(probe: &Probe) -> Vec<u8> {
    let mut header = Vec::new();
    let version = probe.proxy_protocol.filter(|_| probe.checks.active.port.is_none());
    if let Some(version) = version {
        let version = match version {
            ProxyHeader::V1 => proxy_protocol::Version::V1,
            ProxyHeader::V2 => proxy_protocol::Version::V2,
        };
        proxy_protocol::write_own(version, &mut header);
    }
    header
}

/// Formats a host as in a `Host` header.
pub(crate) fn host_text(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => format!("[{host}]"),
        _ => host.to_owned(),
    }
}

/// Builds the request of an http probe. Configured values that are invalid in a request head are
/// left out.
fn request(active: &ActiveCheck, host: &str) -> Vec<u8> {
    let lines = || active.request_headers.iter().filter_map(|line| header_line(line));
    let own_host = lines().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(b"host"));
    let own_host = own_host.and_then(|(_, value)| Authority::parse(value.as_bytes()));
    let host = own_host.or_else(|| Authority::parse(host.as_bytes()));
    let method = Method::parse(active.http_method.as_bytes()).or_else(|| Method::parse(b"GET"));
    let target = OriginForm::parse(active.http_path.as_bytes()).or_else(|| OriginForm::parse(b"/"));
    let mut bytes = Vec::new();
    let (Some(method), Some(target)) = (method, target) else { return bytes };
    // A node without a valid name is probed under a reserved one (RFC 2606 §2).
    let Some(host) = host.or_else(|| Authority::parse(b"node.invalid")) else { return bytes };
    let mut head = HeadWriter::request(&mut bytes, method, target, host);
    head.field(FieldName::literal("Connection"), FieldValue::literal("close"));
    for (name, value) in lines().filter(|(name, _)| !is_own(name.as_bytes())) {
        head.field(name, value);
    }
    let body = active.http_request_body.as_bytes();
    if !body.is_empty() {
        head.framing(Framing::Length(body.len() as u64));
    }
    head.end();
    bytes.extend_from_slice(body);
    bytes
}

/// Parses `Name: value`; `None` if it is not a valid header line.
fn header_line(line: &str) -> Option<(FieldName<'_>, FieldValue<'_>)> {
    let (name, value) = line.split_once(':')?;
    let value = value.trim_matches([' ', '\t']);
    Some((FieldName::parse(name.trim_end().as_bytes())?, FieldValue::parse(value.as_bytes())?))
}

/// Whether the probe writes this header itself, so that configured lines for it are ignored.
fn is_own(name: &[u8]) -> bool {
    matches!(
        Known::from_name(name),
        Known::Host | Known::Connection | Known::ContentLength | Known::TransferEncoding
    )
}

/// Reads until the status is known; `None` if the response is not HTTP/1.
async fn read_status(stream: &mut Stream) -> io::Result<Option<u16>> {
    let mut buffer = [0; STATUS_LINE_BYTES_MAX];
    let mut filled = 0;
    while filled < buffer.len() {
        let room = &mut buffer[filled..];
        let read = stream.read(room).await?;
        filled += read;
        if read == 0 || buffer[..filled].contains(&b'\n') {
            break;
        }
    }
    Ok(parse_status(&buffer[..filled]))
}

/// Parses `HTTP/1.1 200 OK` to 200.
fn parse_status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let [b'0'..=b'9', b' ', hundreds, tens, ones, after @ ..] = rest else { return None };
    if !matches!(after.first(), None | Some(b' ' | b'\r' | b'\n')) {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u16::from(byte - b'0'));
    let status = digit(hundreds)? * 100 + digit(tens)? * 10 + digit(ones)?;
    (status >= 100).then_some(status)
}

#[cfg(test)]
mod tests;
