//! Record of one request for log and metrics, filled in while it is served.

use tollhouse_stdx::Endpoint;
use tollhouse_telemetry::ErrorCode;
use tollhouse_telemetry::labels::ShenyuType;

use crate::head::text::write_decimal;

/// Facts about one request for log and metrics.
#[derive(Debug, Default)]
pub struct Record {
    /// Time when the head was read, in milliseconds of the core's clock.
    pub started_ms: u64,
    /// Status sent to the client; 0 before a response is sent.
    pub status: u16,
    /// Error code of a response that the gateway generated or cut off.
    pub code: Option<ErrorCode>,
    pub body_bytes_sent: u64,
    /// Bytes sent to the client, heads included.
    pub bytes_sent: u64,
    /// Attempts to reach a node, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Milliseconds until the node's response head had arrived.
    pub upstream_response_ms: Option<u64>,
    /// Id of the route. Copied, because a shared reference count would be contended by all cores.
    pub route_id: String,
    /// Counter number of the route plus one; 0 without a route.
    pub route_count: u32,
    /// Counter number of the upstream object plus one; 0 without one.
    pub upstream_count: u32,
    /// Id of the matched route's service.
    pub service_id: String,
    /// ShenYu's type of the request, if a ShenYu object routed it.
    pub shenyu_type: Option<ShenyuType>,
}

/// Outcome of one node that was tried.
#[derive(Debug, Clone, Copy)]
pub struct AttemptRecord {
    pub address: Endpoint,
    /// Duration in milliseconds from the head of the request to the failure; 0 if the node
    /// answered, because the record then has its times.
    pub failed_ms: u32,
    /// Status of the answer, or the one that stands for the failure.
    pub status: u16,
    /// Code of the failure; `None` if the node answered.
    pub code: Option<ErrorCode>,
}

impl AttemptRecord {
    /// Returns the attempt that a node answered.
    #[inline]
    pub fn answered(address: Endpoint, status: u16) -> Self {
        Self { address, failed_ms: 0, status, code: None }
    }

    pub fn status(&self) -> u16 {
        self.status
    }
}

impl Record {
    /// Resets the record and keeps the capacity of its vectors. Each field is written in place,
    /// because every request pays for a move of the record.
    pub(crate) fn reset(&mut self) {
        let Self {
            started_ms,
            status,
            code,
            body_bytes_sent,
            bytes_sent,
            attempts,
            upstream_response_ms,
            route_id,
            route_count,
            upstream_count,
            service_id,
            shenyu_type,
        } = self;
        (*started_ms, *status, *code) = (0, 0, None);
        (*body_bytes_sent, *bytes_sent) = (0, 0);
        attempts.clear();
        *upstream_response_ms = None;
        route_id.clear();
        (*route_count, *upstream_count) = (0, 0);
        service_id.clear();
        *shenyu_type = None;
    }

    /// Records a node that sent no response, at a time of the core's clock.
    pub fn fail_attempt(&mut self, address: Endpoint, code: ErrorCode, now_ms: u64) {
        let failed_ms = now_ms.saturating_sub(self.started_ms);
        let failed_ms = u32::try_from(failed_ms).unwrap_or(u32::MAX);
        let attempt = AttemptRecord { address, failed_ms, status: code.status(), code: Some(code) };
        self.attempts.push(attempt);
    }

    /// Returns the error of the last node tried; `NoNodes` if none was tried.
    pub fn last_code(&self) -> ErrorCode {
        let failed = self.attempts.iter().rev().find_map(|attempt| attempt.code);
        failed.unwrap_or(ErrorCode::NoNodes)
    }

    /// Returns the value of `X-APISIX-Upstream-Status`: the statuses of all nodes in order, such as
    /// `502, 200`.
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
