//! Behaviour of a mock upstream, as set by tests, suites and the command line.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::choice::{Share, Statuses};
use super::latency::{Latency, Stall};
use crate::error::MockError;
use tollhouse_stdx::fine_duration;

/// Maximum length of a generated or loaded body, which is held in memory once.
pub const BODY_BYTES_MAX: usize = 1 << 30;

/// Maximum number of worker threads; more threads than cores are useless.
pub const WORKERS_MAX: usize = 1_024;

/// Maximum number of copies of a gRPC message.
pub const GRPC_REPEAT_MAX: u32 = 1_000_000;

/// Text repeated in generated bodies.
const FILLING: &[u8] = b"tollhouse mock upstream ";

/// Behaviour of a mock upstream. The default is a null server: a port chosen by the kernel, no
/// delay, body `ok`.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// Addresses to listen on; with port 0, the kernel chooses the port.
    pub listen: Vec<SocketAddr>,
    /// Number of worker threads; 0 means one per core.
    pub workers: usize,
    /// Delay before each response.
    pub latency: Latency,
    pub body: Body,
    /// Statuses of responses, chosen at random by weight.
    pub statuses: Statuses,
    /// Share of requests answered with 500 (gRPC: `INTERNAL`).
    pub error_rate: Share,
    /// Share of requests whose connection (HTTP/2: stream) is reset.
    pub reset_rate: Share,
    /// Additional header lines; `content-type` and `server` replace the mock's own.
    pub headers: Vec<(String, String)>,
    /// The only path that is answered; other paths return 404. By default all paths are answered.
    pub path: Option<String>,
    pub grpc: Grpc,
    /// Single stall of the whole mock; none by default.
    pub stall: Option<Stall>,
    /// Use of TLS, and its certificate.
    pub tls: Tls,
    /// Seed that makes the random choices repeatable.
    pub seed: Option<u64>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            workers: 0,
            latency: Latency::default(),
            body: Body::default(),
            statuses: Statuses::default(),
            error_rate: Share::NONE,
            reset_rate: Share::NONE,
            headers: Vec::new(),
            path: None,
            grpc: Grpc::default(),
            stall: None,
            tls: Tls::Off,
            seed: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Bytes(Bytes),
    /// Body of the request, sent back.
    Echo,
}

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Bytes::from_static(b"ok"))
    }
}

impl Body {
    /// Generates a readable body of this length in bytes.
    ///
    /// # Errors
    /// If it exceeds [`BODY_BYTES_MAX`].
    pub fn with_length(bytes: usize) -> Result<Self, MockError> {
        if bytes > BODY_BYTES_MAX {
            let why = format!("{bytes} is more than {BODY_BYTES_MAX}; choose a shorter body");
            return Err(MockError::Setting { key: "body-bytes".into(), why });
        }
        Ok(Self::Bytes(FILLING.iter().copied().cycle().take(bytes).collect()))
    }

    /// Reads a body from a file.
    ///
    /// # Errors
    /// If the file cannot be read or is too long.
    pub fn read(path: &std::path::Path) -> Result<Self, MockError> {
        let error = |why: String| MockError::File { path: path.to_owned(), why };
        let size = std::fs::metadata(path).map_err(|reason| error(reason.to_string()))?.len();
        if size > BODY_BYTES_MAX as u64 {
            return Err(error(format!("is longer than {BODY_BYTES_MAX} bytes")));
        }
        let bytes = std::fs::read(path).map_err(|reason| error(reason.to_string()))?;
        Ok(Self::Bytes(bytes.into()))
    }
}

/// Behaviour of gRPC calls, which are answered with the received messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grpc {
    /// Selection of the messages that are sent back.
    pub answer: GrpcAnswer,
    /// Number of copies of each message; above 1 for server streaming.
    pub repeat: u32,
    /// Final status of calls. With a status other than 0, no message is sent.
    pub status: u8,
}

impl Default for Grpc {
    fn default() -> Self {
        Self { answer: GrpcAnswer::Each, repeat: 1, status: 0 }
    }
}

/// Selection of the messages of a gRPC call that are sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrpcAnswer {
    /// Each message on arrival: for unary and bidirectional calls.
    Each,
    /// The last message, after the client has ended: for client streaming.
    Last,
}

/// Use of TLS, and its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    Off,
    /// Generated certificate for localhost and the listening addresses.
    SelfSigned,
    Files {
        /// File with the certificate, followed by its chain, in PEM format.
        certificate: PathBuf,
        /// File with the private key in PEM format.
        key: PathBuf,
    },
}

impl Behaviour {
    /// Returns the upstream of the ShenYu benchmark: 2 KB after 20 ms.
    pub fn shenyu() -> Self {
        let body = FILLING.iter().copied().cycle().take(2_048).collect();
        Self {
            latency: Latency::fixed(Duration::from_millis(20)),
            body: Body::Bytes(body),
            ..Self::default()
        }
    }

    /// Returns the test server of ngxway: `/api/test` returns `ok` without delay.
    pub fn ngxway() -> Self {
        Self { path: Some("/api/test".into()), ..Self::default() }
    }

    /// Checks the settings for contradictions.
    ///
    /// # Errors
    /// If a setting is invalid; the error names it and a remedy.
    pub fn check(&self) -> Result<(), MockError> {
        let wrong = |key: &str, why: &str| {
            Err(MockError::Setting { key: key.to_owned(), why: why.to_owned() })
        };
        self.latency.check()?;
        if self.listen.is_empty() {
            return wrong("listen", "is empty; write an address such as 127.0.0.1:8000");
        }
        if self.workers > WORKERS_MAX {
            return wrong("workers", "are more than 1024; one per core is enough");
        }
        if self.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
            return wrong("path", "does not begin with `/`");
        }
        if self.grpc.repeat > GRPC_REPEAT_MAX {
            return wrong("grpc-repeat", "is more than 1000000; choose less");
        }
        if self.grpc.status > GRPC_STATUS_MAX {
            return wrong("grpc-status", "is more than 16; see the status codes of gRPC");
        }
        if self.stall.is_some_and(|stall| stall.length.is_zero()) {
            return wrong("stall-for", "is zero; write for example 1s");
        }
        self.headers.iter().try_for_each(|(name, value)| check_header(name, value))
    }
}

/// Highest gRPC status code, `UNAUTHENTICATED`.
const GRPC_STATUS_MAX: u8 = 16;

/// Headers that define the framing of a response or the persistence of its connection; only the
/// mock sets them.
const FRAMING_NAMES: [&str; 5] =
    ["content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"];

fn check_header(name: &str, value: &str) -> Result<(), MockError> {
    let wrong = |why: String| Err(MockError::Setting { key: "header".into(), why });
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return wrong(format!("`{name}` is not a header name; write Name:Value"));
    }
    if http::HeaderValue::from_str(value).is_err() {
        return wrong(format!("the value of `{name}` has control characters in it"));
    }
    if FRAMING_NAMES.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
        return wrong(format!("`{name}` follows from the answer and cannot be set"));
    }
    Ok(())
}

impl fmt::Display for Behaviour {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Body::Bytes(bytes) => write!(out, "{} with {} bytes", self.statuses, bytes.len())?,
            Body::Echo => write!(out, "{} with the request's body", self.statuses)?,
        }
        if let Some(path) = &self.path {
            write!(out, " to {path}")?;
        }
        if self.latency.mean.is_zero() {
            out.write_str(" at once")?;
        } else {
            write!(out, " after {}", fine_duration::format(self.latency.mean))?;
            let spread = self.latency.spread();
            if !spread.is_zero() {
                write!(out, " ± {}", fine_duration::format(spread))?;
            }
            write!(out, " ({})", self.latency.shape.name())?;
        }
        for (share, what) in [(self.error_rate, "errors"), (self.reset_rate, "resets")] {
            if share > Share::NONE {
                write!(out, ", {share} {what}")?;
            }
        }
        if let Some(stall) = self.stall {
            let [after, length] = [stall.after, stall.length].map(fine_duration::format);
            write!(out, ", standing still for {length} from {after} after the first request")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_behaviour_tells_what_it_does() {
        let stall = Stall { after: Duration::from_secs(5), length: Duration::from_secs(1) };
        let all = Behaviour {
            latency: Latency { shape: crate::Shape::Normal, ..Behaviour::shenyu().latency },
            statuses: "200=95,503=5".parse().expect("statuses"),
            error_rate: Share::new(0.01),
            reset_rate: Share::new(0.002),
            body: Body::Echo,
            stall: Some(stall),
            ..Behaviour::default()
        };
        for (behaviour, shown) in [
            (Behaviour::default(), "200 with 2 bytes at once"),
            (Behaviour::shenyu(), "200 with 2048 bytes after 20ms (fixed)"),
            (Behaviour::ngxway(), "200 with 2 bytes to /api/test at once"),
            (
                all,
                "200=95,503=5 with the request's body after 20ms ± 2ms (normal), 1% errors, 0.2% resets, \
                 standing still for 1s from 5s after the first request",
            ),
        ] {
            assert_eq!(behaviour.check().map_err(|error| error.to_string()), Ok(()));
            assert_eq!(behaviour.to_string(), shown);
        }
    }

    #[test]
    fn contradictions_are_named() {
        let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let usual = Behaviour::default;
        let stall = Stall { after: Duration::ZERO, length: Duration::ZERO };
        for (behaviour, key) in [
            (Behaviour { listen: Vec::new(), ..usual() }, "listen:"),
            (Behaviour { workers: WORKERS_MAX + 1, ..usual() }, "workers:"),
            (Behaviour { path: Some("x".into()), ..usual() }, "path:"),
            (Behaviour { headers: header("a b", "c"), ..usual() }, "header:"),
            (Behaviour { headers: header("a", "b\r\nc"), ..usual() }, "header:"),
            (Behaviour { headers: header("Content-Length", "3"), ..usual() }, "header:"),
            (Behaviour { stall: Some(stall), ..usual() }, "stall-for:"),
            (Behaviour { grpc: Grpc { status: 17, ..Grpc::default() }, ..usual() }, "grpc-status:"),
            (
                Behaviour {
                    grpc: Grpc { repeat: GRPC_REPEAT_MAX + 1, ..Grpc::default() },
                    ..usual()
                },
                "grpc-repeat:",
            ),
        ] {
            let error = behaviour.check().expect_err(key).to_string();
            assert!(error.starts_with(key), "{error}");
        }
        assert!(Body::with_length(BODY_BYTES_MAX + 1).is_err());
        assert!(Body::read(std::path::Path::new("/nowhere/at/all")).is_err());
        let Ok(Body::Bytes(bytes)) = Body::with_length(2_048) else { panic!("bytes") };
        assert_eq!(bytes.len(), 2_048);
    }
}
