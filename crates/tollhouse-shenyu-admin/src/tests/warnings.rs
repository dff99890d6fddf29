//! Tests of warnings: the answer to a write names what the data plane cannot serve of it.

use std::sync::Mutex;

use axum::http::Method;

use super::*;
use crate::LocalRequest;
use crate::operator::{Operator, OperatorRequest};
use crate::warnings::ProblemSource;

/// Data plane with a problem for each of these paths.
#[derive(Default)]
struct Problems(Mutex<Vec<String>>);

impl Problems {
    fn set(&self, paths: &[String]) {
        *self.0.lock().expect("no test panics with it") = paths.to_vec();
    }
}

impl ProblemSource for Problems {
    fn problems_with(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Value> {
        let paths = self.0.lock().expect("no test panics with it");
        let problem =
            |path: &String| json!({"path": path, "reason": "it is not built in", "hint": ""});
        paths.iter().filter(|path| is_meant(path)).map(problem).collect()
    }
}

/// Admin over a data plane, with a selector and a rule of `mcpServer`.
struct Served {
    fixture: Fixture,
    problems: Arc<Problems>,
    plugin: String,
    selector: String,
    rule: String,
}

impl Served {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let problems = Arc::<Problems>::default();
        let source: Arc<dyn ProblemSource> = Arc::<Problems>::clone(&problems);
        let options = Options { problems: Some(source), ..options() };
        let admin = ShenyuAdmin::open(Arc::clone(&fixture.store), options).await;
        let fixture = Fixture { admin: admin.expect("it opens"), ..fixture };
        let list = fixture.call("GET", "/plugin?name=mcpServer", &Value::Null).await;
        let plugin = list["data"]["dataList"][0]["id"].as_str().expect("an id").to_owned();
        let id = |data: Value| data.as_str().expect("an id").to_owned();
        let body =
            json!({"pluginId": plugin, "name": "tools", "type": 1, "namespaceId": NAMESPACE});
        let selector = id(fixture.expect("POST", "/selector", &body, "create success").await);
        let mut served = Self { fixture, problems, plugin, selector, rule: String::new() };
        served.fixture.expect("POST", "/rule", &served.rule_body(), "create success").await;
        let path = format!("/rule?selectorId={}", served.selector);
        let list = served.fixture.call("GET", &path, &Value::Null).await;
        served.rule = list["data"]["dataList"][0]["id"].as_str().expect("an id").to_owned();
        served.problems.set(&[format!("shenyu/rule/{}", served.rule), "shenyu/rule/7".to_owned()]);
        served
    }

    fn rule_body(&self) -> Value {
        json!({"selectorId": self.selector, "name": "tool", "handle": "{}", "namespaceId": NAMESPACE})
    }

    /// Message and warnings of an answer that counts as a success.
    async fn told(&self, method: &str, path: &str, body: &Value) -> (String, Vec<String>) {
        let answer = self.fixture.call(method, path, body).await;
        assert_eq!(answer["code"], 200, "{method} {path}: {answer}");
        let warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
        let path = |it: &Value| it["path"].as_str().expect("a path").to_owned();
        let message = answer["message"].as_str().expect("a text").to_owned();
        (message, warnings.iter().map(path).collect())
    }
}

#[tokio::test]
async fn an_answer_names_what_does_not_serve_of_a_written_rule_its_selector_or_its_plugin() {
    let served = Served::new().await;
    let rule = format!("shenyu/rule/{}", served.rule);
    let selector =
        json!({"pluginId": served.plugin, "name": "renamed", "type": 1, "namespaceId": NAMESPACE});
    let on = json!({"ids": [served.plugin], "enabled": true, "namespaceId": NAMESPACE});
    for (path, method, body, said) in [
        (format!("/rule/{}", served.rule), "PUT", served.rule_body(), "update success"),
        (format!("/selector/{}", served.selector), "PUT", selector, "update success"),
        ("/plugin/enabled".to_owned(), "POST", on, "enable success"),
    ] {
        let (message, warnings) = served.told(method, &path, &body).await;
        assert_eq!(message, format!("{said}; rule/{}: it is not built in", served.rule), "{path}");
        assert_eq!(warnings, std::slice::from_ref(&rule), "{path}");
    }
    let other = json!({"pluginId": "5", "name": "other", "type": 1, "namespaceId": NAMESPACE});
    served.fixture.expect("POST", "/selector", &other, "create success").await;
    served.problems.set(&[]);
    let path = format!("/rule/{}", served.rule);
    let answer = served.fixture.call("PUT", &path, &served.rule_body()).await;
    assert_eq!((&answer["message"], answer.get("warnings")), (&json!("update success"), None));
}

#[tokio::test]
async fn many_problems_are_counted_and_the_first_are_listed() {
    let served = Served::new().await;
    let mut paths = Vec::new();
    for number in 0..30 {
        let mut body = served.rule_body();
        body["name"] = json!(format!("tool {number}"));
        served.fixture.expect("POST", "/rule", &body, "create success").await;
    }
    let path = format!("/rule?selectorId={}&pageSize=100", served.selector);
    let list = served.fixture.call("GET", &path, &Value::Null).await;
    for rule in list["data"]["dataList"].as_array().expect("a list") {
        paths.push(format!("shenyu/rule/{}", rule["id"].as_str().expect("an id")));
    }
    served.problems.set(&paths);
    let on = json!({"ids": [served.plugin], "enabled": true, "namespaceId": NAMESPACE});
    let (message, warnings) = served.told("POST", "/plugin/enabled", &on).await;
    assert!(message.ends_with("it is not built in (1 of 31 warnings)"), "{message}");
    assert_eq!(warnings.len(), 20);
    let operator = Operator { name: "night shift".to_owned(), sees_secrets: true };
    let segments = ["plugin", "enabled"];
    let (method, arguments, body) = (Method::POST, Vec::new(), on);
    let request = OperatorRequest { method, segments: &segments, arguments, body };
    let (status, answer) = served.fixture.admin.call_as(&operator, request).await;
    assert_eq!((status, answer["warnings"].as_array().map(Vec::len)), (200, Some(20)));
}

#[tokio::test]
async fn services_and_callers_of_the_local_interface_see_a_header() {
    let served = Served::new().await;
    served.problems.set(&["shenyu/selector/1".to_owned()]);
    let selector = json!({"id": "1", "pluginName": "mcpServer", "name": "own"}).to_string();
    let request = LocalRequest {
        method: "POST",
        path: "/shenyu/plugin/selector/saveOrUpdate",
        query: "",
        body: selector.as_bytes(),
        namespace: None,
    };
    let answer = served.fixture.admin.call_local(request).await;
    assert_eq!((answer.status, &*answer.body), (200, "1"));
    assert_eq!(answer.warning.as_deref(), Some("selector/1: it is not built in"));
}
