//! What is known about a finished request when its line is written: borrowed, plain fields.
//!
//! Everything is optional: an empty text, `None`, a port or a status of zero prints as the format's
//! word for nothing. Addresses, schemes, the protocol and the names of TLS are the gateway's own
//! words and are not escaped; all other text is.

use crate::codes::ErrorCode;

/// One finished request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry<'a> {
    /// When the request ended.
    pub unix_ms: u64,
    /// From the first byte of the request to the last byte of the answer.
    pub request_time_ms: u64,
    /// Of the answer.
    pub status: u16,
    /// Why the gateway failed the request, if it did.
    pub error_code: Option<ErrorCode>,
    /// The client's address as text.
    pub remote_addr: &'a [u8],
    /// The client's port.
    pub remote_port: u16,
    /// The address the client connected to.
    pub server_addr: &'a [u8],
    /// The port the client connected to.
    pub server_port: u16,
    /// Number of the connection, counted from the start of the process.
    pub connection: u64,
    /// Number of this request on its connection, from one.
    pub connection_requests: u64,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Version of TLS, as `TLSv1.3`.
    pub ssl_protocol: &'a str,
    /// Name of the cipher suite.
    pub ssl_cipher: &'a str,
    /// Name the client asked for in its TLS handshake.
    pub ssl_server_name: &'a str,
    /// `r` where the client came back with a ticket, else `.`.
    pub ssl_session_reused: &'a str,
    /// What became of the client's certificate.
    pub ssl_client_verify: &'a str,
    /// Whose certificate the client has shown.
    pub ssl_client_s_dn: &'a str,
    /// The number of that certificate.
    pub ssl_client_serial: &'a str,
    /// As sent.
    pub method: &'a [u8],
    /// Path and query as sent.
    pub request_target: &'a [u8],
    /// `HTTP/1.1`.
    pub protocol: &'a str,
    /// The host the request was routed by.
    pub host: &'a [u8],
    /// The Host header as sent.
    pub http_host: &'a [u8],
    /// The Referer header.
    pub http_referer: &'a [u8],
    /// The User-Agent header.
    pub http_user_agent: &'a [u8],
    /// The X-Forwarded-For header.
    pub http_x_forwarded_for: &'a [u8],
    /// The user of Basic authentication.
    pub remote_user: &'a [u8],
    /// Bytes of the request, head and body.
    pub request_length: u64,
    /// Bytes of the answer, head and body.
    pub bytes_sent: u64,
    /// Bytes of the answer's body.
    pub body_bytes_sent: u64,
    /// Every attempt to reach a node, in order.
    pub attempts: &'a [Attempt<'a>],
    /// Scheme towards the node.
    pub upstream_scheme: &'a str,
    /// Host header towards the node.
    pub upstream_host: &'a [u8],
    /// Path and query towards the node.
    pub upstream_uri: &'a [u8],
    /// Id of the route.
    pub route_id: &'a str,
    /// Name of the route.
    pub route_name: &'a str,
    /// Id of the service.
    pub service_id: &'a str,
    /// Name of the service.
    pub service_name: &'a str,
    /// Name of the consumer.
    pub consumer_name: &'a str,
    /// Id of the request, taken over or given out.
    pub request_id: &'a [u8],
}

/// One attempt to have a node answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempt<'a> {
    /// Address and port of the node.
    pub addr: &'a [u8],
    /// Status of its answer; zero when there was none.
    pub status: u16,
    /// Until the connection stood.
    pub connect_time_ms: Option<u64>,
    /// Until the head of the answer was there.
    pub header_time_ms: Option<u64>,
    /// Until the answer was complete.
    pub response_time_ms: Option<u64>,
}
