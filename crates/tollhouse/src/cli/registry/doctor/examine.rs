//! Derives findings, each with a remedy, from gathered facts about the registry. No IO.

use std::collections::{BTreeMap, BTreeSet};

pub use tollhouse_control::doctor::{Finding, Severity};

use super::super::table::ago;
use super::super::view::{Alias, Instance, Service, Status};
use super::probe::Probe;

/// Maximum tolerated difference between the registry's clock and the local one, in milliseconds.
/// With a larger difference, the times in lists mislead.
const CLOCK_DIFFERENCE_MS_MAX: i64 = 1_000;

/// Mean commit time in microseconds above which the disk slows registrations down.
const COMMIT_US_MAX: u64 = 20_000;

/// Minimum number of commits from which the mean commit time is evaluated.
const COMMITS_MIN: u64 = 10;

/// Minimum number of heartbeats of an instance from which their interval is evaluated.
const BEATS_MIN: u64 = 3;

/// Multiple of the agreed interval from which heartbeats count as too slow; at 1.5, every second
/// heartbeat is late. The first heartbeat of a new instance comes after one interval.
const SLOWNESS_MAX: f64 = 1.5;

/// Maximum number of examples per finding; further ones are only counted.
const EXAMPLES_MAX: usize = 3;

/// Answers of the gateway from which findings are derived.
#[derive(Debug, Default)]
pub struct Facts {
    pub status: Status,
    pub services: Vec<Service>,
    pub instances: Vec<Instance>,
    pub aliases: Vec<Alias>,
    pub probes: Vec<Probe>,
    /// Milliseconds by which the registry's clock is ahead of the local one.
    pub clock_ahead_ms: i64,
}

/// Returns all findings, the worst first.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    listeners(facts, &mut found);
    services(facts, &mut found);
    instances(facts, &mut found);
    doubles(facts, &mut found);
    aliases(facts, &mut found);
    process(facts, &mut found);
    found.sort_by_key(|finding| finding.severity);
    found
}

fn listeners(facts: &Facts, found: &mut Vec<Finding>) {
    for probe in &facts.probes {
        if let Err(reason) = &probe.outcome {
            let what = format!("{} on {} does not answer: {reason}", probe.what, probe.address);
            let remedy = "check listen.registry_grpc and listen.registry_http, and what is between \
                          here and there";
            found.push(Finding::new(Severity::Problem, what, remedy));
        }
    }
}

fn services(facts: &Facts, found: &mut Vec<Finding>) {
    for service in &facts.services {
        let name = format!("{}/{}", service.namespace, service.name);
        let counted = &service.instances;
        if let Some(expiry) = &service.mass_expiry {
            let since = ago(facts.status.now_ms, expiry.since_ms);
            let what = format!(
                "{name} is in mass expiry since {since}: {} of {} instances are silent and kept",
                expiry.kept, counted.total
            );
            let remedy = "look at the network between its instances and the registry; the threshold \
                          is registry.mass_expiry_threshold, or the service's metadata \
                          internal-service-protectthreshold";
            found.push(Finding::new(Severity::Problem, what, remedy));
        }
        // All instances are isolated on purpose, so that the lack of healthy instances is not
        // reported too.
        if counted.total > 0 && counted.isolated == counted.total {
            let what = format!("{name} gets no traffic: all of its instances are isolated");
            let remedy = "set isolated to false for some, by PATCH of the Admin API";
            found.push(Finding::new(Severity::Warning, what, remedy));
        } else if counted.total > 0 && counted.healthy == 0 {
            let what = format!("{name} has no healthy instance out of {}", counted.total);
            let remedy = "its clients get unhealthy ones or none; see `tollhouse registry list` with \
                          its name";
            found.push(Finding::new(Severity::Problem, what, remedy));
        }
    }
}

/// Examines all instances. Adds one finding per service and ailment; instances with the same
/// ailment share it.
fn instances(facts: &Facts, found: &mut Vec<Finding>) {
    let mut ailing: BTreeMap<(Ailment, String), Vec<&Instance>> = BTreeMap::new();
    for instance in &facts.instances {
        let service = format!("{}/{}", instance.namespace, instance.service);
        for ailment in Ailment::find_all(instance, &facts.status) {
            ailing.entry((ailment, service.clone())).or_default().push(instance);
        }
    }
    for ((ailment, service), instances) in ailing {
        let examples: Vec<String> =
            instances.iter().take(EXAMPLES_MAX).map(|instance| instance.address()).collect();
        let more = if instances.len() > EXAMPLES_MAX { ", …" } else { "" };
        let (severity, what, remedy) = ailment.words(instances.len());
        let what = format!("{service}: {} {what}: {}{more}", instances.len(), examples.join(", "));
        found.push(Finding::new(severity, what, remedy));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ailment {
    Unhealthy,
    SlowBeats,
    NeverBeaten,
    Isolated,
    Unchecked,
}

impl Ailment {
    fn find_all(instance: &Instance, status: &Status) -> Vec<Self> {
        // An isolated instance gets no traffic, so that missing heartbeats are not reported.
        if instance.isolated {
            return vec![Self::Isolated];
        }
        let mut found = Vec::new();
        let Some(ttl) = instance.ttl_seconds else {
            found.push(if instance.healthy { Self::Unchecked } else { Self::Unhealthy });
            return found;
        };
        let ttl_ms = u64::from(ttl) * 1_000;
        let since_ms = (instance.create_time * 1_000).max(status.started_at_ms);
        if !instance.healthy {
            found.push(Self::Unhealthy);
            return found;
        }
        match &instance.last_beat {
            None if status.now_ms.saturating_sub(since_ms) as f64
                > ttl_ms as f64 * SLOWNESS_MAX =>
            {
                found.push(Self::NeverBeaten);
            }
            Some(beat) if beat.count >= BEATS_MIN => {
                let interval_ms = beat.at_ms.saturating_sub(since_ms) as f64 / beat.count as f64;
                if interval_ms > ttl_ms as f64 * SLOWNESS_MAX {
                    found.push(Self::SlowBeats);
                }
            }
            _ => {}
        }
        found
    }

    /// Returns severity, description and remedy of the finding about this number of instances.
    fn words(self, count: usize) -> (Severity, &'static str, &'static str) {
        let of = |one: &'static str, many: &'static str| if count == 1 { one } else { many };
        match self {
            Self::Unhealthy => (
                Severity::Problem,
                "unhealthy",
                "their heartbeats stopped: look at the processes, or deregister what is gone",
            ),
            Self::SlowBeats => (
                Severity::Warning,
                of("beats slower than its TTL", "beat slower than their TTL"),
                "they become unhealthy when a beat is late; raise the TTL or beat more often",
            ),
            Self::NeverBeaten => (
                Severity::Warning,
                of(
                    "has a TTL and has never sent a heartbeat",
                    "have a TTL and have never sent a heartbeat",
                ),
                "they become unhealthy after three times the TTL; send heartbeats, or register them \
                 without a TTL",
            ),
            Self::Isolated => {
                (Severity::Note, "isolated", "no traffic goes there until isolated is false again")
            }
            Self::Unchecked => (
                Severity::Note,
                "without health check",
                "their failure is not noticed; register them with a TTL and send heartbeats",
            ),
        }
    }
}

/// Reports addresses that several instances of a service have. Such an address gets several shares
/// of the traffic, and one of the ids stays registered when the process deregisters with the other.
fn doubles(facts: &Facts, found: &mut Vec<Finding>) {
    let mut ids: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for instance in &facts.instances {
        let service = format!("{}/{}", instance.namespace, instance.service);
        ids.entry((service, instance.address())).or_default().push(&instance.id);
    }
    for ((service, address), ids) in ids.into_iter().filter(|(_, ids)| ids.len() > 1) {
        let shown: Vec<&str> = ids.iter().copied().take(EXAMPLES_MAX).collect();
        let more = if ids.len() > EXAMPLES_MAX { ", …" } else { "" };
        let what = format!(
            "{service}: {address} is registered under {} ids: {}{more}",
            ids.len(),
            shown.join(", ")
        );
        let remedy = "deregister all but one; let the id be computed, or give a fixed one";
        found.push(Finding::new(Severity::Warning, what, remedy));
    }
}

fn aliases(facts: &Facts, found: &mut Vec<Finding>) {
    let services = facts.services.iter();
    let known: BTreeSet<(&str, &str)> =
        services.map(|service| (&*service.namespace, &*service.name)).collect();
    for alias in &facts.aliases {
        let target = (&*alias.target.namespace, &*alias.target.name);
        if !known.contains(&target) {
            let what = format!(
                "the alias {}/{} leads to {}/{}, which is not there",
                alias.namespace, alias.name, target.0, target.1
            );
            found.push(Finding::new(
                Severity::Problem,
                what,
                "create the service, or delete the alias",
            ));
        }
    }
}

fn process(facts: &Facts, found: &mut Vec<Finding>) {
    let counted = &facts.status.counted;
    let mean_us = counted.commit_us.checked_div(counted.commits).unwrap_or_default();
    if counted.commits >= COMMITS_MIN && mean_us > COMMIT_US_MAX {
        let what = format!("making registrations durable takes {} ms on average", mean_us / 1_000);
        let remedy = "put data_dir on a faster disk; registering waits for it, heartbeats do not";
        found.push(Finding::new(Severity::Warning, what, remedy));
    }
    if facts.clock_ahead_ms.abs() > CLOCK_DIFFERENCE_MS_MAX {
        let ahead = facts.clock_ahead_ms as f64 / 1e3;
        let what = format!("the registry's clock is {ahead:+.1} s from the one here");
        let remedy = "set both by NTP; a registry follows a step of its machine's clock only when it \
                      starts, and health does not depend on it";
        found.push(Finding::new(Severity::Warning, what, remedy));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::view::{Counters, HeartbeatCounts, InstanceCounts, MassExpiry, Name};
    use super::*;

    const NOW_MS: u64 = 1_000_000_000;

    fn status() -> Status {
        Status { now_ms: NOW_MS, started_at_ms: NOW_MS - 600_000, ..Status::default() }
    }

    fn instance(id: &str) -> Instance {
        Instance {
            id: id.into(),
            namespace: "ns".into(),
            service: "svc".into(),
            host: format!("host-{id}"),
            port: 80,
            healthy: true,
            ttl_seconds: Some(5),
            last_beat: Some(HeartbeatCounts { at_ms: NOW_MS - 1_000, count: 120 }),
            create_time: (NOW_MS - 900_000) / 1_000,
            ..Instance::default()
        }
    }

    fn found_in(facts: Facts) -> Vec<(Severity, String)> {
        let found = examine(&facts);
        found.into_iter().map(|finding| (finding.severity, finding.what)).collect()
    }

    #[test]
    fn instances_are_checked_by_their_state_and_their_beats() {
        let beats = |count, at_ms| Some(HeartbeatCounts { at_ms, count });
        let table = [
            (instance("a"), None),
            (Instance { last_beat: beats(110, NOW_MS), ..instance("a") }, None),
            (
                Instance { last_beat: beats(60, NOW_MS), ..instance("a") },
                Some((Severity::Warning, "ns/svc: 1 beats slower than its TTL: host-a:80")),
            ),
            (Instance { last_beat: beats(2, NOW_MS), ..instance("a") }, None),
            (
                Instance { last_beat: None, ..instance("a") },
                Some((Severity::Warning, "1 has a TTL and has never sent a heartbeat: host-a:80")),
            ),
            (Instance { last_beat: None, create_time: NOW_MS / 1_000 - 4, ..instance("a") }, None),
            // The first heartbeat is due just now.
            (Instance { last_beat: None, create_time: NOW_MS / 1_000 - 7, ..instance("a") }, None),
            (
                Instance { last_beat: None, create_time: NOW_MS / 1_000 - 8, ..instance("a") },
                Some((Severity::Warning, "never sent a heartbeat")),
            ),
            (
                Instance { healthy: false, ..instance("a") },
                Some((Severity::Problem, "ns/svc: 1 unhealthy: host-a:80")),
            ),
            (
                Instance { isolated: true, ..instance("a") },
                Some((Severity::Note, "ns/svc: 1 isolated: host-a:80")),
            ),
            (
                Instance { isolated: true, healthy: false, ..instance("a") },
                Some((Severity::Note, "ns/svc: 1 isolated: host-a:80")),
            ),
            (
                Instance { ttl_seconds: None, ..instance("a") },
                Some((Severity::Note, "without health check")),
            ),
        ];
        for (number, (instance, expected)) in table.into_iter().enumerate() {
            let facts = Facts { status: status(), instances: vec![instance], ..Facts::default() };
            let found = found_in(facts);
            match expected {
                None => assert_eq!(found, [], "{number}"),
                Some((severity, words)) => {
                    assert_eq!(found.len(), 1, "{number}: {found:?}");
                    assert_eq!(found[0].0, severity, "{number}");
                    assert!(found[0].1.contains(words), "{number}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn many_alike_are_one_finding() {
        let silent = |id: &str| Instance { healthy: false, ..instance(id) };
        let instances = ["a", "b", "c", "d", "e"].map(silent).into();
        let found = found_in(Facts { status: status(), instances, ..Facts::default() });
        let expected = "ns/svc: 5 unhealthy: host-a:80, host-b:80, host-c:80, …";
        assert_eq!(found, [(Severity::Problem, expected.to_owned())]);
        let mute = |id: &str| Instance { last_beat: None, ..instance(id) };
        let instances = ["a", "b"].map(mute).into();
        let found = found_in(Facts { status: status(), instances, ..Facts::default() });
        let expected = "ns/svc: 2 have a TTL and have never sent a heartbeat: host-a:80, host-b:80";
        assert_eq!(found, [(Severity::Warning, expected.to_owned())]);
    }

    #[test]
    fn services_addresses_and_aliases_are_looked_through() {
        let services = vec![Service {
            namespace: "ns".into(),
            name: "svc".into(),
            instances: InstanceCounts { total: 2, ..InstanceCounts::default() },
            mass_expiry: Some(MassExpiry { since_ms: NOW_MS - 60_000, kept: 2 }),
            ..Service::default()
        }];
        let twin = Instance { id: "b".into(), ..instance("a") };
        let alias = |target: &str| Alias {
            namespace: "ns".into(),
            name: "alias".into(),
            target: Name { namespace: "ns".into(), name: target.into() },
        };
        let found = found_in(Facts {
            status: status(),
            services,
            instances: vec![instance("a"), twin],
            aliases: vec![alias("svc"), alias("gone")],
            ..Facts::default()
        });
        let expected = [
            "ns/svc is in mass expiry since 60s ago: 2 of 2 instances are silent and kept",
            "ns/svc has no healthy instance out of 2",
            "the alias ns/alias leads to ns/gone, which is not there",
            "ns/svc: host-a:80 is registered under 2 ids: a, b",
        ];
        let told: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_service_without_instances_for_traffic_is_told() {
        let table = [
            ((0, 0, 0), None),
            ((3, 1, 2), None),
            ((2, 0, 2), Some("ns/svc gets no traffic: all of its instances are isolated")),
            ((3, 0, 1), Some("ns/svc has no healthy instance out of 3")),
        ];
        for ((total, healthy, isolated), expected) in table {
            let instances =
                InstanceCounts { total, healthy, isolated, ..InstanceCounts::default() };
            let (namespace, name) = ("ns".to_owned(), "svc".to_owned());
            let services = vec![Service { namespace, name, instances, ..Service::default() }];
            let found = found_in(Facts { status: status(), services, ..Facts::default() });
            let told = found.first().map(|(_, what)| what.as_str());
            assert_eq!(told, expected, "{total} {healthy} {isolated}");
        }
    }

    #[test]
    fn disk_clock_and_listeners_are_checked() {
        let probe = |outcome| Probe { what: "gRPC", address: "a:1".into(), outcome };
        let counted = Counters { commits: 10, commit_us: 300_000 };
        let found = found_in(Facts {
            status: Status { counted, ..status() },
            clock_ahead_ms: -2_500,
            probes: vec![probe(Ok(Duration::ZERO)), probe(Err("refused".into()))],
            ..Facts::default()
        });
        let told: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).collect();
        let expected = [
            "gRPC on a:1 does not answer: refused",
            "making registrations durable takes 30 ms on average",
            "the registry's clock is -2.5 s from the one here",
        ];
        assert_eq!(told, expected);
    }
}
