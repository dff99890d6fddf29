//! Source objects of a gateway by kind and id, and their compilation to a chain.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use tollhouse_shenyu::matching::Problem;
use tollhouse_shenyu::model::{
    AppAuth, DiscoveryUpstreams, Metadata, Plugin, ProxySelector, Rule, Selector,
};
use tollhouse_shenyu::{Document, DocumentError, Kind};

use crate::carryover::Carryover;
use crate::chain::Chain;
use crate::compile::{self, Interfaces};
use crate::engines::Engines;
use crate::local::LocalInterface;
use crate::parts::Parts;
use crate::terms::Terms;

/// Default namespace of objects and gateways (2.7 and later).
const DEFAULT_NAMESPACE: &str = "649330b6-c2d7-4edc-be8e-8a54df9eb385";

/// Why an object is refused.
pub type SourceError = DocumentError;

/// Source objects by kind and id.
#[derive(Debug, Default)]
pub struct Sources {
    plugins: BTreeMap<String, Arc<Plugin>>,
    selectors: BTreeMap<String, Arc<Selector>>,
    rules: BTreeMap<String, Arc<Rule>>,
    metadata: BTreeMap<String, Arc<Metadata>>,
    app_auths: BTreeMap<String, Arc<AppAuth>>,
    proxy_selectors: BTreeMap<String, Arc<ProxySelector>>,
    discovery: BTreeMap<String, Arc<DiscoveryUpstreams>>,
    /// State between compilations.
    carryover: Mutex<Carryover>,
    interfaces: Interfaces,
}

impl Sources {
    pub fn with_engines(engines: Option<Arc<dyn Engines>>) -> Self {
        Self { interfaces: Interfaces { engines, local: None }, ..Self::default() }
    }

    /// Sets the handler of the gateway's own interface.
    #[must_use]
    pub fn with_local(self, local: Option<Arc<dyn LocalInterface>>) -> Self {
        Self { interfaces: Interfaces { local, ..self.interfaces }, ..self }
    }

    /// Parses and stores an object. If that fails, the last valid version stays.
    pub fn put(&mut self, kind: Kind, id: &str, text: &str) -> Result<(), SourceError> {
        let id = id.to_owned();
        match kind {
            Kind::Plugin => keep(&mut self.plugins, id, read(text)?),
            Kind::Selector => {
                let mut selector: Selector = read(text)?;
                selector.id.clone_from(&id);
                keep(&mut self.selectors, id, selector);
            }
            Kind::Rule => {
                let mut rule: Rule = read(text)?;
                rule.id.clone_from(&id);
                keep(&mut self.rules, id, rule);
            }
            Kind::Metadata => keep(&mut self.metadata, id, read(text)?),
            Kind::AppAuth => keep(&mut self.app_auths, id, read(text)?),
            Kind::ProxySelector => keep(&mut self.proxy_selectors, id, read(text)?),
            Kind::DiscoveryUpstream => keep(&mut self.discovery, id, read(text)?),
        }
        Ok(())
    }

    pub fn remove(&mut self, kind: Kind, id: &str) {
        match kind {
            Kind::Plugin => drop(self.plugins.remove(id)),
            Kind::Selector => drop(self.selectors.remove(id)),
            Kind::Rule => drop(self.rules.remove(id)),
            Kind::Metadata => drop(self.metadata.remove(id)),
            Kind::AppAuth => drop(self.app_auths.remove(id)),
            Kind::ProxySelector => drop(self.proxy_selectors.remove(id)),
            Kind::DiscoveryUpstream => drop(self.discovery.remove(id)),
        }
    }

    pub fn clear(&mut self) {
        let interfaces = std::mem::take(&mut self.interfaces);
        let carryover = std::mem::take(&mut self.carryover);
        *self = Self { carryover, interfaces, ..Self::default() };
    }

    /// Compiles the objects of the namespace, reusing results for unchanged ones, and reports
    /// faulty objects. Returns no chain if all plugins and filters are off.
    pub fn compile(&self, terms: &Terms) -> (Option<Arc<Chain>>, Vec<Problem>) {
        let named = Some(terms.namespace.as_str()).filter(|name| !name.is_empty());
        let namespace = named.unwrap_or(DEFAULT_NAMESPACE);
        let is_own =
            |other: Option<&String>| other.map_or(DEFAULT_NAMESPACE, String::as_str) == namespace;
        let parts = Parts {
            plugins: own(&self.plugins, |it| is_own(it.namespace_id.as_ref())),
            selectors: own(&self.selectors, |it| is_own(it.namespace_id.as_ref())),
            rules: own(&self.rules, |it| is_own(it.namespace_id.as_ref())),
            metadata: own(&self.metadata, |it| is_own(it.namespace_id.as_ref())),
            app_auths: own(&self.app_auths, |it| is_own(it.namespace_id.as_ref())),
            proxy_selectors: own(&self.proxy_selectors, |it| is_own(it.namespace_id.as_ref())),
            discovery: own(&self.discovery, |it| is_own(it.namespace_id.as_ref())),
        };
        let is_on = parts.plugins.iter().any(|plugin| plugin.enabled);
        if !is_on && terms.filters.is_empty() {
            return (None, Vec::new());
        }
        let mut carryover = self.carryover.lock().unwrap_or_else(PoisonError::into_inner);
        let (chain, problems) =
            compile::compile(&parts, terms.clone(), &mut carryover, &self.interfaces);
        (Some(chain), problems)
    }
}

fn read<T: DeserializeOwned + Clone>(text: &str) -> Result<T, SourceError> {
    Ok(Document::<T>::parse(text)?.value().clone())
}

/// Stores an object. If it equals the stored one, the old allocation stays, so that compiled
/// results remain valid.
fn keep<T: PartialEq>(all: &mut BTreeMap<String, Arc<T>>, id: String, object: T) {
    if all.get(&id).is_none_or(|known| **known != object) {
        all.insert(id, Arc::new(object));
    }
}

fn own<T>(all: &BTreeMap<String, Arc<T>>, is_own: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
    all.values().filter(|it| is_own(it)).cloned().collect()
}
