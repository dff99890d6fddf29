//! The client's side of an exchange: peer addresses, byte transport and one deadline. For HTTP/1.1
//! connections, this file waits for requests, reads their heads and closes the connection
//! gracefully.
//!
//! Other transports plug in here. An exchange reads the request from the link's buffer, writes the
//! response to its stream under backpressure, and needs nothing else.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollhouse_http::element::FieldValue;
use tollhouse_http::{RequestHead, Version};
use tollhouse_net::server_tls::ServerTls;
use tollhouse_net::{Departure, Stream};
use tollhouse_stdx::duration::to_ms;
use tollhouse_stdx::wheel::Timer;
use tollhouse_telemetry::ErrorCode;

use super::buffer::BUFFER_BYTES;
use super::carrier::Carrier;
use super::handshake::TlsPeer;
use super::link::Link;
use crate::error::GatewayError;
use crate::head::request::ForwardingLines;
use crate::head::text::AddressText;
use crate::http2::stream::Http2Stream;
use crate::settings::{DRAIN_IDLE_TIME, LINGER_TIME};
use crate::turn::{self, TURN_BYTES};
use crate::worker::Worker;
use crate::worker::pools::PoolKey;

/// Upper bound of nodes with pooled connections for a single client; beyond it, the connections of
/// the oldest node close.
const ANNOUNCED_MAX: usize = 64;

#[derive(Debug)]
pub struct Client {
    pub peer: Rc<Peer>,
    pub link: Link,
    /// Deadline of the current wait; wakes the connection's task.
    pub timer: Timer,
    /// Number of requests begun on the connection.
    pub requests: u64,
    /// Facts from the TLS handshake; `None` on a plain connection.
    pub tls: Option<Rc<TlsPeer>>,
}

/// Both ends of a client's connection; shared by all its requests.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Local address, to which the client connected.
    pub local: SocketAddr,
    /// Address of the client as text, formatted once per connection.
    pub address_text: AddressText,
    pub local_text: AddressText,
    /// Forwarding headers about this client, cached from its last request.
    pub forwarding: RefCell<Option<Box<ForwardingLines>>>,
    /// Pools of connections to nodes that were opened for this client with a PROXY protocol header.
    announced: RefCell<Vec<PoolKey>>,
}

impl Peer {
    /// Records that a connection was pooled under `key`, if only this client may use it.
    #[inline]
    pub(crate) fn note_announced(&self, worker: &Worker, key: &PoolKey) {
        if key.comes_for.is_some() {
            self.note_own(worker, key);
        }
    }

    #[cold]
    fn note_own(&self, worker: &Worker, key: &PoolKey) {
        let mut announced = self.announced.borrow_mut();
        if announced.contains(key) {
            return;
        }
        if announced.len() >= ANNOUNCED_MAX {
            worker.close_kept(&announced.remove(0));
        }
        announced.push(key.clone());
    }

    /// Closes the pooled connections that only this client may use, because its connection has
    /// ended.
    #[inline]
    pub(crate) fn close_announced(&self, worker: &Worker) {
        for key in self.announced.borrow_mut().drain(..) {
            worker.close_kept(&key);
        }
    }
}

/// Outcome of waiting for a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes of a request have arrived; after `read_head`, its whole head.
    Request,
    /// The client closed the connection or was idle too long; no response is sent.
    Gone,
}

impl Client {
    /// Creates the client side of an accepted connection.
    pub fn new(worker: &Worker, stream: Stream, address: SocketAddr, local: SocketAddr) -> Self {
        Self::with_link(worker, Link::new(stream), address, local)
    }

    /// Creates the client side of a connection of which bytes were read already.
    pub fn with_link(worker: &Worker, link: Link, address: SocketAddr, local: SocketAddr) -> Self {
        let peer = Peer {
            address,
            local,
            address_text: AddressText::new(address.ip()),
            local_text: AddressText::new(local.ip()),
            forwarding: RefCell::default(),
            announced: RefCell::default(),
        };
        Self { peer: Rc::new(peer), link, timer: worker.wheel.timer(), requests: 0, tls: None }
    }

    /// Creates the client side of one HTTP/2 stream on this connection.
    pub(crate) fn for_stream(&self, worker: &Worker, stream: Http2Stream) -> Self {
        Self {
            peer: Rc::clone(&self.peer),
            link: Link::new(stream),
            timer: worker.wheel.timer(),
            requests: self.requests,
            tls: self.tls.clone(),
        }
    }

    /// Returns the request head and the bytes received after it.
    #[inline]
    pub fn request_bytes(&self) -> &[u8] {
        self.link.buffer.filled()
    }

    #[inline]
    pub fn is_encrypted(&self) -> bool {
        self.link.stream.is_encrypted()
    }

    /// Whether both ends agreed on HTTP/2 by ALPN.
    pub fn has_agreed_http2(&self) -> bool {
        let tls = self.link.stream.server_tls();
        tls.and_then(ServerTls::application_protocol) == Some(b"h2")
    }

    /// Returns the protocol name for logs and variables, for a head of `version`.
    #[inline]
    pub fn protocol(&self, version: Version) -> &'static str {
        match (&self.link.stream, version) {
            (Carrier::Http2(_), _) => "HTTP/2.0",
            (Carrier::Socket(_), Version::Http10) => "HTTP/1.0",
            (Carrier::Socket(_), Version::Http11) => "HTTP/1.1",
        }
    }

    #[inline]
    pub fn scheme(&self) -> FieldValue<'static> {
        const HTTP: FieldValue<'_> = FieldValue::literal("http");
        const HTTPS: FieldValue<'_> = FieldValue::literal("https");
        if self.is_encrypted() { HTTPS } else { HTTP }
    }

    /// Returns the watch for the client's departure while a request is pending; `None` on an HTTP/2
    /// stream.
    pub(crate) fn departure(&self, worker: &Worker) -> Option<Departure> {
        match &self.link.stream {
            Carrier::Socket(stream) => {
                Departure::watch(stream, worker.settings.on_client_half_close)
            }
            Carrier::Http2(_) => None,
        }
    }

    /// Registers the current task as the one that the deadline wakes. Call once, before any other
    /// wait.
    pub async fn attach(&self) {
        poll_fn(|context| {
            self.timer.set_waker(context.waker());
            Poll::Ready(())
        })
        .await;
    }

    /// Sets the deadline to `after` from now.
    #[inline]
    pub fn arm(&self, worker: &Worker, after: Duration) {
        let after_ms = to_ms(after);
        self.timer.arm(worker.clock.now_ms().saturating_add(after_ms));
    }

    /// Whether the deadline has passed. Check after everything else is pending, because the timer
    /// only wakes the task.
    #[inline]
    pub fn is_late(&self, worker: &Worker) -> bool {
        self.timer.expired(worker.clock.now_ms())
    }

    /// Waits for the first byte of a request without holding a buffer; returns at once if pipelined
    /// bytes are present.
    pub async fn wait(&mut self, worker: &Worker) -> Arrival {
        if !self.link.buffer.is_empty() {
            return Arrival::Request;
        }
        self.link.release_if_empty(&worker.buffers);
        let idle_time = worker.settings.limits.idle_time;
        let time = if worker.is_draining() { DRAIN_IDLE_TIME } else { idle_time };
        self.arm(worker, time);
        let mut was_draining = worker.is_draining();
        poll_fn(|context| {
            // A drain that begins during the wait wakes the task and shortens the deadline.
            if worker.is_draining() && !was_draining {
                was_draining = true;
                self.arm(worker, DRAIN_IDLE_TIME);
            }
            self.poll_first_byte(context, worker)
        })
        .await
    }

    fn poll_first_byte(&mut self, context: &mut Context<'_>, worker: &Worker) -> Poll<Arrival> {
        match self.link.poll_fill(context, &worker.buffers) {
            Poll::Ready(Ok(read)) if read > 0 => Poll::Ready(Arrival::Request),
            Poll::Ready(_) => Poll::Ready(Arrival::Gone),
            Poll::Pending if self.is_late(worker) => Poll::Ready(Arrival::Gone),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Reads until the buffer holds a whole head and parses it.
    ///
    /// # Errors
    /// If the head is refused or takes too long. Returns `Ok(Gone)` if the client leaves before its
    /// end.
    #[inline]
    pub async fn read_head(
        &mut self,
        worker: &Worker,
        head: &mut RequestHead,
    ) -> Result<Arrival, GatewayError> {
        head.reset();
        worker.clock.refresh();
        // Skipped only between requests: the first bytes of a connection tell its protocol, and the
        // HTTP/2 preface must not follow empty lines.
        if self.requests > 0 {
            let empty = RequestHead::leading_empty_bytes(self.link.buffer.filled());
            self.link.buffer.consume(empty);
        }
        if head.parse(self.link.buffer.filled(), &worker.settings.limits.head)? {
            return Ok(Arrival::Request);
        }
        self.arm(worker, worker.settings.limits.header_read_time);
        poll_fn(|context| self.poll_head(context, worker, head)).await
    }

    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        worker: &Worker,
        head: &mut RequestHead,
    ) -> Poll<Result<Arrival, GatewayError>> {
        let limits = &worker.settings.limits.head;
        loop {
            if self.link.buffer.room().is_empty() {
                self.link.buffer.make_room(limits.head_bytes() + BUFFER_BYTES);
            }
            match self.link.poll_fill(context, &worker.buffers) {
                Poll::Ready(Ok(read)) if read > 0 => {}
                Poll::Ready(_) => return Poll::Ready(Ok(Arrival::Gone)),
                Poll::Pending if self.is_late(worker) => {
                    return Poll::Ready(Err(ErrorCode::HeaderReadTimeout.into()));
                }
                Poll::Pending => return Poll::Pending,
            }
            if head.parse(self.link.buffer.filled(), limits)? {
                return Poll::Ready(Ok(Arrival::Request));
            }
        }
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// If the client is gone, or takes no bytes for the send timeout.
    pub fn write_all(
        &mut self,
        worker: &Worker,
        bytes: &[u8],
    ) -> impl Future<Output = io::Result<()>> {
        self.write_both(worker, bytes, &[])
    }

    /// Writes all of `head`, then all of `body`, without copying them together. Yields to other
    /// tasks of the core every `TURN_BYTES`.
    ///
    /// # Errors
    /// As [`Self::write_all`].
    pub async fn write_both(
        &mut self,
        worker: &Worker,
        head: &[u8],
        body: &[u8],
    ) -> io::Result<()> {
        let mut sent = 0;
        self.arm(worker, worker.settings.limits.send_time);
        poll_fn(|context| {
            // Without a bound, a long response to a fast client would occupy the core.
            let turn_end = sent + TURN_BYTES;
            while sent < head.len() + body.len() {
                if sent >= turn_end {
                    return turn::give_way(context);
                }
                let body_sent = sent.saturating_sub(head.len());
                let body_end = body.len().min(body_sent + TURN_BYTES);
                let head_left = head.get(sent..).unwrap_or_default();
                let parts = [IoSlice::new(head_left), IoSlice::new(&body[body_sent..body_end])];
                match self.link.stream.poll_write(context, &parts)? {
                    Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(written) => {
                        sent += written;
                        // The deadline limits the wait for a client that takes no bytes, not the
                        // whole response.
                        self.arm(worker, worker.settings.limits.send_time);
                    }
                    Poll::Pending if self.is_late(worker) => {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.link.stream.poll_flush(context)
        })
        .await
    }

    /// Shuts down the write direction and discards what the client still sends for a while, so that
    /// it reads the last response instead of a reset (RFC 9112 §9.6).
    pub async fn linger(&mut self, worker: &Worker) {
        worker.clock.refresh();
        self.arm(worker, LINGER_TIME);
        poll_fn(|context| self.poll_linger(context, worker)).await;
    }

    /// Drains the client's bytes until it closes. Bounded by time alone: many clients read a
    /// response only after they have sent everything. The reactor pauses a fast sender often enough
    /// for the deadline to be checked.
    fn poll_linger(&mut self, context: &mut Context<'_>, worker: &Worker) -> Poll<()> {
        if ready!(self.link.stream.poll_shutdown(context)).is_err() {
            return Poll::Ready(());
        }
        loop {
            self.link.buffer.truncate(0);
            match self.link.poll_fill(context, &worker.buffers) {
                Poll::Ready(Ok(read)) if read > 0 => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending if self.is_late(worker) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
