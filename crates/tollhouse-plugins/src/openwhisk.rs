//! Runs an action of OpenWhisk in the place of a node.
//!
//! # Example
//! ```json
//! {
//!   "api_host": "http://localhost:3233",
//!   "service_token": "id:secret",
//!   "namespace": "guest",
//!   "action": "hello"
//! }
//! ```
//!
//! # Answers
//! - the action's answer: its `statusCode`, `headers` and `body`, or its whole result with 200
//! - 413 when the body cannot be read or exceeds `max_req_body_size`
//! - 503 when OpenWhisk does not answer within `timeout`, or not with JSON
//!
//! # Notes
//! The action gets the client's body as JSON. Method, headers and query of the client do not reach
//! it.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::functions::{ConnectionFields, default_timeout, failure};
use crate::http_client::{Call, HttpClient, Repeat, Reply, Target};
use crate::shared::auth::base64::encode_base64;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::default_true;
use crate::shared::messages::request_document::text_of;

/// Pattern of the names of namespaces, packages and actions.
const NAME_PATTERN: &str = r"\A([\w]|[\w][\w@ .-]*[\w@.-]+)\z";

/// Configuration of `openwhisk`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of OpenWhisk's API.
    pub api_host: String,
    /// Credentials of the gateway, `id:secret`.
    pub service_token: SecretText,
    /// Namespace of the action.
    #[schemars(length(max = 256), regex(pattern = NAME_PATTERN))]
    pub namespace: String,
    /// Package of the action. Unset: the default package.
    #[schemars(length(max = 256), regex(pattern = NAME_PATTERN))]
    pub package: Option<String>,
    /// Name of the action.
    #[schemars(length(max = 256), regex(pattern = NAME_PATTERN))]
    pub action: String,
    /// Whether only the action's result is asked for, and not also facts about the run; on by
    /// default.
    #[serde(default = "default_true")]
    pub result: bool,
    /// Timeout for the action, in milliseconds; 3000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 60_000))]
    pub timeout: u64,
    /// Connection to OpenWhisk.
    #[serde(flatten)]
    pub connection: ConnectionFields,
}

pub struct Openwhisk {
    target: Target,
    client: HttpClient,
    /// Value of `Authorization`.
    authorization: Vec<u8>,
    body_bytes_max: u64,
}

impl Plugin for Openwhisk {
    const NAME: &'static str = "openwhisk";
    const PRIORITY: i32 = -1901;
    const CATEGORY: Category = Category::Utility;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] = &["service_token"];
    const SENT_TO: &'static [&'static str] = &["api_host", "ssl_verify"];
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let package = config.package.map_or(String::new(), |package| format!("{package}/"));
        let (namespace, action) = (&config.namespace, &config.action);
        let mut path = Vec::new();
        let whole = format!("/api/v1/namespaces/{namespace}/actions/{package}{action}");
        tollhouse_router::escape_into(whole.as_bytes(), &mut path);
        let query = format!("?blocking=true&result={}&timeout={}", config.result, config.timeout);
        path.extend_from_slice(query.as_bytes());
        let host = config.api_host.trim_end_matches('/');
        let address = format!("{host}{}", String::from_utf8_lossy(&path));
        let target = Target::parse(&address)
            .map_err(|error| ConfError::in_field("api_host", error.to_string()))?;
        let client = config.connection.client(config.timeout, &target);
        let token = encode_base64(config.service_token.as_bytes());
        let authorization = format!("Basic {token}").into_bytes();
        let body_bytes_max = config.connection.max_req_body_size;
        Ok(Self { target, client, authorization, body_bytes_max })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            let Ok(body) = cx.read_body(self.body_bytes_max).await else {
                return Answer::status(413).refused(RefusalKind::RequestInvalid).into();
            };
            let call = self.call(Bytes::copy_from_slice(body));
            match self.client.send(&self.target, call).await {
                Ok(reply) => answer_of(&reply),
                Err(error) => failure(&error).into(),
            }
        })
    }
}

impl Openwhisk {
    fn call(&self, body: Bytes) -> Call {
        let headers = vec![
            ("Authorization".to_owned(), self.authorization.clone()),
            ("Content-Type".to_owned(), b"application/json".to_vec()),
        ];
        let path = self.target.path.clone().into_bytes();
        Call { method: b"POST".to_vec(), path, headers, body, repeat: Repeat::ByMethod }
    }
}

/// Reads the action's answer out of its result.
fn answer_of<'a>(reply: &Reply) -> Flow<'a> {
    if reply.body.is_empty() {
        return Answer::status(reply.status).into();
    }
    let Ok(result) = serde_json::from_slice::<Value>(&reply.body) else {
        tracing::warn!("the answer of OpenWhisk is not JSON");
        return Answer::status(503).refused(RefusalKind::UpstreamFailed).into();
    };
    let status = result["statusCode"].as_u64().and_then(|code| u16::try_from(code).ok());
    let status = status.filter(|code| (200..=599).contains(code)).unwrap_or(reply.status);
    let mut answer = match result.get("body") {
        Some(Value::String(text)) => Answer::text(status, text.clone().into_bytes()),
        Some(body @ (Value::Object(_) | Value::Array(_))) => Answer::json(status, body.clone()),
        Some(Value::Null) | None => Answer::text(status, reply.body.to_vec()),
        Some(other) => Answer::text(status, other.to_string().into_bytes()),
    };
    for (name, value) in result["headers"].as_object().into_iter().flatten() {
        answer = answer.with_header(name.clone(), text_of(value).into_bytes());
    }
    answer.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::Harness;
    use tollhouse_testkit::ClosedPort;

    use super::*;
    use crate::shared::test_server::{TestServer, body, header, reply};

    fn conf(host: &str, more: Value) -> Value {
        let mut conf = json!({"api_host": host, "service_token": "id:secret", "namespace": "guest", "action": "my hello"});
        conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        conf
    }

    #[test]
    fn the_action_gets_the_body_and_answers() {
        let server = TestServer::start(|request| match body(request) {
            "plain" => reply(200, "", "{\"hello\":\"test\"}"),
            "whole" => {
                reply(200, "", "{\"statusCode\":403,\"headers\":{\"X-A\":1},\"body\":\"no\"}")
            }
            "object" => reply(200, "", "{\"body\":{\"a\":1}}"),
            "missing" => reply(404, "", "{\"error\":\"x\"}"),
            _ => reply(200, "", "no json"),
        });
        let mut harness =
            Harness::new::<Openwhisk>(&conf(&server.url(""), json!({"package": "p"})));
        for (sent, status, answer) in [
            ("plain", 200, "{\"hello\":\"test\"}"),
            ("whole", 403, "no"),
            ("object", 200, "{\"a\":1}\n"),
            ("missing", 404, "{\"error\":\"x\"}"),
            ("text", 503, ""),
        ] {
            let request = format!("PUT /a?b=1 HTTP/1.1\nX-Client: 1\n\n{sent}");
            let outcome = harness.request(&request);
            assert_eq!((outcome.status(), outcome.body()), (status, answer), "{sent}");
            assert_eq!(outcome.header("x-a"), (sent == "whole").then_some("1"));
            let asked = server.next_request();
            let line = "POST /api/v1/namespaces/guest/actions/p/my%20hello?blocking=true&result=true&timeout=3000 HTTP/1.1";
            assert!(asked.starts_with(line), "{asked}");
            assert_eq!(header(&asked, "authorization"), Some("Basic aWQ6c2VjcmV0"));
            assert_eq!(header(&asked, "content-type"), Some("application/json"));
            assert_eq!(header(&asked, "x-client"), None);
        }
    }

    #[test]
    fn failures_are_told() {
        let closed = ClosedPort::new();
        let host = format!("http://{}", closed.address());
        let mut harness = Harness::new::<Openwhisk>(&conf(&host, json!({"max_req_body_size": 2})));
        assert_eq!(harness.request("GET / HTTP/1.1\n\n").status(), 503);
        assert_eq!(harness.request("POST / HTTP/1.1\n\nlong").status(), 413);
        for (more, text) in [
            (json!({"namespace": " a"}), "failed to match pattern"),
            (json!({"timeout": 0}), "expected 0 to be at least 1"),
            (json!({"api_host": "nothing"}), "no scheme"),
        ] {
            let refusal = Harness::refusal::<Openwhisk>(&conf(&host, more));
            assert!(refusal.contains(text), "{refusal}");
        }
        let refusal = Harness::refusal::<Openwhisk>(&json!({"api_host": host}));
        assert!(refusal.contains("is required"), "{refusal}");
    }
}
