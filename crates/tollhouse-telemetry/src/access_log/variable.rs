//! The `$variables` of log formats, and the kinds of their values. A [`Source`] provides the value
//! for a request; `layout.rs` writes it.
//!
//! Names are those of nginx and APISIX. A new variable takes one line in the list; the compiler then
//! asks for its value where requests are logged (`tollhouse-proxy/src/stages/access_log.rs`).

macro_rules! variables {
    ($($variant:ident = $name:literal, $help:literal;)*) => {
        /// A variable of the access log.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Variable {
            $(#[doc = $help] $variant,)*
        }

        impl Variable {
            /// Every variable, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name, without the dollar sign.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the description of the variable in one sentence, for the manual.
            pub fn help(self) -> &'static str {
                match self {
                    $(Self::$variant => $help,)*
                }
            }
        }
    };
}

variables! {
    RemoteAddr = "remote_addr", "Address of the client.";
    RemotePort = "remote_port", "Port of the client.";
    RemoteUser = "remote_user", "User of Basic authentication.";
    ServerAddr = "server_addr", "Address the client connected to.";
    ServerPort = "server_port", "Port the client connected to.";
    TimeLocal = "time_local", "When the request ended, as 06/Nov/1994:08:49:37 +0000.";
    TimeIso8601 = "time_iso8601", "When the request ended, as 1994-11-06T08:49:37+00:00.";
    Msec = "msec", "When the request ended, in seconds since 1970 with milliseconds.";
    Connection = "connection", "Number of the connection.";
    ConnectionRequests = "connection_requests", "Number of the request on its connection.";
    Scheme = "scheme", "Scheme of the request: http or https.";
    SslProtocol = "ssl_protocol", "Version of TLS.";
    SslCipher = "ssl_cipher", "Name of the cipher suite.";
    SslServerName = "ssl_server_name", "Server name (SNI) of the TLS handshake.";
    SslSessionReused = "ssl_session_reused", "`r` for a resumed TLS session, else `.`.";
    SslClientVerify = "ssl_client_verify", "Result of verifying the client's certificate: NONE, SUCCESS, or FAILED with the reason.";
    SslClientSDn = "ssl_client_s_dn", "Subject of the client's certificate.";
    SslClientSerial = "ssl_client_serial", "Serial number of the client's certificate.";
    Request = "request", "Method, target and version as sent.";
    RequestMethod = "request_method", "Method as sent.";
    RequestUri = "request_uri", "Path and query as sent, without the scheme and host of an absolute target.";
    Uri = "uri", "Path as sent, without the query.";
    Args = "args", "Query as sent.";
    QueryString = "query_string", "The same as args.";
    ServerProtocol = "server_protocol", "Version of HTTP.";
    Host = "host", "Host the request was routed by.";
    HttpHost = "http_host", "Host header as sent.";
    HttpReferer = "http_referer", "Referer header.";
    HttpUserAgent = "http_user_agent", "User-Agent header.";
    HttpXForwardedFor = "http_x_forwarded_for", "X-Forwarded-For header.";
    RequestLength = "request_length", "Bytes of the request, head and body.";
    RequestTime = "request_time", "Seconds from the request's first byte to the answer's last.";
    RequestId = "request_id", "Id of the request.";
    Status = "status", "Status of the answer.";
    BytesSent = "bytes_sent", "Bytes of the answer, head and body.";
    BodyBytesSent = "body_bytes_sent", "Bytes of the answer's body.";
    ErrorCode = "error_code", "Error code, if the gateway refused or failed the request.";
    ErrorPlugin = "error_plugin", "Name of the plugin that refused the request.";
    UpstreamAddr = "upstream_addr", "Nodes tried, in order.";
    UpstreamStatus = "upstream_status", "Status of each node's answer.";
    UpstreamResponseTime = "upstream_response_time", "Seconds each node took to answer.";
    UpstreamConnectTime = "upstream_connect_time", "Seconds until each connection was established.";
    UpstreamHeaderTime = "upstream_header_time", "Seconds until the head of each answer.";
    UpstreamScheme = "upstream_scheme", "Scheme towards the node.";
    UpstreamHost = "upstream_host", "Host header towards the node.";
    UpstreamUri = "upstream_uri", "Path and query towards the node.";
    RouteId = "route_id", "Id of the route.";
    RouteName = "route_name", "Name of the route.";
    ServiceId = "service_id", "Id of the service.";
    ServiceName = "service_name", "Name of the service.";
    ConsumerName = "consumer_name", "Name of the consumer.";
    TraceId = "trace_id", "Id of the request's trace, if it has one.";
    SpanId = "span_id", "Id of the request's own span, if it has a trace.";
    OpentelemetryContextTraceparent = "opentelemetry_context_traceparent", "`traceparent` of the request, if the plugin `opentelemetry` sets variables.";
    OpentelemetryTraceId = "opentelemetry_trace_id", "Id of the trace, if the plugin `opentelemetry` sets variables.";
    OpentelemetrySpanId = "opentelemetry_span_id", "Id of the request's span, if the plugin `opentelemetry` sets variables.";
    ZipkinContextTraceparent = "zipkin_context_traceparent", "`traceparent` of the request, if the plugin `zipkin` sets variables.";
    ZipkinTraceId = "zipkin_trace_id", "Id of the trace, if the plugin `zipkin` sets variables.";
    ZipkinSpanId = "zipkin_span_id", "Id of the request's span, if the plugin `zipkin` sets variables.";
}

impl Variable {
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variable| variable.name() == name)
    }

    /// Variables whose values describe attempts to reach nodes.
    pub const OF_ATTEMPTS: [Self; 5] = [
        Self::UpstreamAddr,
        Self::UpstreamStatus,
        Self::UpstreamResponseTime,
        Self::UpstreamConnectTime,
        Self::UpstreamHeaderTime,
    ];
}

/// The request that a line is written about. Only the values that the format contains are
/// requested.
pub trait Source {
    /// Returns the end of the request, in milliseconds since 1970.
    fn unix_ms(&self) -> u64;

    /// Returns the value of a variable for this request.
    fn value(&self, variable: Variable) -> Value<'_>;
}

/// Value of a variable, before it is written in the style of the format.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Text from outside, which must be escaped. Empty means absent.
    Text(&'a [u8]),
    /// Text written by the gateway, which needs no escaping. Empty means absent.
    Own(&'a [u8]),
    /// A known number, which may be zero.
    Number(u64),
    /// Time in milliseconds, written in seconds.
    Seconds(u64),
    /// Values of all attempts, in order.
    Attempts(&'a [Attempt<'a>], for<'b> fn(&Attempt<'b>) -> Value<'b>),
    /// Method, target and version. Absent if the method is empty.
    Request {
        /// Method as sent, to be escaped.
        method: &'a [u8],
        /// Target as sent, to be escaped.
        target: &'a [u8],
        /// HTTP version, which needs no escaping.
        protocol: &'static str,
    },
    /// End of the request, in the format of `combined`.
    TimeLocal,
    /// End of the request, in ISO 8601.
    TimeIso8601,
    /// An unknown number or time.
    Nothing,
}

/// An attempt to send the request to a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempt<'a> {
    /// Address and port of the node.
    pub addr: &'a [u8],
    /// Status of the node's response; zero without one.
    pub status: u16,
    /// Duration in milliseconds until the connection was established.
    pub connect_time_ms: Option<u64>,
    /// Duration in milliseconds until the head of the response.
    pub header_time_ms: Option<u64>,
    /// Duration in milliseconds until the response was complete.
    pub response_time_ms: Option<u64>,
}

impl<'a> Value<'a> {
    /// Converts a port or status; zero means absent.
    #[inline]
    pub fn from_number(number: u16) -> Self {
        if number == 0 { Self::Nothing } else { Self::Number(u64::from(number)) }
    }

    fn from_milliseconds(milliseconds: Option<u64>) -> Self {
        milliseconds.map_or(Self::Nothing, Self::Seconds)
    }

    /// Returns the path and query of a target as sent.
    pub fn request_uri(target: &'a [u8]) -> Self {
        Self::Text(origin_form(target))
    }

    /// Returns the path of a target as sent.
    pub fn path(target: &'a [u8]) -> Self {
        Self::Text(split_target(origin_form(target)).0)
    }

    /// Returns the query of a target as sent.
    pub fn query(target: &'a [u8]) -> Self {
        Self::Text(split_target(origin_form(target)).1)
    }

    /// Returns the value of a variable about attempts; absent for any other variable.
    pub fn from_attempts(variable: Variable, attempts: &'a [Attempt<'a>]) -> Self {
        let of: for<'b> fn(&Attempt<'b>) -> Value<'b> = match variable {
            _ if attempts.is_empty() => return Self::Nothing,
            Variable::UpstreamAddr => |attempt| Value::Text(attempt.addr),
            Variable::UpstreamStatus => |attempt| Value::from_number(attempt.status),
            Variable::UpstreamResponseTime => {
                |attempt| Value::from_milliseconds(attempt.response_time_ms)
            }
            Variable::UpstreamConnectTime => {
                |attempt| Value::from_milliseconds(attempt.connect_time_ms)
            }
            Variable::UpstreamHeaderTime => {
                |attempt| Value::from_milliseconds(attempt.header_time_ms)
            }
            _ => return Self::Nothing,
        };
        Self::Attempts(attempts, of)
    }
}

/// Returns path and query of a target, which may be absolute. The target of an invalid request line
/// is returned as far as it was parsed.
fn origin_form(target: &[u8]) -> &[u8] {
    let scheme_end = target.windows(3).position(|bytes| bytes == b"://");
    let (false, Some(scheme_end)) = (target.starts_with(b"/"), scheme_end) else { return target };
    let behind = &target[scheme_end + b"://".len()..];
    let path = behind.iter().position(|byte| matches!(byte, b'/' | b'?'));
    path.map_or(b"/", |start| &behind[start..])
}

fn split_target(target: &[u8]) -> (&[u8], &[u8]) {
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::origin_form;

    #[test]
    fn an_absolute_target_is_shown_as_path_and_query() {
        for (target, expected) in [
            ("/a?b=http://c/d", "/a?b=http://c/d"),
            ("http://a.com/b?c", "/b?c"),
            ("http://a.com", "/"),
            ("http://a.com?b", "?b"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(origin_form(target.as_bytes()), expected.as_bytes(), "{target}");
        }
    }
}
