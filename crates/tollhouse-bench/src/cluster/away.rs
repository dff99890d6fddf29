//! Part with a store that is down for a minute: the registry's database, or the gateways' etcd.
//! Requests must still be served, Discover and heartbeats answered, changes refused within their
//! deadline and accepted again once the store is back.

use super::losses::{SETTLED_MAX, STEADY_SERVICE, steady};
use super::nodes::{Engines, Node};
use crate::admin::Writer;
use crate::budget::{self, Figure};
use crate::case::BODY_BYTES;
use crate::client::Connection;
use crate::gateway::{route_json, route_path};
use crate::origin;
use crate::plan::Plan;
use crate::registry::Caller;
use crate::shell;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::time::{Duration, Instant};
use tollhouse_testkit::Etcd;

/// Time for which the store is down.
const AWAY: Duration = Duration::from_secs(60);
const QUICK_AWAY: Duration = Duration::from_secs(8);
/// Number of requests between two calls of `look` in [`Requests::send`].
const REQUESTS_A_LOOK: u64 = 50;

fn away(plan: &Plan) -> Duration {
    if plan.is_quick { QUICK_AWAY } else { AWAY }
}

/// Number of requests sent to the gateway, and of those that failed.
#[derive(Default)]
struct Requests {
    sent: u64,
    lost: u64,
}

impl Requests {
    /// Sends about one request per millisecond, and calls `look` periodically.
    fn send(
        time: Duration,
        port: u16,
        path: &str,
        mut look: impl FnMut() -> Result<()>,
    ) -> Result<Self> {
        let mut client = Connection::open(port)?;
        let (start, mut requests) = (Instant::now(), Self::default());
        while start.elapsed() < time {
            requests.sent += 1;
            if client.get(path).ok() != Some(200) {
                requests.lost += 1;
                client = Connection::open(port)?;
            }
            if requests.sent.is_multiple_of(REQUESTS_A_LOOK) {
                look()?;
            }
            shell::pause(Duration::from_millis(1));
        }
        Ok(requests)
    }

    fn figures(&self, title: impl Fn(&str) -> String) -> [Figure; 2] {
        [
            Figure::free(title("requests to the gateway"), self.sent as f64),
            Figure::with_budget(title("of these lost"), self.lost as f64, budget::NOTHING_LOST),
        ]
    }
}

/// Kills the database of a registry node, and restarts it after a minute.
pub(super) fn without_database(plan: &Plan) -> Result<Vec<Figure>> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let mut engines = Engines::start()?;
    let upstream = json!({
        "type": "roundrobin", "nodes": { format!("127.0.0.1:{}", origin.port): 1 },
    });
    let resources = json!({ "routes": [{ "id": "all", "uri": "/*", "upstream": upstream }] });
    let node = Node::start_registry(plan, &engines, &resources)?;
    let mut caller = node.caller()?;
    caller.call("RegisterInstance", &steady(0))?;
    engines.database.kill();
    let time = away(plan);
    let (mut asked, mut unanswered) = (0_u64, 0_u64);
    let requests = Requests::send(time, node.ports.http, "/", || {
        asked += 1;
        unanswered += u64::from(!is_answered(&mut caller)?);
        Ok(())
    })?;
    if caller.call("RegisterInstance", &steady(1)).is_ok() {
        bail!("a registration was acknowledged without a database");
    }
    engines.database.run();
    let back =
        taken_again("registration", || caller.call("RegisterInstance", &steady(1)).map(drop))?;
    let title = |what: &str| format!("database away for {} s: {what}", time.as_secs());
    let mut figures = Vec::from(requests.figures(title));
    figures.extend([
        Figure::free(title("heartbeats and Discovers"), asked as f64),
        Figure::with_budget(title("of these unanswered"), unanswered as f64, budget::NOTHING_LOST),
        Figure::free(title("until a registration is taken again, ms"), back),
    ]);
    Ok(figures)
}

/// Whether a heartbeat and a Discover succeed, from the node's own data.
fn is_answered(caller: &mut Caller) -> Result<bool> {
    let is_known = caller.instance_count(STEADY_SERVICE)? == 1;
    Ok(is_known && caller.call("Heartbeat", &steady(0)).is_ok())
}

/// Kills the etcd of two gateways, and restarts it after a minute. A change at one gateway must
/// then reach the other.
pub(super) fn without_etcd(plan: &Plan) -> Result<Vec<Figure>> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let mut etcd = Etcd::durable().context("etcd is not installed")?;
    let [a, b] = [(); 2].map(|()| Node::start_gateway(plan, &etcd));
    let (a, b) = (a?, b?);
    let write = |number: usize| {
        let route = serde_json::from_str(&route_json(origin.port, number))?;
        Writer::open(a.ports.admin)?.put(&format!("routes/{number}"), &route)
    };
    write(0)?;
    taken_again("route", || serves(b.ports.http, &route_path(0)))?;
    etcd.kill();
    let time = away(plan);
    let mut slowest_ms = 0_f64;
    let requests = Requests::send(time, b.ports.http, &route_path(0), || Ok(()));
    let requests = requests.context("requests")?;
    for number in 1..4 {
        let asked = Instant::now();
        if write(number).is_ok() {
            bail!("a route was acknowledged without etcd");
        }
        slowest_ms = slowest_ms.max(asked.elapsed().as_secs_f64() * 1e3);
    }
    etcd.run();
    let back =
        taken_again("route", || write(4).and_then(|()| serves(b.ports.http, &route_path(4))))?;
    let title = |what: &str| format!("etcd away for {} s: {what}", time.as_secs());
    let mut figures = Vec::from(requests.figures(title));
    figures.extend([
        Figure::with_budget(
            title("slowest refusal of a change, ms"),
            slowest_ms,
            budget::SHARED_REFUSAL_MS,
        ),
        Figure::free(title("until a route written at one serves on the other, ms"), back),
    ]);
    Ok(figures)
}

/// Checks that a request is answered with 200. Uses a new connection, because the gateway closes a
/// connection that was idle for a minute.
fn serves(port: u16, path: &str) -> Result<()> {
    match Connection::open(port)?.get(path)? {
        200 => Ok(()),
        other => bail!("{path} is answered {other}"),
    }
}

/// Repeats an action until it succeeds; returns the time until then in milliseconds.
fn taken_again(what: &str, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    while let Err(error) = act() {
        if start.elapsed() > SETTLED_MAX {
            return Err(error).with_context(|| format!("no {what} after {SETTLED_MAX:?}"));
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
