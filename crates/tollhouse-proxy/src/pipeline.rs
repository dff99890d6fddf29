//! The life of a request, there and back. Every stage is called from here, in this order, and none
//! calls the next; a comment says why a step stands where it stands.

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
    plugins, request_body, route,
};
use crate::worker::Worker;

/// Serves a request whose head has been read, and says what becomes of the client's connection.
pub(crate) async fn serve(exchange: &mut Exchange<'_>) -> After {
    let _under_way = UnderWay::new(exchange.worker);
    let after = stages(exchange).await;
    // Outside of every boundary: also a request that has panicked, or that its client took back, is counted
    // and logged.
    account::served(exchange);
    after
}

/// There, back, and what is left to be done once the answer is on its way.
async fn stages(exchange: &mut Exchange<'_>) -> After {
    // The snapshot taken here is the one the request keeps: one revision answers all of it.
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
        // Whatever a stage was waiting for, it waits no longer: a node's connection is reset, a plugin's call ends.
        served.unwrap_or_else(|Gone| Err(Failure::Withdrawn(ErrorCode::DownstreamGone)))
    };
    let failure = match served {
        Ok(Ok(Delivered::Answered(after))) => {
            return match &chains {
                None => after,
                Some(chains) => log(&mut cx, chains, after),
            };
        }
        // A tunnel may last for days, during which the configuration changes a thousand times: it
        // keeps its route and plugins, and lets go of the rest.
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

/// Why a request was not served.
enum Failure {
    /// A stage says so.
    Error(GatewayError),
    /// A stage has panicked.
    Panic,
    /// The client has left, or its stream has ended early; the code says why.
    Withdrawn(ErrorCode),
}

/// Polls within the boundary of a request: a panic ends the request that met it, and no other of the core; and
/// a client that has taken its request back is not worked for.
fn poll_guarded<F: Future>(
    future: Pin<&mut F>,
    context: &mut Context<'_>,
    withdrawal: Option<&Withdrawal>,
) -> Poll<Result<F::Output, Failure>> {
    match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        // Asked last: what can still be said of the request is said.
        Ok(Poll::Pending) => match withdrawal.and_then(Withdrawal::cause) {
            Some(code) => Poll::Ready(Err(Failure::Withdrawn(code))),
            None => Poll::Pending,
        },
        Err(_) => Poll::Ready(Err(Failure::Panic)),
    }
}

/// Up to a node and back again; the answer's body has been sent when this returns.
///
/// # Errors
/// When nothing has been sent to the client; [`fail`] answers.
async fn there_and_back<'s>(
    cx: &mut Exchange<'s>,
    snapshot: &'s Snapshot,
    chains: &mut Option<Chains<'s>>,
) -> Result<Delivered, GatewayError> {
    // Limits come first: a request that is too large costs nothing further.
    limits::check(cx)?;

    // Normalised once, before anything looks at the path, the host or the client's address, so
    // that every later step sees the same.
    normalise::request(cx)?;

    // The authority that issues certificates asks before there are any: ahead of every redirect, plugin
    // and route, and of who may ask.
    if cx.worker.snapshot.challenges().are_pending() && challenge::prepare(cx) {
        return Ok(Delivered::Answered(Box::pin(own::send_prepared(cx, None)).await));
    }

    // Who may not ask this host, or not over this connection, learns nothing of its routes.
    connection_name::check(cx, snapshot)?;
    client_certificate::check(cx, snapshot)?;

    // Which route, with every condition checked. Where a condition on the way asks for the body, it
    // is read, and asked again; requests that meet none such stream on.
    cx.route = route::find(cx, snapshot);
    if cx.state.held_body.is_asked() {
        Box::pin(request_body::read_for_variables(cx)).await?;
        cx.route = route::find(cx, snapshot);
    }

    // Plugins, if there are any, see the request before a node does: one may answer it, or send it
    // elsewhere. They are known before the route is entered, since a route that refuses is answered
    // too.
    *chains = Chains::new(snapshot, cx.route.map(|route| &**route));
    let next = match chains {
        None => route::enter(cx).and_then(|()| route::next(cx, snapshot))?,
        // In memory of the core's for as long as it runs: few requests have plugins, and every one
        // would have its room.
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

    // A node's head, of whichever of them has one to give. Nothing has been sent to the client yet.
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

    // Plugins see the head before the client does: status, header lines and body are theirs to
    // change.
    if let Some(chains) = chains {
        plugins::on_answer(cx, chains, &mut answer)?;
    }

    // Head and body go to the client, the node's connection back to its pool.
    deliver::run(cx, way, answer).await
}

/// Answers where nothing else has, and lets plugins see how it went.
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

/// Runs the log phase: behind every answer, so that plugins log what the client got.
fn log(cx: &mut Exchange<'_>, chains: &Chains<'_>, after: After) -> After {
    if catch_unwind(AssertUnwindSafe(|| log_phase::run(cx, chains))).is_ok() {
        return after;
    }
    cx.state.record.code = Some(ErrorCode::InternalPanic);
    After::Close
}

/// What a tunnel needs of the configuration that it began with.
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

/// Counts a request as under way until it is dropped, however it ends.
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
