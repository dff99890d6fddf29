//! Implementation of the plugin contract's view of an exchange.

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::variable::Lookup;
use tollhouse_plugin::exchange::{MatchedObject, join_line};
use tollhouse_plugin::{BodyError, BodyExaminer, Consumer, LocalFuture, Moment, RequestEdits};
use tollhouse_stdx::MemoryBudget;
use tollhouse_telemetry::ErrorCode;
use tollhouse_trace::{RequestTrace, TraceExtent, TraceStart};

use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::stages::{judged_path, request_body, trace, upstream_head};

impl Exchange<'_> {
    /// Returns the error that a plugin receives for an unreadable body. Only `TooLarge` leaves the
    /// response to the plugin; any other error ends the request, whatever the plugin answers.
    fn body_error(&mut self, error: GatewayError) -> BodyError {
        if error.code == ErrorCode::BodyTooLarge {
            return BodyError::TooLarge;
        }
        self.state.plugins.refused = Some(error.code);
        BodyError::Broken
    }
}

impl tollhouse_plugin::Exchange for Exchange<'_> {
    fn method(&self) -> &[u8] {
        self.client_method()
    }

    fn path(&self) -> &[u8] {
        self.matched_path()
    }

    fn query(&self) -> Option<&[u8]> {
        self.raw_query()
    }

    fn request_uri(&self) -> Cow<'_, [u8]> {
        self.matched_uri()
    }

    fn real_request_uri(&self) -> Cow<'_, [u8]> {
        self.sent_uri()
    }

    fn escaped_path(&self) -> Cow<'_, [u8]> {
        judged_path::escaped(self)
    }

    fn path_as_sent(&self) -> Option<&[u8]> {
        (!self.state.path_is_rewritten).then(|| self.matched_path())
    }

    fn client_header(&self, name: &[u8]) -> Option<&[u8]> {
        self.state.head.fields.find(name, self.request_bytes())
    }

    fn client_header_list(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let mut values = self.state.head.fields.named(name, self.request_bytes());
        let first = values.next()?;
        let Some(second) = values.next() else { return Some(Cow::Borrowed(first)) };
        let mut joined = first.to_vec();
        join_line(&mut joined, name, second);
        values.for_each(|value| join_line(&mut joined, name, value));
        Some(Cow::Owned(joined))
    }

    fn each_client_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        let bytes = self.request_bytes();
        for field in self.state.head.fields.visible() {
            visit(field.name().bytes_in(bytes), field.value().bytes_in(bytes));
        }
    }

    fn each_node_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        upstream_head::each_line(self, visit);
    }

    fn matched_object(&self, kind: MatchedObject) -> Option<serde_json::Value> {
        super::matched::document(self, kind)
    }

    fn asks_websocket(&self) -> bool {
        self.state.head.upgrade
    }

    fn remote_address(&self) -> IpAddr {
        self.client_address()
    }

    fn peer_address(&self) -> IpAddr {
        self.client.peer.address.ip().to_canonical()
    }

    fn is_tls(&self) -> bool {
        self.client.is_encrypted()
    }

    fn edits(&self) -> &RequestEdits {
        &self.state.plugins.edits
    }

    fn edits_mut(&mut self) -> &mut RequestEdits {
        &mut self.state.plugins.edits
    }

    fn read_body<'a>(&'a mut self, bytes_max: u64) -> LocalFuture<'a, Result<(), BodyError>> {
        Box::pin(async move {
            let read = request_body::read_whole(self, bytes_max).await;
            read.map_err(|error| self.body_error(error))
        })
    }

    fn body(&self) -> Option<&[u8]> {
        self.state.held_body.bytes(self.state.head.head_bytes, &self.client.link.buffer)
    }

    fn examine_body<'a>(
        &'a mut self,
        look: BodyExaminer,
    ) -> LocalFuture<'a, Result<Box<dyn Any + Send>, BodyError>> {
        Box::pin(async move {
            let examined = request_body::examine(self, look).await;
            examined.map_err(|error| self.body_error(error))
        })
    }

    fn is_refused(&self) -> bool {
        self.state.plugins.refused.is_some()
    }

    fn memory(&self) -> Arc<MemoryBudget> {
        Arc::clone(&self.worker.settings.limits.memory)
    }

    fn note_consumer(&mut self, consumer: &Consumer) {
        let plugins = &mut self.state.plugins;
        plugins.consumer.clear();
        plugins.consumer.push_str(&consumer.username);
        plugins.consumer_count = consumer.number.wrapping_add(1);
        plugins.consumer_group.clear();
        plugins.consumer_group.push_str(consumer.group_id.as_deref().unwrap_or_default());
    }

    fn now(&self) -> Moment {
        let clock = &self.worker.clock;
        Moment { monotonic_ms: clock.now_ms(), unix_ms: clock.unix_ms() }
    }

    fn random(&self) -> u64 {
        self.worker.random_u64()
    }

    fn sleep<'a>(&'a mut self, time: Duration) -> LocalFuture<'a, ()> {
        Box::pin(async move {
            tokio::time::sleep(time).await;
            self.worker.clock.refresh();
        })
    }

    fn trace(&self) -> Option<&RequestTrace> {
        (self.state.trace_extent != TraceExtent::None).then_some(&self.state.trace)
    }

    fn begin_trace(&mut self, start: TraceStart) {
        self.state.trace_extent = self.state.trace.begin(start);
        if let Some(entry) = self.route {
            trace::note_route(self.state, entry);
        }
    }

    fn as_lookup(&self) -> &dyn Lookup {
        self
    }
}
