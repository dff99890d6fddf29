//! What is sent: the messages of the published files, and those that fill the registry before.

use super::server::NAMESPACE;
use serde_json::{Value, json};

/// The service of a hundred instances.
pub(super) const HUNDRED: &str = "PERF-100";
/// Its instances.
pub(super) const HUNDRED_INSTANCES: u64 = 100;
/// The published discovery asks for a service of each worker, as many as calls are under way at most.
const WORKERS: u64 = 256;
/// Instances of each of those.
const OF_A_WORKER: u64 = 3;
/// Instances of a service that nobody asks for.
const OF_OTHERS: u64 = 100;

/// The published registration.
pub(super) fn register() -> Value {
    json!({
        "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
        "service": "POLARIS-PERF-TEST-1",
        "namespace": NAMESPACE,
        "host": "fakehost-{{randomString 8 }}.com",
        "port": "{{randomInt 1000 50000}}",
        "enable_health_check": true,
        "health_check": { "type": 1, "heartbeat": { "ttl": 3 } },
        "healthy": true,
        "isolate": false,
        "ctime": "{{.TimestampUnix}}",
        "mtime": "{{.TimestampUnix}}",
    })
}

/// The published heartbeat.
pub(super) fn heartbeat() -> Value {
    json!({
        "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
        "service": "POLARIS-PERF-TEST-1",
        "namespace": NAMESPACE,
        "healthy": true,
        "isolate": false,
        "mtime": "{{.TimestampUnix}}",
    })
}

/// The published deregistration.
pub(super) fn deregister() -> Value {
    json!({
        "id": "polaris-perf-test-1-ins-{{.RequestNumber}}",
        "service": "POLARIS-PERF-TEST-1",
        "namespace": NAMESPACE,
    })
}

/// The published discovery: each worker asks for a service of its own.
pub(super) fn discover() -> Value {
    discover_of("PERF-1-TEST-SVCID-{{.WorkerID}}", None)
}

/// The discovery of one service, perhaps by somebody who knows its revision.
pub(super) fn discover_of(service: &str, revision: Option<&str>) -> Value {
    let mut message = json!({ "type": 1, "service": { "name": service, "namespace": NAMESPACE } });
    if let Some(revision) = revision {
        message["service"]["revision"] = json!(revision);
    }
    message
}

/// Registrations that fill the registry with so many instances: how many of which message. They never
/// fall silent, so that nothing happens behind what is measured.
pub(super) fn fill(instances: u64) -> [(u64, Value); 3] {
    let discovered = (WORKERS * OF_A_WORKER).min(instances);
    let hundred = HUNDRED_INSTANCES.min(instances - discovered);
    let others = instances - discovered - hundred;
    let services = (others / OF_OTHERS).max(1);
    let worker = format!("PERF-1-TEST-SVCID-g0c{{{{mod .RequestNumber {WORKERS}}}}}");
    let other = format!("PERF-OTHER-{{{{mod .RequestNumber {services}}}}}");
    [(discovered, silent(&worker)), (hundred, silent(HUNDRED)), (others, silent(&other))]
}

/// An instance without a health check, at an address of its own.
fn silent(service: &str) -> Value {
    json!({
        "service": service,
        "namespace": NAMESPACE,
        "host": "10.0.{{div .RequestNumber 250}}.{{mod .RequestNumber 250}}",
        "port": "8080",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_filled_to_the_instance() {
        for instances in [500, 1_000, 10_000, 100_000] {
            let parts = fill(instances);
            assert_eq!(parts.iter().map(|(count, _)| count).sum::<u64>(), instances);
        }
        assert_eq!(fill(1_000)[1].0, HUNDRED_INSTANCES, "a hundred are there at the smallest size");
    }
}
