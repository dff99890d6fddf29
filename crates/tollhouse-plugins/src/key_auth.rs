//! Admits requests that carry the key of a consumer, and tells nodes which consumer it is.
//!
//! The key is searched in a header, then in a query argument.
//!
//! # Example
//! ```json
//! {"header": "apikey", "hide_credentials": true}
//! ```
//!
//! # Answers
//! - 401 `Missing API key in request`, 401 `Invalid API key in request`
//! - 401 `Invalid user authorization` when the anonymous consumer does not exist
//!
//! # Notes
//! Finding the consumer costs one hash look-up, regardless of the number of consumers.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::consumer::Identity;
use tollhouse_plugin::{
    Carrier, Category, ConfError, ConsumerSpec, Phases, Plugin, RequestContext, Scope, Step,
};

use crate::shared::auth::credentials;
use crate::shared::auth::gate::{Gate, REALM_PATTERN};
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;

/// Configuration of `key-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Header that carries the key; `apikey` by default.
    #[serde(default = "default_name")]
    pub header: String,
    /// Query argument that carries the key if the header does not; `apikey` by default.
    #[serde(default = "default_name")]
    pub query: String,
    /// Whether the key is removed before the request goes to a node.
    #[serde(default)]
    pub hide_credentials: bool,
    /// Consumer for requests without a valid key. Unset: such requests are refused.
    #[schemars(length(min = 1))]
    pub anonymous_consumer: Option<String>,
    /// Realm in `WWW-Authenticate`; `key` by default.
    #[serde(default = "default_realm")]
    #[schemars(length(min = 1, max = 128), regex(pattern = REALM_PATTERN))]
    pub realm: String,
}

defaults! {
    default_name: String = "apikey".into();
    default_realm: String = "key".into();
}

/// Credential of a consumer for `key-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Key {
    /// Secret key that identifies the consumer; unique among all consumers.
    pub key: SecretText,
}

impl Identity for Key {
    const KEY_FIELD: &'static str = "key";
    const ENCRYPTED: &'static [&'static str] = &["key"];
}

#[derive(Debug)]
pub struct KeyAuth {
    header: String,
    query: String,
    hides_credentials: bool,
    is_in_authorization: bool,
    gate: Gate,
}

/// Place in which a key was found.
#[derive(Debug, Clone, Copy)]
enum KeyLocation {
    Header,
    Query,
}

impl Plugin for KeyAuth {
    const NAME: &'static str = "key-auth";
    const PRIORITY: i32 = 2500;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn consumer() -> Option<ConsumerSpec> {
        Some(ConsumerSpec::new::<Key>())
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let gate = Gate::new("apikey", &config.realm, config.anonymous_consumer);
        let Config { header, query, hide_credentials: hides_credentials, .. } = config;
        let is_in_authorization = header.eq_ignore_ascii_case("authorization");
        Ok(Self { header, query, hides_credentials, is_in_authorization, gate })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        // The place matters only if the key is to be removed.
        let place = if self.hides_credentials { self.key(cx).map(|found| found.1) } else { None };
        let admitted =
            self.authenticate(cx).or_else(|message| self.gate.admit_anonymous(cx, message));
        if let Err(message) = admitted {
            return self.gate.refusal(message).into();
        }
        if let Some(place) = place {
            self.hide(cx, place);
        }
        Step::Continue
    }
}

impl KeyAuth {
    fn authenticate(&self, cx: &mut RequestContext<'_>) -> Result<(), &'static str> {
        let (key, place) = self.key(cx).ok_or("Missing API key in request")?;
        let credential =
            cx.find_credential(Self::NAME, &key).ok_or("Invalid API key in request")?;
        cx.authenticate(credential);
        if self.is_in_authorization && matches!(place, KeyLocation::Header) {
            cx.edits().identities.explain(Carrier::Authorization);
        }
        Ok(())
    }

    fn key<'c>(&self, cx: &'c RequestContext<'_>) -> Option<(Cow<'c, [u8]>, KeyLocation)> {
        let header = cx.header(&self.header).map(|key| (key, KeyLocation::Header));
        header.or_else(|| cx.argument(&self.query).map(|key| (key, KeyLocation::Query)))
    }

    fn hide(&self, cx: &mut RequestContext<'_>, place: KeyLocation) {
        match place {
            KeyLocation::Header => cx.remove_header(&self.header),
            KeyLocation::Query => credentials::hide_argument(cx, &self.query),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::Harness;

    use super::*;

    fn harness(conf: serde_json::Value) -> Harness {
        Harness::new::<KeyAuth>(&conf).consumer::<KeyAuth>("jack", &json!({"key": "auth-one"}))
    }

    #[test]
    fn a_known_key_passes_and_names_its_consumer() {
        let cases = [
            "GET /hello HTTP/1.1\napikey: auth-one\n\n",
            "GET /hello HTTP/1.1\nAPIKEY: auth-one\n\n",
            "GET /hello?apikey=auth-one HTTP/1.1\n\n",
            "GET /hello?apikey=auth%2done HTTP/1.1\n\n",
        ];
        for request in cases {
            let outcome = harness(json!({})).request(request);
            assert_eq!(outcome.consumer.as_deref(), Some("jack"), "{request}");
            assert_eq!(outcome.edits, "+X-Consumer-Username: jack\n", "{request}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_challenge() {
        let cases = [
            ("GET /hello HTTP/1.1\n\n", "Missing API key in request"),
            ("GET /hello HTTP/1.1\napikey: other\n\n", "Invalid API key in request"),
            ("GET /hello?apikey= HTTP/1.1\n\n", "Invalid API key in request"),
            // If the header exists, all its lines count.
            ("GET / HTTP/1.1\napikey: auth-one\napikey: x\n\n", "Invalid API key in request"),
            ("GET /?apikey=auth-one HTTP/1.1\napikey: x\n\n", "Invalid API key in request"),
        ];
        for (request, message) in cases {
            let outcome = harness(json!({})).request(request);
            assert_eq!(outcome.status(), 401, "{request}");
            assert_eq!(outcome.body(), format!("{{\"message\":\"{message}\"}}\n"), "{request}");
            assert_eq!(outcome.header("www-authenticate"), Some("apikey realm=\"key\""));
        }
    }

    #[test]
    fn hidden_credentials_do_not_reach_the_node() {
        let conf = json!({"hide_credentials": true});
        let outcome = harness(conf.clone()).request("GET / HTTP/1.1\napikey: auth-one\n\n");
        assert_eq!(outcome.edits, "+X-Consumer-Username: jack\n-apikey\n");
        let outcome = harness(conf).request("GET /a?x=1&apikey=auth-one&y=2 HTTP/1.1\n\n");
        assert_eq!(outcome.edits, "+X-Consumer-Username: jack\nuri /a?x=1&y=2\n");
        // The argument is removed for any encoding of its name, also for the anonymous consumer.
        let conf = json!({"hide_credentials": true, "anonymous_consumer": "jack"});
        let outcome = harness(conf).request("GET /a?api%6bey=other HTTP/1.1\n\n");
        assert_eq!(outcome.edits, "+X-Consumer-Username: jack\nuri /a\n");
    }

    #[test]
    fn without_a_good_key_the_anonymous_consumer_steps_in() {
        let conf = json!({"anonymous_consumer": "jack"});
        let outcome = harness(conf).request("GET / HTTP/1.1\napikey: other\n\n");
        assert_eq!(outcome.consumer.as_deref(), Some("jack"));
        let conf = json!({"anonymous_consumer": "nobody"});
        let outcome = harness(conf).request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.body(), "{\"message\":\"Invalid user authorization\"}\n");
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({"header": 1}), "wrong type: expected string, got number"),
            (json!({"realm": ""}), "string too short, expected at least 1, got 0"),
            (json!({"realm": "a\"b"}), r#"with "a\"b""#),
            (json!({"realm": "a\\b"}), r#"with "a\\b""#),
        ];
        for (conf, inner) in cases {
            let refusal = Harness::refusal::<KeyAuth>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }
}
