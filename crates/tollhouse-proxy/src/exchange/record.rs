//! What log and metrics say about one request, filled in on its way.

use tollhouse_stdx::Endpoint;
use tollhouse_telemetry::ErrorCode;
use tollhouse_telemetry::labels::ShenyuType;

use crate::head::text::write_decimal;

/// What log and metrics say about one request.
#[derive(Debug, Default)]
pub struct Record {
    /// Milliseconds of the core's clock when its head was read.
    pub started_ms: u64,
    /// The status sent; 0 while none has been.
    pub status: u16,
    /// Why the gateway answered itself, or broke off.
    pub code: Option<ErrorCode>,
    /// Body bytes sent to the client.
    pub body_bytes_sent: u64,
    /// All bytes sent to the client.
    pub bytes_sent: u64,
    last_failure: Option<ErrorCode>,
    /// Nodes tried, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Milliseconds until the node's head had arrived.
    pub upstream_response_ms: Option<u64>,
    /// Id of the route; copied, since counting a shared one would cost every core.
    pub route_id: String,
    /// One more than what its requests are counted by; 0 where there is none.
    pub route_count: u32,
    /// The same of the upstream object that its nodes are of.
    pub upstream_count: u32,
    /// Id of its service.
    pub service_id: String,
    /// How ShenYu's plugins carry it, where its objects have taken it.
    pub shenyu_type: Option<ShenyuType>,
}

/// One node tried.
#[derive(Debug, Clone, Copy)]
pub struct AttemptRecord {
    pub address: Endpoint,
    /// Its status, or the one that stands for its failure.
    pub status: u16,
}

impl Record {
    /// Forgets the request, keeps what its vectors have grown to.
    pub(crate) fn reset(&mut self) {
        let mut next = Record {
            attempts: std::mem::take(&mut self.attempts),
            route_id: std::mem::take(&mut self.route_id),
            service_id: std::mem::take(&mut self.service_id),
            ..Record::default()
        };
        next.attempts.clear();
        next.route_id.clear();
        next.service_id.clear();
        *self = next;
    }

    /// Notes a node that brought no answer.
    pub fn fail_attempt(&mut self, address: Endpoint, code: ErrorCode) {
        self.attempts.push(AttemptRecord { address, status: code.status() });
        self.last_failure = Some(code);
    }

    /// What the last node tried failed with.
    pub fn last_code(&self) -> ErrorCode {
        self.last_failure.unwrap_or(ErrorCode::NoNodes)
    }

    /// `X-APISIX-Upstream-Status`: all statuses in order, such as `502, 200`.
    pub fn upstream_statuses(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, attempt) in self.attempts.iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            write_decimal(&mut out, u64::from(attempt.status));
        }
        out
    }
}
