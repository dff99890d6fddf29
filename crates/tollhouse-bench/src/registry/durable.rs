//! Measures the two calls that write, registration and deregistration, by one client that waits for
//! each answer.

use super::generator::{End, Load};
use super::server::{NAMESPACE, Registry};
use crate::admin::disk_figure;
use crate::budget::{self, Figure};
use crate::plan::Plan;
use anyhow::Result;
use serde_json::json;

const CALLS: u64 = 1_000;
const QUICK_CALLS: u64 = 200;
const SERVICE: &str = "durable";

/// Measures both calls, and for comparison a write to the same disk that is flushed.
pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let registry = Registry::start(plan, &json!({}))?;
    let mut figures = vec![disk_figure(registry.data())?];
    let calls = if plan.is_quick { QUICK_CALLS } else { CALLS };
    let id = "durable-{{.RequestNumber}}";
    let register = json!({
        "id": id, "service": SERVICE, "namespace": NAMESPACE,
        "host": "10.0.0.1", "port": "{{add 1000 .RequestNumber}}",
    });
    let deregister = json!({ "id": id, "service": SERVICE, "namespace": NAMESPACE });
    for (name, method, message) in [
        ("register", "RegisterInstance", register),
        ("deregister", "DeregisterInstance", deregister),
    ] {
        let load = Load::closed(method, message, 1, End::Calls(calls));
        let sample = load.run(plan, &registry)?;
        let title = |what| format!("{name} by one client, durable, {what}, µs");
        figures.push(Figure::with_budget(title("p50"), sample.p50, budget::DURABLE_CALL_US));
        figures.push(Figure::free(title("p99"), sample.p99));
    }
    Ok(figures)
}
