//! Compiles the plugins of an object into steps that are ready to run.
//!
//! A plugin that cannot run quarantines its object: the last good version stays. Without one,
//! requests are refused in the plugin's place. Only plugins that are known to protect nothing are
//! skipped, with a warning.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_model::problem::Severity;
use tollhouse_model::secret::SecretSource;
use tollhouse_model::{Id, Kind, PluginConf, PluginSet, Problem, Problems};
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::validation::{self, Role};
use tollhouse_plugin::{
    BackgroundWork, Catalogue, Category, ConfError, PluginType, RouteFilter, RunPolicy, Scope,
    Services, UpstreamRef, absent,
};
use tollhouse_telemetry::ErrorCode;
use tollhouse_transcode::Protos;

use super::object::Object;
use super::secrets::{self, ResolvedConf};
use super::upstreams::{Slots, Upstreams};
use crate::plugins::chain::StepUpstream;
use crate::plugins::{PluginStep, StepSet};

/// Treatment of an object's plugins if a plugin cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    /// Keep all steps in service, which were good.
    LastGood,
    /// Requests are refused at the step where the plugin would have run, because no good version
    /// exists.
    Refuse,
}

/// The unreadable part of an object whose other parts can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    Plugins,
    /// A part other than the matching conditions, such as the upstream.
    Route,
}

impl Unreadable {
    /// Returns the name of the step that refuses requests in its place.
    const fn name(self) -> &'static str {
        match self {
            Self::Plugins => "plugins",
            Self::Route => "route",
        }
    }

    const fn code(self) -> ErrorCode {
        match self {
            Self::Plugins => ErrorCode::PluginUnavailable,
            Self::Route => ErrorCode::RouteInvalid,
        }
    }
}

/// The catalogue and services that plugins are compiled with, and the compiled steps.
#[derive(Debug)]
pub(super) struct Plugins {
    catalogue: Arc<Catalogue>,
    services: Arc<Services>,
    metadata: BTreeMap<String, Value>,
    /// Work of plugins that their metadata started.
    work: Work,
    protos: Protos,
    sets: HashMap<(Kind, Id), StepSet>,
}

/// Work of plugins without requests, by plugin.
#[derive(Default)]
struct Work(BTreeMap<String, BackgroundWork>);

impl std::fmt::Debug for Work {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.0.keys()).finish()
    }
}

impl Plugins {
    pub(super) fn new(catalogue: Arc<Catalogue>, services: Arc<Services>) -> Self {
        Self {
            catalogue,
            services,
            metadata: BTreeMap::new(),
            work: Work::default(),
            protos: Protos::default(),
            sets: HashMap::new(),
        }
    }

    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Returns the plugin steps of an object; `None` if it has no plugins.
    pub(super) fn get(&self, kind: Kind, id: &Id) -> Option<&StepSet> {
        self.sets.get(&(kind, id.clone()))
    }

    /// Steps of a service's plugins for connections below HTTP. A plugin that works only on
    /// requests is left out, unless it protects: then a step refuses the connection, because its
    /// absence would go unnoticed.
    pub(super) fn for_connections(&self, service: &Id) -> Option<StepSet> {
        let set = self.get(Kind::Service, service)?;
        let mut runnable = StepSet { steps: Vec::new(), off: set.off.clone() };
        for step in &set.steps {
            let plugin = self.catalogue.get(&step.name);
            let is_kept = plugin.is_some_and(|plugin| plugin.serves_connections);
            if step.refuses_with.is_some() || is_kept {
                runnable.steps.push(Arc::clone(step));
            } else if plugin.is_none_or(|plugin| protects(plugin.category)) {
                let filter = step.filter.clone();
                let refusing = PluginStep::unavailable(&step.name, "service", filter);
                runnable.steps.push(Arc::new(refusing));
            }
        }
        Some(runnable)
    }

    /// Whether requests are refused because a plugin, or an unreadable part of the object, is
    /// unavailable.
    pub(super) fn refuses(&self, kind: Kind, id: &Id) -> bool {
        self.get(kind, id)
            .is_some_and(|set| set.steps.iter().any(|step| step.refuses_with.is_some()))
    }

    /// Compiles and stores the plugins of an object.
    pub(super) fn set(&mut self, plugins: &PluginSet, place: &mut CompileTarget<'_>) {
        let Object { kind, id, .. } = place.object;
        let key = (kind, id.clone());
        if plugins.is_empty() {
            self.sets.remove(&key);
            return;
        }
        let mut set = StepSet::default();
        let mut is_refused = false;
        for (name, conf) in plugins.iter() {
            if conf.meta.disable {
                set.off.push(name.into());
                continue;
            }
            match self.step(name, conf, place) {
                Ok(step) => set.steps.push(Arc::new(step)),
                Err(problem) if problem.severity == Severity::Warning => {
                    place.problems.push(problem)
                }
                // The other plugins are compiled all the same, so that all problems are reported at
                // once.
                Err(problem) => {
                    is_refused = true;
                    place.problems.push(problem);
                    set.steps.extend(self.in_place_of(kind, name, conf).map(Arc::new));
                }
            }
        }
        if !is_refused || place.fallback == Fallback::Refuse {
            self.sets.insert(key, set);
        }
    }

    /// Compiles the script of a route, which runs in the place of its plugins.
    ///
    /// # Errors
    /// If scripts are off, or the text is invalid.
    pub(super) fn script(&self, text: &str) -> Result<PluginStep, ConfError> {
        let handler = self.services.scripting()?.script(text)?;
        Ok(PluginStep {
            name: "script".into(),
            refuses_with: None,
            upstreams: Vec::new(),
            phases: handler.phases(),
            priority: 0,
            owner: "route",
            filter: None,
            error_response: None,
            is_auth: false,
            judges_path: true,
            run_policy: RunPolicy::Both,
            handler,
        })
    }

    /// Compiles the condition of a route.
    ///
    /// # Errors
    /// If scripts are off, or the text is invalid.
    pub(super) fn route_filter(&self, text: &str) -> Result<Arc<dyn RouteFilter>, ConfError> {
        self.services.scripting()?.route_filter(text)
    }

    /// Stores a single step as the plugins of an object.
    pub(super) fn set_one(&mut self, kind: Kind, id: &Id, step: PluginStep) {
        let set = StepSet { steps: vec![Arc::new(step)], off: Vec::new() };
        self.sets.insert((kind, id.clone()), set);
    }

    /// Refuses the requests of an object of which a part is unreadable.
    pub(super) fn refuse(&mut self, kind: Kind, id: &Id, part: Unreadable) {
        let step = PluginStep::refusing(part.name(), owner_name(kind), part.code());
        let set = StepSet { steps: vec![Arc::new(step)], off: Vec::new() };
        self.sets.insert((kind, id.clone()), set);
    }

    /// Returns the step that replaces a plugin which cannot run. A global rule applies to every
    /// request, so an observability plugin in one is skipped instead of refusing all requests.
    fn in_place_of(&self, kind: Kind, name: &str, conf: &PluginConf) -> Option<PluginStep> {
        let looks_on = self
            .catalogue
            .get(name)
            .is_some_and(|plugin| plugin.category == Category::Observability);
        let refuses = !(looks_on && kind == Kind::GlobalRule);
        refuses.then(|| PluginStep::unavailable(name, owner_name(kind), conf.meta.filter.clone()))
    }

    pub(super) fn remove(&mut self, kind: Kind, id: &Id) {
        self.sets.remove(&(kind, id.clone()));
    }

    /// Sets a plugin's metadata. The caller recompiles the objects that use the plugin.
    ///
    /// # Errors
    /// If the metadata are invalid; the earlier ones stay.
    pub(super) fn set_metadata(&mut self, plugin: &str, metadata: Value) -> Result<(), ConfError> {
        if let Some(found) = self.catalogue.get(plugin) {
            found.check_metadata(&metadata)?;
            // The earlier work ends first, so that no line is sent twice.
            let earlier = self.work.0.remove(plugin);
            match (found.start)(&metadata, &self.services) {
                Ok(work) => self.work.0.extend(work.map(|work| (plugin.to_owned(), work))),
                Err(error) => {
                    self.work.0.extend(earlier.map(|work| (plugin.to_owned(), work)));
                    return Err(error);
                }
            }
        }
        self.metadata.insert(plugin.to_owned(), metadata);
        Ok(())
    }

    /// Removes a plugin's metadata. The caller recompiles the objects that use the plugin.
    pub(super) fn remove_metadata(&mut self, plugin: &str) {
        self.metadata.remove(plugin);
        self.work.0.remove(plugin);
    }

    /// Returns the definitions of gRPC services. The caller recompiles the objects whose plugins
    /// name a changed one.
    pub(super) fn protos_mut(&mut self) -> &mut Protos {
        &mut self.protos
    }

    fn step(
        &self,
        name: &str,
        conf: &PluginConf,
        place: &mut CompileTarget<'_>,
    ) -> Result<PluginStep, Problem> {
        let Object { kind, id, path } = place.object;
        let path = format!("{path}.plugins.{name}");
        let owner = format!("{kind}/{id}");
        let scope = Scope {
            owner: &owner,
            conf: &conf.conf,
            metadata: self.metadata.get(name),
            protos: Some(&self.protos),
            catalogue: &self.catalogue,
            services: &self.services,
        };
        let Some(plugin) = self.catalogue.get(name) else {
            return Err(absent::problem(name, path, role_of(kind), &scope));
        };
        if kind == Kind::StreamRoute && !plugin.serves_connections {
            return Err(validation::not_for_connections(name, path));
        }
        let secrets = secrets::Fields::for_plugin(plugin);
        let resolved = self.resolved(&conf.conf, secrets, plugin.schema(), &path)?;
        // Secrets are resolved from here on; the configuration that other code shows keeps the
        // references.
        let scope = Scope { conf: &resolved.conf, ..scope };
        let handler = plugin.compile(&resolved.conf, &scope).map_err(|error| {
            let to_blame = resolved.to_blame(&path);
            to_blame.unwrap_or_else(|| validation::refused(name, path.clone(), &error))
        })?;
        let handler = match &conf.meta.pre_function {
            None => handler,
            Some(text) => {
                let path = format!("{path}._meta.pre_function");
                let before = self
                    .services
                    .scripting()
                    .and_then(|scripting| scripting.before(text, &resolved.conf, handler));
                before.map_err(|error| Problem::error(path, error))?
            }
        };
        resolved.warnings(&path).for_each(|warning| place.problems.push(warning));
        let upstreams = place.upstreams_of(&owner, name, &handler);
        Ok(PluginStep {
            name: name.into(),
            refuses_with: None,
            upstreams,
            phases: handler.phases(),
            priority: conf.meta.priority.unwrap_or(i64::from(plugin.priority)),
            owner: owner_name(kind),
            filter: conf.meta.filter.clone(),
            error_response: conf.meta.error_response.clone(),
            is_auth: plugin.type_name().is_some(),
            judges_path: plugin.judges_path,
            run_policy: plugin.run_policy,
            handler,
        })
    }

    /// Resolves the secrets and other references of a configuration, with each value read as the
    /// type that the schema expects.
    ///
    /// # Errors
    /// If a secret has no value, because its reference has no source or its sealed text cannot be
    /// opened, or if a value has another type than the schema expects.
    pub(super) fn resolved<'c>(
        &self,
        conf: &'c Value,
        fields: secrets::Fields<'_>,
        schema: &Value,
        path: &str,
    ) -> Result<ResolvedConf<'c>, Problem> {
        let source = self.services.secrets.as_deref().map(|source| source as &dyn SecretSource);
        secrets::References { source, fields, schema }.resolve(conf, path)
    }

    /// Reports enabled auth plugins that the catalogue does not contain.
    pub(super) fn note_absent(&self, plugins: &PluginSet, path: &str, problems: &mut Problems) {
        let absent = plugins.iter().filter(|(name, _)| self.catalogue.get(name).is_none());
        for (name, conf) in absent.filter(|(_, conf)| !conf.meta.disable) {
            let scope = Scope {
                owner: path,
                conf: &conf.conf,
                metadata: None,
                protos: None,
                catalogue: &self.catalogue,
                services: &self.services,
            };
            let path = format!("{path}.plugins.{name}");
            problems.push(absent::problem(name, path, Role::Identity, &scope));
        }
    }

    /// Returns the plugins of a consumer other than its auth plugins.
    pub(super) fn without_identities(&self, plugins: &PluginSet) -> PluginSet {
        let is_identity =
            |name: &str| self.catalogue.get(name).is_some_and(|plugin| plugin.is_auth());
        let own = plugins.iter().filter(|(name, _)| !is_identity(name));
        own.map(|(name, conf)| (name.into(), conf.clone())).collect()
    }

    /// Returns the enabled auth plugins of a set with their configurations.
    pub(super) fn identities<'a>(
        &'a self,
        plugins: &'a PluginSet,
    ) -> impl Iterator<Item = (&'a PluginType, &'a PluginConf)> {
        let enabled = plugins.iter().filter(|(_, conf)| !conf.meta.disable);
        enabled.filter_map(|(name, conf)| {
            let plugin = self.catalogue.get(name).filter(|plugin| plugin.is_auth())?;
            Some((plugin, conf))
        })
    }
}

/// An object whose plugins are compiled, and the places that receive the results.
pub(super) struct CompileTarget<'a> {
    pub object: Object<'a>,
    /// Treatment of the object's plugins if one cannot run.
    pub fallback: Fallback,
    /// Upstreams and their states, by owner.
    pub upstreams: &'a mut Upstreams,
    pub slots: &'a mut Slots,
    /// Problems of the object, extended by compilation.
    pub problems: &'a mut Problems,
}

impl CompileTarget<'_> {
    fn upstreams_of(
        &mut self,
        owner: &str,
        plugin: &str,
        handler: &SharedHandler,
    ) -> Vec<StepUpstream> {
        let named = handler.upstreams().into_iter().enumerate();
        let upstreams = named.map(|(index, named)| match named {
            UpstreamRef::Route => StepUpstream::Route,
            UpstreamRef::Id(id) => {
                StepUpstream::Slot(self.upstreams.slot(id, self.slots), id.clone())
            }
            UpstreamRef::Inline(upstream) => {
                let key = format!("{owner}/plugins/{plugin}/{index}");
                StepUpstream::Inline(self.upstreams.set_plugin(key, upstream))
            }
        });
        upstreams.collect()
    }
}

fn protects(category: Category) -> bool {
    match category {
        Category::Authentication | Category::Security | Category::Traffic => true,
        Category::Transformation | Category::Observability | Category::Utility => false,
    }
}

fn role_of(kind: Kind) -> Role {
    match kind {
        Kind::Consumer | Kind::Credential => Role::Identity,
        Kind::StreamRoute => Role::Connection,
        _ => Role::Verifier,
    }
}

fn owner_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Route => "route",
        Kind::StreamRoute => "stream route",
        Kind::Service => "service",
        Kind::PluginConfig => "plugin config",
        Kind::GlobalRule => "global rule",
        Kind::Consumer => "consumer",
        Kind::ConsumerGroup => "consumer group",
        _ => "object",
    }
}
