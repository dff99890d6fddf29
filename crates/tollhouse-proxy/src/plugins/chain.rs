//! Plugins of an object, in the order in which they run.

use std::sync::Arc;

use serde_json::Value;
use tollhouse_model::Id;
use tollhouse_model::expr::Expr;
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{Phases, RunPolicy};
use tollhouse_telemetry::ErrorCode;

use crate::snapshot::RouteEntry;
use crate::snapshot::upstream::UpstreamEntry;

/// Plugin with its conf, as it runs for requests.
#[derive(Debug)]
pub struct PluginStep {
    pub name: Box<str>,
    pub handler: SharedHandler,
    /// Error with which requests are refused at this step, if the step replaces an unavailable
    /// plugin.
    pub refuses_with: Option<ErrorCode>,
    /// Phases in which the plugin takes part; checked for every request.
    pub phases: Phases,
    /// Priority; a higher one runs earlier. The plugin's default, or `_meta.priority`.
    pub priority: i64,
    /// Kind of the object that contains the plugin: `route`, `service`, `plugin config`, ….
    pub owner: &'static str,
    /// Condition of `_meta.filter`; the plugin runs only if it holds.
    pub filter: Option<Expr>,
    /// Body that replaces that of the plugin's responses with status 400 or above.
    pub error_response: Option<Value>,
    pub is_auth: bool,
    /// Whether the node must receive the path that the plugin has judged.
    pub judges_path: bool,
    /// Treatment of a plugin of a global rule that the route has as well.
    pub run_policy: RunPolicy,
    /// Upstreams that the plugin may choose.
    pub upstreams: Vec<StepUpstream>,
}

/// An upstream that a plugin may choose.
#[derive(Debug, Clone)]
pub enum StepUpstream {
    Route,
    /// An upstream in the plugin's configuration.
    Inline(Arc<UpstreamEntry>),
    Slot(u32, Id),
    /// Another route with its upstream, chosen by plugins that emulate other gateways.
    Entry(Arc<RouteEntry>),
}

impl PluginStep {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the filter needs the request body.
    pub(crate) fn filter_reads_body(&self) -> bool {
        self.filter.as_ref().is_some_and(Expr::reads_body)
    }

    /// Returns the identifier of the plugin instance, unique while it exists.
    #[inline]
    pub(crate) fn instance(&self) -> usize {
        Arc::as_ptr(&self.handler).cast::<()>() as usize
    }
}

#[derive(Debug, Clone, Default)]
pub struct StepSet {
    /// Enabled plugins, in the order of their names.
    pub steps: Vec<Arc<PluginStep>>,
    /// Names of disabled plugins; they are disabled also in the objects of lower precedence.
    pub off: Vec<Box<str>>,
}

/// Plugins by descending priority, one of each name. As large as a pointer; see [`RouteEntry`].
#[derive(Debug, Clone, Default)]
pub struct Chain(Option<Box<Links>>);

/// Content of a chain that is not empty.
#[derive(Debug, Clone)]
struct Links {
    steps: Box<[Arc<PluginStep>]>,
    off: Vec<Box<str>>,
    /// Phases in which any plugin takes part.
    phases: Phases,
    /// Whether any filter needs the request body.
    filters_read_body: bool,
    /// Whether the node must receive the path that a plugin has judged.
    judges_path: bool,
}

impl Chain {
    /// Merges sets of plugins; the first set that enables or disables a name wins.
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
            // Added after the set's own steps, which have other names.
            off.extend(set.off.iter().cloned());
        }
        // A stable sort: steps of equal priority keep the order of their names within a set.
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

    /// Merges sets of equal rank: a plugin that one set disables still runs if another set has it.
    pub fn merge_equals<'a>(sets: impl IntoIterator<Item = &'a StepSet>) -> Self {
        let running =
            sets.into_iter().map(|set| StepSet { steps: set.steps.clone(), off: Vec::new() });
        Self::merge(&running.collect::<Vec<_>>())
    }

    /// Whether the chain neither runs nor disables any plugin.
    pub(crate) fn says_nothing(&self) -> bool {
        self.0.is_none()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|links| links.steps.is_empty())
    }

    #[inline]
    pub fn steps(&self) -> &[Arc<PluginStep>] {
        self.0.as_ref().map_or(&[], |links| &links.steps)
    }

    #[inline]
    pub(super) fn off(&self) -> &[Box<str>] {
        self.0.as_ref().map_or(&[], |links| &links.off)
    }

    /// Returns the phases in which any plugin takes part.
    #[inline]
    pub(super) fn phases(&self) -> Phases {
        self.0.as_ref().map_or(Phases::NONE, |links| links.phases)
    }

    /// Whether any filter needs the request body.
    #[inline]
    pub(super) fn filters_read_body(&self) -> bool {
        self.0.as_ref().is_some_and(|links| links.filters_read_body)
    }

    /// Whether the node must receive the path that a plugin has judged.
    #[inline]
    pub fn judges_path(&self) -> bool {
        self.0.as_ref().is_some_and(|links| links.judges_path)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.steps().iter().any(|step| step.name() == name)
    }
}
