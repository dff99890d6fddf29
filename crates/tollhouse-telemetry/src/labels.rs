//! Closed sets of label values, which bound the number of series.

use crate::counters::Label;

macro_rules! label {
    ($(#[$doc:meta])* $name:ident, $label:literal; $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            pub const COUNT: usize = <Self as Label>::ALL.len();
        }

        impl Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn index(self) -> usize {
                self as usize
            }

            fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

label! {
    /// Protocol of a request handled by ShenYu's plugins.
    ShenyuType, "type";
    Http = "http",
    WebSocket = "websocket",
    /// HTTP to a Spring Cloud service.
    SpringCloud = "springCloud",
    Grpc = "grpc",
    Dubbo = "dubbo",
}

label! {
    /// The first digit of a status.
    StatusClass, "class";
    /// Statuses 100 to 199.
    Informational = "1xx",
    /// Statuses 200 to 299.
    Success = "2xx",
    /// Statuses 300 to 399.
    Redirection = "3xx",
    /// Statuses 400 to 499.
    ClientError = "4xx",
    /// Statuses 500 to 599.
    ServerError = "5xx",
    /// Any other number in place of a status.
    Other = "other",
}

impl StatusClass {
    #[inline]
    pub fn from_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            100..=199 => Self::Informational,
            _ => Self::Other,
        }
    }
}

label! {
    /// Why a connection was closed before its first request.
    ConnectionRefusal, "reason";
    /// The limit on connections is reached.
    Limit = "limit",
    /// The client's address has reached its limit on connections.
    LimitPerAddress = "limit_per_address",
    Draining = "draining",
    TlsHandshake = "tls_handshake",
    /// The PROXY header is missing, or the peer may not send one.
    ProxyHeader = "proxy_header",
    /// The system call `accept` failed, usually for lack of file descriptors.
    Accept = "accept",
}

label! {
    /// Why a TLS handshake with a client failed. The words are stable and also used in the log.
    HandshakeFailure, "code";
    /// No certificate covers the server name sent by the client.
    NoCertificate = "tls_no_certificate",
    /// The client's first message is longer than the limit.
    HelloTooLong = "tls_hello_too_long",
    /// The handshake was not complete in time.
    Timeout = "tls_handshake_timeout",
    /// The client had not sent a complete message when a newer connection took its place.
    Silent = "tls_client_silent",
    /// The limit on concurrent handshakes is reached.
    Limit = "tls_handshake_limit",
    /// The client disconnected before the end.
    ClientGone = "tls_client_gone",
    /// The client does not speak TLS.
    NoTls = "tls_not_spoken",
    /// Client and gateway have no TLS version in common.
    Version = "tls_no_common_version",
    /// Client and gateway have no cipher suite, key exchange or signature scheme in common.
    Cipher = "tls_no_common_cipher",
    /// Client and gateway have no application protocol in common.
    Protocol = "tls_no_common_protocol",
    /// A client certificate is required and missing.
    ClientCertificateMissing = "tls_client_certificate_missing",
    /// The client's certificate is out of date.
    ClientCertificateExpired = "tls_client_certificate_expired",
    /// The client's certificate is not signed by a trusted CA.
    ClientCertificateUntrusted = "tls_client_certificate_untrusted",
    /// More intermediate certificates than allowed are between the client's certificate and the CA.
    ClientCertificateTooDeep = "tls_client_certificate_too_deep",
    /// The client's certificate or its signature is invalid for another reason.
    ClientCertificateInvalid = "tls_client_certificate_invalid",
    /// The client rejected the server certificate, for example because of an unknown issuer.
    RefusedByClient = "tls_refused_by_client",
    Broken = "tls_broken",
}

label! {
    /// Why a datagram was not forwarded.
    DatagramDrop, "reason";
    /// The worker has reached its limit on sessions.
    Limit = "limit",
    /// The client's address has reached its limit on sessions.
    LimitPerAddress = "limit_per_address",
    /// No stream route matches, a plugin refuses the datagram, or no node is reachable.
    Refused = "refused",
    /// Too many datagrams are waiting until a node is chosen for the session.
    Waiting = "waiting",
    /// The system refuses to send the datagram: its buffers are full, or the datagram is too long
    /// for the path.
    Send = "send",
    Draining = "draining",
    /// The system dropped the datagram before the gateway read it, because the socket's buffer was
    /// full.
    ReceiveBuffer = "receive_buffer",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_a_class() {
        let table = [
            (100, "1xx"),
            (101, "1xx"),
            (200, "2xx"),
            (304, "3xx"),
            (404, "4xx"),
            (499, "4xx"),
            (599, "5xx"),
            (0, "other"),
            (999, "other"),
        ];
        for (status, expected) in table {
            assert_eq!(StatusClass::from_status(status).text(), expected);
        }
    }

    #[test]
    fn indexes_follow_the_list() {
        for (index, class) in StatusClass::ALL.iter().enumerate() {
            assert_eq!(class.index(), index);
        }
        for (index, reason) in ConnectionRefusal::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }
}
