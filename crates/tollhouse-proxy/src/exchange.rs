//! One request and its answer, from the head that has been read to the line in the log: what
//! stages, plugins, answers and transfers speak of.
//!
//! Nobody who holds one knows how its bytes travel. Whether they have a connection to themselves or
//! share it with other requests, encrypted or not, is known in `connection::client` alone.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollhouse_http::{Known, grpc_timeout};
use tollhouse_net::Departure;

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
    /// The core that serves it.
    pub worker: &'e Worker,
    /// Who asks, and the way back there.
    pub client: &'e mut Client,
    /// What is known about the request, and what it leaves for log and metrics.
    pub state: &'e mut RequestState,
    /// The request's body on its way to a node.
    pub body: &'e mut RequestPump,
    /// Its route, once one is found.
    pub route: Option<&'e Arc<RouteEntry>>,
    /// Watch on the client's socket, where the exchange has a connection to itself.
    pub departure: Option<&'e Departure>,
}

impl<'e> Exchange<'e> {
    /// A request whose head has been read.
    #[inline]
    pub(crate) fn new(
        worker: &'e Worker,
        client: &'e mut Client,
        state: &'e mut RequestState,
        body: &'e mut RequestPump,
    ) -> Self {
        Self { worker, client, state, body, route: None, departure: None }
    }

    /// The same exchange on a route, which may live for less long.
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
    /// The request's head, and what has arrived of its body: what the spans of the head point into.
    #[inline]
    pub(crate) fn request_bytes(&self) -> &[u8] {
        self.client.request_bytes()
    }

    /// The method that the client asks with.
    #[inline]
    pub(crate) fn client_method(&self) -> &[u8] {
        self.state.head.method.bytes_in(self.request_bytes())
    }

    /// Whether the client asks with HEAD, which is what frames the answer that it gets.
    #[inline]
    pub(crate) fn is_head(&self) -> bool {
        self.client_method() == b"HEAD"
    }

    /// Whether the request is about the server as a whole (`OPTIONS *`), so that no route can be
    /// meant.
    #[inline]
    pub(crate) fn asks_server(&self) -> bool {
        self.state.head.parts.is_asterisk(self.request_bytes())
    }

    /// The path as the client sent it; empty where an absolute target has none.
    #[inline]
    pub(crate) fn sent_path(&self) -> &[u8] {
        self.state.head.parts.path.bytes_in(self.request_bytes())
    }

    /// The path that routes are matched against.
    #[inline]
    pub(crate) fn matched_path(&self) -> &[u8] {
        if self.state.path_is_rewritten {
            return &self.state.path;
        }
        self.sent_path()
    }

    /// The query without its `?`.
    #[inline]
    pub(crate) fn raw_query(&self) -> Option<&[u8]> {
        self.state.head.parts.query.map(|query| query.bytes_in(self.request_bytes()))
    }

    /// The matched path and the query behind it, for whoever decides by them. What
    /// is part of the path and would be read as something else stays escaped; usually there is
    /// nothing of the kind, and the bytes are those sent.
    pub(crate) fn matched_uri(&self) -> Cow<'_, [u8]> {
        let query = self.raw_query();
        let is_as_sent =
            !self.state.path_is_rewritten && query.is_none_or(|query| !query.is_empty());
        if is_as_sent {
            return self.sent_uri();
        }
        Cow::Owned(tollhouse_router::request_uri(self.matched_path(), query))
    }

    /// Path and query as sent, without the scheme and host of an absolute target.
    #[inline]
    pub(crate) fn sent_uri(&self) -> Cow<'_, [u8]> {
        self.state.head.origin_form(self.request_bytes())
    }

    /// The client's address after real-ip processing.
    #[inline]
    pub(crate) fn client_address(&self) -> IpAddr {
        let reported = self.state.reported_address.as_ref();
        reported.map_or_else(|| self.client.peer.address.ip().to_canonical(), |(ip, _)| *ip)
    }

    /// The same as text.
    #[inline]
    pub(crate) fn client_address_text(&self) -> &[u8] {
        let reported = self.state.reported_address.as_ref();
        reported
            .map_or_else(|| self.client.peer.address_text.as_bytes(), |(_, text)| text.as_bytes())
    }

    /// Whether the client calls by gRPC: over HTTP/2, the one version that can carry it.
    #[inline]
    pub(crate) fn is_grpc(&self) -> bool {
        self.client.link.stream.is_shared() && self.has_grpc_content()
    }

    fn has_grpc_content(&self) -> bool {
        let content_type = self.state.head.fields.first(Known::ContentType);
        content_type.is_some_and(|kind| grpc::is_content_type(kind.bytes_in(self.request_bytes())))
    }

    /// Takes on the time that the client of a call allows it, counted from the request's head, and how
    /// long its messages may be.
    ///
    /// # Errors
    /// When a message that has arrived is too long.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> Result<(), PumpError> {
        if self.is_grpc() { self.keep_call_bounds() } else { Ok(()) }
    }

    #[cold]
    fn keep_call_bounds(&mut self) -> Result<(), PumpError> {
        let field = self.state.head.fields.find(b"grpc-timeout", self.request_bytes());
        if let Some(time) = field.and_then(grpc_timeout::parse) {
            let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let deadline_ms = self.state.record.started_ms.saturating_add(time_ms);
            self.state.call_deadline_ms = Some(deadline_ms);
        }
        match self.message_meter() {
            Some(meter) => self.body.meter(meter, &self.client.link.buffer),
            None => Ok(()),
        }
    }

    /// What checks the messages of one direction of a call, where their length is limited.
    #[inline]
    pub(crate) fn message_meter(&self) -> Option<Box<MessageMeter>> {
        let bytes_max = self.worker.settings.limits.grpc_message_bytes?;
        self.is_grpc().then(|| MessageMeter::new(bytes_max))
    }

    /// Whether the client of a call does not wait for it any longer.
    #[inline]
    pub(crate) fn is_past_call_deadline(&self) -> bool {
        self.state
            .call_deadline_ms
            .is_some_and(|deadline_ms| self.worker.clock.now_ms() >= deadline_ms)
    }

    /// The same by the clock as it is now. A node keeps the same deadline, and may say so before this
    /// side's timer goes off.
    #[cold]
    pub(crate) fn is_past_call_deadline_by_now(&self) -> bool {
        self.state.call_deadline_ms.is_some() && {
            self.worker.clock.refresh();
            self.is_past_call_deadline()
        }
    }

    /// Sets the client's deadline `after` from now; a call's own, where that is earlier.
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

    /// Whether that deadline has passed; to be asked once everything else is pending.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.client.is_late(self.worker)
    }
}
