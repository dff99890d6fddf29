//! Turns a node's answer into the client's where plugins see it first: they change its head and
//! install filters for its body.

use tollhouse_http::Version;
use tollhouse_plugin::Effect;
use tollhouse_plugin::response::{ResponseFacts, Source};

use crate::client::Client;
use crate::delivery::{Outgoing, final_status};
use crate::exchange::RequestPump;
use crate::head::response::Trailers;
use crate::plugins::Chains;
use crate::plugins::lent::Lent;
use crate::plugins::overlay::{self, Side};
use crate::plugins::response_phase::{self, NodeHead};
use crate::pool::UpstreamConnection;
use crate::request::Work;
use crate::respond::{Begun, Respond, outgoing};

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
        let facts = self.ask_plugins(chains, client, connection, work, body);
        // A switch of protocols has happened, whatever is said about it.
        let is_changed = facts.status != work.response.status && work.response.status != 101;
        let status = final_status(facts.status);
        work.record.status = if is_changed { status.number() } else { work.response.status };
        let filters = &work.plugins.filters;
        let is_rewritten = filters.iter().any(|(effect, _)| *effect == Effect::Rewrites);
        let delivery = Outgoing { is_rewritten, ..outgoing(client, work, status) }.delivery();
        let is_filtered = delivery.has_body && !filters.is_empty();
        let keep = self.keeps_client(client, work, body, delivery);
        let trailers = Trailers::Dropped;
        let begun = Begun { delivery, trailers, keep, is_filtered };
        let begun = self.write_head(connection, work, begun, is_changed.then_some(status));
        let edits = &work.plugins.response_edits;
        if !edits.is_empty() {
            overlay::apply(&mut work.out_down, edits, Side::Response);
        }
        begun
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
        let status = final_status(work.response.status);
        let has_body = outgoing(client, work, status).delivery().has_body;
        let head = std::mem::take(&mut work.response);
        let facts = ResponseFacts {
            status: head.status,
            source: Source::Upstream,
            has_body,
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
}
