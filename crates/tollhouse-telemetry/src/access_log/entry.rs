//! A finished request as plain fields, for callers with few log lines, which need not compute
//! values on demand.
//!
//! Everything is optional: an empty text, `None`, and a port or status of zero are written as
//! absent. Addresses, schemes, the protocol and the names of TLS come from the gateway and are not
//! escaped; all other text is.

use super::variable::{Source, Value, Variable};
use crate::codes::ErrorCode;

/// Facts about a finished request, from which a line is formatted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry<'a> {
    /// End of the request, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Time from the first byte of the request to the last byte of the response.
    pub request_time_ms: u64,
    pub status: u16,
    /// Error code if the gateway failed the request.
    pub error_code: Option<ErrorCode>,
    /// Address of the client as text.
    pub remote_addr: &'a [u8],
    pub remote_port: u16,
    /// Gateway's address of the client's connection.
    pub server_addr: &'a [u8],
    /// Gateway's port of the client's connection.
    pub server_port: u16,
    /// Number of the connection, counted from the start of the process.
    pub connection: u64,
    /// Number of this request on its connection, from one.
    pub connection_requests: u64,
    /// Scheme of the request: `http` or `https`.
    pub scheme: &'a str,
    /// Version of TLS, such as `TLSv1.3`.
    pub ssl_protocol: &'a str,
    /// Name of the TLS cipher suite.
    pub ssl_cipher: &'a str,
    /// Server name (SNI) of the TLS handshake.
    pub ssl_server_name: &'a str,
    /// `r` for a resumed TLS session, else `.`.
    pub ssl_session_reused: &'a str,
    /// Result of verifying the client certificate: `NONE`, `SUCCESS`, or `FAILED` with the reason.
    pub ssl_client_verify: &'a str,
    /// Distinguished name of the client certificate's subject.
    pub ssl_client_s_dn: &'a str,
    /// Serial number of the client certificate.
    pub ssl_client_serial: &'a str,
    pub method: &'a [u8],
    /// Path and query as the client sent them.
    pub request_target: &'a [u8],
    /// HTTP version, such as `HTTP/1.1`.
    pub protocol: &'static str,
    /// Host by which the request was routed.
    pub host: &'a [u8],
    /// Value of the header `Host` as sent.
    pub http_host: &'a [u8],
    pub http_referer: &'a [u8],
    pub http_user_agent: &'a [u8],
    pub http_x_forwarded_for: &'a [u8],
    /// Bytes of the request, head and body.
    pub request_length: u64,
    /// Bytes of the response, head and body.
    pub bytes_sent: u64,
    /// Number of bytes of the response body.
    pub body_bytes_sent: u64,
    /// Every attempt to reach a node, in order.
    pub attempts: &'a [Attempt<'a>],
    /// Scheme of the request to the node.
    pub upstream_scheme: &'a str,
    /// Value of `Host` in the request to the node.
    pub upstream_host: &'a [u8],
    /// Path and query towards the node.
    pub upstream_uri: &'a [u8],
    pub route_id: &'a str,
    pub route_name: &'a str,
    pub service_id: &'a str,
    pub service_name: &'a str,
    pub consumer_name: &'a str,
    /// Id of the request, received or generated.
    pub request_id: &'a [u8],
}

/// An attempt to send the request to a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempt<'a> {
    /// Address and port of the node.
    pub addr: &'a [u8],
    /// Status of the node's response; zero without one.
    pub status: u16,
    /// Time until the connection was established.
    pub connect_time_ms: Option<u64>,
    /// Time until the head of the response.
    pub header_time_ms: Option<u64>,
    /// Time until the response was complete.
    pub response_time_ms: Option<u64>,
}

impl Source for Entry<'_> {
    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn value(&self, variable: Variable) -> Value<'_> {
        use Value::{Number, Own, Seconds, Text};
        match variable {
            Variable::RemoteAddr => Own(self.remote_addr),
            Variable::RemotePort => Value::from_number(self.remote_port),
            Variable::RemoteUser => Value::Nothing,
            Variable::ServerAddr => Own(self.server_addr),
            Variable::ServerPort => Value::from_number(self.server_port),
            Variable::TimeLocal => Value::TimeLocal,
            Variable::TimeIso8601 => Value::TimeIso8601,
            Variable::Msec => Seconds(self.unix_ms),
            Variable::Connection => Number(self.connection),
            Variable::ConnectionRequests => Number(self.connection_requests),
            Variable::Scheme => Own(self.scheme.as_bytes()),
            Variable::SslProtocol => Own(self.ssl_protocol.as_bytes()),
            Variable::SslCipher => Own(self.ssl_cipher.as_bytes()),
            Variable::SslServerName => Text(self.ssl_server_name.as_bytes()),
            Variable::SslSessionReused => Own(self.ssl_session_reused.as_bytes()),
            Variable::SslClientVerify => Own(self.ssl_client_verify.as_bytes()),
            Variable::SslClientSDn => Text(self.ssl_client_s_dn.as_bytes()),
            Variable::SslClientSerial => Text(self.ssl_client_serial.as_bytes()),
            Variable::Request => Value::Request {
                method: self.method,
                target: self.request_target,
                protocol: self.protocol,
            },
            Variable::RequestMethod => Text(self.method),
            Variable::RequestUri => Value::request_uri(self.request_target),
            Variable::Uri => Value::path(self.request_target),
            Variable::Args | Variable::QueryString => Value::query(self.request_target),
            Variable::ServerProtocol => Own(self.protocol.as_bytes()),
            Variable::Host => Text(self.host),
            Variable::HttpHost => Text(self.http_host),
            Variable::HttpReferer => Text(self.http_referer),
            Variable::HttpUserAgent => Text(self.http_user_agent),
            Variable::HttpXForwardedFor => Text(self.http_x_forwarded_for),
            Variable::RequestLength => Number(self.request_length),
            Variable::RequestTime => Seconds(self.request_time_ms),
            Variable::RequestId => Text(self.request_id),
            Variable::Status => Value::from_number(self.status),
            Variable::BytesSent => Number(self.bytes_sent),
            Variable::BodyBytesSent => Number(self.body_bytes_sent),
            Variable::ErrorCode => Own(self.error_code.map_or("", |code| code.text()).as_bytes()),
            Variable::UpstreamAddr
            | Variable::UpstreamStatus
            | Variable::UpstreamResponseTime
            | Variable::UpstreamConnectTime
            | Variable::UpstreamHeaderTime => Value::from_attempts(variable, self.attempts),
            Variable::UpstreamScheme => Own(self.upstream_scheme.as_bytes()),
            Variable::UpstreamHost => Text(self.upstream_host),
            Variable::UpstreamUri => Text(self.upstream_uri),
            Variable::RouteId => Text(self.route_id.as_bytes()),
            Variable::RouteName => Text(self.route_name.as_bytes()),
            Variable::ServiceId => Text(self.service_id.as_bytes()),
            Variable::ServiceName => Text(self.service_name.as_bytes()),
            Variable::ConsumerName => Text(self.consumer_name.as_bytes()),
        }
    }
}
