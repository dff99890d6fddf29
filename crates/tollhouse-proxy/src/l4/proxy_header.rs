//! Reads the PROXY protocol header at the start of a connection, if its listener requires one.
//!
//! Only configured proxies may send one, because any other peer could forge an address. An
//! untrusted peer is refused before a byte is read.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tollhouse_net::proxy_protocol::{self, ProxyHeader};
use tollhouse_stdx::duration::to_ms;
use tollhouse_telemetry::ErrorCode;

use crate::connection::link::Link;
use crate::worker::Worker;

/// Addresses from a PROXY protocol header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProxiedAddresses {
    pub client: SocketAddr,
    /// Address that the client connected to.
    pub local: SocketAddr,
}

/// Reads and consumes the header; `None` if the proxy connects on its own behalf. Bytes after the
/// header stay in the link's buffer.
///
/// # Errors
/// If the peer is not trusted, or the header is missing, incomplete, invalid or late.
pub(crate) async fn read(
    worker: &Worker,
    link: &mut Link,
    peer: SocketAddr,
) -> Result<Option<ProxiedAddresses>, ErrorCode> {
    if !is_trusted(worker, peer) {
        return Err(ErrorCode::ProxyHeaderRefused);
    }
    let timer = worker.wheel.timer();
    let settings = &worker.settings.proxy_protocol;
    let time_ms = to_ms(settings.header_time);
    timer.arm(worker.clock.refresh().saturating_add(time_ms));
    let header = poll_fn(|context| {
        timer.set_waker(context.waker());
        match poll_header(context, worker, link) {
            Poll::Pending if timer.expired(worker.clock.now_ms()) => {
                Poll::Ready(Err(ErrorCode::ProxyHeaderInvalid))
            }
            polled => polled,
        }
    });
    let header = header.await?;
    link.buffer.consume(header.length);
    Ok(match header.said {
        ProxyHeader::Nothing => None,
        ProxyHeader::Proxied { source, destination } => {
            Some(ProxiedAddresses { client: source, local: destination })
        }
    })
}

/// Whether the peer is a configured proxy.
pub(crate) fn is_trusted(worker: &Worker, peer: SocketAddr) -> bool {
    let address = peer.ip().to_canonical();
    worker.settings.proxy_protocol.from.iter().any(|network| network.contains(&address))
}

fn poll_header(
    context: &mut Context<'_>,
    worker: &Worker,
    link: &mut Link,
) -> Poll<Result<proxy_protocol::Header, ErrorCode>> {
    loop {
        match proxy_protocol::parse(link.buffer.filled()) {
            Ok(Some(header)) => return Poll::Ready(Ok(header)),
            // The parser refuses headers that are longer than the buffer, so there is always room.
            Ok(None) => {}
            Err(_) => return Poll::Ready(Err(ErrorCode::ProxyHeaderInvalid)),
        }
        match link.poll_fill(context, &worker.buffers) {
            Poll::Ready(Ok(read)) if read > 0 => {}
            Poll::Ready(_) => return Poll::Ready(Err(ErrorCode::ProxyHeaderInvalid)),
            Poll::Pending => return Poll::Pending,
        }
    }
}
