//! Order of the stages of a request and its response. All stages are called from here, and none
//! calls the next; comments give the reason for a stage's position.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tollhouse_telemetry::ErrorCode;

use crate::answer::{error, own};
use crate::connection::after::After;
use crate::connection::departure::{Gone, Watch};
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::http2::stream::Withdrawal;
use crate::plugins::chains::{Chains, KeptChains};
use crate::plugins::log_phase;
use crate::snapshot::{RouteEntry, Snapshot};
use crate::stages::deliver::Delivered;
use crate::stages::route::Next;
use crate::stages::tunnel::{self, Switched};
use crate::stages::{
    account, challenge, client_certificate, connection_name, deliver, forward, limits, normalise,
    plugins, request_body, route, trace,
};
use crate::worker::Worker;

/// Serves a request whose head is parsed; returns the fate of the client's connection.
pub(crate) async fn serve(exchange: &mut Exchange<'_>) -> After {
    let _under_way = UnderWay::new(exchange.worker);
    if let Some(tracer) = &exchange.worker.tracer {
        trace::begin(exchange, tracer);
    }
    let after = stages(exchange).await;
    // Outside of the panic boundary, so that requests that panicked or were cancelled are counted
    // and logged too.
    account::served(exchange);
    if exchange.state.is_recorded() {
        trace::finish(exchange);
    }
    after
}

/// Runs all stages up to the response, and the log phase of plugins after it.
async fn stages(exchange: &mut Exchange<'_>) -> After {
    // The request keeps this snapshot, so that a single revision applies to all of it.
    let snapshot = exchange.worker.snapshot.take();
    let withdrawal = exchange.client.link.stream.withdrawal();
    let mut chains = None;
    let mut cx = exchange.on_route(None);
    let served = {
        let mut watch = Watch::begin(&cx);
        let mut served = pin!(there_and_back(&mut cx, &snapshot, &mut chains));
        let served = poll_fn(|context| {
            let polled = poll_guarded(served.as_mut(), context, withdrawal.as_ref());
            watch.check(context, polled)
        })
        .await;
        // Dropping the future has cancelled the pending stage: a node's connection is reset, a
        // plugin's call ends.
        served.unwrap_or_else(|Gone| Err(Failure::Withdrawn(ErrorCode::DownstreamGone)))
    };
    let failure = match served {
        Ok(Ok(Delivered::Answered(after))) => {
            return match &chains {
                None => after,
                Some(chains) => log(&mut cx, chains, after),
            };
        }
        // A tunnel may last for days of configuration changes, so it keeps its route and plugins
        // and releases the snapshot.
        Ok(Ok(Delivered::Switched(switched))) => {
            let kept = Kept { route: cx.route.map(Arc::clone), chains: chains.map(Chains::keep) };
            drop(snapshot);
            return Box::pin(kept.tunnel(exchange, switched)).await;
        }
        Ok(Err(error)) => Failure::Error(error),
        Err(failure) => failure,
    };
    Box::pin(fail(&mut cx, chains.as_ref(), failure)).await
}

/// Reason why a request was not served.
enum Failure {
    Error(GatewayError),
    Panic,
    /// The client left, or its stream ended early; the code tells which.
    Withdrawn(ErrorCode),
}

/// Polls a request within its panic boundary, so that a panic ends only this request. Stops the
/// request if its client has cancelled it.
fn poll_guarded<F: Future>(
    future: Pin<&mut F>,
    context: &mut Context<'_>,
    withdrawal: Option<&Withdrawal>,
) -> Poll<Result<F::Output, Failure>> {
    match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        // Checked after the poll, so that a response that is ready is still sent.
        Ok(Poll::Pending) => match withdrawal.and_then(Withdrawal::cause) {
            Some(code) => Poll::Ready(Err(Failure::Withdrawn(code))),
            None => Poll::Pending,
        },
        Err(_) => Poll::Ready(Err(Failure::Panic)),
    }
}

/// Runs the stages up to a node and back; the response body has been sent on return.
///
/// # Errors
/// If nothing has been sent to the client; [`fail`] sends the response then.
async fn there_and_back<'s>(
    cx: &mut Exchange<'s>,
    snapshot: &'s Snapshot,
    chains: &mut Option<Chains<'s>>,
) -> Result<Delivered, GatewayError> {
    // Limits are checked first, so that an oversized request costs nothing further.
    limits::check(cx)?;

    // Normalised before anything reads the path, the host or the client's address, so that all
    // later stages use the same values.
    normalise::request(cx)?;

    // ACME challenges come before redirects, plugins, routes and access checks, because they must
    // work before a certificate exists.
    if cx.worker.snapshot.challenges().are_pending() && challenge::prepare(cx) {
        return Ok(Delivered::Answered(Box::pin(own::send_prepared(cx, None)).await));
    }

    // Checked before routing, so that clients without access to the host learn nothing about its
    // routes.
    connection_name::check(cx, snapshot)?;
    client_certificate::check(cx, snapshot)?;

    // Matches the route with all its conditions. If a condition needs the body, the body is read
    // and the matching repeated; other requests stream their body.
    cx.route = route::find(cx, snapshot);
    if cx.state.held_body.is_asked() {
        Box::pin(request_body::read_for_variables(cx)).await?;
        cx.route = route::find(cx, snapshot);
    }

    // Plugins see the request before a node does, and may answer it or choose another upstream. The
    // chains are created before the route is entered, because the log phase also runs for a route
    // that refuses.
    *chains = Chains::new(snapshot, cx.route.map(|route| &**route));
    let next = match chains {
        None => route::enter(cx).and_then(|()| route::next(cx, snapshot))?,
        // The future lives in a room of the core while it runs, because few requests have plugins
        // and every request would otherwise reserve its size.
        Some(chains) => {
            let worker = cx.worker;
            let room = worker.take_plugin_room();
            let mut asked = room.occupy(|| plugins::before_node(cx, snapshot, chains));
            let next = (&mut asked).await;
            worker.give_plugin_room(asked.vacate());
            next?
        }
    };
    let chains = chains.as_ref();
    let way = match next {
        Next::Answer => return Ok(Delivered::Answered(own::send_prepared(cx, chains).await)),
        Next::Node(way) => way,
    };

    // Obtains the response head of a node, with retries. Nothing has been sent to the client yet.
    let forwarded = forward::run(cx, way).await;
    let mut answer = match chains {
        // A cache has the answer that the node says is still good, or one for when nodes fail.
        Some(chains) if plugins::replaces(cx, chains, &forwarded) => {
            if let Ok(answer) = forwarded {
                deliver::drop_answer(cx, way, answer);
            }
            let sent = Box::pin(own::send_prepared(cx, Some(chains))).await;
            return Ok(Delivered::Answered(sent));
        }
        _ => forwarded?,
    };

    // Plugins see the head before the client does, and may change status, header lines and body.
    if let Some(chains) = chains {
        plugins::on_answer(cx, chains, &mut answer)?;
    }

    // Sends head and body to the client and returns the node's connection to its pool.
    deliver::run(cx, way, answer).await
}

/// Sends a response if none was sent, and runs the log phase of plugins.
async fn fail(cx: &mut Exchange<'_>, chains: Option<&Chains<'_>>, failure: Failure) -> After {
    let answered = match failure {
        Failure::Error(error) => {
            let mut answered = pin!(error::answer(cx, chains, error));
            poll_fn(|context| poll_guarded(answered.as_mut(), context, None)).await
        }
        Failure::Panic | Failure::Withdrawn(_) => Err(failure),
    };
    let after = match answered {
        Ok(after) => after,
        Err(Failure::Error(_) | Failure::Panic) => error::answer_panic(cx).await,
        Err(Failure::Withdrawn(code)) => {
            error::note_withdrawn(cx, code);
            After::Close
        }
    };
    match chains {
        None => after,
        Some(chains) => log(cx, chains, after),
    }
}

/// Runs the log phase after the response, so that plugins log what the client received.
fn log(cx: &mut Exchange<'_>, chains: &Chains<'_>, after: After) -> After {
    if catch_unwind(AssertUnwindSafe(|| log_phase::run(cx, chains))).is_ok() {
        return after;
    }
    cx.state.record.code = Some(ErrorCode::InternalPanic);
    After::Close
}

/// Configuration that a tunnel keeps alive.
struct Kept {
    route: Option<Arc<RouteEntry>>,
    chains: Option<KeptChains>,
}

impl Kept {
    async fn tunnel(self, exchange: &mut Exchange<'_>, switched: Switched) -> After {
        let chains = self.chains.as_ref().zip(self.route.as_ref());
        let chains = chains.map(|(chains, route)| chains.on_route(route));
        let mut cx = exchange.on_route(self.route.as_ref());
        let ended = {
            let mut ended = pin!(tunnel::run(&mut cx, switched));
            poll_fn(|context| poll_guarded(ended.as_mut(), context, None)).await
        };
        match (ended, &chains) {
            (Err(failure), _) => fail(&mut cx, chains.as_ref(), failure).await,
            (Ok(after), Some(chains)) => log(&mut cx, chains, after),
            (Ok(after), None) => after,
        }
    }
}

/// Counts a request as open until the guard is dropped.
struct UnderWay<'w>(&'w Worker);

impl<'w> UnderWay<'w> {
    fn new(worker: &'w Worker) -> Self {
        worker.metrics.requests_open.increment();
        Self(worker)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.metrics.requests_open.decrement();
    }
}
