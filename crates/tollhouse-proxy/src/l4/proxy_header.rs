//! Reads the PROXY header that a connection must begin with, where its listener says so.
//!
//! Only from peers that are named as proxies: anybody else could say whatever address it likes, and is
//! refused before a byte of it is read.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tollhouse_net::proxy_protocol::{self, Said};
use tollhouse_telemetry::ErrorCode;

use crate::connection::link::Link;
use crate::worker::Worker;

/// Whom a connection comes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proxied {
    pub client: SocketAddr,
    /// What it connected to.
    pub local: SocketAddr,
}

/// Reads the header and steps over it; `None` where the proxy speaks for itself. What has come behind
/// it stays in the link's buffer.
///
/// # Errors
/// The peer is none that may send a header, or sends none, not a whole one, or not in time.
pub(crate) async fn read(
    worker: &Worker,
    link: &mut Link,
    peer: SocketAddr,
) -> Result<Option<Proxied>, ErrorCode> {
    if !is_trusted(worker, peer) {
        return Err(ErrorCode::ProxyHeaderRefused);
    }
    let timer = worker.wheel.timer();
    let settings = &worker.settings.proxy_protocol;
    let time_ms = u64::try_from(settings.header_time.as_millis()).unwrap_or(u64::MAX);
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
        Said::Nothing => None,
        Said::Proxied { source, destination } => {
            Some(Proxied { client: source, local: destination })
        }
    })
}

/// Whether the peer may speak for others.
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
            // The parser refuses longer than the buffer holds, so there is room.
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
