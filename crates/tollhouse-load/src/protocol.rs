//! What a protocol has to offer so that the worker's one loop can drive it.
//!
//! A [`Protocol`] is prepared once for a case (URL taken apart, request encoded, descriptors loaded) and
//! shared by all workers; a [`Lane`] carries one exchange at a time and belongs to one worker. Lanes of
//! protocols that multiplex share a connection among themselves. Pace, time-outs, checks of the schedule
//! and recording are none of a protocol's business.

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

/// One request to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Its number in the case, from 0, warm-up included; no two requests share one.
    pub number: u64,
}

/// When what happened to one exchange, in nanoseconds on the worker's clock ([`Worker::now_ns`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Opening the connection began and ended; both 0 when it was open already.
    pub connect_from_ns: u64,
    /// See `connect_from_ns`.
    pub connected_ns: u64,
    /// The instant before the first byte of the request was handed to the system.
    pub sent_ns: u64,
    /// The first byte of the answer was there.
    pub first_byte_ns: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Whether the connection had carried an exchange before.
    pub is_reused: bool,
}

/// A whole answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP or gRPC status; 0 for protocols without one.
    pub status: u16,
    /// Bytes of the body.
    pub body_bytes: u64,
}

/// Carries one exchange at a time.
pub trait Lane {
    /// Opens the lane's connection before the load begins, so that a schedule does not start with a
    /// storm of connecting. A lane that shares a connection opens it only if nobody else has.
    ///
    /// # Errors
    /// The failure; the first exchange tries again.
    fn open(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Connects when needed, sends the request, and takes the whole answer. Fills in `marks` as things
    /// happen, so that they hold also when the exchange fails. May be dropped at any await (time-out, end
    /// of the run); [`abandon`](Self::abandon) follows then.
    ///
    /// # Errors
    /// The failure; the lane is ready for the next exchange all the same, on a new connection if need be.
    fn exchange(
        &mut self,
        ticket: Ticket,
        marks: &mut Marks,
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// Forgets an exchange that was dropped half way: the connection, or only the stream of it.
    fn abandon(&mut self);
}

/// What travels, prepared for a case.
pub trait Protocol: Send + Sync + Sized + 'static {
    /// Its lanes.
    type Lane: Lane + 'static;

    /// Takes the case apart. May read the case's files and ask the target for descriptors (blocking).
    ///
    /// # Errors
    /// What is wrong with the case.
    fn prepare(case: &Case, target: &Target) -> Result<Self, BenchError>;

    /// Lane `index` (0 to connections × streams − 1 of this worker). Lanes `k × streams` to
    /// `(k + 1) × streams − 1` share connection `k` where the protocol multiplexes. Opens nothing yet.
    fn lane(self: &Arc<Self>, worker: &Rc<Worker>, index: usize) -> Self::Lane;

    /// How a status is called in results; `None` for what is none.
    fn status_name(status: u16) -> Option<String> {
        (status > 0).then(|| status.to_string())
    }

    /// The header lines of the first answer; empty for protocols whose answers have none.
    fn first_head(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
