//! Allows or refuses requests by their `User-Agent`, compared with regular expressions.
//!
//! # Example
//! ```json
//! {"denylist": ["(Twitterspider)/(\\d+)\\.(\\d+)", "my-bot"], "bypass_missing": true}
//! ```
//!
//! # Answers
//! - 403 with `message` when the `User-Agent` is not allowed, or missing
//!
//! # Notes
//! If a request has several `User-Agent` lines, one match decides.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::expr::pattern::Case;
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::patterns::Patterns;

/// Configuration of `ua-restriction`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether requests without `User-Agent` pass; off by default.
    #[serde(default)]
    pub bypass_missing: bool,
    /// Regular expressions for clients that pass; all others are refused. Excludes `denylist`.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub allowlist: Option<Vec<String>>,
    /// Regular expressions for clients that are refused; all others pass. Excludes `allowlist`.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub denylist: Option<Vec<String>>,
    /// Message for refused clients.
    #[serde(default = "default_message")]
    #[schemars(length(min = 1, max = 1024))]
    pub message: String,
}

defaults! {
    default_message: String = "Not allowed".into();
}

#[derive(Debug)]
pub struct UaRestriction {
    list: List,
    missing: Missing,
    message: String,
}

#[derive(Debug)]
enum List {
    Allowed(Patterns),
    Denied(Patterns),
}

/// Treatment of a request without the header.
#[derive(Debug, Clone, Copy)]
enum Missing {
    Passes,
    Refused,
}

impl Plugin for UaRestriction {
    const NAME: &'static str = "ua-restriction";
    const PRIORITY: i32 = 2999;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["oneOf"] = json!([{"required": ["allowlist"]}, {"required": ["denylist"]}]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let compile = |texts: &[String]| Patterns::compile(texts, Case::Sensitive);
        let list = match (&config.allowlist, &config.denylist) {
            (Some(allowed), _) => List::Allowed(compile(allowed)?),
            (None, denied) => List::Denied(compile(denied.as_deref().unwrap_or(&[]))?),
        };
        let missing = if config.bypass_missing { Missing::Passes } else { Missing::Refused };
        Ok(Self { list, missing, message: config.message })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if self.allows(cx) {
            return Step::Continue;
        }
        Answer::message(403, &self.message).refused(RefusalKind::DeniedByRule).into()
    }
}

impl UaRestriction {
    fn allows(&self, cx: &RequestContext<'_>) -> bool {
        let (patterns, allows_match) = match &self.list {
            List::Allowed(patterns) => (patterns, true),
            List::Denied(patterns) => (patterns, false),
        };
        let (mut is_present, mut matches) = (false, false);
        cx.each_header(&mut |name, value| {
            if name.eq_ignore_ascii_case(b"user-agent") {
                is_present = true;
                // A search that takes too long refuses the request.
                matches = matches || patterns.is_match(value.trim_ascii()).unwrap_or(!allows_match);
            }
        });
        match (is_present, self.missing) {
            (true, _) => matches == allows_match,
            (false, Missing::Passes) => true,
            (false, Missing::Refused) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::Harness;

    use super::*;

    const REFUSED: &str = "{\"message\":\"Not allowed\"}\n";

    fn body(conf: &Value, lines: &str) -> String {
        let request = format!("GET / HTTP/1.1\n{lines}\n");
        let outcome = Harness::new::<UaRestriction>(conf).request(&request);
        assert_eq!(outcome.status(), if outcome.passes() { 0 } else { 403 });
        outcome.body().to_owned()
    }

    #[test]
    fn only_what_an_allowlist_matches_passes() {
        let conf = json!({"allowlist": ["my-bot1", "(Baiduspider)/(\\d+)\\.(\\d+)"]});
        for (lines, expected) in [
            ("User-Agent: my-bot1\n", ""),
            ("User-Agent: x my-bot1 y\n", ""),
            ("User-Agent: Baiduspider/3.0\n", ""),
            ("User-Agent: my-bot2\nUser-Agent: my-bot1\n", ""),
            ("User-Agent: MY-BOT1\n", REFUSED),
            ("User-Agent:\n", REFUSED),
            ("", REFUSED),
        ] {
            assert_eq!(body(&conf, lines), expected, "{lines}");
        }
    }

    #[test]
    fn all_but_what_a_denylist_matches_pass() {
        let conf = json!({"denylist": ["my-bot1", "^foo$"]});
        for (lines, expected) in [
            ("User-Agent: curl\n", ""),
            ("User-Agent: foo bar\n", ""),
            ("User-Agent: foo\n", REFUSED),
            ("User-Agent: curl\nUser-Agent: my-bot1\n", REFUSED),
            ("", REFUSED),
        ] {
            assert_eq!(body(&conf, lines), expected, "{lines}");
        }
    }

    #[test]
    fn requests_without_the_header_pass_where_they_may() {
        for list in ["allowlist", "denylist"] {
            assert_eq!(body(&json!({list: ["a"], "bypass_missing": true}), ""), "");
        }
        assert_eq!(
            body(&json!({"denylist": ["a"], "message": "no"}), ""),
            "{\"message\":\"no\"}\n"
        );
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({}), "value should match only one schema, but matches none"),
            (
                json!({"allowlist": ["a"], "denylist": ["b"]}),
                "value should match only one schema, but matches both schemas 1 and 2",
            ),
            (
                json!({"denylist": [""]}),
                "property \"denylist\" validation failed: failed to validate item 1: \
                 string too short, expected at least 1, got 0",
            ),
            (
                json!({"allowlist": []}),
                "property \"allowlist\" validation failed: expect array to have at least 1 items",
            ),
            (
                json!({"allowlist": ["a", "("]}),
                "pcre2_compile() failed: missing closing parenthesis in \"(\"",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<UaRestriction>(&conf), expected, "{conf}");
        }
    }
}
