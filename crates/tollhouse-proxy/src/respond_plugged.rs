//! Turns a node's answer into the client's where plugins see it first: they change its head and
//! install filters for its body.

use tollhouse_http::{BodyLength, Version};
use tollhouse_plugin::Effect;
use tollhouse_plugin::response::{ResponseFacts, Source};

use crate::client::Client;
use crate::exchange::RequestPump;
use crate::exchange::filtered::FilteredFraming;
use crate::exchange::relay::Reframe;
use crate::head::response::{RelayedResponse, ServerFacts};
use crate::plugins::lent::Lent;
use crate::plugins::overlay::{self, Framing};
use crate::plugins::response_phase::{self, NodeHead};
use crate::plugins::{Chains, Filters};
use crate::pool::UpstreamConnection;
use crate::request::Work;
use crate::respond::{Begun, Respond, connection_note, reframe};

/// How the body goes out.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    reframe: Reframe,
    framing: Framing,
    /// Whether the end of the body is the end of the connection.
    ends_by_close: bool,
}

impl Respond<'_> {
    /// As `begin`, for answers that plugins see.
    pub(crate) fn begin_plugged(
        &self,
        chains: &Chains<'_>,
        client: &mut Client,
        connection: &UpstreamConnection,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Begun {
        let worker = self.attempt.forward.worker;
        let facts = self.ask_plugins(chains, client, connection, work, body);
        work.record.status = facts.status;
        let delivery = delivery(work, &work.plugins.filters, facts.has_body);
        let keep = body.is_received()
            && work.head.keep_alive
            && !delivery.ends_by_close
            && !worker.is_draining()
            && client.requests < worker.settings.limits.requests_per_connection;
        self.write_edited_head(connection, work, delivery, facts.status, keep);
        let is_filtered = facts.has_body && !work.plugins.filters.is_empty();
        let framing = match delivery.framing {
            Framing::Chunked => FilteredFraming::Chunked,
            _ => FilteredFraming::Raw,
        };
        Begun { reframe: delivery.reframe, keep, filtered: is_filtered.then_some(framing) }
    }

    fn ask_plugins(
        &self,
        chains: &Chains<'_>,
        client: &mut Client,
        connection: &UpstreamConnection,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> ResponseFacts {
        let worker = self.attempt.forward.worker;
        let head = std::mem::take(&mut work.response);
        let facts = ResponseFacts {
            status: head.status,
            source: Source::Upstream,
            has_body: head.body != BodyLength::None && head.status != 101,
            content_length: head.declared_length,
            client_is_http11: work.head.version == Version::Http11,
        };
        let route = Some(self.attempt.forward.route);
        let mut lent = Lent { worker, client, work, body, route };
        let node_head = NodeHead { head: &head, bytes: connection.link.buffer.filled() };
        let facts = response_phase::run(&mut lent, chains, &node_head, facts);
        work.response = head;
        facts
    }

    fn write_edited_head(
        &self,
        connection: &UpstreamConnection,
        work: &mut Work,
        delivery: Delivery,
        status: u16,
        keep: bool,
    ) {
        let worker = self.attempt.forward.worker;
        let date = worker.clock.http_date();
        let shows = work.response.status >= 500 || worker.settings.show_upstream_status;
        let statuses = shows.then(|| work.record.upstream_statuses());
        let mut out = std::mem::take(&mut work.out_down);
        out.clear();
        RelayedResponse {
            head: &work.response,
            bytes: connection.link.buffer.filled(),
            reframe: delivery.reframe,
            facts: ServerFacts {
                server: worker.settings.server.as_bytes(),
                date: &date,
                connection: connection_note(work, keep),
            },
            upstream_status: statuses.as_deref(),
            status: (status != work.response.status).then_some(status),
        }
        .write(&mut out);
        let edits = &work.plugins.response_edits;
        if !edits.is_empty() || delivery.framing != Framing::Keep {
            overlay::apply(&mut out, 0, edits, delivery.framing);
        }
        work.out_down = out;
    }
}

/// How the body goes out, given what happens to it on the way.
fn delivery(work: &Work, filters: &Filters, has_body: bool) -> Delivery {
    let rewrites = filters.iter().any(|(effect, _)| *effect == Effect::Rewrites);
    let length = work.response.body;
    if filters.is_empty() || (!rewrites && (!has_body || matches!(length, BodyLength::Known(_)))) {
        let reframe = reframe(work);
        let ends_by_close = match length {
            BodyLength::UntilClose => reframe != Reframe::Encode,
            BodyLength::Chunked => reframe == Reframe::Decode,
            BodyLength::None | BodyLength::Known(_) => false,
        };
        return Delivery { reframe, framing: Framing::Keep, ends_by_close };
    }
    let is_http11 = work.head.version == Version::Http11;
    let framing = if is_http11 && has_body { Framing::Chunked } else { Framing::Unsaid };
    Delivery { reframe: Reframe::Keep, framing, ends_by_close: has_body && !is_http11 }
}
