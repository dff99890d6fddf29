//! State that one compilation passes to the next: counts, and results for unchanged objects. An
//! object is unchanged if it is in the allocation of the previous compilation.

use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_shenyu::model::{AppAuth, DiscoveryUpstreams, Plugin, Rule, Selector};
use tollhouse_shenyu::sign::Applications;

use crate::action::Action;
use crate::chain::Chain;
use crate::counts::Counts;
use crate::target::Target;

#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) counts: Counts,
    /// Compiled actions by the id of their rule or selector.
    pub(crate) made: MadeById,
    pub(crate) applications: Option<MadeApplications>,
    /// Chain that the previous compilation made.
    pub(crate) chain: Option<Arc<Chain>>,
}

/// Compiled actions of rules and selectors.
#[derive(Debug, Default)]
pub(crate) struct MadeById {
    pub(crate) rules: HashMap<String, Made>,
    pub(crate) selectors: HashMap<String, Made>,
}

/// Objects that an action was compiled from.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) selector: Arc<Selector>,
    pub(crate) rule: Option<Arc<Rule>>,
    pub(crate) discovery: Option<Arc<DiscoveryUpstreams>>,
}

/// Action of a rule with the objects that it was compiled from.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) inputs: Inputs,
    pub(crate) action: Arc<Action>,
    /// Target that the action sends requests to, if any.
    pub(crate) target: Option<Arc<Target>>,
    /// Why the action is a substitute, if it is.
    pub(crate) problem: Option<String>,
}

/// Compiled applications with their source objects.
#[derive(Debug)]
pub(crate) struct MadeApplications {
    pub(crate) sources: Vec<Arc<AppAuth>>,
    pub(crate) applications: Arc<Applications>,
    pub(crate) problems: Vec<tollhouse_shenyu::matching::Problem>,
}

impl Inputs {
    /// Whether both consist of identical objects, not merely equal ones.
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

impl MadeApplications {
    /// Whether these are the source objects.
    pub(crate) fn is_of(&self, sources: &[Arc<AppAuth>]) -> bool {
        self.sources.len() == sources.len()
            && self.sources.iter().zip(sources).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}
