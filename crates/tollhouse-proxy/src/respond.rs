//! Turns a node's answer into the client's: head policy, body framing, and what becomes of both
//! connections afterwards.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tollhouse_http::element::{FieldValue, Status};
use tollhouse_http::field::list_elements;
use tollhouse_http::{BodyLength, Framing, Known, Version};
use tollhouse_model::Timeouts;
use tollhouse_plugin::Phases;
use tollhouse_telemetry::ErrorCode;
use tollhouse_upstream::Outcome;

use crate::attempt::Attempt;
use crate::buffer::Buffer;
use crate::client::Client;
use crate::delivery::{Delivery, Outgoing, final_status};
use crate::exchange::filtered::FilteredRelay;
use crate::exchange::relay::BodyRelay;
use crate::exchange::tunnel::Tunnel;
use crate::exchange::{RelayError, RequestPump, ResponseRelay, Waiting};
use crate::head::response::{ConnectionNote, RelayedResponse, Trailers};
use crate::plugins::Chains;
use crate::pool::{PoolKey, UpstreamConnection};
use crate::request::{AttemptRecord, Work};
use crate::rescue;
use crate::serve::After;

/// An answer whose head has been parsed.
#[derive(Debug)]
pub(crate) struct Respond<'a> {
    /// The attempt that brought it.
    pub attempt: &'a Attempt<'a>,
    /// Where the connection goes when it is free again.
    pub key: PoolKey,
}

impl Respond<'_> {
    /// Relays the answer and tells what becomes of the client's connection.
    pub(crate) async fn run(
        self,
        client: &mut Client,
        mut connection: UpstreamConnection,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> After {
        body.withhold_continue();
        self.note_answer(work);
        let begun = match self.chains() {
            None => self.begin(client, &connection, work, body),
            Some(chains) => self.begin_plugged(chains, client, &connection, work, body),
        };
        connection.link.buffer.consume(work.response.head_bytes);
        if work.response.status == 101 {
            return Box::pin(self.tunnel(client, connection, work)).await;
        }
        let delivery = begun.delivery;
        let sent = if delivery.has_body { work.response.body } else { BodyLength::None };
        let broken = if begun.is_filtered {
            let filters = std::mem::take(&mut work.plugins.filters);
            let mut relay = Box::new(FilteredRelay::new(sent, delivery.coding(), filters));
            Box::pin(self.relay(&mut *relay, client, &mut connection, work, body)).await
        } else {
            let mut relay = ResponseRelay::new(sent, delivery.coding(), begun.trailers);
            self.relay(&mut relay, client, &mut connection, work, body).await
        };
        if let Some(after) = broken {
            return after;
        }
        if sent != work.response.body {
            // The node's body stays where it is, and nobody gets it for an answer of his.
            connection.link.drop_buffer(&self.attempt.forward.worker.shelf);
        } else {
            self.release(connection, work, body);
        }
        if begun.keep { After::KeepAlive } else { After::Linger }
    }

    /// Writes the head as it goes to the client, and decides how the body follows.
    #[inline]
    fn begin(
        &self,
        client: &Client,
        connection: &UpstreamConnection,
        work: &mut Work,
        body: &RequestPump,
    ) -> Begun {
        let status = final_status(work.response.status);
        let delivery = outgoing(client, work, status).delivery();
        let keep = self.keeps_client(client, work, body, delivery);
        let trailers = trailers(client, work, delivery);
        self.write_head(
            connection,
            work,
            Begun { delivery, trailers, keep, is_filtered: false },
            None,
        )
    }

    /// Plugins that see answers.
    #[inline]
    fn chains(&self) -> Option<&Chains<'_>> {
        self.attempt.forward.chains.filter(|chains| chains.has(Phases::RESPONSE))
    }

    /// Sends head and body; tells what becomes of the client's connection where that breaks off.
    #[inline]
    async fn relay<R: BodyRelay>(
        &self,
        relay: &mut R,
        client: &mut Client,
        connection: &mut UpstreamConnection,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Option<After> {
        let worker = self.attempt.forward.worker;
        let head_bytes = work.out_down.len() as u64;
        let timeouts = self.attempt.timeouts();
        let mut exchange = Relaying { relay, moved: 0, send_failed: false, timeouts };
        let done =
            poll_fn(|context| exchange.poll(context, worker, client, connection, work, body)).await;
        let relay = exchange.relay;
        work.record.bytes_sent = relay.written();
        work.record.body_bytes_sent = relay.written().saturating_sub(head_bytes);
        if let Err(code) = done {
            // A body that is broken from its first byte has kept even the head back.
            if relay.moved() == 0 && code != ErrorCode::DownstreamGone {
                let answering = rescue::answer(worker, client, work, body, code.into());
                return Some(Box::pin(answering).await);
            }
            work.record.code = Some(code);
            return Some(After::Close);
        }
        None
    }

    /// Tells health and records what the node said.
    #[inline]
    fn note_answer(&self, work: &mut Work) {
        let worker = self.attempt.forward.worker;
        let now_ms = worker.clock.refresh();
        let picked = self.attempt.picked;
        let status = work.response.status;
        let response_ms = now_ms.saturating_sub(work.record.started_ms);
        work.record.upstream_response_ms = Some(response_ms);
        work.record.attempts.push(AttemptRecord { address: picked.address(), status });
        work.record.status = status;
        let response_time = Duration::from_millis(response_ms);
        let outcome = Outcome::Answered { status, response_time };
        self.attempt.forward.upstream.state.report(picked, outcome, now_ms);
    }

    /// Whether the client's connection goes on after this exchange. What the client has not sent yet
    /// would stand before its next request.
    #[inline]
    pub(crate) fn keeps_client(
        &self,
        client: &Client,
        work: &Work,
        body: &RequestPump,
        delivery: Delivery,
    ) -> bool {
        let worker = self.attempt.forward.worker;
        body.is_received()
            && work.head.keep_alive
            && !delivery.ends_by_close
            && !worker.is_draining()
            && client.requests < worker.settings.limits.requests_per_connection
    }

    /// Writes the head as the client gets it; `status` where a plugin has changed it.
    #[inline]
    pub(crate) fn write_head(
        &self,
        connection: &UpstreamConnection,
        work: &mut Work,
        begun: Begun,
        status: Option<Status>,
    ) -> Begun {
        let worker = self.attempt.forward.worker;
        let date = worker.clock.http_date();
        let shows = work.response.status >= 500 || worker.settings.show_upstream_status;
        let statuses = shows.then(|| work.record.upstream_statuses());
        let mut out = std::mem::take(&mut work.out_down);
        out.clear();
        RelayedResponse {
            head: &work.response,
            bytes: connection.link.buffer.filled(),
            framing: begun.delivery.framing,
            trailers: begun.trailers,
            facts: rescue::facts(worker, connection_note(work, begun.keep), &date),
            upstream_status: statuses.as_deref().and_then(FieldValue::parse),
            status,
        }
        .write(&mut out);
        work.out_down = out;
        begun
    }

    /// Puts the node's connection back where the next request finds it, if it is of use.
    #[inline]
    fn release(&self, mut connection: UpstreamConnection, work: &Work, body: &RequestPump) {
        let worker = self.attempt.forward.worker;
        let upstream = self.attempt.forward.upstream;
        let clean = body.is_done() && connection.link.buffer.is_empty();
        let keeps = work.response.keep_alive && connection.requests < upstream.keepalive.requests;
        if clean && keeps && !worker.is_draining() {
            connection.link.rest(&worker.shelf);
            worker.pools.give(&self.key, connection, &upstream.keepalive, worker.clock.now_ms());
        } else {
            connection.link.drop_buffer(&worker.shelf);
        }
    }

    /// Sends the 101 and passes bytes both ways until both sides have ended.
    async fn tunnel(
        &self,
        client: &mut Client,
        mut connection: UpstreamConnection,
        work: &mut Work,
    ) -> After {
        let worker = self.attempt.forward.worker;
        if client.write_all(worker, &work.out_down).await.is_err() {
            work.record.code = Some(ErrorCode::DownstreamGone);
            return After::Close;
        }
        // The log will ask for the head; a tunnel may last for days and should not hold a buffer.
        let head = Buffer::holding(&client.link.buffer.filled()[..work.head.head_bytes]);
        client.link.buffer.consume(work.head.head_bytes);
        let idle_time = self.attempt.timeouts().read;
        let mut tunnel = Tunnel::default();
        let mut moved = None;
        let ended = poll_fn(|context| {
            let flow = tunnel.poll(context, &mut client.link, &mut connection.link, &worker.shelf);
            if flow.is_ready() {
                return flow;
            }
            if moved != Some(tunnel.bytes()) {
                moved = Some(tunnel.bytes());
                client.arm(worker, idle_time);
                return Poll::Pending;
            }
            if client.is_late(worker) { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await;
        let (up, down) = tunnel.bytes();
        work.record.bytes_received = up;
        work.record.body_bytes_sent = down;
        work.record.bytes_sent = down + work.out_down.len() as u64;
        if let Err(error) = ended {
            tracing::debug!(%error, "tunnel broke off");
        }
        connection.link.drop_buffer(&worker.shelf);
        client.link.drop_buffer(&worker.shelf);
        client.link.buffer = head;
        After::Close
    }
}

/// An answer whose head has been written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    /// How the body follows.
    pub delivery: Delivery,
    /// Whether the node's trailers follow it.
    pub trailers: Trailers,
    /// Whether the client's connection goes on afterwards.
    pub keep: bool,
    /// Whether filters see the body.
    pub is_filtered: bool,
}

/// The node's answer as it goes out with `status`, as long as nobody rewrites its body.
#[inline]
pub(crate) fn outgoing(client: &Client, work: &Work, status: Status) -> Outgoing {
    Outgoing {
        is_head: work.is_head(client),
        version: work.head.version,
        status,
        body: work.response.body,
        declared: work.response.declared_length,
        is_rewritten: false,
    }
}

/// Trailers pass to a client that has asked for them (RFC 9110 §6.5.1).
#[inline]
fn trailers(client: &Client, work: &Work, delivery: Delivery) -> Trailers {
    let may_pass =
        work.response.body == BodyLength::Chunked && delivery.framing == Framing::Chunked;
    match work.head.fields.first(Known::Te).filter(|_| may_pass) {
        Some(codings) if asks_trailers(codings.of_buffer(client.link.buffer.filled())) => {
            Trailers::Passed
        }
        _ => Trailers::Dropped,
    }
}

#[cold]
fn asks_trailers(codings: &[u8]) -> bool {
    list_elements(codings).any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// What the client is told about its connection.
#[inline]
pub(crate) fn connection_note(work: &Work, keep: bool) -> ConnectionNote {
    match (keep, work.head.version) {
        (true, Version::Http11) => ConnectionNote::None,
        (true, Version::Http10) => ConnectionNote::KeepAlive,
        (false, _) if work.response.status == 101 => ConnectionNote::None,
        (false, _) => ConnectionNote::Close,
    }
}

/// Relays the answer while the request may still be on its way.
struct Relaying<'a, R> {
    relay: &'a mut R,
    moved: u64,
    send_failed: bool,
    timeouts: Timeouts,
}

impl<R: BodyRelay> Relaying<'_, R> {
    #[inline]
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        worker: &crate::worker::Worker,
        client: &mut Client,
        connection: &mut UpstreamConnection,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Poll<Result<(), ErrorCode>> {
        if !body.is_done() && !self.send_failed {
            let stream = &mut connection.link.stream;
            let sent =
                body.poll_send(context, work.lead(), &mut client.link, stream, &worker.shelf);
            // A client that stops sending may still want the answer; a node that stops reading
            // may still give it.
            self.send_failed = matches!(sent, Poll::Ready(Err(_)));
        }
        let downstream = &mut client.link.stream;
        let out = &mut work.out_down;
        match self.relay.poll_send(context, out, &mut connection.link, downstream, &worker.shelf) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(relay_code(&error))),
            Poll::Pending => {}
        }
        let moved = self.relay.moved() + body.moved + 1;
        if self.moved != moved {
            self.moved = moved;
            client.arm(
                worker,
                match self.relay.waiting() {
                    Waiting::DownstreamWrite => worker.settings.limits.send_time,
                    _ => self.timeouts.read,
                },
            );
            return Poll::Pending;
        }
        if !client.is_late(worker) {
            return Poll::Pending;
        }
        Poll::Ready(Err(match self.relay.waiting() {
            Waiting::DownstreamWrite => ErrorCode::DownstreamGone,
            _ => ErrorCode::UpstreamReadTimeout,
        }))
    }
}

fn relay_code(error: &RelayError) -> ErrorCode {
    match error {
        RelayError::DownstreamGone => ErrorCode::DownstreamGone,
        RelayError::UpstreamTruncated => ErrorCode::UpstreamReset,
        RelayError::BadBody => ErrorCode::UpstreamBadResponse,
    }
}
