//! Tests of the gateway's own interface over a store in memory.

use serde_json::{Value, json};

use super::Fixture;
use crate::LocalRequest;
use tollhouse_shenyu_gateway::LocalAnswer;

impl Fixture {
    async fn local(&self, method: &str, path: &str, query: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = LocalRequest { method, path, query, body: body.as_bytes(), namespace: None };
        let answer = self.admin.call_local(request).await;
        (answer.status, answer.body)
    }

    async fn get_local(&self, path: &str, query: &str) -> Value {
        let (status, text) = self.local("GET", path, query, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    async fn post_local(&self, path: &str, body: &Value) -> String {
        let (status, text) = self.local("POST", path, "", body).await;
        assert_eq!(status, 200, "{path}: {text}");
        text
    }
}

fn begins_with(prefix: &str) -> Value {
    json!([{"paramType": "uri", "operator": "startsWith", "paramName": "/", "paramValue": prefix}])
}

#[tokio::test]
async fn local_rest_for_plugin_selector_rule_meta_auth() {
    let fixture = Fixture::bare().await;
    assert_eq!(fixture.get_local("/shenyu/plugin/selector/findList", "").await, json!([]));
    let plugin = json!({"id": "5", "name": "divide", "enabled": true, "role": "Proxy", "sort": 200,
        "config": "{\"a\":1}"});
    assert_eq!(fixture.post_local("/shenyu/plugin/saveOrUpdate", &plugin).await, "success");
    let found = fixture.get_local("/shenyu/plugin/findByName", "name=divide").await;
    assert_eq!((&found["id"], &found["config"]), (&json!("5"), &json!("{\"a\":1}")));
    // The name identifies the existing plugin.
    let again = json!({"name": "divide", "enabled": "false"});
    fixture.post_local("/shenyu/plugin/saveOrUpdate", &again).await;
    let found = fixture.get_local("/shenyu/plugin/findByName", "name=divide").await;
    assert_eq!((&found["id"], &found["enabled"]), (&json!("5"), &json!(false)));

    let selector =
        json!({"pluginName": "divide", "handle": "[]", "conditionList": begins_with("/a")});
    let selector = fixture.post_local("/shenyu/plugin/selector/saveOrUpdate", &selector).await;
    let rule =
        json!({"selectorId": selector, "handle": "{}", "conditionDataList": begins_with("/a")});
    let rule = fixture.post_local("/shenyu/plugin/rule/saveOrUpdate", &rule).await;
    let query = format!("pluginName=divide&id={selector}");
    let found = fixture.get_local("/shenyu/plugin/selector/findList", &query).await;
    assert_eq!(found[0]["pluginId"], "5");
    for (member, expected) in [
        ("type", json!(1)),
        ("matchMode", json!(0)),
        ("enabled", json!(true)),
        ("continued", json!(true)),
    ] {
        assert_eq!(found[0][member], expected, "{member}");
    }
    let query = format!("selectorId={selector}");
    let found = fixture.get_local("/shenyu/plugin/rule/findList", &query).await;
    assert_eq!((&found[0]["id"], &found[0]["pluginName"]), (&json!(rule), &json!("divide")));

    let pair = json!({"pluginName": "divide", "selectorName": "s", "selectorHandler": "[]",
        "ruleHandler": "{\"retry\":1}", "conditionDataList": begins_with("/b")});
    assert_eq!(fixture.post_local("/shenyu/plugin/selectorAndRule", &pair).await, "success");
    let pairs = json!({"pluginName": "waf", "selectorName": "w", "matchMode": 1, "sort": 3,
        "selectorHandler": "", "conditionDataList": begins_with("/c"), "ruleDataList": [
        {"ruleName": "one", "ruleHandler": "{}", "matchMode": 0, "conditionDataList": begins_with("/c/1")},
        {"ruleName": "two", "ruleHandler": "{}", "matchMode": 1, "conditionDataList": begins_with("/c/2")}]});
    assert_eq!(fixture.post_local("/shenyu/plugin/selectorAndRules", &pairs).await, "success");
    let found = fixture.get_local("/shenyu/plugin/selector/findList", "pluginName=waf").await;
    assert_eq!((&found[0]["sort"], &found[0]["matchMode"]), (&json!(3), &json!(1)));
    let waf = found[0]["id"].as_str().expect("an id").to_owned();
    let rules =
        fixture.get_local("/shenyu/plugin/rule/findList", &format!("selectorId={waf}")).await;
    let names: Vec<&str> =
        rules.as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names.len(), 2);

    local_rest_for_meta_auth_and_removals(&fixture, (&selector, &rule, &waf), (&plugin, &pair))
        .await;
}

async fn local_rest_for_meta_auth_and_removals(
    fixture: &Fixture,
    (selector, rule, waf): (&str, &str, &str),
    (plugin, pair): (&Value, &Value),
) {
    let metadata = json!({"appName": "a", "path": "/d/**", "rpcType": "dubbo", "serviceName": "S",
        "methodName": "m", "rpcExt": {"timeout": 1}});
    assert_eq!(fixture.post_local("/shenyu/meta/saveOrUpdate", &metadata).await, "success");
    fixture.post_local("/shenyu/meta/saveOrUpdate", &metadata).await;
    let app = json!({"appKey": "A1", "appSecret": "S1", "open": false});
    assert_eq!(fixture.post_local("/shenyu/auth/saveOrUpdate", &app).await, "success");
    let kept = |prefix: &'static str| async {
        fixture.store.list(prefix).await.expect("it answers").entries.len()
    };
    assert_eq!((kept("/shenyu/metadata/").await, kept("/shenyu/appAuth/").await), (1, 1));

    for (path, query) in [
        ("/shenyu/plugin/rule/delete", format!("selectorId={selector}&id={rule}")),
        ("/shenyu/plugin/selector/delete", format!("pluginName=waf&id={waf}")),
        ("/shenyu/meta/delete", "path=/d/**".to_owned()),
        ("/shenyu/auth/delete", "appKey=A1".to_owned()),
    ] {
        assert_eq!(fixture.get_local(path, &query).await, "success", "{path}");
    }
    assert_eq!((kept("/shenyu/metadata/").await, kept("/shenyu/appAuth/").await), (0, 0));
    assert_eq!((kept("/shenyu/selector/").await, kept("/shenyu/rule/").await), (2, 1));
    assert_eq!(fixture.get_local("/shenyu/cleanPlugin", "name=divide").await, "success");
    assert_eq!((kept("/shenyu/selector/").await, kept("/shenyu/rule/").await), (0, 0));
    assert_eq!(fixture.get_local("/shenyu/plugin/delete", "name=divide").await, "success");
    fixture.post_local("/shenyu/plugin/saveOrUpdate", plugin).await;
    fixture.post_local("/shenyu/plugin/selectorAndRule", pair).await;
    assert_eq!(fixture.get_local("/shenyu/cleanAll", "").await, "success");
    for prefix in ["/shenyu/plugin/", "/shenyu/selector/", "/shenyu/rule/"] {
        assert_eq!(kept(prefix).await, 0, "{prefix}");
    }
}

#[tokio::test]
async fn hostile_calls_are_refused_and_nothing_is_written() {
    let fixture = Fixture::bare().await;
    let before = fixture.store.list("/shenyu/").await.expect("it answers").revision;
    let many: Vec<Value> = (0..5_001).map(|_| json!({"ruleHandler": "{}"})).collect();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let conditions: Vec<Value> = (0..300)
        .map(|_| json!({"paramType": "uri", "operator": "=", "paramName": "/", "paramValue": "/"}))
        .collect();
    let cases = [
        ("POST", "/shenyu/plugin/saveOrUpdate", "[]".to_owned(), 400),
        ("POST", "/shenyu/plugin/saveOrUpdate", "{".to_owned(), 400),
        ("POST", "/shenyu/plugin/saveOrUpdate", format!("[{}1]", "1,".repeat(200_001)), 400),
        ("POST", "/shenyu/plugin/saveOrUpdate", String::new(), 400),
        ("POST", "/shenyu/plugin/saveOrUpdate", deep, 400),
        ("POST", "/shenyu/plugin/saveOrUpdate", json!({"name": " "}).to_string(), 400),
        ("POST", "/shenyu/plugin/saveOrUpdate", json!({"name": {}}).to_string(), 400),
        ("POST", "/shenyu/plugin/saveOrUpdate", json!({"name": "x", "config": "{"}).to_string(), 400),
        ("POST", "/shenyu/plugin/selector/saveOrUpdate", json!({"name": "x"}).to_string(), 400),
        (
            "POST",
            "/shenyu/plugin/selector/saveOrUpdate",
            json!({"pluginName": "x", "conditionList": [{"paramType": "uri", "operator": "SpEL"}]}).to_string(),
            400,
        ),
        (
            "POST",
            "/shenyu/plugin/selector/saveOrUpdate",
            json!({"pluginName": "x", "conditionList": conditions}).to_string(),
            400,
        ),
        ("POST", "/shenyu/plugin/rule/saveOrUpdate", json!({"selectorId": "none"}).to_string(), 400),
        (
            "POST",
            "/shenyu/plugin/selectorAndRule",
            json!({"pluginName": "x", "ruleHandler": "no JSON"}).to_string(),
            400,
        ),
        (
            "POST",
            "/shenyu/plugin/selectorAndRules",
            json!({"pluginName": "x", "ruleDataList": many}).to_string(),
            400,
        ),
        (
            "POST",
            "/shenyu/plugin/selectorAndRules",
            json!({"pluginName": "x", "ruleDataList": [{"ruleHandler": "{}"}, {"ruleHandler": "{"}]}).to_string(),
            400,
        ),
        ("POST", "/shenyu/auth/saveOrUpdate", json!({"appKey": "a", "appSecret": ""}).to_string(), 400),
        ("POST", "/shenyu/meta/saveOrUpdate", json!({"rpcType": "http"}).to_string(), 400),
        ("GET", "/shenyu/plugin/delete", String::new(), 400),
        ("GET", "/shenyu/meta/delete", String::new(), 400),
        ("GET", "/shenyu/plugin/findByName", String::new(), 404),
        ("GET", "/shenyu/../platform/login", String::new(), 404),
        ("GET", "/shenyu/dashboardUser", String::new(), 404),
        ("GET", "/shenyu/", String::new(), 404),
        ("DELETE", "/shenyu/cleanAll", String::new(), 405),
        ("GET", "/shenyu/plugin/saveOrUpdate", String::new(), 405),
    ];
    for (method, path, body, expected) in cases {
        let body = body.as_bytes();
        let request = LocalRequest { method, path, query: "", body, namespace: None };
        let LocalAnswer { status, body: text, .. } = fixture.admin.call_local(request).await;
        assert_eq!(status, expected, "{method} {path} {text}");
        let answer: Value = serde_json::from_str(&text).expect("it is JSON");
        assert!(answer["message"].is_string(), "{text}");
    }
    assert_eq!(fixture.store.list("/shenyu/").await.expect("it answers").revision, before);
}

#[tokio::test]
async fn what_is_another_namespaces_stays_there() {
    let fixture = Fixture::bare().await;
    let selector = json!({"id": "1", "pluginName": "divide"}).to_string();
    let request =
        |method, path, body| LocalRequest { method, path, query: "", body, namespace: None };
    let put = request("POST", "/shenyu/plugin/selector/saveOrUpdate", selector.as_bytes());
    let other = LocalRequest { namespace: Some("other"), ..put };
    assert_eq!(fixture.admin.call_local(other).await.status, 200);
    assert_eq!(fixture.admin.call_local(put).await.status, 400);
    let all = request("GET", "/shenyu/cleanAll", b"");
    assert_eq!(fixture.admin.call_local(all).await.status, 200);
    assert_eq!(fixture.store.list("/shenyu/selector/").await.expect("it answers").entries.len(), 1);
}

#[tokio::test]
async fn a_gateway_without_an_admin_begins_with_nothing() {
    let fixture = Fixture::bare().await;
    let listing = fixture.store.list("/shenyu/").await.expect("it answers");
    assert_eq!(listing.entries, []);
}

#[tokio::test]
async fn calls_change_what_they_name_of_an_operators_rows_and_delete_none() {
    let fixture = Fixture::new().await;
    let plugin = |name: &'static str| {
        let fixture = &fixture;
        async move { fixture.get_local("/shenyu/plugin/findByName", &format!("name={name}")).await }
    };
    let before = plugin("waf").await;
    let call = json!({"name": "waf", "enabled": true});
    fixture.post_local("/shenyu/plugin/saveOrUpdate", &call).await;
    let after = plugin("waf").await;
    for member in ["id", "role", "sort", "config"] {
        assert_eq!(after[member], before[member], "{member}");
    }
    assert_eq!(after["enabled"], true);
    let (selector, rule) = fixture.pair().await;
    let own = json!({"pluginName": "divide", "conditionList": begins_with("/own")});
    let own = fixture.post_local("/shenyu/plugin/selector/saveOrUpdate", &own).await;
    assert_eq!(fixture.get_local("/shenyu/cleanPlugin", "name=divide").await, "success");
    let found = fixture.get_local("/shenyu/plugin/selector/findList", "pluginName=divide").await;
    let ids: Vec<&Value> = found.as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, [&json!(selector)], "{own} was made here");
    assert_eq!(found[0]["enabled"], false, "it can be switched on again");
    let query = format!("selectorId={selector}");
    let rules = fixture.get_local("/shenyu/plugin/rule/findList", &query).await;
    assert_eq!((&rules[0]["id"], &rules[0]["enabled"]), (&json!(rule), &json!(false)));
    assert_eq!(fixture.get_local("/shenyu/cleanAll", "").await, "success");
    assert_eq!(plugin("divide").await["enabled"], false);
}
