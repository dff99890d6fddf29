//! Selection of the instances of a service that serve, with their weights. Pure functions over the
//! registry's data.
//!
//! Isolated instances and those of weight 0 never serve. Unhealthy instances are left out, unless
//! too few are healthy: if all expire at once, the network between them and the registry is more
//! likely broken than the instances.

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;
use tollhouse_model::upstream::{Discovery, Node};
use tollhouse_upstream::PublishedNode;

use super::NEVER_PROTECTED;
use super::reach::Reach;

/// Maximum length of an accepted host in characters, the limit of a DNS name.
const HOST_CHARS_MAX: usize = 253;

/// Instance of a service, as seen by the selection of nodes.
#[derive(Clone, Copy)]
pub struct InstanceFacts<'a> {
    pub host: &'a str,
    pub port: u32,
    /// Share of the traffic, relative to other instances.
    pub weight: u32,
    /// Whether heartbeats of the instance arrive.
    pub is_healthy: bool,
    /// Whether an operator has taken it out of traffic.
    pub is_isolated: bool,
    /// Version; empty if it has none.
    pub version: &'a str,
    /// Reports whether its metadata contains this key with this value.
    pub has_pair: &'a dyn Fn(&str, &str) -> bool,
    /// Duration since the registration of the instance.
    pub age: Duration,
}

/// Number of instances by use. Each instance counts once, in the first category that applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub total: usize,
    /// Number of instances without the requested metadata or version.
    pub filtered_out: usize,
    /// Number of instances that an operator keeps out of traffic.
    pub isolated: usize,
    /// Number of instances with weight 0.
    pub weightless: usize,
    /// Number of instances without a usable host or port.
    pub unreachable: usize,
    /// Number of instances with the address of a listener of this gateway, or with an address of
    /// this machine that registry clients may not use.
    pub forbidden: usize,
    /// Number of instances whose heartbeats are missing.
    pub unhealthy: usize,
    /// Number of instances that serve.
    pub healthy: usize,
}

/// Counts of the instances by state, and the number of selected nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SelectionResult {
    pub(super) counts: Counts,
    /// Whether unhealthy instances serve, because too few are healthy.
    pub(super) is_protected: bool,
    pub(super) nodes: usize,
}

/// Selection while a service's instances are visited.
pub(super) struct Selection<'s> {
    service: &'s Discovery,
    ages: Ages,
    reach: &'s Reach,
    counts: Counts,
    candidates: Vec<(PublishedNode, Health)>,
}

/// Use of node ages, which only slow start needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ages {
    Told,
    Unused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Healthy,
    Unhealthy,
}

impl<'s> Selection<'s> {
    pub(super) fn new(service: &'s Discovery, ages: Ages, reach: &'s Reach) -> Self {
        Self { service, ages, reach, counts: Counts::default(), candidates: Vec::new() }
    }

    /// Counts an instance by its state, and adds it to the candidates if it may receive requests.
    pub(super) fn take(&mut self, facts: &InstanceFacts<'_>) {
        let counts = &mut self.counts;
        counts.total += 1;
        let host = without_brackets(facts.host);
        let port = u16::try_from(facts.port).unwrap_or(0);
        if !is_asked_for(self.service, facts) {
            counts.filtered_out += 1;
        } else if facts.is_isolated {
            counts.isolated += 1;
        } else if facts.weight == 0 {
            counts.weightless += 1;
        } else if port == 0 || !can_be_connected_to(host) {
            counts.unreachable += 1;
        } else if self.reach.forbids(host, port) {
            counts.forbidden += 1;
        } else {
            let health = if facts.is_healthy { Health::Healthy } else { Health::Unhealthy };
            match health {
                Health::Healthy => counts.healthy += 1,
                Health::Unhealthy => counts.unhealthy += 1,
            }
            let node = Node {
                host: host.to_owned(),
                port,
                socket: None,
                weight: facts.weight,
                priority: 0,
            };
            let age = (self.ages == Ages::Told).then_some(facts.age);
            self.candidates.push((PublishedNode { node, age }, health));
        }
    }

    /// Returns the nodes that serve, in the registry's order and without duplicate addresses.
    pub(super) fn finish(self, protect_threshold: f64) -> (Vec<PublishedNode>, SelectionResult) {
        let Counts { healthy, unhealthy, .. } = self.counts;
        let enough = protect_threshold.clamp(0.0, 1.0) * (healthy + unhealthy) as f64;
        let may_protect = protect_threshold > NEVER_PROTECTED;
        let is_protected = may_protect && unhealthy > 0 && healthy as f64 <= enough;
        let serves = |health| is_protected || health == Health::Healthy;
        let mut nodes: Vec<PublishedNode> = self
            .candidates
            .into_iter()
            .filter(|(_, health)| serves(*health))
            .map(|(node, _)| node)
            .collect();
        drop_doubles(&mut nodes);
        let selected = SelectionResult { counts: self.counts, is_protected, nodes: nodes.len() };
        (nodes, selected)
    }
}

/// Removes duplicate addresses: two instances at one address are one server, and a retry must not
/// try it again.
fn drop_doubles(nodes: &mut Vec<PublishedNode>) {
    let mut seen = HashSet::with_capacity(nodes.len());
    let is_first: Vec<bool> = nodes
        .iter()
        .map(|published| seen.insert((&published.node.host, published.node.port)))
        .collect();
    if seen.len() == nodes.len() {
        return;
    }
    let mut first = is_first.into_iter();
    nodes.retain(|_| first.next().unwrap_or(true));
}

fn is_asked_for(service: &Discovery, facts: &InstanceFacts<'_>) -> bool {
    let has = |(key, value): (&String, &String)| (facts.has_pair)(key, value);
    service.version.as_deref().is_none_or(|version| version == facts.version)
        && service.metadata.iter().all(has)
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// Whether the host is plausible. The registry accepts any text as a host.
fn can_be_connected_to(host: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (1..=HOST_CHARS_MAX).contains(&host.len()) && host.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use tollhouse_model::upstream::DiscoverySource;

    use super::*;

    fn service() -> Discovery {
        Discovery::new(DiscoverySource::Registry, "prod", "orders")
    }

    fn facts(port: u32) -> InstanceFacts<'static> {
        InstanceFacts {
            host: "10.0.0.1",
            port,
            weight: 100,
            is_healthy: true,
            is_isolated: false,
            version: "",
            has_pair: &|_, _| false,
            age: Duration::ZERO,
        }
    }

    fn select(threshold: f64, instances: &[InstanceFacts<'_>]) -> (Vec<u16>, SelectionResult) {
        let service = service();
        let reach = Reach::default();
        let mut selection = Selection::new(&service, Ages::Unused, &reach);
        instances.iter().for_each(|facts| selection.take(facts));
        let (nodes, selected) = selection.finish(threshold);
        (nodes.iter().map(|published| published.node.port).collect(), selected)
    }

    #[test]
    fn who_serves_follows_from_isolation_weight_and_health() {
        let healthy = facts;
        let unhealthy = |port| InstanceFacts { is_healthy: false, ..facts(port) };
        let isolated = |port| InstanceFacts { is_isolated: true, ..facts(port) };
        let weightless = |port| InstanceFacts { weight: 0, ..facts(port) };
        let none: &[u16] = &[];
        for (instances, ports, is_protected) in [
            (vec![healthy(1), healthy(2)], &[1, 2][..], false),
            (vec![healthy(1), unhealthy(2), healthy(3)], &[1, 3], false),
            (vec![unhealthy(1), unhealthy(2)], &[1, 2], true),
            (vec![unhealthy(1), isolated(2), weightless(3)], &[1], true),
            (vec![isolated(1), weightless(2)], none, false),
            (vec![healthy(0), healthy(65_536)], none, false),
            (vec![], none, false),
        ] {
            let (found, selected) = select(0.0, &instances);
            assert_eq!((found.as_slice(), selected.is_protected), (ports, is_protected));
            assert_eq!(selected.counts.total, instances.len());
        }
    }

    #[test]
    fn a_threshold_lets_unhealthy_instances_serve_earlier() {
        let all = |healthy: u32, unhealthy: u32| -> Vec<InstanceFacts<'_>> {
            let one = |port| InstanceFacts { is_healthy: port <= healthy, ..facts(port) };
            (1..=healthy + unhealthy).map(one).collect()
        };
        for (threshold, healthy, unhealthy, nodes) in [
            (0.5, 5, 5, 10),
            (0.5, 6, 4, 6),
            (0.5, 0, 3, 3),
            (1.0, 9, 1, 10),
            (0.0, 1, 9, 1),
            (f64::NAN, 1, 9, 1),
            (-1.0, 0, 2, 2),
            (7.0, 2, 0, 2),
        ] {
            let (ports, _) = select(threshold, &all(healthy, unhealthy));
            assert_eq!(ports.len(), nodes, "{threshold} {healthy} {unhealthy}");
        }
    }

    #[test]
    fn filters_ask_for_every_pair_and_the_version() {
        let zone = |key: &str, value: &str| (key, value) == ("zone", "a");
        let both = |key: &str, value: &str| zone(key, value) || (key, value) == ("tier", "gold");
        let instances = [
            InstanceFacts { has_pair: &zone, ..facts(1) },
            InstanceFacts { has_pair: &both, version: "2", ..facts(2) },
            InstanceFacts { version: "2", ..facts(3) },
        ];
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        for (metadata, version, ports) in [
            (vec![], None, &[1, 2, 3][..]),
            (vec![pair("zone", "a")], None, &[1, 2]),
            (vec![pair("zone", "a"), pair("tier", "gold")], None, &[2]),
            (vec![], Some("2"), &[2, 3]),
            (vec![pair("zone", "b")], None, &[]),
            (vec![pair("zone", "a")], Some("3"), &[]),
        ] {
            let version = version.map(str::to_owned);
            let service =
                Discovery { metadata: metadata.into_iter().collect(), version, ..service() };
            let reach = Reach::default();
            let mut selection = Selection::new(&service, Ages::Unused, &reach);
            instances.iter().for_each(|facts| selection.take(facts));
            let (nodes, selected) = selection.finish(0.0);
            let found: Vec<u16> = nodes.iter().map(|published| published.node.port).collect();
            assert_eq!(found, ports, "{service:?}");
            assert_eq!(selected.counts.filtered_out, 3 - ports.len());
        }
    }

    #[test]
    fn an_address_serves_once_and_only_if_it_can_be_one() {
        let at = |host| InstanceFacts { host, ..facts(1) };
        let instances = [at("[::1]"), at("::1"), at("web"), at(""), at("a b"), at("web")];
        let service = service();
        let reach = Reach::default();
        let mut selection = Selection::new(&service, Ages::Told, &reach);
        instances.iter().for_each(|facts| selection.take(facts));
        let (nodes, selected) = selection.finish(0.0);
        let hosts: Vec<&str> = nodes.iter().map(|published| published.node.host.as_str()).collect();
        assert_eq!(hosts, ["::1", "web"]);
        assert_eq!(nodes[0].age, Some(Duration::ZERO));
        assert_eq!((selected.counts.unreachable, selected.nodes), (2, 2));
    }
}
