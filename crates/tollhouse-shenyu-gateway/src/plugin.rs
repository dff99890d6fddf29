//! Contract between the chain and its plugins: facts about a plugin, the compilation of its rules,
//! their execution, and their prediction for operators.
//!
//! A plugin is a file in `plugins` and a line in the table of `plugins.rs`.

use std::fmt::Debug;
use std::sync::Arc;

use tollhouse_plugin as plugin;
use tollhouse_plugin::{Exchange, RequestContext};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::Engine;
use tollhouse_shenyu::model::Plugin;

use crate::course::{CourseEnd, Effect};
use crate::error::BuildError;
use crate::place::Place;
use crate::plugins::sign::signature::Applications;
use crate::resources::Resources;
use crate::row::Row;
use crate::shared::nodes::DivideRule;
use crate::terms::Terms;
use crate::turn::Turn;

/// Plugin of the chain; a value is a compiled rule.
pub(crate) trait ShenyuPlugin: Debug + Send + Sync + Sized + 'static {
    const ROW: Row;

    /// Predicted effect of a rule, if the plugin does not implement [`Self::explain`].
    const EFFECT: Effect = Effect::Acts;

    /// Compiles a rule, or a selector that applies without rules.
    ///
    /// # Errors
    ///
    /// If the handle or the plugin's configuration is invalid, or a service is unavailable.
    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self>;

    /// Checks the handle of a rule before it is stored. Accepts every handle by default, because
    /// some depend on the plugin's configuration.
    ///
    /// # Errors
    ///
    /// If the gateway could not use the handle; the error says why.
    fn check_handle(_handle: &str) -> Result<(), BuildError> {
        Ok(())
    }

    /// Returns the treatment of requests that no selector or rule of the plugin matches.
    fn fallthrough(_plugin: &Plugin) -> Fallthrough {
        Fallthrough::default()
    }

    /// Applies the rule to a request.
    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o>;

    /// Predicts the effect of [`Self::act`], without side effects.
    fn explain(&self, _preview: &mut Preview<'_>) -> Prediction {
        Prediction::Next(Self::EFFECT)
    }

    /// Whether [`Self::act`] creates the response, so that changes of responses must be prepared
    /// before. A response that must not be delivered is not asked for.
    fn creates_response(&self) -> bool {
        false
    }

    /// Returns the parts of a request that [`Self::act`] depends on.
    fn needs(&self) -> Needs<'_> {
        Needs::Exchange
    }
}

/// Result of a compilation.
pub(crate) enum Compiled<P> {
    Rule(P),
    /// All requests pass.
    Pass,
    /// All requests are refused.
    Refuse(Answer),
}

impl<P> Compiled<P> {
    pub(crate) fn map<Q>(self, make: impl FnOnce(P) -> Q) -> Compiled<Q> {
        match self {
            Self::Rule(rule) => Compiled::Rule(make(rule)),
            Self::Pass => Compiled::Pass,
            Self::Refuse(answer) => Compiled::Refuse(answer),
        }
    }
}

impl<P> From<P> for Compiled<P> {
    fn from(rule: P) -> Self {
        Self::Rule(rule)
    }
}

/// Parts of a request that an action depends on. The chain runs only if one needs more than the
/// path.
pub(crate) enum Needs<'a> {
    /// All requests pass.
    Nothing,
    /// The path, and sizes if this rule limits them, because the request goes to a node unchanged.
    Path(&'a DivideRule),
    /// Any part, or the response.
    Exchange,
}

/// Treatment of requests that no selector or rule of a plugin matches.
#[derive(Debug, Default)]
pub(crate) struct Fallthrough {
    /// Answer that refuses them; `None` lets them pass.
    pub(crate) refusal: Option<Answer>,
    /// Problem to report about the plugin.
    pub(crate) problem: Option<String>,
}

/// Request in the chain, and the parts of the chain that plugins use.
pub(crate) struct Run<'r, 'c> {
    pub(crate) cx: &'r mut RequestContext<'c>,
    pub(crate) turn: &'r mut Turn,
    pub(crate) engine: &'r Engine,
    pub(crate) applications: &'r Applications,
    pub(crate) terms: &'r Terms,
}

/// Outcome of an action.
pub(crate) enum Verdict<'o> {
    /// The next plugin runs.
    Next,
    /// The request goes to a node of the rule's target.
    Node,
    Refused(Answer),
    /// Refused because the request has no credential.
    Unauthenticated(Answer),
    Answered(Box<plugin::Answer<'o>>),
    /// The request runs through the gateway again with this path.
    Anew(String),
}

impl From<Result<(), Answer>> for Verdict<'_> {
    fn from(outcome: Result<(), Answer>) -> Self {
        outcome.map_or_else(Self::Refused, |()| Self::Next)
    }
}

impl Verdict<'_> {
    pub(crate) fn answered(answer: plugin::Answer<'_>) -> Verdict<'_> {
        Verdict::Answered(Box::new(answer))
    }

    /// Redirects the client.
    pub(crate) fn redirect<'o>(status: u16, location: String) -> Verdict<'o> {
        let answer = plugin::Answer::status(status);
        Verdict::answered(answer.with_header("Location", location.into_bytes()))
    }
}

/// Request whose way through the chain is predicted.
pub(crate) struct Preview<'p> {
    pub(crate) exchange: &'p dyn Exchange,
    pub(crate) turn: &'p mut Turn,
    pub(crate) engine: &'p Engine,
    pub(crate) terms: &'p Terms,
}

/// Predicted outcome of an action.
pub(crate) enum Prediction {
    /// The next plugin runs.
    Next(Effect),
    /// The request goes to a node, with this path and query if they differ from the original ones.
    Node(Option<Vec<u8>>),
    Refused(Answer),
    /// The request runs through the gateway again with this path.
    Anew(String),
    End(CourseEnd),
}

/// Result of [`ShenyuPlugin::compile`].
pub(crate) type CompileResult<P> = Result<Compiled<P>, BuildError>;

/// Names that most plugins use.
pub(crate) mod prelude {
    pub(crate) use std::sync::Arc;

    pub(crate) use serde::Deserialize;
    pub(crate) use tollhouse_shenyu::answer::Answer;
    pub(crate) use tollhouse_shenyu::lenient;

    pub(crate) use super::{
        CompileResult, Compiled, Fallthrough, Needs, Prediction, Preview, Run, ShenyuPlugin,
        Verdict,
    };
    pub(crate) use crate::course::Effect;
    pub(crate) use crate::error::BuildError;
    pub(crate) use crate::handle::{self, HandleError};
    pub(crate) use crate::place::Place;
    pub(crate) use crate::resources::Resources;
    pub(crate) use crate::response_edit::ResponseEdit;
    pub(crate) use crate::row::{Row, Seed, Stage};
}
