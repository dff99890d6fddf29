//! The objects of ShenYu that a gateway knows, by kind and id, and what it makes of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use tollhouse_shenyu::answer::Statuses;
use tollhouse_shenyu::matching::Problem;
use tollhouse_shenyu::model::{
    AppAuth, DiscoveryUpstreams, Metadata, Plugin, ProxySelector, Rule, Selector,
};
use tollhouse_shenyu::{Document, DocumentError, Kind};

use crate::build;
use crate::chain::Chain;
use crate::counts::Counts;
use crate::engines::Engines;

/// The namespace of objects and gateways that name none (2.7 and later).
const DEFAULT_NAMESPACE: &str = "649330b6-c2d7-4edc-be8e-8a54df9eb385";

/// What holds for all requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Which statuses go with the gateway's own answers.
    pub statuses: Statuses,
    /// Minutes that a signature may be old, or ahead.
    pub sign_delay_minutes: u32,
    /// The namespace whose objects count; empty for ShenYu's default one.
    pub namespace: String,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            statuses: Statuses::default(),
            sign_delay_minutes: tollhouse_shenyu::sign::DEFAULT_DELAY_MINUTES,
            namespace: String::new(),
        }
    }
}

/// Why an object is not taken.
pub type SourceError = DocumentError;

/// See the module.
#[derive(Debug, Default)]
pub struct Sources {
    plugins: BTreeMap<String, Plugin>,
    selectors: BTreeMap<String, Selector>,
    rules: BTreeMap<String, Rule>,
    metadata: BTreeMap<String, Metadata>,
    app_auths: BTreeMap<String, AppAuth>,
    proxy_selectors: BTreeMap<String, ProxySelector>,
    discovery: BTreeMap<String, DiscoveryUpstreams>,
    /// Counts that go on through changes.
    counts: Mutex<Counts>,
    /// What has connections.
    engines: Option<Arc<dyn Engines>>,
}

impl Sources {
    /// Without objects, with what has connections.
    pub fn with_engines(engines: Option<Arc<dyn Engines>>) -> Self {
        Self { engines, ..Self::default() }
    }

    /// Takes the text of an object in; a bad one leaves the last good one in place.
    ///
    /// # Errors
    /// When it is no object of its kind.
    pub fn put(&mut self, kind: Kind, id: &str, text: &str) -> Result<(), SourceError> {
        let id = id.to_owned();
        match kind {
            Kind::Plugin => drop(self.plugins.insert(id, read(text)?)),
            Kind::Selector => {
                let mut selector: Selector = read(text)?;
                selector.id.clone_from(&id);
                self.selectors.insert(id, selector);
            }
            Kind::Rule => {
                let mut rule: Rule = read(text)?;
                rule.id.clone_from(&id);
                self.rules.insert(id, rule);
            }
            Kind::Metadata => drop(self.metadata.insert(id, read(text)?)),
            Kind::AppAuth => drop(self.app_auths.insert(id, read(text)?)),
            Kind::ProxySelector => drop(self.proxy_selectors.insert(id, read(text)?)),
            Kind::DiscoveryUpstream => drop(self.discovery.insert(id, read(text)?)),
        }
        Ok(())
    }

    /// Forgets an object.
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

    /// Forgets everything.
    pub fn clear(&mut self) {
        let (counts, engines) = (std::mem::take(&mut self.counts), self.engines.take());
        *self = Self { counts, engines, ..Self::default() };
    }

    /// Compiles the objects of the namespace; `None` where no plugin of it is on, so that nobody would be
    /// served. What is wrong with objects comes along; the others serve.
    pub fn compile(&self, terms: &Terms) -> (Option<Chain>, Vec<Problem>) {
        let named = Some(terms.namespace.as_str()).filter(|name| !name.is_empty());
        let namespace = named.unwrap_or(DEFAULT_NAMESPACE);
        let is_own =
            |other: Option<&String>| other.map_or(DEFAULT_NAMESPACE, String::as_str) == namespace;
        let parts = build::Parts {
            plugins: own(&self.plugins, |it| is_own(it.namespace_id.as_ref())),
            selectors: own(&self.selectors, |it| is_own(it.namespace_id.as_ref())),
            rules: own(&self.rules, |it| is_own(it.namespace_id.as_ref())),
            metadata: own(&self.metadata, |it| is_own(it.namespace_id.as_ref())),
            app_auths: own(&self.app_auths, |it| is_own(it.namespace_id.as_ref())),
            proxy_selectors: own(&self.proxy_selectors, |it| is_own(it.namespace_id.as_ref())),
            discovery: own(&self.discovery, |it| is_own(it.namespace_id.as_ref())),
        };
        if !parts.plugins.iter().any(|plugin| plugin.enabled) {
            return (None, Vec::new());
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (chain, problems) =
            build::compile(&parts, terms.clone(), &mut counts, self.engines.as_ref());
        (Some(chain), problems)
    }
}

fn read<T: DeserializeOwned + Clone>(text: &str) -> Result<T, SourceError> {
    Ok(Document::<T>::parse(text)?.value().clone())
}

fn own<T: Clone>(all: &BTreeMap<String, T>, is_own: impl Fn(&T) -> bool) -> Vec<T> {
    all.values().filter(|it| is_own(it)).cloned().collect()
}
