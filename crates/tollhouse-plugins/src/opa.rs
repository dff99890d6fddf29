//! Asks an Open Policy Agent about each request. Requests that the policy allows pass; all others
//! get the answer that the policy defines.
//!
//! The policy receives the request, some variables and optionally the route, the service and the
//! consumer as `input`. Its `result` has the fields `allow`, `reason`, `headers` and `status_code`.
//!
//! # Example
//! ```json
//! {"host": "http://127.0.0.1:8181", "policy": "example", "send_headers_upstream": ["X-User"]}
//! ```
//!
//! # Answers
//! - the result's `status_code` (403 by default) with its `headers` and `reason`, when it does not
//!   allow the request
//! - 403 when the agent does not answer
//! - 503 when the answer has no result
//!
//! # Notes
//! Each request costs one exchange with the agent, over a persistent connection. Caches tell users
//! apart by the values of `send_headers_upstream`. If a result has none of these headers and no
//! other plugin has identified a user, only answers marked as public are cached.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::exchange::MatchedObject;
use tollhouse_plugin::{
    Answer, Carrier, Category, ConfError, Flow, Identity, Phases, Plugin, RefusalKind,
    RequestContext, Scope, Step,
};

use crate::http_client::service::{self, Service, ServiceConf};
use crate::http_client::{Call, ClientError, Repeat, Reply};
use crate::shared::confs::defaults::default_true;
use crate::shared::confs::status::status_of;
use crate::shared::messages::request_document::{headers_document, query_document, text_of};

/// Configuration of `opa`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the agent: `http://host:port`.
    pub host: String,
    /// Whether the agent's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Path of the policy below `/v1/data/`.
    pub policy: String,
    /// Timeout for the agent's answer, in milliseconds.
    #[serde(default = "service::default_timeout")]
    #[schemars(range(min = 1, max = 60_000))]
    pub timeout: u64,
    /// Whether connections to the agent are reused.
    #[serde(default = "default_true")]
    pub keepalive: bool,
    /// Headers of the result that the node gets. A header that the result lacks is removed from the
    /// request.
    #[schemars(length(min = 1))]
    pub send_headers_upstream: Option<Vec<String>>,
    /// Time after which an idle connection is closed, in milliseconds.
    #[serde(default = "service::default_keepalive_timeout")]
    #[schemars(range(min = 1_000))]
    pub keepalive_timeout: u64,
    /// Number of idle connections that each core keeps at most.
    #[serde(default = "service::default_keepalive_pool")]
    #[schemars(range(min = 1))]
    pub keepalive_pool: u64,
    /// Whether the policy receives the route; off by default.
    #[serde(default)]
    pub with_route: bool,
    /// Whether the policy receives the service; off by default.
    #[serde(default)]
    pub with_service: bool,
    /// Whether the policy receives the consumer; off by default.
    #[serde(default)]
    pub with_consumer: bool,
}

#[derive(Debug)]
pub struct Opa {
    agent: Service,
    discloses: Disclosure,
    upstream_headers: Vec<String>,
}

/// Objects that the policy receives besides the request.
#[derive(Debug, Clone, Copy)]
struct Disclosure {
    route: bool,
    service: bool,
    consumer: bool,
}

impl Plugin for Opa {
    const NAME: &'static str = "opa";
    const PRIORITY: i32 = 2001;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let agent = Service::new(&ServiceConf {
            uri: &format!("{}/v1/data/{}", config.host, config.policy),
            timeout_ms: config.timeout,
            ssl_verify: config.ssl_verify,
            keepalive: config.keepalive,
            keepalive_timeout_ms: config.keepalive_timeout,
            keepalive_pool: config.keepalive_pool,
        });
        let discloses = Disclosure {
            route: config.with_route,
            service: config.with_service,
            consumer: config.with_consumer,
        };
        let upstream_headers = config.send_headers_upstream.unwrap_or_default();
        Ok(Self { agent, discloses, upstream_headers })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let input = json!({ "input": self.input(cx) });
        Step::wait(async move {
            match self.ask(&input).await {
                Ok(reply) => self.apply_reply(cx, &reply),
                Err(error) => {
                    tracing::warn!(%error, "the policy agent gives no answer");
                    Answer::status(403).refused(RefusalKind::PluginFailed).into()
                }
            }
        })
    }
}

impl Opa {
    async fn ask(&self, input: &Value) -> Result<Reply, ClientError> {
        let call = Call {
            method: b"POST".to_vec(),
            path: Vec::new(),
            headers: vec![("Content-Type".into(), b"application/json".to_vec())],
            body: Bytes::from(input.to_string()),
            repeat: Repeat::Always,
        };
        self.agent.ask(call).await
    }

    /// Builds the JSON input of the policy from the request.
    fn input(&self, cx: &RequestContext<'_>) -> Value {
        let mut input = Map::new();
        input.insert("type".into(), json!("http"));
        input.insert("request".into(), request_document(cx));
        input.insert("var".into(), variables_document(cx));
        for (kind, is_shown, name) in [
            (MatchedObject::Route, self.discloses.route, "route"),
            (MatchedObject::Service, self.discloses.service, "service"),
        ] {
            if let (true, Some(mut object)) = (is_shown, matched(cx, kind)) {
                // The policy must not learn the addresses of nodes.
                if let (MatchedObject::Route, Some(fields)) = (kind, object.as_object_mut()) {
                    fields.shift_remove("upstream");
                }
                input.insert(name.into(), object);
            }
        }
        if let (true, Some(consumer)) = (self.discloses.consumer, cx.consumer()) {
            let mut document = json!({
                "username": consumer.username,
                "consumer_name": consumer.username,
            });
            if let Some(group) = &consumer.group_id {
                document["group_id"] = json!(group);
            }
            if !consumer.labels.is_empty() {
                document["labels"] = json!(consumer.labels);
            }
            input.insert("consumer".into(), document);
        }
        Value::Object(input)
    }

    fn apply_reply<'a>(&self, cx: &mut RequestContext<'_>, reply: &Reply) -> Flow<'a> {
        let result = match serde_json::from_slice::<Value>(&reply.body) {
            Ok(Value::Object(mut document)) => document.shift_remove("result").unwrap_or_default(),
            _ => Value::Null,
        };
        // An undefined policy has no result. A bare `true` or `false` passes here, and `false` or a
        // missing `allow` refuses.
        if !is_true(&result) {
            tracing::warn!(status = reply.status, "the policy agent's answer has no result");
            return Answer::status(503).refused(RefusalKind::PluginFailed).into();
        }
        if !is_true(&result["allow"]) {
            return refusal(&result).into();
        }
        let mut user = Vec::new();
        for name in &self.upstream_headers {
            cx.remove_header(name);
            for value in header_values(result["headers"].as_object(), name) {
                cx.edits().headers.add(name, value.as_bytes());
                user.push(value);
            }
        }
        note_identity(cx, &user.join(", "));
        Flow::Continue
    }
}

/// Records the user that the result names. The policy sees the whole request, so only its result
/// can tell which part identifies the user.
fn note_identity(cx: &mut RequestContext<'_>, user: &str) {
    if !user.is_empty() {
        cx.note_identity(Identity { by: Opa::NAME, name: user.as_bytes(), grant: b"" });
        cx.edits().identities.explain(Carrier::Authorization);
        cx.edits().identities.explain(Carrier::Cookie);
    } else if cx.consumer().is_none() && cx.exchange().edits().identities.is_empty() {
        cx.edits().identities.note_nameless();
    }
}

/// Whether Lua treats the value as true: anything except `false` and `nil`.
fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// Returns the values of a header in the result. An exact match of the name comes before one in
/// another case.
fn header_values(headers: Option<&Map<String, Value>>, name: &str) -> Vec<String> {
    let exact = headers.and_then(|headers| headers.get(name));
    let found = exact.or_else(|| {
        let mut lines = headers.into_iter().flatten();
        lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    });
    match found {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(text_of).collect(),
        Some(value) => vec![text_of(value)],
    }
}

/// Builds the answer for a request that the policy refuses.
fn refusal<'a>(result: &Value) -> Answer<'a> {
    let status = result["status_code"].as_i64().map_or(403, status_of);
    let mut answer = match &result["reason"] {
        Value::Null | Value::Bool(false) => {
            Answer::status(status).refused(RefusalKind::DeniedByRule)
        }
        Value::String(reason) => {
            Answer::text(status, reason.clone().into_bytes()).refused(RefusalKind::DeniedByRule)
        }
        reason => {
            Answer::text(status, reason.to_string().into_bytes()).refused(RefusalKind::DeniedByRule)
        }
    };
    for name in result["headers"].as_object().into_iter().flat_map(|headers| headers.keys()) {
        for value in header_values(result["headers"].as_object(), name) {
            answer = answer.with_header(name.clone(), value.into_bytes());
        }
    }
    answer
}

fn request_document(cx: &RequestContext<'_>) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    json!({
        "scheme": variable(cx, Variable::Scheme),
        "method": text(cx.method()),
        "host": variable(cx, Variable::Host),
        "port": variable(cx, Variable::ServerPort).and_then(|port| port.parse::<u16>().ok()),
        "path": text(cx.path()),
        "headers": headers_document(|visit| cx.each_header(visit)),
        "query": query_document(cx.query()),
    })
}

fn variables_document(cx: &RequestContext<'_>) -> Value {
    let mut document = Map::new();
    for (name, name_of) in [
        ("server_addr", Variable::ServerAddr),
        ("server_port", Variable::ServerPort),
        ("remote_addr", Variable::RemoteAddr),
        ("remote_port", Variable::RemotePort),
    ] {
        document.extend(variable(cx, name_of).map(|value| (name.to_owned(), json!(value))));
    }
    document.insert("timestamp".into(), json!(cx.now().unix_ms / 1_000));
    Value::Object(document)
}

fn variable(cx: &RequestContext<'_>, variable: Variable) -> Option<String> {
    let value = cx.variables().variable(&variable)?;
    Some(String::from_utf8_lossy(&value).into_owned())
}

/// Returns the matched object, or just its id if the object itself is unknown.
fn matched(cx: &RequestContext<'_>, kind: MatchedObject) -> Option<Value> {
    cx.matched_object(kind).or_else(|| {
        let name = match kind {
            MatchedObject::Route => "route_id",
            MatchedObject::Service => "service_id",
        };
        let id = variable(cx, Variable::Named(name.into())).filter(|id| !id.is_empty())?;
        Some(json!({ "id": id }))
    })
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::{FakeExchange, Harness};
    use tollhouse_testkit::ClosedPort;

    use super::*;
    use crate::key_auth::KeyAuth;
    use crate::shared::test_server::{TestServer, body, header, reply};

    fn agent(result: &str) -> TestServer {
        let body = format!("{{\"result\":{result}}}");
        TestServer::start(move |_| reply(200, "", &body))
    }

    fn conf(server: &TestServer, more: Value) -> Value {
        let mut conf = json!({"host": server.url(""), "policy": "example"});
        let more = more.as_object().expect("fields").clone();
        conf.as_object_mut().expect("fields").extend(more);
        conf
    }

    #[test]
    fn the_policy_sees_the_request() {
        let server = agent("{\"allow\":true}");
        let shown = json!({"with_route": true, "with_service": true, "with_consumer": true});
        let mut harness = Harness::new::<Opa>(&conf(&server, shown))
            .consumer::<KeyAuth>("jack", &json!({"key": "one"}));
        let request = "GET /a?x=1&y&x=2 HTTP/1.1\nHost: A.com:9080\nX-A: 1\nX-A: 2\n\n";
        let mut request =
            FakeExchange::parse(request, 1_700_000_000_000).with_variable("route_id", "r1");
        assert!(harness.run_as(&mut request, Some("jack")).passes());
        let asked = server.next_request();
        assert!(asked.starts_with("POST /v1/data/example HTTP/1.1\r\n"), "{asked}");
        assert_eq!(header(&asked, "content-type"), Some("application/json"));
        let mut input: Value = serde_json::from_str(body(&asked)).unwrap();
        assert_eq!(input["input"]["var"]["timestamp"], json!(1_700_000_000));
        input["input"]["var"].as_object_mut().unwrap().shift_remove("timestamp");
        let expected = json!({"input": {
            "type": "http",
            "request": {
                "scheme": "http", "method": "GET", "host": "a.com", "port": 9080, "path": "/a",
                "headers": {
                    "host": "A.com:9080", "x-a": ["1", "2"], "x-consumer-username": "jack"
                },
                "query": {"x": ["1", "2"], "y": true},
            },
            "var": {
                "server_addr": "127.0.0.1", "server_port": "9080",
                "remote_addr": "127.0.0.1", "remote_port": "40000",
            },
            "route": {"id": "r1"},
            "consumer": {"username": "jack", "consumer_name": "jack"},
        }});
        assert_eq!(input, expected);
    }

    #[test]
    fn what_is_allowed_passes_with_headers_for_the_node() {
        for (result, edits) in [
            (
                r#"{"allow":true,"headers":{"user":"none","x-n":[1,2]}}"#,
                "+user: none\n+X-N: 1\n+X-N: 2\n-X-Foo\n",
            ),
            (r#"{"allow":true}"#, "-user\n-X-N\n-X-Foo\n"),
        ] {
            let server = agent(result);
            let fields = json!({"send_headers_upstream": ["user", "X-N", "X-Foo"]});
            let mut harness = Harness::new::<Opa>(&conf(&server, fields));
            let mut exchange = FakeExchange::parse("GET / HTTP/1.1\nX-Foo: spoofed\n\n", 0);
            let outcome = harness.run(&mut exchange);
            assert!(outcome.passes());
            assert_eq!(outcome.edits, edits);
            // The identity is recorded in either case, with or without a user.
            let noted = &exchange.edits.identities;
            assert_eq!(noted.len(), 1);
            let names: Vec<_> = noted.iter().map(|one| one.name.to_vec()).collect();
            let is_named = edits.starts_with('+');
            assert_eq!(names.concat(), if is_named { &b"none, 1, 2"[..] } else { b"" });
        }
    }

    #[test]
    fn what_is_not_allowed_gets_the_policys_answer() {
        for (result, status, body) in [
            (r#"{"allow":false}"#, 403, ""),
            (r#"{"reason":"no"}"#, 403, "no"),
            (r#"{"allow":false,"status_code":302,"headers":{"test":"abcd"}}"#, 302, ""),
            (r#"{"allow":false,"reason":{"code":40001}}"#, 403, r#"{"code":40001}"#),
            ("null", 503, ""),
            ("false", 503, ""),
        ] {
            let server = agent(result);
            let outcome =
                Harness::new::<Opa>(&conf(&server, json!({}))).request("GET / HTTP/1.1\n\n");
            assert_eq!((outcome.status(), outcome.body()), (status, body), "{result}");
            let expected = result.contains("abcd").then_some("abcd");
            assert_eq!(outcome.header("test"), expected, "{result}");
        }
    }

    #[test]
    fn without_a_decision_nothing_passes() {
        let broken = TestServer::start(|_| reply(200, "", "not JSON"));
        let mut harness = Harness::new::<Opa>(&conf(&broken, json!({})));
        assert_eq!(harness.request("GET / HTTP/1.1\n\n").status(), 503);
        let closed = ClosedPort::new();
        let host = format!("http://{}", closed.address());
        let mut harness = Harness::new::<Opa>(&json!({"host": host, "policy": "example"}));
        assert_eq!(harness.request("GET / HTTP/1.1\n\n").status(), 403);
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, inner) in [
            (json!({"policy": "p"}), r#"property "host" is required"#),
            (json!({"host": "http://a"}), r#"property "policy" is required"#),
            (json!({"host": 3233, "policy": "p"}), "wrong type: expected string, got number"),
            (json!({"host": "a", "policy": "p", "timeout": 0}), "expected 0 to be at least 1"),
            (
                json!({"host": "a", "policy": "p", "send_headers_upstream": []}),
                "expect array to have at least 1 items",
            ),
        ] {
            let refusal = Harness::refusal::<Opa>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
    }
}
