//! Last step of every connection and session: plugins, counters and the access log.

use tollhouse_model::Id;
use tollhouse_telemetry::access_log::{Attempt, Entry};

use super::connection::Connection;
use super::plugins::{self, Refusal};
use crate::connection::handshake::TlsPeer;
use crate::head::text::write_endpoint;

/// Accounts for an ended connection; `refusal` is the gateway's reason for the end, if any.
pub(super) fn run(connection: &mut Connection<'_>, refusal: Option<Refusal>) {
    connection.worker.clock.refresh();
    if let Some(Refusal { status, code }) = refusal {
        connection.record.status = status;
        connection.record.code = Some(code);
        connection.worker.metrics.stream_failed.increment(code);
    }
    plugins::log(connection);
    write_line(connection);
}

fn write_line(connection: &Connection<'_>) {
    let worker = connection.worker;
    let Some(log) = &worker.log else { return };
    let record = &connection.record;
    let tls = connection.tls.as_ref();
    let (subject, serial) = tls.map(TlsPeer::subject_and_serial).unwrap_or_default();
    let (client, local) = (connection.client_address().to_string(), connection.ends.listener);
    let local_address = local.ip().to_canonical().to_string();
    let route = connection.entry.as_ref().map(|entry| &entry.route);
    // Texts are formatted only here, because most processes write no log of connections. The entry
    // borrows them.
    let texts: Vec<Vec<u8>> = record
        .attempts
        .iter()
        .map(|(address, _)| {
            let mut text = Vec::new();
            write_endpoint(&mut text, *address);
            text
        })
        .collect();
    let attempts: Vec<Attempt<'_>> = texts
        .iter()
        .zip(&record.attempts)
        .map(|(addr, (_, status))| Attempt { addr, status: *status, ..Attempt::default() })
        .collect();
    log.write(&Entry {
        unix_ms: worker.clock.unix_ms(),
        request_time_ms: connection.session_ms(),
        status: record.status,
        error_code: record.code,
        remote_addr: client.as_bytes(),
        remote_port: connection.ends.client.port(),
        server_addr: local_address.as_bytes(),
        server_port: local.port(),
        protocol: connection.transport.name(),
        ssl_protocol: tls.map_or("", |tls| tls.protocol),
        ssl_cipher: tls.map_or("", |tls| tls.cipher),
        ssl_session_reused: tls.map_or("", |tls| if tls.is_resumed { "r" } else { "." }),
        ssl_client_verify: tls.map_or("", TlsPeer::verdict),
        ssl_client_s_dn: subject,
        ssl_client_serial: serial,
        ssl_server_name: connection.server_name.as_deref().unwrap_or_default(),
        request_length: record.bytes_received,
        bytes_sent: record.bytes_sent,
        attempts: &attempts,
        route_id: route.map_or("", |route| route.id.as_str()),
        service_id: route.and_then(|route| route.service_id.as_ref()).map_or("", Id::as_str),
        ..Entry::default()
    });
}
