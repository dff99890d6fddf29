//! Why an attempt brought no answer: what is reported, whether another node may be tried, and whose failure it is.

use std::io;

use tollhouse_net::connect;
use tollhouse_stdx::Endpoint;
use tollhouse_telemetry::ErrorCode;

use crate::worker::Worker;

/// Why an attempt brought no answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptError {
    /// What is reported when no other attempt follows.
    pub code: ErrorCode,
    /// Whether another node may be tried: never once a non-idempotent request is on its way.
    pub may_retry: bool,
    /// Whether a pooled connection failed before it showed a sign of life.
    pub(super) stale: bool,
    /// Whose failure it is.
    pub blame: Blame,
}

/// Whose failure an attempt is: health counts what is the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blame {
    Node,
    /// Nobody's that health could count: the gateway lacks what a connection takes, the client's
    /// host is no name that the node serves over TLS, or a kept connection was closed by the node,
    /// which is its right, just as the request was sent.
    Nobody,
}

impl AttemptError {
    /// A failure that no other node would mend.
    pub(super) fn last(code: ErrorCode) -> Self {
        Self { code, may_retry: false, stale: false, blame: Blame::Node }
    }

    /// No connection to a node could be opened. The cause is noted for the log of failures.
    pub(crate) fn by_opening(worker: &Worker, node: Endpoint, error: &io::Error) -> Self {
        worker.failures.note(node, error);
        let is_innocent = connect::is_no_failure_of_node(error);
        let blame = if is_innocent { Blame::Nobody } else { Blame::Node };
        Self { blame, ..Self::by_node(ErrorCode::UpstreamConnectFailed, true) }
    }

    /// The node's failure, which another node may mend.
    pub(crate) fn by_node(code: ErrorCode, may_retry: bool) -> Self {
        Self { code, may_retry, stale: false, blame: Blame::Node }
    }
}
