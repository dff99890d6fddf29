//! Storm of heartbeats: every instance sends a heartbeat each five seconds, and the registry must
//! not consider any instance silent.

use super::generator::{End, Load};
use super::server::{NAMESPACE, Registry};
use crate::budget::{self, Figure};
use crate::plan::Plan;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::time::Duration;

const INSTANCES: u64 = 100_000;
const QUICK_INSTANCES: u64 = 5_000;
/// Interval between two heartbeats of an instance, and TTL of the instance, in seconds. After three
/// times this period without a heartbeat, the instance is unhealthy.
const BEAT_SECONDS: u64 = 5;
/// Number of instances of each service.
const OF_A_SERVICE: u64 = 100;
/// Duration of the storm, long enough for an instance without heartbeats to become unhealthy.
const STORM: Duration = Duration::from_secs(30);
const QUICK_STORM: Duration = Duration::from_secs(5);
/// Number of services whose instances are checked in the end.
const SERVICES_LOOKED_AT: u64 = 20;

pub(super) fn run(plan: &Plan) -> Result<Vec<Figure>> {
    let (instances, storm) =
        if plan.is_quick { (QUICK_INSTANCES, QUICK_STORM) } else { (INSTANCES, STORM) };
    let registry = Registry::start(plan, &json!({}))?;
    let register = Load::closed("RegisterInstance", instance(instances), 64, End::Calls(instances));
    register.run(plan, &registry)?;
    let beats = Load {
        rate: Some(instances as f64 / BEAT_SECONDS as f64),
        ..Load::closed("Heartbeat", beat(instances), 64, End::After(storm))
    };
    let sample = beats.run(plan, &registry)?;
    let memory = registry.memory_mib()?;
    look_for_silence(&registry, instances)?;
    let of_a_core = sample.server_cpu * sample.calls / 1e6 / sample.seconds;
    let title = |what| format!("{instances} instances that beat every {BEAT_SECONDS} s: {what}");
    Ok(vec![
        Figure::with_budget(title("cores used"), of_a_core, budget::STORM_CORES),
        Figure::with_budget(title("memory, MiB"), memory, budget::STORM_MIB),
        Figure::free(title("CPU of a beat, µs"), sample.server_cpu),
        Figure::free(title("p99 of a beat, ms"), sample.p99 / 1e3),
        Figure::free(title("longest beat, ms"), sample.max / 1e3),
    ])
}

fn service_of(number: u64) -> String {
    format!("STORM-{number}")
}

fn instance(instances: u64) -> Value {
    let services = instances / OF_A_SERVICE;
    json!({
        "id": "storm-{{.RequestNumber}}",
        "service": format!("STORM-{{{{mod .RequestNumber {services}}}}}"),
        "namespace": NAMESPACE,
        "host": "10.0.{{div .RequestNumber 250}}.{{mod .RequestNumber 250}}",
        "port": "8080",
        "enable_health_check": true,
        "health_check": { "type": 1, "heartbeat": { "ttl": BEAT_SECONDS } },
    })
}

fn beat(instances: u64) -> Value {
    json!({ "id": format!("storm-{{{{mod .RequestNumber {instances}}}}}") })
}

/// Checks that every instance is healthy after its heartbeats.
fn look_for_silence(registry: &Registry, instances: u64) -> Result<()> {
    let mut caller = registry.caller()?;
    let services = instances / OF_A_SERVICE;
    for number in (0..services).step_by((services / SERVICES_LOOKED_AT).max(1) as usize) {
        let answer = caller.discover(&service_of(number))?;
        let list = answer["instances"].as_array().map_or(&[][..], Vec::as_slice);
        let healthy = list.iter().filter(|instance| instance["healthy"] == true).count() as u64;
        if healthy != OF_A_SERVICE {
            let service = service_of(number);
            bail!("{service}: {healthy} of {OF_A_SERVICE} instances are healthy after the storm");
        }
    }
    Ok(())
}
