//! What a connection begins with and the gateway looks at before it chooses a route: a PROXY header, a
//! TLS hello.

use std::future::poll_fn;
use std::task::{Context, Poll};

use tollhouse_net::client_hello::{self, ClientHello, HELLO_BYTES_MAX};
use tollhouse_telemetry::ErrorCode;

use super::connection::{Connection, FirstBytes};
use super::listener::{HeaderIn, StreamTls};
use super::proxy_header;

/// Reads the PROXY header, where the listener wants one.
///
/// # Errors
/// It is not there, not whole, not in time, or from somebody who may not send one.
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

/// Reads the name that a TLS client asks for, where the listener wants it. The hello stays where it
/// is, to be sent on unchanged.
///
/// # Errors
/// There is no hello, or not in time.
pub(super) async fn read_hello(
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
    }
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
