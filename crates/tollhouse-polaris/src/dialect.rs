//! What the calls of clients do: a message in, a message out, whatever carries them.
//!
//! gRPC and HTTP share these. Nothing here keeps state: writes go to the registry and come back when
//! they are durable, reads look at the version that is published. The outcome of a call is a code
//! within the answer; only bytes that are no message of the call's type are an error of the transport.

mod clients;
pub(crate) mod contracts;
mod discover;
mod heartbeats;
mod instances;
mod meter;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tollhouse_registry::{Refusal, Registry};

pub use discover::HealthFilter;
use meter::Meter;
pub use meter::{Extremes, LATENCY_BOUNDS_US, MethodReading};

use crate::access::Access;
use crate::answer::Answer;
use crate::code::Code;
use crate::refusal::detail_of;
use crate::wire::WireError;
use crate::wire::answer::{put_outcome, put_outcome_with};
use crate::wire::write::put_message;

/// Bytes of an answer without what it echoes.
const HEAD_BYTES_USUAL: usize = 64;

/// The calls of clients; see the module.
#[derive(Clone)]
pub struct Dialect {
    registry: Registry,
    access: Arc<Access>,
    meter: Arc<Meter>,
    meters: Arc<Mutex<Vec<Arc<Meter>>>>,
}

/// Who calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller<'a> {
    /// The token that came with the call.
    pub token: Option<&'a str>,
}

/// What a call is answered with.
#[derive(Debug)]
pub struct Replied {
    /// The code that is in the message.
    pub code: Code,
    /// The message.
    pub answer: Answer,
}

impl Dialect {
    /// The calls on a registry, for whom `access` lets in.
    pub fn new(registry: Registry, access: Arc<Access>) -> Self {
        let meter: Arc<Meter> = Arc::default();
        let meters = Arc::new(Mutex::new(vec![Arc::clone(&meter)]));
        Self { registry, access, meter, meters }
    }

    /// The same for another thread, which counts for itself.
    #[must_use]
    pub fn for_thread(&self) -> Self {
        let mut other = self.clone();
        other.meter = Arc::default();
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.push(Arc::clone(&other.meter));
        drop(meters);
        other
    }

    /// What was counted of the calls, on all threads.
    pub fn readings(&self) -> Vec<MethodReading> {
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meter::sum(&meters)
    }

    /// The fastest and the slowest calls since the last look, in the order of [`Self::readings`].
    pub fn take_extremes(&self) -> Vec<Option<Extremes>> {
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meter::take_extremes(&meters)
    }

    /// The registry behind it.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether a caller is let in. A token in the message goes before the caller's.
    fn admit(&self, caller: &Caller<'_>, token: Option<&str>) -> Result<(), Code> {
        let token = token.filter(|token| !token.is_empty());
        self.access.check_client(token.or(caller.token))
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dialect").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Replied {
    /// A `Response` with one field that echoes `message`.
    fn echo(code: Code, detail: Option<&str>, number: u32, message: &[u8]) -> Self {
        let mut out = Vec::with_capacity(HEAD_BYTES_USUAL + message.len());
        put_code(&mut out, code, detail);
        put_message(&mut out, number, message);
        Self::made(code, out)
    }

    /// A `Response` that says why the registry did not do what was asked, and echoes that.
    fn refused(refusal: &Refusal, number: u32, message: &[u8]) -> Self {
        Self::echo(refusal.into(), detail_of(refusal).as_deref(), number, message)
    }

    /// An answer that was made for this call.
    fn made(code: Code, message: Vec<u8>) -> Self {
        Self { code, answer: Bytes::from(message).into() }
    }
}

fn put_code(out: &mut Vec<u8>, code: Code, detail: Option<&str>) {
    match detail {
        Some(detail) => put_outcome_with(out, code, detail),
        None => put_outcome(out, code),
    }
}

/// Bytes that are no message of the call's type, or not one that is taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// Found while taking the message apart.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// Found while making a value of it.
    #[error("{0}")]
    Value(#[from] prost::DecodeError),
    /// There is more in it than anybody needs to say at once.
    #[error("more than {0} items in one message")]
    TooMany(usize),
    /// The caller is not let in, and the call's answer has no place for a code.
    #[error("{}: {}", .0.number(), .0.info())]
    Refused(Code),
}

/// A text within a message.
fn text(bytes: &[u8]) -> Result<&str, Undecodable> {
    std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8.into())
}
