//! Reports the gateway's host name, version, id and start time.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! None for requests. `/v1/server_info` of the control API returns `{"id": …, "version": …,
//! "hostname": …, "boot_time": …}`.
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
pub struct ServerInfo;

impl Plugin for ServerInfo {
    const NAME: &'static str = "server-info";
    const PRIORITY: i32 = 990;
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
            assert_eq!(Harness::refusal::<ServerInfo>(&conf), "");
        }
        let refusal = Harness::refusal::<ServerInfo>(&json!(1));
        assert_eq!(refusal, "wrong type: expected object, got number");
    }

    #[test]
    fn requests_pass_it_by() {
        assert!(Harness::new::<ServerInfo>(&json!({})).request("GET / HTTP/1.1\n\n").passes());
    }
}
