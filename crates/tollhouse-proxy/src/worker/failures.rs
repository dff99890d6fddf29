//! A line in the log for requests that the gateway or a node failed, with the access log off too:
//! the code, the route, the node, and what the system said. For each code at most one a second and
//! core, with the number of those between, so that an outage shows and does not fill the disk.
//!
//! Costs nothing where nothing fails. Nothing that a client wrote is in the line.

use std::cell::RefCell;
use std::fmt::Display;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tollhouse_net::server_tls::stream::HandshakeError;
use tollhouse_stdx::{Endpoint, LogLimit};
use tollhouse_telemetry::counters::Label;
use tollhouse_telemetry::{ErrorCode, HandshakeFailure};

use crate::exchange::record::Record;

/// How often a code is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How often a way in which handshakes fail is reported: scanners try every port, day and night.
const HANDSHAKE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Failures {
    by_code: Vec<LogLimit>,
    handshakes: Vec<LogLimit>,
    /// What the system said of the node that failed last on this core.
    cause: RefCell<Option<(Endpoint, String)>>,
}

impl Default for Failures {
    fn default() -> Self {
        let by_code = ErrorCode::ALL.iter().map(|_| LogLimit::new(REPORT_INTERVAL)).collect();
        let limit = |_: &HandshakeFailure| LogLimit::new(HANDSHAKE_INTERVAL);
        let handshakes = HandshakeFailure::ALL.iter().map(limit).collect();
        Self { by_code, handshakes, cause: RefCell::new(None) }
    }
}

impl Failures {
    /// Notes why a node failed, for the line of the request that fails with it.
    #[cold]
    pub(crate) fn note(&self, node: Endpoint, cause: &dyn Display) {
        self.cause.replace(Some((node, cause.to_string())));
    }

    /// Reports a handshake that came to nothing.
    #[cold]
    pub(crate) fn report_handshake(&self, client: SocketAddr, error: &HandshakeError) {
        let HandshakeError { failure, cause } = error;
        let code = failure.text();
        if !is_operators_business(*failure) {
            tracing::debug!(%client, code, cause, "a TLS handshake failed");
            return;
        }
        let Some(unreported) = self.handshakes[failure.index()].admit(Instant::now()) else {
            return;
        };
        tracing::warn!(%client, code, cause, suppressed = unreported, "a TLS handshake failed");
    }

    /// Reports a request that failed.
    #[cold]
    pub(crate) fn report(&self, code: ErrorCode, record: &Record) {
        let place = ErrorCode::ALL.iter().position(|known| *known == code).unwrap_or_default();
        let Some(unreported) = self.by_code[place].admit(Instant::now()) else { return };
        let node = record.attempts.last().map(|attempt| attempt.address);
        let cause = self.cause.borrow();
        let cause = cause.as_ref().filter(|(failed, _)| Some(*failed) == node);
        let cause = cause.map_or(code.meaning(), |(_, cause)| cause.as_str());
        let node = node.map(|node| node.to_string()).unwrap_or_default();
        tracing::warn!(
            code = code.text(),
            status = record.status,
            route = record.route_id,
            node,
            cause,
            suppressed = unreported,
            "a request failed"
        );
    }
}

/// Whether a failure is the operator's business: what the gateway or a node did, not what a client
/// did.
pub(crate) fn is_reported(code: ErrorCode) -> bool {
    code.status() >= 500
        && !matches!(
            code,
            ErrorCode::MethodNotImplemented
                | ErrorCode::TransferCodingNotImplemented
                | ErrorCode::VersionNotSupported
        )
}

/// Whether a failed handshake points to something that can be mended here, and not only to a client
/// that left or speaks something else.
fn is_operators_business(failure: HandshakeFailure) -> bool {
    match failure {
        HandshakeFailure::ClientGone
        | HandshakeFailure::NoTls
        | HandshakeFailure::Timeout
        | HandshakeFailure::Silent
        | HandshakeFailure::HelloTooLong
        | HandshakeFailure::Broken => false,
        HandshakeFailure::NoCertificate
        | HandshakeFailure::Limit
        | HandshakeFailure::Version
        | HandshakeFailure::Cipher
        | HandshakeFailure::Protocol
        | HandshakeFailure::ClientCertificateMissing
        | HandshakeFailure::ClientCertificateExpired
        | HandshakeFailure::ClientCertificateUntrusted
        | HandshakeFailure::ClientCertificateTooDeep
        | HandshakeFailure::ClientCertificateInvalid
        | HandshakeFailure::RefusedByClient => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_did_is_not_reported_and_what_a_node_did_is() {
        for (code, expected) in [
            (ErrorCode::UpstreamConnectFailed, true),
            (ErrorCode::UpstreamReadTimeout, true),
            (ErrorCode::NoNodes, true),
            (ErrorCode::ConnectionLimit, true),
            (ErrorCode::InternalPanic, true),
            (ErrorCode::RouteNotFound, false),
            (ErrorCode::DownstreamGone, false),
            (ErrorCode::MethodNotImplemented, false),
            (ErrorCode::BadFraming, false),
        ] {
            assert_eq!(is_reported(code), expected, "{code:?}");
        }
    }
}
