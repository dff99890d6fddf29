//! Conf and compilation that both plugins with functions in Lua share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{ConfError, FunctionPhase, Phases, Scope};

/// Phases in which functions can run.
pub(crate) const PHASES: Phases = Phases::REWRITE
    .union(Phases::ACCESS)
    .union(Phases::BEFORE_PROXY)
    .union(Phases::RESPONSE)
    .union(Phases::LOG);

/// Configuration of `serverless-pre-function` and `serverless-post-function`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Phase in which the functions run; `access` by default.
    #[serde(default)]
    pub phase: Phase,
    /// Texts in Lua, each of which returns a function.
    #[schemars(length(min = 1))]
    pub functions: Vec<String>,
}

/// Phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Rewrite,
    #[default]
    Access,
    HeaderFilter,
    BodyFilter,
    Log,
    BeforeProxy,
}

/// Checks and compiles the functions of a conf.
///
/// # Errors
/// If Lua is off, or a text is invalid.
pub(crate) fn compile(
    plugin: &'static str,
    config: &Config,
    scope: &Scope<'_>,
) -> Result<SharedHandler, ConfError> {
    let phase = match config.phase {
        Phase::Rewrite => FunctionPhase::Rewrite,
        Phase::Access => FunctionPhase::Access,
        Phase::HeaderFilter => FunctionPhase::HeaderFilter,
        Phase::BodyFilter => FunctionPhase::BodyFilter,
        Phase::Log => FunctionPhase::Log,
        Phase::BeforeProxy => FunctionPhase::BeforeProxy,
    };
    scope.services.scripting()?.functions(plugin, phase, &config.functions, scope)
}
