//! One connection below HTTP, or one session of datagrams: its ends, its first bytes, its deadline, and
//! what is known of it for plugins, the log and the metrics.

use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tollhouse_plugin::{Memory, RequestEdits};
use tollhouse_stdx::{Endpoint, Timer};
use tollhouse_telemetry::ErrorCode;

use super::table::{Arrival, StreamEntry};
use crate::connection::handshake::TlsPeer;
use crate::connection::link::Link;
use crate::worker::Worker;

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// As variables and the log name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// The client: the peer, or whom it says it comes for.
    pub client: SocketAddr,
    /// The other end of the socket.
    pub peer: SocketAddr,
    /// What the client connected to: our end of the socket, or what the peer says.
    pub local: SocketAddr,
    /// Our end of the socket, whatever the peer says: what routes are chosen by.
    pub listener: SocketAddr,
}

/// What the client has sent first.
#[derive(Debug)]
pub(crate) enum FirstBytes {
    /// At the front of its connection's buffer.
    Link(Link),
    Datagram(Box<[u8]>),
}

/// How it went so far.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub started_ms: u64,
    /// 200 once a node is connected, as nginx has it; then whatever ended it.
    pub status: u16,
    pub code: Option<ErrorCode>,
    /// Bytes from the client that went to the node.
    pub bytes_received: u64,
    /// Bytes to the client.
    pub bytes_sent: u64,
    /// Nodes tried, each with what came of it.
    pub attempts: Vec<(Endpoint, u16)>,
    /// Milliseconds until a node was connected.
    pub connected_ms: Option<u64>,
}

pub(crate) struct Connection<'w> {
    pub worker: &'w Worker,
    pub transport: Transport,
    pub ends: Ends,
    pub first: FirstBytes,
    /// The name in the client's TLS hello.
    pub server_name: Option<String>,
    /// What the handshake has found out, where TLS ends here.
    pub tls: Option<TlsPeer>,
    /// The route, once it is known.
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

    /// Ties the deadline to the task that polls this; once, before anything else.
    pub(super) async fn attach(&self) {
        poll_fn(|context| {
            self.timer.set_waker(context.waker());
            Poll::Ready(())
        })
        .await;
    }

    /// Sets the deadline `after` from now.
    pub(super) fn arm(&self, after: Duration) {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.timer.arm(self.worker.clock.now_ms().saturating_add(after_ms));
    }

    /// Whether the deadline has passed; to be asked once everything else is pending.
    pub(super) fn is_late(&self) -> bool {
        self.timer.expired(self.worker.clock.now_ms())
    }

    /// Waits for `future`, which may take `time`.
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

    /// Takes the client's side out, where it is a connection.
    pub(super) fn take_link(&mut self) -> Option<Link> {
        let absent = FirstBytes::Datagram(Box::default());
        match std::mem::replace(&mut self.first, absent) {
            FirstBytes::Link(link) => Some(link),
            FirstBytes::Datagram(_) => None,
        }
    }

    /// What the client has sent and no node has got.
    pub(super) fn unsent(&self) -> &[u8] {
        match &self.first {
            FirstBytes::Link(link) => link.buffer.filled(),
            FirstBytes::Datagram(bytes) => bytes,
        }
    }

    /// Reads behind what has been read; 0 is the end, or a buffer of `bytes_max` bytes that is full.
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

    /// The connection as routes see it.
    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival {
            client: self.client_address(),
            local: self.ends.listener,
            server_name: self.server_name.as_deref(),
        }
    }

    /// The client's address; one that came over IPv6 as IPv4 is that.
    pub(super) fn client_address(&self) -> IpAddr {
        self.ends.client.ip().to_canonical()
    }
}
