//! What a plugin sees of an exchange that is over.

use tollhouse_model::variable::Lookup;

use crate::exchange::{Exchange, Moment};
use crate::memory::Memory;

/// How an exchange went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transfer<'r> {
    /// The status sent; 0 when the client was gone before any.
    pub status: u16,
    /// The status of the last node tried.
    pub upstream_status: Option<u16>,
    /// Whether a node's answer was passed on.
    pub is_upstream_answer: bool,
    /// All bytes received from the client, head included.
    pub bytes_received: u64,
    /// All bytes sent to the client.
    pub bytes_sent: u64,
    /// Body bytes sent to the client.
    pub body_bytes_sent: u64,
    /// Milliseconds since 1970 when the request began.
    pub started_unix_ms: u64,
    /// Milliseconds from the request's first byte to the answer's last.
    pub request_ms: u64,
    /// Milliseconds until the node had answered.
    pub upstream_ms: Option<u64>,
    /// The last node tried, as `ip:port`.
    pub upstream: &'r str,
    /// Id of the route; empty for none.
    pub route_id: &'r str,
    /// Id of its service; empty for none.
    pub service_id: &'r str,
    /// Who asked; empty for nobody known.
    pub consumer: &'r str,
    /// The gateway's error code, where it answered for an error.
    pub error_code: Option<&'static str>,
}

/// An exchange that is over.
pub struct LogContext<'r> {
    exchange: &'r dyn Exchange,
    memory: &'r mut Memory,
    transfer: Transfer<'r>,
    instance: usize,
}

impl<'r> LogContext<'r> {
    /// For the exchange behind `exchange`.
    pub fn new(exchange: &'r dyn Exchange, memory: &'r mut Memory, transfer: Transfer<'r>) -> Self {
        Self { exchange, memory, transfer, instance: 0 }
    }

    /// Names the instance that runs next, for what it remembers.
    #[inline]
    pub fn enter(&mut self, instance: usize) {
        self.instance = instance;
    }

    /// How it went.
    pub fn transfer(&self) -> &Transfer<'r> {
        &self.transfer
    }

    /// The request.
    pub fn request(&self) -> &'r dyn Exchange {
        self.exchange
    }

    /// The exchange as the source of variables; those of the answer included.
    pub fn variables(&self) -> &dyn Lookup {
        self.exchange.as_lookup()
    }

    /// Now.
    pub fn now(&self) -> Moment {
        self.exchange.now()
    }

    /// What this instance left in an earlier phase.
    pub fn recall<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(self.instance)
    }
}
