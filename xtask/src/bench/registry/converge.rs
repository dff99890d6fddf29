//! Delay until a change is visible: from the answer to a registration until Discover returns the
//! instance, and until the gateway in the same process sends requests to it. The delay after a
//! deregistration is measured too.

use super::server::{NAMESPACE, Registry};
use crate::bench::admin::percentile;
use crate::bench::budget::{self, Figure};
use crate::bench::case::BODY_BYTES;
use crate::bench::client::Connection;
use crate::bench::origin;
use crate::bench::plan::Plan;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CHANGES: usize = 200;
const QUICK_CHANGES: usize = 20;
const SERVICE: &str = "converge";
/// Maximum time to wait until a change is visible.
const SEEN_MAX: Duration = Duration::from_secs(5);

/// Delays in milliseconds, by change and observer.
#[derive(Default)]
struct Delays {
    discover: Vec<f64>,
    comes: Vec<f64>,
    goes: Vec<f64>,
}

pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let origin = origin::start(&plan.cores, BODY_BYTES)?;
    let upstream = json!({
        "type": "roundrobin",
        "discovery_type": "registry",
        "service_name": format!("{NAMESPACE}/{SERVICE}"),
    });
    let route = json!({ "id": "converge", "uri": "/*", "upstream": upstream });
    let registry = Registry::start(plan, &json!({ "routes": [route] }))?;
    let changes = if plan.is_quick { QUICK_CHANGES } else { CHANGES };
    let mut delays = Delays::default();
    for _ in 0..changes {
        delays.change(&registry, origin.port)?;
    }
    let figures = [
        figures("a registration is seen by Discover", delays.discover),
        figures("a registration is routed to", delays.comes),
        figures("a deregistration is routed to no more", delays.goes),
    ];
    Ok(figures.into_iter().flatten().collect())
}

impl Delays {
    /// Registers and deregisters one instance, and measures the delays.
    fn change(&mut self, registry: &Registry, port: u16) -> Result<()> {
        let mut caller = registry.caller()?;
        let mut reader = registry.caller()?;
        let mut client = Connection::open(registry.gateway)?;
        let instance = json!({
            "service": SERVICE, "namespace": NAMESPACE, "host": "127.0.0.1", "port": port,
        });
        caller.call("RegisterInstance", &instance)?;
        let answered = Instant::now();
        wait(answered, "Discover does not show it", || Ok(count(&reader.discover(SERVICE)?) == 1))?;
        self.discover.push(since(answered));
        caller.call("DeregisterInstance", &instance)?;
        wait(Instant::now(), "the gateway still routes to it", || Ok(client.get("/")? != 200))?;
        caller.call("RegisterInstance", &instance)?;
        let answered = Instant::now();
        wait(answered, "the gateway does not route to it", || Ok(client.get("/")? == 200))?;
        self.comes.push(since(answered));
        caller.call("DeregisterInstance", &instance)?;
        let answered = Instant::now();
        wait(answered, "the gateway still routes to it", || Ok(client.get("/")? != 200))?;
        self.goes.push(since(answered));
        Ok(())
    }
}

fn count(answer: &Value) -> usize {
    answer["instances"].as_array().map_or(0, Vec::len)
}

fn since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn wait(start: Instant, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    while !is_so().with_context(|| format!("waiting while {what}"))? {
        if start.elapsed() > SEEN_MAX {
            bail!("{what} after {SEEN_MAX:?}");
        }
    }
    Ok(())
}

fn figures(what: &str, mut delays: Vec<f64>) -> [Figure; 2] {
    delays.sort_by(f64::total_cmp);
    let title = |part| format!("{what} after, {part}, ms");
    [
        Figure::with_budget(title("median"), percentile(&delays, 50), budget::CHANGE_SEEN_MS),
        Figure::with_budget(title("p99"), percentile(&delays, 99), budget::CHANGE_SEEN_MS),
    ]
}
