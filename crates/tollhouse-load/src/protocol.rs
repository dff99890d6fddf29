//! Interface between the protocols and the worker's common loop.
//!
//! A [`Protocol`] is prepared once per case (URL parsed, request encoded, descriptors loaded) and
//! shared by all workers. A [`Lane`] carries one exchange at a time and belongs to one worker.
//! Lanes of multiplexing protocols share connections. Pace, timeouts, schedule checks and recording
//! are outside of protocols.

pub mod check;
pub mod grpc;
pub mod http1;
pub mod http2;
pub mod request;
pub mod tcp;
pub mod websocket;

use std::rc::Rc;
use std::sync::Arc;

use crate::case::Case;
use crate::error::BenchError;
use crate::failure::Failure;
use crate::target::Target;
use crate::worker::Worker;

/// Permission to send the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Number of the request in the case, from 0, including the warm-up; unique.
    pub number: u64,
}

/// Timestamps and byte counts of an exchange. Times are in nanoseconds on the worker's clock
/// ([`Worker::now_ns`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Start of connecting; 0, like `connected_ns`, if the connection was already open.
    pub connect_from_ns: u64,
    /// Time at which the connection was established.
    pub connected_ns: u64,
    /// Instant before the first byte of the request was passed to the system.
    pub sent_ns: u64,
    /// Instant at which the first byte of the response was available.
    pub first_byte_ns: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Whether the connection had carried an earlier exchange.
    pub is_reused: bool,
}

/// Facts about a complete response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reply {
    /// HTTP or gRPC status; 0 for protocols without status.
    pub status: u16,
    /// Length of the body in bytes.
    pub body_bytes: u64,
}

/// Carrier of one exchange at a time.
pub trait Lane {
    /// Opens the lane's connection before the load begins, so that the schedule does not start with
    /// a burst of connecting. A lane on a shared connection opens it only if no other lane has.
    ///
    /// # Errors
    /// If connecting fails; the first exchange tries again.
    fn open(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Connects if necessary, sends the request and receives the complete response. Fills in
    /// `marks` as the exchange proceeds, so that they are valid even if it fails. May be dropped at
    /// any await (timeout, end of the run); [`abandon`](Self::abandon) must be called then.
    ///
    /// # Errors
    /// If the exchange fails. The lane can still be used; the next exchange reconnects if
    /// necessary.
    fn exchange(
        &mut self,
        ticket: Ticket,
        marks: &mut Marks,
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// Discards an exchange that was dropped halfway: closes its connection, or only its stream.
    fn abandon(&mut self);
}

/// A protocol, prepared for a case.
pub trait Protocol: Send + Sync + Sized + 'static {
    type Lane: Lane + 'static;

    /// Prepares the case. Blocking: may read the case's files and fetch descriptors from the
    /// target.
    ///
    /// # Errors
    /// If the case is invalid.
    fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError>;

    /// Creates lane `index` (0 to connections × streams − 1 of this worker) without connecting.
    /// With multiplexing, lanes `k × streams` to `(k + 1) × streams − 1` share connection `k`.
    fn lane(self: &Arc<Self>, worker: &Rc<Worker>, index: usize) -> Self::Lane;

    /// Returns the name of a status in results; `None` for 0.
    fn status_name(status: u16) -> Option<String> {
        (status > 0).then(|| status.to_string())
    }

    /// Returns the header lines of the first response; empty for protocols without headers.
    fn first_head(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
