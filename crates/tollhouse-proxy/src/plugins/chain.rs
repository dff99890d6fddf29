//! Plugins in the order in which they run: an object's, and all of those that a request meets.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;
use tollhouse_model::Id;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{Phases, RunPolicy};

use crate::snapshot::{RouteEntry, Snapshot, UpstreamEntry};

/// Verdicts of one request held without allocating; few plugins have a filter.
const VERDICTS_INLINE: usize = 4;

/// One configured plugin.
#[derive(Debug)]
pub struct PluginStep {
    /// Its name.
    pub name: Box<str>,
    /// The plugin.
    pub handler: SharedHandler,
    /// Whether requests are refused here, since the plugin cannot run.
    pub is_unavailable: bool,
    /// The phases that it takes part in; asked for every request.
    pub phases: Phases,
    /// Higher runs earlier: the plugin's own, or what `_meta.priority` says.
    pub priority: i64,
    /// The kind of object that brings it: `route`, `service`, `plugin config`, ….
    pub owner: &'static str,
    /// Runs only where this holds.
    pub filter: Option<Expr>,
    /// Replaces the body of its answers with status 400 or above.
    pub error_response: Option<Value>,
    /// Whether it finds out who asks.
    pub is_auth: bool,
    /// Whether it makes way for the route's own where it stands in a global rule.
    pub run_policy: RunPolicy,
    /// Upstreams that it may choose.
    pub upstreams: Vec<StepUpstream>,
}

/// An upstream that a plugin may choose.
#[derive(Debug, Clone)]
pub enum StepUpstream {
    /// The route's own.
    Route,
    /// One that stands in the plugin's conf.
    Inline(Arc<UpstreamEntry>),
    /// An upstream object, by its slot in the snapshot.
    Slot(u32, Id),
}

impl PluginStep {
    /// The plugin's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its filter needs the request's body.
    pub(crate) fn filter_reads_body(&self) -> bool {
        self.filter.as_ref().is_some_and(Expr::reads_body)
    }

    /// What tells this instance from any other.
    #[inline]
    pub(crate) fn instance(&self) -> usize {
        Arc::as_ptr(&self.handler).cast::<()>() as usize
    }
}

/// What one object says of plugins.
#[derive(Debug, Clone, Default)]
pub struct StepSet {
    /// Those that run, in the order of their names.
    pub steps: Vec<Arc<PluginStep>>,
    /// The names of those that are switched off, here and in the objects that this one goes before.
    pub off: Vec<Box<str>>,
}

/// Plugins by descending priority, one of each name.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    steps: Vec<Arc<PluginStep>>,
    /// Names that are switched off.
    off: Vec<Box<str>>,
    phases: Phases,
    /// Whether the filter of any needs the request's body.
    filters_read_body: bool,
}

impl Chain {
    /// Of the first that is said of each name; earlier sets win.
    pub fn merge<'a>(sets: impl IntoIterator<Item = &'a StepSet>) -> Self {
        let mut steps: Vec<Arc<PluginStep>> = Vec::new();
        let mut off: Vec<Box<str>> = Vec::new();
        for set in sets {
            for step in &set.steps {
                let is_said = steps.iter().any(|other| other.name == step.name);
                if !is_said && !off.contains(&step.name) {
                    steps.push(Arc::clone(step));
                }
            }
            // Behind the set's own steps, which have other names.
            off.extend(set.off.iter().cloned());
        }
        // Stable: equal priorities stay in the order of their names within a set.
        steps.sort_by_key(|step| std::cmp::Reverse(step.priority));
        let phases = steps.iter().fold(Phases::NONE, |all, step| all.union(step.phases));
        let filters_read_body = steps.iter().any(|step| step.filter_reads_body());
        Self { steps, off, phases, filters_read_body }
    }

    /// Of sets that do not go before one another: what one of them switches off, runs for another.
    pub fn merge_equals<'a>(sets: impl IntoIterator<Item = &'a StepSet>) -> Self {
        let running =
            sets.into_iter().map(|set| StepSet { steps: set.steps.clone(), off: Vec::new() });
        Self::merge(&running.collect::<Vec<_>>())
    }

    /// Whether it neither runs anything nor switches anything off.
    pub(crate) fn says_nothing(&self) -> bool {
        self.steps.is_empty() && self.off.is_empty()
    }

    /// Whether there is nothing to run.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Arc<PluginStep>] {
        &self.steps
    }

    fn has(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step.name() == name)
    }
}

/// All plugins that one request meets: those of global rules, then those of its route, into which
/// its consumer's come once it is known.
#[derive(Debug)]
pub(crate) struct Chains<'s> {
    globals: &'s Arc<Chain>,
    /// The route's; `None` where no route takes the request.
    route: Option<&'s Chain>,
    /// The route's with the consumer's among them; in place of `route` once `is_merged`.
    merged: Vec<&'s Arc<PluginStep>>,
    is_merged: bool,
    phases: Phases,
    /// What `_meta.filter` said; asked once for each instance.
    verdicts: RefCell<Verdicts>,
}

type Verdicts = SmallVec<[(usize, bool); VERDICTS_INLINE]>;

/// The same without the snapshot that it was taken from, for an exchange that may last for days.
#[derive(Debug)]
pub(crate) struct KeptChains {
    globals: Arc<Chain>,
    merged: Vec<Arc<PluginStep>>,
    is_merged: bool,
    phases: Phases,
    verdicts: Verdicts,
}

impl KeptChains {
    /// To be used for a request that took `route`.
    pub(crate) fn lend<'k>(&'k self, route: &'k RouteEntry) -> Chains<'k> {
        Chains {
            globals: &self.globals,
            route: Some(&route.chain),
            merged: self.merged.iter().collect(),
            is_merged: self.is_merged,
            phases: self.phases,
            verdicts: RefCell::new(self.verdicts.clone()),
        }
    }
}

impl<'s> Chains<'s> {
    /// Those of global rules and of a route; `None` where there are none, which costs a look.
    #[inline]
    pub(crate) fn of(snapshot: &'s Snapshot, route: Option<&'s RouteEntry>) -> Option<Self> {
        let (globals, route) = (&snapshot.globals, route.map(|route| &route.chain));
        if globals.is_empty() && route.is_none_or(Chain::is_empty) {
            return None;
        }
        let phases = route.map_or(Phases::NONE, |route| route.phases);
        Some(Self {
            globals,
            route,
            merged: Vec::new(),
            is_merged: false,
            phases: globals.phases.union(phases),
            verdicts: RefCell::default(),
        })
    }

    /// Holds what it refers to, but for the route's own.
    pub(crate) fn keep(self) -> KeptChains {
        KeptChains {
            globals: Arc::clone(self.globals),
            merged: self.merged.into_iter().map(Arc::clone).collect(),
            is_merged: self.is_merged,
            phases: self.phases,
            verdicts: self.verdicts.into_inner(),
        }
    }

    /// Whether any plugin takes part in `phase`.
    #[inline]
    pub(crate) fn has(&self, phase: Phases) -> bool {
        self.phases.intersects(phase)
    }

    /// Whether any filter needs the request's body.
    #[inline]
    pub(crate) fn filters_read_body(&self) -> bool {
        self.globals.filters_read_body
            || self.route.is_some_and(|route| route.filters_read_body)
            || self.merged.iter().any(|step| step.filter_reads_body())
    }

    /// The step at `index` of all steps, those of global rules first.
    #[inline]
    pub(crate) fn step(&self, index: usize) -> Option<&'s PluginStep> {
        let globals = self.globals.steps.len();
        if index < globals {
            return self.globals.steps.get(index).map(|step| &**step);
        }
        let index = index - globals;
        if self.is_merged {
            return self.merged.get(index).map(|step| &***step);
        }
        self.route?.steps.get(index).map(|step| &**step)
    }

    /// Whether `step`, at `index`, takes part in this request at all.
    #[inline]
    pub(crate) fn runs(&self, step: &PluginStep, index: usize, request: &dyn Lookup) -> bool {
        (step.run_policy == RunPolicy::Both || !self.makes_way(step, index))
            && step.filter.as_ref().is_none_or(|filter| self.holds(step, filter, request))
    }

    fn makes_way(&self, step: &PluginStep, index: usize) -> bool {
        let is_global = index < self.globals.steps.len();
        is_global
            && (self.route.is_some_and(|route| route.has(step.name()))
                || self.merged_has(step.name()))
    }

    fn merged_has(&self, name: &str) -> bool {
        self.merged.iter().any(|step| step.name() == name)
    }

    fn holds(&self, step: &PluginStep, filter: &Expr, request: &dyn Lookup) -> bool {
        let instance = step.instance();
        let mut verdicts = self.verdicts.borrow_mut();
        if let Some((_, verdict)) = verdicts.iter().find(|(other, _)| *other == instance) {
            return *verdict;
        }
        // A filter that cannot be decided leaves its plugin in place, which may protect.
        let verdict = filter.evaluate(request).unwrap_or(true);
        verdicts.push((instance, verdict));
        verdict
    }

    /// Lets the plugins of the consumer and of its group join in: they replace the route's of the
    /// same name, as a whole (apisix.md §3.8).
    pub(crate) fn join(&mut self, consumer: Option<&'s Chain>, group: Option<&'s Chain>) {
        let mut above: SmallVec<[&Chain; 2]> = SmallVec::new();
        for chain in [consumer, group, self.route].into_iter().flatten() {
            for step in &chain.steps {
                let is_off = above.iter().any(|chain| chain.off.contains(&step.name));
                if !is_off && !self.merged_has(step.name()) {
                    self.merged.push(step);
                }
            }
            above.push(chain);
        }
        self.merged.sort_by_key(|step| std::cmp::Reverse(step.priority));
        self.is_merged = true;
        let phases = self.merged.iter().map(|step| step.phases);
        self.phases = phases.fold(self.globals.phases, Phases::union);
    }

    /// Whether `step` came with the consumer.
    pub(crate) fn is_new(&self, step: &PluginStep) -> bool {
        self.is_merged
            && !self
                .route
                .is_some_and(|route| route.steps.iter().any(|it| std::ptr::eq(&**it, step)))
            && !self.globals.steps.iter().any(|other| std::ptr::eq(&**other, step))
    }
}
