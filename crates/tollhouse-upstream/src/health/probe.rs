//! One probe: what is sent to a node and what came of it.
//!
//! When to probe is decided in `checker.rs`; what an outcome means for health in `state.rs`.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tollhouse_model::upstream::{ActiveCheck, CheckKind, Checks};
use tollhouse_net::tls::Connector;
use tollhouse_net::{Stream, connect, tls};

/// Bytes read of an answer: the status is in the first 13, and a reason longer than this is no
/// reason.
const STATUS_LINE_BYTES_MAX: usize = 512;

/// How long a probe may take where the document says 0, which would fail every node: the default
/// of the schema.
const TIMEOUT_WHEN_ZERO: Duration = Duration::from_secs(1);

/// A probe to be made.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Where to.
    pub address: SocketAddr,
    /// `Host` and SNI.
    pub host: String,
    /// The checks it belongs to.
    pub checks: Arc<Checks>,
}

/// What came of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// A tcp probe was connected.
    Connected,
    /// An http or https probe was answered.
    Answered(u16),
    /// The connection was refused or broken, TLS failed, or the answer was not HTTP.
    Failed,
    /// It took too long.
    TimedOut,
}

/// A probe under way.
pub type Probing = Pin<Box<dyn Future<Output = ProbeOutcome> + Send>>;

/// Who makes probes: sockets, or a script in tests.
pub trait Prober: Send + Sync + 'static {
    /// Makes one, within its time-out.
    fn probe(self: Arc<Self>, probe: Probe) -> Probing;
}

/// Probes over sockets.
#[derive(Default)]
pub struct SocketProber {
    /// Made at the first https probe that wants a certificate to verify: reading the system's
    /// roots takes milliseconds.
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
        let mut stream = match active.kind {
            CheckKind::Tcp => {
                connect::connect(probe.address).await?;
                return Ok(ProbeOutcome::Connected);
            }
            CheckKind::Http => connect::connect(probe.address).await?,
            CheckKind::Https => {
                let connector = self.connector(active).ok_or(io::ErrorKind::Unsupported)?;
                let name = probe.host.trim_matches(['[', ']']);
                connect::connect_tls(probe.address, connector, name).await?
            }
        };
        send(&mut stream, &request(active, &probe.host)).await?;
        Ok(read_status(&mut stream).await?.map_or(ProbeOutcome::Failed, ProbeOutcome::Answered))
    }

    fn connector(&self, active: &ActiveCheck) -> Option<&Connector> {
        let connector = if active.https_verify_certificate {
            self.verifying.get_or_init(|| tls::verifying_connector().ok())
        } else {
            self.trusting.get_or_init(|| tls::connector(None).ok())
        };
        connector.as_ref()
    }
}

/// The host as it stands in a `Host` header.
pub(crate) fn host_text(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => format!("[{host}]"),
        _ => host.to_owned(),
    }
}

/// The bytes of an http probe. Text of the document that would start another line is left out.
fn request(active: &ActiveCheck, host: &str) -> Vec<u8> {
    let clean = |text: &str| !text.bytes().any(|byte| byte < b' ' || byte == 0x7f);
    let or = |text: &str, default: &'static str| match clean(text) && !text.is_empty() {
        true => text.to_owned(),
        false => default.to_owned(),
    };
    let method = or(&active.http_method, "GET");
    let path = or(&active.http_path, "/");
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    let own_host = |line: &str| {
        line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("host"))
    };
    let lines = || active.request_headers.iter().filter(|line| clean(line) && line.contains(':'));
    if !lines().any(|line| own_host(line)) && clean(host) {
        text.push_str(&format!("Host: {host}\r\n"));
    }
    text.push_str("Connection: close\r\n");
    for line in lines() {
        text.push_str(line);
        text.push_str("\r\n");
    }
    let body = &active.http_request_body;
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

async fn send(stream: &mut Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let parts = [IoSlice::new(bytes)];
        match poll_fn(|context| stream.poll_write(context, &parts)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    poll_fn(|context| stream.poll_flush(context)).await
}

/// Reads until the status is known; `None` when the answer is not HTTP/1.
async fn read_status(stream: &mut Stream) -> io::Result<Option<u16>> {
    let mut buffer = [0; STATUS_LINE_BYTES_MAX];
    let mut filled = 0;
    while filled < buffer.len() {
        let room = &mut buffer[filled..];
        let read = poll_fn(|context| stream.poll_read(context, room)).await?;
        filled += read;
        if read == 0 || buffer[..filled].contains(&b'\n') {
            break;
        }
    }
    Ok(parse_status(&buffer[..filled]))
}

/// `HTTP/1.1 200 OK` → 200.
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
