//! Admits requests that carry the name and password of a consumer (HTTP Basic, as browsers and
//! `curl` send them) and tells nodes which consumer it is.
//!
//! # Example
//! ```json
//! {"hide_credentials": true, "realm": "staff only"}
//! ```
//!
//! # Answers
//! - 401 `Missing authorization in request`, 401 `Invalid authorization in request`
//! - 401 `Invalid user authorization` for a wrong name or password, and when the anonymous consumer
//!   does not exist
//!
//! # Notes
//! Name and password are read as in RFC 7617: the first colon ends the name. Everything after it is
//! the password, including further colons and white space. The scheme is not case-sensitive.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::consumer::Identity;
use tollhouse_plugin::{
    Carrier, Category, ConfError, ConsumerSpec, Phases, Plugin, RequestContext, Scope, Step,
};

use crate::shared::auth::base64::decode_base64;
use crate::shared::auth::gate::{Gate, REALM_PATTERN};
use crate::shared::auth::scheme::credentials;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;

/// Configuration of `basic-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Whether `Authorization` is removed before the request goes to a node.
    #[serde(default)]
    pub hide_credentials: bool,
    /// Consumer for requests without a valid name and password. Unset: such requests are refused.
    #[schemars(length(min = 1))]
    pub anonymous_consumer: Option<String>,
    /// Realm in `WWW-Authenticate`, which browsers show when they ask for the password; `basic` by
    /// default.
    #[serde(default = "default_realm")]
    #[schemars(length(min = 1, max = 128), regex(pattern = REALM_PATTERN))]
    pub realm: String,
}

defaults! {
    default_realm: String = "basic".into();
}

/// Credential of a consumer for `basic-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Login {
    /// User name; unique among all consumers.
    pub username: String,
    /// Password.
    pub password: SecretText,
}

impl Identity for Login {
    const KEY_FIELD: &'static str = "username";
    const ENCRYPTED: &'static [&'static str] = &["password"];
}

#[derive(Debug)]
pub struct BasicAuth {
    gate: Gate,
    hides_credentials: bool,
}

impl Plugin for BasicAuth {
    const NAME: &'static str = "basic-auth";
    const PRIORITY: i32 = 2520;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn consumer() -> Option<ConsumerSpec> {
        Some(ConsumerSpec::new::<Login>())
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let gate = Gate::new("Basic", &config.realm, config.anonymous_consumer);
        Ok(Self { gate, hides_credentials: config.hide_credentials })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let admitted = authenticate(cx).or_else(|message| self.gate.admit_anonymous(cx, message));
        if let Err(message) = admitted {
            return self.gate.refusal(message).into();
        }
        if self.hides_credentials {
            cx.remove_header("Authorization");
        }
        Step::Continue
    }
}

fn authenticate(cx: &mut RequestContext<'_>) -> Result<(), &'static str> {
    let header = cx.header("Authorization").ok_or("Missing authorization in request")?;
    let (username, password) =
        name_and_password(&header).ok_or("Invalid authorization in request")?;
    let credential = cx.find_credential(BasicAuth::NAME, &username);
    let credential = credential
        .filter(|found| found.identity::<Login>().is_some_and(|login| login.password.is(&password)))
        .ok_or("Invalid user authorization")?;
    cx.authenticate(credential);
    cx.edits().identities.explain(Carrier::Authorization);
    Ok(())
}

/// Decodes name and password from `Basic <base64>`.
pub(crate) fn name_and_password(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut name = decode_base64(credentials(header, "Basic")?)?;
    let colon = name.iter().position(|&byte| byte == b':')?;
    let password = name.split_off(colon + 1);
    name.truncate(colon);
    Some((name, password))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollhouse_plugin::testing::Harness;

    use super::*;
    use crate::shared::auth::base64::encode_base64;

    fn harness(conf: Value) -> Harness {
        let login = |name: &str, password: &str| json!({"username": name, "password": password});
        Harness::new::<BasicAuth>(&conf)
            .consumer::<BasicAuth>("jack", &login("foo", "bar"))
            .consumer::<BasicAuth>("ann", &login("ann", "s3:cret"))
            .consumer::<BasicAuth>("bob", &login("bob", " two words"))
    }

    fn request(authorization: &str) -> String {
        format!("GET /hello HTTP/1.1\nAuthorization: {authorization}\n\n")
    }

    #[test]
    fn the_right_name_and_password_pass() {
        for (scheme, sent, consumer) in [
            ("Basic", "foo:bar", "jack"),
            ("basic", "foo:bar", "jack"),
            ("BASIC ", "foo:bar", "jack"),
            ("Basic", "ann:s3:cret", "ann"),
            ("Basic", "bob: two words", "bob"),
        ] {
            let text = request(&format!("{scheme} {}", encode_base64(sent)));
            let outcome = harness(json!({})).request(&text);
            assert_eq!(outcome.consumer.as_deref(), Some(consumer), "{sent}");
            assert_eq!(outcome.edits, format!("+X-Consumer-Username: {consumer}\n"), "{sent}");
        }
        let unpadded = request("Basic Zm9vOmJhcg");
        assert!(harness(json!({})).request(&unpadded).passes());
    }

    #[test]
    fn anything_else_is_refused_with_a_challenge() {
        let cases = [
            ("", "Invalid authorization in request"),
            ("Basic", "Invalid authorization in request"),
            ("Bearer Zm9vOmJhcg==", "Invalid authorization in request"),
            ("x Basic Zm9vOmJhcg==", "Invalid authorization in request"),
            ("BasicZm9vOmJhcg==", "Invalid authorization in request"),
            ("Basic @@@@", "Invalid authorization in request"),
            // `foo` without a colon.
            ("Basic Zm9v", "Invalid authorization in request"),
            // `foo:`, `foo:baz`, `bar:bar`.
            ("Basic Zm9vOg==", "Invalid user authorization"),
            ("Basic Zm9vOmJheg==", "Invalid user authorization"),
            ("Basic YmFyOmJhcg==", "Invalid user authorization"),
            // `foo:bar:and more`, ` foo:bar`, `foo:b ar`.
            ("Basic Zm9vOmJhcjphbmQgbW9yZQ==", "Invalid user authorization"),
            ("Basic IGZvbzpiYXI=", "Invalid user authorization"),
            ("Basic Zm9vOmIgYXI=", "Invalid user authorization"),
        ];
        for (authorization, message) in cases {
            let outcome = harness(json!({})).request(&request(authorization));
            assert_eq!(outcome.status(), 401, "{authorization}");
            let body = format!("{{\"message\":\"{message}\"}}\n");
            assert_eq!(outcome.body(), body, "{authorization}");
            assert_eq!(outcome.header("www-authenticate"), Some("Basic realm=\"basic\""));
        }
        let outcome = harness(json!({"realm": "my own"})).request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.body(), "{\"message\":\"Missing authorization in request\"}\n");
        assert_eq!(outcome.header("www-authenticate"), Some("Basic realm=\"my own\""));
    }

    #[test]
    fn hidden_credentials_do_not_reach_the_node_whoever_passes() {
        let conf = json!({"hide_credentials": true, "anonymous_consumer": "jack"});
        for authorization in ["Basic Zm9vOmJhcg==", "Basic Zm9vOmJheg=="] {
            let outcome = harness(conf.clone()).request(&request(authorization));
            assert_eq!(outcome.edits, "+X-Consumer-Username: jack\n-Authorization\n");
        }
    }

    #[test]
    fn without_a_login_the_anonymous_consumer_steps_in() {
        let conf = json!({"anonymous_consumer": "jack"});
        let outcome = harness(conf).request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.consumer.as_deref(), Some("jack"));
        let conf = json!({"anonymous_consumer": "nobody"});
        let outcome = harness(conf).request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.body(), "{\"message\":\"Invalid user authorization\"}\n");
        assert_eq!(outcome.header("www-authenticate"), Some("Basic realm=\"basic\""));
    }

    #[test]
    fn bad_confs_are_refused() {
        let cases = [
            (json!({"hide_credentials": 1}), "wrong type: expected boolean, got number"),
            (json!({"anonymous_consumer": ""}), "string too short, expected at least 1, got 0"),
            (json!({"realm": "a\"b"}), r#"with "a\"b""#),
        ];
        for (conf, inner) in cases {
            let refusal = Harness::refusal::<BasicAuth>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }

    #[test]
    fn a_login_has_both_parts() {
        let plugin = tollhouse_plugin::PluginType::new::<BasicAuth>();
        let refusal = plugin.identify(&json!({"username": "foo"})).err().map(String::from);
        assert_eq!(refusal.as_deref(), Some("property \"password\" is required"));
        let printed =
            format!("{:?}", Login { username: "u".into(), password: SecretText::default() });
        assert_eq!(printed, "Login { username: \"u\", password: *** }");
    }
}
