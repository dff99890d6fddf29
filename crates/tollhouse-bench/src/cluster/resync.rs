//! Latency of plain requests while a gateway reads all its resources again. Its etcd is killed and
//! comes back in the state of some changes ago, so that all routes are listed, compared and put
//! into service beside the requests.

use super::nodes::Node;
use crate::admin::{Object, Writer, put_all};
use crate::budget::{self, Figure};
use crate::case::BODY_BYTES;
use crate::client::Connection;
use crate::gateway::{route_json, route_path};
use crate::measure::percentile;
use crate::origin;
use crate::plan::Plan;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tollhouse_testkit::Etcd;

const ROUTES: usize = 10_000;
const QUICK_ROUTES: usize = 500;

/// Duration of the comparison measurement, during which nothing is read again.
const QUIET: Duration = Duration::from_secs(10);
const QUICK_QUIET: Duration = Duration::from_secs(2);

/// Maximum time to wait until the gateway has read all resources again.
const RESYNC_MAX: Duration = Duration::from_secs(120);

pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let (routes, quiet) = if plan.is_quick { (QUICK_ROUTES, QUICK_QUIET) } else { (ROUTES, QUIET) };
    let origin = origin::start(plan, BODY_BYTES)?;
    let mut etcd = Etcd::durable().context("etcd is not installed")?;
    let gateway = Node::start_gateway(plan, &etcd)?;
    let route = |number: usize| {
        let route = serde_json::from_str(&route_json(origin.port, number));
        Object { path: format!("routes/{number}"), value: route.unwrap_or(Value::Null) }
    };
    put_all(gateway.ports.admin, routes, route)?;
    etcd.kill();
    etcd.copy();
    // etcd gets a low priority, so that its start takes no CPU time from the gateway. In production
    // it would run on another machine.
    etcd.give_way();
    etcd.run();
    // This route is not in the copy of the store, so that its absence shows when the gateway serves
    // the copy. The first attempts to write it may come before the gateway is ready.
    let end = Instant::now() + RESYNC_MAX;
    let last = route(routes);
    while let Err(error) = Writer::open(gateway.ports.admin)?.put(&last.path, &last.value) {
        if Instant::now() > end {
            return Err(error);
        }
    }
    let port = gateway.ports.http;
    let is_over = AtomicBool::new(false);
    let before = latencies(port, || false, quiet)?;
    let (during, resync) = std::thread::scope(|scope| -> Result<_> {
        let load = scope.spawn(|| latencies(port, || is_over.load(Ordering::Relaxed), RESYNC_MAX));
        let resync = resync(&mut etcd, port, &route_path(routes));
        is_over.store(true, Ordering::Relaxed);
        let during = load.join().map_err(|_| anyhow::anyhow!("the load panicked"))??;
        Ok((during, resync?))
    })?;
    let p99 = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        percentile(&all, 99)
    };
    let (before, during) = (p99(before), p99(during));
    let what = format!("{routes} routes read anew from an etcd that was restored");
    Ok(vec![
        Figure::free(format!("{what}, ms from its loss to the last change in service"), resync),
        Figure::free(format!("{what}: p99 of plain requests before, ms"), before),
        Figure::with_budget(
            format!("{what}: p99 of plain requests meanwhile, over that before"),
            during / before,
            budget::SHARED_RESYNC_P99,
        ),
    ])
}

/// Kills etcd and brings it back in its old state; returns the milliseconds until the gateway
/// serves that state.
fn resync(etcd: &mut Etcd, port: u16, gone: &str) -> Result<f64> {
    let began = Instant::now();
    etcd.kill();
    etcd.put_back();
    etcd.run();
    let mut client = Connection::open(port)?;
    while client.get(gone)? != 404 {
        if began.elapsed() > RESYNC_MAX {
            bail!("the gateway still serves what its etcd does not have");
        }
        // The pause between requests keeps their own load negligible.
        std::thread::park_timeout(Duration::from_millis(20));
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// Sends requests for at most `longest`, or until `is_over` returns true, and returns the latency
/// of each in milliseconds.
///
/// # Errors
/// If a request is not answered with 200.
fn latencies(port: u16, is_over: impl Fn() -> bool, longest: Duration) -> Result<Vec<f64>> {
    let (mut client, path, began) = (Connection::open(port)?, route_path(0), Instant::now());
    let mut all = Vec::new();
    while began.elapsed() < longest && !is_over() {
        let asked = Instant::now();
        let status = client.get(&path)?;
        if status != 200 {
            bail!("a request was answered {status}");
        }
        all.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(all)
}
