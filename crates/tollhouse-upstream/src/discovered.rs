//! A discovered node set: nodes from DNS, or from another registry through `publish`.
//!
//! The set is replaced as a whole while requests continue; nodes that stay keep their vitals.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};
use tollhouse_model::upstream::{Checks, Discovery, Node, Policy, Scheme, WarmUp};
use tollhouse_net::resolve::{Question, Record, Resolution, ResolvedName, Resolver};

use crate::node_set::{NodeSet, Recipe};

/// A node as published by its registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedNode {
    pub node: Node,
    /// Time since the node started, if known; used by slow start.
    pub age: Option<Duration>,
}

impl From<Node> for PublishedNode {
    fn from(node: Node) -> Self {
        Self { node, age: None }
    }
}

/// Properties of a discovered set; equal ones are shared across changes of the upstream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Terms {
    pub(crate) discovery: Discovery,
    pub(crate) scheme: Scheme,
    pub(crate) policy: Policy,
    pub(crate) checks: Option<Arc<Checks>>,
    pub(crate) warm_up: Option<WarmUp>,
}

pub(crate) struct Discovered {
    terms: Terms,
    set: ArcSwapOption<NodeSet>,
    /// Whether a first look-up has ended, with success or failure.
    looked_up: watch::Sender<bool>,
    flips: Arc<AtomicU64>,
    resolver: Arc<Resolver>,
    /// Held while a new set is built from the previous one.
    publishing: Mutex<()>,
    /// Ends the task that follows DNS.
    dropped: Arc<Notify>,
}

impl Discovered {
    /// Starts following the source. Until the first answer, the nodes of a predecessor are used.
    pub(crate) fn start(
        terms: Terms,
        previous: Option<Arc<NodeSet>>,
        flips: Arc<AtomicU64>,
        resolver: &Arc<Resolver>,
    ) -> Arc<Self> {
        let name_of_dns = match &terms.discovery {
            Discovery::Dns { service_name } => Some(service_name.clone()),
            Discovery::Registry(_) => None,
        };
        let discovered = Arc::new(Self {
            terms,
            set: ArcSwapOption::empty(),
            // Other registries publish when they have nodes, so there is nothing to wait for.
            looked_up: watch::Sender::new(name_of_dns.is_none() || previous.is_some()),
            flips,
            resolver: Arc::clone(resolver),
            publishing: Mutex::new(()),
            dropped: Arc::default(),
        });
        if let Some(previous) = previous {
            discovered.replace(previous.recipe().nodes.clone(), &[], Some(&*previous));
        }
        if let Some(service) = name_of_dns {
            let (name, port) = split_service_name(&service);
            let follow = Follow {
                name: resolver.watch(Question::Service(name.to_owned())),
                port: port.unwrap_or(default_port(discovered.terms.scheme)),
                discovered: Arc::downgrade(&discovered),
                dropped: Arc::clone(&discovered.dropped),
            };
            resolver.runtime().spawn(follow.run());
        }
        discovered
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(crate) fn set(&self) -> Option<Arc<NodeSet>> {
        self.set.load_full()
    }

    pub(crate) fn load(&self) -> arc_swap::Guard<Option<Arc<NodeSet>>> {
        self.set.load()
    }

    pub(crate) fn has_looked_up(&self) -> bool {
        *self.looked_up.borrow()
    }

    pub(crate) async fn looked_up(&self) {
        let mut looked_up = self.looked_up.subscribe();
        // An error would mean that the sender is gone, but it is part of `self`.
        let _ = looked_up.wait_for(|done| *done).await;
    }

    /// Replaces the nodes; equal nodes only update their ages.
    pub(crate) fn publish(&self, published: Vec<PublishedNode>) {
        let _publishing = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let ages: Vec<_> = published.iter().map(|published| published.age).collect();
        let nodes: Vec<_> = published.into_iter().map(|published| published.node).collect();
        let previous = self.set.load_full();
        match previous.as_deref() {
            Some(previous) if previous.recipe().nodes == nodes => previous.retell(&ages),
            previous => self.replace(nodes, &ages, previous),
        }
        self.note_look_up();
    }

    fn replace(&self, nodes: Vec<Node>, ages: &[Option<Duration>], previous: Option<&NodeSet>) {
        let Terms { policy, checks, warm_up, .. } = self.terms.clone();
        let recipe = Recipe { nodes, policy, checks, warm_up };
        let set = NodeSet::new(recipe, ages, previous, Arc::clone(&self.flips), &self.resolver);
        self.set.store(Some(set));
    }

    fn note_look_up(&self) {
        self.looked_up.send_if_modified(|done| !std::mem::replace(done, true));
    }
}

impl std::fmt::Debug for Discovered {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Discovered").field("terms", &self.terms).finish_non_exhaustive()
    }
}

impl Drop for Discovered {
    fn drop(&mut self) {
        self.dropped.notify_one();
    }
}

/// Task that turns DNS answers into nodes.
struct Follow {
    name: Arc<ResolvedName>,
    port: u16,
    discovered: Weak<Discovered>,
    dropped: Arc<Notify>,
}

impl Follow {
    async fn run(self) {
        let mut changes = self.name.changes();
        loop {
            changes.mark_unchanged();
            let Some(discovered) = self.discovered.upgrade() else { return };
            match &**self.name.resolution() {
                Resolution::Pending => {}
                Resolution::Known(records) => {
                    let node = |record| node_of(record, self.port).into();
                    discovered.publish(records.iter().map(node).collect());
                }
                Resolution::Failed => discovered.publish(Vec::new()),
            }
            drop(discovered);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = self.dropped.notified() => return,
            }
        }
    }
}

fn node_of(record: &Record, port: u16) -> Node {
    let address = SocketAddr::new(record.address, record.port.unwrap_or(port));
    Node {
        host: address.ip().to_string(),
        port: address.port(),
        socket: None,
        weight: u32::from(record.weight),
        // In DNS, a lower number is preferred.
        priority: -i32::from(record.priority),
    }
}

fn split_service_name(service_name: &str) -> (&str, Option<u16>) {
    match service_name.rsplit_once(':') {
        Some((name, port)) => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (service_name, None),
        },
        None => (service_name, None),
    }
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http | Scheme::Grpc | Scheme::Tcp | Scheme::Udp => 80,
        Scheme::Https | Scheme::Grpcs | Scheme::Tls => 443,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_name_may_carry_a_port() {
        for (text, expected) in [
            ("web.example", ("web.example", None)),
            ("web.example:1980", ("web.example", Some(1980))),
            ("web.example:x", ("web.example:x", None)),
        ] {
            assert_eq!(split_service_name(text), expected);
        }
    }

    #[test]
    fn a_record_keeps_its_port_weight_and_priority() {
        let plain = Record::plain("10.0.0.1".parse().unwrap());
        let full = Record { port: Some(9000), priority: 10, weight: 5, ..plain };
        for (record, expected) in
            [(plain, ("10.0.0.1", 80, 1, 0)), (full, ("10.0.0.1", 9000, 5, -10))]
        {
            let node = node_of(&record, 80);
            assert_eq!((node.host.as_str(), node.port, node.weight, node.priority), expected);
        }
    }
}
