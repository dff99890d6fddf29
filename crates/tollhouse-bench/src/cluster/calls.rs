//! Measures the CPU time that registry calls cost the nodes, and the number of calls per second.

use super::nodes::{Engines, Node};
use crate::budget::{self, Figure};
use crate::plan::Plan;
use crate::registry::{End, Load, NAMESPACE};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const CALLS: u64 = 40_000;
const QUICK_CALLS: u64 = 2_000;
/// Number of instances that send heartbeats to one node, each as fast as the node answers.
const BEATING: u64 = 20_000;
const QUICK_BEATING: u64 = 1_000;
const BEAT_SECONDS: u64 = 5;
const BEATS: Duration = Duration::from_secs(20);
const QUICK_BEATS: Duration = Duration::from_secs(3);
/// Number of concurrent calls, as in the published report.
const IN_FLIGHT: u64 = 64;

/// Measures one registry node on its database and Redis first, then three nodes.
pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let engines = Engines::start()?;
    let mut figures = Vec::new();
    let first = Node::start_registry(plan, &engines, &json!({}))?;
    let calls = if plan.is_quick { QUICK_CALLS } else { CALLS };
    let id = "call-{{.RequestNumber}}";
    let register = json!({
        "id": id, "service": "calls", "namespace": NAMESPACE,
        "host": "10.0.0.1", "port": "{{add 1000 .RequestNumber}}",
    });
    let deregister = json!({ "id": id, "service": "calls", "namespace": NAMESPACE });
    for (name, method, message, cpu_us, per_second) in [
        ("register", "RegisterInstance", register, budget::POLARIS_REGISTER_US, 1_383.0),
        ("deregister", "DeregisterInstance", deregister, budget::POLARIS_DEREGISTER_US, 1_285.0),
    ] {
        let load = Load::closed(method, message, IN_FLIGHT, End::Calls(calls));
        let sample = load.run_at(plan, first.ports.registry_grpc, &|| first.cpu_time())?;
        let title = |what| format!("{name} over MariaDB, {IN_FLIGHT} at a time: {what}");
        let rate = sample.calls / sample.seconds;
        figures.extend([
            Figure::free(title("CPU, µs"), sample.server_cpu),
            Figure::with_budget(
                title("CPU against Polaris'"),
                sample.server_cpu / cpu_us,
                budget::SHARED_CALL_CPU,
            ),
            Figure::free(title("calls a second"), rate),
            Figure::with_budget(
                title("calls a second against Polaris'"),
                rate / per_second,
                budget::SHARED_CALL_RATE,
            ),
            Figure::free(title("p99, µs"), sample.p99),
        ]);
    }
    figures.extend(beats(plan, &engines, first)?);
    Ok(figures)
}

fn beats(plan: &Plan, engines: &Engines, first: Node) -> Result<Vec<Figure>> {
    let nodes = [
        first,
        Node::start_registry(plan, engines, &json!({}))?,
        Node::start_registry(plan, engines, &json!({}))?,
    ];
    let (beating, time) =
        if plan.is_quick { (QUICK_BEATING, QUICK_BEATS) } else { (BEATING, BEATS) };
    let id = format!("beat-{{{{mod .RequestNumber {beating}}}}}");
    let instance = json!({
        "id": id, "service": format!("s{{{{mod .RequestNumber {}}}}}", beating / 100),
        "namespace": NAMESPACE, "host": "10.0.0.2", "port": 80, "enable_health_check": true,
        "health_check": { "type": 1, "heartbeat": { "ttl": BEAT_SECONDS } },
    });
    let grpc = nodes[0].ports.registry_grpc;
    // The CPU time is the sum over all three nodes, because nodes that get no calls apply the
    // changes of the others.
    let cpu = || nodes.iter().map(Node::cpu_time).sum::<Result<Duration>>();
    Load::closed("RegisterInstance", instance, IN_FLIGHT, End::Calls(beating))
        .run_at(plan, grpc, &cpu)?;
    let beat =
        json!({ "id": id, "service": "s", "namespace": NAMESPACE, "host": "10.0.0.2", "port": 80 });
    let load = Load::closed("Heartbeat", beat, IN_FLIGHT, End::After(time));
    let sample = load.run_at(plan, grpc, &cpu)?;
    let title = |what| format!("heartbeat at one of three nodes over Redis: {what}");
    Ok(vec![
        Figure::free(title("calls a second"), sample.calls / sample.seconds),
        Figure::free(title("CPU of all three, µs"), sample.server_cpu),
        Figure::with_budget(
            title("CPU against Polaris'"),
            sample.server_cpu / budget::POLARIS_HEARTBEAT_US,
            budget::SHARED_BEAT_CPU,
        ),
        Figure::free(title("p99, µs"), sample.p99),
    ])
}
