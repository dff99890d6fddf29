//! Interface of a compiler of scripts, which objects contain: functions of plugins, conditions of
//! routes, and functions before other plugins.
//!
//! The implementation is a crate of its own. Everything it makes runs through the plugin contract.

use std::sync::Arc;

use serde_json::Value;

pub use tollhouse_router::RouteFilter;

use crate::answer::Answer;
use crate::conf_error::ConfError;
use crate::context::RequestContext;
use crate::handler::SharedHandler;
use crate::scope::Scope;

/// Error text for an object with a script in a process that does not run scripts.
pub const SCRIPTS_ARE_OFF: &str = "Lua is off: set `scripting.lua: trusted` in the bootstrap file \
                                   of the process, if everyone who writes its objects may run code";

/// Phase in which functions of a plugin run, by the names of APISIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the phases")]
pub enum FunctionPhase {
    Rewrite,
    Access,
    BeforeProxy,
    HeaderFilter,
    BodyFilter,
    Log,
}

/// Functions that rewrite the answers of plugins.
pub trait ExitFunctions: Send + Sync {
    /// Returns the answer in the place of `answer`; `None` if the functions leave it as it is.
    fn rewrite(&self, cx: &mut RequestContext<'_>, answer: &Answer<'_>) -> Option<Answer<'static>>;
}

/// Compiler of scripts. All methods check the text completely, so that the writer of an object
/// learns what is wrong.
pub trait Scripting: Send + Sync {
    /// Compiles the functions of a plugin, which run in one phase of each request.
    ///
    /// # Errors
    /// If a text is not a function, or uses what scripts do not have.
    fn functions(
        &self,
        plugin: &'static str,
        phase: FunctionPhase,
        texts: &[String],
        scope: &Scope<'_>,
    ) -> Result<SharedHandler, ConfError>;

    /// Compiles functions that rewrite answers of plugins.
    ///
    /// # Errors
    /// If a text is invalid.
    fn exit_functions(
        &self,
        plugin: &'static str,
        texts: &[String],
    ) -> Result<Arc<dyn ExitFunctions>, ConfError>;

    /// Compiles the condition of a route.
    ///
    /// # Errors
    /// If the text is not a function.
    fn route_filter(&self, text: &str) -> Result<Arc<dyn RouteFilter>, ConfError>;

    /// Compiles a function that runs before each phase of the plugin `inner`, which has this conf.
    ///
    /// # Errors
    /// If the text is not a function.
    fn before(
        &self,
        text: &str,
        conf: &Value,
        inner: SharedHandler,
    ) -> Result<SharedHandler, ConfError>;

    /// Checks a text that returns a function, as [`Self::before`] takes it.
    ///
    /// # Errors
    /// If the text is not a function.
    fn check_function(&self, text: &str) -> Result<(), ConfError>;

    /// Compiles a script that runs in the place of a route's plugins.
    ///
    /// # Errors
    /// If the text is not a module with phases.
    fn script(&self, text: &str) -> Result<SharedHandler, ConfError>;
}
