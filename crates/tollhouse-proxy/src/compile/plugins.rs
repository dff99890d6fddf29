//! Turns the plugins of an object into steps, ready to run.
//!
//! A plugin that this build does not have is passed over with a warning, as APISIX does with
//! persisted data; a conf that a plugin refuses quarantines its object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_model::secret::{has_references, resolve_in};
use tollhouse_model::{Id, Kind, PluginConf, PluginSet, Problem, Problems};
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{Catalogue, PluginType, Scope, Services, UpstreamRef, judge};

use super::upstreams::{Slots, Upstreams};
use crate::plugins::PluginStep;
use crate::plugins::chain::StepUpstream;

/// Steps of one object, in the order of their names.
pub(super) type Steps = Vec<Arc<PluginStep>>;

/// What plugins are compiled with.
#[derive(Debug)]
pub(super) struct Plugins {
    catalogue: Arc<Catalogue>,
    services: Arc<Services>,
    metadata: BTreeMap<String, Value>,
    /// Steps of every object that has plugins.
    sets: HashMap<(Kind, Id), Steps>,
}

impl Plugins {
    pub(super) fn new(catalogue: Arc<Catalogue>, services: Arc<Services>) -> Self {
        Self { catalogue, services, metadata: BTreeMap::new(), sets: HashMap::new() }
    }

    /// The plugins that exist.
    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The steps of an object; none when it has no plugins.
    pub(super) fn of(&self, kind: Kind, id: &Id) -> &[Arc<PluginStep>] {
        self.sets.get(&(kind, id.clone())).map_or(&[], Vec::as_slice)
    }

    /// Compiles and keeps the plugins of an object. Where a conf is refused, what was kept before
    /// stays.
    pub(super) fn set(
        &mut self,
        kind: Kind,
        id: &Id,
        plugins: &PluginSet,
        place: &mut Place<'_>,
        problems: &mut Problems,
    ) {
        let key = (kind, id.clone());
        if plugins.is_empty() {
            self.sets.remove(&key);
            return;
        }
        let mut steps = Steps::new();
        let mut refused = false;
        for (name, conf) in plugins {
            match self.step((kind, id), (name, conf), place, problems) {
                Ok(step) => steps.extend(step.map(Arc::new)),
                Err(problem) => {
                    refused |= problem.severity == tollhouse_model::problem::Severity::Error;
                    problems.push(problem);
                }
            }
        }
        if !refused {
            self.sets.insert(key, steps);
        }
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

    /// `None` for a plugin that is switched off.
    fn step(
        &self,
        (kind, id): (Kind, &Id),
        (name, conf): (&str, &PluginConf),
        place: &mut Place<'_>,
        problems: &mut Problems,
    ) -> Result<Option<PluginStep>, Problem> {
        if conf.meta.disable {
            return Ok(None);
        }
        let path = format!("{}.plugins.{name}", place.path);
        let Some(plugin) = self.catalogue.get(name) else {
            return Err(judge::unknown(name, path));
        };
        let owner = format!("{kind}/{id}");
        let resolved = self.resolved(&conf.conf, &path, problems);
        let scope = Scope {
            owner: &owner,
            conf: &resolved,
            metadata: self.metadata.get(name),
            catalogue: &self.catalogue,
            services: &self.services,
        };
        let handler = plugin
            .compile(&resolved, &scope)
            .map_err(|error| judge::refused(name, path, &error))?;
        let upstreams = place.upstreams_of(&owner, name, &handler);
        Ok(Some(PluginStep {
            upstreams,
            phases: handler.phases(),
            priority: conf.meta.priority.unwrap_or(i64::from(plugin.priority)),
            owner: owner_name(kind),
            filter: conf.meta.filter.clone(),
            error_response: conf.meta.error_response.clone(),
            is_auth: plugin.type_name().is_some(),
            run_policy: plugin.run_policy,
            handler,
        }))
    }

    /// A conf with the secrets in it that it refers to. What nothing answers for stays as it is
    /// written, with a warning that names it.
    pub(super) fn resolved<'c>(
        &self,
        conf: &'c Value,
        path: &str,
        problems: &mut Problems,
    ) -> Cow<'c, Value> {
        let Some(source) = self.services.secrets.as_deref() else { return Cow::Borrowed(conf) };
        if !has_references(conf) {
            return Cow::Borrowed(conf);
        }
        let mut resolved = conf.clone();
        for reference in resolve_in(&mut resolved, source) {
            let reason = format!("nothing answers for {reference}");
            let problem = Problem::warning(path, reason);
            problems.push(problem.with_hint("the text itself is taken as the value"));
        }
        Cow::Owned(resolved)
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

/// Where an object stands, and where its upstreams go.
pub(super) struct Place<'a> {
    /// For problems.
    pub path: &'a str,
    /// Keeps upstreams and their states.
    pub upstreams: &'a mut Upstreams,
    /// Slots of upstream objects.
    pub slots: &'a mut Slots,
}

impl Place<'_> {
    fn upstreams_of(
        &mut self,
        owner: &str,
        plugin: &str,
        handler: &SharedHandler,
    ) -> Vec<StepUpstream> {
        let named = handler.upstreams().into_iter().enumerate();
        let made = named.map(|(index, named)| match named {
            UpstreamRef::Route => StepUpstream::Route,
            UpstreamRef::Id(id) => {
                StepUpstream::Slot(self.upstreams.slot(id, self.slots), id.clone())
            }
            UpstreamRef::Inline(upstream) => {
                let key = format!("{owner}/plugins/{plugin}/{index}");
                StepUpstream::Inline(self.upstreams.set_plugin(key, upstream))
            }
        });
        made.collect()
    }
}

fn owner_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Route => "route",
        Kind::Service => "service",
        Kind::PluginConfig => "plugin config",
        Kind::GlobalRule => "global rule",
        Kind::Consumer => "consumer",
        Kind::ConsumerGroup => "consumer group",
        _ => "object",
    }
}
