//! Configured plugin as the data plane runs it: a trait object, without the plugin's type.

use std::sync::Arc;

use crate::answer::Answer;
use crate::context::RequestContext;
use crate::log::LogContext;
use crate::plugin::{Phases, Plugin, Step, UpstreamRef};
use crate::response::ResponseContext;

/// Plugin with its parsed conf, as the phases of a request call it.
pub trait Handler: Send + Sync {
    /// Returns the name of the plugin as in [`Plugin::NAME`].
    fn name(&self) -> &'static str;
    /// Returns the phases in which the plugin has to be called.
    fn phases(&self) -> Phases;
    /// Returns the result of [`Plugin::upstreams`] for this conf.
    fn upstreams(&self) -> Vec<UpstreamRef<'_>>;
    /// Runs the phase [`Plugin::rewrite`] with this conf.
    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a>;
    /// Runs the phase [`Plugin::access`] with this conf.
    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a>;
    /// Runs the phase [`Plugin::before_proxy`] with this conf.
    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a>;
    /// Runs the phase [`Plugin::exit`] with this conf; by default replaces nothing.
    fn exit(&self, _cx: &mut RequestContext<'_>, _answer: &Answer<'_>) -> Option<Answer<'static>> {
        None
    }
    /// Runs the phase [`Plugin::replace`] with this conf; by default replaces nothing.
    fn replace(&self, _cx: &mut ResponseContext<'_>) -> Option<Answer<'static>> {
        None
    }
    /// Runs the phase [`Plugin::response`] with this conf.
    fn response(&self, cx: &mut ResponseContext<'_>);
    /// Runs the phase [`Plugin::log`] with this conf.
    fn log(&self, cx: &mut LogContext<'_>);
}

impl<P: Plugin> Handler for P {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn phases(&self) -> Phases {
        match self.answer_codings() {
            // The codings that the plugin can read must be set before the request is sent to a
            // node.
            Some(_) => Plugin::phases(self).union(Phases::BEFORE_PROXY),
            None => Plugin::phases(self),
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

    fn exit(&self, cx: &mut RequestContext<'_>, answer: &Answer<'_>) -> Option<Answer<'static>> {
        Plugin::exit(self, cx, answer)
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

/// Handler shared by all routes that use the same conf.
pub type SharedHandler = Arc<dyn Handler>;
