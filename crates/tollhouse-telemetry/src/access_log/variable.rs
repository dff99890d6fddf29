//! The `$variables` a format may name, and the value each has for one request.
//!
//! Names are those of nginx and APISIX. A variable is added by one line of the list and, when it
//! is not a field yet, one field of the entry.

use super::entry::{Attempt, Entry};

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

            /// The name, without the dollar sign.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it says, in one sentence.
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
    SslServerName = "ssl_server_name", "Name asked for in the TLS handshake.";
    SslSessionReused = "ssl_session_reused", "`r` where the client came back with a session ticket, else `.`.";
    SslClientVerify = "ssl_client_verify", "What became of the client's certificate: NONE, SUCCESS, or FAILED with the reason.";
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
    ErrorCode = "error_code", "Why the gateway refused or failed the request.";
    UpstreamAddr = "upstream_addr", "Nodes tried, in order.";
    UpstreamStatus = "upstream_status", "Status of each node's answer.";
    UpstreamResponseTime = "upstream_response_time", "Seconds each node took to answer.";
    UpstreamConnectTime = "upstream_connect_time", "Seconds each connection took to stand.";
    UpstreamHeaderTime = "upstream_header_time", "Seconds until the head of each answer.";
    UpstreamScheme = "upstream_scheme", "Scheme towards the node.";
    UpstreamHost = "upstream_host", "Host header towards the node.";
    UpstreamUri = "upstream_uri", "Path and query towards the node.";
    RouteId = "route_id", "Id of the route.";
    RouteName = "route_name", "Name of the route.";
    ServiceId = "service_id", "Id of the service.";
    ServiceName = "service_name", "Name of the service.";
    ConsumerName = "consumer_name", "Name of the consumer.";
}

impl Variable {
    /// The variable of a name without its dollar sign.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|variable| variable.name() == name)
    }

    /// Whether it tells about attempts to reach nodes.
    pub(super) fn is_about_attempts(self) -> bool {
        matches!(
            self,
            Self::UpstreamAddr
                | Self::UpstreamStatus
                | Self::UpstreamResponseTime
                | Self::UpstreamConnectTime
                | Self::UpstreamHeaderTime
        )
    }

    /// What the variable is for this request.
    #[inline]
    pub(super) fn value<'a>(self, entry: &Entry<'a>) -> Value<'a> {
        use Value::{Number, Own, Seconds, Text};
        match self {
            Self::RemoteAddr => Own(entry.remote_addr),
            Self::RemotePort => Value::of_number(entry.remote_port),
            Self::RemoteUser => Text(entry.remote_user),
            Self::ServerAddr => Own(entry.server_addr),
            Self::ServerPort => Value::of_number(entry.server_port),
            Self::TimeLocal => Value::TimeLocal,
            Self::TimeIso8601 => Value::TimeIso8601,
            Self::Msec => Seconds(entry.unix_ms),
            Self::Connection => Number(entry.connection),
            Self::ConnectionRequests => Number(entry.connection_requests),
            Self::Scheme => Own(entry.scheme.as_bytes()),
            Self::SslProtocol => Own(entry.ssl_protocol.as_bytes()),
            Self::SslCipher => Own(entry.ssl_cipher.as_bytes()),
            Self::SslServerName => Text(entry.ssl_server_name.as_bytes()),
            Self::SslSessionReused => Own(entry.ssl_session_reused.as_bytes()),
            Self::SslClientVerify => Own(entry.ssl_client_verify.as_bytes()),
            Self::SslClientSDn => Text(entry.ssl_client_s_dn.as_bytes()),
            Self::SslClientSerial => Text(entry.ssl_client_serial.as_bytes()),
            Self::Request => Value::Request,
            Self::RequestMethod => Text(entry.method),
            Self::RequestUri => Text(origin_form(entry.request_target)),
            Self::Uri => Text(split_target(origin_form(entry.request_target)).0),
            Self::Args | Self::QueryString => {
                Text(split_target(origin_form(entry.request_target)).1)
            }
            Self::ServerProtocol => Own(entry.protocol.as_bytes()),
            Self::Host => Text(entry.host),
            Self::HttpHost => Text(entry.http_host),
            Self::HttpReferer => Text(entry.http_referer),
            Self::HttpUserAgent => Text(entry.http_user_agent),
            Self::HttpXForwardedFor => Text(entry.http_x_forwarded_for),
            Self::RequestLength => Number(entry.request_length),
            Self::RequestTime => Seconds(entry.request_time_ms),
            Self::RequestId => Text(entry.request_id),
            Self::Status => Value::of_number(entry.status),
            Self::BytesSent => Number(entry.bytes_sent),
            Self::BodyBytesSent => Number(entry.body_bytes_sent),
            Self::ErrorCode => Own(entry.error_code.map_or("", |code| code.text()).as_bytes()),
            Self::UpstreamAddr => attempts(entry, |attempt| Text(attempt.addr)),
            Self::UpstreamStatus => attempts(entry, |attempt| Value::of_number(attempt.status)),
            Self::UpstreamResponseTime => {
                attempts(entry, |attempt| Value::of_seconds(attempt.response_time_ms))
            }
            Self::UpstreamConnectTime => {
                attempts(entry, |attempt| Value::of_seconds(attempt.connect_time_ms))
            }
            Self::UpstreamHeaderTime => {
                attempts(entry, |attempt| Value::of_seconds(attempt.header_time_ms))
            }
            Self::UpstreamScheme => Own(entry.upstream_scheme.as_bytes()),
            Self::UpstreamHost => Text(entry.upstream_host),
            Self::UpstreamUri => Text(entry.upstream_uri),
            Self::RouteId => Text(entry.route_id.as_bytes()),
            Self::RouteName => Text(entry.route_name.as_bytes()),
            Self::ServiceId => Text(entry.service_id.as_bytes()),
            Self::ServiceName => Text(entry.service_name.as_bytes()),
            Self::ConsumerName => Text(entry.consumer_name.as_bytes()),
        }
    }
}

/// A variable's value before it is written in the way of the format.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    /// From outside, to be escaped; empty is nothing.
    Text(&'a [u8]),
    /// Written by the gateway itself, with nothing to escape; empty is nothing.
    Own(&'a [u8]),
    Number(u64),
    /// Milliseconds to be shown as seconds.
    Seconds(u64),
    /// One value an attempt.
    Attempts(&'a [Attempt<'a>], for<'b> fn(&Attempt<'b>) -> Value<'b>),
    /// Method, target and version.
    Request,
    TimeLocal,
    TimeIso8601,
    /// A number or time that is not known.
    Nothing,
}

impl Value<'_> {
    /// Ports and statuses: zero is none.
    fn of_number(number: u16) -> Self {
        if number == 0 { Self::Nothing } else { Self::Number(u64::from(number)) }
    }

    fn of_seconds(milliseconds: Option<u64>) -> Self {
        milliseconds.map_or(Self::Nothing, Self::Seconds)
    }
}

fn attempts<'a>(entry: &Entry<'a>, value: for<'b> fn(&Attempt<'b>) -> Value<'b>) -> Value<'a> {
    match entry.attempts {
        [] => Value::Nothing,
        attempts => Value::Attempts(attempts, value),
    }
}

/// The path and query of a target, which may be absolute; what is behind a refused request's first
/// blank is nobody's to judge.
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
