//! State that one compilation passes to the next: counts, and results for unchanged objects. An
//! object counts as unchanged if it is still the allocation of the previous compilation.

use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_shenyu::model::{AppAuth, DiscoveryUpstreams, Plugin, Rule, Selector};

use crate::chain::Chain;
use crate::counts::Counts;
use crate::place::Place;
use crate::plugins::Action;
use crate::plugins::sign::signature::Applications;
use crate::target::Target;

#[derive(Debug, Default)]
pub(crate) struct Carryover {
    pub(crate) counts: Counts,
    pub(crate) actions: ActionTable,
    pub(crate) applications: Option<ApplicationTable>,
    /// Chain of the last compilation.
    pub(crate) chain: Option<Arc<Chain>>,
}

/// Compiled actions by the id of their rule or selector.
#[derive(Debug, Default)]
pub(crate) struct ActionTable {
    pub(crate) rules: HashMap<String, ActionEntry>,
    pub(crate) selectors: HashMap<String, ActionEntry>,
}

/// Objects that an action was compiled from.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    plugin: Arc<Plugin>,
    selector: Arc<Selector>,
    rule: Option<Arc<Rule>>,
    discovery: Option<Arc<DiscoveryUpstreams>>,
}

/// Action of a rule with the objects that it was compiled from.
#[derive(Debug, Clone)]
pub(crate) struct ActionEntry {
    pub(crate) inputs: Inputs,
    pub(crate) action: Action,
    /// Target that the action sends requests to, if any.
    pub(crate) target: Option<Arc<Target>>,
    /// Reason why the rule could not be compiled, if the action is a substitute.
    pub(crate) problem: Option<String>,
}

/// Compiled applications with their source objects.
#[derive(Debug)]
pub(crate) struct ApplicationTable {
    pub(crate) sources: Vec<Arc<AppAuth>>,
    pub(crate) applications: Arc<Applications>,
    pub(crate) problems: Vec<tollhouse_shenyu::matching::Problem>,
}

impl Inputs {
    pub(crate) fn new(place: &Place<'_>) -> Self {
        Self {
            plugin: Arc::clone(place.plugin),
            selector: Arc::clone(place.selector),
            rule: place.rule.cloned(),
            discovery: place.discovery.cloned(),
        }
    }

    /// Whether two actions are compiled from the same objects.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plugin, &other.plugin)
            && Arc::ptr_eq(&self.selector, &other.selector)
            && is_same(self.rule.as_ref(), other.rule.as_ref())
            && is_same(self.discovery.as_ref(), other.discovery.as_ref())
    }
}

fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

impl ApplicationTable {
    /// Whether the applications were compiled from these objects.
    pub(crate) fn is_of(&self, sources: &[Arc<AppAuth>]) -> bool {
        self.sources.len() == sources.len()
            && self.sources.iter().zip(sources).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}
