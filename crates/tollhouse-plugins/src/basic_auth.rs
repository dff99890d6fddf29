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
//! - 503 while many slow hashes are compared for the same name
//!
//! # Notes
//! Name and password are read as in RFC 7617: the first colon ends the name. Everything after it is
//! the password, including further colons and white space. The scheme is not case-sensitive. A
//! consumer may have a hash of `htpasswd` (`password_hash`: bcrypt, `$apr1$` or `{SHA}`) instead of
//! the password.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::consumer::Identity;
use tollhouse_plugin::{
    Answer, Carrier, Category, ConfError, ConsumerSpec, Credential, Flow, Phases, Plugin,
    RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::auth::base64::decode_base64;
use crate::shared::auth::gate::{Gate, REALM_PATTERN};
use crate::shared::auth::htpasswd::{Effort, PasswordHash};
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
    /// Password, unless its hash is given.
    pub password: Option<SecretText>,
    /// Hash of the password as `htpasswd` writes it: bcrypt (`$2y$…`), Apache's MD5 (`$apr1$…`) or
    /// SHA-1 (`{SHA}…`).
    pub password_hash: Option<SecretText>,
    #[serde(skip)]
    parsed_hash: Option<Arc<PasswordHash>>,
}

impl Identity for Login {
    const KEY_FIELD: &'static str = "username";
    const ENCRYPTED: &'static [&'static str] = &["password", "password_hash"];

    fn prepare(&mut self) -> Result<(), ConfError> {
        if self.password.is_some() && self.password_hash.is_some() {
            return Err("password and password_hash cannot be specified at the same time".into());
        }
        if self.password.is_none() && self.password_hash.is_none() {
            return Err("property \"password\" is required".into());
        }
        let hash = self.password_hash.as_ref();
        let parsed = hash.map(|hash| PasswordHash::parse(hash.as_str()).map(Arc::new));
        self.parsed_hash = parsed.transpose()?;
        Ok(())
    }
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
        let sent = match sent_login(cx) {
            Ok(sent) => sent,
            Err(message) => return step(self.turn_away(cx, message)),
        };
        let Some((credential, login)) = find(cx, &sent) else {
            return step(self.turn_away(cx, WRONG));
        };
        let Some(hash) = &login.parsed_hash else {
            let is_right = login.password.as_ref().is_some_and(|own| own.is(&sent.password));
            return step(self.decide(cx, credential, is_right));
        };
        if hash.effort(&sent.password) == Effort::Short {
            let is_right = hash.is(&sent.password);
            return step(self.decide(cx, credential, is_right));
        }
        let hash = Arc::clone(hash);
        Step::wait(async move {
            let Some(is_right) = hash.is_elsewhere(sent.password).await else {
                let answer = Answer::message(503, BUSY).refused(RefusalKind::LimitExceeded);
                return answer.with_header("Retry-After", b"1").into();
            };
            // The consumers are those of the same snapshot, so that the credential is found again.
            let outcome = match cx.find_credential(Self::NAME, &sent.username) {
                Some(credential) => self.decide(cx, credential, is_right),
                None => self.turn_away(cx, WRONG),
            };
            match outcome {
                None => Flow::Continue,
                Some(answer) => answer.into(),
            }
        })
    }
}

/// Message if many passwords are being compared for the name.
const BUSY: &str = "Too many passwords of this user are being checked";

/// Message for a wrong name or password.
const WRONG: &str = "Invalid user authorization";

/// Name and password that a client has sent.
struct SentLogin {
    username: Vec<u8>,
    password: Vec<u8>,
}

fn step(answer: Option<Answer<'_>>) -> Step<'_> {
    answer.map_or(Step::Continue, Into::into)
}

impl BasicAuth {
    /// Admits the consumer, or turns the request away. Returns the answer of a refusal.
    fn decide<'r>(
        &self,
        cx: &mut RequestContext<'r>,
        credential: &'r Credential,
        is_right: bool,
    ) -> Option<Answer<'_>> {
        if !is_right {
            return self.turn_away(cx, WRONG);
        }
        cx.authenticate(credential);
        cx.edits().identities.explain(Carrier::Authorization);
        self.hide(cx);
        None
    }

    /// Admits the request as the anonymous consumer, or returns the refusal.
    fn turn_away(&self, cx: &mut RequestContext<'_>, message: &'static str) -> Option<Answer<'_>> {
        match self.gate.admit_anonymous(cx, message) {
            Ok(()) => {
                self.hide(cx);
                None
            }
            Err(rejection) => Some(self.gate.refusal(rejection)),
        }
    }

    fn hide(&self, cx: &mut RequestContext<'_>) {
        if self.hides_credentials {
            cx.remove_header("Authorization");
        }
    }
}

fn sent_login(cx: &RequestContext<'_>) -> Result<SentLogin, &'static str> {
    let header = cx.header("Authorization").ok_or("Missing authorization in request")?;
    let (username, password) =
        name_and_password(&header).ok_or("Invalid authorization in request")?;
    Ok(SentLogin { username, password })
}

fn find<'r>(cx: &RequestContext<'r>, sent: &SentLogin) -> Option<(&'r Credential, &'r Login)> {
    let credential = cx.find_credential(BasicAuth::NAME, &sent.username)?;
    Some((credential, credential.identity::<Login>()?))
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
        let login: Login =
            serde_json::from_value(json!({"username": "u", "password": "p"})).unwrap();
        assert!(!format!("{login:?}").contains("\"p\""));
        for (more, text) in [
            (
                json!({"password": "a", "password_hash": "$apr1$a$b"}),
                "cannot be specified at the same time",
            ),
            (json!({"password_hash": "plain"}), "unknown password hash"),
        ] {
            let mut conf = json!({"username": "foo"});
            conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let refusal = plugin.identify(&conf).err().map(String::from).unwrap_or_default();
            assert!(refusal.contains(text), "{refusal}");
        }
    }

    #[test]
    fn a_password_may_be_known_by_its_hash() {
        for hash in [
            "$apr1$qHDFfhPC$nITSVHgYbDAK1Y0acGRnY0",
            "{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=",
            &bcrypt::hash_with_salt("myPassword", 4, [7; 16]).unwrap().to_string(),
        ] {
            let login = json!({"username": "foo", "password_hash": hash});
            let mut harness =
                Harness::new::<BasicAuth>(&json!({})).consumer::<BasicAuth>("jack", &login);
            for (sent, consumer) in [
                ("foo:myPassword", Some("jack")),
                ("foo:wrong", None),
                ("foo:myPassword", Some("jack")),
            ] {
                let outcome = harness.request(&request(&format!("Basic {}", encode_base64(sent))));
                assert_eq!(outcome.consumer.as_deref(), consumer, "{hash}");
                assert_eq!(outcome.status(), if consumer.is_some() { 0 } else { 401 });
            }
        }
    }
}
