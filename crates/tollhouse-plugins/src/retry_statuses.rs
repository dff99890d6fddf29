//! Sends a request to another node if a node answers with one of the chosen statuses.
//!
//! # Example
//! ```json
//! {"statuses": [502, 503]}
//! ```
//!
//! # Answers
//! - none of its own
//!
//! # Notes
//! Without this plugin, only nodes that do not answer lead to another attempt. The upstream's
//! `retries` and `retry_timeout` bound the attempts, which never go to a node twice; the answer of
//! the last node is passed on. Only methods that may be repeated (RFC 9110 §9.2.2) are, unless
//! `methods` says otherwise, and only requests whose body was short enough to be held.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Category, ConfError, Phases, Plugin, RequestContext, RetriedStatuses, Scope, Step,
};

use crate::shared::confs::defaults::defaults;

/// Configuration of `retry-statuses`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Statuses of nodes after which another node is asked.
    #[schemars(length(min = 1))]
    pub statuses: Vec<u16>,
    /// Methods of requests that may be sent again; GET, HEAD, OPTIONS, PUT and DELETE by default.
    #[serde(default = "default_methods")]
    #[schemars(length(min = 1))]
    pub methods: Vec<String>,
}

defaults! {
    default_methods: Vec<String> = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].map(str::to_owned).into();
}

#[derive(Debug)]
pub struct RetryStatuses {
    rule: Arc<RetriedStatuses>,
}

impl Plugin for RetryStatuses {
    const NAME: &'static str = "retry-statuses";
    const PRIORITY: i32 = 965;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let fields = &mut schema["properties"];
        fields["statuses"]["items"] = json!({"type": "integer", "minimum": 400, "maximum": 599});
        fields["methods"]["items"] = json!({"type": "string", "minLength": 1});
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let mut statuses = config.statuses;
        statuses.sort_unstable();
        let methods = config.methods.into_iter().map(|method| method.into_bytes().into());
        let rule = RetriedStatuses { statuses: statuses.into(), methods: methods.collect() };
        Ok(Self { rule: Arc::new(rule) })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        cx.edits().retried_statuses = Some(Arc::clone(&self.rule));
        Step::Continue
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    #[test]
    fn a_request_may_be_sent_again_by_status_and_method() {
        for (conf, method, status, expected) in [
            (json!({"statuses": [503, 502]}), "GET", 502, true),
            (json!({"statuses": [503, 502]}), "GET", 500, false),
            (json!({"statuses": [503, 502]}), "POST", 502, false),
            (json!({"statuses": [429], "methods": ["POST"]}), "POST", 429, true),
            (json!({"statuses": [429], "methods": ["POST"]}), "GET", 429, false),
        ] {
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", 0);
            assert!(Harness::new::<RetryStatuses>(&conf).run(&mut exchange).passes());
            let rule = exchange.edits.retried_statuses.expect("the plugin sets it");
            assert_eq!(rule.apply_to(method.as_bytes(), status), expected, "{conf} {method}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, text) in [
            (json!({}), "property \"statuses\" is required"),
            (json!({"statuses": []}), "expect array to have at least 1 items"),
            (json!({"statuses": [200]}), "expected 200 to be at least 400"),
            (json!({"statuses": [503], "methods": [""]}), "string too short"),
        ] {
            let refusal = Harness::refusal::<RetryStatuses>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
