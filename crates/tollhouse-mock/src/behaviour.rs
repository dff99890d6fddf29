//! What a mock upstream does: a value that tests and suites write down and the command line fills in.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::choice::{Share, Statuses};
use super::latency::{Latency, Stall};
use crate::error::MockError;
use tollhouse_stdx::fine_duration;

/// Longest body that is made up or read from a file: it is held in memory once.
pub const BODY_BYTES_MAX: usize = 1 << 30;

/// Most worker threads; more than cores help nobody.
pub const WORKERS_MAX: usize = 1_024;

/// Most copies of a gRPC message.
pub const GRPC_REPEAT_MAX: u32 = 1_000_000;

/// The text that long bodies are made of.
const FILLING: &[u8] = b"tollhouse mock upstream ";

/// What a mock upstream does. The default is a null server: port chosen by the kernel, no delay, `ok`.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: Vec<SocketAddr>,
    /// Threads; 0 is one per core.
    pub workers: usize,
    /// How long answers take.
    pub latency: Latency,
    /// The body of answers.
    pub body: Body,
    /// The status of answers.
    pub statuses: Statuses,
    /// How many requests are answered with 500 (gRPC: `INTERNAL`).
    pub error_rate: Share,
    /// How many requests have their connection reset (HTTP/2: their stream).
    pub reset_rate: Share,
    /// Further header lines; `content-type` and `server` replace our own.
    pub headers: Vec<(String, String)>,
    /// The only path that is answered; others get 404. All when absent.
    pub path: Option<String>,
    /// How gRPC calls are answered.
    pub grpc: Grpc,
    /// When everything stands still.
    pub stall: Option<Stall>,
    /// Whether and with what TLS is spoken.
    pub tls: Tls,
    /// Makes the sequence of random choices repeat.
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

/// The body of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Always this.
    Bytes(Bytes),
    /// The request's own.
    Echo,
}

impl Default for Body {
    fn default() -> Self {
        Self::Bytes(Bytes::from_static(b"ok"))
    }
}

impl Body {
    /// A readable body of this many bytes.
    ///
    /// # Errors
    /// When it is too long.
    pub fn with_length(bytes: usize) -> Result<Self, MockError> {
        if bytes > BODY_BYTES_MAX {
            let why = format!("{bytes} is more than {BODY_BYTES_MAX}; choose a shorter body");
            return Err(MockError::Setting { key: "body-bytes".into(), why });
        }
        Ok(Self::Bytes(FILLING.iter().copied().cycle().take(bytes).collect()))
    }

    /// The contents of a file.
    ///
    /// # Errors
    /// When it cannot be read, or is too long.
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

/// How gRPC calls are answered: with the messages that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grpc {
    /// Which messages are answered.
    pub answer: GrpcAnswer,
    /// How often an answered message is sent: above 1 for calls whose server streams.
    pub repeat: u32,
    /// The status that ends calls; calls with one other than 0 are answered with no message.
    pub status: u8,
}

impl Default for Grpc {
    fn default() -> Self {
        Self { answer: GrpcAnswer::Each, repeat: 1, status: 0 }
    }
}

/// Which messages of a gRPC call are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrpcAnswer {
    /// Each as it comes: unary calls, and calls that stream both ways.
    Each,
    /// The last, when the client has ended: calls whose client streams.
    Last,
}

/// Whether and with what TLS is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// It is not.
    Off,
    /// With a certificate made at the start, for localhost and the addresses listened on.
    SelfSigned,
    /// With these PEM files.
    Files {
        /// The certificate, its chain behind it.
        certificate: PathBuf,
        /// The key of it.
        key: PathBuf,
    },
}

impl Behaviour {
    /// The upstream of the ShenYu report: 2 KB after 20 ms.
    pub fn shenyu() -> Self {
        let body = FILLING.iter().copied().cycle().take(2_048).collect();
        Self {
            latency: Latency::fixed(Duration::from_millis(20)),
            body: Body::Bytes(body),
            ..Self::default()
        }
    }

    /// The test server of ngxway: `/api/test` answers `ok`, at once.
    pub fn ngxway() -> Self {
        Self { path: Some("/api/test".into()), ..Self::default() }
    }

    /// What contradicts itself.
    ///
    /// # Errors
    /// Names the setting and the remedy.
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

/// The highest status code of gRPC, `UNAUTHENTICATED`.
const GRPC_STATUS_MAX: u8 = 16;

/// Headers that say how long an answer is or what becomes of its connection: those are ours to say.
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
