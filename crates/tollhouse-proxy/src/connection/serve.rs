//! The life of a connection: request after request, until one of them says that it ends.

use std::rc::Rc;

use tollhouse_net::Departure;

use super::after::After;
use super::client::{Arrival, Client};
use crate::answer::error;
use crate::exchange::Exchange;
use crate::exchange::state::RequestState;
use crate::http2::server::{self, PREFACE_LINE};
use crate::pipeline;
use crate::stages::account;
use crate::transfer::pump::RequestPump;
use crate::worker::Worker;

/// Serves one connection to its end.
pub(crate) async fn connection(worker: &Rc<Worker>, client: &mut Client) {
    client.attach().await;
    let departure = client.departure(worker);
    loop {
        if client.wait(worker).await == Arrival::Gone {
            client.link.stream.try_say_end();
            break;
        }
        // Whatever else comes instead is none of HTTP/1.1's to answer.
        if client.requests == 0 && client.has_agreed_http2() {
            if Box::pin(server::connection(worker, client)).await == After::Linger {
                Box::pin(client.linger(worker)).await;
            }
            break;
        }
        let mut state = worker.take_state();
        // What a request needs to be served lives in the core's memory and not in the connection's
        // task: an idle connection would hold 2 KB for it.
        let room = worker.take_room();
        let mut served = room.occupy(|| exchange(worker, client, departure.as_ref(), &mut state));
        let served_as = (&mut served).await;
        worker.give_room(served.vacate());
        worker.give_state(state);
        client.timer.cancel_nudge();
        let after = match served_as {
            Served::Exchange(after) => after,
            Served::Nothing => Box::pin(server::connection(worker, client)).await,
        };
        match after {
            After::KeepAlive => {}
            After::Close => break,
            After::Linger => {
                Box::pin(client.linger(worker)).await;
                break;
            }
        }
    }
    client.peer.close_announced(worker);
    client.link.release_buffer(&worker.buffers);
}

/// What became of bytes that should be a request.
enum Served {
    /// They were one, or were answered as none.
    Exchange(After),
    /// They are the beginning of HTTP/2, and still in the buffer.
    Nothing,
}

/// Serves one request: read the head, serve it, step over it in the buffer.
async fn exchange(
    worker: &Worker,
    client: &mut Client,
    departure: Option<&Departure>,
    state: &mut RequestState,
) -> Served {
    let arrival = client.read_head(worker, &mut state.head).await;
    state.record.started_ms = worker.clock.now_ms();
    client.requests += 1;
    match arrival {
        Ok(Arrival::Request) => {}
        Ok(Arrival::Gone) => return Served::Exchange(After::Close),
        // Looked at only where HTTP/1.1 has nothing to say to it.
        Err(_) if client.requests == 1 && client.request_bytes().starts_with(PREFACE_LINE) => {
            return Served::Nothing;
        }
        Err(error) => {
            let mut body = RequestPump::none();
            let mut cx = Exchange::new(worker, client, state, &mut body);
            Box::pin(error::refuse(&mut cx, error)).await;
            account::refused(&cx);
            return Served::Exchange(After::Linger);
        }
    }
    let head = &state.head;
    let limit = worker.settings.limits.body_bytes;
    let mut body = RequestPump::new(head.head_bytes, head.body, head.expectation, limit);
    let mut cx = Exchange::new(worker, client, state, &mut body);
    cx.departure = departure;
    let after = pipeline::serve(&mut cx).await;
    // Only now: the log has shown bytes of the head.
    if after == After::KeepAlive {
        client.link.buffer.consume(body.end_in_buffer());
    }
    Served::Exchange(after)
}
