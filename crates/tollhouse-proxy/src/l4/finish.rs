//! Last step of every connection and session: plugins, counters and the access log.

use tollhouse_model::Id;
use tollhouse_telemetry::access_log::{Attempt, ListedValues, Value, Variable};

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
    // Texts are formatted only here, because most processes write no log of connections. The values
    // borrow them.
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
    let text = |text: &'static str| Value::Own(text.as_bytes());
    let protocol = connection.transport.name();
    let server_name = connection.server_name.as_deref().unwrap_or_default();
    let service = route.and_then(|route| route.service_id.as_ref());
    let mut values = vec![
        (Variable::RemoteAddr, Value::Own(client.as_bytes())),
        (Variable::RemotePort, Value::from_number(connection.ends.client.port())),
        (Variable::ServerAddr, Value::Own(local_address.as_bytes())),
        (Variable::ServerPort, Value::from_number(local.port())),
        (Variable::Connection, Value::Number(0)),
        (Variable::ConnectionRequests, Value::Number(0)),
        (Variable::SslProtocol, text(tls.map_or("", |tls| tls.protocol))),
        (Variable::SslCipher, text(tls.map_or("", |tls| tls.cipher))),
        (Variable::SslServerName, Value::Text(server_name.as_bytes())),
        (Variable::SslSessionReused, text(tls.map_or("", TlsPeer::resumption))),
        (Variable::SslClientVerify, text(tls.map_or("", TlsPeer::verdict))),
        (Variable::SslClientSDn, Value::Text(subject.as_bytes())),
        (Variable::SslClientSerial, Value::Text(serial.as_bytes())),
        (Variable::Request, Value::Request { method: b"", target: b"", protocol }),
        (Variable::ServerProtocol, text(protocol)),
        (Variable::RequestLength, Value::Number(record.bytes_received)),
        (Variable::RequestTime, Value::Seconds(connection.session_ms())),
        (Variable::Status, Value::from_number(record.status)),
        (Variable::BytesSent, Value::Number(record.bytes_sent)),
        (Variable::BodyBytesSent, Value::Number(0)),
        (Variable::ErrorCode, text(record.code.map_or("", |code| code.text()))),
        (Variable::RouteId, Value::Text(route.map_or("", |route| route.id.as_str()).as_bytes())),
        (Variable::ServiceId, Value::Text(service.map_or("", Id::as_str).as_bytes())),
    ];
    let of_attempts = Variable::OF_ATTEMPTS.iter();
    values.extend(of_attempts.map(|it| (*it, Value::from_attempts(*it, &attempts))));
    log.write(&ListedValues { unix_ms: worker.clock.unix_ms(), values: &values });
}
