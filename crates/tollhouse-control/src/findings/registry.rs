//! Findings about the service registry: services without a healthy instance, instances that fell
//! silent, and instances that nothing checks.

use std::sync::atomic::Ordering::Relaxed;

use tollhouse_registry::{Instance, Registry, SYSTEM_NAMESPACE, ServiceView, State};
use tollhouse_stdx::plural::{counted, counted_as};

use super::finding::{Finding, Kind, Severity};

/// Limit of findings about services, because more would hide the others.
const SERVICES_MAX: usize = 50;

/// Limit of instances named in a finding.
const NAMED_MAX: usize = 3;

/// Findings about one state of the registry, so that an unchanged state costs nothing.
#[derive(Debug, Default)]
pub(super) struct RegistryWatch {
    version: Option<u64>,
    found: Vec<Finding>,
}

impl RegistryWatch {
    /// Adds the findings about the services of a registry.
    pub(super) fn find(&mut self, state: &State, findings: &mut Vec<Finding>) {
        if self.version != Some(state.version()) {
            let services = state.services().map(|view| &**view);
            let services = services.filter(|view| *view.service.key.namespace != *SYSTEM_NAMESPACE);
            self.found = services.filter_map(find_one).take(SERVICES_MAX).collect();
            self.version = Some(state.version());
        }
        findings.extend_from_slice(&self.found);
    }
}

/// Share of the registry's memory, in per cent, from which it is a finding.
const MEMORY_PERCENT: u64 = 90;

/// Adds the findings about the registry itself: its memory, and the Redis that carries heartbeats.
pub(super) fn find_limits(registry: &Registry, bytes_max: usize, findings: &mut Vec<Finding>) {
    let totals = registry.state_full().totals();
    let percent = totals.held_bytes as u64 * 100 / (bytes_max as u64).max(1);
    if percent >= MEMORY_PERCENT {
        let severity = if percent >= 100 { Severity::Problem } else { Severity::Warning };
        let what = format!(
            "{percent} % of registry.memory_max is in use; a full registry refuses objects"
        );
        let finding =
            Finding::about(severity, Kind::LimitReached, "registry.memory_max".to_owned(), what);
        findings.push(finding.with_remedy("raise registry.memory_max, or delete what is not used"));
    }
    if totals.mass_expiries > 0 {
        let services = counted_as(totals.mass_expiries as u64, "service is", "services are");
        let what = format!("{services} in mass expiry: silent instances are kept as healthy");
        let subject = "registry mass expiry".to_owned();
        let finding = Finding::about(Severity::Warning, Kind::NodeUnhealthy, subject, what);
        let remedy = "see why heartbeats do not arrive: registry.mass_expiry_threshold keeps the instances until then";
        findings.push(finding.with_remedy(remedy));
    }
    if registry.statistics().is_channel_down.load(Relaxed) {
        let what = "the Redis of the registry takes no heartbeats: they go through the database"
            .to_owned();
        let subject = "registry redis".to_owned();
        let finding = Finding::about(Severity::Warning, Kind::PartDown, subject, what);
        findings.push(finding.with_remedy("see the log, and `tollhouse doctor`"));
    }
}

/// The worst finding about a service.
fn find_one(view: &ServiceView) -> Option<Finding> {
    let name = format!("{}/{}", view.service.key.namespace, view.service.key.name);
    // An isolated instance may be silent.
    let instances: Vec<&Instance> =
        view.instances().map(|instance| &**instance).filter(|it| !it.isolated).collect();
    let all = |is_meant: fn(&Instance) -> bool| -> Vec<&Instance> {
        instances.iter().copied().filter(|instance| is_meant(instance)).collect()
    };
    let silent = all(|instance| !instance.healthy);
    if !silent.is_empty() && silent.len() == instances.len() {
        return Some(empty(name, &silent));
    }
    if !silent.is_empty() {
        return Some(fallen_silent(name, &silent));
    }
    let unchecked = all(|instance| instance.ttl_seconds.is_none());
    (!unchecked.is_empty()).then(|| nothing_checks(name, &unchecked))
}

fn empty(service: String, silent: &[&Instance]) -> Finding {
    let instances = counted(silent.len() as u64, "instance");
    let (state, remedy) = match is_set_unhealthy(silent) {
        true => ("set unhealthy", "set the instances healthy once they serve"),
        false => {
            ("without heartbeats", "start the instances, or see why their heartbeats do not arrive")
        }
    };
    let what = format!(
        "registry service {service} has no healthy instance: {instances} {state} ({})",
        named(silent)
    );
    about(Severity::Problem, Kind::ServiceEmpty, service, what)
        .with_remedy(remedy)
        .with_count(silent.len() as u64)
        .since(silent_since_ms(silent))
}

fn fallen_silent(service: String, silent: &[&Instance]) -> Finding {
    let instances = counted(silent.len() as u64, "instance");
    let (state, remedy) = match is_set_unhealthy(silent) {
        true => ("set unhealthy", "set the instances healthy once they serve"),
        false => ("without heartbeats", "start the instances, or deregister those that are gone"),
    };
    let what = format!("registry service {service} has {instances} {state}: {}", named(silent));
    about(Severity::Warning, Kind::NodeUnhealthy, service, what)
        .with_remedy(remedy)
        .with_count(silent.len() as u64)
        .since(silent_since_ms(silent))
}

/// True if callers have set the state of these instances, which then send no heartbeats.
fn is_set_unhealthy(unhealthy: &[&Instance]) -> bool {
    unhealthy.iter().all(|instance| instance.ttl_seconds.is_none())
}

fn nothing_checks(service: String, unchecked: &[&Instance]) -> Finding {
    let instances = counted(unchecked.len() as u64, "instance");
    let counts = if unchecked.len() == 1 { "it counts" } else { "they count" };
    let what = format!(
        "nothing checks {instances} of registry service {service}: {counts} as healthy until removed ({})",
        named(unchecked)
    );
    about(Severity::Note, Kind::InstanceUnchecked, service, what)
        .with_remedy("register them with a TTL and send heartbeats")
        .with_count(unchecked.len() as u64)
}

fn about(severity: Severity, kind: Kind, service: String, what: String) -> Finding {
    Finding::about(severity, kind, format!("registry {service}"), what)
}

/// Returns the time at which the last of these instances changed its health, in milliseconds since
/// 1970.
fn silent_since_ms(silent: &[&Instance]) -> u64 {
    silent.iter().map(|instance| instance.modified_at).max().unwrap_or(0) * 1000
}

fn named(instances: &[&Instance]) -> String {
    let names = instances.iter().take(NAMED_MAX);
    let names: Vec<String> =
        names.map(|instance| format!("{}:{}", instance.host, instance.port)).collect();
    let more = if instances.len() > NAMED_MAX { ", …" } else { "" };
    names.join(", ") + more
}
