//! Says whether the body of an answer may be kept before the client gets it.
//!
//! # Example
//! ```json
//! {"disable_proxy_buffering": true}
//! ```
//!
//! # Answers
//! None of its own.
//!
//! # Notes
//! Bodies pass to clients as they arrive, event streams included, whatever is said here:
//! `disable_proxy_buffering: true` describes what happens without the plugin too, and `false` is
//! accepted for APISIX's sake. A plugin that needs the whole body of an answer keeps it, within the
//! limit in its own conf.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, Scope};

/// What a route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether bodies must pass as they arrive, which they do.
    #[serde(default)]
    pub disable_proxy_buffering: bool,
}

/// The plugin.
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
