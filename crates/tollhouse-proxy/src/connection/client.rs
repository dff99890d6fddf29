//! The client's side of an exchange: who asks, the bytes from and to there, and one deadline. Here
//! is how that is done over a connection of HTTP/1.1: waiting for requests, reading their heads,
//! closing politely.
//!
//! This is the seam to other transports. An exchange pulls the request's bytes into the link's
//! buffer, pushes the answer's into its stream, which takes them when it can, and asks for nothing
//! else.

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

/// Nodes that keep connections for one client's alone, at most: with more, those of the first one close.
const ANNOUNCED_MAX: usize = 64;

#[derive(Debug)]
pub struct Client {
    /// Who is at the other end.
    pub peer: Rc<Peer>,
    pub link: Link,
    /// The deadline of whatever it waits for; the waker behind it is the connection's task.
    pub timer: Timer,
    /// Requests begun on the connection.
    pub requests: u64,
    /// What the handshake has found out; nothing on a plain connection.
    pub tls: Option<Rc<TlsPeer>>,
}

/// Both ends of a client's connection, whichever of its requests is served.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// The other end's address as text.
    pub address_text: AddressText,
    /// Our address as text.
    pub local_text: AddressText,
    /// The header lines about this client that nodes get with requests; of the last one.
    pub forwarding: RefCell<Option<Box<ForwardingLines>>>,
    /// Where connections are kept that nodes were told to be this client's.
    announced: RefCell<Vec<PoolKey>>,
}

impl Peer {
    /// Notes that a connection is kept under `key`, if nobody but this client may use it.
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

    /// Closes the connections that are kept for this client alone: it does not come back over this one.
    #[inline]
    pub(crate) fn close_announced(&self, worker: &Worker) {
        for key in self.announced.borrow_mut().drain(..) {
            worker.close_kept(&key);
        }
    }
}

/// What came of waiting for a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A whole head stands at the start of the buffer.
    Request,
    /// The client ended the connection, or idled too long: nothing to answer.
    Gone,
}

impl Client {
    /// A connection just accepted.
    pub fn new(worker: &Worker, stream: Stream, address: SocketAddr, local: SocketAddr) -> Self {
        Self::with_link(worker, Link::new(stream), address, local)
    }

    /// The same where something has been read already.
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

    /// Who asks by a stream of a connection that others share, with its `requests`th request.
    pub(crate) fn for_stream(&self, worker: &Worker, stream: Http2Stream) -> Self {
        Self {
            peer: Rc::clone(&self.peer),
            link: Link::new(stream),
            timer: worker.wheel.timer(),
            requests: self.requests,
            tls: self.tls.clone(),
        }
    }

    /// The request's head, and what has arrived behind it.
    #[inline]
    pub fn request_bytes(&self) -> &[u8] {
        self.link.buffer.filled()
    }

    /// Whether the client's bytes are encrypted on their way.
    #[inline]
    pub fn is_encrypted(&self) -> bool {
        self.link.stream.is_encrypted()
    }

    /// Whether HTTP/2 is what both ends have agreed upon when the connection was opened.
    pub fn has_agreed_http2(&self) -> bool {
        let tls = self.link.stream.server_tls();
        tls.and_then(ServerTls::application_protocol) == Some(b"h2")
    }

    /// The protocol as logs and variables name it, for a head of `version`.
    #[inline]
    pub fn protocol(&self, version: Version) -> &'static str {
        match (&self.link.stream, version) {
            (Carrier::Http2(_), _) => "HTTP/2.0",
            (Carrier::Socket(_), Version::Http10) => "HTTP/1.0",
            (Carrier::Socket(_), Version::Http11) => "HTTP/1.1",
        }
    }

    /// The scheme that the client uses.
    #[inline]
    pub fn scheme(&self) -> FieldValue<'static> {
        const HTTP: FieldValue<'_> = FieldValue::literal("http");
        const HTTPS: FieldValue<'_> = FieldValue::literal("https");
        if self.is_encrypted() { HTTPS } else { HTTP }
    }

    /// A watch on the client's socket, for requests that are pending.
    pub(crate) fn departure(&self, worker: &Worker) -> Option<Departure> {
        match &self.link.stream {
            Carrier::Socket(stream) => {
                Departure::watch(stream, worker.settings.on_client_half_close)
            }
            Carrier::Http2(_) => None,
        }
    }

    /// Ties the deadline to the task that polls this; once, before anything else.
    pub async fn attach(&self) {
        poll_fn(|context| {
            self.timer.set_waker(context.waker());
            Poll::Ready(())
        })
        .await;
    }

    /// Sets the deadline `after` from now.
    #[inline]
    pub fn arm(&self, worker: &Worker, after: Duration) {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.timer.arm(worker.clock.now_ms().saturating_add(after_ms));
    }

    /// Whether the deadline has passed. To be asked after everything else is pending, since the
    /// timer wakes the task and says nothing more.
    #[inline]
    pub fn is_late(&self, worker: &Worker) -> bool {
        self.timer.expired(worker.clock.now_ms())
    }

    /// Waits for the first byte of a request without holding a buffer; pipelined bytes are there
    /// already.
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
            // A drain that begins meanwhile wakes the task.
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

    /// Reads until a whole head stands at the start of the buffer and parses it.
    ///
    /// # Errors
    /// A head that is refused or takes too long; `Ok(Gone)` when the client leaves before its end.
    #[inline]
    pub async fn read_head(
        &mut self,
        worker: &Worker,
        head: &mut RequestHead,
    ) -> Result<Arrival, GatewayError> {
        head.reset();
        worker.clock.refresh();
        // Between requests only: what a connection begins with tells which protocol it speaks, and the preface
        // of HTTP/2 stands behind nothing.
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

    /// Writes all of `bytes`, within the send time-out.
    ///
    /// # Errors
    /// When the client is gone or takes nothing for too long.
    pub fn write_all(
        &mut self,
        worker: &Worker,
        bytes: &[u8],
    ) -> impl Future<Output = io::Result<()>> {
        self.write_both(worker, bytes, &[])
    }

    /// Writes all of `head`, then all of `body`, without putting them together; other requests of
    /// the core have their turn meanwhile.
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
            // A fast client of a long answer would keep the core from everybody else.
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
                        // The deadline is for a client that takes nothing, not for a long answer.
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

    /// Ends our direction and reads what the client still sends for a while, so that it sees the
    /// last answer instead of a reset (RFC 9112 §9.6).
    pub async fn linger(&mut self, worker: &Worker) {
        worker.clock.refresh();
        self.arm(worker, LINGER_TIME);
        poll_fn(|context| self.poll_linger(context, worker)).await;
    }

    /// Bounded by time alone: many clients look at an answer only once they have sent everything,
    /// and the reactor has a fast sender pause often enough for the deadline to be seen.
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
