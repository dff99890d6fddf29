//! Allows or refuses requests by the host of their `Referer`.
//!
//! Hosts are compared byte by byte. `*.example.com` matches all hosts below `example.com`.
//!
//! # Example
//! ```json
//! {"whitelist": ["example.com", "*.example.com"], "bypass_missing": true}
//! ```
//!
//! # Answers
//! - 403 with `message` when the `Referer` is not allowed, missing or malformed

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;

/// Configuration of `referer-restriction`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether requests with a missing or malformed `Referer` pass; off by default.
    #[serde(default)]
    pub bypass_missing: bool,
    /// Referring hosts that pass; all others are refused. Excludes `blacklist`.
    #[schemars(length(min = 1), inner(regex(pattern = HOST_PATTERN)))]
    pub whitelist: Option<Vec<String>>,
    /// Referring hosts that are refused; all others pass. Excludes `whitelist`.
    #[schemars(length(min = 1), inner(regex(pattern = HOST_PATTERN)))]
    pub blacklist: Option<Vec<String>>,
    /// Message for refused clients.
    #[serde(default = "default_message")]
    #[schemars(length(min = 1, max = 1024))]
    pub message: String,
}

/// A host, or `*` followed by the end of hosts.
const HOST_PATTERN: &str = r"^\*$|^\*?[0-9a-zA-Z-._\[\]:]+$";

defaults! {
    default_message: String = "Your referer host is not allowed".into();
}

#[derive(Debug)]
pub struct RefererRestriction {
    list: List,
    missing: Missing,
    message: String,
}

#[derive(Debug)]
enum List {
    Allowed(Hosts),
    Denied(Hosts),
}

/// Treatment of a request without the header.
#[derive(Debug, Clone, Copy)]
enum Missing {
    Passes,
    Refused,
}

#[derive(Debug, Default)]
struct Hosts {
    exact: HashSet<Box<[u8]>>,
    suffixes: Vec<Box<[u8]>>,
}

impl Hosts {
    fn new(texts: &[String]) -> Self {
        let mut hosts = Hosts::default();
        for text in texts {
            match text.strip_prefix('*') {
                Some(suffix) => hosts.suffixes.push(suffix.as_bytes().into()),
                None => drop(hosts.exact.insert(text.as_bytes().into())),
            }
        }
        hosts
    }

    fn contains(&self, host: &[u8]) -> bool {
        self.exact.contains(host) || self.suffixes.iter().any(|suffix| host.ends_with(suffix))
    }
}

impl Plugin for RefererRestriction {
    const NAME: &'static str = "referer-restriction";
    const PRIORITY: i32 = 2990;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["oneOf"] = json!([{"required": ["whitelist"]}, {"required": ["blacklist"]}]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let list = match (&config.whitelist, &config.blacklist) {
            (Some(allowed), _) => List::Allowed(Hosts::new(allowed)),
            (None, denied) => List::Denied(Hosts::new(denied.as_deref().unwrap_or(&[]))),
        };
        let missing = if config.bypass_missing { Missing::Passes } else { Missing::Refused };
        Ok(Self { list, missing, message: config.message })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let is_allowed = {
            let referer = cx.header("referer");
            match (referer.as_deref().and_then(host_of), &self.list) {
                (Some(host), List::Allowed(hosts)) => hosts.contains(host),
                (Some(host), List::Denied(hosts)) => !hosts.contains(host),
                (None, _) => matches!(self.missing, Missing::Passes),
            }
        };
        if is_allowed {
            return Step::Continue;
        }
        Answer::message(403, &self.message).refused(RefusalKind::DeniedByRule).into()
    }
}

/// Returns the host of an address such as `http://a.com:80/path`; the scheme may be missing
/// (`//a.com`).
fn host_of(referer: &[u8]) -> Option<&[u8]> {
    let schemes: [&[u8]; 3] = [b"http://", b"https://", b"//"];
    let rest = schemes.iter().find_map(|scheme| referer.strip_prefix(*scheme))?;
    if rest.first() == Some(&b'[') {
        let end = rest.iter().position(|byte| *byte == b']')?;
        return Some(&rest[..=end]);
    }
    let is_end = |byte: &u8| matches!(byte, b'[' | b']' | b':' | b'/' | b'?');
    let host = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::Harness;

    use super::*;

    const REFUSED: &str = "{\"message\":\"Your referer host is not allowed\"}\n";

    fn body(conf: &Value, lines: &str) -> String {
        let request = format!("GET / HTTP/1.1\n{lines}\n");
        let outcome = Harness::new::<RefererRestriction>(conf).request(&request);
        assert_eq!(outcome.status(), if outcome.passes() { 0 } else { 403 });
        outcome.body().to_owned()
    }

    #[test]
    fn only_hosts_of_a_whitelist_pass() {
        let conf = json!({"whitelist": ["*.xx.com", "yy.com"]});
        for (lines, expected) in [
            ("Referer: http://www.xx.com\n", ""),
            ("Referer: https://yy.com\n", ""),
            ("Referer: http://yy.com:8080/a?b\n", ""),
            ("Referer: //yy.com/a\n", ""),
            ("Referer: https://www.yy.com/am\n", REFUSED),
            ("Referer: http://xx.com\n", REFUSED),
            ("Referer: yy.com\n", REFUSED),
            ("Referer: http://\n", REFUSED),
            ("Referer: ftp://yy.com\n", REFUSED),
            ("", REFUSED),
        ] {
            assert_eq!(body(&conf, lines), expected, "{lines}");
        }
    }

    #[test]
    fn all_but_hosts_of_a_blacklist_pass() {
        let conf = json!({"blacklist": ["*.xx.com", "[::1]"], "message": "no"});
        let refused = "{\"message\":\"no\"}\n";
        for (lines, expected) in [
            ("Referer: http://www.xx.com\n", refused),
            ("Referer: http://[::1]:80/\n", refused),
            ("Referer: https://yy.com\n", ""),
            ("", refused),
        ] {
            assert_eq!(body(&conf, lines), expected, "{lines}");
        }
    }

    #[test]
    fn requests_without_a_good_referer_pass_where_they_may() {
        let conf = json!({"whitelist": ["a.com"], "bypass_missing": true});
        for lines in ["", "Referer: www.a.com\n"] {
            assert_eq!(body(&conf, lines), "", "{lines}");
        }
        assert_eq!(body(&conf, "Referer: http://b.com\n"), REFUSED);
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({}), "value should match only one schema, but matches none"),
            (
                json!({"whitelist": ["a"], "blacklist": ["b"]}),
                "value should match only one schema, but matches both schemas 1 and 2",
            ),
            (
                json!({"whitelist": [1]}),
                "property \"whitelist\" validation failed: failed to validate item 1: \
                 wrong type: expected string, got number",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(Harness::refusal::<RefererRestriction>(&conf), expected, "{conf}");
        }
        let refusal = Harness::refusal::<RefererRestriction>(&json!({"whitelist": ["a b"]}));
        assert!(
            refusal.contains("failed to validate item 1: failed to match pattern"),
            "{refusal}"
        );
    }
}
