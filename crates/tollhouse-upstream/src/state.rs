//! The run-time side of one upstream, shared by all cores and carried from snapshot to snapshot.
//!
//! Building one from a changed document keeps what has been learnt: a change that does not touch
//! the nodes, the policy or the checks shares the whole node set with its predecessor; any other
//! keeps the counts and the health of the nodes that stay.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollhouse_model::Upstream;
use tollhouse_model::upstream::{
    CheckKind, Checks, Discovery, NodeTrust, PassHost, ProxyHeader, WarmUp,
};
use tollhouse_net::resolve::{Resolution, Resolver};
use tollhouse_stdx::Endpoint;

use crate::discovered::{Discovered, PublishedNode, Terms};
use crate::handle::Only;
use crate::health::state::Signal;
use crate::node::Node;
use crate::node_set::{NodeSet, Recipe};
use crate::pick::{Outcome, Pick, PickRequest, Picked, SetRef, Tried, WhenUnresolved};

/// See the module. What every pick reads comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct UpstreamState {
    members: Members,
    /// The address of the only node, when the whole pick is that.
    only: Option<Endpoint>,
    checks: Option<Arc<Checks>>,
    key: String,
    warm_up: Option<WarmUp>,
    /// `Host` of probes to nodes without a name.
    probe_host: Option<String>,
    /// Who signs the certificates of nodes, for probes; PEM.
    authorities: Option<Arc<str>>,
    /// The header that connections begin with, those of probes too.
    proxy_protocol: Option<ProxyHeader>,
    ledger: Ledger,
}

#[derive(Debug)]
enum Members {
    Fixed(Arc<NodeSet>),
    Discovered(Arc<Discovered>),
}

/// What all states of one upstream share.
#[derive(Debug, Clone, Default)]
struct Ledger {
    /// Whether a request ever asked for a node: only then is it probed.
    used: Arc<AtomicBool>,
    /// Flips of health so far.
    flips: Arc<AtomicU64>,
}

impl UpstreamState {
    /// The state of an upstream. `key` names the object that holds it, such as `routes/1`;
    /// `previous` is the state of the same key in the snapshot before.
    pub fn build(
        conf: &Upstream,
        key: &str,
        previous: Option<&Arc<Self>>,
        resolver: &Arc<Resolver>,
    ) -> Arc<Self> {
        // Counts of flips and the mark of use go on over changes: they are about the upstream, not
        // about one version of its document.
        let ledger = previous.map(|previous| previous.ledger.clone()).unwrap_or_default();
        let checks = shared_checks(conf, previous);
        let policy = conf.balance.policy;
        let flips = Arc::clone(&ledger.flips);
        let members = match &conf.discovery {
            None => {
                let recipe = Recipe {
                    nodes: conf.nodes.clone(),
                    policy,
                    checks: checks.clone(),
                    warm_up: conf.warm_up,
                };
                Members::Fixed(fixed(recipe, previous, flips, resolver))
            }
            Some(discovery) => {
                let terms = Terms {
                    discovery: discovery.clone(),
                    scheme: conf.scheme,
                    policy,
                    checks: checks.clone(),
                    warm_up: conf.warm_up,
                };
                Members::Discovered(discovered(terms, previous, flips, resolver))
            }
        };
        // Nodes that are discovered may become several at any time, so the fast path is not for
        // them.
        let only = match &members {
            Members::Fixed(set) => set.only_address(),
            Members::Discovered(_) => None,
        };
        let probe_host = match &conf.pass_host {
            PassHost::Rewrite(host) => Some(host.clone()),
            PassHost::Pass | PassHost::Node => None,
        };
        let authorities = match &conf.node_trust {
            NodeTrust::Authorities(pem) => Some(pem.as_str().into()),
            NodeTrust::Anybody | NodeTrust::System => None,
        };
        Arc::new(Self {
            key: key.to_owned(),
            members,
            only,
            checks,
            warm_up: conf.warm_up,
            probe_host,
            authorities,
            proxy_protocol: conf.proxy_protocol,
            ledger,
        })
    }

    /// The key it was built with.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its health checks.
    pub fn checks(&self) -> Option<&Arc<Checks>> {
        self.checks.as_ref()
    }

    /// Its slow start.
    pub fn warm_up(&self) -> Option<&WarmUp> {
        self.warm_up.as_ref()
    }

    /// Who keeps its nodes, where they are not listed.
    pub fn discovery(&self) -> Option<&Discovery> {
        match &self.members {
            Members::Fixed(_) => None,
            Members::Discovered(discovered) => Some(&discovered.terms().discovery),
        }
    }

    /// Its only node, where nothing is found out about it either.
    pub(crate) fn unchecked_only(&self) -> Option<Only> {
        let address = self.only.filter(|_| self.checks.is_none())?;
        match &self.members {
            Members::Fixed(set) => Some(Only { set: Arc::clone(set), address }),
            Members::Discovered(_) => None,
        }
    }

    /// How many nodes it has now; one less is the default of further attempts.
    #[inline]
    pub fn node_count(&self) -> usize {
        if self.only.is_some() {
            return 1;
        }
        match &self.members {
            Members::Fixed(set) => set.nodes().len(),
            Members::Discovered(discovered) => {
                discovered.load().as_ref().map_or(0, |set| set.nodes().len())
            }
        }
    }

    /// Chooses a node for a request, other than those it has tried. No allocation; no lock unless
    /// a node has just changed its health; for a single node with an address not even a shared
    /// write.
    #[inline]
    pub fn pick(&self, request: &PickRequest<'_>, tried: &Tried) -> Pick<'_> {
        if self.checks.is_some() {
            self.mark_used();
        }
        match (&self.members, self.only) {
            (Members::Fixed(set), Some(address)) => Pick::Node(Picked::only(set, address)),
            _ => self.pick_one_of_several(request, tried),
        }
    }

    fn pick_one_of_several(&self, request: &PickRequest<'_>, tried: &Tried) -> Pick<'_> {
        let discovered = match &self.members {
            Members::Fixed(set) => return set.pick(request, tried, || SetRef::Fixed(set)),
            Members::Discovered(discovered) => discovered,
        };
        match &*discovered.load() {
            Some(set) => set.pick(request, tried, || SetRef::Discovered(Arc::clone(set))),
            None if discovered.has_looked_up() => Pick::NoNodes,
            None => match request.when_unresolved {
                WhenUnresolved::Wait => Pick::Unresolved,
                WhenUnresolved::Skip => Pick::NoNodes,
            },
        }
    }

    fn mark_used(&self) {
        // Read first: a line that all cores write is worth avoiding.
        if !self.ledger.used.load(Ordering::Relaxed) {
            self.ledger.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request ever asked for a node; counted only for upstreams with checks.
    pub fn is_used(&self) -> bool {
        self.ledger.used.load(Ordering::Relaxed)
    }

    /// Tells how an attempt ended: moves the average of the response time and the passive checks.
    /// `now_ms` is of the same clock as that of picks.
    pub fn report(&self, picked: &Picked<'_>, outcome: Outcome, now_ms: u64) {
        if picked.needs().response_time
            && let Outcome::Answered { response_time, .. } = outcome
        {
            picked.node().vitals().response_time.observe(response_time, now_ms);
        }
        let Some(passive) = self.checks.as_ref().and_then(|checks| checks.passive.as_ref()) else {
            return;
        };
        let signal = match outcome {
            Outcome::Failed => Some(Signal::TcpFailure),
            Outcome::TimedOut => Some(Signal::TimeoutFailure),
            Outcome::Answered { .. } if passive.kind == CheckKind::Tcp => None,
            Outcome::Answered { status, .. } => Signal::from_status(status, &passive.thresholds),
        };
        if let Some(signal) = signal {
            picked.set().observe(picked.index(), signal, &passive.thresholds);
        }
    }

    /// Whether the first look-up of every name has ended.
    pub fn is_ready(&self) -> bool {
        match &self.members {
            Members::Fixed(set) => set
                .nodes()
                .iter()
                .filter_map(|node| node.name())
                .all(|name| !matches!(**name.resolution(), Resolution::Pending)),
            Members::Discovered(discovered) => discovered.has_looked_up(),
        }
    }

    /// Waits until [`is_ready`](Self::is_ready) or the time is over; tells which. Needs a runtime
    /// with a timer; look-ups run elsewhere.
    pub async fn ready(&self, timeout: Duration) -> bool {
        let ready = async {
            match &self.members {
                Members::Fixed(set) => {
                    for name in set.nodes().iter().filter_map(|node| node.name()) {
                        name.ready().await;
                    }
                }
                Members::Discovered(discovered) => discovered.looked_up().await,
            }
        };
        tokio::time::timeout(timeout, ready).await.is_ok()
    }

    /// Replaces the nodes of an upstream whose nodes the registry keeps; upstreams that list their
    /// nodes ignore it, and DNS brings its own. Equal nodes change nothing but their ages.
    pub fn publish_nodes(&self, nodes: Vec<PublishedNode>) {
        if let Members::Discovered(discovered) = &self.members {
            discovered.publish(nodes);
        }
    }

    /// Shows every node that it has now.
    pub fn each_node(&self, show: impl FnMut(&Node)) {
        if let Some(set) = self.node_set() {
            set.nodes().iter().for_each(show);
        }
    }

    /// Whether nodes may have come since this was asked last.
    pub(crate) fn take_fresh(&self) -> bool {
        self.node_set().is_some_and(|set| set.take_fresh())
    }

    /// Lets the weights of fresh nodes rise; when to come again, `None` once all have their own.
    pub(crate) fn warm(&self, now: Instant, uptime: Duration) -> Option<Instant> {
        self.node_set()?.warm(now, uptime)
    }

    /// The nodes of now; `None` while a discovered set has none.
    pub(crate) fn node_set(&self) -> Option<Arc<NodeSet>> {
        match &self.members {
            Members::Fixed(set) => Some(Arc::clone(set)),
            Members::Discovered(discovered) => discovered.set(),
        }
    }

    pub(crate) fn probe_host(&self) -> Option<&str> {
        self.probe_host.as_deref()
    }

    pub(crate) fn authorities(&self) -> Option<Arc<str>> {
        self.authorities.clone()
    }

    /// The header that connections to its nodes begin with.
    pub(crate) fn proxy_protocol(&self) -> Option<ProxyHeader> {
        self.proxy_protocol
    }
}

/// The predecessor's checks where they are equal, so that comparing them later is cheap.
fn shared_checks(conf: &Upstream, previous: Option<&Arc<UpstreamState>>) -> Option<Arc<Checks>> {
    let checks = conf.checks.as_ref()?;
    let earlier = previous.and_then(|previous| previous.checks.as_ref());
    match earlier {
        Some(earlier) if **earlier == *checks => Some(Arc::clone(earlier)),
        _ => Some(Arc::new(checks.clone())),
    }
}

fn fixed(
    recipe: Recipe,
    previous: Option<&Arc<UpstreamState>>,
    flips: Arc<AtomicU64>,
    resolver: &Resolver,
) -> Arc<NodeSet> {
    if let Some(Members::Fixed(set)) = previous.map(|previous| &previous.members)
        && *set.recipe() == recipe
    {
        return Arc::clone(set);
    }
    let previous = previous.and_then(|previous| previous.node_set());
    NodeSet::new(recipe, &[], previous.as_deref(), flips, resolver)
}

fn discovered(
    terms: Terms,
    previous: Option<&Arc<UpstreamState>>,
    flips: Arc<AtomicU64>,
    resolver: &Arc<Resolver>,
) -> Arc<Discovered> {
    let earlier = previous.and_then(|previous| match &previous.members {
        Members::Fixed(_) => None,
        Members::Discovered(discovered) => Some(discovered),
    });
    match earlier {
        Some(earlier) if *earlier.terms() == terms => Arc::clone(earlier),
        // Another policy for the same service starts with the nodes already known.
        Some(earlier) if earlier.terms().discovery == terms.discovery => {
            Discovered::start(terms, earlier.set(), flips, resolver)
        }
        _ => Discovered::start(terms, None, flips, resolver),
    }
}

#[cfg(test)]
pub(crate) mod tests;
