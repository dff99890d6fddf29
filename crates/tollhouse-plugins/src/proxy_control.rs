//! Declares whether a request's body is buffered completely before a node gets it.
//!
//! # Example
//! ```json
//! {"request_buffering": false}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! This plugin has no effect: bodies are always passed to nodes as they arrive, in constant memory.
//! `request_buffering: false` describes that, and `true` is accepted for compatibility with APISIX.
//! A plugin that needs the whole body of a request buffers it, within the limit of its own conf.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, Scope};

use crate::shared::confs::defaults::defaults;

/// Configuration of `proxy-control`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether the body may be buffered; no effect.
    #[serde(default = "default_buffering")]
    pub request_buffering: bool,
}

defaults! {
    default_buffering: bool = true;
}

#[derive(Debug)]
pub struct ProxyControl;

impl Plugin for ProxyControl {
    const NAME: &'static str = "proxy-control";
    const PRIORITY: i32 = 21990;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::NONE;
    type Config = Config;

    fn compile(_config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    #[test]
    fn requests_pass_and_their_bodies_are_not_kept() {
        for conf in [json!({}), json!({"request_buffering": false})] {
            let mut exchange = FakeExchange::parse("POST / HTTP/1.1\n\nbody", 0);
            let outcome = Harness::new::<ProxyControl>(&conf).run(&mut exchange);
            assert!(outcome.passes() && !exchange.body_was_read);
            assert_eq!(outcome.edits, "");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let refusal = Harness::refusal::<ProxyControl>(&json!({"request_buffering": "no"}));
        let expected = "property \"request_buffering\" validation failed: wrong type: expected \
                        boolean, got string";
        assert_eq!(refusal, expected);
    }
}
