//! The request under way, lent to plugins.

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::{BodyError, BodyExaminer, Exchange, LocalFuture, Moment, RequestEdits};
use tollhouse_telemetry::ErrorCode;

use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::RequestPump;
use crate::request::{Request, Work};
use crate::snapshot::RouteEntry;
use crate::worker::Worker;
use crate::{request_body, upstream_head};

/// Everything a plugin may ask about.
pub(crate) struct Lent<'r> {
    /// The core.
    pub worker: &'r Worker,
    /// The client.
    pub client: &'r mut Client,
    /// The request.
    pub work: &'r mut Work,
    /// Its body.
    pub body: &'r mut RequestPump,
    /// Its route, once it has one.
    pub route: Option<&'r RouteEntry>,
}

impl Lent<'_> {
    /// What a plugin is told of a body that could not be read. It may only say that one is too
    /// large; anything else ends the request, whatever the plugin makes of it.
    fn body_error(&mut self, error: GatewayError) -> BodyError {
        if error.code == ErrorCode::BodyTooLarge {
            return BodyError::TooLarge;
        }
        self.work.plugins.refused = Some(error.code);
        BodyError::Broken
    }

    fn bytes(&self) -> &[u8] {
        self.client.link.buffer.filled()
    }
}

impl Lookup for Lent<'_> {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        Request::new(self.worker, self.client, self.work, self.route).value(variable)
    }
}

impl Exchange for Lent<'_> {
    fn method(&self) -> &[u8] {
        self.work.head.method.of_buffer(self.bytes())
    }

    fn path(&self) -> &[u8] {
        self.work.matched_path(self.client)
    }

    fn query(&self) -> Option<&[u8]> {
        self.work.head.parts.query.map(|query| query.of_buffer(self.bytes()))
    }

    fn request_uri(&self) -> Cow<'_, [u8]> {
        self.work.request_uri(self.client)
    }

    fn real_request_uri(&self) -> Cow<'_, [u8]> {
        self.work.real_request_uri(self.client)
    }

    fn client_header(&self, name: &[u8]) -> Option<&[u8]> {
        self.work.head.fields.find(name, self.bytes())
    }

    fn each_client_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        let bytes = self.bytes();
        for field in self.work.head.fields.visible() {
            visit(field.name().of_buffer(bytes), field.value().of_buffer(bytes));
        }
    }

    fn each_node_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        upstream_head::each_line(self.worker, self.client, self.work, visit);
    }

    fn remote_address(&self) -> IpAddr {
        self.work.remote_address(self.client)
    }

    fn peer_address(&self) -> IpAddr {
        self.client.peer.ip().to_canonical()
    }

    fn is_tls(&self) -> bool {
        false
    }

    fn edits(&self) -> &RequestEdits {
        &self.work.plugins.edits
    }

    fn edits_mut(&mut self) -> &mut RequestEdits {
        &mut self.work.plugins.edits
    }

    fn read_body<'a>(&'a mut self, bytes_max: u64) -> LocalFuture<'a, Result<(), BodyError>> {
        Box::pin(async move {
            let read =
                request_body::read_whole(self.worker, self.client, self.work, self.body, bytes_max);
            read.await.map_err(|error| self.body_error(error))
        })
    }

    fn body(&self) -> Option<&[u8]> {
        self.work.body.bytes(self.work.head.head_bytes, &self.client.link.buffer)
    }

    fn examine_body<'a>(
        &'a mut self,
        look: BodyExaminer,
    ) -> LocalFuture<'a, Result<Box<dyn Any + Send>, BodyError>> {
        Box::pin(async move {
            let examined = request_body::examine(self.worker, self.client, self.work, look);
            examined.await.map_err(|error| self.body_error(error))
        })
    }

    fn is_refused(&self) -> bool {
        self.work.plugins.refused.is_some()
    }

    fn note_consumer(&mut self, username: &str, group: Option<&str>) {
        let plugins = &mut self.work.plugins;
        plugins.consumer.clear();
        plugins.consumer.push_str(username);
        plugins.consumer_group.clear();
        plugins.consumer_group.push_str(group.unwrap_or_default());
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

    fn as_lookup(&self) -> &dyn Lookup {
        self
    }
}
