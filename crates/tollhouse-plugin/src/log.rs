//! View of a finished exchange for plugins.

use std::borrow::Cow;

use tollhouse_model::variable::{Lookup, Variable};

use crate::exchange::{Exchange, Moment, each_header};
use crate::mask::MaskedRequest;
use crate::memory::Memory;

/// Statuses, sizes and times of a finished exchange.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transfer<'r> {
    /// Status sent to the client; 0 if the client closed the connection before.
    pub status: u16,
    /// Status of the last node tried; `None` if it did not answer.
    pub upstream_status: Option<u16>,
    /// Whether the answer to the client came from a node, not from the gateway.
    pub is_upstream_answer: bool,
    /// Bytes received from the client, including heads.
    pub bytes_received: u64,
    /// Bytes sent to the client, including heads.
    pub bytes_sent: u64,
    /// Bytes of the body sent to the client.
    pub body_bytes_sent: u64,
    /// Start of the request, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Milliseconds from the request's first byte to the answer's last.
    pub request_ms: u64,
    /// Milliseconds from the start of the request until the head of the node's answer arrived;
    /// `None` without one.
    pub upstream_ms: Option<u64>,
    /// Address of the last node tried, as `ip:port`; empty if there was none.
    pub upstream: &'r str,
    /// Id of the route; empty without one.
    pub route_id: &'r str,
    /// Id of the route's service; empty without one.
    pub service_id: &'r str,
    /// Name of the consumer; empty if it is unknown.
    pub consumer: &'r str,
    /// Error code of the gateway, if it answered with an error.
    pub error_code: Option<&'static str>,
}

/// Finished exchange, as the log phase sees it.
pub struct LogContext<'r> {
    exchange: &'r dyn Exchange,
    memory: &'r mut Memory,
    transfer: Transfer<'r>,
    masked: Option<Box<MaskedRequest>>,
    instance: usize,
}

impl<'r> LogContext<'r> {
    /// Returns the context of the exchange behind `exchange`.
    pub fn new(exchange: &'r dyn Exchange, memory: &'r mut Memory, transfer: Transfer<'r>) -> Self {
        Self { exchange, memory, transfer, masked: None, instance: 0 }
    }

    /// Sets the plugin instance that runs next. Each instance has separate memory for
    /// [`Self::recall`].
    #[inline]
    pub fn enter(&mut self, instance: usize) {
        self.instance = instance;
    }

    /// Returns statuses, sizes and times of the exchange.
    pub fn transfer(&self) -> &Transfer<'r> {
        &self.transfer
    }

    /// Returns the exchange with the request as the client sent it, without masks. Logs use
    /// [`Self::each_header`], [`Self::query`] and [`Self::variables`] instead.
    pub fn request(&self) -> &'r dyn Exchange {
        self.exchange
    }

    /// Returns the variables of request and answer, with masks.
    pub fn variables(&self) -> &dyn Lookup {
        match &self.masked {
            Some(_) => self,
            None => self.exchange.as_lookup(),
        }
    }

    /// Calls `visit` with every header line of the request, with masks.
    pub fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        match &self.masked {
            Some(masked) => masked.each_header(self.exchange, visit),
            None => each_header(self.exchange, visit),
        }
    }

    /// Returns the query string of the request without `?`, with masks.
    pub fn query(&self) -> Option<&[u8]> {
        match self.masked() {
            Some(masked) if masked.uri.is_some() => masked.query(),
            _ => self.exchange.query(),
        }
    }

    /// Returns the parts of the request that a plugin has masked.
    pub fn masked(&self) -> Option<&MaskedRequest> {
        self.masked.as_deref()
    }

    /// Returns the masks, for further ones.
    pub fn mask(&mut self) -> &mut MaskedRequest {
        self.masked.get_or_insert_default()
    }

    /// Returns the masks for the access log.
    pub fn into_masked(self) -> Option<Box<MaskedRequest>> {
        self.masked
    }

    /// Returns the time of the monotonic and of the wall clock.
    pub fn now(&self) -> Moment {
        self.exchange.now()
    }

    /// Returns the value of type `T` that a plugin instance shared in an earlier phase.
    pub fn shared<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(Memory::SHARED)
    }

    /// Returns the value of type `T` that this plugin instance stored in an earlier phase.
    pub fn recall<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(self.instance)
    }
}

impl Lookup for LogContext<'_> {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        match &self.masked {
            Some(masked) => masked.variable(self.exchange, variable),
            None => self.exchange.as_lookup().variable(variable),
        }
    }
}
