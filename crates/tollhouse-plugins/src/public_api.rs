//! Answers with one of the gateway's own endpoints, such as its metrics, on the port that serves
//! routes. Other plugins of the route control the access.
//!
//! # Example
//! ```json
//! {"uri": "/apisix/prometheus/metrics"}
//! ```
//!
//! # Answers
//! - 200 with the endpoint's reply
//! - 404 when the endpoint does not exist, or the method is not the endpoint's
//!
//! # Notes
//! Runs after authentication and restriction. No node is asked. Besides the gateway's own pages, which
//! need GET, there are the endpoints of the plugins `batch-requests` and `wolf-rbac`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::scope::{Endpoint, EndpointReply};
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, PluginEndpoint, RefusalKind, RequestContext,
    Scope, Services, Step,
};

/// Configuration of `public-api`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Path of the endpoint. Unset: the path of the request.
    pub uri: Option<String>,
}

#[derive(Debug)]
pub struct PublicApi {
    path: Option<String>,
    services: Arc<Services>,
    /// Endpoints of plugins, each with its path.
    endpoints: Box<[(String, PluginEndpoint)]>,
}

impl Plugin for PublicApi {
    const NAME: &'static str = "public-api";
    const PRIORITY: i32 = 501;
    const CATEGORY: Category = Category::Utility;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let endpoints = scope.catalogue.iter().flat_map(|plugin| {
            let configured = scope.services.attribute(plugin.name, "uri").and_then(Value::as_str);
            let path = move |own: &str| configured.unwrap_or(own).to_owned();
            plugin.endpoints.iter().map(move |endpoint| (path(endpoint.path), *endpoint))
        });
        let endpoints = endpoints.collect();
        Ok(Self { path: config.uri, services: Arc::clone(scope.services), endpoints })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let path = match &self.path {
            Some(path) => Some(path.as_str()),
            None => std::str::from_utf8(cx.path()).ok(),
        };
        let Some(path) = path else {
            return Answer::status(404).refused(RefusalKind::NotFound).into();
        };
        let method = cx.method();
        let mut plugins = self.endpoints.iter();
        let is_meant = |(other, endpoint): &&(String, PluginEndpoint)| {
            let is_path = match other.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => other == path,
            };
            is_path && endpoint.method.as_bytes() == method
        };
        if let Some((_, endpoint)) = plugins.find(is_meant).cloned() {
            let answering = (endpoint.answer)(cx, &self.services);
            return Step::wait(async move { answering.await.borrowed().into() });
        }
        match self.services.endpoints.get(path) {
            Some(endpoint) if cx.method() == b"GET" => Step::wait(answer(Arc::clone(endpoint))),
            _ => Answer::status(404).refused(RefusalKind::NotFound).into(),
        }
    }
}

/// Asks the endpoint on another thread, because a page of metrics may take longer than a core may
/// block.
async fn answer<'a>(endpoint: Endpoint) -> Flow<'a> {
    match tokio::task::spawn_blocking(move || endpoint()).await {
        Ok(EndpointReply { content_type, body }) => {
            Answer::text(200, body).with_header("Content-Type", content_type.as_bytes()).into()
        }
        Err(_) => Answer::status(500).refused(RefusalKind::PluginFailed).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{Harness, Outcome, configure};

    use super::*;

    fn ask(conf: &Value, request: &str) -> Outcome {
        let mut services = Services::new("APISIX/3.18.0");
        let status = || EndpointReply { content_type: "application/json", body: b"{}".to_vec() };
        services.endpoints.insert("/apisix/status".to_owned(), Arc::new(status));
        let services = Arc::new(services);
        let handler = configure::<PublicApi>(conf, &services).expect("the conf is good");
        Harness::with(handler, services).request(request)
    }

    #[test]
    fn the_endpoint_answers() {
        for (conf, request) in [
            (json!({"uri": "/apisix/status"}), "GET /other?a=b HTTP/1.1\n\n"),
            (json!({}), "GET /apisix/status?a=b HTTP/1.1\n\n"),
        ] {
            let outcome = ask(&conf, request);
            assert_eq!((outcome.status(), outcome.body()), (200, "{}"), "{request}");
            assert_eq!(outcome.header("content-type"), Some("application/json"));
        }
    }

    #[test]
    fn anything_else_is_not_found() {
        for (conf, request) in [
            (json!({"uri": "/apisix/other"}), "GET /apisix/status HTTP/1.1\n\n"),
            (json!({}), "GET /other HTTP/1.1\n\n"),
            (json!({}), "POST /apisix/status HTTP/1.1\n\n"),
        ] {
            let outcome = ask(&conf, request);
            assert_eq!((outcome.status(), outcome.body()), (404, ""), "{request}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        let refusal = Harness::refusal::<PublicApi>(&json!({"uri": 1}));
        let expected =
            "property \"uri\" validation failed: wrong type: expected string, got number";
        assert_eq!(refusal, expected);
    }
}
