//! The plugins of an object, in the order in which they run.

use std::sync::Arc;

use serde_json::Value;
use tollhouse_model::Id;
use tollhouse_model::expr::Expr;
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{Phases, RunPolicy};
use tollhouse_telemetry::ErrorCode;

use crate::snapshot::RouteEntry;
use crate::snapshot::upstream::UpstreamEntry;

/// One configured plugin.
#[derive(Debug)]
pub struct PluginStep {
    /// Its name.
    pub name: Box<str>,
    /// The plugin.
    pub handler: SharedHandler,
    /// What requests are refused with here, where what the step stands for cannot be had.
    pub refuses_with: Option<ErrorCode>,
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
    /// Whether the node gets the path that the plugin has judged.
    pub judges_path: bool,
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
    /// Another route, with its own upstream: what plugins of other gateways decide.
    Entry(Arc<RouteEntry>),
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

    /// A number that no other instance has.
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

/// Plugins by descending priority, one of each name. As large as a pointer: see [`RouteEntry`].
#[derive(Debug, Clone, Default)]
pub struct Chain(Option<Box<Links>>);

/// A chain that says something.
#[derive(Debug, Clone)]
struct Links {
    steps: Box<[Arc<PluginStep>]>,
    /// Names that are switched off.
    off: Vec<Box<str>>,
    /// The phases that any of them takes part in.
    phases: Phases,
    /// Whether the filter of any needs the request's body.
    filters_read_body: bool,
    /// Whether the node gets the path that any of them has judged.
    judges_path: bool,
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
        let judges_path = steps.iter().any(|step| step.judges_path);
        if steps.is_empty() && off.is_empty() {
            return Self(None);
        }
        let steps = steps.into();
        Self(Some(Box::new(Links { steps, off, phases, filters_read_body, judges_path })))
    }

    /// Of sets that do not go before one another: what one of them switches off, runs for another.
    pub fn merge_equals<'a>(sets: impl IntoIterator<Item = &'a StepSet>) -> Self {
        let running =
            sets.into_iter().map(|set| StepSet { steps: set.steps.clone(), off: Vec::new() });
        Self::merge(&running.collect::<Vec<_>>())
    }

    /// Whether it neither runs anything nor switches anything off.
    pub(crate) fn says_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Whether there is nothing to run.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|links| links.steps.is_empty())
    }

    /// The steps, in order.
    #[inline]
    pub fn steps(&self) -> &[Arc<PluginStep>] {
        self.0.as_ref().map_or(&[], |links| &links.steps)
    }

    /// Names that are switched off.
    #[inline]
    pub(super) fn off(&self) -> &[Box<str>] {
        self.0.as_ref().map_or(&[], |links| &links.off)
    }

    /// The phases that any of them takes part in.
    #[inline]
    pub(super) fn phases(&self) -> Phases {
        self.0.as_ref().map_or(Phases::NONE, |links| links.phases)
    }

    /// Whether the filter of any needs the request's body.
    #[inline]
    pub(super) fn filters_read_body(&self) -> bool {
        self.0.as_ref().is_some_and(|links| links.filters_read_body)
    }

    /// Whether the node gets the path that any of them has judged.
    #[inline]
    pub fn judges_path(&self) -> bool {
        self.0.as_ref().is_some_and(|links| links.judges_path)
    }

    /// Whether a plugin of that name runs.
    pub(super) fn has(&self, name: &str) -> bool {
        self.steps().iter().any(|step| step.name() == name)
    }
}
