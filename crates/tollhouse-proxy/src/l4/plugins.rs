//! Plugins of stream routes: the view of a connection that they get, and their two phases, access
//! and log.

use std::borrow::Cow;
use std::future::poll_fn;
use std::net::IpAddr;
use std::task::Poll;
use std::time::Duration;

use tollhouse_model::Id;
use tollhouse_model::variable::Lookup;
use tollhouse_plugin::{
    BodyError, Consumer, Exchange, Flow, LocalFuture, LogContext, Moment, Phases, RequestContext,
    RequestEdits, Step, Transfer,
};
use tollhouse_telemetry::ErrorCode;

use super::connection::Connection;
use super::table::StreamEntry;
use crate::connection::buffer::BUFFER_BYTES;
use crate::head::text::write_endpoint;
use crate::plugins::PluginStep;
use crate::plugins::chain::StepUpstream;
use crate::snapshot::Snapshot;

impl Exchange for Connection<'_> {
    fn method(&self) -> &[u8] {
        &[]
    }

    fn path(&self) -> &[u8] {
        &[]
    }

    fn query(&self) -> Option<&[u8]> {
        None
    }

    fn request_uri(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn real_request_uri(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }

    fn client_header(&self, _name: &[u8]) -> Option<&[u8]> {
        None
    }

    fn each_client_header(&self, _visit: &mut dyn FnMut(&[u8], &[u8])) {}

    fn remote_address(&self) -> IpAddr {
        self.client_address()
    }

    fn peer_address(&self) -> IpAddr {
        self.ends.peer.ip().to_canonical()
    }

    fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    fn edits(&self) -> &RequestEdits {
        &self.edits
    }

    fn edits_mut(&mut self) -> &mut RequestEdits {
        &mut self.edits
    }

    fn read_body<'a>(&'a mut self, _bytes_max: u64) -> LocalFuture<'a, Result<(), BodyError>> {
        Box::pin(std::future::ready(Err(BodyError::Broken)))
    }

    fn body(&self) -> Option<&[u8]> {
        None
    }

    fn is_connection(&self) -> bool {
        true
    }

    fn read_first_bytes<'a>(
        &'a mut self,
        is_enough: fn(&[u8]) -> bool,
    ) -> LocalFuture<'a, Result<(), BodyError>> {
        Box::pin(async move {
            self.arm(self.worker.settings.streams.first_bytes_time);
            poll_fn(|context| {
                while !is_enough(self.unsent()) {
                    match self.poll_more(context, BUFFER_BYTES) {
                        Poll::Ready(Ok(read)) if read > 0 => {}
                        Poll::Ready(Ok(_)) if self.unsent().len() >= BUFFER_BYTES => {
                            return Poll::Ready(Err(BodyError::TooLarge));
                        }
                        Poll::Ready(_) => return Poll::Ready(Err(BodyError::Broken)),
                        Poll::Pending if self.is_late() => {
                            return Poll::Ready(Err(BodyError::Broken));
                        }
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Poll::Ready(Ok(()))
            })
            .await
        })
    }

    fn first_bytes(&self) -> &[u8] {
        self.unsent()
    }

    fn note_consumer(&mut self, _consumer: &Consumer) {}

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

/// Reason why a connection is ended: a status and an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: u16,
    pub code: ErrorCode,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self { status: code.status(), code }
    }
}

/// Upstream chosen by a plugin.
pub(super) enum UpstreamChoice {
    /// The upstream of the stream route.
    Own,
    Of(StepUpstream),
}

/// Runs the access phase of the route's plugins; returns the upstream that they chose.
///
/// # Errors
/// If a plugin refuses the connection, or a plugin that may protect it cannot run.
pub(super) async fn access(
    connection: &mut Connection<'_>,
    entry: &StreamEntry,
    snapshot: &Snapshot,
) -> Result<UpstreamChoice, Refusal> {
    let mut chosen = UpstreamChoice::Own;
    if entry.chain.is_empty() {
        return Ok(chosen);
    }
    // Moved out of the connection while plugins borrow both.
    let mut memory = std::mem::take(&mut connection.memory);
    let mut refusal = None;
    {
        let mut cx = RequestContext::new(connection, &snapshot.consumers, &mut memory);
        for step in entry.chain.steps() {
            if !runs(step, cx.variables()) {
                continue;
            }
            // Applies in every phase, because the phase of the missing plugin is unknown.
            if let Some(code) = step.refuses_with {
                refusal = Some(Refusal::from(code));
                break;
            }
            if !step.phases.intersects(Phases::ACCESS) {
                continue;
            }
            cx.enter(step.instance());
            if let Some(status) = answer(step, &mut cx).await {
                refusal = Some(Refusal { status, code: ErrorCode::PluginRefused });
                break;
            }
            // Read at once, because the index refers to the upstreams of this plugin.
            if let Some(index) = cx.edits().upstream.take()
                && let Some(upstream) = step.upstreams.get(index)
            {
                chosen = UpstreamChoice::Of(upstream.clone());
            }
        }
    }
    connection.memory = memory;
    refusal.map_or(Ok(chosen), Err)
}

/// Returns the status with which a plugin refuses the connection; `None` if it may continue.
async fn answer(step: &PluginStep, cx: &mut RequestContext<'_>) -> Option<u16> {
    match step.handler.access(cx) {
        Step::Continue => None,
        Step::Answer(answer) => Some(answer.status),
        Step::Wait(future) => match future.await {
            Flow::Continue => None,
            Flow::Answer(answer) => Some(answer.status),
        },
    }
}

/// Whether a plugin's filter matches. A filter that cannot be evaluated counts as matching, because
/// the plugin may protect.
fn runs(step: &PluginStep, variables: &dyn Lookup) -> bool {
    step.filter.as_ref().is_none_or(|filter| filter.evaluate(variables).unwrap_or(true))
}

/// Runs the log phase of plugins.
pub(super) fn log(connection: &mut Connection<'_>) {
    let Some(entry) = connection.entry.clone() else { return };
    let sees_end =
        |step: &PluginStep| step.phases.intersects(Phases::LOG) && step.refuses_with.is_none();
    if !entry.chain.steps().iter().any(|step| sees_end(step)) {
        return;
    }
    // Moved out of the connection while plugins borrow both, and put back afterwards.
    let mut memory = std::mem::take(&mut connection.memory);
    {
        let record = &connection.record;
        let mut upstream = Vec::new();
        if let Some((address, _)) = record.attempts.last() {
            write_endpoint(&mut upstream, *address);
        }
        let request_ms = connection.session_ms();
        let transfer = Transfer {
            status: record.status,
            upstream_status: record.attempts.last().map(|attempt| attempt.1),
            is_upstream_answer: record.connected_ms.is_some(),
            bytes_received: record.bytes_received,
            bytes_sent: record.bytes_sent,
            body_bytes_sent: record.bytes_sent,
            started_unix_ms: connection.worker.clock.unix_ms().saturating_sub(request_ms),
            request_ms,
            upstream_ms: record.connected_ms,
            upstream: std::str::from_utf8(&upstream).unwrap_or_default(),
            route_id: entry.route.id.as_str(),
            service_id: entry.route.service_id.as_ref().map_or("", Id::as_str),
            consumer: "",
            error_code: record.code.map(ErrorCode::text),
        };
        let mut cx = LogContext::new(connection, &mut memory, transfer);
        for step in entry.chain.steps().iter().filter(|step| sees_end(step)) {
            if runs(step, cx.variables()) {
                cx.enter(step.instance());
                step.handler.log(&mut cx);
            }
        }
    }
    connection.memory = memory;
}
