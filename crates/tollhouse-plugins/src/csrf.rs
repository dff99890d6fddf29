//! Refuses requests that a foreign page sends in the name of a signed-in user (CSRF).
//!
//! Every answer sets a cookie with a token. A request that may change data must repeat the token in
//! a header of the same name. Only pages of the same site can read the cookie to do so.
//!
//! # Example
//! ```json
//! {"key": "a long random text", "expires": 3600}
//! ```
//!
//! # Answers
//! - 401 `no csrf token in headers`, 401 `no csrf cookie`, 401 `csrf token mismatch`
//! - 401 `Failed to verify the csrf token signature`, also for expired tokens
//!
//! # Notes
//! GET, HEAD and OPTIONS need no token. Gateways with the same key accept each other's tokens.

use aws_lc_rs::digest;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::{
    Answer, Category, ConfError, Phases, Plugin, RefusalKind, RequestContext, ResponseContext,
    Scope, Step,
};

use crate::shared::auth::base64::{decode_base64, encode_base64};
use crate::shared::auth::secret::{SecretText, are_equal};
use crate::shared::confs::defaults::defaults;
use crate::shared::confs::lua_number::lua_number;
use crate::shared::messages::http_date::cookie_date;

/// Methods that need no token because they change nothing.
const SAFE_METHODS: [&[u8]; 3] = [b"GET", b"HEAD", b"OPTIONS"];

/// Signing key and lifetime of tokens.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Key that signs tokens; the same on all gateways of a site.
    pub key: SecretText,
    /// Lifetime of a token in seconds; 7200 by default, 0 means that tokens do not expire.
    #[serde(default = "default_expires")]
    pub expires: i64,
    /// Name of both the cookie and the header.
    #[serde(default = "default_name")]
    pub name: String,
}

defaults! {
    default_expires: i64 = 7_200;
    default_name: String = "apisix-csrf-token".into();
}

#[derive(Debug)]
pub struct Csrf {
    config: Config,
}

impl Plugin for Csrf {
    const NAME: &'static str = "csrf";
    const PRIORITY: i32 = 2980;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    const ENCRYPTED: &'static [&'static str] = &["key"];
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self { config })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if SAFE_METHODS.contains(&cx.method()) {
            return Step::Continue;
        }
        match self.check(cx) {
            Ok(()) => Step::Continue,
            Err(message) => {
                Answer::error_msg(401, message).refused(RefusalKind::DeniedByRule).into()
            }
        }
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let now_seconds = seconds(cx.now().unix_ms);
        // Fourteen digits, as many as other gateways keep when they write the number again.
        let random = (cx.request().random() % 100_000_000_000_000) as f64 / 1e14;
        let (random, issued) = (lua_number(random), now_seconds.to_string());
        let sign = self.sign(&random, &issued);
        let token = format!("{{\"random\":{random},\"expires\":{issued},\"sign\":\"{sign}\"}}");
        let (name, token) = (&self.config.name, encode_base64(token));
        let until = cookie_date(now_seconds.saturating_add(self.config.expires));
        let cookie = format!("{name}={token};path=/;SameSite=Lax;Expires={until}");
        cx.add_header("Set-Cookie", cookie.as_bytes());
    }
}

impl Csrf {
    fn check(&self, cx: &RequestContext<'_>) -> Result<(), &'static str> {
        let header = cx.header(&self.config.name).filter(|token| !token.is_empty());
        let header = header.ok_or("no csrf token in headers")?;
        let cookie = cx.cookie(&self.config.name).ok_or("no csrf cookie")?;
        if !are_equal(&header, &cookie) {
            return Err("csrf token mismatch");
        }
        let is_good = self.is_good(&cookie, seconds(cx.now().unix_ms));
        is_good.then_some(()).ok_or("Failed to verify the csrf token signature")
    }

    fn is_good(&self, token: &[u8], now_seconds: i64) -> bool {
        let decoded = decode_base64(token).unwrap_or_default();
        let Ok(token) = serde_json::from_slice::<Value>(&decoded) else { return false };
        let (random, issued) = (scalar_text(&token["random"]), scalar_text(&token["expires"]));
        let (Some(random), Some(issued), Some(sign)) = (random, issued, token["sign"].as_str())
        else {
            return false;
        };
        // Difference in seconds; `f64` holds it exactly for any realistic time.
        let age_seconds = match issued.parse::<f64>() {
            Ok(issued) => now_seconds as f64 - issued,
            Err(_) => return false,
        };
        let expires_seconds = self.config.expires;
        let is_old = expires_seconds > 0 && age_seconds > expires_seconds as f64;
        !is_old && are_equal(self.sign(&random, &issued).as_bytes(), sign.as_bytes())
    }

    fn sign(&self, random: &str, issued: &str) -> String {
        let key = self.config.key.as_str();
        let text = format!("{{expires:{issued},random:{random},key:{key}}}");
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns a number or text of a token exactly as it was signed.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => number.as_f64().map(lua_number),
        _ => None,
    }
}

fn seconds(unix_ms: u64) -> i64 {
    i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome};

    use super::*;

    /// `{"sign":…,"random":0.36714864262143,"expires":7200}`, made by another gateway with the key
    /// `userkey`.
    const FOREIGN: &str = "eyJzaWduIjoiZTlhNWVkOTBmZDc2YjRhMTYyMzg1ZDU2Y2ZhZDI1N2MxNmI0MWY1MjFjZWUw\
                           ODczNzExM2NlYzZkZDQwMWJmNyIsInJhbmRvbSI6MC4zNjcxNDg2NDI2MjE0MywiZXhwaXJlc\
                           yI6NzIwMH0=";

    fn harness(conf: Value) -> Harness {
        Harness::new::<Csrf>(&conf)
    }

    fn sent(harness: &mut Harness, method: &str, header: &str, cookie: &str) -> Outcome {
        let line = |name: &str, value: &str| {
            if value.is_empty() { String::new() } else { format!("{name}{value}\n") }
        };
        harness.request(&format!(
            "{method} / HTTP/1.1\n{}{}\n",
            line("apisix-csrf-token: ", header),
            line("Cookie: apisix-csrf-token=", cookie),
        ))
    }

    fn issued(harness: &mut Harness) -> String {
        let mut exchange = FakeExchange::parse("GET / HTTP/1.1\n\n", harness.now_ms);
        let reply = harness.respond(&mut exchange, "200\nSet-Cookie: a=b", &["x"]);
        let cookies = reply.headers.iter().filter(|(name, _)| name == "Set-Cookie");
        let [(_, first), (_, own)] = &cookies.collect::<Vec<_>>()[..] else {
            panic!("two cookies")
        };
        assert_eq!(first, "a=b");
        own.clone()
    }

    #[test]
    fn every_answer_brings_a_token_that_is_good_for_its_time() {
        let mut harness = harness(json!({"key": "userkey"}));
        let cookie = issued(&mut harness);
        let (token, rest) = cookie.split_once(';').expect("attributes");
        let token = token.strip_prefix("apisix-csrf-token=").expect("its name");
        assert_eq!(rest, "path=/;SameSite=Lax;Expires=Wed, 15-Nov-23 00:13:20 GMT");
        assert!(sent(&mut harness, "POST", token, token).passes());
        harness.now_ms += 7_200_999;
        assert!(sent(&mut harness, "POST", token, token).passes());
        harness.now_ms += 1;
        let outcome = sent(&mut harness, "POST", token, token);
        assert_eq!(
            outcome.body(),
            "{\"error_msg\":\"Failed to verify the csrf token signature\"}\n"
        );
    }

    #[test]
    fn tokens_of_other_gateways_are_good() {
        let mut for_ever = harness(json!({"key": "userkey", "expires": 0}));
        assert!(sent(&mut for_ever, "PUT", FOREIGN, FOREIGN).passes());
        let mut long = harness(json!({"key": "userkey", "expires": 2_000_000_000}));
        assert!(sent(&mut long, "PUT", FOREIGN, FOREIGN).passes());
    }

    #[test]
    fn only_methods_that_change_something_need_a_token() {
        let mut harness = harness(json!({"key": "k"}));
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert!(sent(&mut harness, method, "", "").passes(), "{method}");
        }
        for method in ["POST", "PUT", "DELETE", "PATCH", "get"] {
            let outcome = sent(&mut harness, method, "", "");
            assert_eq!(outcome.status(), 401, "{method}");
            assert_eq!(outcome.body(), "{\"error_msg\":\"no csrf token in headers\"}\n");
        }
    }

    #[test]
    fn header_and_cookie_must_be_the_same_good_token() {
        let failed = "Failed to verify the csrf token signature";
        for (key, header, cookie, message) in [
            ("userkey", "", FOREIGN, "no csrf token in headers"),
            ("userkey", FOREIGN, "", "no csrf cookie"),
            ("userkey", FOREIGN, "x", "csrf token mismatch"),
            ("userkey", "x", FOREIGN, "csrf token mismatch"),
            ("other", FOREIGN, FOREIGN, failed),
            ("userkey", "!", "!", failed),
            ("userkey", "e30=", "e30=", failed),
            ("userkey", "WzFd", "WzFd", failed),
        ] {
            let mut harness = harness(json!({"key": key, "expires": 0}));
            let outcome = sent(&mut harness, "POST", header, cookie);
            assert_eq!(outcome.body(), format!("{{\"error_msg\":\"{message}\"}}\n"));
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, inner) in [
            (json!({}), "property \"key\" is required"),
            (json!({"key": 1}), "wrong type: expected string, got number"),
            (json!({"key": "k", "expires": 1.5}), "wrong type: expected integer, got number"),
        ] {
            let refusal = Harness::refusal::<Csrf>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }
}
