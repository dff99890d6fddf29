//! A TCP connection or UDP session: its addresses, first bytes and deadline, and the record for
//! plugins, log and metrics.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tollhouse_plugin::{Memory, RequestEdits};
use tollhouse_stdx::duration::to_ms;
use tollhouse_stdx::{Endpoint, Timer};
use tollhouse_telemetry::ErrorCode;

use super::table::{Arrival, StreamEntry};
use crate::connection::handshake::TlsPeer;
use crate::connection::link::Link;
use crate::worker::Worker;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Returns the name used in variables and the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// The client: the peer, or the source address of its PROXY header.
    pub client: SocketAddr,
    /// Address of the socket's other end.
    pub peer: SocketAddr,
    /// Address that the client connected to: the socket's local address, or the destination of the
    /// PROXY header.
    pub local: SocketAddr,
    /// Local address of the socket, independent of the PROXY header. Routes are matched by it.
    pub listener: SocketAddr,
}

/// First bytes sent by the client.
#[derive(Debug)]
pub(crate) enum FirstBytes {
    /// The bytes are at the front of the connection's buffer.
    Link(Link),
    Datagram(Box<[u8]>),
}

/// Record of the connection so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub started_ms: u64,
    /// Status as in nginx: 200 once a node is connected; later that of the error that ended the
    /// connection.
    pub status: u16,
    pub code: Option<ErrorCode>,
    /// Bytes from the client that were sent to the node.
    pub bytes_received: u64,
    pub bytes_sent: u64,
    /// Nodes tried, each with the status of its attempt.
    pub attempts: Vec<(Endpoint, u16)>,
    /// Milliseconds until a node was connected.
    pub connected_ms: Option<u64>,
}

pub(crate) struct Connection<'w> {
    pub worker: &'w Worker,
    pub transport: Transport,
    pub ends: Ends,
    pub first: FirstBytes,
    /// Server name (SNI) of the client's TLS hello.
    pub server_name: Option<String>,
    /// Facts from the TLS handshake, if the gateway terminates TLS.
    pub tls: Option<TlsPeer>,
    /// Stream route that the connection matched.
    pub entry: Option<Arc<StreamEntry>>,
    pub edits: RequestEdits,
    pub memory: Memory,
    pub record: Record,
    timer: Timer,
}

impl<'w> Connection<'w> {
    pub(super) fn new(
        worker: &'w Worker,
        transport: Transport,
        ends: Ends,
        first: FirstBytes,
    ) -> Self {
        let record = Record { started_ms: worker.clock.refresh(), ..Record::default() };
        Self {
            worker,
            transport,
            ends,
            first,
            server_name: None,
            tls: None,
            entry: None,
            edits: RequestEdits::default(),
            memory: Memory::default(),
            record,
            timer: worker.wheel.timer(),
        }
    }

    /// Registers the current task as the one that the deadline wakes. Call once, before any other
    /// wait.
    pub(super) async fn attach(&self) {
        poll_fn(|context| {
            self.timer.set_waker(context.waker());
            Poll::Ready(())
        })
        .await;
    }

    /// Sets the deadline to `after` from now.
    pub(super) fn arm(&self, after: Duration) {
        let after_ms = to_ms(after);
        self.timer.arm(self.worker.clock.now_ms().saturating_add(after_ms));
    }

    /// Whether the deadline has passed. Check after everything else is pending.
    pub(super) fn is_late(&self) -> bool {
        self.timer.expired(self.worker.clock.now_ms())
    }

    /// Returns the output of `future`; `None` if `time` passes first.
    pub(super) async fn within<T>(
        &self,
        time: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.arm(time);
        let mut future = pin!(future);
        let outcome = poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if self.is_late() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        self.worker.clock.refresh();
        outcome
    }

    /// Takes the client's link; `None` for datagrams.
    pub(super) fn take_link(&mut self) -> Option<Link> {
        let absent = FirstBytes::Datagram(Box::default());
        match std::mem::replace(&mut self.first, absent) {
            FirstBytes::Link(link) => Some(link),
            FirstBytes::Datagram(_) => None,
        }
    }

    /// Returns the bytes of the client that were not sent to a node yet.
    pub(super) fn unsent(&self) -> &[u8] {
        match &self.first {
            FirstBytes::Link(link) => link.buffer.filled(),
            FirstBytes::Datagram(bytes) => bytes,
        }
    }

    /// Reads more bytes from the client. Returns 0 at the end of the stream, or if the buffer holds
    /// `bytes_max` bytes.
    pub(super) fn poll_more(
        &mut self,
        context: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<std::io::Result<usize>> {
        let FirstBytes::Link(link) = &mut self.first else { return Poll::Ready(Ok(0)) };
        if !link.buffer.is_absent() && link.buffer.room().is_empty() {
            link.buffer.make_room(bytes_max);
        }
        link.poll_fill(context, &self.worker.buffers)
    }

    /// Returns the properties of the connection that routes match.
    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival {
            client: self.client_address(),
            local: self.ends.listener,
            server_name: self.server_name.as_deref(),
        }
    }

    /// Returns the client's address; an IPv4-mapped one as IPv4.
    pub(super) fn client_address(&self) -> IpAddr {
        self.ends.client.ip().to_canonical()
    }
}
