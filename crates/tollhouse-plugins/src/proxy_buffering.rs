//! Declares whether the body of an answer may be buffered before the client gets it.
//!
//! # Example
//! ```json
//! {"disable_proxy_buffering": true}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! This plugin has no effect: bodies are always passed to clients as they arrive, event streams
//! included. `disable_proxy_buffering: true` describes that, and `false` is accepted for
//! compatibility with APISIX. A plugin that needs the whole body of an answer buffers it, within
//! the limit of its own conf.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, Scope};

/// Configuration of `proxy-buffering`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether bodies are passed on as they arrive; no effect, because they always are.
    #[serde(default)]
    pub disable_proxy_buffering: bool,
}

#[derive(Debug)]
pub struct ProxyBuffering;

impl Plugin for ProxyBuffering {
    const NAME: &'static str = "proxy-buffering";
    const PRIORITY: i32 = 21991;
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
    fn answers_pass_as_they_are() {
        for conf in [json!({}), json!({"disable_proxy_buffering": true})] {
            let mut harness = Harness::new::<ProxyBuffering>(&conf);
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
            assert!(harness.run(&mut exchange).passes());
            let reply = harness.respond(&mut exchange, "200\nContent-Length: 2", &["a", "b"]);
            assert_eq!((reply.body.as_str(), reply.header("content-length")), ("ab", Some("2")));
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let refusal = Harness::refusal::<ProxyBuffering>(&json!({"disable_proxy_buffering": 1}));
        let expected = "property \"disable_proxy_buffering\" validation failed: wrong type: \
                        expected boolean, got number";
        assert_eq!(refusal, expected);
    }
}
