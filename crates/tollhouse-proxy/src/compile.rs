//! Turns changed objects into the next snapshot, touching only what the change touches.
//!
//! Control side: runs off the serving threads and owns the parsed objects. An object that does not
//! parse is quarantined with its problems while its last good version keeps serving.

mod body_variables;
mod certificates;
mod claim;
mod consumers;
mod dependents;
mod driven;
mod numbers;
mod object;
mod plugins;
mod put;
mod secrets;
mod shenyu;
mod streams;
mod twins;
mod upstreams;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_model::secret::{Manager, Secret};
use tollhouse_model::{
    ConsumerGroup, GlobalRule, Id, Kind, PluginConfig, Problem, Problems, Route, Service,
};
use tollhouse_net::resolve::Resolver;
use tollhouse_net::server_tls::ServerTerms;
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_router::{RouteSpec, Router, SharedFilter};
use tollhouse_stdx::CowVec;
use tollhouse_upstream::UpstreamChange;

use crate::consumers::Consumers;
use crate::l4::table::StreamTable;
use crate::plugins::Chain;
use crate::settings::Settings;
use crate::snapshot::certificates::{Certificates, TlsHost};
use crate::snapshot::{Reference, RouteEntry, RouteTerms, Snapshot, Target};
use body_variables::BodyVariables;
use certificates::Hosts;
use consumers::ConsumerTable;
use dependents::Dependents;
use numbers::Numbers;
use object::Object;
use plugins::Plugins;
use shenyu::Shenyu;
pub use shenyu::ShenyuChange;
use streams::Streams;
use upstreams::Upstreams;

/// A changed object of the configuration.
#[derive(Debug)]
pub enum Change {
    /// The object is new or has new content.
    Upsert {
        kind: Kind,
        id: Id,
        /// Content of the object, or why it cannot be read.
        value: Result<Value, Problem>,
        /// Place in the configuration, for problem reports.
        path: String,
    },
    /// The object exists but cannot be read. A version in service is kept. Otherwise the requests
    /// that the object would match are refused, as far as they can be determined.
    Withheld {
        kind: Kind,
        id: Id,
        /// Readable part of the object; `null` replaces every unreadable value.
        rest: Value,
        /// Place in the configuration, for problem reports.
        path: String,
    },
    /// The object has moved within the document. Sent before any change that takes its old place.
    Move { kind: Kind, id: Id },
    /// Deletion of the object with this id.
    Delete { kind: Kind, id: Id },
    /// A change of a ShenYu object.
    Shenyu(ShenyuChange),
}

/// Parsed objects and the snapshot compiled from them.
#[derive(Debug)]
pub struct Compiler {
    routes: HashMap<Id, Arc<Route>>,
    /// Conditions of routes that are scripts.
    filters: HashMap<Id, SharedFilter>,
    services: HashMap<Id, Arc<Service>>,
    plugin_configs: HashMap<Id, PluginConfig>,
    global_rules: BTreeMap<Id, GlobalRule>,
    consumer_groups: HashMap<Id, ConsumerGroup>,
    consumers: ConsumerTable,
    plugins: Plugins,
    dependents: Dependents,
    streams: Streams,
    upstreams: Upstreams,
    /// TLS terms of hosts whose objects do not set their own.
    tls: ServerTerms,
    hosts: Hosts,
    certificates_version: u64,
    problems: BTreeMap<(Kind, Id), Problems>,
    problems_version: u64,
    body_variables: BodyVariables,
    shenyu: Shenyu,
    numbers: Numbers,
    snapshot: Snapshot,
}

impl Compiler {
    /// Creates a compiler without objects, at revision 0. Plugins are looked up in `catalogue`.
    pub fn new(
        settings: &Settings,
        resolver: Arc<Resolver>,
        catalogue: Arc<Catalogue>,
        services: Arc<Services>,
    ) -> Self {
        Self {
            routes: HashMap::new(),
            filters: HashMap::new(),
            services: HashMap::new(),
            plugin_configs: HashMap::new(),
            global_rules: BTreeMap::new(),
            consumer_groups: HashMap::new(),
            consumers: ConsumerTable::default(),
            plugins: Plugins::new(catalogue, services),
            dependents: Dependents::default(),
            streams: Streams::new(settings.streams.listened.clone()),
            // Health states, counters and balancer positions survive every change of objects, so
            // their owner is created once and not per snapshot.
            upstreams: Upstreams::new(resolver, settings),
            tls: settings.tls.terms.clone(),
            hosts: Hosts::default(),
            certificates_version: 0,
            problems: BTreeMap::new(),
            problems_version: 0,
            body_variables: BodyVariables::default(),
            numbers: Numbers::default(),
            shenyu: Shenyu::new(settings.shenyu.clone()),
            snapshot: Snapshot {
                revision: 0,
                router: Router::new(settings.router_mode),
                upstreams: CowVec::new(),
                globals: Arc::new(Chain::default()),
                consumers: Consumers::default(),
                certificates: Certificates::default(),
                body_variables: Arc::default(),
                streams: StreamTable::default(),
                shenyu: None,
            },
        }
    }

    /// Numbers snapshots from `revision + 1` on.
    pub fn continue_after(&mut self, revision: u64) {
        self.snapshot.revision = revision;
    }

    /// Applies `changes` and returns the next complete snapshot.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change>) -> Arc<Snapshot> {
        let mut touched = TouchedObjects::default();
        for change in changes {
            match change {
                Change::Upsert { kind, id, value, path } => {
                    self.upsert(Object { kind, id: &id, path: &path }, value, &mut touched);
                }
                Change::Withheld { kind, id, rest, path } => {
                    let object = Object { kind, id: &id, path: &path };
                    let mut problems = Problems::new();
                    self.refuse_in_place(object, &rest, &mut touched, &mut problems);
                    self.note_problems((kind, id), problems);
                }
                Change::Move { kind, id } => self.take_out(kind, id, &mut touched),
                Change::Delete { kind, id } => {
                    self.body_variables.forget(&(kind, id.clone()));
                    self.delete(kind, &id, &mut touched);
                }
                Change::Shenyu(change) => self.shenyu.take(change),
            }
        }
        // Recompiled after the whole batch: objects of one batch may reference one another in any
        // order, and a route touched several times is compiled once.
        self.recompile_users(&mut touched);
        if touched.global_rules {
            self.merge_global_rules();
        }
        for id in self.streams.touched_in_order(&touched) {
            self.compile_stream_route(&id);
        }
        for id in touched.routes_in_order(&self.dependents) {
            self.compile_route(&id);
        }
        self.compile_shenyu();
        self.snapshot.revision += 1;
        self.snapshot.body_variables = self.body_variables.all();
        Arc::new(self.snapshot.clone())
    }

    /// Returns every quarantined or only partly effective object, with its problems.
    pub fn problems(&self) -> impl Iterator<Item = (&(Kind, Id), &Problems)> {
        self.problems.iter()
    }

    pub fn shenyu_problems(&self) -> &Problems {
        self.shenyu.problems()
    }

    /// Returns the expiry of the certificates in service: object id and last valid second in Unix
    /// time.
    pub fn certificate_ends(&self) -> impl Iterator<Item = (&Id, i64)> {
        self.hosts.ends()
    }

    /// Returns the TLS hosts in service, each with the server names that it serves.
    pub fn served_hosts(&self) -> impl Iterator<Item = (&Arc<TlsHost>, &[String])> {
        self.hosts.served()
    }

    /// Rises with every change of a certificate object.
    pub fn certificates_version(&self) -> u64 {
        self.certificates_version
    }

    /// Returns the global rules, in the order of their ids.
    pub fn global_rules(&self) -> impl Iterator<Item = &GlobalRule> {
        self.global_rules.values()
    }

    /// Returns the changes since the last call of upstreams that need work outside requests,
    /// because they have health checks, slow start or discovered nodes. Includes inline upstreams
    /// and those of plugins.
    pub fn take_driven_changes(&mut self) -> Vec<UpstreamChange> {
        self.upstreams.take_driven_changes()
    }

    /// Rises with every change of the problems.
    pub fn problems_version(&self) -> u64 {
        self.problems_version
    }

    /// Removes a route from the matcher and marks it for insertion behind the routes inserted
    /// before it.
    fn take_out(&mut self, kind: Kind, id: Id, touched: &mut TouchedObjects) {
        match kind {
            Kind::Route => {
                self.snapshot.router.remove(&id);
                touched.routes.push(id);
            }
            Kind::StreamRoute => {
                self.streams.place_last(&id);
                touched.stream_routes.push(id);
            }
            _ => {}
        }
    }

    fn upsert(
        &mut self,
        object: Object<'_>,
        value: Result<Value, Problem>,
        touched: &mut TouchedObjects,
    ) {
        let key = (object.kind, object.id.clone());
        let problems = match value {
            Ok(value) => {
                self.body_variables.note(&key, &value);
                self.upsert_value(object, &value, touched)
            }
            Err(problem) => {
                let mut problems = Problems::from_iter([problem]);
                self.refuse_in_place(object, &Value::Null, touched, &mut problems);
                problems
            }
        };
        self.note_problems(key, problems);
    }

    /// Stores the problems of an object; an empty list clears them.
    fn note_problems(&mut self, key: ObjectKey, problems: Problems) {
        let before = if problems.is_empty() {
            self.problems.remove(&key)
        } else if self.problems.get(&key) == Some(&problems) {
            return;
        } else {
            self.problems.insert(key.clone(), problems)
        };
        if before.is_some() || self.problems.contains_key(&key) {
            self.problems_version += 1;
        }
    }

    /// Updates the matcher for the route `id` and the objects that it references.
    fn compile_route(&mut self, id: &Id) {
        let Some(route) = self.routes.get(id) else {
            self.snapshot.router.remove(id);
            self.dependents.forget(id);
            self.upstreams.remove_route(id);
            return;
        };
        self.dependents.note(route);
        // A missing reference is kept as missing: the route refuses requests until the object
        // exists.
        let service = reference(route.service_id.as_ref(), |id| self.services.get(id).cloned());
        let plugin_config = reference(route.plugin_config_id.as_ref(), |id| {
            self.plugin_configs.contains_key(id).then_some(())
        });
        let target = self.target_of(id, &service);
        let route = &self.routes[id];
        let terms = RouteTerms { service, plugin_config, timeout: route.timeout, shenyu: None };
        let websocket = websocket(route, &terms.service);
        let mut entry = RouteEntry::new(Arc::clone(route), target, terms);
        entry.number = self.numbers.number_for(id);
        entry.websocket = websocket;
        entry.chain = self.chain_of(route);
        if route.enabled {
            let mut spec = route_spec(&entry);
            spec.filter = self.filters.get(id).cloned();
            self.snapshot.router.insert(id, spec, Arc::new(entry));
        } else {
            self.snapshot.router.remove(id);
        }
    }

    /// Returns the target of a route. An id takes precedence over an inline upstream, and the route
    /// over its service, as in APISIX.
    fn target_of(&mut self, id: &Id, service: &Reference<Arc<Service>>) -> Target {
        let route = &self.routes[id];
        let slots = &mut self.snapshot.upstreams;
        if let (None, Some(upstream)) = (&route.upstream_id, &route.upstream) {
            return Target::Inline(self.upstreams.set_route(id, upstream));
        }
        self.upstreams.remove_route(id);
        if let Some(upstream_id) = &route.upstream_id {
            return Target::Slot(self.upstreams.slot(upstream_id, slots));
        }
        let Reference::Found(service) = service else { return Target::None };
        if let Some(upstream_id) = &service.upstream_id {
            return Target::Slot(self.upstreams.slot(upstream_id, slots));
        }
        match self.upstreams.service(&service.id) {
            Some(upstream) => Target::Inline(upstream),
            None => Target::None,
        }
    }

    /// Returns the plugins of a route, then those of its plugin config, then those of its service.
    /// Of plugins with equal names, the first wins.
    fn chain_of(&self, route: &Route) -> Chain {
        let set = |kind, id: Option<&Id>| self.plugins.get(kind, id?);
        let sets = [
            set(Kind::Route, Some(&route.id)),
            set(Kind::PluginConfig, route.plugin_config_id.as_ref()),
            set(Kind::Service, route.service_id.as_ref()),
        ];
        Chain::merge(sets.into_iter().flatten())
    }
}

/// Returns the problem that says which requests or connections an invalid route refuses, as far as
/// they can be determined; `None` for other kinds of objects.
pub fn refusal_notice(kind: Kind, id: &Id, value: &Value, path: &str) -> Option<Problem> {
    match kind {
        Kind::Route => Some(match claim::route(id, value, path) {
            Some(claim) => claim.notice(path),
            None => claim::nothing_claimed(path, "requests"),
        }),
        Kind::StreamRoute => Some(match claim::stream_route(id, value, path) {
            Some(claim) => claim.notice(path),
            None => claim::nothing_claimed(path, "connections"),
        }),
        _ => None,
    }
}

/// Warns of a secret manager other than Vault: the object is stored, but its secrets are not
/// fetched.
pub fn keeper_without_effect(id: &Id, path: &str) -> Option<Problem> {
    let (manager, _) = Secret::split_key(id.as_str()).filter(|(it, _)| *it != Manager::Vault)?;
    let reason = format!("secrets of {} are not fetched", manager.name());
    let hint = "references to them have no value, so plugins that protect refuse requests; use Vault or environment variables";
    Some(Problem::warning(path, reason).with_hint(hint))
}

fn reference<T>(id: Option<&Id>, find: impl FnOnce(&Id) -> Option<T>) -> Reference<T> {
    match id {
        None => Reference::Unnamed,
        Some(id) => find(id).map_or(Reference::Missing, Reference::Found),
    }
}

fn websocket(route: &Route, service: &Reference<Arc<Service>>) -> bool {
    let of_service = match service {
        Reference::Found(service) => service.enable_websocket,
        Reference::Unnamed | Reference::Missing => None,
    };
    route.enable_websocket.or(of_service).unwrap_or(false)
}

/// Returns the matching conditions of a route. A route without hosts takes the hosts of its
/// service.
fn route_spec(entry: &RouteEntry) -> RouteSpec {
    let route = &entry.route;
    let hosts = match &entry.terms().service {
        Reference::Found(service) if route.hosts.is_empty() => service.hosts.clone(),
        _ => route.hosts.clone(),
    };
    RouteSpec {
        uris: route.uris.clone(),
        hosts,
        methods: route.methods,
        remote_addrs: route.remote_addrs.clone(),
        vars: route.vars.clone(),
        filter: None,
        priority: route.priority,
    }
}

/// Kind and id of an object.
type ObjectKey = (Kind, Id);

/// Objects that a batch of changes touched.
#[derive(Debug, Default)]
struct TouchedObjects {
    routes: Vec<Id>,
    services: Vec<Id>,
    plugin_configs: Vec<Id>,
    metadata: Vec<Id>,
    protos: Vec<Id>,
    global_rules: bool,
    stream_routes: Vec<Id>,
}

impl TouchedObjects {
    /// Returns the routes to compile, each once: changed ones in document order, then those that
    /// depend on a changed object.
    fn routes_in_order(self, dependents: &Dependents) -> Vec<Id> {
        let mut seen = hashbrown::HashSet::new();
        let of_services = self.services.iter().flat_map(|id| dependents.routes_by_service(id));
        let of_configs =
            self.plugin_configs.iter().flat_map(|id| dependents.routes_by_plugin_config(id));
        let all = self.routes.into_iter().chain(of_services).chain(of_configs);
        all.filter(|id| seen.insert(id.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
