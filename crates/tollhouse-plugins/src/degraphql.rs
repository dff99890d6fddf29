//! Offers a GraphQL query as a plain HTTP resource: clients send arguments or fields, nodes get the
//! query with these variables.
//!
//! # Example
//! ```json
//! {"query": "query($name: String!) { person(name: $name) { id name } }", "variables": ["name"]}
//! ```
//!
//! # Answers
//! - 400 when the body is missing or not a JSON object
//! - 405 for methods other than GET and POST
//! - 503 when the body cannot be read, or exceeds `max_req_body_size` or 1 MiB
//!
//! # Notes
//! The variables of a GET are its arguments, those of a POST the fields of its JSON body. Nodes get a
//! GET with the query in its arguments, or a POST with a JSON body and without arguments.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::graphql::Query;
use crate::shared::confs::defaults::defaults;
use crate::shared::messages::request_document::query_document;

/// Longest body of a request, in bytes. Variables of a query are short.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Configuration of `degraphql`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Query that nodes get.
    #[schemars(length(min = 1, max = 1024))]
    pub query: String,
    /// Names of the variables that clients set.
    #[schemars(length(min = 1))]
    pub variables: Option<Vec<String>>,
    /// Name of the operation; required if the query has several.
    #[schemars(length(min = 1, max = 1024))]
    pub operation_name: Option<String>,
    /// Longest body of a request, in bytes; 64 MiB by default. Values above 1 MiB count as 1 MiB.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
}

defaults! {
    default_body_bytes_max: u64 = 64 << 20;
}

#[derive(Debug)]
pub struct Degraphql {
    query: Arc<NodeQuery>,
    body_bytes_max: u64,
}

/// Query that nodes get.
#[derive(Debug)]
struct NodeQuery {
    text: String,
    variables: Option<Vec<String>>,
    operation_name: Option<String>,
}

impl Plugin for Degraphql {
    const NAME: &'static str = "degraphql";
    const PRIORITY: i32 = 509;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let query = Query::parse(&config.query)
            .map_err(|error| format!("failed to parse query: {error}"))?;
        if query.definitions() > 1 && config.operation_name.is_none() {
            let text =
                "operation_name is required if multiple operations are present in the query";
            return Err(text.into());
        }
        drop(query);
        let Config { query: text, variables, operation_name, max_req_body_size } = config;
        let query = Arc::new(NodeQuery { text, variables, operation_name });
        Ok(Self { query, body_bytes_max: max_req_body_size.min(BODY_BYTES_MAX) })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        match cx.method() {
            b"GET" => {
                self.rewrite_query(cx);
                Step::Continue
            }
            b"POST" => Step::wait(async move {
                match self.rewrite_body(cx).await {
                    Ok(()) => Flow::Continue,
                    Err(status) => {
                        Answer::status(status).refused(RefusalKind::RequestInvalid).into()
                    }
                }
            }),
            _ => Answer::status(405).refused(RefusalKind::RequestInvalid).into(),
        }
    }
}

impl Degraphql {
    fn rewrite_query(&self, cx: &mut RequestContext<'_>) {
        let mut uri = node_path(cx);
        uri.extend_from_slice(&self.query.in_arguments(cx.query()));
        cx.edits().set_upstream_uri(&uri);
    }

    /// Replaces the body. The error is the status of the refusal.
    async fn rewrite_body(&self, cx: &mut RequestContext<'_>) -> Result<(), u16> {
        cx.read_body(self.body_bytes_max).await.map_err(|_| 503_u16)?;
        let query = Arc::clone(&self.query);
        let new = cx.examine_body(move |body| query.in_body(body)).await.map_err(|_| 503_u16)?;
        let new = new.ok_or(400_u16)?;
        cx.set_header("Content-Type", b"application/json");
        // Servers prefer a query in the arguments to that of the body.
        if cx.node_uri().contains(&b'?') {
            let path = node_path(cx);
            cx.edits().set_upstream_uri(&path);
        }
        cx.edits().body = Some(new);
        Ok(())
    }
}

/// Returns the path that the node gets, without arguments.
fn node_path(cx: &RequestContext<'_>) -> Vec<u8> {
    let mut uri = cx.node_uri().into_owned();
    let end = uri.iter().position(|byte| *byte == b'?').unwrap_or(uri.len());
    uri.truncate(end);
    uri
}

impl NodeQuery {
    /// Returns the values of the variables among `fields`; `None` if the query has no variables.
    fn variables(&self, fields: &Value) -> Option<Value> {
        let names = self.variables.as_ref()?;
        let values = names.iter().filter_map(|name| Some((name.clone(), fields.get(name)?.clone())));
        Some(Value::Object(values.collect()))
    }

    /// Returns the query string of a GET, with its question mark.
    fn in_arguments(&self, arguments: Option<&[u8]>) -> Vec<u8> {
        let variables = self.variables(&query_document(arguments));
        let mut query = Vec::new();
        let mut add = |name: &str, value: &str| {
            query.extend_from_slice(if query.is_empty() { b"?" } else { b"&" });
            query.extend_from_slice(name.as_bytes());
            query.push(b'=');
            escape(value, &mut query);
        };
        if let Some(variables) = variables {
            add("variables", &variables.to_string());
        }
        if let Some(name) = &self.operation_name {
            add("operationName", name);
        }
        add("query", &self.text);
        query
    }

    /// Returns the body of a POST; `None` if the client's is not a JSON object.
    fn in_body(&self, body: &[u8]) -> Option<Vec<u8>> {
        let mut new = Map::new();
        if self.variables.is_some() {
            let fields: Value = serde_json::from_slice(body).ok()?;
            if !fields.is_object() && !fields.is_array() {
                return None;
            }
            new.extend(self.variables(&fields).map(|variables| ("variables".into(), variables)));
        }
        if let Some(name) = &self.operation_name {
            new.insert("operationName".into(), json!(name));
        }
        new.insert("query".into(), json!(self.text));
        Some(Value::Object(new).to_string().into_bytes())
    }
}

fn escape(value: &str, out: &mut Vec<u8>) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::Harness;

    use super::*;

    const QUERY: &str = "query($name: String!) { person(name: $name) { id } }";

    #[test]
    fn nodes_get_the_query_with_variables() {
        let conf = json!({"query": QUERY, "variables": ["name", "other"]});
        let mut harness = Harness::new::<Degraphql>(&conf);
        let outcome = harness.request("GET /graphql?name=a%20b&x=1 HTTP/1.1\n\n");
        let uri = "uri /graphql?variables=%7B%22name%22%3A%22a%20b%22%7D&query=query%28%24name";
        assert!(outcome.edits.starts_with(uri), "{}", outcome.edits);
        let outcome = harness.request("POST /graphql HTTP/1.1\n\n{\"name\":\"a\",\"x\":1}");
        let body = format!("{{\"variables\":{{\"name\":\"a\"}},\"query\":\"{QUERY}\"}}");
        assert_eq!(outcome.edits, format!("+Content-Type: application/json\nbody {body}\n"));
        // Arguments of the client could replace the query.
        let outcome = harness.request("POST /graphql?query={secret} HTTP/1.1\n\n{\"name\":\"a\"}");
        assert!(outcome.edits.contains("uri /graphql\n"), "{}", outcome.edits);
        let conf = json!({"query": "query A {a} query B {b}", "operation_name": "B"});
        let mut harness = Harness::new::<Degraphql>(&conf);
        let outcome = harness.request("GET / HTTP/1.1\n\n");
        let uri = "uri /?operationName=B&query=query%20A%20%7Ba%7D%20query%20B%20%7Bb%7D\n";
        assert_eq!(outcome.edits, uri);
        let outcome = harness.request("POST / HTTP/1.1\n\nno json");
        assert!(outcome.edits.contains("\"operationName\":\"B\""), "{}", outcome.edits);
    }

    #[test]
    fn long_bodies_are_refused_whatever_the_conf_says() {
        let conf = json!({"query": QUERY, "variables": ["name"], "max_req_body_size": 64 << 20});
        for (bytes, status) in [(1 << 20, 0), ((1 << 20) + 1, 503)] {
            let name = "x".repeat(bytes - "{\"name\":\"\"}".len());
            let request = format!("POST / HTTP/1.1\n\n{{\"name\":\"{name}\"}}");
            let outcome = Harness::new::<Degraphql>(&conf).request(&request);
            assert_eq!(outcome.status(), status, "{bytes}");
        }
    }

    #[test]
    fn other_requests_are_refused() {
        let conf = json!({"query": QUERY, "variables": ["name"], "max_req_body_size": 9});
        for (request, status) in [
            ("PUT / HTTP/1.1\n\n{}", 405),
            ("POST / HTTP/1.1\n\n", 400),
            ("POST / HTTP/1.1\n\nx", 400),
            ("POST / HTTP/1.1\n\n1", 400),
            ("POST / HTTP/1.1\n\n{\"name\":\"long\"}", 503),
        ] {
            assert_eq!(Harness::new::<Degraphql>(&conf).request(request).status(), status, "{request}");
        }
        for (conf, text) in [
            (json!({}), "property \"query\" is required"),
            (json!({"query": "query {"}), "failed to parse query: "),
            (json!({"query": "query A {a} query B {b}"}), "operation_name is required if multiple"),
            (json!({"query": "{a}", "variables": []}), "expect array to have at least 1 items"),
        ] {
            let refusal = Harness::refusal::<Degraphql>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
