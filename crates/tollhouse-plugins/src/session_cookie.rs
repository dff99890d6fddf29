//! Keeps a client on one node with a cookie that the gateway issues (sticky sessions).
//!
//! A client without the cookie gets one with a random value. The route's upstream hashes this value:
//! `"type": "chash", "hash_on": "cookie", "key": "route"`, where `key` is the cookie's `name`.
//!
//! # Example
//! ```json
//! {"name": "route", "max_age": 86400, "http_only": true, "same_site": "Lax"}
//! ```
//!
//! # Answers
//! - none of its own
//!
//! # Notes
//! If a node fails or leaves, its clients are spread over the others and return with it; other
//! clients stay where they are. With `change_on_failure`, a client whose node failed gets a new
//! value, and stays with its new node. Cookies tell nothing about nodes. All gateways with the same
//! nodes make the same choice.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{
    Category, ConfError, Phases, Plugin, RequestContext, ResponseContext, Scope, Step,
};

use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::messages::http_date::cookie_date;

/// Number of random bytes of a cookie; enough that no two clients share one.
const VALUE_BYTES: usize = 16;

/// Longest value of a client's cookie that is accepted.
const VALUE_CHARS_MAX: usize = 64;

/// Configuration of `session-cookie`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Name of the cookie, and `key` of the upstream; `route` by default.
    #[serde(default = "default_name")]
    #[schemars(length(min = 1), regex(pattern = r"^[A-Za-z0-9_!#$%&'*+.^`|~-]+$"))]
    pub name: String,
    /// Path of the cookie; `/` by default.
    #[serde(default = "default_path")]
    #[schemars(regex(pattern = r"^/[^;\x00-\x1f\x7f]*$"))]
    pub path: String,
    /// Domain of the cookie. Unset: the requested host alone.
    #[schemars(regex(pattern = r"^[A-Za-z0-9.-]+$"))]
    pub domain: Option<String>,
    /// Lifetime of the cookie in seconds. Unset: until the browser closes.
    #[schemars(range(min = 1))]
    pub max_age: Option<u64>,
    /// Whether browsers send the cookie over TLS only. Unset: if the client has used TLS.
    pub secure: Option<bool>,
    /// Whether scripts of pages cannot read the cookie; on by default.
    #[serde(default = "default_true")]
    pub http_only: bool,
    /// Requests from other sites that carry the cookie; `Lax` by default.
    #[serde(default)]
    pub same_site: SameSite,
    /// Whether a client gets a new cookie if its node did not answer. Off by default.
    #[serde(default)]
    pub change_on_failure: bool,
}

/// Requests from other sites that carry the cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
pub enum SameSite {
    Strict,
    #[default]
    Lax,
    None,
}

defaults! {
    default_name: String = "route".into();
    default_path: String = "/".into();
}

#[derive(Debug)]
pub struct SessionCookie {
    config: Config,
    random: SystemRandom,
}

/// Cookie that the client of this request gets.
struct NewCookie {
    value: String,
    is_tls: bool,
}

impl Plugin for SessionCookie {
    const NAME: &'static str = "session-cookie";
    const PRIORITY: i32 = 964;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        if config.same_site == SameSite::None && config.secure == Some(false) {
            let text = "same_site \"None\" needs a secure cookie";
            return Err(ConfError::in_field("same_site", text));
        }
        Ok(Self { config, random: SystemRandom::new() })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if cx.cookie(&self.config.name).is_some_and(|value| is_value(&value)) {
            return Step::Continue;
        }
        if let Some(value) = self.new_value() {
            // The balancer, and the node, see the cookie with the first request.
            self.set_request_cookie(cx, &value);
            let is_tls = cx.is_tls();
            cx.remember(NewCookie { value, is_tls });
        }
        Step::Continue
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        if let Some(line) = cx.recall::<NewCookie>().map(|cookie| self.line(cookie)) {
            return self.add(cx, line);
        }
        let has_failed = cx.source() == Source::Gateway && matches!(cx.status(), 502 | 504);
        if self.config.change_on_failure
            && has_failed
            && let Some(value) = self.new_value()
        {
            let line = self.line(&NewCookie { value, is_tls: false });
            self.add(cx, line);
        }
    }
}

impl SessionCookie {
    /// Returns a random value; `None` if the system has no random numbers.
    fn new_value(&self) -> Option<String> {
        let mut bytes = [0; VALUE_BYTES];
        self.random.fill(&mut bytes).ok()?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Replaces the cookie of this name in the request.
    fn set_request_cookie(&self, cx: &mut RequestContext<'_>, value: &str) {
        let prefix = format!("{}=", self.config.name);
        let sent = cx.header("Cookie").unwrap_or_default().into_owned();
        let others = sent.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let others = others.filter(|it| !it.is_empty() && !it.starts_with(prefix.as_bytes()));
        let mut line: Vec<u8> = Vec::new();
        for cookie in others {
            line.extend_from_slice(cookie);
            line.extend_from_slice(b"; ");
        }
        line.extend_from_slice(prefix.as_bytes());
        line.extend_from_slice(value.as_bytes());
        cx.set_header("Cookie", &line);
    }

    /// Returns the cookie without its expiry.
    fn line(&self, cookie: &NewCookie) -> String {
        let config = &self.config;
        let mut line = format!("{}={}; Path={}", config.name, cookie.value, config.path);
        if let Some(domain) = &config.domain {
            line.push_str(&format!("; Domain={domain}"));
        }
        let is_secure = config.same_site == SameSite::None || cookie.is_tls;
        if config.secure.unwrap_or(is_secure) {
            line.push_str("; Secure");
        }
        if config.http_only {
            line.push_str("; HttpOnly");
        }
        line.push_str(match config.same_site {
            SameSite::Strict => "; SameSite=Strict",
            SameSite::Lax => "; SameSite=Lax",
            SameSite::None => "; SameSite=None",
        });
        line
    }

    fn add(&self, cx: &mut ResponseContext<'_>, mut line: String) {
        if let Some(age) = self.config.max_age {
            let now_seconds = i64::try_from(cx.now().unix_ms / 1_000).unwrap_or(i64::MAX);
            let age_seconds = i64::try_from(age).unwrap_or(i64::MAX);
            let until = cookie_date(now_seconds.saturating_add(age_seconds));
            line.push_str(&format!("; Max-Age={age}; Expires={until}"));
        }
        cx.add_header("Set-Cookie", line.as_bytes());
    }
}

/// Whether a client's cookie can be one of ours.
fn is_value(value: &[u8]) -> bool {
    !value.is_empty()
        && value.len() <= VALUE_CHARS_MAX
        && value.iter().all(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollhouse_plugin::testing::{FakeExchange, Harness};

    use super::*;

    fn run(conf: &Value, request: &str) -> (String, Option<String>) {
        let mut harness = Harness::new::<SessionCookie>(conf);
        let mut exchange = FakeExchange::parse(request, 0);
        let outcome = harness.run(&mut exchange);
        assert!(outcome.passes());
        let reply = harness.respond(&mut exchange, "200", &["ok"]);
        (outcome.edits, reply.header("set-cookie").map(str::to_owned))
    }

    #[test]
    fn a_new_client_gets_the_cookie_that_the_balancer_sees() {
        let conf = json!({"max_age": 60, "domain": "a.com"});
        let (edits, cookie) = run(&conf, "GET / HTTP/1.1\nCookie: a=b; route=<x>\n\n");
        let cookie = cookie.expect("a cookie");
        let value = cookie.split(';').next().unwrap();
        assert_eq!(edits, format!("+Cookie: a=b; {value}\n"));
        assert!(value.len() == "route=".len() + 32, "{value}");
        let rest = "; Path=/; Domain=a.com; HttpOnly; SameSite=Lax; Max-Age=60; Expires=";
        assert!(cookie.contains(rest), "{cookie}");
        let (edits, other) = run(&json!({}), "GET / HTTP/1.1\n\n");
        assert!(edits.starts_with("+Cookie: route="), "{edits}");
        assert!(other.is_some_and(|other| !other.starts_with(value) && !other.contains("Max-Age")));
    }

    #[test]
    fn a_known_client_keeps_its_cookie() {
        let (edits, cookie) = run(&json!({"name": "x"}), "GET / HTTP/1.1\nCookie: x=0123abc\n\n");
        assert_eq!((edits.as_str(), cookie), ("", None));
        let (_, cookie) = run(&json!({"name": "x"}), &format!("GET / HTTP/1.1\nCookie: x={}\n\n", "a".repeat(65)));
        assert!(cookie.is_some());
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, text) in [
            (json!({"name": "a;b"}), "failed to match pattern"),
            (json!({"path": "a"}), "failed to match pattern"),
            (json!({"max_age": 0}), "expected 0 to be at least 1"),
            (json!({"same_site": "None", "secure": false}), "needs a secure cookie"),
            (json!({"same_site": "lax"}), "matches none of the enum values"),
        ] {
            let refusal = Harness::refusal::<SessionCookie>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
