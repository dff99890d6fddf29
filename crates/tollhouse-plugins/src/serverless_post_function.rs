//! Runs functions in Lua after all other plugins of a route, in one phase of each request.
//!
//! Each text returns a function, which gets the conf and the context of the request. The functions
//! run in order; one that returns a status or a body answers the request, and the others do not
//! run.
//!
//! # Example
//! ```json
//! {"phase": "access", "functions": ["return function(conf, ctx) ngx.log(ngx.WARN, ctx.var.uri) end"]}
//! ```
//!
//! # Answers
//! - the status and the body that a function returns, or with which it calls `ngx.exit`
//! - 500 `plugin_failed` if a function fails, runs too long or needs too much memory
//!
//! # Notes
//! Lua is off by default. With `scripting.lua: trusted` in the bootstrap file, administrators may
//! write functions; without it, and by other keys, such objects are refused. `docs/guides/lua.md`
//! lists what functions can use. A text that uses anything else is refused when it is written.

use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{
    Category, ConfError, LogContext, Phases, Plugin, RequestContext, ResponseContext, Scope,
    Step,
};

use crate::serverless::{self, Config};

/// Functions of one conf.
#[derive(Debug)]
pub struct ServerlessPostFunction {
    functions: SharedHandler,
}

impl Plugin for ServerlessPostFunction {
    const NAME: &'static str = "serverless-post-function";
    const PRIORITY: i32 = -2_000;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = serverless::PHASES;
    type Config = Config;

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self { functions: serverless::compile(Self::NAME, &config, scope)? })
    }

    fn phases(&self) -> Phases {
        self.functions.phases()
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.functions.rewrite(cx)
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.functions.access(cx)
    }

    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        self.functions.before_proxy(cx)
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        self.functions.response(cx);
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        self.functions.log(cx);
    }
}
