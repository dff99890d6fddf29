//! An exchange: one request and its response, from the parsed head to the access log line. Stages,
//! plugins, responses and transfers work on it.
//!
//! An exchange does not know its transport. Only `connection::client` knows whether the bytes use
//! their own connection or a shared one, encrypted or not.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollhouse_http::{Known, grpc_timeout};
use tollhouse_net::Departure;
use tollhouse_stdx::duration::to_ms;

use crate::connection::client::Client;
use crate::exchange::state::RequestState;
use crate::grpc::{self, MessageMeter};
use crate::snapshot::RouteEntry;
use crate::transfer::pump::{PumpError, RequestPump};
use crate::worker::Worker;

pub(crate) mod held_body;
pub(crate) mod record;
pub(crate) mod state;
pub(crate) mod tls_variables;
mod variables;

pub(crate) struct Exchange<'e> {
    /// The core that serves the exchange.
    pub worker: &'e Worker,
    /// The client's side: addresses and byte transport.
    pub client: &'e mut Client,
    /// Facts about the request, and the record for log and metrics.
    pub state: &'e mut RequestState,
    /// Pump that moves the request body to the node.
    pub body: &'e mut RequestPump,
    /// Route that the request matched; `None` before routing.
    pub route: Option<&'e Arc<RouteEntry>>,
    /// Watch on the client's socket; `None` if the connection is shared.
    pub departure: Option<&'e Departure>,
}

impl<'e> Exchange<'e> {
    /// Creates an exchange for a request whose head is parsed.
    #[inline]
    pub(crate) fn new(
        worker: &'e Worker,
        client: &'e mut Client,
        state: &'e mut RequestState,
        body: &'e mut RequestPump,
    ) -> Self {
        Self { worker, client, state, body, route: None, departure: None }
    }

    /// Returns the exchange with a route, which may have a shorter lifetime.
    #[inline]
    pub(crate) fn on_route<'r>(&'r mut self, route: Option<&'r Arc<RouteEntry>>) -> Exchange<'r> {
        Exchange {
            worker: self.worker,
            client: self.client,
            state: self.state,
            body: self.body,
            route,
            departure: self.departure,
        }
    }
}

impl Exchange<'_> {
    /// Returns the request head and the body bytes received so far. The spans of the parsed head
    /// index into this slice.
    #[inline]
    pub(crate) fn request_bytes(&self) -> &[u8] {
        self.client.request_bytes()
    }

    /// Returns the method that the client sent.
    #[inline]
    pub(crate) fn client_method(&self) -> &[u8] {
        self.state.head.method.bytes_in(self.request_bytes())
    }

    /// Whether the client's method is HEAD, which determines the framing of the response.
    #[inline]
    pub(crate) fn is_head(&self) -> bool {
        self.client_method() == b"HEAD"
    }

    /// Whether the request is `OPTIONS *`, which concerns the whole server and matches no route.
    #[inline]
    pub(crate) fn asks_server(&self) -> bool {
        self.state.head.parts.is_asterisk(self.request_bytes())
    }

    /// Returns the path as the client sent it; empty if an absolute target has no path.
    #[inline]
    pub(crate) fn sent_path(&self) -> &[u8] {
        self.state.head.parts.path.bytes_in(self.request_bytes())
    }

    /// Returns the path that routes are matched against: the normalised one if it differs from the
    /// sent path.
    #[inline]
    pub(crate) fn matched_path(&self) -> &[u8] {
        if self.state.path_is_rewritten {
            return &self.state.path;
        }
        self.sent_path()
    }

    /// Returns the query as sent, without the question mark.
    #[inline]
    pub(crate) fn raw_query(&self) -> Option<&[u8]> {
        self.state.head.parts.query.map(|query| query.bytes_in(self.request_bytes()))
    }

    /// Returns the matched path with the query, for plugins and conditions. Bytes that belong to
    /// the path but would be parsed as a delimiter stay escaped. Usually nothing needs escaping and
    /// the sent bytes are borrowed.
    pub(crate) fn matched_uri(&self) -> Cow<'_, [u8]> {
        let query = self.raw_query();
        let is_as_sent =
            !self.state.path_is_rewritten && query.is_none_or(|query| !query.is_empty());
        if is_as_sent {
            return self.sent_uri();
        }
        Cow::Owned(tollhouse_router::request_uri(self.matched_path(), query))
    }

    /// Returns the path and query as sent, without the scheme and host of an absolute target.
    #[inline]
    pub(crate) fn sent_uri(&self) -> Cow<'_, [u8]> {
        self.state.head.origin_form(self.request_bytes())
    }

    /// Returns the address of the client after real-ip processing.
    #[inline]
    pub(crate) fn client_address(&self) -> IpAddr {
        let reported = self.state.reported_address.as_ref();
        reported.map_or_else(|| self.client.peer.address.ip().to_canonical(), |(ip, _)| *ip)
    }

    /// Returns the client address after real-ip processing, as text.
    #[inline]
    pub(crate) fn client_address_text(&self) -> &[u8] {
        let reported = self.state.reported_address.as_ref();
        reported
            .map_or_else(|| self.client.peer.address_text.as_bytes(), |(_, text)| text.as_bytes())
    }

    /// Whether the request is a gRPC call; requires HTTP/2, because gRPC needs its trailers.
    #[inline]
    pub(crate) fn is_grpc(&self) -> bool {
        self.client.link.stream.is_shared() && self.has_grpc_content()
    }

    fn has_grpc_content(&self) -> bool {
        let content_type = self.state.head.fields.first(Known::ContentType);
        content_type.is_some_and(|kind| grpc::is_content_type(kind.bytes_in(self.request_bytes())))
    }

    /// Applies the limits of a gRPC call: the client's `grpc-timeout`, counted from the arrival of
    /// the head, and the maximum length of messages.
    ///
    /// # Errors
    /// If a message that has arrived already is too long.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> Result<(), PumpError> {
        if self.is_grpc() { self.keep_call_bounds() } else { Ok(()) }
    }

    #[cold]
    fn keep_call_bounds(&mut self) -> Result<(), PumpError> {
        let field = self.state.head.fields.find(b"grpc-timeout", self.request_bytes());
        if let Some(time) = field.and_then(grpc_timeout::parse) {
            let time_ms = to_ms(time);
            let deadline_ms = self.state.record.started_ms.saturating_add(time_ms);
            self.state.call_deadline_ms = Some(deadline_ms);
        }
        match self.message_meter() {
            Some(meter) => self.body.meter(meter, &self.client.link.buffer),
            None => Ok(()),
        }
    }

    /// Returns the check of message lengths for one direction of a gRPC call; `None` without a
    /// limit.
    #[inline]
    pub(crate) fn message_meter(&self) -> Option<Box<MessageMeter>> {
        let bytes_max = self.worker.settings.limits.grpc_message_bytes?;
        self.is_grpc().then(|| MessageMeter::new(bytes_max))
    }

    /// Whether the deadline of the gRPC call has passed.
    #[inline]
    pub(crate) fn is_past_call_deadline(&self) -> bool {
        self.state
            .call_deadline_ms
            .is_some_and(|deadline_ms| self.worker.clock.now_ms() >= deadline_ms)
    }

    /// Whether the call's deadline has passed, like [`Self::is_past_call_deadline`], but refreshes
    /// the clock first. The node knows the deadline too and may report it before this side's timer
    /// fires.
    #[cold]
    pub(crate) fn is_past_call_deadline_by_now(&self) -> bool {
        self.state.call_deadline_ms.is_some() && {
            self.worker.clock.refresh();
            self.is_past_call_deadline()
        }
    }

    /// Sets the client's deadline to `after` from now, or to that of the gRPC call if that is
    /// earlier.
    #[inline]
    pub(crate) fn arm(&self, after: Duration) {
        match self.state.call_deadline_ms {
            None => self.client.arm(self.worker, after),
            Some(deadline_ms) => {
                let left_ms = deadline_ms.saturating_sub(self.worker.clock.now_ms());
                self.client.arm(self.worker, after.min(Duration::from_millis(left_ms)));
            }
        }
    }

    /// Whether the client's deadline has passed. Check after everything else is pending.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.client.is_late(self.worker)
    }
}
