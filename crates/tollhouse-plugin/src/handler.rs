//! Configured plugin with its type erased, as the data plane runs it.

use std::sync::Arc;

use crate::answer::Answer;
use crate::context::RequestContext;
use crate::log::LogContext;
use crate::plugin::{Phases, Plugin, Step, UpstreamRef};
use crate::response::ResponseContext;

/// Configured plugin.
pub trait Handler: Send + Sync {
    /// Returns the plugin's name.
    fn name(&self) -> &'static str;
    /// Returns the phases to call.
    fn phases(&self) -> Phases;
    /// Calls [`Plugin::upstreams`].
    fn upstreams(&self) -> Vec<UpstreamRef<'_>>;
    /// Calls [`Plugin::rewrite`].
    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a>;
    /// Calls [`Plugin::access`].
    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a>;
    /// Calls [`Plugin::before_proxy`].
    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a>;
    /// [`Plugin::replace`].
    fn replace(&self, _cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        None
    }
    /// Calls [`Plugin::response`].
    fn response(&self, cx: &mut ResponseContext<'_>);
    /// Calls [`Plugin::log`].
    fn log(&self, cx: &mut LogContext<'_>);
}

impl<P: Plugin> Handler for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn phases(&self) -> Phases {
        match self.answer_codings() {
            // The codings must be set before a node is asked.
            Some(_) => P::PHASES.union(Phases::BEFORE_PROXY),
            None => P::PHASES,
        }
    }

    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        Plugin::upstreams(self)
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Plugin::rewrite(self, cx)
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Plugin::access(self, cx)
    }

    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if let Some(codings) = self.answer_codings() {
            cx.read_answer_in(codings);
        }
        Plugin::before_proxy(self, cx)
    }

    fn replace(&self, cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        Plugin::replace(self, cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        Plugin::response(self, cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        Plugin::log(self, cx);
    }
}

impl std::fmt::Debug for dyn Handler {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// Shared [`Handler`].
pub type SharedHandler = Arc<dyn Handler>;
