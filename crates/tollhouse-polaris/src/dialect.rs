//! Calls of clients, independent of the transport: each takes a message and returns a message.
//!
//! gRPC and HTTP share these. The module keeps no state: writes go to the registry and return when
//! they are durable, reads use the published version. The result of a call is a code within the
//! answer. A transport error occurs only if the message cannot be decoded.

mod clients;
pub(crate) mod config;
pub(crate) mod contracts;
mod discover;
mod heartbeats;
mod instances;
mod limiter;
mod meter;
mod operator_changes;
pub(crate) mod rights;
mod token_reads;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tollhouse_registry::{Refusal, Registry, State};

pub use config::value::ConfigDocument;
pub use discover::HealthFilter;
pub(crate) use instances::id_of as instance_id_of;
use meter::Meter;
pub use meter::{Extremes, LATENCY_BOUNDS_US, MethodReading};
pub use operator_changes::{ChangeSink, OperatorChange};
pub use token_reads::{TokenRead, TokenReads};

use crate::access::{Access, Identity};
use crate::answer::Answer;
use crate::code::Code;
use crate::failure::Failure;
use crate::limiter::Limiter;
use crate::locations::Locations;
use crate::refusal::detail_of;
use crate::wire::WireError;
use crate::wire::answer::{put_outcome, put_outcome_with};
use crate::wire::write::put_message;
use config::format::FormatCheck;

/// Usual size of an answer without its echoed message.
const HEAD_BYTES_USUAL: usize = 64;

#[derive(Clone)]
pub struct Dialect {
    registry: Registry,
    access: Arc<Access>,
    limiter: Limiter,
    locations: Arc<Locations>,
    format_check: FormatCheck,
    meter: Arc<Meter>,
    meters: Arc<Mutex<Vec<Arc<Meter>>>>,
    /// Destination of records of changes by operators.
    changes: Option<Arc<dyn ChangeSink>>,
    /// Destination of notes of calls that return tokens.
    token_reads: Option<Arc<dyn TokenReads>>,
}

/// Door of the process through which an operator calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    Api,
    Console,
}

/// Operator whom another door of the process has let in, as an extension of a request.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Name of a key that may do everything; `None` if the token of the call tells who calls.
    pub account: Option<Arc<str>>,
    pub entrance: Entrance,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Caller<'a> {
    /// Token sent with the call, outside of the message.
    pub token: Option<&'a str>,
    /// Address of the client, by which gray releases may choose clients.
    pub address: Option<IpAddr>,
    /// Set by another door of the process, never by the call itself.
    pub operator: Option<&'a Operator>,
}

impl<'a> Caller<'a> {
    /// Returns the caller with the token of its message, which takes precedence.
    fn with_token(self, token: Option<&'a str>) -> Self {
        Self { token: token.filter(|token| !token.is_empty()).or(self.token), ..self }
    }

    /// Returns the name of the key of an operator who may do everything.
    fn account(&self) -> Option<&'a Arc<str>> {
        self.operator?.account.as_ref()
    }
}

/// Answer to a call, with its code for counters.
#[derive(Debug)]
pub struct CallReply {
    /// Code contained in the answer.
    pub code: Code,
    pub answer: Answer,
}

impl Dialect {
    /// Creates the calls on a registry; `access` checks their tokens.
    pub fn new(registry: Registry, access: Arc<Access>) -> Self {
        let meter: Arc<Meter> = Arc::default();
        let meters = Arc::new(Mutex::new(vec![Arc::clone(&meter)]));
        let (limiter, locations, changes, token_reads) = Default::default();
        Self {
            registry,
            access,
            limiter,
            locations,
            format_check: FormatCheck::Refuse,
            meter,
            meters,
            changes,
            token_reads,
        }
    }

    /// Adds the locations of hosts.
    #[must_use]
    pub fn with_locations(self, locations: Locations) -> Self {
        Self { locations: Arc::new(locations), ..self }
    }

    /// Publishes files even if their content does not parse in their format, as a Polaris server
    /// does.
    #[must_use]
    pub fn with_forced_publication(self) -> Self {
        Self { format_check: FormatCheck::Forced, ..self }
    }

    /// Returns the treatment of contents that do not parse, unless the caller forces them.
    pub(crate) fn format_check(&self) -> FormatCheck {
        self.format_check
    }

    pub(crate) fn locations(&self) -> &Locations {
        &self.locations
    }

    /// Sends records of changes by operators to `sink`.
    #[must_use]
    pub fn with_changes(self, sink: Arc<dyn ChangeSink>) -> Self {
        Self { changes: Some(sink), ..self }
    }

    /// Creates a copy with other gates, which shares the counters.
    #[must_use]
    pub fn with_access(self, access: Arc<Access>) -> Self {
        Self { access, ..self }
    }

    /// Creates a copy for another thread, with separate counters.
    #[must_use]
    pub fn for_thread(&self) -> Self {
        let mut other = self.clone();
        other.meter = Arc::default();
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.push(Arc::clone(&other.meter));
        drop(meters);
        other
    }

    /// Returns the counters of all threads, added up.
    pub fn readings(&self) -> Vec<MethodReading> {
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meter::sum(&meters)
    }

    /// Returns the fastest and the slowest calls since the last look, in the order of
    /// [`Self::readings`].
    pub fn take_extremes(&self) -> Vec<Option<Extremes>> {
        let meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meter::take_extremes(&meters)
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the name under which a caller makes changes; empty for a client.
    pub(crate) fn author(&self, caller: &Caller<'_>) -> Box<str> {
        if let Some(name) = caller.account() {
            return (&**name).into();
        }
        match self.identify(&self.registry.state(), caller) {
            Ok(Identity::Account) => self.access.account_name().into(),
            Ok(Identity::Member(member)) => (&*member.name).into(),
            Ok(Identity::Client) | Err(_) => "".into(),
        }
    }

    /// Returns who calls.
    ///
    /// # Errors
    /// The code to answer with, if the caller is unknown.
    pub(crate) fn identify(&self, state: &State, caller: &Caller<'_>) -> Result<Identity, Code> {
        match caller.account() {
            Some(_) => Ok(Identity::Account),
            None => self.access.identify(state, caller.token),
        }
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dialect").field("access", &self.access).finish_non_exhaustive()
    }
}

impl CallReply {
    /// Creates a `Response` with a code and one field that echoes `message`.
    fn echo(code: Code, detail: Option<&str>, number: u32, message: &[u8]) -> Self {
        let mut out = Vec::with_capacity(HEAD_BYTES_USUAL + message.len());
        put_code(&mut out, code, detail);
        put_message(&mut out, number, message);
        Self::made(code, out)
    }

    /// Creates a `Response` with the refusal's code and detail, which echoes `message`.
    fn refused(refusal: &Refusal, number: u32, message: &[u8]) -> Self {
        Self::echo(refusal.into(), detail_of(refusal).as_deref(), number, message)
    }

    /// Creates a `Response` with the failure's code and detail, which echoes `message`.
    fn failed(failure: &Failure, number: u32, message: &[u8]) -> Self {
        Self::echo(failure.code, failure.detail.as_deref(), number, message)
    }

    /// Creates an answer for this call only.
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

/// Reason for which a message cannot be decoded or answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// The message is not valid protobuf.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// A field of the message has an invalid value.
    #[error("{0}")]
    Value(#[from] prost::DecodeError),
    /// The message has more items than the limit.
    #[error("more than {0} items in one message")]
    TooMany(usize),
    /// The caller's token was refused, and the answer type has no field for a code.
    #[error("{}: {}", .0.number(), .0.info())]
    Refused(Code),
}

fn text(bytes: &[u8]) -> Result<&str, Undecodable> {
    std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8.into())
}
