//! The life of a request, there and back. Every stage is called from here, in this order, and none
//! calls the next; a comment says why a step stands where it stands.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tollhouse_telemetry::ErrorCode;

use crate::answer::{error, own};
use crate::connection::after::After;
use crate::connection::departure::{Gone, Watch};
use crate::error::GatewayError;
use crate::exchange::Exchange;
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
    let finished = {
        let mut stages = pin!(stages(exchange));
        // A panic ends the request that met it, and no other of the core.
        poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| stages.as_mut().poll(context))) {
            Ok(Poll::Ready(after)) => Poll::Ready(Some(after)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        })
        .await
    };
    let after = match finished {
        Some(after) => after,
        None => Box::pin(error::answer_panic(exchange)).await,
    };
    // Outside of the boundary: also a request that has panicked is counted and logged.
    account::served(exchange);
    after
}

/// There, back, and what is left to be done once the answer is on its way.
async fn stages(exchange: &mut Exchange<'_>) -> After {
    // The snapshot taken here is the one the request keeps: one revision answers all of it.
    let snapshot = exchange.worker.snapshot.take();
    let mut chains = None;
    let mut cx = exchange.on_route(None);
    let served = {
        let mut watch = Watch::begin(&cx);
        let mut serving = pin!(there_and_back(&mut cx, &snapshot, &mut chains));
        let served = poll_fn(|context| {
            let polled = serving.as_mut().poll(context);
            watch.check(context, polled)
        })
        .await;
        // Whatever a stage was waiting for, it waits no longer: a node's connection is reset, a plugin's call ends.
        served.unwrap_or_else(|Gone| Err(ErrorCode::DownstreamGone.into()))
    };
    match served {
        Ok(Delivered::Answered(after)) if chains.is_none() => after,
        Ok(Delivered::Answered(after)) => finish(&mut cx, chains.as_ref(), Ok(after)).await,
        Err(error) => finish(&mut cx, chains.as_ref(), Err(error)).await,
        // A tunnel may last for days, during which the configuration changes a thousand times: it
        // keeps its route and plugins, and lets go of the rest.
        Ok(Delivered::Switched(switched)) => {
            let kept = Kept { route: cx.route.map(Arc::clone), chains: chains.map(Chains::keep) };
            drop(snapshot);
            Box::pin(kept.tunnel(exchange, switched)).await
        }
    }
}

/// Up to a node and back again; the answer's body has been sent when this returns.
///
/// # Errors
/// When nothing has been sent to the client; [`finish`] answers.
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
    let mut answer = forward::run(cx, way).await?;

    // Plugins see the head before the client does: status, header lines and body are theirs to
    // change.
    if let Some(chains) = chains {
        plugins::on_answer(cx, chains, &mut answer);
    }

    // Head and body go to the client, the node's connection back to its pool.
    deliver::run(cx, way, answer).await
}

/// Answers where nothing else has, and lets plugins see how it went.
async fn finish(
    cx: &mut Exchange<'_>,
    chains: Option<&Chains<'_>>,
    served: Result<After, GatewayError>,
) -> After {
    let after = match served {
        Ok(after) => after,
        Err(error) => Box::pin(error::answer(cx, chains, error)).await,
    };
    // Behind the answer, whoever gave it: what is logged is what the client got.
    if let Some(chains) = chains {
        log_phase::run(cx, chains);
    }
    after
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
        let after = tunnel::run(&mut cx, switched).await;
        finish(&mut cx, chains.as_ref(), Ok(after)).await
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
