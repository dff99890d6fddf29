//! Refuses requests whose URI, including the query, matches a regular expression.
//!
//! # Example
//! ```json
//! {"block_rules": ["root.exe", "\\.php$"], "rejected_code": 404, "rejected_msg": "not here"}
//! ```
//!
//! # Answers
//! - `rejected_code` with `rejected_msg`, or with the gateway's page if `rejected_msg` is unset
//!
//! # Notes
//! Each rule is applied to the URI as sent, to the normalised path with the query as sent, and to
//! the normalised path with the query decoded once (`+` as itself and as a space). Escapes in path
//! or query therefore cannot hide anything. Bodies are not searched.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_model::expr::pattern::Case;
use tollhouse_model::variable::decode_argument;
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::patterns::Patterns;
use crate::shared::confs::status::status_of;

/// Configuration of `uri-blocker`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Regular expressions for URIs that are refused.
    #[schemars(inner(length(min = 1, max = 4096)), extend("uniqueItems" = true))]
    pub block_rules: Vec<String>,
    /// Status of refused requests; 403 by default.
    #[serde(default = "default_rejected_code")]
    #[schemars(range(min = 200))]
    pub rejected_code: i64,
    /// Message for refused requests. Unset: the gateway's page.
    #[schemars(length(min = 1))]
    pub rejected_msg: Option<String>,
    /// Whether rules ignore case; off by default.
    #[serde(default)]
    pub case_insensitive: bool,
}

defaults! {
    default_rejected_code: i64 = 403;
}

#[derive(Debug)]
pub struct UriBlocker {
    rules: Patterns,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

impl Plugin for UriBlocker {
    const NAME: &'static str = "uri-blocker";
    const PRIORITY: i32 = 2900;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let case = if config.case_insensitive { Case::Ignored } else { Case::Sensitive };
        let rules = Patterns::compile(&config.block_rules, case)?;
        let rejected_code = status_of(config.rejected_code);
        Ok(Self { rules, rejected_code, rejected_msg: config.rejected_msg })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if !self.blocks(cx) {
            return Step::Continue;
        }
        match &self.rejected_msg {
            Some(message) => Answer::error_msg(self.rejected_code, message)
                .refused(RefusalKind::DeniedByRule)
                .into(),
            None => Answer::status(self.rejected_code).refused(RefusalKind::DeniedByRule).into(),
        }
    }
}

impl UriBlocker {
    fn blocks(&self, cx: &RequestContext<'_>) -> bool {
        let sent = cx.real_request_uri();
        if self.denies(&sent) {
            return true;
        }
        let path = cx.path();
        let Some(query) = cx.query() else { return *sent != *path && self.denies(path) };
        let address = |query: &[u8]| [path, b"?", query].concat();
        let as_sent = address(query);
        if *sent != *as_sent && self.denies(&as_sent) {
            return true;
        }
        let decoded = decode_argument(query);
        if *decoded == *query {
            return false;
        }
        // Outside of forms, servers disagree about the meaning of a plus sign.
        let plain_plus = query.split(|&byte| byte == b'+').collect::<Vec<_>>().join(&b"%2B"[..]);
        self.denies(&address(&decoded)) || self.denies(&address(&decode_argument(&plain_plus)))
    }

    /// Whether a rule matches. A search that takes too long counts as a match.
    fn denies(&self, target: &[u8]) -> bool {
        self.rules.is_match(target).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollhouse_plugin::testing::Harness;

    use super::*;

    fn status(conf: &Value, target: &str) -> u16 {
        Harness::new::<UriBlocker>(conf).request(&format!("GET {target} HTTP/1.1\n\n")).status()
    }

    #[test]
    fn an_address_that_makes_a_rule_give_up_is_refused() {
        let conf = json!({"block_rules": ["(?:(?!pub)\\w+/?)+\\.php$"]});
        let doom = format!("/{}!/evil.php", "a".repeat(40));
        for (target, expected) in [("/x", 0), ("/evil.php", 403), (doom.as_str(), 403)] {
            assert_eq!(status(&conf, target), expected, "{target}");
        }
    }

    #[test]
    fn addresses_that_match_are_refused() {
        let conf = json!({"block_rules": ["aa", "^/b+$", "c.d="]});
        for (target, expected) in [
            ("/x", 0),
            ("/xaay", 403),
            ("/x?q=aa", 403),
            ("/bbb", 403),
            ("/bbb?x", 0),
            ("/?c&d=1", 403),
            ("/x?q=%61a", 403),
            ("/x?q=%61%zz%61", 0),
            ("/x?%63%26d%3d1", 403),
            ("/x?c+d=1", 403),
            ("/AA", 0),
        ] {
            assert_eq!(status(&conf, target), expected, "{target}");
        }
        assert_eq!(status(&json!({"block_rules": ["aa"], "case_insensitive": true}), "/AA"), 403);
        assert_eq!(status(&json!({"block_rules": []}), "/aa"), 0);
    }

    #[test]
    fn a_refusal_has_the_page_or_the_words_of_the_conf() {
        let conf = json!({"block_rules": ["aa"], "rejected_code": 500});
        let outcome = Harness::new::<UriBlocker>(&conf).request("GET /aa HTTP/1.1\n\n");
        assert_eq!((outcome.status(), outcome.body()), (500, ""));
        let conf = json!({"block_rules": ["aa"], "rejected_msg": "access is not allowed"});
        let outcome = Harness::new::<UriBlocker>(&conf).request("GET /aa HTTP/1.1\n\n");
        assert_eq!(outcome.body(), "{\"error_msg\":\"access is not allowed\"}\n");
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({}), "property \"block_rules\" is required"),
            (
                json!({"block_rules": [".+("]}),
                "pcre2_compile() failed: missing closing parenthesis in \".+(\"",
            ),
            (
                json!({"block_rules": ["a", "a"]}),
                "property \"block_rules\" validation failed: \
                 expected unique items but items 1 and 2 are equal",
            ),
            (
                json!({"block_rules": ["a"], "rejected_msg": ""}),
                "property \"rejected_msg\" validation failed: \
                 string too short, expected at least 1, got 0",
            ),
            (
                json!({"block_rules": ["a"], "rejected_code": 100}),
                "property \"rejected_code\" validation failed: expected 100 to be at least 200",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<UriBlocker>(&conf), expected, "{conf}");
        }
    }
}
