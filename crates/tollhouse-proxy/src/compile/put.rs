//! Inserts objects, one function per kind: parses, compiles plugins, stores, and marks the
//! dependents for compilation.
//!
//! An object that does not parse, or whose plugins refuse their configurations, changes nothing:
//! its last good version stays. Without one, the readable part of the object goes into service and
//! refuses requests. Otherwise a broader route, another consumer, or no rule at all would apply to
//! its requests. Services, upstreams, plugin configs, groups and definitions are left out if
//! invalid, because the objects that reference a missing one refuse requests themselves.

use std::sync::Arc;

use serde_json::Value;
use tollhouse_model::ssl::{CertificatePair, SslKind};
use tollhouse_model::{
    Consumer, ConsumerGroup, Credential, GlobalRule, Id, Kind, PluginConf, PluginConfig,
    PluginMetadata, PluginSet, Problem, Problems, Proto, Route, Service, Ssl, Upstream,
};

use tollhouse_plugin::{ConfError, validation};
use tollhouse_router::SharedFilter;
use tollhouse_transcode::Definition;

use super::claim;
use super::consumers::{claimed_keys, identities};
use super::object::Object;
use super::plugins::{CompileTarget, Fallback, Unreadable};
use super::secrets::Fields;
use super::upstreams::shows;
use super::{Compiler, TouchedObjects, keeper_without_effect};
use crate::plugins::Chain;

/// The plugin whose configuration references proto definitions.
const GRPC_TRANSCODE: &str = "grpc-transcode";

impl Compiler {
    /// Parses and stores an object; an invalid one leaves its last good version in place.
    pub(super) fn upsert_value(
        &mut self,
        object: Object<'_>,
        value: &Value,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let Object { kind, id, path } = object;
        let id = id.clone();
        if let Some(problem) = validation::unopened_beside_plugins(value, path) {
            let mut problems = Problems::from_iter([problem]);
            self.refuse_in_place(object, value, touched, &mut problems);
            return problems;
        }
        match kind {
            Kind::Route => self.put_route(id, value, path, touched),
            Kind::Service => self.put_service(id, value, path, touched),
            Kind::Upstream => self.put_upstream(id, value, path),
            Kind::PluginConfig => self.put_plugin_config(id, value, path, touched),
            Kind::GlobalRule => self.put_global_rule(id, value, path, touched),
            Kind::Consumer => self.put_consumer(id, value, path, touched),
            Kind::Credential => self.put_credential(id, value, path, touched),
            Kind::ConsumerGroup => self.put_consumer_group(id, value, path),
            Kind::PluginMetadata => self.put_plugin_metadata(id, value, path, touched),
            Kind::StreamRoute => self.put_stream_route(id, value, path, touched),
            Kind::Ssl => self.put_ssl(id, value, path, touched),
            Kind::Proto => self.put_proto(id, value, path, touched),
            // Stored elsewhere, by the resolver of references; only checked here.
            Kind::Secret => {
                let mut problems = kind.problems_of(id.clone(), value, path);
                problems.extend(keeper_without_effect(&id, path).into_iter().collect());
                problems
            }
        }
    }

    /// Installs a rejecting stub for an invalid object that has no good version in service.
    pub(super) fn refuse_in_place(
        &mut self,
        object: Object<'_>,
        value: &Value,
        touched: &mut TouchedObjects,
        problems: &mut Problems,
    ) {
        let Object { kind, id, path } = object;
        let is_new = self.fallback(kind, id) == Fallback::Refuse;
        match kind {
            Kind::Ssl => self.refuse_clients(object, value, problems),
            Kind::Route if is_new => match claim::route(id, value, path) {
                Some(claim) => {
                    problems.push(claim.notice(path));
                    self.plugins.refuse(kind, id, claim.unreadable);
                    self.routes.insert(id.clone(), Arc::new(claim.route));
                    touched.routes.push(id.clone());
                }
                // A stub that already refuses requests stays.
                None if !self.routes.contains_key(id) => {
                    problems.push(claim::nothing_claimed(path, "requests"));
                    self.plugins.remove(kind, id);
                }
                None => {}
            },
            Kind::StreamRoute if is_new => match claim::stream_route(id, value, path) {
                Some(claim) => {
                    problems.push(claim.notice(path));
                    self.plugins.refuse(kind, id, claim.unreadable);
                    self.streams.keep(claim.route);
                    touched.stream_routes.push(id.clone());
                }
                None if !self.streams.contains(id) => {
                    problems.push(claim::nothing_claimed(path, "connections"));
                    self.plugins.remove(kind, id);
                }
                None => {}
            },
            // An unreadable global rule may have protected every route, so all of them refuse.
            Kind::GlobalRule if is_new => {
                self.plugins.refuse(kind, id, Unreadable::Plugins);
                let rule = GlobalRule { id: id.clone(), plugins: PluginSet::new() };
                self.global_rules.insert(id.clone(), rule);
                touched.global_rules = true;
            }
            Kind::Consumer if is_new => {
                let keys = claimed_keys(value, &self.plugins);
                let snapshot = &mut self.snapshot.consumers;
                self.consumers.refuse(id, keys, &self.plugins, snapshot);
            }
            Kind::Credential if is_new => {
                let keys = claimed_keys(value, &self.plugins);
                let snapshot = &mut self.snapshot.consumers;
                self.consumers.refuse_credential(id, keys, &self.plugins, snapshot);
            }
            _ => {}
        }
    }

    fn put_route(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (route, mut problems) = Route::parse(id.clone(), value, path);
        let object = Object { kind: Kind::Route, id: &id, path };
        let Some(mut route) = route else {
            self.refuse_in_place(object, value, touched, &mut problems);
            return problems;
        };
        route.upstream = route.upstream.map(|upstream| self.upstreams.shared_conf(upstream));
        let fallback = self.fallback(Kind::Route, &id);
        self.set_plugins(object, &route.plugins, &mut problems);
        let filter = self.set_scripts(object, &route, fallback, &mut problems);
        if !problems.has_errors() || fallback == Fallback::Refuse {
            match filter {
                Some(filter) => self.filters.insert(id.clone(), filter),
                None => self.filters.remove(&id),
            };
            self.routes.insert(id.clone(), Arc::new(route));
            touched.routes.push(id);
        }
        problems
    }

    /// Compiles the scripts of a route: a script replaces its plugins, and a condition is returned.
    /// Without a good version, a route with a bad script refuses requests.
    fn set_scripts(
        &mut self,
        object: Object<'_>,
        route: &Route,
        fallback: Fallback,
        problems: &mut Problems,
    ) -> Option<SharedFilter> {
        if route.script.is_none() && route.filter_func.is_none() {
            return None;
        }
        let Object { kind, id, path } = object;
        let mut is_good = true;
        let mut good = |field: &str, error: Option<ConfError>| {
            let problem = error.map(|error| Problem::error(format!("{path}.{field}"), error));
            is_good &= problem.is_none();
            problems.extend(problem.into_iter().collect());
        };
        let step = route.script.as_ref().map(|text| self.plugins.script(text)).transpose();
        let filter = route.filter_func.as_ref().map(|text| self.plugins.route_filter(text));
        let filter = filter.transpose();
        good("script", step.as_ref().err().cloned());
        good("filter_func", filter.as_ref().err().cloned());
        if !is_good {
            if fallback == Fallback::Refuse {
                self.plugins.refuse(kind, id, Unreadable::Plugins);
            }
            return None;
        }
        if let Ok(Some(step)) = step {
            self.plugins.set_one(kind, id, step);
        }
        let filter = filter.ok().flatten();
        filter.map(SharedFilter)
    }

    fn put_service(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (service, mut problems) = Service::parse(id.clone(), value, path);
        let Some(service) = service else { return problems };
        let fallback = self.fallback(Kind::Service, &id);
        let object = Object { kind: Kind::Service, id: &id, path };
        self.set_plugins(object, &service.plugins, &mut problems);
        if !problems.has_errors() || fallback == Fallback::Refuse {
            self.upstreams.set_service(&service);
            self.services.insert(id.clone(), Arc::new(service));
            touched.services.push(id);
        }
        problems
    }

    fn put_upstream(&mut self, id: Id, value: &Value, path: &str) -> Problems {
        let (upstream, problems) = Upstream::parse(Some(id.clone()), value, path);
        if let Some(upstream) = upstream {
            self.upstreams.set(&id, Arc::new(upstream), &mut self.snapshot.upstreams);
        }
        problems
    }

    fn put_plugin_config(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (config, mut problems) = PluginConfig::parse(id.clone(), value, path);
        let Some(config) = config else { return problems };
        let fallback = self.fallback(Kind::PluginConfig, &id);
        let object = Object { kind: Kind::PluginConfig, id: &id, path };
        self.set_plugins(object, &config.plugins, &mut problems);
        if !problems.has_errors() || fallback == Fallback::Refuse {
            self.plugin_configs.insert(id.clone(), config);
            touched.plugin_configs.push(id);
        }
        problems
    }

    fn put_global_rule(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (rule, mut problems) = GlobalRule::parse(id.clone(), value, path);
        let object = Object { kind: Kind::GlobalRule, id: &id, path };
        let Some(rule) = rule else {
            self.refuse_in_place(object, value, touched, &mut problems);
            return problems;
        };
        let fallback = self.fallback(Kind::GlobalRule, &id);
        self.set_plugins(object, &rule.plugins, &mut problems);
        if !problems.has_errors() || fallback == Fallback::Refuse {
            self.warn_of_repeated_plugins(&rule, path, &mut problems);
            self.global_rules.insert(id, rule);
            touched.global_rules = true;
        }
        problems
    }

    fn put_consumer(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (consumer, mut problems) = Consumer::parse(id.clone(), value, path);
        let object = Object { kind: Kind::Consumer, id: &id, path };
        let found = consumer.and_then(|consumer| {
            let own = self.plugins.without_identities(&consumer.plugins);
            self.set_plugins(object, &own, &mut problems);
            let found = identities(&consumer.plugins, &self.plugins, path, &mut problems)?;
            Some((consumer, found))
        });
        match found {
            Some((consumer, found)) => {
                let snapshot = &mut self.snapshot.consumers;
                self.consumers.set(consumer, found, &self.plugins, snapshot);
            }
            None => self.refuse_in_place(object, value, touched, &mut problems),
        }
        problems
    }

    fn put_credential(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (credential, mut problems) = Credential::parse(id.clone(), value, path);
        let found = credential.and_then(|credential| {
            self.plugins.note_absent(&credential.plugins, path, &mut problems);
            let found = identities(&credential.plugins, &self.plugins, path, &mut problems)?;
            Some((credential, found))
        });
        match found {
            Some((credential, found)) => {
                let snapshot = &mut self.snapshot.consumers;
                self.consumers.set_credential(&credential, found, &self.plugins, snapshot);
            }
            None => {
                let object = Object { kind: Kind::Credential, id: &id, path };
                self.refuse_in_place(object, value, touched, &mut problems);
            }
        }
        problems
    }

    fn put_consumer_group(&mut self, id: Id, value: &Value, path: &str) -> Problems {
        let (group, mut problems) = ConsumerGroup::parse(id.clone(), value, path);
        let Some(group) = group else { return problems };
        let own = self.plugins.without_identities(&group.plugins);
        let fallback = self.fallback(Kind::ConsumerGroup, &id);
        let object = Object { kind: Kind::ConsumerGroup, id: &id, path };
        self.set_plugins(object, &own, &mut problems);
        if !problems.has_errors() || fallback == Fallback::Refuse {
            self.publish_group(&id);
            self.consumer_groups.insert(id, group);
        }
        problems
    }

    pub(super) fn publish_group(&mut self, id: &Id) {
        let chain = Chain::merge(self.plugins.get(Kind::ConsumerGroup, id));
        self.snapshot.consumers.set_group(id.as_str(), Some(chain));
    }

    fn put_plugin_metadata(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (metadata, mut problems) = PluginMetadata::parse(id.clone(), value, path);
        let Some(metadata) = metadata else { return problems };
        match self.plugins.set_metadata(id.as_str(), metadata.conf) {
            Ok(()) => touched.metadata.push(id),
            Err(error) => problems.push(Problem::error(path, error)),
        }
        problems
    }

    /// Compiles a proto definition. Its users keep the last good one if it does not compile.
    fn put_proto(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let (proto, mut problems) = Proto::parse(id, value, path);
        let Some(proto) = proto else { return problems };
        match Definition::compile(&proto.content) {
            Ok(definition) => {
                self.plugins.protos_mut().insert(proto.id.clone(), definition);
                touched.protos.push(proto.id);
            }
            Err(error) => {
                problems.push(Problem::error(format!("{path}.content"), error.to_string()));
            }
        }
        problems
    }

    /// Resolves secrets before parsing, because the text of an unresolved reference is not a valid
    /// key.
    fn put_ssl(
        &mut self,
        id: Id,
        value: &Value,
        path: &str,
        touched: &mut TouchedObjects,
    ) -> Problems {
        let mut problems = Problems::new();
        if !self.set_ssl(Object { kind: Kind::Ssl, id: &id, path }, value, touched, &mut problems) {
            self.refuse_clients(Object { kind: Kind::Ssl, id: &id, path }, value, &mut problems);
        }
        problems
    }

    /// Parses and publishes an ssl object; returns `false` and adds problems if it is invalid.
    fn set_ssl(
        &mut self,
        object: Object<'_>,
        value: &Value,
        touched: &mut TouchedObjects,
        problems: &mut Problems,
    ) -> bool {
        let Object { id, path, .. } = object;
        let resolved = match self.plugins.resolved(value, Fields::All, &Value::Null, path) {
            Ok(resolved) => resolved.conf,
            Err(problem) => {
                problems.push(problem);
                return false;
            }
        };
        let (ssl, found) = Ssl::parse(id.clone(), &resolved, path);
        problems.extend(found);
        let Some(ssl) = ssl else { return false };
        self.hosts.warn_of_names(&ssl, path, problems);
        self.certificates_version += 1;
        let is_for_nodes = ssl.kind == SslKind::Client && ssl.enabled;
        let pair = ssl.certificates.first().filter(|_| is_for_nodes).cloned();
        if let Err(error) = self.hosts.set(ssl, &self.tls, &mut self.snapshot.certificates) {
            let hint = "the version in service, if any, stays in effect";
            problems.push(Problem::error(path, error.to_string()).with_hint(hint));
            return false;
        }
        self.show_nodes(id, pair, touched);
        true
    }

    /// Refuses TLS handshakes for the names of an invalid ssl object that must not be served by
    /// another object, unless an earlier version of the object is in service.
    fn refuse_clients(&mut self, object: Object<'_>, value: &Value, problems: &mut Problems) {
        let names = Ssl::names_to_keep(value);
        if names.is_empty() {
            return;
        }
        let told = names.join(", ");
        if self.hosts.refuse(object.id, names, &mut self.snapshot.certificates) {
            let reason = format!("clients of {told} are refused until this is mended");
            let hint = match value.get("client") {
                Some(_) => {
                    "the object requires client certificates, which no other object would check"
                }
                None => "its key cannot be decrypted; no other object takes its place",
            };
            problems.push(Problem::warning(object.path, reason).with_hint(hint));
        }
    }

    /// Updates every upstream that presents the client certificate of ssl object `id` to its nodes.
    fn show_nodes(&mut self, id: &Id, pair: Option<CertificatePair>, touched: &mut TouchedObjects) {
        if !self.upstreams.set_certificate(id, pair) {
            return;
        }
        self.upstreams.rebuild_with(id, &mut self.snapshot.upstreams);
        let names =
            |upstream: &Option<Arc<Upstream>>| upstream.as_ref().is_some_and(|it| shows(it, id));
        let routes = self.routes.iter().filter(|(_, route)| names(&route.upstream));
        touched.routes.extend(routes.map(|(id, _)| id.clone()));
        let streams = self.streams.upstreams().filter(|(_, upstream)| names(upstream));
        touched.stream_routes.extend(streams.map(|(id, _)| id.clone()));
        for (service_id, service) in &self.services {
            if names(&service.upstream) {
                self.upstreams.set_service(service);
                touched.services.push(service_id.clone());
            }
        }
        if self.upstreams.plugin_shows(id) {
            // `traffic-split` is the only plugin with upstreams; its users are recompiled as after
            // a change of its metadata.
            touched.metadata.push(Id::new("traffic-split"));
        }
    }

    /// Compiles the plugins of an object; a refused plugin adds an error to `problems`.
    pub(super) fn set_plugins(
        &mut self,
        object: Object<'_>,
        plugins: &PluginSet,
        problems: &mut Problems,
    ) {
        let fallback = self.fallback(object.kind, object.id);
        let (upstreams, slots) = (&mut self.upstreams, &mut self.snapshot.upstreams);
        let mut place = CompileTarget { object, fallback, upstreams, slots, problems };
        self.plugins.set(plugins, &mut place);
    }

    /// Returns the treatment of an object's plugins if a plugin cannot run.
    pub(super) fn fallback(&self, kind: Kind, id: &Id) -> Fallback {
        let is_in_service = match kind {
            Kind::Route => self.routes.contains_key(id),
            Kind::Service => self.services.contains_key(id),
            Kind::PluginConfig => self.plugin_configs.contains_key(id),
            Kind::GlobalRule => self.global_rules.contains_key(id),
            Kind::ConsumerGroup => self.consumer_groups.contains_key(id),
            Kind::StreamRoute => self.streams.contains(id),
            Kind::Consumer => self.consumers.contains(id),
            Kind::Credential => self.consumers.has_credential(id),
            // Objects that reference a missing one refuse requests themselves.
            _ => true,
        };
        if is_in_service && !self.plugins.refuses(kind, id) {
            Fallback::LastGood
        } else {
            Fallback::Refuse
        }
    }

    /// Warns of plugins that several global rules contain, because only that of the lowest id runs.
    fn warn_of_repeated_plugins(&self, rule: &GlobalRule, path: &str, problems: &mut Problems) {
        for (id, other) in self.global_rules.iter().filter(|(id, _)| **id != rule.id) {
            for name in other.plugins.keys().filter(|name| rule.plugins.contains_key(*name)) {
                let reason = format!("plugin \"{name}\" is also in global rule {id}");
                let problem = Problem::warning(format!("{path}.plugins.{name}"), reason);
                problems.push(problem.with_hint("only the one with the lowest id runs"));
            }
        }
    }

    pub(super) fn merge_global_rules(&mut self) {
        let sets = self.global_rules.keys().filter_map(|id| self.plugins.get(Kind::GlobalRule, id));
        self.snapshot.globals = Arc::new(Chain::merge_equals(sets));
    }

    /// Recompiles every object with a plugin whose metadata changed, or that references a changed
    /// definition.
    pub(super) fn recompile_users(&mut self, touched: &mut TouchedObjects) {
        let by_metadata = std::mem::take(&mut touched.metadata).into_iter();
        let by_metadata = by_metadata.map(|name| (name, None));
        let by_proto = std::mem::take(&mut touched.protos).into_iter();
        let by_proto = by_proto.map(|proto| (Id::new(GRPC_TRANSCODE), Some(proto)));
        for (name, proto) in by_metadata.chain(by_proto) {
            for (kind, id, plugins) in self.users_of(name.as_str(), proto.as_ref()) {
                let mut problems = Problems::new();
                let refused = self.plugins.refuses(kind, &id);
                let path = format!("{kind}/{id}");
                let object = Object { kind, id: &id, path: &path };
                self.set_plugins(object, &plugins, &mut problems);
                // Only the metadata was missing, so the object's problems are solved.
                if refused && problems.is_empty() {
                    self.problems.remove(&(kind, id.clone()));
                }
                match kind {
                    Kind::Route => touched.routes.push(id),
                    Kind::Service => touched.services.push(id),
                    Kind::PluginConfig => touched.plugin_configs.push(id),
                    Kind::GlobalRule => touched.global_rules = true,
                    Kind::StreamRoute => touched.stream_routes.push(id),
                    Kind::Consumer => {
                        let consumers = &mut self.snapshot.consumers;
                        self.consumers.link(&id, &self.plugins, consumers);
                    }
                    _ => self.publish_group(&id),
                }
            }
        }
    }

    /// Returns every object with the plugin `name`, with all its plugins; with `proto`, only those
    /// whose configuration references that definition.
    fn users_of(&self, name: &str, proto: Option<&Id>) -> Vec<(Kind, Id, PluginSet)> {
        let routes = self.routes.iter().map(|(id, it)| (Kind::Route, id, &it.plugins));
        let services = self.services.iter().map(|(id, it)| (Kind::Service, id, &it.plugins));
        let configs =
            self.plugin_configs.iter().map(|(id, it)| (Kind::PluginConfig, id, &it.plugins));
        let rules = self.global_rules.iter().map(|(id, it)| (Kind::GlobalRule, id, &it.plugins));
        let groups =
            self.consumer_groups.iter().map(|(id, it)| (Kind::ConsumerGroup, id, &it.plugins));
        let streams = self.streams.plugins().map(|(id, plugins)| (Kind::StreamRoute, id, plugins));
        let all = routes.chain(services).chain(configs).chain(rules).chain(groups).chain(streams);
        let all = all.map(|(kind, id, plugins)| (kind, id.clone(), plugins));
        let consumers = self.consumers.objects();
        let consumers =
            consumers.map(|it| (Kind::Consumer, Id::new(it.username.as_str()), &it.plugins));
        let own = |kind, plugins: &PluginSet| match kind {
            Kind::Consumer | Kind::ConsumerGroup => self.plugins.without_identities(plugins),
            _ => plugins.clone(),
        };
        let is_meant = |conf: &PluginConf| proto.is_none_or(|id| names_proto(&conf.conf, id));
        let users =
            all.chain(consumers).filter(|(_, _, plugins)| plugins.get(name).is_some_and(is_meant));
        users.map(|(kind, id, plugins)| (kind, id, own(kind, plugins))).collect()
    }

    pub(super) fn delete(&mut self, kind: Kind, id: &Id, touched: &mut TouchedObjects) {
        self.note_problems((kind, id.clone()), Problems::new());
        self.plugins.remove(kind, id);
        match kind {
            Kind::Route => {
                self.routes.remove(id);
                self.filters.remove(id);
                touched.routes.push(id.clone());
            }
            Kind::Service => {
                self.services.remove(id);
                self.upstreams.remove_service(id);
                touched.services.push(id.clone());
            }
            Kind::Upstream => self.upstreams.remove(id, &mut self.snapshot.upstreams),
            Kind::PluginConfig => {
                self.plugin_configs.remove(id);
                touched.plugin_configs.push(id.clone());
            }
            Kind::GlobalRule => {
                self.global_rules.remove(id);
                touched.global_rules = true;
            }
            Kind::Consumer => self.consumers.remove(id, &mut self.snapshot.consumers),
            Kind::Credential => {
                let consumers = &mut self.snapshot.consumers;
                self.consumers.remove_credential(id, &self.plugins, consumers);
            }
            Kind::ConsumerGroup => {
                self.consumer_groups.remove(id);
                self.snapshot.consumers.set_group(id.as_str(), None);
            }
            Kind::Ssl => {
                self.certificates_version += 1;
                self.hosts.remove(id, &mut self.snapshot.certificates);
                self.show_nodes(id, None, touched);
            }
            Kind::PluginMetadata => {
                self.plugins.remove_metadata(id.as_str());
                touched.metadata.push(id.clone());
            }
            Kind::StreamRoute => {
                // A deleted route does not keep its place in the order.
                let _ = self.streams.forget(id);
                touched.stream_routes.push(id.clone());
            }
            Kind::Proto => {
                self.plugins.protos_mut().remove(id);
                touched.protos.push(id.clone());
            }
            // Secret managers are not stored by `upsert_value`.
            Kind::Secret => {}
        }
    }
}

/// Whether a configuration references the definition `id`, which it may write as a number.
fn names_proto(conf: &Value, id: &Id) -> bool {
    match conf.get("proto_id") {
        Some(Value::String(named)) => named == id.as_str(),
        Some(Value::Number(named)) => named.to_string() == id.as_str(),
        _ => false,
    }
}
