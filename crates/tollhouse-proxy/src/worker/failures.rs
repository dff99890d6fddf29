//! Log lines for requests that the gateway or a node failed, also with the access log disabled:
//! code, route, node and system error. At most one line per code, second and core, with the number
//! of suppressed ones, so that an outage is visible without filling the disk.
//!
//! Costs nothing without failures. The line contains no text from clients.

use std::cell::RefCell;
use std::fmt::Display;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tollhouse_net::server_tls::stream::HandshakeError;
use tollhouse_stdx::{Endpoint, LogLimit};
use tollhouse_telemetry::counters::Label;
use tollhouse_telemetry::{ErrorCode, HandshakeFailure};

use crate::exchange::record::Record;

/// Minimum time between two reports of one code.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two reports of one kind of handshake failure, because scanners probe every
/// port continuously.
const HANDSHAKE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Failures {
    by_code: Vec<LogLimit>,
    handshakes: Vec<LogLimit>,
    /// System error of the node that failed last on this core.
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
    /// Records why a node failed, for the log line of the request.
    #[cold]
    pub(crate) fn note(&self, node: Endpoint, cause: &dyn Display) {
        self.cause.replace(Some((node, cause.to_string())));
    }

    /// Logs a failed handshake, limited in rate.
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

    /// Returns the system error of the last attempt, if it failed with one.
    #[cold]
    pub(crate) fn cause(&self, record: &Record) -> Option<String> {
        let attempt = record.attempts.last()?;
        // Other failures, such as time-outs, have no error of the system: the one that is stored is
        // older.
        let has_error = matches!(
            attempt.code?,
            ErrorCode::UpstreamConnectFailed
                | ErrorCode::UpstreamBadResponse
                | ErrorCode::UpstreamResponseHeadTooLarge
        );
        let cause = self.cause.borrow();
        let own = cause.as_ref().filter(|(node, _)| has_error && *node == attempt.address);
        own.map(|(_, cause)| cause.clone())
    }

    /// Logs a failed request, limited in rate per error code.
    #[cold]
    pub(crate) fn report(&self, code: ErrorCode, record: &Record) {
        let place = ErrorCode::ALL.iter().position(|known| *known == code).unwrap_or_default();
        let Some(unreported) = self.by_code[place].admit(Instant::now()) else { return };
        let cause = self.cause(record).unwrap_or_else(|| code.meaning().to_owned());
        let node = record.attempts.last().map(|attempt| attempt.address.to_string());
        let node = node.unwrap_or_default();
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

/// Whether a failure concerns the operator: caused by the gateway or a node, not by a client.
pub(crate) fn is_reported(code: ErrorCode) -> bool {
    code.status() >= 500
        && !matches!(
            code,
            ErrorCode::MethodNotImplemented
                | ErrorCode::TransferCodingNotImplemented
                | ErrorCode::VersionNotSupported
                | ErrorCode::FaultInjected
        )
}

/// Whether a failed handshake may have a cause on the gateway's side, and not only a client that
/// left or speaks another protocol.
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
