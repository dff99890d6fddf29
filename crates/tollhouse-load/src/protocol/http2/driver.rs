//! Transfers bytes between a socket and its [`Session`]. One write sends the pending data of all
//! exchanges, and one read serves many exchanges.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollhouse_net::clock::Clock;

use super::failure::{closed, no_http2, socket};
use super::session::Session;
use crate::connect::Stream;
use crate::failure::Failure;

/// Maximum number of reads per turn, so that a server that sends continuously does not starve other
/// tasks.
const READS_PER_TURN: usize = 16;

/// Serves a connection until it ends or is no longer needed. `buffer` is scratch space for reads.
pub(in crate::protocol) async fn drive(
    session: Rc<Session>,
    mut stream: Stream,
    buffer: &RefCell<Vec<u8>>,
    clock: Clock,
) -> Failure {
    let ended = poll_fn(|context| {
        session.begin_turn(context);
        let turn = poll_turn(&session, &mut stream, buffer, clock, context);
        session.end_turn();
        turn
    });
    let failure = ended.await;
    session.lose(&failure);
    // Attempts a TLS close notification without waiting for it.
    poll_fn(|context| {
        let _ = Pin::new(&mut stream).poll_shutdown(context);
        Poll::Ready(())
    })
    .await;
    failure
}

fn poll_turn(
    session: &Session,
    stream: &mut Stream,
    buffer: &RefCell<Vec<u8>>,
    clock: Clock,
    context: &mut Context<'_>,
) -> Poll<Failure> {
    for _ in 0..READS_PER_TURN {
        if let Poll::Ready(Err(error)) = poll_write(session, stream, context) {
            return Poll::Ready(socket(&error, session.goodbye()));
        }
        if session.is_finished() {
            return Poll::Ready(closed(session.goodbye()));
        }
        if !session.wants_input() {
            return Poll::Pending;
        }
        let mut buffer = buffer.borrow_mut();
        let mut room = ReadBuf::new(&mut buffer);
        if let Err(error) = ready!(Pin::new(&mut *stream).poll_read(context, &mut room)) {
            return Poll::Ready(socket(&error, session.goodbye()));
        }
        let bytes = room.filled();
        if bytes.is_empty() {
            return Poll::Ready(closed(session.goodbye()));
        }
        if let Err(error) = session.receive(bytes, clock.now_ns()) {
            // Attempts to send the final frame without waiting.
            let _ = poll_write(session, stream, context);
            return Poll::Ready(no_http2(&error));
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}

fn poll_write(
    session: &Session,
    stream: &mut Stream,
    context: &mut Context<'_>,
) -> Poll<std::io::Result<()>> {
    ready!(session.write_out(|output| Pin::new(&mut *stream).poll_write(context, output)))?;
    Pin::new(stream).poll_flush(context)
}
