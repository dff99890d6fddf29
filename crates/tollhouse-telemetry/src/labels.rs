//! The closed sets of values that labels of metrics take: bounded by construction.

use crate::counters::Label;

macro_rules! label {
    ($(#[$doc:meta])* $name:ident, $label:literal; $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// How many values there are.
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
    /// How ShenYu's plugins carry a request.
    ShenyuType, "type";
    /// As HTTP.
    Http = "http",
    /// As WebSocket.
    WebSocket = "websocket",
    /// As HTTP, to a service of Spring Cloud.
    SpringCloud = "springCloud",
    /// As gRPC.
    Grpc = "grpc",
    /// As a call of Dubbo.
    Dubbo = "dubbo",
}

label! {
    /// The first digit of a status.
    StatusClass, "class";
    /// 100 to 199.
    Informational = "1xx",
    /// 200 to 299.
    Success = "2xx",
    /// 300 to 399.
    Redirection = "3xx",
    /// 400 to 499.
    ClientError = "4xx",
    /// 500 to 599.
    ServerError = "5xx",
    /// Any other number.
    Other = "other",
}

impl StatusClass {
    /// The class of a status.
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
    /// All connections allowed are in use.
    Limit = "limit",
    /// The client address has all connections it may have.
    LimitPerAddress = "limit_per_address",
    /// The node is shutting down.
    Draining = "draining",
    /// The TLS handshake failed.
    TlsHandshake = "tls_handshake",
    /// No PROXY header came where one must, or from somebody who may not send one.
    ProxyHeader = "proxy_header",
    /// The system refused to accept: out of file descriptors, mostly.
    Accept = "accept",
}

label! {
    /// Why a TLS handshake with a client came to nothing: one stable word each, the same in the log.
    HandshakeFailure, "code";
    /// No certificate for the name that the client asks for.
    NoCertificate = "tls_no_certificate",
    /// The client's first message is longer than the limit.
    HelloTooLong = "tls_hello_too_long",
    /// The handshake did not end in time.
    Timeout = "tls_handshake_timeout",
    /// The connection said nothing whole, and a newer one took its place.
    Silent = "tls_client_silent",
    /// As many handshakes as allowed are under way.
    Limit = "tls_handshake_limit",
    /// The client left before the end.
    ClientGone = "tls_client_gone",
    /// What came is no TLS.
    NoTls = "tls_not_spoken",
    /// No version of TLS that both sides allow.
    Version = "tls_no_common_version",
    /// No cipher suite, key exchange or signature scheme that both sides know.
    Cipher = "tls_no_common_cipher",
    /// No application protocol that both sides speak.
    Protocol = "tls_no_common_protocol",
    /// The client must show a certificate and has none.
    ClientCertificateMissing = "tls_client_certificate_missing",
    /// The client's certificate is out of date.
    ClientCertificateExpired = "tls_client_certificate_expired",
    /// None of the authorities has signed the client's certificate.
    ClientCertificateUntrusted = "tls_client_certificate_untrusted",
    /// More certificates than allowed stand between the client's and the authority.
    ClientCertificateTooDeep = "tls_client_certificate_too_deep",
    /// The client's certificate or its signature is of no use otherwise.
    ClientCertificateInvalid = "tls_client_certificate_invalid",
    /// The client refused what it was shown, as one does that does not know the issuer.
    RefusedByClient = "tls_refused_by_client",
    /// A message that breaks the protocol.
    Broken = "tls_broken",
}

label! {
    /// Why a datagram was not passed on.
    DatagramDrop, "reason";
    /// All sessions that a worker may have are in use.
    Limit = "limit",
    /// The client's address has all sessions that it may have.
    LimitPerAddress = "limit_per_address",
    /// No stream route takes it, or its plugins refuse it, or no node can be reached.
    Refused = "refused",
    /// Too many wait already for the session's node to be found.
    Waiting = "waiting",
    /// The system does not take it: its buffers are full, or it is too long for the way.
    Send = "send",
    /// The gateway is shutting down.
    Draining = "draining",
    /// The system has lost it before the gateway read it: the socket's buffer was full.
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
