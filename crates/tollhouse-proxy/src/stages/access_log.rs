//! Fills in the access log's line for a finished request.
//!
//! Formatting happens on the core into its own buffer; a line without a log costs one branch.

use smallvec::SmallVec;
use tollhouse_http::Known;
use tollhouse_telemetry::access_log::{Attempt, CoreLog, Entry};

use crate::connection::handshake::TlsPeer;
use crate::exchange::Exchange;
use crate::exchange::record::AttemptRecord;
use crate::head::text::write_socket_address;

/// Attempts listed without allocating; more than two are rare.
const ATTEMPTS_INLINE: usize = 2;

/// Room for the text of a node's address; a longer one, of IPv6, makes the room grow.
const ADDRESS_CHARS: usize = "255.255.255.255:65535".len();

/// Bytes of the refused head that the log may show as a request line.
const REFUSED_LINE_BYTES_MAX: usize = 256;

/// Writes the line of a request that was served.
#[inline]
pub(crate) fn write_served(cx: &Exchange<'_>) {
    if let Some(log) = &cx.worker.log {
        write(log, cx);
    }
}

fn write(log: &CoreLog, cx: &Exchange<'_>) {
    let (bytes, state) = (cx.request_bytes(), &*cx.state);
    let (head, record) = (&state.head, &state.record);
    let field = |known| head.fields.first(known).unwrap_or_default().of_buffer(bytes);
    // Few lines tell about attempts, and their texts are what costs most.
    let listed = if log.shows_attempts() { &*record.attempts } else { &[] };
    // One run of text for all addresses, into which the attempts point: one allocation a line.
    let mut texts = Vec::with_capacity(listed.len() * ADDRESS_CHARS);
    let mut ends: SmallVec<[usize; ATTEMPTS_INLINE]> = SmallVec::new();
    for attempt in listed {
        write_socket_address(&mut texts, attempt.address);
        ends.push(texts.len());
    }
    let attempts = attempts(listed, record.upstream_response_ms, &texts, &ends);
    let common = common(cx);
    let sent_uri = cx.sent_uri();
    let tls = cx.client.tls.as_deref();
    let (subject, serial) = tls.map(TlsPeer::subject_and_serial).unwrap_or_default();
    log.write(&Entry {
        method: head.method.of_buffer(bytes),
        request_target: head.target.of_buffer(bytes),
        protocol: cx.client.protocol(head.version),
        host: &state.host[..state.host_bytes.min(state.host.len())],
        http_host: field(Known::Host),
        http_referer: field(Known::Referer),
        http_user_agent: field(Known::UserAgent),
        http_x_forwarded_for: field(Known::XForwardedFor),
        remote_addr: cx.client_address_text(),
        server_addr: cx.client.peer.local_text.as_bytes(),
        request_length: head.head_bytes as u64 + cx.body.received,
        attempts: &attempts,
        upstream_scheme: if record.attempts.is_empty() { "" } else { "http" },
        upstream_host: if record.attempts.is_empty() { b"" } else { &state.host_up },
        upstream_uri: match state.plugins.edits.upstream_uri() {
            _ if record.attempts.is_empty() => b"",
            Some(uri) => uri,
            None => &sent_uri,
        },
        route_id: &record.route_id,
        service_id: &record.service_id,
        consumer_name: &state.plugins.consumer,
        ssl_client_s_dn: subject,
        ssl_client_serial: serial,
        ssl_server_name: tls.map_or("", TlsPeer::server_name),
        ..common
    });
}

/// Writes the line of bytes that were no request: what can be shown of their first line.
pub(crate) fn write_refused(cx: &Exchange<'_>) {
    let Some(log) = &cx.worker.log else { return };
    let bytes = cx.request_bytes();
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    log.write(&Entry {
        request_target: &bytes[..end.min(REFUSED_LINE_BYTES_MAX)],
        remote_addr: cx.client.peer.address_text.as_bytes(),
        ..common(cx)
    });
}

/// What is known whatever became of the request.
fn common<'a>(cx: &Exchange<'_>) -> Entry<'a> {
    let (clock, peer, record) = (&cx.worker.clock, &cx.client.peer, &cx.state.record);
    let tls = cx.client.tls.as_deref();
    Entry {
        unix_ms: clock.unix_ms(),
        request_time_ms: clock.now_ms().saturating_sub(record.started_ms),
        status: record.status,
        error_code: record.code,
        remote_port: peer.address.port(),
        server_port: peer.local.port(),
        connection_requests: cx.client.requests,
        scheme: if cx.client.is_encrypted() { "https" } else { "http" },
        ssl_protocol: tls.map_or("", |tls| tls.protocol),
        ssl_cipher: tls.map_or("", |tls| tls.cipher),
        ssl_session_reused: tls.map_or("", |tls| if tls.is_resumed { "r" } else { "." }),
        ssl_client_verify: tls.map_or("", TlsPeer::verdict),
        bytes_sent: record.bytes_sent,
        body_bytes_sent: record.body_bytes_sent,
        ..Entry::default()
    }
}

fn attempts<'a>(
    records: &[AttemptRecord],
    response_ms: Option<u64>,
    texts: &'a [u8],
    ends: &[usize],
) -> SmallVec<[Attempt<'a>; ATTEMPTS_INLINE]> {
    let mut start = 0;
    let last = records.len().saturating_sub(1);
    let lines = records.iter().zip(ends).enumerate();
    lines
        .map(|(index, (attempt, end))| {
            let text = &texts[start..*end];
            start = *end;
            let time = response_ms.filter(|_| index == last);
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
