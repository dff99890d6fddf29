//! Reports the gateway's numbers of open connections and served requests.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! None for requests. The endpoint `/apisix/status`, which `public-api` makes available on a route,
//! returns `{"id": …, "status": {"active": "1", "accepted": "2", …}}` with numbers as strings.
//!
//! # Notes
//! This plugin does not affect requests.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, Scope};

/// The conf has no fields.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {}

#[derive(Debug)]
pub struct NodeStatus;

impl Plugin for NodeStatus {
    const NAME: &'static str = "node-status";
    const PRIORITY: i32 = 1000;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::NONE;
    type Config = Config;

    fn compile(_config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::Harness;

    use super::*;

    #[test]
    fn any_object_is_a_good_conf() {
        for conf in [json!({}), json!({"unknown": 1})] {
            assert_eq!(Harness::refusal::<NodeStatus>(&conf), "");
        }
        let refusal = Harness::refusal::<NodeStatus>(&json!("text"));
        assert_eq!(refusal, "wrong type: expected object, got string");
    }

    #[test]
    fn requests_pass_it_by() {
        assert!(Harness::new::<NodeStatus>(&json!({})).request("GET / HTTP/1.1\n\n").passes());
    }
}
