//! Accepted for configurations of APISIX, where it switches on answers about certificates (OCSP) in
//! TLS handshakes.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! - none of its own
//!
//! # Notes
//! This plugin does not affect requests, because certificates that name a responder are always shown
//! with its answer; see the guide on certificates. `tls.ocsp_stapling: false` in the bootstrap file
//! asks no responder.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, Scope};

/// The conf has no fields.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {}

#[derive(Debug)]
pub struct OcspStapling;

impl Plugin for OcspStapling {
    const NAME: &'static str = "ocsp-stapling";
    const PRIORITY: i32 = -44;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::NONE;
    const JUDGES_PATH: bool = false;
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
    fn any_object_is_a_good_conf_and_requests_pass_it_by() {
        for conf in [json!({}), json!({"unknown": 1})] {
            assert_eq!(Harness::refusal::<OcspStapling>(&conf), "");
        }
        assert!(Harness::new::<OcspStapling>(&json!({})).request("GET / HTTP/1.1\n\n").passes());
    }
}
