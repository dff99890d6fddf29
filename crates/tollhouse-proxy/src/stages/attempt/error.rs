//! Failure of an attempt: its error code, whether another node may be tried, and who is to blame.

use std::io;

use tollhouse_net::connect;
use tollhouse_stdx::Endpoint;
use tollhouse_telemetry::ErrorCode;

use crate::worker::Worker;

/// Failure of one attempt, and whether another node may be tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptError {
    /// Error code to report if no other attempt follows.
    pub code: ErrorCode,
    /// Whether another node may be tried; `false` once a non-idempotent request is on its way.
    pub may_retry: bool,
    /// Whether a reused connection failed before a byte of the response arrived.
    pub(super) stale: bool,
    pub blame: Blame,
}

/// Cause of a failure; only the node's counts against its health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    Node,
    /// The node is not at fault: the gateway lacks a resource, the client's host is not valid as a
    /// TLS server name, or the node closed a pooled connection just as the request was sent, which
    /// it may do at any time.
    Nobody,
}

impl AttemptError {
    /// Returns a failure that another node would not avoid.
    pub(super) fn last(code: ErrorCode) -> Self {
        Self { code, may_retry: false, stale: false, blame: Blame::Node }
    }

    /// Returns the failure to open a connection. The cause is recorded for the log of failures.
    pub(crate) fn by_opening(worker: &Worker, node: Endpoint, error: &io::Error) -> Self {
        worker.failures.note(node, error);
        let is_innocent = connect::is_no_failure_of_node(error);
        let blame = if is_innocent { Blame::Nobody } else { Blame::Node };
        Self { blame, ..Self::by_node(ErrorCode::UpstreamConnectFailed, true) }
    }

    /// The same failure, caused by no node.
    pub(crate) fn without_blame(self) -> Self {
        Self { blame: Blame::Nobody, ..self }
    }

    /// Whether the node refused the request before it processed any part.
    pub(super) fn is_refused(&self) -> bool {
        self.stale && self.blame == Blame::Nobody
    }

    /// Returns a failure of the node, which another node may avoid.
    pub(crate) fn by_node(code: ErrorCode, may_retry: bool) -> Self {
        Self { code, may_retry, stale: false, blame: Blame::Node }
    }
}
