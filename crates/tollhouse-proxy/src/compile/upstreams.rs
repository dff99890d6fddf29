//! Compiled upstreams. Upstream objects are stored in slots; inline upstreams are stored with the
//! route or service that contains them.
//!
//! When an upstream changes, the state of its nodes (health, balancer positions, counters) is
//! carried over to the next version. This module also numbers the connection pools; upstreams whose
//! connections are interchangeable share a number.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use tollhouse_model::secret::SecretText;
use tollhouse_model::ssl::CertificatePair;
use tollhouse_model::upstream::{
    HashOn, HttpVersion, KeepalivePool, NodeTrust, PassHost, ProxyHeader, Scheme, UpstreamTls,
};
use tollhouse_model::{Id, Service, Timeouts, Upstream};
use tollhouse_net::resolve::Resolver;
use tollhouse_net::tls::{self, Trust};
use tollhouse_stdx::CowVec;
use tollhouse_telemetry::object_counts::UNCOUNTED;
use tollhouse_upstream::{UpstreamChange, UpstreamHandle, UpstreamState};

use super::driven::DrivenUpstreams;
use super::twins::Twins;
use crate::hash_key::HashKey;
use crate::settings::Settings;
use crate::snapshot::{NodeHost, UpstreamEntry, UpstreamTerms};

/// Slots of the upstream objects in a snapshot.
pub(super) type Slots = CowVec<Option<Arc<UpstreamEntry>>>;

/// Upstreams of the configuration, by object and by route.
#[derive(Debug)]
pub(super) struct Upstreams {
    resolver: Arc<Resolver>,
    keepalive: KeepalivePool,
    disables_checks: bool,
    slots: HashMap<Id, u32>,
    objects: HashMap<Id, Arc<UpstreamEntry>>,
    of_routes: HashMap<Id, Arc<UpstreamEntry>>,
    /// Equal inline upstreams of routes.
    twins: Twins,
    of_services: HashMap<Id, Arc<UpstreamEntry>>,
    of_stream_routes: HashMap<Id, Arc<UpstreamEntry>>,
    /// Upstreams in plugin configurations, by key. Weak, because the plugin steps own them.
    of_plugins: HashMap<String, Weak<UpstreamEntry>>,
    /// Upstreams whose nodes change outside requests, by key. Kept separately so that publishing
    /// does not visit every upstream.
    driven: DrivenUpstreams,
    pools: HashMap<PoolIdentity, u32>,
    /// Terms of the communication with nodes, shared by upstreams with equal terms.
    terms: HashMap<TermsKey, Weak<UpstreamTerms>>,
    /// Client certificates of ssl objects, presented to nodes.
    certificates: HashMap<Id, Arc<CertificatePair>>,
}

/// Properties that two connections to one address must share to be interchangeable.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PoolIdentity {
    scheme: Scheme,
    http_version: HttpVersion,
    /// PROXY protocol header, if nodes receive one. Each connection then carries the address of one
    /// client.
    proxy_protocol: Option<ProxyHeader>,
    client_certificate: Option<(String, String)>,
    /// A connection without a client certificate must not replace one that needs a certificate.
    lacks_certificate: bool,
    /// A connection without verification of the node must not replace a verified one.
    node_trust: NodeTrust,
    /// Key and pool of an upstream with a separate `keepalive_pool`, whose connections other
    /// upstreams do not use.
    isolated: Option<(String, KeepalivePool)>,
}

/// Properties that must be equal for two upstreams to use one [`UpstreamTerms`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct TermsKey {
    /// Number of the connection pool; represents all fields of [`PoolIdentity`].
    pool: u32,
    node_host: NodeHost,
    pass_host: PassHost,
    keepalive: KeepalivePool,
    timeouts: Timeouts,
    hash_on: Option<HashOn>,
}

/// Identity of an upstream.
#[derive(Clone, Copy)]
struct UpstreamIdentity<'a> {
    key: &'a str,
    /// Number in request counters: the slot of an object, or `UNCOUNTED`.
    number: u32,
}

impl<'a> UpstreamIdentity<'a> {
    const fn uncounted(key: &'a str) -> Self {
        Self { key, number: UNCOUNTED }
    }
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
            twins: Twins::default(),
            of_services: HashMap::new(),
            of_stream_routes: HashMap::new(),
            of_plugins: HashMap::new(),
            driven: DrivenUpstreams::default(),
            pools: HashMap::new(),
            terms: HashMap::new(),
            certificates: HashMap::new(),
        }
    }

    /// Returns the changes since the last call of upstreams with health checks, slow start, or
    /// discovered nodes. Costs one step per change and one per driven upstream of a plugin.
    pub(super) fn take_driven_changes(&mut self) -> Vec<UpstreamChange> {
        let of_plugins = &self.of_plugins;
        self.driven.let_go(|key| of_plugins.get(key).is_some_and(|of| of.strong_count() == 0));
        self.driven.take_changes()
    }

    /// Sets or removes the certificate of an ssl object; returns whether that changed anything.
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

    /// Rebuilds the upstream objects that present the certificate `id` to their nodes.
    pub(super) fn rebuild_with(&mut self, id: &Id, slots: &mut Slots) {
        let using = self.objects.iter().filter(|(_, entry)| shows(&entry.conf, id));
        let using: Vec<_> = using.map(|(id, entry)| (id.clone(), entry.conf.clone())).collect();
        for (id, conf) in using {
            self.set(&id, conf, slots);
        }
    }

    /// Whether an upstream in a plugin's configuration presents the certificate `id`.
    pub(super) fn plugin_shows(&self, id: &Id) -> bool {
        let mut entries = self.of_plugins.values().filter_map(Weak::upgrade);
        entries.any(|entry| shows(&entry.conf, id))
    }

    /// Returns the client certificate that `upstream` presents to its nodes.
    fn client_pair(&self, upstream: &Upstream) -> Option<Arc<CertificatePair>> {
        match upstream.tls.as_ref()? {
            UpstreamTls::Object(id) => self.certificates.get(id).cloned(),
            UpstreamTls::Pair { client_cert, client_key } => Some(Arc::new(CertificatePair {
                cert: client_cert.clone(),
                key: SecretText::new(client_key.as_str()),
            })),
        }
    }

    /// Returns the slot of the object `id`, which may not exist yet.
    pub(super) fn slot(&mut self, id: &Id, slots: &mut Slots) -> u32 {
        *self.slots.entry(id.clone()).or_insert_with(|| slots.push(None))
    }

    pub(super) fn set(&mut self, id: &Id, upstream: Arc<Upstream>, slots: &mut Slots) {
        let previous = self.objects.get(id).cloned();
        let slot = self.slot(id, slots);
        let key = format!("upstreams/{id}");
        let identity = UpstreamIdentity { key: &key, number: slot };
        let entry = self.build(identity, &upstream, previous.as_ref(), NodeHost::WithPort);
        self.objects.insert(id.clone(), Arc::clone(&entry));
        slots.update(slot, |slot| *slot = Some(entry));
    }

    /// Removes the object `id`; its slot stays for routes that still reference it.
    pub(super) fn remove(&mut self, id: &Id, slots: &mut Slots) {
        self.objects.remove(id);
        self.driven.remove(&format!("upstreams/{id}"));
        if let Some(slot) = self.slots.get(id) {
            slots.update(*slot, |slot| *slot = None);
        }
    }

    /// Returns the configuration that a route shares with others whose upstreams are equal.
    pub(super) fn shared_conf(&mut self, upstream: Arc<Upstream>) -> Arc<Upstream> {
        self.twins.conf(upstream)
    }

    /// Sets the inline upstream of a route; an unchanged one keeps its entry.
    pub(super) fn set_route(&mut self, route: &Id, upstream: &Arc<Upstream>) -> Arc<UpstreamEntry> {
        let previous = self.of_routes.get(route).cloned();
        let key = format!("routes/{route}");
        let identity = UpstreamIdentity::uncounted(&key);
        let entry = self.build(identity, upstream, previous.as_ref(), NodeHost::WithPort);
        self.of_routes.insert(route.clone(), Arc::clone(&entry));
        entry
    }

    pub(super) fn remove_route(&mut self, route: &Id) {
        if self.of_routes.remove(route).is_some() {
            self.driven.remove(&format!("routes/{route}"));
        }
    }

    /// Sets the inline upstream of a stream route; an unchanged one keeps its entry.
    pub(super) fn set_stream_route(
        &mut self,
        route: &Id,
        upstream: &Arc<Upstream>,
    ) -> Arc<UpstreamEntry> {
        let previous = self.of_stream_routes.get(route).cloned();
        let key = format!("stream_routes/{route}");
        let identity = UpstreamIdentity::uncounted(&key);
        let entry = self.build(identity, upstream, previous.as_ref(), NodeHost::Bare);
        self.of_stream_routes.insert(route.clone(), Arc::clone(&entry));
        entry
    }

    pub(super) fn remove_stream_route(&mut self, route: &Id) {
        if self.of_stream_routes.remove(route).is_some() {
            self.driven.remove(&format!("stream_routes/{route}"));
        }
    }

    /// Sets the inline upstream of a service, or removes it if the service has none.
    pub(super) fn set_service(&mut self, service: &Service) {
        let Some(upstream) = &service.upstream else { return self.remove_service(&service.id) };
        let previous = self.of_services.get(&service.id).cloned();
        let key = format!("services/{}", service.id);
        let identity = UpstreamIdentity::uncounted(&key);
        let entry = self.build(identity, upstream, previous.as_ref(), NodeHost::WithPort);
        self.of_services.insert(service.id.clone(), entry);
    }

    pub(super) fn service(&self, id: &Id) -> Option<Arc<UpstreamEntry>> {
        self.of_services.get(id).cloned()
    }

    pub(super) fn remove_service(&mut self, id: &Id) {
        if self.of_services.remove(id).is_some() {
            self.driven.remove(&format!("services/{id}"));
        }
    }

    /// Sets an upstream of a plugin's configuration; an unchanged one keeps its entry.
    pub(super) fn set_plugin(&mut self, key: String, upstream: &Upstream) -> Arc<UpstreamEntry> {
        self.set_shared(key, upstream, NodeHost::Bare)
    }

    /// Sets an upstream that lives as long as its entry is referenced; an unchanged one keeps its
    /// entry.
    pub(super) fn set_shared(
        &mut self,
        key: String,
        upstream: &Upstream,
        node_host: NodeHost,
    ) -> Arc<UpstreamEntry> {
        let previous = self.of_plugins.get(&key).and_then(Weak::upgrade);
        let upstream = Arc::new(upstream.clone());
        let identity = UpstreamIdentity::uncounted(&key);
        let entry = self.build(identity, &upstream, previous.as_ref(), node_host);
        // Unused entries are swept whenever the map has doubled.
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

    /// Builds an upstream under its key.
    fn build(
        &mut self,
        identity: UpstreamIdentity<'_>,
        upstream: &Arc<Upstream>,
        previous: Option<&Arc<UpstreamEntry>>,
        node_host: NodeHost,
    ) -> Arc<UpstreamEntry> {
        let UpstreamIdentity { key, number } = identity;
        let client_pair = self.client_pair(upstream);
        let is_same =
            |it: &&Arc<UpstreamEntry>| *it.conf == **upstream && it.client_pair == client_pair;
        if let Some(previous) = previous.filter(is_same) {
            return Arc::clone(previous);
        }
        let state = match self.twins.state(upstream).and_then(|twin| twin.twin(key)) {
            Some(state) => state,
            None => self.build_state(key, upstream, previous),
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

    /// Builds the state of an upstream. Health, discovery connections and the balancer position are
    /// carried over from the previous version.
    fn build_state(
        &mut self,
        key: &str,
        upstream: &Arc<Upstream>,
        previous: Option<&Arc<UpstreamEntry>>,
    ) -> Arc<UpstreamState> {
        let previous = previous.map(|previous| previous.state.state());
        if self.disables_checks && upstream.checks.is_some() {
            let unchecked = Upstream { checks: None, ..(**upstream).clone() };
            return UpstreamState::build(&unchecked, key, previous, &self.resolver);
        }
        let state = UpstreamState::build(upstream, key, previous, &self.resolver);
        self.twins.note(upstream, &state);
        state
    }

    /// Returns the terms of the communication with the nodes of an upstream; equal terms are
    /// shared.
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
        // Unused entries are swept whenever the map has doubled.
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

/// Whether nodes of the upstream change by other means than requests: by discovery, health checks
/// or slow start.
fn is_driven(state: &UpstreamState) -> bool {
    state.discovery().is_some() || state.checks().is_some() || state.warm_up().is_some()
}

/// Whether an upstream presents the certificate `id` to its nodes.
pub(super) fn shows(upstream: &Upstream, id: &Id) -> bool {
    matches!(&upstream.tls, Some(UpstreamTls::Object(shown)) if shown == id)
}

/// Handshake error for an upstream whose ssl object is missing, disabled, or not of type `client`.
const NO_CERTIFICATE: &str =
    "the upstream names a client certificate (tls.client_cert_id) that is not available";
const BAD_CERTIFICATE: &str = "the client certificate of the upstream cannot be used";
const BAD_AUTHORITIES: &str = "the authorities of the upstream (tls.ca) cannot be read";

/// Returns the TLS connector for https, grpcs and tls nodes. If the client certificate is missing
/// or unusable, the connector fails every handshake instead of connecting without one.
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
