//! Bytes at the start of a connection that are read before routing: a PROXY protocol header and a
//! TLS hello.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tollhouse_net::client_hello::{self, ClientHello, HELLO_BYTES_MAX};
use tollhouse_telemetry::{ErrorCode, HandshakeFailure};

use super::connection::{Connection, FirstBytes};
use super::listener::{HeaderIn, StreamTls};
use super::proxy_header;
use crate::connection::handshake::{self, Carries, Shaken};

/// Reads the PROXY protocol header, if the listener requires one.
///
/// # Errors
/// If the header is missing, incomplete, late, or from a peer that is not trusted.
pub(super) async fn read_header(
    connection: &mut Connection<'_>,
    header_in: HeaderIn,
) -> Result<(), ErrorCode> {
    if header_in == HeaderIn::Required
        && let FirstBytes::Link(link) = &mut connection.first
    {
        let peer = connection.ends.peer;
        if let Some(proxied) = proxy_header::read(connection.worker, link, peer).await? {
            connection.ends.client = proxied.client;
            connection.ends.local = proxied.local;
        }
    }
    Ok(())
}

/// Handles TLS as the listener requires: reads the server name from a hello that is passed on, or
/// performs the handshake.
///
/// # Errors
/// If the hello is missing, invalid or late, or the handshake fails.
pub(super) async fn meet_tls(
    connection: &mut Connection<'_>,
    tls: StreamTls,
) -> Result<(), ErrorCode> {
    match tls {
        StreamTls::Off => Ok(()),
        StreamTls::PassThrough => {
            connection.arm(connection.worker.settings.streams.first_bytes_time);
            let hello = poll_fn(|context| poll_hello(context, connection)).await?;
            connection.server_name = hello.server_name;
            Ok(())
        }
        StreamTls::Terminated => end_tls(connection).await,
    }
}

/// Performs the client's TLS handshake with the certificate of the server name.
///
/// # Errors
/// If the handshake fails, or the client does not present a valid certificate that its host
/// requires.
async fn end_tls(connection: &mut Connection<'_>) -> Result<(), ErrorCode> {
    let worker = connection.worker;
    let Some(plain) = connection.take_link() else { return Ok(()) };
    let mut link = plain.expecting_tls(&worker.buffers);
    let client = connection.ends.client;
    let shaken = handshake::run(worker, &mut link.stream, client, Carries::Bytes);
    let shaken = Box::pin(shaken).await;
    connection.first = FirstBytes::Link(link);
    let peer = match shaken {
        Shaken::Open(peer) => peer,
        Shaken::Failed | Shaken::PlainHttp => return Err(ErrorCode::TlsHandshakeFailed),
    };
    // Exemptions by path do not exist here, so a requested certificate is mandatory.
    let verdict = peer.checked.as_ref().map_or(Ok(()), |checked| checked.verdict);
    connection.server_name = (!peer.name.is_empty()).then(|| peer.name.to_string());
    connection.tls = Some(peer);
    verdict.map_err(|failure| match failure {
        HandshakeFailure::ClientCertificateMissing => ErrorCode::ClientCertificateMissing,
        _ => ErrorCode::ClientCertificateInvalid,
    })
}

fn poll_hello(
    context: &mut Context<'_>,
    connection: &mut Connection<'_>,
) -> Poll<Result<ClientHello, ErrorCode>> {
    loop {
        match client_hello::parse(connection.unsent()) {
            Ok(Some(hello)) => return Poll::Ready(Ok(hello)),
            Ok(None) => {}
            Err(_) => return Poll::Ready(Err(ErrorCode::ClientHelloInvalid)),
        }
        match connection.poll_more(context, HELLO_BYTES_MAX) {
            Poll::Ready(Ok(read)) if read > 0 => {}
            Poll::Ready(_) => return Poll::Ready(Err(ErrorCode::ClientHelloInvalid)),
            Poll::Pending if connection.is_late() => {
                return Poll::Ready(Err(ErrorCode::ClientHelloInvalid));
            }
            Poll::Pending => return Poll::Pending,
        }
    }
}
