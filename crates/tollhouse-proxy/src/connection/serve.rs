//! Life of a client connection: serves request after request until the connection ends.

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

pub(crate) async fn connection(worker: &Rc<Worker>, client: &mut Client) {
    client.attach().await;
    let departure = client.departure(worker);
    loop {
        if client.wait(worker).await == Arrival::Gone {
            client.link.stream.try_say_end();
            break;
        }
        // After an agreement on HTTP/2, the HTTP/2 server also answers bytes that are not HTTP/2.
        if client.requests == 0 && client.has_agreed_http2() {
            if Box::pin(server::connection(worker, client)).await == After::Linger {
                Box::pin(client.linger(worker)).await;
            }
            break;
        }
        let mut state = worker.take_state();
        // The state of the request's future lives in a room of the core and not in the connection's
        // task, because an idle connection would otherwise hold 2 KB for it.
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

/// Outcome of serving the bytes at the start of the buffer.
enum Served {
    /// The bytes were a request, or were refused as invalid.
    Exchange(After),
    /// The bytes are the HTTP/2 preface and are still in the buffer.
    Nothing,
}

/// Serves one request: reads its head, runs the pipeline, and consumes its bytes.
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
        // The HTTP/2 preface is checked only after the HTTP/1.1 parser refused the bytes, which
        // costs ordinary requests nothing.
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
    // Consumed only now, because the access log reads bytes of the head.
    if after == After::KeepAlive {
        client.link.buffer.consume(body.end_in_buffer());
    }
    Served::Exchange(after)
}
