//! Sends requests to a function of OpenFunction in the place of a node.
//!
//! # Example
//! ```json
//! {
//!   "function_uri": "http://localhost:30858/default/function-sample",
//!   "authorization": {"service_token": "test:test"}
//! }
//! ```
//!
//! # Answers
//! - the function's answer
//! - 400 when the body cannot be read or exceeds `max_req_body_size`
//! - 503 when the function does not answer within `timeout`
//!
//! # Notes
//! The function gets the client's method, headers, query and body, and after its path the part of
//! the path that `*` in the route's URI stands for. With a token, the client's `Authorization` is
//! replaced.

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, RequestContext, Scope, Step};

use crate::functions::{ConnectionFields, Function, default_timeout};
use crate::http_client::Call;
use crate::shared::auth::base64::encode_base64;
use crate::shared::auth::secret::SecretText;

/// Configuration of `openfunction`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the function.
    pub function_uri: String,
    /// Credentials of the gateway.
    pub authorization: Option<Credentials>,
    /// Timeout for the function's answer, in milliseconds; 3000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 100))]
    pub timeout: u64,
    /// Connection to the function.
    #[serde(flatten)]
    pub connection: ConnectionFields,
}

/// Credentials of the gateway.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Credentials {
    /// `name:password`, sent with HTTP Basic.
    pub service_token: Option<SecretText>,
}

#[derive(Debug)]
pub struct Openfunction {
    function: Function,
    /// Value of `Authorization`.
    authorization: Option<SecretText>,
}

impl Plugin for Openfunction {
    const NAME: &'static str = "openfunction";
    const PRIORITY: i32 = -1902;
    const CATEGORY: Category = Category::Utility;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] = &["authorization.service_token"];
    const SENT_TO: &'static [&'static str] = &["function_uri", "ssl_verify"];
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let function = Function::new(&config.function_uri, config.timeout, &config.connection)?;
        let token = config.authorization.and_then(|credentials| credentials.service_token);
        let basic = |token: SecretText| format!("Basic {}", encode_base64(token.as_bytes()));
        let authorization = token.map(|token| basic(token).into());
        Ok(Self { function, authorization })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move { self.function.forward(cx, |call| self.sign(call)).await.into() })
    }
}

impl Openfunction {
    fn sign(&self, call: &mut Call) {
        let Some(value) = &self.authorization else { return };
        call.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        call.headers.push(("Authorization".into(), value.as_bytes().to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::Harness;

    use super::*;
    use crate::shared::test_server::{TestServer, header, reply};

    #[test]
    fn the_function_gets_the_gateways_token() {
        let server = TestServer::start(|_| reply(200, "", "hello"));
        let conf = json!({"function_uri": server.url("/f"), "authorization": {"service_token": "test:test"}});
        let request = "GET / HTTP/1.1\nAuthorization: of the client\n\n";
        let outcome = Harness::new::<Openfunction>(&conf).request(request);
        assert_eq!((outcome.status(), outcome.body()), (200, "hello"));
        assert_eq!(header(&server.next_request(), "authorization"), Some("Basic dGVzdDp0ZXN0"));
        let conf = json!({"function_uri": server.url("/f")});
        Harness::new::<Openfunction>(&conf).request(request);
        assert_eq!(header(&server.next_request(), "authorization"), Some("of the client"));
    }

    #[test]
    fn the_token_is_not_shown() {
        let conf = json!({"function_uri": "http://a/f", "authorization": {"service_token": "name:password"}});
        let config: Config = serde_json::from_value(conf).unwrap();
        let shown = format!("{config:?}");
        assert!(shown.contains("service_token") && !shown.contains("password"), "{shown}");
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, text) in [
            (json!({}), "property \"function_uri\" is required"),
            (json!({"function_uri": 1}), "wrong type: expected string, got number"),
        ] {
            let refusal = Harness::refusal::<Openfunction>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
