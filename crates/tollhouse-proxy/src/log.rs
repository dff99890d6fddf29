//! Fills in the access log's line for a finished request.
//!
//! Formatting happens on the core into its own buffer; a line without a log costs one branch.

use smallvec::SmallVec;
use tollhouse_http::{Known, Version};
use tollhouse_telemetry::access_log::{Attempt, CoreLog, Entry};

use crate::client::Client;
use crate::head::text::write_socket_address;
use crate::request::Work;
use crate::worker::Worker;

/// Attempts listed without allocating; more than two are rare.
const ATTEMPTS_INLINE: usize = 2;

/// Room for the text of a node's address; a longer one, of IPv6, makes the room grow.
const ADDRESS_CHARS: usize = "255.255.255.255:65535".len();

/// Bytes of the refused head that the log may show as a request line.
const REFUSED_LINE_BYTES_MAX: usize = 256;

/// Writes the line of a request that was served.
#[inline]
pub(crate) fn served(worker: &Worker, client: &Client, work: &Work) {
    if let Some(log) = &worker.log {
        write(log, worker, client, work);
    }
}

/// Flushes what the core has buffered.
pub(crate) fn flush(worker: &Worker) {
    if let Some(log) = &worker.log {
        log.flush();
    }
}

fn write(log: &CoreLog, worker: &Worker, client: &Client, work: &Work) {
    let bytes = client.link.buffer.filled();
    let (head, record) = (&work.head, &work.record);
    let field = |known| head.fields.first(known).unwrap_or_default().of_buffer(bytes);
    let mut texts = Vec::with_capacity(record.attempts.len() * ADDRESS_CHARS);
    let mut ends: SmallVec<[usize; ATTEMPTS_INLINE]> = SmallVec::new();
    for attempt in &record.attempts {
        write_socket_address(&mut texts, attempt.address);
        ends.push(texts.len());
    }
    let attempts = attempts(work, &texts, &ends);
    let common = common(worker, client, work);
    let real_request_uri = work.real_request_uri(client);
    log.write(&Entry {
        method: head.method.of_buffer(bytes),
        request_target: head.target.of_buffer(bytes),
        protocol: match head.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        },
        host: &work.host[..work.host_bytes.min(work.host.len())],
        http_host: field(Known::Host),
        http_referer: field(Known::Referer),
        http_user_agent: field(Known::UserAgent),
        http_x_forwarded_for: field(Known::XForwardedFor),
        remote_addr: std::str::from_utf8(work.remote_text(client)).unwrap_or_default(),
        server_addr: client.local_text.as_str(),
        request_length: head.head_bytes as u64 + record.bytes_received,
        attempts: &attempts,
        upstream_scheme: if record.attempts.is_empty() { "" } else { "http" },
        upstream_host: if record.attempts.is_empty() { b"" } else { &work.host_up },
        upstream_uri: match work.plugins.edits.upstream_uri() {
            _ if record.attempts.is_empty() => b"",
            Some(uri) => uri,
            None => &real_request_uri,
        },
        route_id: &record.route_id,
        service_id: &record.service_id,
        consumer_name: &work.plugins.consumer,
        ..common
    });
}

/// Writes the line of bytes that were no request: what can be shown of their first line.
pub(crate) fn refused(worker: &Worker, client: &Client, work: &Work) {
    let Some(log) = &worker.log else { return };
    let bytes = client.link.buffer.filled();
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    log.write(&Entry {
        request_target: &bytes[..end.min(REFUSED_LINE_BYTES_MAX)],
        remote_addr: client.peer_text.as_str(),
        ..common(worker, client, work)
    });
}

/// What is known whatever became of the request.
fn common<'a>(worker: &Worker, client: &Client, work: &'a Work) -> Entry<'a> {
    let record = &work.record;
    Entry {
        unix_ms: worker.clock.unix_ms(),
        request_time_ms: worker.clock.now_ms().saturating_sub(record.started_ms),
        status: record.status,
        error_code: record.code,
        remote_port: client.peer.port(),
        server_port: client.local.port(),
        connection_requests: client.requests,
        scheme: "http",
        bytes_sent: record.bytes_sent,
        body_bytes_sent: record.body_bytes_sent,
        ..Entry::default()
    }
}

fn attempts<'a>(
    work: &Work,
    texts: &'a [u8],
    ends: &[usize],
) -> SmallVec<[Attempt<'a>; ATTEMPTS_INLINE]> {
    let mut start = 0;
    let last = work.record.attempts.len().saturating_sub(1);
    let lines = work.record.attempts.iter().zip(ends).enumerate();
    lines
        .map(|(index, (attempt, end))| {
            let text = &texts[start..*end];
            start = *end;
            let time = work.record.upstream_response_ms.filter(|_| index == last);
            Attempt {
                addr: text,
                status: attempt.status,
                connect_time_ms: None,
                header_time_ms: time,
                response_time_ms: time,
            }
        })
        .collect()
}
