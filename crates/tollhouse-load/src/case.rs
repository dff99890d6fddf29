//! A case: one measurement, as described by a plan file, a command line or a suite.
//!
//! A case is plain data, deserialized from YAML into these types. Every result echoes the case that
//! produced it, so that a run can be repeated from its report. This module performs no I/O.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1, one exchange at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2: by prior knowledge in clear text, by ALPN over TLS.
    Http2,
    Grpc,
    /// WebSocket: one message out, one message back.
    #[serde(rename = "websocket")]
    WebSocket,
    /// TCP: connects; with a payload, also writes it once and waits for its echo.
    Tcp,
}

/// A case: target, load, request, checks and thresholds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name shown in the report; empty by default.
    #[serde(default)]
    pub name: String,
    /// Target URL with the scheme `http`, `https`, `h2c`, `ws`, `wss`, `grpc`, `grpcs` or `tcp`.
    /// Required.
    pub target: String,
    /// Protocol; by default derived from the URL's scheme. Set it to measure HTTP/2 on an `https`
    /// URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Address to connect to (`host:port` or `unix:/path`) instead of the URL's authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_to: Option<String>,
    /// TLS options, for the schemes that use TLS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: TlsOptions,
    /// Amount, pace and duration of the load.
    #[serde(default)]
    pub load: Load,
    /// Request of the protocols HTTP/1.1 and HTTP/2.
    #[serde(default, skip_serializing_if = "is_default")]
    pub http: HttpRequest,
    /// Call of the protocol gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcCall>,
    /// Message for WebSocket and TCP. With TCP, an empty message (the default) measures connecting
    /// only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Conditions under which a response counts as successful.
    #[serde(default, skip_serializing_if = "is_default")]
    pub checks: Checks,
    /// Conditions on the result, such as `p99 < 50ms`. If one is not met, the exit code reports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
}

impl Case {
    /// Creates a case with defaults for everything but its target.
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

    /// Returns the configured protocol, or else the one that the URL's scheme or the presence of a
    /// gRPC call implies.
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
