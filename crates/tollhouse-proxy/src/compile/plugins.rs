//! Turns the plugins of an object into steps, ready to run.
//!
//! A plugin that cannot run quarantines its object: the last good version stays, and where there is
//! none, requests are refused in the plugin's place. Only plugins that are known to protect nothing
//! are passed over, with a warning.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_model::problem::Severity;
use tollhouse_model::secret::SecretSource;
use tollhouse_model::{Id, Kind, PluginConf, PluginSet, Problem, Problems};
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::validation::{self, Role};
use tollhouse_plugin::{Catalogue, Category, PluginType, Scope, Services, UpstreamRef, absent};
use tollhouse_telemetry::ErrorCode;
use tollhouse_transcode::Protos;

use super::object::Object;
use super::secrets::{self, Resolved};
use super::upstreams::{Slots, Upstreams};
use crate::plugins::chain::StepUpstream;
use crate::plugins::{PluginStep, StepSet};

/// What stays of an object's plugins where one of them cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    /// All of what is in service: it was good.
    LastGood,
    /// There is nothing good: requests are refused where the plugin would have run.
    Refuse,
}

/// The part of an object that cannot be read, where the rest can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// All of its plugins.
    Plugins,
    /// Whatever else does not say which requests are its own, its upstream for instance.
    Route,
}

impl Unreadable {
    /// The step that stands for it.
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

/// What plugins are compiled with.
#[derive(Debug)]
pub(super) struct Plugins {
    catalogue: Arc<Catalogue>,
    services: Arc<Services>,
    metadata: BTreeMap<String, Value>,
    protos: Protos,
    /// Steps of every object that has plugins.
    sets: HashMap<(Kind, Id), StepSet>,
}

impl Plugins {
    pub(super) fn new(catalogue: Arc<Catalogue>, services: Arc<Services>) -> Self {
        Self {
            catalogue,
            services,
            metadata: BTreeMap::new(),
            protos: Protos::default(),
            sets: HashMap::new(),
        }
    }

    /// The plugins that exist.
    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// What an object says of plugins; nothing when it has none.
    pub(super) fn get(&self, kind: Kind, id: &Id) -> Option<&StepSet> {
        self.sets.get(&(kind, id.clone()))
    }

    /// What a service's plugins are to connections below HTTP. Those that only requests can pass, and
    /// that protect, refuse: nobody would know that they are not there. Others are left out.
    pub(super) fn for_connections(&self, service: &Id) -> Option<StepSet> {
        let set = self.get(Kind::Service, service)?;
        let mut kept = StepSet { steps: Vec::new(), off: set.off.clone() };
        for step in &set.steps {
            let plugin = self.catalogue.get(&step.name);
            let is_kept = plugin.is_some_and(|plugin| plugin.serves_connections);
            if step.refuses_with.is_some() || is_kept {
                kept.steps.push(Arc::clone(step));
            } else if plugin.is_none_or(|plugin| protects(plugin.category)) {
                let filter = step.filter.clone();
                let refusing = PluginStep::unavailable(&step.name, "service", filter);
                kept.steps.push(Arc::new(refusing));
            }
        }
        Some(kept)
    }

    /// Whether requests are refused for want of a plugin of the object, or of what cannot be read of it.
    pub(super) fn refuses(&self, kind: Kind, id: &Id) -> bool {
        self.get(kind, id)
            .is_some_and(|set| set.steps.iter().any(|step| step.refuses_with.is_some()))
    }

    /// Compiles and keeps the plugins of an object.
    pub(super) fn set(&mut self, plugins: &PluginSet, place: &mut Place<'_>) {
        let Object { kind, id, .. } = place.object;
        let key = (kind, id.clone());
        if plugins.is_empty() {
            self.sets.remove(&key);
            return;
        }
        let mut set = StepSet::default();
        let mut is_refused = false;
        for (name, conf) in plugins {
            if conf.meta.disable {
                set.off.push(name.as_str().into());
                continue;
            }
            match self.step(name, conf, place) {
                Ok(step) => set.steps.push(Arc::new(step)),
                Err(problem) if problem.severity == Severity::Warning => {
                    place.problems.push(problem)
                }
                // The others are compiled all the same: their problems are reported at once.
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

    /// Refuses the requests of an object of which a part cannot be read at all.
    pub(super) fn refuse(&mut self, kind: Kind, id: &Id, part: Unreadable) {
        let step = PluginStep::refusing(part.name(), owner_name(kind), part.code());
        let set = StepSet { steps: vec![Arc::new(step)], off: Vec::new() };
        self.sets.insert((kind, id.clone()), set);
    }

    /// What runs in the place of a plugin that cannot. A global rule holds every request, which one
    /// that only looks on must not stop.
    fn in_place_of(&self, kind: Kind, name: &str, conf: &PluginConf) -> Option<PluginStep> {
        let looks_on = self
            .catalogue
            .get(name)
            .is_some_and(|plugin| plugin.category == Category::Observability);
        let refuses = !(looks_on && kind == Kind::GlobalRule);
        refuses.then(|| PluginStep::unavailable(name, owner_name(kind), conf.meta.filter.clone()))
    }

    /// Forgets the plugins of an object.
    pub(super) fn remove(&mut self, kind: Kind, id: &Id) {
        self.sets.remove(&(kind, id.clone()));
    }

    /// Sets or removes a plugin's metadata; those who use the plugin are to be compiled anew.
    pub(super) fn set_metadata(&mut self, plugin: &str, metadata: Option<Value>) {
        match metadata {
            Some(metadata) => drop(self.metadata.insert(plugin.to_owned(), metadata)),
            None => drop(self.metadata.remove(plugin)),
        }
    }

    /// The definitions of gRPC services; those whose plugins name one that changes are to be compiled
    /// anew.
    pub(super) fn protos_mut(&mut self) -> &mut Protos {
        &mut self.protos
    }

    /// One plugin, ready to run.
    fn step(
        &self,
        name: &str,
        conf: &PluginConf,
        place: &mut Place<'_>,
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
        let resolved = self.resolved(&conf.conf, (secrets, plugin.schema()), &path)?;
        // Secrets have their values from here on; what is shown of the conf elsewhere has not.
        let scope = Scope { conf: &resolved.conf, ..scope };
        let handler = plugin.compile(&resolved.conf, &scope).map_err(|error| {
            let to_blame = resolved.to_blame(&path);
            to_blame.unwrap_or_else(|| validation::refused(name, path.clone(), &error))
        })?;
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

    /// A conf with the secrets in it that it refers to, and with what else it refers to, as its schema expects it.
    ///
    /// # Errors
    /// A secret has no value: nothing answers for its reference, or nothing opens what is sealed. A value is of another
    /// type than the schema expects.
    pub(super) fn resolved<'c>(
        &self,
        conf: &'c Value,
        (fields, schema): (secrets::Fields<'_>, &Value),
        path: &str,
    ) -> Result<Resolved<'c>, Problem> {
        let source = self.services.secrets.as_deref().map(|source| source as &dyn SecretSource);
        secrets::References { source, fields, schema }.resolve(conf, path)
    }

    /// Reports auth plugins that this build does not have.
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

    /// The plugins of a consumer that do not say who it is.
    pub(super) fn without_identities(&self, plugins: &PluginSet) -> PluginSet {
        let is_identity =
            |name: &str| self.catalogue.get(name).is_some_and(|plugin| plugin.is_auth());
        let own = plugins.iter().filter(|(name, _)| !is_identity(name));
        own.map(|(name, conf)| (name.clone(), conf.clone())).collect()
    }

    /// The credentials that a set names: those of auth plugins, which say who somebody is.
    pub(super) fn identities<'a>(
        &'a self,
        plugins: &'a PluginSet,
    ) -> impl Iterator<Item = (&'a PluginType, &'a PluginConf)> {
        let known = plugins.iter().filter(|(_, conf)| !conf.meta.disable);
        known.filter_map(|(name, conf)| {
            let plugin = self.catalogue.get(name).filter(|plugin| plugin.is_auth())?;
            Some((plugin, conf))
        })
    }
}

/// An object whose plugins are compiled, and where what comes of that goes.
pub(super) struct Place<'a> {
    pub object: Object<'a>,
    /// What stays where a plugin cannot run.
    pub fallback: Fallback,
    /// Keeps upstreams and their states.
    pub upstreams: &'a mut Upstreams,
    /// Slots of upstream objects.
    pub slots: &'a mut Slots,
    /// What is wrong with it.
    pub problems: &'a mut Problems,
}

impl Place<'_> {
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
