//! Sends requests to a function of Azure in the place of a node.
//!
//! # Example
//! ```json
//! {
//!   "function_uri": "https://demo.azurewebsites.net/api/HttpTrigger",
//!   "authorization": {"apikey": "a function's key"}
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
//! the path that `*` in the route's URI stands for. The key is added unless the client sends one.
//! The plugin's metadata has a key for all confs without one.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::{
    Category, ConfError, MetadataSpec, Phases, Plugin, RequestContext, SchemaOf, Scope, Step,
};

use crate::functions::{ConnectionFields, Function, default_timeout, has_header, set_if_absent};
use crate::http_client::Call;
use crate::shared::auth::secret::SecretText;

const KEY_HEADER: &str = "x-functions-key";
const CLIENT_HEADER: &str = "x-functions-clientid";

/// Configuration of `azure-functions`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the function.
    pub function_uri: String,
    /// Credentials of the gateway. Unset: those of the plugin's metadata.
    pub authorization: Option<Authorization>,
    /// Timeout for the function's answer, in milliseconds; 3000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 100))]
    pub timeout: u64,
    /// Connection to the function.
    #[serde(flatten)]
    pub connection: ConnectionFields,
}

/// Credentials of the gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Authorization {
    /// Key of the function, sent as `x-functions-key`.
    pub apikey: Option<SecretText>,
    /// Name of the key, sent as `x-functions-clientid`.
    pub clientid: Option<String>,
}

/// Plugin metadata: credentials for all confs without their own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Key of all functions.
    #[serde(default)]
    pub master_apikey: SecretText,
    /// Name of the key.
    #[serde(default)]
    pub master_clientid: String,
}

#[derive(Debug)]
pub struct AzureFunctions {
    function: Function,
    key: SecretText,
    client: String,
}

impl Plugin for AzureFunctions {
    const NAME: &'static str = "azure-functions";
    const PRIORITY: i32 = -1900;
    const CATEGORY: Category = Category::Utility;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] = &["authorization.apikey"];
    const SENT_TO: &'static [&'static str] = &["function_uri", "ssl_verify"];
    type Config = Config;

    fn metadata() -> Option<MetadataSpec> {
        let schema: fn() -> Value = SchemaOf::<Metadata>::value;
        Some(MetadataSpec { schema, encrypted: &["master_apikey"], sent_to: &[] })
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let function = Function::new(&config.function_uri, config.timeout, &config.connection)?;
        let (key, client) = match (config.authorization, scope.metadata) {
            (Some(own), _) => (own.apikey.unwrap_or_default(), own.clientid.unwrap_or_default()),
            (None, Some(metadata)) => {
                let metadata: Metadata =
                    serde_json::from_value(metadata.clone()).map_err(|e| e.to_string())?;
                (metadata.master_apikey, metadata.master_clientid)
            }
            (None, None) => Default::default(),
        };
        Ok(Self { function, key, client })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move { self.function.forward(cx, |call| self.sign(call)).await.into() })
    }
}

impl AzureFunctions {
    fn sign(&self, call: &mut Call) {
        if has_header(call, KEY_HEADER) || has_header(call, CLIENT_HEADER) {
            return;
        }
        set_if_absent(call, KEY_HEADER, self.key.as_str());
        set_if_absent(call, CLIENT_HEADER, &self.client);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness, configure_among};
    use tollhouse_plugin::{Catalogue, Services};
    use tollhouse_testkit::ClosedPort;

    use super::*;
    use crate::shared::test_server::{TestServer, body, header, reply};

    #[test]
    fn the_function_answers_in_the_place_of_a_node() {
        let server = TestServer::start(|_| reply(201, "X-Own: 1\r\nServer: azure\r\n", "done"));
        let conf = json!({
            "function_uri": server.url("/api/f?code=1"),
            "authorization": {"apikey": "key", "clientid": "me"},
        });
        let text = "POST /azure/a%20b?x=1 HTTP/1.1\nX-A: 1\nAccept: */*\n\nhello";
        let mut exchange = FakeExchange::parse(text, 0).with_variable(":ext", "a b");
        let outcome = Harness::new::<AzureFunctions>(&conf).run(&mut exchange);
        assert_eq!((outcome.status(), outcome.body()), (201, "done"));
        assert_eq!((outcome.header("x-own"), outcome.header("server")), (Some("1"), None));
        let asked = server.next_request();
        assert!(asked.starts_with("POST /api/f/a%20b?code=1&x=1 HTTP/1.1\r\n"), "{asked}");
        assert_eq!((header(&asked, "x-a"), body(&asked)), (Some("1"), "hello"));
        assert_eq!(header(&asked, KEY_HEADER), Some("key"));
        assert_eq!(header(&asked, CLIENT_HEADER), Some("me"));
        assert_eq!(header(&asked, "host").map(|host| host.contains(':')), Some(true));
    }

    #[test]
    fn an_answer_to_head_has_the_length_that_the_function_tells() {
        let server =
            TestServer::start(|_| "HTTP/1.1 200 X\r\nContent-Length: 13\r\n\r\n".to_owned());
        let conf = json!({"function_uri": server.url("/")});
        let outcome = Harness::new::<AzureFunctions>(&conf).request("HEAD /azure HTTP/1.1\n\n");
        assert_eq!((outcome.status(), outcome.body()), (200, ""));
        assert_eq!(outcome.header("content-length"), Some("13"));
    }

    #[test]
    fn the_clients_key_or_that_of_the_metadata_is_used() {
        let server = TestServer::ok();
        let metadata = json!({"master_apikey": "master", "master_clientid": "all"});
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        let catalogue = Catalogue::empty();
        let conf = json!({"function_uri": server.url("/")});
        let handler =
            configure_among::<AzureFunctions>(&conf, &services, &catalogue, Some(&metadata))
                .expect("the conf is good");
        let mut harness = Harness::with(handler, services);
        for (sent, key, client) in [
            ("", Some("master"), Some("all")),
            ("x-functions-key: own\n", Some("own"), None),
            ("X-Functions-ClientId: own\n", None, Some("own")),
        ] {
            assert_eq!(harness.request(&format!("GET / HTTP/1.1\n{sent}\n")).status(), 200);
            let asked = server.next_request();
            assert_eq!((header(&asked, KEY_HEADER), header(&asked, CLIENT_HEADER)), (key, client));
        }
    }

    #[test]
    fn failures_are_told() {
        let closed = ClosedPort::new();
        let conf = json!({"function_uri": format!("http://{}/", closed.address()), "max_req_body_size": 3});
        let mut harness = Harness::new::<AzureFunctions>(&conf);
        assert_eq!(harness.request("GET / HTTP/1.1\n\n").status(), 503);
        assert_eq!(harness.request("POST / HTTP/1.1\n\nlong").status(), 400);
        for (conf, text) in [
            (json!({}), "property \"function_uri\" is required"),
            (json!({"function_uri": "/x"}), "bad uri \"/x\": no scheme"),
            (json!({"function_uri": "http://a/", "timeout": 99}), "expected 99 to be at least 100"),
        ] {
            let refusal = Harness::refusal::<AzureFunctions>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
