//! Measures the delay until a change is visible: from the answer to a registration until Discover
//! returns the instance, and until the gateway in the same process sends requests to it. The delay
//! after a deregistration is measured too.

use super::server::{NAMESPACE, Registry};
use crate::budget::{self, Figure};
use crate::case::BODY_BYTES;
use crate::client::Connection;
use crate::measure::{percentile, wait_ms};
use crate::origin;
use crate::plan::Plan;
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const CHANGES: usize = 200;
const QUICK_CHANGES: usize = 20;
const SERVICE: &str = "converge";
/// Maximum time to wait until a change is visible.
const SEEN_MAX: Duration = Duration::from_secs(5);

/// Delays in milliseconds, by kind of change and by observer (Discover or gateway).
#[derive(Default)]
struct Delays {
    discover: Vec<f64>,
    comes: Vec<f64>,
    goes: Vec<f64>,
}

pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let origin = origin::start(plan, BODY_BYTES)?;
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
        let mut serves =
            |what, expected| wait_ms(what, SEEN_MAX, || Ok((client.get("/")? == 200) == expected));
        caller.call("RegisterInstance", &instance)?;
        let is_listed = || Ok(reader.instance_count(SERVICE)? == 1);
        self.discover.push(wait_ms("Discover shows it", SEEN_MAX, is_listed)?);
        caller.call("DeregisterInstance", &instance)?;
        serves("the gateway routes to it no more", false)?;
        caller.call("RegisterInstance", &instance)?;
        self.comes.push(serves("the gateway routes to it", true)?);
        caller.call("DeregisterInstance", &instance)?;
        self.goes.push(serves("the gateway routes to it no more", false)?);
        Ok(())
    }
}

fn figures(what: &str, mut delays: Vec<f64>) -> [Figure; 2] {
    delays.sort_by(f64::total_cmp);
    let title = |part| format!("{what} after, {part}, ms");
    [
        Figure::with_budget(title("median"), percentile(&delays, 50), budget::CHANGE_SEEN_MS),
        Figure::with_budget(title("p99"), percentile(&delays, 99), budget::CHANGE_SEEN_MS),
    ]
}
