//! Run-time state of one upstream, shared by all cores and carried from snapshot to snapshot.
//!
//! Building a state from a changed upstream keeps what was learnt. If nodes, policy and checks are
//! unchanged, the whole node set is shared with the predecessor. Otherwise the remaining nodes keep
//! their counters and health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollhouse_model::Upstream;
use tollhouse_model::upstream::{
    CheckKind, Checks, Discovery, NodeTrust, PassHost, ProxyHeader, Scheme, WarmUp,
};
use tollhouse_net::resolve::{Resolution, Resolver};
use tollhouse_stdx::Endpoint;

use crate::discovered::{Discovered, PublishedNode, Terms};
use crate::handle::SingleNode;
use crate::health::state::Signal;
use crate::node::Node;
use crate::node_set::{Inherited, NodeSet, Recipe};
use crate::pick::{Outcome, Pick, PickRequest, Picked, SetRef, Tried, WhenUnresolved};

/// Run-time state of an upstream. The fields that every pick reads come first.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct UpstreamState {
    members: Members,
    /// Address of the only node, if a pick needs nothing else.
    only: Option<Endpoint>,
    checks: Option<Arc<Checks>>,
    key: Box<str>,
    warm_up: Option<WarmUp>,
    /// `Host` of probes to nodes without a name.
    probe_host: Option<String>,
    /// Authorities (PEM) that verify the certificates of nodes, for probes.
    authorities: Option<Arc<str>>,
    /// PROXY protocol header at the start of connections, probes included.
    proxy_protocol: Option<ProxyHeader>,
    ledger: Ledger,
}

#[derive(Debug)]
enum Members {
    Fixed(Arc<NodeSet>),
    Discovered(Arc<Discovered>),
}

/// A service that provides nodes, and the data that following it may need.
#[derive(Debug, Clone, Copy)]
pub struct DiscoveryContext<'a> {
    pub service: &'a Discovery,
    pub scheme: Scheme,
    pub resolver: &'a Arc<Resolver>,
}

/// State shared by all versions of one upstream.
#[derive(Debug, Clone, Default)]
struct Ledger {
    /// Set once a request has picked a node; probing starts only then.
    used: Arc<AtomicBool>,
    /// Number of changes of a node's health.
    flips: Arc<AtomicU64>,
}

impl UpstreamState {
    /// Builds the state of an upstream. `key` names the object that contains it, such as
    /// `routes/1`; `previous` is the state of that key in the previous snapshot.
    pub fn build(
        conf: &Upstream,
        key: &str,
        previous: Option<&Arc<Self>>,
        resolver: &Arc<Resolver>,
    ) -> Arc<Self> {
        // Flips and the mark of use belong to the upstream and not to one version of its
        // configuration, so they are carried over.
        // A plain upstream shares its ledger with its twins.
        let ledger = previous.filter(|previous| !previous.is_plain());
        let ledger = ledger.map(|previous| previous.ledger.clone()).unwrap_or_default();
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
        // Discovered nodes may increase at any time, so the fast path does not apply.
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
            key: key.into(),
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

    /// Returns the state of another upstream with the same configuration, which shares the node and
    /// its vitals. `None` unless the upstream is a single unchecked node with a literal address,
    /// because others have states of their own.
    pub fn twin(&self, key: &str) -> Option<Arc<Self>> {
        let Members::Fixed(set) = &self.members else { return None };
        self.is_plain().then(|| {
            Arc::new(Self {
                key: key.into(),
                members: Members::Fixed(Arc::clone(set)),
                only: self.only,
                checks: None,
                warm_up: None,
                probe_host: self.probe_host.clone(),
                authorities: self.authorities.clone(),
                proxy_protocol: self.proxy_protocol,
                ledger: self.ledger.clone(),
            })
        })
    }

    /// Whether the upstream is a single node with a literal address, without checks and slow start.
    fn is_plain(&self) -> bool {
        self.only.is_some() && self.checks.is_none() && self.warm_up.is_none()
    }

    /// Returns the key of the object that contains the upstream.
    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn checks(&self) -> Option<&Arc<Checks>> {
        self.checks.as_ref()
    }

    pub fn warm_up(&self) -> Option<&WarmUp> {
        self.warm_up.as_ref()
    }

    /// Returns the service that provides the nodes, if they are discovered.
    pub fn discovery(&self) -> Option<DiscoveryContext<'_>> {
        match &self.members {
            Members::Fixed(_) => None,
            Members::Discovered(discovered) => {
                let terms = discovered.terms();
                let resolver = discovered.resolver();
                Some(DiscoveryContext { service: &terms.discovery, scheme: terms.scheme, resolver })
            }
        }
    }

    /// Returns the node of an upstream with a single node, if the node has no health checks.
    pub(crate) fn unchecked_only(&self) -> Option<SingleNode> {
        let address = self.only.filter(|_| self.checks.is_none())?;
        match &self.members {
            Members::Fixed(set) => Some(SingleNode { set: Arc::clone(set), address }),
            Members::Discovered(_) => None,
        }
    }

    /// Returns the current number of nodes; one less is the default number of retries.
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

    /// Chooses a node that the request has not tried. Never allocates; takes a lock only if a node
    /// has just changed its health. A single node with a literal address needs not even a shared
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
        // Read first, because a cache line that all cores write is expensive.
        if !self.ledger.used.load(Ordering::Relaxed) {
            self.ledger.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request has ever picked a node; recorded only for upstreams with checks.
    pub fn is_used(&self) -> bool {
        self.ledger.used.load(Ordering::Relaxed)
    }

    /// Records the outcome of an attempt for the average response time and the passive checks.
    /// `now_ms` is a time of the clock that picks use.
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

    /// Waits for [`is_ready`](Self::is_ready); returns `false` after `timeout`. Needs a runtime
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

    /// Replaces the nodes of an upstream with nodes of its discovery source; unchanged nodes only
    /// update their ages. Upstreams with listed nodes ignore the call.
    pub fn publish_nodes(&self, nodes: Vec<PublishedNode>) {
        if let Members::Discovered(discovered) = &self.members {
            discovered.publish(nodes);
        }
    }

    /// Calls `show` with each current node.
    pub fn each_node(&self, show: impl FnMut(&Node)) {
        if let Some(set) = self.node_set() {
            set.nodes().iter().for_each(show);
        }
    }

    /// Whether new nodes may have been added since the last call.
    pub(crate) fn take_fresh(&self) -> bool {
        self.node_set().is_some_and(|set| set.take_fresh())
    }

    /// Raises the weights of new nodes; returns the time of the next step, `None` once all have
    /// their full weight.
    pub(crate) fn warm(&self, now: Instant, uptime: Duration) -> Option<Instant> {
        self.node_set()?.warm(now, uptime)
    }

    /// Returns the current node set; `None` while a discovered set is empty.
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

    pub(crate) fn proxy_protocol(&self) -> Option<ProxyHeader> {
        self.proxy_protocol
    }
}

/// Checks of the upstream; the predecessor's if equal, so that later comparisons are cheap.
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
    // The node of a plain upstream may be shared with its twins, whose configuration stays.
    let is_shared = previous.is_some_and(|previous| previous.is_plain());
    if let Some(Members::Fixed(set)) = previous.map(|previous| &previous.members)
        && *set.recipe() == recipe
        && !is_shared
    {
        return Arc::clone(set);
    }
    let previous = previous.and_then(|previous| previous.node_set());
    let inherited = match previous.as_deref() {
        Some(previous) if is_shared => Inherited::Copies(previous),
        Some(previous) => Inherited::Vitals(previous),
        None => Inherited::Nothing,
    };
    NodeSet::new(recipe, &[], inherited, flips, resolver)
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
            Discovered::new(terms, earlier.set(), flips, resolver)
        }
        _ => Discovered::new(terms, None, flips, resolver),
    }
}

#[cfg(test)]
pub(crate) mod tests;
