//! One connection: HTTP/2 driven by one task, which accepts calls, sends what all of them have to say,
//! and follows the orders of the roster and of the stop.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use h2::server::{Builder, Connection};
use h2::{Ping, PingPong};
use tokio::io::{AsyncRead, AsyncWrite};

use super::accept::Server;
use super::budget::Budget;
use super::call;
use super::cork::{Corked, Pipe};
use super::limits::{
    CONNECTION_WINDOW_BYTES, EARLY_RESETS_MAX, ERROR_RESETS_MAX, HANDSHAKE_TIMEOUT,
    HEADER_BYTES_MAX, REMEMBERED_RESETS_MAX, STREAM_WINDOW_BYTES, STREAMS_MAX,
};
use super::payload::Payload;
use super::presence::{Order, Presence};
use super::stopping::Listener;

/// What the calls of a connection share.
pub(super) struct Link {
    pub(super) server: Rc<Server>,
    pub(super) peer: SocketAddr,
    pub(super) budget: Budget,
}

struct Driver<S> {
    link: Rc<Link>,
    pipe: Rc<Pipe<S>>,
    http2: Connection<Corked<S>, Payload>,
    pings: Option<PingPong>,
    presence: Presence,
    listener: Listener,
    is_draining: bool,
}

/// Serves a connection until the client or the server ends it.
pub(super) async fn serve<S>(server: Rc<Server>, stream: S, peer: SocketAddr, presence: Presence)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (arrivals, unsent) = (presence.arrivals(), presence.unsent());
    let pipe = Pipe::new(stream, Rc::clone(&server.buffers), arrivals, Rc::clone(&unsent));
    let Some(mut http2) = handshake(&server, &pipe).await else {
        return server.counts.handshakes_failed.add_one();
    };
    let mut driver = Driver {
        pipe,
        pings: http2.ping_pong(),
        http2,
        presence,
        listener: server.stopping.listener(),
        link: Rc::new(Link { budget: Budget::new(server.budget.clone(), unsent), server, peer }),
        is_draining: false,
    };
    poll_fn(|cx| driver.poll(cx)).await;
}

/// Speaks HTTP/2; `None` when the client does not, or takes too long.
async fn handshake<S>(server: &Server, pipe: &Rc<Pipe<S>>) -> Option<Connection<Corked<S>, Payload>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut shaking = pin!(settings().handshake(Corked(Rc::clone(pipe))));
    let mut listener = server.stopping.listener();
    let both = poll_fn(|cx| {
        if listener.has_begun(cx) {
            return Poll::Ready(None);
        }
        let shaken = shaking.as_mut().poll(cx);
        if let Poll::Ready(Err(_)) = pipe.poll_send(cx) {
            return Poll::Ready(None);
        }
        shaken.map(Result::ok)
    });
    tokio::time::timeout(HANDSHAKE_TIMEOUT, both).await.ok().flatten()
}

fn settings() -> Builder {
    let mut settings = Builder::new();
    settings
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_pending_accept_reset_streams(EARLY_RESETS_MAX)
        .max_local_error_reset_streams(Some(ERROR_RESETS_MAX))
        .max_concurrent_reset_streams(REMEMBERED_RESETS_MAX);
    settings
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_draining && self.listener.has_begun(cx) {
            self.is_draining = true;
            self.http2.graceful_shutdown();
        }
        match self.presence.order(cx) {
            Some(Order::End) => return Poll::Ready(()),
            Some(Order::Ping) => self.ping(cx),
            None => {}
        }
        let is_over = self.accept(cx);
        match (self.pipe.poll_send(cx), is_over) {
            // What is left goes as far as the client's side takes it at once: a last word at most.
            (_, true) | (Poll::Ready(Err(_)), _) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    /// Takes on all calls that have arrived; whether the connection is over.
    fn accept(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.http2.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    call::begin(&self.link, request, respond, cx);
                }
                Poll::Ready(Some(Err(_)) | None) => return true,
                Poll::Pending => return false,
            }
        }
    }

    /// Asks for a sign of life. An answer to the ping before is taken first, if there is one.
    fn ping(&mut self, cx: &mut Context<'_>) {
        let Some(pings) = &mut self.pings else { return };
        let _ = pings.poll_pong(cx);
        // Refused while the last one is unanswered: then that one is the question.
        let _ = pings.send_ping(Ping::opaque());
    }
}

#[cfg(test)]
mod tests;
