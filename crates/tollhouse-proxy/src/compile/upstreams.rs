//! Upstreams ready to serve: objects in slots, inline ones by the route or service they stand in.
//!
//! Node state (health, cursors, counts) is carried over from version to version, and connection
//! pools are numbered here by what makes connections interchangeable.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use tollhouse_model::secret::SecretText;
use tollhouse_model::ssl::CertificatePair;
use tollhouse_model::upstream::{
    Discovery, HashOn, HttpVersion, KeepalivePool, NodeTrust, PassHost, ProxyHeader, Scheme,
    UpstreamTls,
};
use tollhouse_model::{Id, Service, Timeouts, Upstream};
use tollhouse_net::resolve::Resolver;
use tollhouse_net::tls::{self, Trust};
use tollhouse_stdx::CowVec;
use tollhouse_telemetry::object_counts::UNCOUNTED;
use tollhouse_upstream::{UpstreamChange, UpstreamHandle, UpstreamState};

use super::driven::Driven;
use crate::hash_key::HashKey;
use crate::settings::Settings;
use crate::snapshot::{NodeHost, UpstreamEntry, UpstreamTerms};

/// Slots of upstream objects in a snapshot.
pub(super) type Slots = CowVec<Option<Arc<UpstreamEntry>>>;

/// The upstreams of the configuration.
#[derive(Debug)]
pub(super) struct Upstreams {
    resolver: Arc<Resolver>,
    keepalive: KeepalivePool,
    disables_checks: bool,
    slots: HashMap<Id, u32>,
    objects: HashMap<Id, Arc<UpstreamEntry>>,
    of_routes: HashMap<Id, Arc<UpstreamEntry>>,
    of_services: HashMap<Id, Arc<UpstreamEntry>>,
    of_stream_routes: HashMap<Id, Arc<UpstreamEntry>>,
    /// Those that stand in confs of plugins, by key; weak, since their steps own them.
    of_plugins: HashMap<String, Weak<UpstreamEntry>>,
    /// Those whose nodes change beside requests, by key; kept apart so that publishing does not
    /// look at every upstream.
    driven: Driven,
    pools: HashMap<PoolIdentity, u32>,
    /// How nodes are spoken to, by what says so.
    terms: HashMap<TermsKey, Weak<UpstreamTerms>>,
    /// The pairs of ssl objects for the way to nodes.
    certificates: HashMap<Id, Arc<CertificatePair>>,
}

/// What makes connections to one address interchangeable.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PoolIdentity {
    scheme: Scheme,
    http_version: HttpVersion,
    /// Where nodes are told whom connections come for, each of them is for one client.
    proxy_protocol: Option<ProxyHeader>,
    client_certificate: Option<(String, String)>,
    /// Connections of others, which show nodes no certificate, are not to be used in place of one that cannot be made.
    lacks_certificate: bool,
    /// A connection to whoever answered is none to a node that was verified.
    node_trust: NodeTrust,
    /// An upstream with a pool of its own shares it with nobody else.
    isolated: Option<(String, KeepalivePool)>,
}

/// What makes nodes be spoken to alike.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TermsKey {
    /// Stands for all that a [`PoolIdentity`] is made of.
    pool: u32,
    node_host: NodeHost,
    pass_host: PassHost,
    keepalive: KeepalivePool,
    timeouts: Timeouts,
    hash_on: Option<HashOn>,
}

impl Upstreams {
    pub(super) fn new(resolver: Arc<Resolver>, settings: &Settings) -> Self {
        Self {
            resolver,
            keepalive: settings.upstream_keepalive,
            disables_checks: settings.disable_health_checks,
            slots: HashMap::new(),
            objects: HashMap::new(),
            of_routes: HashMap::new(),
            of_services: HashMap::new(),
            of_stream_routes: HashMap::new(),
            of_plugins: HashMap::new(),
            driven: Driven::default(),
            pools: HashMap::new(),
            terms: HashMap::new(),
            certificates: HashMap::new(),
        }
    }

    /// What has changed since the last time about the upstreams that somebody must drive: with
    /// health checks, with slow start, or with nodes of the registry. Costs what has changed, and a
    /// look at each driven upstream of a plugin.
    pub(super) fn take_driven_changes(&mut self) -> Vec<UpstreamChange> {
        let of_plugins = &self.of_plugins;
        self.driven.let_go(|key| of_plugins.get(key).is_some_and(|of| of.strong_count() == 0));
        self.driven.take_changes()
    }

    /// Sets or forgets the pair of an ssl object; whether that changes anything.
    pub(super) fn set_certificate(&mut self, id: &Id, pair: Option<CertificatePair>) -> bool {
        if self.certificates.get(id).map(|pair| &**pair) == pair.as_ref() {
            return false;
        }
        match pair {
            Some(pair) => self.certificates.insert(id.clone(), Arc::new(pair)),
            None => self.certificates.remove(id),
        };
        true
    }

    /// Builds those upstream objects anew that show nodes the certificate `id`.
    pub(super) fn rebuild_with(&mut self, id: &Id, slots: &mut Slots) {
        let using = self.objects.iter().filter(|(_, entry)| shows(&entry.conf, id));
        let using: Vec<_> = using.map(|(id, entry)| (id.clone(), entry.conf.clone())).collect();
        for (id, conf) in using {
            self.set(&id, conf, slots);
        }
    }

    /// Whether an upstream in the conf of a plugin shows nodes the certificate `id`.
    pub(super) fn plugin_shows(&self, id: &Id) -> bool {
        let mut entries = self.of_plugins.values().filter_map(Weak::upgrade);
        entries.any(|entry| shows(&entry.conf, id))
    }

    /// What nodes of `upstream` are shown.
    fn client_pair(&self, upstream: &Upstream) -> Option<Arc<CertificatePair>> {
        match upstream.tls.as_ref()? {
            UpstreamTls::Object(id) => self.certificates.get(id).cloned(),
            UpstreamTls::Pair { client_cert, client_key } => Some(Arc::new(CertificatePair {
                cert: client_cert.clone(),
                key: SecretText::new(client_key.as_str()),
            })),
        }
    }

    /// The slot of the object `id`, which may not exist yet.
    pub(super) fn slot(&mut self, id: &Id, slots: &mut Slots) -> u32 {
        *self.slots.entry(id.clone()).or_insert_with(|| slots.push(None))
    }

    /// Sets the object `id`.
    pub(super) fn set(&mut self, id: &Id, upstream: Arc<Upstream>, slots: &mut Slots) {
        let previous = self.objects.get(id).cloned();
        let slot = self.slot(id, slots);
        let key = format!("upstreams/{id}");
        let entry = self.build((&key, slot), &upstream, previous.as_ref(), NodeHost::WithPort);
        self.objects.insert(id.clone(), Arc::clone(&entry));
        slots.update(slot, |held| *held = Some(entry));
    }

    /// Removes the object `id`; its slot stays for routes that still name it.
    pub(super) fn remove(&mut self, id: &Id, slots: &mut Slots) {
        self.objects.remove(id);
        self.driven.remove(&format!("upstreams/{id}"));
        if let Some(slot) = self.slots.get(id) {
            slots.update(*slot, |held| *held = None);
        }
    }

    /// The inline upstream of a route; unchanged ones are kept as they are.
    pub(super) fn set_route(&mut self, route: &Id, upstream: &Arc<Upstream>) -> Arc<UpstreamEntry> {
        let previous = self.of_routes.get(route).cloned();
        let key = format!("routes/{route}");
        let inline = (&*key, UNCOUNTED);
        let entry = self.build(inline, upstream, previous.as_ref(), NodeHost::WithPort);
        self.of_routes.insert(route.clone(), Arc::clone(&entry));
        entry
    }

    /// Forgets the inline upstream of a route.
    pub(super) fn remove_route(&mut self, route: &Id) {
        if self.of_routes.remove(route).is_some() {
            self.driven.remove(&format!("routes/{route}"));
        }
    }

    /// The inline upstream of a stream route; unchanged ones are kept as they are.
    pub(super) fn set_stream_route(
        &mut self,
        route: &Id,
        upstream: &Arc<Upstream>,
    ) -> Arc<UpstreamEntry> {
        let previous = self.of_stream_routes.get(route).cloned();
        let key = format!("stream_routes/{route}");
        let entry = self.build((&key, UNCOUNTED), upstream, previous.as_ref(), NodeHost::Bare);
        self.of_stream_routes.insert(route.clone(), Arc::clone(&entry));
        entry
    }

    /// Forgets the inline upstream of a stream route.
    pub(super) fn remove_stream_route(&mut self, route: &Id) {
        if self.of_stream_routes.remove(route).is_some() {
            self.driven.remove(&format!("stream_routes/{route}"));
        }
    }

    /// Sets or forgets the inline upstream of a service.
    pub(super) fn set_service(&mut self, service: &Service) {
        let Some(upstream) = &service.upstream else { return self.remove_service(&service.id) };
        let previous = self.of_services.get(&service.id).cloned();
        let key = format!("services/{}", service.id);
        let inline = (&*key, UNCOUNTED);
        let entry = self.build(inline, upstream, previous.as_ref(), NodeHost::WithPort);
        self.of_services.insert(service.id.clone(), entry);
    }

    /// The inline upstream of a service.
    pub(super) fn service(&self, id: &Id) -> Option<Arc<UpstreamEntry>> {
        self.of_services.get(id).cloned()
    }

    /// Forgets the inline upstream of a service.
    pub(super) fn remove_service(&mut self, id: &Id) {
        if self.of_services.remove(id).is_some() {
            self.driven.remove(&format!("services/{id}"));
        }
    }

    /// An upstream that stands in the conf of a plugin; an unchanged one is kept as it is.
    pub(super) fn set_plugin(&mut self, key: String, upstream: &Upstream) -> Arc<UpstreamEntry> {
        self.set_shared(key, upstream, NodeHost::Bare)
    }

    /// An upstream that lasts for as long as somebody holds it; an unchanged one is kept as it is.
    pub(super) fn set_shared(
        &mut self,
        key: String,
        upstream: &Upstream,
        node_host: NodeHost,
    ) -> Arc<UpstreamEntry> {
        let previous = self.of_plugins.get(&key).and_then(Weak::upgrade);
        let upstream = Arc::new(upstream.clone());
        let entry = self.build((&key, UNCOUNTED), &upstream, previous.as_ref(), node_host);
        // What nobody uses any more is swept when as much again has been added.
        if self.of_plugins.len().is_power_of_two() {
            let driven = &mut self.driven;
            self.of_plugins.retain(|key, entry| {
                let is_used = entry.strong_count() > 0;
                if !is_used {
                    driven.remove(key);
                }
                is_used
            });
        }
        self.driven.is_of_plugin(&key);
        self.of_plugins.insert(key, Arc::downgrade(&entry));
        entry
    }

    /// An upstream by its key; what its requests are counted by is the slot of an object.
    fn build(
        &mut self,
        (key, number): (&str, u32),
        upstream: &Arc<Upstream>,
        previous: Option<&Arc<UpstreamEntry>>,
        node_host: NodeHost,
    ) -> Arc<UpstreamEntry> {
        let client_pair = self.client_pair(upstream);
        let is_same =
            |it: &&Arc<UpstreamEntry>| *it.conf == **upstream && it.client_pair == client_pair;
        if let Some(previous) = previous.filter(is_same) {
            return Arc::clone(previous);
        }
        // Health, connections to discovery and the cursor of a balancer go on through a change.
        let state = previous.map(|previous| previous.state.state());
        let state = if self.disables_checks && upstream.checks.is_some() {
            let unchecked = Upstream { checks: None, ..(**upstream).clone() };
            UpstreamState::build(&unchecked, key, state, &self.resolver)
        } else {
            UpstreamState::build(upstream, key, state, &self.resolver)
        };
        if is_driven(&state) {
            self.driven.insert(key, Arc::clone(&state));
        } else {
            self.driven.remove(key);
        }
        Arc::new(UpstreamEntry {
            state: UpstreamHandle::new(state),
            terms: self.terms(key, upstream, client_pair.as_deref(), node_host),
            number,
            conf: Arc::clone(upstream),
            client_pair,
        })
    }

    /// How the nodes of an upstream are spoken to: what another one has, where that is the same.
    fn terms(
        &mut self,
        key: &str,
        upstream: &Upstream,
        pair: Option<&CertificatePair>,
        node_host: NodeHost,
    ) -> Arc<UpstreamTerms> {
        let same = TermsKey {
            pool: self.pool(key, upstream, pair),
            node_host,
            pass_host: upstream.pass_host.clone(),
            keepalive: upstream.keepalive_pool.unwrap_or(self.keepalive),
            timeouts: upstream.timeout.unwrap_or_default(),
            hash_on: upstream.balance.hash_on.clone(),
        };
        if let Some(terms) = self.terms.get(&same).and_then(Weak::upgrade) {
            return terms;
        }
        let terms = Arc::new(UpstreamTerms {
            pool: same.pool,
            speaks_http2: upstream.speaks_http2(),
            node_host,
            proxy_protocol: upstream.proxy_protocol,
            pass_host: same.pass_host.clone(),
            keepalive: same.keepalive,
            connector: connector(upstream, pair),
            hash_key: HashKey::compile(&upstream.balance),
            timeouts: same.timeouts,
        });
        // What nobody uses any more is swept when as much again has been added.
        if self.terms.len().is_power_of_two() {
            self.terms.retain(|_, terms| terms.strong_count() > 0);
        }
        self.terms.insert(same, Arc::downgrade(&terms));
        terms
    }

    fn pool(&mut self, key: &str, upstream: &Upstream, pair: Option<&CertificatePair>) -> u32 {
        let identity = PoolIdentity {
            scheme: upstream.scheme,
            http_version: upstream.http_version,
            proxy_protocol: upstream.proxy_protocol,
            client_certificate: pair.map(|it| (it.cert.clone(), it.key.expose().to_owned())),
            lacks_certificate: upstream.tls.is_some() && pair.is_none(),
            node_trust: upstream.node_trust.clone(),
            isolated: upstream.keepalive_pool.map(|pool| (key.to_owned(), pool)),
        };
        let next = u32::try_from(self.pools.len()).unwrap_or(u32::MAX);
        *self.pools.entry(identity).or_insert(next)
    }
}

/// Whether its nodes change by more than what requests find out.
fn is_driven(state: &UpstreamState) -> bool {
    let is_registered = matches!(state.discovery(), Some(Discovery::Registry(_)));
    is_registered || state.checks().is_some() || state.warm_up().is_some()
}

/// Whether an upstream shows nodes the certificate `id`.
pub(super) fn shows(upstream: &Upstream, id: &Id) -> bool {
    matches!(&upstream.tls, Some(UpstreamTls::Object(shown)) if shown == id)
}

/// Said where an upstream names an ssl object that was deleted, is disabled, or is not of type `client`.
const NO_CERTIFICATE: &str =
    "the upstream names a client certificate (tls.client_cert_id) that is not available";
const BAD_CERTIFICATE: &str = "the client certificate of the upstream cannot be used";
const BAD_AUTHORITIES: &str = "the authorities of the upstream (tls.ca) cannot be read";

/// TLS for https, grpcs and tls nodes. Nodes are asked with the certificate that the upstream names, or not at all:
/// one that is missing or unusable fails every handshake.
fn connector(upstream: &Upstream, pair: Option<&CertificatePair>) -> Option<tls::Connector> {
    if !upstream.scheme.is_encrypted() {
        return None;
    }
    if upstream.tls.is_some() && pair.is_none() {
        return tls::refusing_connector(NO_CERTIFICATE).ok();
    }
    let client = pair.map(|pair| (pair.cert.as_str(), pair.key.expose()));
    let trust = match &upstream.node_trust {
        NodeTrust::Anybody => Trust::Anybody,
        NodeTrust::System => Trust::System,
        NodeTrust::Authorities(pem) => Trust::Authorities(pem),
    };
    let connector = tls::connector(client, trust).or_else(|error| {
        tracing::warn!(%error, "the TLS settings of an upstream cannot be used");
        let is_trust = tls::connector(None, trust).is_err();
        tls::refusing_connector(if is_trust { BAD_AUTHORITIES } else { BAD_CERTIFICATE })
    });
    let connector = connector.ok()?;
    Some(if upstream.speaks_http2() { connector.for_http2() } else { connector })
}
