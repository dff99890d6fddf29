//! Rewrites the answers of other plugins with functions in Lua.
//!
//! Each text gets the status, the body and the headers of an answer as `...`, and returns the three
//! values to send. A body of JSON is a table. In a global rule, the functions also get the answer to
//! requests that match no route. Answers of nodes, and other errors of the gateway itself, are not
//! rewritten.
//!
//! # Example
//! ```json
//! {"functions": ["local code, body, header = ... ; if code == 401 then return 403, body, header end return ..."]}
//! ```
//!
//! # Answers
//! The status, the body and the headers that the last function returns.
//!
//! # Notes
//! Needs `scripting.lua: trusted` in the bootstrap file. A function that fails leaves the answer as
//! it is, and is logged.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::scripting::ExitFunctions;
use tollhouse_plugin::{Answer, Category, ConfError, Phases, Plugin, RequestContext, Scope};

/// Configuration of `exit-transformer`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Texts in Lua, which run in order.
    pub functions: Vec<String>,
}

/// Functions of one conf.
pub struct ExitTransformer {
    functions: Arc<dyn ExitFunctions>,
}

impl std::fmt::Debug for ExitTransformer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ExitTransformer")
    }
}

impl Plugin for ExitTransformer {
    const NAME: &'static str = "exit-transformer";
    const PRIORITY: i32 = 22_950;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::EXIT;
    type Config = Config;

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let scripting = scope.services.scripting()?;
        Ok(Self { functions: scripting.exit_functions(Self::NAME, &config.functions)? })
    }

    fn exit(&self, cx: &mut RequestContext<'_>, answer: &Answer<'_>) -> Option<Answer<'static>> {
        self.functions.rewrite(cx, answer)
    }
}
