//! Accepts the plugin of APISIX that rotates log files; here, other programs do that.
//!
//! # Example
//! ```json
//! {}
//! ```
//!
//! # Answers
//! None.
//!
//! # Notes
//! This plugin has no effect, and neither have `interval`, `max_kept`, `max_size`, `timeout` and
//! `enable_compression` of `plugin_attr.log-rotate`. Another program, such as `logrotate`, renames the
//! files. Those of `file-logger` are then opened anew by themselves, and the access log on SIGHUP or
//! `tollhouse reload`. The gateway's own log goes to standard error, which the service manager keeps.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, Remark, Scope};

/// The conf has no fields.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {}

#[derive(Debug)]
pub struct LogRotate;

impl Plugin for LogRotate {
    const NAME: &'static str = "log-rotate";
    const PRIORITY: i32 = 100;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::NONE;
    type Config = Config;

    fn remarks(_conf: &Value) -> Vec<Remark> {
        vec![Remark {
            field: "",
            reason: "log-rotate has no effect",
            hint: "rotate the access log with another program, such as logrotate, and send SIGHUP",
        }]
    }

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
    fn it_is_accepted_with_a_note() {
        assert_eq!(Harness::refusal::<LogRotate>(&json!({})), "");
        assert!(Harness::new::<LogRotate>(&json!({})).request("GET / HTTP/1.1\n\n").passes());
        let remarks = LogRotate::remarks(&json!({}));
        assert_eq!(remarks[0].reason, "log-rotate has no effect");
    }
}
