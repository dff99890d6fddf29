//! Variables that need the connection or the core: who asks, how it went so far.

use std::borrow::Cow;

use crate::client::Client;
use crate::head::text::{AddressText, write_socket_address};
use crate::request::Work;
use crate::worker::Worker;

/// The value of the variable `name`; `None` for one that is absent or unknown.
pub(crate) fn named<'a>(
    worker: &'a Worker,
    client: &'a Client,
    work: &'a Work,
    name: &str,
) -> Option<Cow<'a, [u8]>> {
    let text = |text: &'a str| (!text.is_empty()).then_some(Cow::Borrowed(text.as_bytes()));
    let number = |number: u64| Some(Cow::Owned(number.to_string().into_bytes()));
    let record = &work.record;
    match name {
        "consumer_name" => text(&work.plugins.consumer),
        "consumer_group_id" => text(&work.plugins.consumer_group),
        "status" => number(u64::from(record.status)).filter(|_| record.status > 0),
        "bytes_sent" => number(record.bytes_sent),
        "body_bytes_sent" => number(record.body_bytes_sent),
        "request_length" => number(work.head.head_bytes as u64 + record.bytes_received),
        "request_time" => {
            let elapsed_ms = worker.clock.now_ms().saturating_sub(record.started_ms);
            Some(Cow::Owned(seconds(elapsed_ms).into_bytes()))
        }
        "msec" => Some(Cow::Owned(seconds(worker.clock.unix_ms()).into_bytes())),
        "connection_requests" => number(client.requests),
        "balancer_ip" => {
            let address = record.attempts.last()?.address;
            Some(Cow::Owned(AddressText::new(address.ip()).as_bytes().to_vec()))
        }
        "balancer_port" => number(u64::from(record.attempts.last()?.address.port())),
        "upstream_addr" => {
            let mut out = Vec::new();
            write_socket_address(&mut out, record.attempts.last()?.address);
            Some(Cow::Owned(out))
        }
        "upstream_status" => {
            let statuses = record.upstream_statuses();
            (!statuses.is_empty()).then_some(Cow::Owned(statuses))
        }
        "upstream_response_time" | "apisix_upstream_response_time" => {
            record.upstream_response_ms.map(|time_ms| Cow::Owned(seconds(time_ms).into_bytes()))
        }
        "upstream_uri" => match work.plugins.edits.upstream_uri() {
            Some(uri) => Some(Cow::Borrowed(uri)),
            None => Some(work.real_request_uri(client)),
        },
        "upstream_host" => {
            (!work.host_up.is_empty()).then_some(Cow::Borrowed(work.host_up.as_slice()))
        }
        "request_body" => {
            work.body.bytes(work.head.head_bytes, &client.link.buffer).map(Cow::Borrowed)
        }
        "server_name" => Some(Cow::Borrowed(b"_")),
        _ => None,
    }
}

/// Milliseconds as seconds with three decimals, as web servers write them.
fn seconds(time_ms: u64) -> String {
    format!("{}.{:03}", time_ms / 1000, time_ms % 1000)
}
