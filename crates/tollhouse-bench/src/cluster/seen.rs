//! Measures the delay from a change at one node until another node serves it.

use super::nodes::{Engines, Node};
use crate::admin::Writer;
use crate::budget::{self, Budget, Figure};
use crate::case::BODY_BYTES;
use crate::client::Connection;
use crate::gateway::{route_json, route_path};
use crate::measure::{percentile, wait_ms};
use crate::origin;
use crate::plan::Plan;
use crate::registry::NAMESPACE;
use anyhow::{Context, Result};
use serde_json::json;
use std::time::Duration;
use tollhouse_testkit::Etcd;

const CHANGES: usize = 300;
const QUICK_CHANGES: usize = 20;
/// Maximum time to wait until a change is visible.
const SEEN_MAX: Duration = Duration::from_secs(10);

pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let changes = if plan.is_quick { QUICK_CHANGES } else { CHANGES };
    let registered = registrations(plan, changes).context("registrations")?;
    let routed = routes(plan, changes).context("routes")?;
    let registered = figures(
        "registered at one node over MariaDB, discovered at another",
        registered,
        budget::SHARED_REGISTRATION_SEEN_MS,
    );
    let routed = figures(
        "route written at one gateway over etcd, served by another",
        routed,
        budget::SHARED_ROUTE_SEEN_MS,
    );
    Ok(registered.into_iter().chain(routed).collect())
}

fn registrations(plan: &Plan, changes: usize) -> Result<Vec<f64>> {
    let engines = Engines::start()?;
    let [a, b] = [(); 2].map(|()| Node::start_registry(plan, &engines, &json!({})));
    let (a, b) = (a?, b?);
    let (mut caller, mut reader) = (a.caller()?, b.caller()?);
    let mut delays = Vec::with_capacity(changes);
    for number in 0..changes {
        let service = format!("seen-{number}");
        let instance = json!({
            "service": service, "namespace": NAMESPACE, "host": "10.0.0.1", "port": 80,
        });
        caller.call("RegisterInstance", &instance)?;
        let is_listed = || Ok(reader.instance_count(&service)? == 1);
        delays.push(wait_ms("the other node lists it", SEEN_MAX, is_listed)?);
    }
    Ok(delays)
}

fn routes(plan: &Plan, changes: usize) -> Result<Vec<f64>> {
    let origin = origin::start(plan, BODY_BYTES)?;
    let etcd = Etcd::durable().context("etcd is not installed")?;
    let [a, b] = [(); 2].map(|()| Node::start_gateway(plan, &etcd));
    let (a, b) = (a?, b?);
    let mut writer = Writer::open(a.ports.admin)?;
    let mut client = Connection::open(b.ports.http)?;
    let mut delays = Vec::with_capacity(changes);
    for number in 0..changes {
        let route = serde_json::from_str(&route_json(origin.port, number))?;
        writer.put(&format!("routes/{number}"), &route)?;
        let path = route_path(number);
        let is_served = || Ok(client.get(&path)? == 200);
        delays.push(wait_ms("the other gateway serves it", SEEN_MAX, is_served)?);
    }
    Ok(delays)
}

fn figures(what: &str, mut delays: Vec<f64>, budget: Budget) -> [Figure; 2] {
    delays.sort_by(f64::total_cmp);
    [
        Figure::free(format!("{what} after, median, ms"), percentile(&delays, 50)),
        Figure::with_budget(format!("{what} after, p99, ms"), percentile(&delays, 99), budget),
    ]
}
