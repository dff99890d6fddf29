//! The answer to `OPTIONS *` (RFC 9110 §9.3.7): the gateway is there, and speaks HTTP/1.1.

use tollhouse_http::element::{FieldName, FieldValue};
use tollhouse_http::{Framing, Version};

use crate::client::Client;
use crate::delivery::final_status;
use crate::exchange::RequestPump;
use crate::head::response::{ConnectionNote, LocalResponse};
use crate::plugins::prepared::Prepared;
use crate::request::Work;
use crate::rescue;
use crate::serve::After;
use crate::worker::Worker;

/// Methods that some route could take.
const ALLOW: &str = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, PURGE";

/// The same answer, for plugins to see before it is sent.
pub(crate) fn prepare(prepared: &mut Prepared) {
    prepared.clear();
    prepared.status = 200;
    prepared.headers.set("Allow", ALLOW.as_bytes());
}

/// Answers 200 without a body.
pub(crate) async fn answer(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &RequestPump,
) -> After {
    let keep = work.head.keep_alive
        && body.is_received()
        && !worker.is_draining()
        && client.requests < worker.settings.limits.requests_per_connection;
    let note = match (keep, work.head.version) {
        (true, Version::Http11) => ConnectionNote::None,
        (true, Version::Http10) => ConnectionNote::KeepAlive,
        (false, _) => ConnectionNote::Close,
    };
    work.record.status = 200;
    let date = worker.clock.http_date();
    let response = LocalResponse {
        status: final_status(200),
        content_type: FieldValue::default(),
        headers: &[(FieldName::literal("Allow"), FieldValue::literal(ALLOW))],
        framing: Framing::Length(0),
        facts: rescue::facts(worker, note, &date),
    };
    rescue::send(worker, client, work, &response, &[]).await;
    if keep { After::KeepAlive } else { After::Linger }
}
