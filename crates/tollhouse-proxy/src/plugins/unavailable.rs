//! Step that refuses requests in place of a plugin that cannot run and may protect, or of an
//! unreadable part of a route. The compiler decides which objects get one.

use std::sync::Arc;

use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::response::ResponseContext;
use tollhouse_plugin::{Handler, LogContext, Phases, RequestContext, RunPolicy, Step, UpstreamRef};
use tollhouse_telemetry::ErrorCode;

use super::chain::{PluginStep, StepUpstream};

/// Maximum priority. The step runs before all other steps of its object, so that no other step
/// answers first.
const PRIORITY: i64 = i64::MAX;

impl PluginStep {
    /// Returns a step that refuses requests with `plugin_unavailable` in place of the plugin
    /// `name`; with a filter, only those that the plugin would have run for.
    pub(crate) fn unavailable(
        name: &str,
        owner: &'static str,
        filter: Option<tollhouse_model::expr::Expr>,
    ) -> Self {
        Self { filter, ..Self::refusing(name, owner, ErrorCode::PluginUnavailable) }
    }

    /// Returns a step that refuses all requests in place of the part `name` of an object.
    pub(crate) fn refusing(name: &str, owner: &'static str, code: ErrorCode) -> Self {
        let handler: SharedHandler = Arc::new(Unavailable);
        Self {
            name: name.into(),
            refuses_with: Some(code),
            phases: handler.phases(),
            handler,
            priority: PRIORITY,
            owner,
            filter: None,
            error_response: None,
            is_auth: false,
            // Refused requests never reach a node.
            judges_path: false,
            run_policy: RunPolicy::Both,
            upstreams: Vec::<StepUpstream>::new(),
        }
    }
}

/// Handler without effect, because requests are refused at its step.
struct Unavailable;

impl Handler for Unavailable {
    fn name(&self) -> &'static str {
        "unavailable"
    }

    fn phases(&self) -> Phases {
        Phases::REWRITE
    }

    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        Vec::new()
    }

    fn rewrite<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    fn access<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    fn before_proxy<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    fn response(&self, _cx: &mut ResponseContext<'_>) {}

    fn log(&self, _cx: &mut LogContext<'_>) {}
}
