//! Plugins of one request, in the order in which they run.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::Lookup;
use tollhouse_plugin::{Phases, RunPolicy};

use super::chain::{Chain, PluginStep};
use crate::snapshot::{RouteEntry, Snapshot};

/// Filter verdicts per request stored without allocation; few plugins have a filter.
const VERDICTS_INLINE: usize = 4;

/// Plugins of one request: those of global rules, then those of its route. The consumer's join them
/// after authentication.
#[derive(Debug)]
pub(crate) struct Chains<'s> {
    globals: &'s Arc<Chain>,
    /// The route's chain; `None` if no route matched.
    route: Option<&'s Chain>,
    /// Steps of both chains, which every phase runs through.
    global_steps: &'s [Arc<PluginStep>],
    route_steps: &'s [Arc<PluginStep>],
    /// Steps of the route and the consumer; replaces `route` once `is_merged`.
    merged: Vec<&'s Arc<PluginStep>>,
    is_merged: bool,
    phases: Phases,
    /// Results of `_meta.filter`, evaluated once per instance.
    verdicts: RefCell<Verdicts>,
}

type Verdicts = SmallVec<[(usize, bool); VERDICTS_INLINE]>;

/// Chains without the snapshot that they were taken from, for an exchange that may last for days.
#[derive(Debug)]
pub(crate) struct KeptChains {
    globals: Arc<Chain>,
    merged: Vec<Arc<PluginStep>>,
    is_merged: bool,
    phases: Phases,
    verdicts: Verdicts,
}

impl KeptChains {
    /// Returns the chains for a request on `route`.
    pub(crate) fn on_route<'k>(&'k self, route: &'k RouteEntry) -> Chains<'k> {
        Chains {
            globals: &self.globals,
            route: Some(&route.chain),
            global_steps: self.globals.steps(),
            route_steps: route.chain.steps(),
            merged: self.merged.iter().collect(),
            is_merged: self.is_merged,
            phases: self.phases,
            verdicts: RefCell::new(self.verdicts.clone()),
        }
    }
}

impl<'s> Chains<'s> {
    /// Chains of the global rules and the route; `None` if both are empty.
    #[inline]
    pub(crate) fn new(snapshot: &'s Snapshot, route: Option<&'s RouteEntry>) -> Option<Self> {
        let (globals, route) = (&snapshot.globals, route.map(|route| &route.chain));
        if globals.is_empty() && route.is_none_or(Chain::is_empty) {
            return None;
        }
        let phases = route.map_or(Phases::NONE, Chain::phases);
        Some(Self {
            globals,
            route,
            global_steps: globals.steps(),
            route_steps: route.map_or(&[], Chain::steps),
            merged: Vec::new(),
            is_merged: false,
            phases: globals.phases().union(phases),
            verdicts: RefCell::default(),
        })
    }

    /// Takes ownership of everything except the route's chain.
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

    /// Whether any plugin sees responses before the client does.
    #[inline]
    pub(crate) fn see_answers(&self) -> bool {
        self.has(Phases::RESPONSE)
    }

    /// Whether any filter needs the request body.
    #[inline]
    pub(crate) fn filters_read_body(&self) -> bool {
        self.globals.filters_read_body()
            || self.route.is_some_and(Chain::filters_read_body)
            || self.merged.iter().any(|step| step.filter_reads_body())
    }

    /// Whether the node must receive the path that a plugin has judged. A consumer's plugins need
    /// no check, because they follow an auth plugin, which judges paths itself.
    #[inline]
    pub(crate) fn judges_path(&self) -> bool {
        self.globals.judges_path() || self.route.is_some_and(Chain::judges_path)
    }

    /// Returns the step at `index` of all steps, those of global rules first.
    #[inline]
    pub(crate) fn step(&self, index: usize) -> Option<&'s PluginStep> {
        if let Some(step) = self.global_steps.get(index) {
            return Some(step);
        }
        let index = index - self.global_steps.len();
        if self.is_merged {
            return self.merged.get(index).map(|step| &***step);
        }
        self.route_steps.get(index).map(|step| &**step)
    }

    /// Whether `step`, at `index`, runs for this request.
    #[inline]
    pub(crate) fn runs(&self, step: &PluginStep, index: usize, request: &dyn Lookup) -> bool {
        (step.run_policy == RunPolicy::Both || !self.makes_way(step, index))
            && step.filter.as_ref().is_none_or(|filter| self.holds(step, filter, request))
    }

    fn makes_way(&self, step: &PluginStep, index: usize) -> bool {
        let is_global = index < self.global_steps.len();
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
        // A filter that cannot be evaluated counts as matching, because the plugin may protect.
        let verdict = filter.evaluate(request).unwrap_or(true);
        verdicts.push((instance, verdict));
        verdict
    }

    /// Adds the plugins of the consumer and its group. They replace the route's plugins with equal
    /// names, as in APISIX.
    pub(crate) fn join(&mut self, consumer: Option<&'s Chain>, group: Option<&'s Chain>) {
        let mut above: SmallVec<[&Chain; 2]> = SmallVec::new();
        for chain in [consumer, group, self.route].into_iter().flatten() {
            for step in chain.steps() {
                let is_off = above.iter().any(|chain| chain.off().contains(&step.name));
                if !is_off && !self.merged_has(step.name()) {
                    self.merged.push(step);
                }
            }
            above.push(chain);
        }
        self.merged.sort_by_key(|step| std::cmp::Reverse(step.priority));
        self.is_merged = true;
        let phases = self.merged.iter().map(|step| step.phases);
        self.phases = phases.fold(self.globals.phases(), Phases::union);
    }

    /// Whether `step` was added with the consumer.
    pub(crate) fn is_new(&self, step: &PluginStep) -> bool {
        self.is_merged
            && !self
                .route_steps
                .iter()
                .chain(self.global_steps)
                .any(|other| std::ptr::eq(&**other, step))
    }
}
