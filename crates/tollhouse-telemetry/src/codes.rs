//! Error codes: one stable word for each kind of failed request, used in the access log, the
//! metrics and the reference page.
//!
//! A new code takes one entry in the list below. The meaning of a released word never changes.
//! Responses are built from codes elsewhere.

use crate::counters::Label;

/// The party that caused an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The client sent something invalid, too large or too late, or disconnected.
    Downstream,
    /// The upstream or its node caused the error.
    Upstream,
    /// The gateway, its configuration or its limits caused the error.
    Gateway,
}

impl Origin {
    /// Returns the name of the origin in lower case, as in metrics.
    pub fn text(self) -> &'static str {
        match self {
            Self::Downstream => "downstream",
            Self::Upstream => "upstream",
            Self::Gateway => "gateway",
        }
    }
}

macro_rules! codes {
    ($($variant:ident = $text:literal, $status:literal, $origin:ident, $meaning:literal, $remedy:literal;)*) => {
        /// Why the gateway refused or failed a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub const COUNT: usize = Self::ALL.len();

            const FACTS: [Facts; Self::COUNT] = [$(Facts {
                text: $text,
                status: $status,
                origin: Origin::$origin,
                meaning: $meaning,
                remedy: $remedy,
            }),*];
        }
    };
}

struct Facts {
    text: &'static str,
    status: u16,
    origin: Origin,
    meaning: &'static str,
    remedy: &'static str,
}

codes! {
    BadRequestLine = "bad_request_line", 400, Downstream,
        "The first line of the request is not a method, a target and a version.",
        "Look for a client that speaks another protocol on this port, TLS to the plain port for instance.";
    BadHeader = "bad_header", 400, Downstream,
        "A header line has a forbidden character, a folded value or no colon, or one such as Authorization is repeated.",
        "Fix the client; such lines are refused because servers disagree about their meaning.";
    BadFraming = "bad_framing", 400, Downstream,
        "The length of the body is ambiguous: lengths that conflict, repeat or do not parse, or a broken chunk.",
        "Fix the client or the proxy before this one; ambiguous lengths are how requests are smuggled.";
    BadHost = "bad_host", 400, Downstream,
        "The Host header is missing, repeated or no host name.",
        "Send exactly one Host header.";
    BadPath = "bad_path", 400, Downstream,
        "The path cannot be normalised: a broken percent escape, or dots that lead above the root.",
        "Encode the path as RFC 3986 requires.";
    AmbiguousPath = "ambiguous_path", 400, Downstream,
        "A plugin judges the path, and servers read the one that was sent in several ways: it has a backslash, \
         `;parameters`, or an escaped slash or backslash.",
        "Escape `;` as `%3B`. For nodes that treat `%2F` as data, set `match_uri_encoded_slash`; for those that \
         cut parameters off, `normalize_uri_like_servlet`; `ambiguous_paths: allow` passes all such paths on.";
    RequestLineTooLong = "request_line_too_long", 414, Downstream,
        "The first line of the request is longer than the limit.",
        "Shorten the URL, or raise the limit on the request line.";
    HeaderTooLarge = "header_too_large", 431, Downstream,
        "The header section is larger than the limit.",
        "Look for cookies that pile up, or raise the limit on header bytes.";
    TooManyHeaders = "too_many_headers", 431, Downstream,
        "There are more header lines than the limit allows.",
        "Send fewer lines, or raise the limit on header lines.";
    BodyTooLarge = "body_too_large", 413, Downstream,
        "The body is larger than the route or the gateway allows.",
        "Send less, or raise the body limit where it is set.";
    LengthRequired = "length_required", 411, Downstream,
        "The route requires a body of known length, and the request does not specify it.",
        "Send a Content-Length header.";
    HeaderReadTimeout = "header_read_timeout", 408, Downstream,
        "The header section did not arrive in time.",
        "Expected from port scanners and stalled clients; raise the time-out for clients on slow links.";
    BodyReadTimeout = "body_read_timeout", 408, Downstream,
        "The body stopped arriving.",
        "Look at the client's network, or raise the body time-out.";
    ExpectationFailed = "expectation_failed", 417, Downstream,
        "The Expect header asks for something other than 100-continue.",
        "Remove the header.";
    MethodNotAllowed = "method_not_allowed", 405, Downstream,
        "The method is TRACE, whose answer would reveal the headers that the gateway adds for nodes, or CONNECT over HTTP/2.",
        "Use another method; send TRACE to the node directly to see the request as it arrives.";
    MethodNotImplemented = "method_not_implemented", 501, Downstream,
        "The gateway does not serve this method, or a WebSocket over HTTP/2 is asked for on a route without `enable_websocket` or from a plugin that answers in place of a node.",
        "Use another method, or set `enable_websocket`; CONNECT in particular is not for a reverse proxy.";
    TransferCodingNotImplemented = "transfer_coding_not_implemented", 501, Downstream,
        "The body has a transfer coding other than chunked.",
        "Send the body with Content-Length or chunked.";
    VersionNotSupported = "version_not_supported", 505, Downstream,
        "This listener does not speak the HTTP version of the request.",
        "Use HTTP/1.0, HTTP/1.1 or HTTP/2.";
    ConnectionLimit = "connection_limit", 503, Gateway,
        "The gateway has reached its limit of connections.",
        "Raise the limit together with the limit on open files, or add a node.";
    ConnectionLimitPerAddress = "connection_limit_per_address", 503, Downstream,
        "One client address has reached its limit of connections.",
        "Raise the limit when many clients share the address, behind a NAT or another proxy.";
    PlainHttpOnTls = "plain_http_on_tls", 400, Downstream,
        "A plain HTTP request was sent to a TLS port.",
        "Write https in the address, or use a port of `listen.http`.";
    ClientCertificateMissing = "client_certificate_missing", 400, Downstream,
        "The host asks clients for a certificate, and the client has sent none.",
        "Give the client a certificate that the host's authority has signed, or exempt the path in `skip_mtls_uri_regex`.";
    ClientCertificateInvalid = "client_certificate_invalid", 400, Downstream,
        "The client's certificate is out of date, or is not signed by an authority that the host trusts.",
        "Renew the client's certificate, or correct `client.ca` and `client.depth` of the host's ssl object.";
    MisdirectedRequest = "misdirected_request", 421, Downstream,
        "The request names a host that its connection was not opened for: one that asks for client certificates or, over HTTP/2, one that the certificate of the connection does not cover.",
        "Open a connection whose server name (SNI) is the host of the request.";
    RouteNotFound = "route_not_found", 404, Gateway,
        "No route matches the request.",
        "Run `tollhouse explain` with the same method, host and path.";
    ServiceNotFound = "service_not_found", 404, Gateway,
        "The route names a service that does not exist.",
        "Create the service or correct the route's service_id.";
    UpstreamNotFound = "upstream_not_found", 502, Gateway,
        "The route or service names an upstream that does not exist, or has none.",
        "Create the upstream or correct the upstream_id.";
    PluginConfigNotFound = "plugin_config_not_found", 503, Gateway,
        "The route names a plugin config that does not exist.",
        "Create the plugin config or correct the route's plugin_config_id.";
    ConsumerGroupNotFound = "consumer_group_not_found", 503, Gateway,
        "The consumer refers to a consumer group that does not exist.",
        "Create the consumer group or correct the consumer's group_id.";
    RewriteInvalid = "rewrite_invalid", 500, Gateway,
        "The path, query or host that plugins or the upstream's configuration produce is invalid in a request: a path without a leading slash, or a text that is not a host name.",
        "Check the values that proxy-rewrite or pass_host insert, variables in particular.";
    PluginUpstreamNotFound = "plugin_upstream_not_found", 500, Gateway,
        "A plugin sends the request to an upstream that does not exist.",
        "Create the upstream, or correct the upstream_id in the plugin's conf.";
    PluginUnavailable = "plugin_unavailable", 503, Gateway,
        "The route, or an object it refers to, has a plugin that might protect it and that cannot run.",
        "Correct the plugin's name or configuration as the problem says, remove the plugin, or list it in skip_plugins.";
    RouteInvalid = "route_invalid", 503, Gateway,
        "A part of the route other than its plugins, its upstream for instance, cannot be read or is of a kind that the gateway does not serve, and no earlier version of the route is in service.",
        "Correct the route as the problem says: `tollhouse check` and `/v1/configuration` name the field.";
    NoNodes = "no_nodes", 503, Gateway,
        "The upstream has no node that may receive requests.",
        "Add nodes, give them a weight above zero, or look at the health page for why all are down.";
    UpstreamUnresolved = "upstream_unresolved", 503, Upstream,
        "The node's name has no address, or discovery knows no instance.",
        "Check the name and the resolver, or whether instances are registered.";
    UpstreamConnectFailed = "upstream_connect_failed", 502, Upstream,
        "The connection to the node was refused, unreachable or failed its TLS handshake.",
        "Check that a server listens at the node's address and speaks the configured scheme.";
    UpstreamConnectTimeout = "upstream_connect_timeout", 504, Upstream,
        "The connection to the node was not established in time.",
        "Look for a firewall that drops packets or a server whose accept queue is full.";
    UpstreamSendTimeout = "upstream_send_timeout", 504, Upstream,
        "The node stopped taking the request.",
        "Look at the load of the server, or raise timeout.send.";
    UpstreamReadTimeout = "upstream_read_timeout", 504, Upstream,
        "The node did not answer in time.",
        "Look at the response times of the server, or raise timeout.read.";
    UpstreamReset = "upstream_reset", 502, Upstream,
        "The node closed the connection before its answer was complete.",
        "Look in the server's log for a crash, a restart, or an idle time-out shorter than the pool's.";
    UpstreamBadResponse = "upstream_bad_response", 502, Upstream,
        "The node's answer is not HTTP, its framing is ambiguous, it switches to a protocol that was not requested, or an RPC call that a plugin made has failed.",
        "See whether the upstream's scheme is right; then fix the server.";
    UpstreamResponseHeadTooLarge = "upstream_response_head_too_large", 502, Upstream,
        "The header section of the answer is larger than the limit.",
        "Shrink what the server sends, cookies mostly, or raise the limit.";
    RetryBudgetExceeded = "retry_budget_exceeded", 502, Gateway,
        "An attempt failed and the upstream's budget for retries is spent.",
        "The upstream as a whole is failing; retries are limited so that they do not add to its load.";
    DeadlineExceeded = "deadline_exceeded", 504, Downstream,
        "A gRPC call was not complete within the deadline set by its client (grpc-timeout).",
        "Look at the response times of the server, or have the client allow more time.";
    GrpcMessageTooLarge = "grpc_message_too_large", 413, Downstream,
        "A message of a gRPC call, in either direction, is longer than `limits.grpc_message_bytes`.",
        "Send smaller messages or a stream of them, or raise the limit.";
    DownstreamGone = "downstream_gone", 499, Downstream,
        "The client closed the connection before the answer was complete.",
        "The client never sees this status. Many of them mean that clients give up before they are answered.";
    ProxyHeaderRefused = "proxy_header_refused", 403, Downstream,
        "The listener expects a PROXY header, and the peer is not allowed to send one.",
        "Name the proxy's network in proxy_protocol.from, or connect to a listener without the PROXY protocol.";
    ProxyHeaderInvalid = "proxy_header_invalid", 400, Downstream,
        "The connection does not begin with a whole PROXY header, or not in time.",
        "Have the proxy before this one send version 1 or 2, or turn proxy_protocol off for the listener.";
    ClientHelloInvalid = "client_hello_invalid", 400, Downstream,
        "The listener passes TLS through by name, and the connection does not begin with a TLS hello, or not in time.",
        "Use another listener for other protocols.";
    TlsHandshakeFailed = "tls_handshake_failed", 400, Downstream,
        "The listener of stream routes terminates TLS, and the client's handshake failed.",
        "See the log line of the handshake, or `tollhouse_downstream_tls_handshakes_failed_total`, for the reason.";
    PluginRefused = "plugin_refused", 403, Gateway,
        "A plugin of the stream route refused the connection.",
        "Look at the plugins of the stream route.";
    AuthMissing = "auth_missing", 401, Downstream,
        "A plugin asks for a credential, and the request has none.",
        "Send the credential that the plugin asks for; `tollhouse requests` names the plugin.";
    AuthInvalid = "auth_invalid", 401, Downstream,
        "A plugin does not accept the credential of the request: it is unknown, wrong or expired.",
        "Renew the client's credential, or write it to its consumer; `tollhouse requests` names plugin and client.";
    ClockSkew = "clock_skew", 401, Downstream,
        "A plugin refuses a credential that is right but for its time: the clocks of client and gateway differ too much.",
        "Compare the clocks of the client and of this machine (`timedatectl`); plugins have `clock_skew` or a grace period.";
    LimitExceeded = "limit_exceeded", 429, Downstream,
        "A plugin's limit on requests or connections is reached.",
        "See which clients are many in `tollhouse requests --code limit_exceeded`; raise the limit if they are legitimate.";
    DeniedByRule = "denied_by_rule", 403, Downstream,
        "A rule of a plugin forbids the request.",
        "See the plugin in `tollhouse requests`, and compare the client, the path or the consumer with its conf.";
    RequestInvalid = "request_invalid", 400, Downstream,
        "A plugin cannot accept the request: its body does not fit a schema, cannot be read, or is too long.",
        "Compare the request with the plugin's conf; `tollhouse requests` names the plugin.";
    FaultInjected = "fault_injected", 503, Gateway,
        "A plugin fails requests on purpose.",
        "Remove `abort` from the fault-injection plugin of the route when the experiment is over.";
    CircuitOpen = "circuit_open", 502, Gateway,
        "A plugin spares a node that failed too often, and answers in its place.",
        "See why the node failed before: `tollhouse requests` with the route.";
    PluginFailed = "plugin_failed", 500, Gateway,
        "A plugin cannot do its work and refuses the request: a server that it asks gives no answer, or its conf gives up.",
        "See the log of the process, and whether Redis, the identity provider or the policy agent of the plugin answers.";
    StreamIdle = "stream_idle", 408, Gateway,
        "No byte has passed over the connection in either direction for too long.",
        "Raise limits.stream_idle_time or the upstream's time-outs, or let client and node send keep-alives.";
    InternalPanic = "internal_panic", 500, Gateway,
        "A defect of the gateway stopped this request; the others went on.",
        "Report it with the message in the error log.";
    AnswerUnreadable = "answer_unreadable", 502, Upstream,
        "A plugin must read the body of the answer and cannot: its content coding is not supported by the plugin, it is invalid in that coding, or it is longer than the plugin accepts.",
        "Have the node answer without Content-Encoding where the request accepts identity alone, or raise the plugin's limit on bodies.";
    MemoryLimit = "memory_limit", 503, Gateway,
        "A body had to be buffered, and buffered bodies and answers have reached their memory limit. Over HTTP/2, the stream is reset instead.",
        "Look for clients that send many long bodies at once; raise `limits.buffered_bytes` where the machine has more memory.";
    Draining = "draining", 503, Gateway,
        "The gateway is shutting down and accepts no new requests.",
        "Take the node out of the load balancer before stopping it, or wait longer before stopping.";
}

impl ErrorCode {
    /// Returns the text of the code, which does not change between releases.
    pub fn text(self) -> &'static str {
        self.facts().text
    }

    /// Returns the status of the response, or of the log line if no response can be sent.
    pub fn status(self) -> u16 {
        self.facts().status
    }

    /// Returns the party that caused the error.
    pub fn origin(self) -> Origin {
        self.facts().origin
    }

    /// Returns the meaning of the code in one sentence, for the manual.
    pub fn meaning(self) -> &'static str {
        self.facts().meaning
    }

    /// Returns the advice for the operator, in one sentence.
    pub fn remedy(self) -> &'static str {
        self.facts().remedy
    }

    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.text() == text)
    }

    fn facts(self) -> &'static Facts {
        &Self::FACTS[self as usize]
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.text())
    }
}

impl Label for ErrorCode {
    const NAME: &'static str = "code";
    const ALL: &'static [Self] = Self::ALL;

    fn index(self) -> usize {
        self as usize
    }

    fn text(self) -> &'static str {
        self.text()
    }
}

/// Returns the reference page of the error codes.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Error codes\n\n\
         Generated from the source; do not edit.\n\n\
         Every request that the gateway refuses or fails carries one of these words, in the \
         access log (`$error_code`) and in the metric `tollhouse_requests_failed_total`.\n",
    );
    for code in ErrorCode::ALL {
        page.push_str(&format!(
            "\n## {}\n\nStatus {}, caused by: {}. {}\n\nWhat to do: {}\n",
            code.text(),
            code.status(),
            code.origin().text(),
            code.meaning(),
            code.remedy(),
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_one_snake_case_word_of_its_own() {
        for code in ErrorCode::ALL {
            let word = code.text();
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{word}");
            assert_eq!(ErrorCode::from_text(word), Some(*code), "{word} is taken twice");
            assert!((400..600).contains(&code.status()), "{word}");
            assert!(code.meaning().ends_with('.') && code.remedy().ends_with('.'), "{word}");
        }
        assert_eq!(ErrorCode::from_text("no_such_code"), None);
    }

    #[test]
    fn statuses_are_those_of_the_protocol() {
        let table = [
            (ErrorCode::RequestLineTooLong, 414),
            (ErrorCode::HeaderTooLarge, 431),
            (ErrorCode::BodyTooLarge, 413),
            (ErrorCode::HeaderReadTimeout, 408),
            (ErrorCode::RouteNotFound, 404),
            (ErrorCode::NoNodes, 503),
            (ErrorCode::UpstreamConnectFailed, 502),
            (ErrorCode::UpstreamReadTimeout, 504),
            (ErrorCode::DownstreamGone, 499),
            (ErrorCode::InternalPanic, 500),
        ];
        for (code, status) in table {
            assert_eq!(code.status(), status, "{code}");
        }
    }

    #[test]
    fn the_reference_page_has_every_code() {
        let page = reference_markdown();
        for code in ErrorCode::ALL {
            assert!(page.contains(&format!("\n## {code}\n")), "{code}");
        }
    }
}
