//! What to measure: one case, as a plan file, a command line or a suite says it.
//!
//! A case is plain data: it is read from YAML as it stands here, and every result echoes the case it
//! came from, so that a run can be repeated from its report. Nothing here does IO.

mod checks;
mod grpc;
mod http;
mod load;
mod occupancy;
pub(crate) mod secrets;
mod threshold;
mod tls;
mod validate;

pub use checks::Checks;
pub use grpc::{GrpcCall, GrpcData};
pub use http::{Body, HttpRequest, HttpVersion, RequestForm, UrlEntry};
pub use load::{AtEnd, Load};
pub use occupancy::{Occupancy, Stairs};
pub use threshold::{Metric, Threshold, ThresholdError};
pub use tls::TlsOptions;

use serde::{Deserialize, Serialize};

/// What travels over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1, one exchange at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: by prior knowledge in clear text, by ALPN over TLS.
    Http2,
    /// gRPC over HTTP/2.
    Grpc,
    /// WebSocket: one message out, one message back.
    #[serde(rename = "websocket")]
    WebSocket,
    /// TCP: connect, and with a payload one write and its echo.
    Tcp,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What the report calls it.
    #[serde(default)]
    pub name: String,
    /// The target as a URL: `http`, `https`, `h2c`, `ws`, `wss`, `grpc`, `grpcs` or `tcp`.
    pub target: String,
    /// What travels; by default what the URL's scheme says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Connect here (`host:port` or `unix:/path`) instead of the URL's own authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_to: Option<String>,
    /// How TLS is done, for the schemes that have it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: TlsOptions,
    /// How much load, in which rhythm, for how long.
    #[serde(default)]
    pub load: Load,
    /// The request, for HTTP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: HttpRequest,
    /// The call, for gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcCall>,
    /// The message of WebSocket and TCP; empty for TCP means: only connect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What counts as success.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checks: Checks,
    /// What the result must satisfy, such as `p99 < 50ms`; decides about the exit code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
}

impl Case {
    /// A case with defaults for everything but its target.
    pub fn new(target: impl Into<String>) -> Self {
        Self {
            name: String::new(),
            target: target.into(),
            protocol: None,
            connect_to: None,
            tls: TlsOptions::default(),
            load: Load::default(),
            http: HttpRequest::default(),
            grpc: None,
            message: String::new(),
            checks: Checks::default(),
            thresholds: Vec::new(),
        }
    }

    /// What travels: as said, or as the URL's scheme has it.
    pub fn protocol(&self) -> Protocol {
        let scheme = self.target.split_once("://").map_or("http", |(scheme, _)| scheme);
        self.protocol.unwrap_or(match scheme {
            "ws" | "wss" => Protocol::WebSocket,
            "h2c" => Protocol::Http2,
            "grpc" | "grpcs" => Protocol::Grpc,
            "tcp" => Protocol::Tcp,
            _ if self.grpc.is_some() => Protocol::Grpc,
            _ => Protocol::Http1,
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
