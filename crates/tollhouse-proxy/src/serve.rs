//! The life of a connection: request after request, each inside a panic boundary.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use tollhouse_http::{BodyLength, Expectation};
use tollhouse_telemetry::ErrorCode;

use crate::client::{Arrival, Client};
use crate::error::GatewayError;
use crate::exchange::RequestPump;
use crate::request::Work;
use crate::worker::Worker;
use crate::{account, pipeline, rescue};

/// What becomes of a client's connection after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It waits for the next request.
    KeepAlive,
    /// It closes at once: the client is gone, or must see that the answer broke off.
    Close,
    /// It closes once the client has seen the answer.
    Linger,
}

/// Serves one connection to its end.
pub(crate) async fn connection(worker: &Worker, client: &mut Client) {
    client.attach().await;
    while client.wait(worker).await == Arrival::Request {
        let mut work = worker.take_work();
        // What a request needs to be served lives in the core's memory and not in the connection's task:
        // an idle connection would hold 2 KB for it.
        let room = worker.take_room();
        let mut served = room.occupy(|| exchange(worker, client, &mut work));
        let after = (&mut served).await;
        worker.give_room(served.vacate());
        worker.give_work(work);
        match after {
            After::KeepAlive => {}
            After::Close => break,
            After::Linger => {
                Box::pin(client.linger(worker)).await;
                break;
            }
        }
    }
    client.link.drop_buffer(&worker.shelf);
}

/// Serves one request: read the head, serve it, account for it.
async fn exchange(worker: &Worker, client: &mut Client, work: &mut Work) -> After {
    let arrival = client.read_head(worker, &mut work.head).await;
    work.record.started_ms = worker.clock.now_ms();
    client.requests += 1;
    match arrival {
        Ok(Arrival::Request) => {}
        Ok(Arrival::Gone) => return After::Close,
        Err(error) => {
            Box::pin(rescue::refuse(worker, client, work, error)).await;
            account::refused(worker, client, work);
            return After::Linger;
        }
    }
    let _open = OpenRequest::new(worker);
    let head = &work.head;
    let limit = worker.settings.limits.body_bytes;
    let mut body = RequestPump::new(head.head_bytes, head.body, head.expectation, limit);
    let after = guarded(worker, client, work, &mut body).await;
    work.record.bytes_received = body.received;
    account::served(worker, client, work);
    if after == After::KeepAlive {
        client.link.buffer.consume(body.end_in_buffer());
    }
    after
}

/// Counts a request as under way until it is dropped, however it ends.
struct OpenRequest<'w>(&'w Worker);

impl<'w> OpenRequest<'w> {
    fn new(worker: &'w Worker) -> Self {
        worker.metrics.requests_open.increment();
        Self(worker)
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.metrics.requests_open.decrement();
    }
}

/// The request's pipeline, with a boundary that turns a panic into a counted 500.
async fn guarded(
    worker: &Worker,
    client: &mut Client,
    work: &mut Work,
    body: &mut RequestPump,
) -> After {
    let outcome = {
        let mut served = pin!(pipeline::serve(worker, client, work, body));
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| served.as_mut().poll(context))) {
            Ok(Poll::Ready(outcome)) => Poll::Ready(Some(outcome)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        })
        .await
    };
    match outcome {
        Some(Ok(after)) => after,
        Some(Err(error)) => Box::pin(rescue::answer(worker, client, work, body, error)).await,
        None if work.record.status == 0 => {
            let error = GatewayError::from(ErrorCode::InternalPanic);
            let mut nothing = RequestPump::new(0, BodyLength::None, Expectation::None, 0);
            Box::pin(rescue::answer(worker, client, work, &mut nothing, error)).await
        }
        None => {
            work.record.code = Some(ErrorCode::InternalPanic);
            After::Close
        }
    }
}
