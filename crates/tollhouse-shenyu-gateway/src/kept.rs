//! What goes on from one compilation to the next: counts, and what was compiled of objects that are still the
//! same. Objects are the same where they lie in the same place.

use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_shenyu::model::{AppAuth, DiscoveryUpstreams, Plugin, Rule, Selector};
use tollhouse_shenyu::sign::Applications;

use crate::action::Action;
use crate::chain::Chain;
use crate::counts::Counts;
use crate::target::Target;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) counts: Counts,
    /// What was compiled of each place, by the id of its rule, or that of its selector.
    pub(crate) made: MadeById,
    pub(crate) applications: Option<MadeApplications>,
    /// The chain that was compiled last.
    pub(crate) chain: Option<Arc<Chain>>,
}

/// What was compiled of rules and selectors.
#[derive(Debug, Default)]
pub(crate) struct MadeById {
    pub(crate) rules: HashMap<String, Made>,
    pub(crate) selectors: HashMap<String, Made>,
}

/// What a place was compiled of.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) selector: Arc<Selector>,
    pub(crate) rule: Option<Arc<Rule>>,
    pub(crate) discovery: Option<Arc<DiscoveryUpstreams>>,
}

/// What a place was compiled to.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) inputs: Inputs,
    pub(crate) action: Arc<Action>,
    /// Where it sends requests, if it does.
    pub(crate) target: Option<Arc<Target>>,
    /// Why it is not what the objects say.
    pub(crate) problem: Option<String>,
}

/// What was compiled of all applications together.
#[derive(Debug)]
pub(crate) struct MadeApplications {
    pub(crate) sources: Vec<Arc<AppAuth>>,
    pub(crate) applications: Arc<Applications>,
    pub(crate) problems: Vec<tollhouse_shenyu::matching::Problem>,
}

impl Inputs {
    /// Whether both are of the same objects.
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
    /// Whether it was made of these.
    pub(crate) fn is_of(&self, sources: &[Arc<AppAuth>]) -> bool {
        self.sources.len() == sources.len()
            && self.sources.iter().zip(sources).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}
