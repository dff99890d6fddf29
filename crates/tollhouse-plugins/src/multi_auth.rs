//! Admits requests that at least one of several auth plugins admits, for instance either with a key
//! or with a password.
//!
//! The plugins run in the listed order, until the first one admits the request.
//!
//! # Example
//! ```json
//! {"auth_plugins": [{"basic-auth": {}}, {"key-auth": {"header": "apikey"}}]}
//! ```
//!
//! # Answers
//! - 401 `Authorization Failed` when every plugin refuses the request
//!
//! # Notes
//! A plugin with an anonymous consumer admits every request, so it belongs at the end. A plugin
//! hides credentials only in requests that it admits; the plugins after it see the original
//! request.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::handler::SharedHandler;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

/// Header that tells clients how to authenticate.
const CHALLENGE: &str = "WWW-Authenticate";

/// List of auth plugins.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Auth plugins in the order in which they run. Each item maps a plugin's name to its conf.
    #[schemars(length(min = 2))]
    pub auth_plugins: Vec<Map<String, Value>>,
}

#[derive(Debug)]
pub struct MultiAuth {
    plugins: Vec<SharedHandler>,
}

impl Plugin for MultiAuth {
    const NAME: &'static str = "multi-auth";
    const PRIORITY: i32 = 2600;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["properties"]["auth_plugins"]["items"] = json!({"type": "object"});
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let confs = config.auth_plugins.iter().flatten();
        let plugins = confs.map(|(name, conf)| inner(name, conf, scope));
        Ok(Self { plugins: plugins.collect::<Result<_, _>>()? })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            let mut challenge = None;
            for plugin in &self.plugins {
                let flow = match plugin.rewrite(cx) {
                    Step::Continue => Flow::Continue,
                    Step::Answer(answer) => Flow::Answer(answer),
                    Step::Wait(verdict) => verdict.await,
                };
                match flow {
                    Flow::Continue => return Flow::Continue,
                    Flow::Answer(answer) => challenge = challenge_of(&answer).or(challenge),
                }
            }
            refusal(challenge).into()
        })
    }
}

/// Builds one of the authentication plugins from its conf.
fn inner(name: &str, conf: &Value, scope: &Scope<'_>) -> Result<SharedHandler, ConfError> {
    let plugin = scope.catalogue.get(name);
    let plugin = plugin.ok_or_else(|| format!("{name} plugin did not found"))?;
    if !plugin.is_auth() {
        return Err(format!("{name} plugin is not supported").into());
    }
    let handler = plugin.compile(conf, scope);
    handler.map_err(|error| format!("plugin {name} check schema failed: {error}").into())
}

/// Returns a plugin's `WWW-Authenticate`; the last one is passed on to the client.
fn challenge_of(answer: &Answer<'_>) -> Option<Vec<u8>> {
    let mut headers = answer.headers.iter();
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(CHALLENGE))?;
    Some(value.to_vec())
}

fn refusal<'a>(challenge: Option<Vec<u8>>) -> Answer<'a> {
    let answer = Answer::message(401, "Authorization Failed").refused(RefusalKind::AuthInvalid);
    match challenge {
        Some(challenge) => answer.with_header(CHALLENGE, Cow::Owned(challenge)),
        None => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollhouse_plugin::Services;
    use tollhouse_plugin::testing::{Harness, configure_among};

    use super::*;
    use crate::basic_auth::BasicAuth;
    use crate::key_auth::KeyAuth;

    fn configured(conf: &Value) -> Result<(SharedHandler, Arc<Services>), ConfError> {
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        let handler = configure_among::<MultiAuth>(conf, &services, &crate::catalogue(), None)?;
        Ok((handler, services))
    }

    fn harness(plugins: Value) -> Harness {
        let conf = json!({"auth_plugins": plugins});
        let (handler, services) = configured(&conf).expect("the conf is good");
        Harness::with(handler, services)
            .consumer::<BasicAuth>("jack", &json!({"username": "foo", "password": "bar"}))
            .consumer::<KeyAuth>("rose", &json!({"key": "auth-one"}))
    }

    fn usual() -> Value {
        json!([{"basic-auth": {}}, {"key-auth": {"hide_credentials": true}}, {"jwt-auth": {}}])
    }

    #[test]
    fn one_plugin_that_lets_a_request_pass_is_enough() {
        for (header, consumer) in [
            ("Authorization: Basic Zm9vOmJhcg==", "jack"),
            ("apikey: auth-one", "rose"),
            ("apikey: auth-one\nAuthorization: Basic bm9ib2R5Ong=", "rose"),
            ("apikey: auth-one\nAuthorization: Basic Zm9vOmJhcg==", "jack"),
        ] {
            let request = format!("GET / HTTP/1.1\n{header}\n\n");
            let outcome = harness(usual()).request(&request);
            assert_eq!(outcome.consumer.as_deref(), Some(consumer), "{header}");
            assert_eq!(outcome.edits.contains("-apikey"), consumer == "rose");
        }
    }

    #[test]
    fn what_a_plugin_would_hide_is_there_for_those_that_follow() {
        let plugins = json!([{"jwt-auth": {"hide_credentials": true}}, {"basic-auth": {}}]);
        let request = "GET / HTTP/1.1\nAuthorization: Basic Zm9vOmJhcg==\n\n";
        let outcome = harness(plugins).request(request);
        assert_eq!(outcome.consumer.as_deref(), Some("jack"));
        assert!(!outcome.edits.contains("-Authorization"), "{}", outcome.edits);
    }

    #[test]
    fn several_plugins_may_stand_in_one_item() {
        let mut harness = harness(json!([{"basic-auth": {}, "key-auth": {}}, {"jwt-auth": {}}]));
        assert!(harness.request("GET /?apikey=auth-one HTTP/1.1\n\n").passes());
    }

    #[test]
    fn none_means_a_refusal() {
        for header in ["X: y", "apikey: x", "Authorization: Basic bm9ib2R5Ong="] {
            let request = format!("GET / HTTP/1.1\n{header}\n\n");
            let outcome = harness(usual()).request(&request);
            assert_eq!(outcome.status(), 401, "{header}");
            assert_eq!(outcome.body(), "{\"message\":\"Authorization Failed\"}\n");
            assert_eq!(outcome.header("www-authenticate"), Some("Bearer realm=\"jwt\""));
        }
    }

    #[test]
    fn a_plugin_that_waits_is_waited_for() {
        let conf = json!([
            {"hmac-auth": {"validate_request_body": true}},
            {"key-auth": {"anonymous_consumer": "rose"}},
        ]);
        let request = "POST / HTTP/1.1\nAuthorization: Signature keyId=\"a\"\n\nbody";
        assert_eq!(harness(conf).request(request).consumer.as_deref(), Some("rose"));
    }

    #[test]
    fn bad_confs_are_refused() {
        let two = |plugin: Value| json!({"auth_plugins": [{"basic-auth": {}}, plugin]});
        for (conf, expected) in [
            (json!({}), "property \"auth_plugins\" is required"),
            (
                json!({"auth_plugins": [{"basic-auth": {}}]}),
                "property \"auth_plugins\" validation failed: \
                 expect array to have at least 2 items",
            ),
            (
                two(json!("key-auth")),
                "property \"auth_plugins\" validation failed: failed to validate item 2: \
                 wrong type: expected object, got string",
            ),
            (two(json!({"no-auth": {}})), "no-auth plugin did not found"),
            (two(json!({"acl": {}})), "acl plugin is not supported"),
            (two(json!({"multi-auth": {}})), "multi-auth plugin is not supported"),
            (
                two(json!({"key-auth": {"header": 1}})),
                "plugin key-auth check schema failed: property \"header\" validation failed: \
                 wrong type: expected string, got number",
            ),
        ] {
            assert_eq!(configured(&conf).err(), Some(expected.into()), "{conf}");
        }
    }
}
