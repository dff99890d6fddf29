//! Tests of the endpoints of ShenYu's admin, one line each: the call, the message of the answer,
//! and the shape of its data. The messages differ between operations.

use serde_json::{Value, json};

use super::{Fixture, NAMESPACE};

/// Shape of the data in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Page,
    Found,
    List,
    Object,
    Number,
    Text,
    Null,
}

use Shape::{Found, List, Null, Number, Object, Page, Text};

fn shape(data: &Value) -> Shape {
    match data {
        Value::Object(data) if data.contains_key("dataList") => Page,
        Value::Object(data) if data.contains_key("list") => Found,
        Value::Object(_) => Object,
        Value::Array(_) => List,
        Value::Number(_) => Number,
        Value::String(_) => Text,
        Value::Null | Value::Bool(_) => Null,
    }
}

/// Method, path, body, message, shape; `{name}` in path and body stands for an id.
type Line = (&'static str, &'static str, &'static str, &'static str, Shape);

const QUERY: &str = "query success";
const CREATED: &str = "create success";
const UPDATED: &str = "update success";
const DELETED: &str = "delete success";
const DETAIL: &str = "detail success";
const ENABLED: &str = "enable success";
const SYNCED: &str = "sync success";
const PERMITTED: &str = "get menu and permission success";

const SELECTOR: &str = r#"{"pluginId":"5","name":"s","type":1,"matchMode":0,"sort":1,"enabled":true,"loged":true,"continued":true,"handle":"[]","selectorConditions":[]}"#;
const RULE: &str = r#"{"selectorId":"{selector}","name":"r","matchMode":0,"sort":1,"enabled":true,"loged":true,"handle":"{}","ruleConditions":[]}"#;
const PORT: &str = r#"{"name":"redis","forwardPort":9123,"type":"tcp","props":"{}","listenerNode":"","handler":"{}","discovery":{"discoveryType":"local","serverList":"","props":"{}"},"discoveryUpstreams":[{"protocol":"tcp://","url":"10.0.0.9:6379","status":0,"weight":1,"props":"{}"}]}"#;
const NODE: &str = r#"{"discoveryHandlerId":"{selector}","protocol":"http://","url":"10.0.0.1:80","status":0,"weight":50,"props":"{}"}"#;

/// All calls of scripts for 2.6 and 2.7, in an order in which each call finds the rows it needs.
const LINES: &[Line] = &[
    // Selectors and rules.
    ("GET", "/selector?pluginId=5&name=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/selector/{selector}", "", DETAIL, Object),
    ("PUT", "/selector/{selector}", SELECTOR, UPDATED, Number),
    ("POST", "/selector/list/search", r#"{"pageNum":1,"pageSize":5,"condition":{}}"#, QUERY, Found),
    ("POST", "/selector/list/search/adaptor", r#"{"pageNum":1,"pageSize":5}"#, QUERY, Page),
    ("POST", "/selector/batchEnabled", r#"{"ids":["{selector}"],"enabled":true}"#, ENABLED, Null),
    ("GET", "/rule?selectorId={selector}&name=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/rule/{rule}", "", DETAIL, Object),
    ("PUT", "/rule/{rule}", RULE, UPDATED, Number),
    ("POST", "/rule/batchEnabled", r#"{"ids":["{rule}"],"enabled":true}"#, ENABLED, Null),
    // Plugins of 2.6.
    ("GET", "/plugin?name=&enabled=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/plugin/all", "", QUERY, List),
    ("GET", "/plugin/5", "", DETAIL, Object),
    ("GET", "/plugin/snapshot/active", "", QUERY, List),
    (
        "POST",
        "/plugin",
        r#"{"name":"own","role":"Proxy","sort":400,"enabled":true}"#,
        CREATED,
        Null,
    ),
    ("PUT", "/plugin/5", r#"{"name":"divide","role":"Proxy","enabled":true}"#, UPDATED, Null),
    ("PUT", "/plugin/createPluginResource/5", r#"{"name":"divide"}"#, CREATED, Null),
    ("POST", "/plugin/enabled", r#"{"ids":["5"],"enabled":true}"#, ENABLED, Null),
    ("POST", "/plugin/syncPluginAll", "", SYNCED, Null),
    ("PUT", "/plugin/syncPluginData/5", "", SYNCED, Null),
    ("DELETE", "/plugin/batch", r#"["3"]"#, DELETED, Null),
    // Plugins of 2.7.
    ("GET", "/plugin-template?currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/namespace-plugin?namespaceId={namespace}&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/namespace-plugin/all/{namespace}", "", QUERY, List),
    ("GET", "/namespace-plugin/listByNamespace?namespaceId={namespace}", "", QUERY, List),
    ("GET", "/namespace-plugin/snapshot/active?namespaceId={namespace}", "", QUERY, List),
    ("GET", "/namespace-plugin/5", "", DETAIL, Object),
    ("PUT", "/namespace-plugin/5", r#"{"config":"{}","sort":200,"enabled":true}"#, UPDATED, Null),
    (
        "POST",
        "/namespace-plugin/enabled",
        r#"{"ids":["5"],"enabled":true,"namespaceId":"{namespace}"}"#,
        ENABLED,
        Null,
    ),
    (
        "POST",
        "/namespace-plugin/enabledByNamespace",
        r#"{"ids":["5"],"enabled":true,"namespaceId":"{namespace}"}"#,
        ENABLED,
        Null,
    ),
    ("POST", "/namespace-plugin/syncPluginAll", r#"{"namespaceId":"{namespace}"}"#, SYNCED, Null),
    ("PUT", "/namespace-plugin/syncPluginData?id=5", "", SYNCED, Null),
    // Fields of forms.
    (
        "POST",
        "/plugin-handle",
        r#"{"pluginId":"5","field":"f","label":"l","dataType":1,"type":2,"sort":1}"#,
        CREATED,
        Number,
    ),
    ("GET", "/plugin-handle?pluginId=5&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/plugin-handle/all/5", "", QUERY, List),
    ("GET", "/plugin-handle/all/5/2", "", QUERY, List),
    // Applications.
    ("GET", "/appAuth/findPageByQuery?appKey=&phone=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/appAuth/detail?id={app}", "", DETAIL, Object),
    ("GET", "/appAuth/detailPath?id={app}", "", DETAIL, List),
    (
        "POST",
        "/appAuth/updateDetail",
        r#"{"id":"{app}","appKey":"{key}","appSecret":"s"}"#,
        "",
        Null,
    ),
    (
        "POST",
        "/appAuth/updateDetailPath",
        r#"{"id":"{app}","authPathDTOList":[{"appName":"a","path":"/b"}]}"#,
        "",
        Null,
    ),
    ("POST", "/appAuth/updateSk", r#"{"appKey":"{key}","appSecret":"t"}"#, "", Null),
    ("GET", "/appAuth/updateSk?appKey={key}&appSecret=u", "", "", Null),
    ("POST", "/appAuth/batchEnabled", r#"{"ids":["{app}"],"enabled":true}"#, ENABLED, Null),
    ("POST", "/appAuth/batchOpened", r#"{"ids":["{app}"],"enabled":true}"#, ENABLED, Null),
    ("POST", "/appAuth/syncData", "", "", Null),
    ("POST", "/appAuth/batchDelete", r#"["{app}"]"#, DELETED, Number),
    // Metadata.
    (
        "POST",
        "/meta-data/createOrUpdate",
        r#"{"appName":"a","path":"/a","rpcType":"dubbo","serviceName":"S","methodName":"m"}"#,
        CREATED,
        Null,
    ),
    ("GET", "/meta-data/queryList?path=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/meta-data/findAll", "", QUERY, List),
    ("GET", "/meta-data/findAllGroup", "", QUERY, Object),
    ("POST", "/meta-data/syncData", "", "", Null),
    // The dictionary.
    (
        "POST",
        "/shenyu-dict",
        r#"{"type":"t","dictCode":"c","dictName":"n","dictValue":"v","sort":1,"enabled":true}"#,
        CREATED,
        Number,
    ),
    ("GET", "/shenyu-dict?type=t&dictCode=&dictName=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/shenyu-dict/all/operator", "", QUERY, List),
    ("GET", "/shenyu-dict/1", "", DETAIL, Object),
    ("PUT", "/shenyu-dict/1", r#"{"desc":"d"}"#, UPDATED, Number),
    ("POST", "/shenyu-dict/batchEnabled", r#"{"ids":["1"],"enabled":true}"#, ENABLED, Null),
    ("DELETE", "/shenyu-dict/batch", r#"["1"]"#, DELETED, Number),
    // Users and rights.
    ("GET", "/dashboardUser?currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/dashboardUser/1", "", DETAIL, Object),
    (
        "POST",
        "/role",
        r#"{"roleName":"r","currentPermissionIds":["system:meta:edit"]}"#,
        CREATED,
        Number,
    ),
    ("GET", "/role?roleName=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/role/getAllRoles", "", QUERY, List),
    ("GET", "/role/1346358560427216896", "", DETAIL, Object),
    ("GET", "/resource?title=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/resource/menu", "", QUERY, List),
    ("GET", "/resource/button?id=plug:divide", "", QUERY, List),
    ("GET", "/resource/system:meta:edit", "", DETAIL, Object),
    ("GET", "/permission/getUserPermissionByToken?token=x", "", PERMITTED, Object),
    (
        "GET",
        "/data-permission/selector?userId=1&pluginId=5&currentPage=1&pageSize=12",
        "",
        QUERY,
        Page,
    ),
    (
        "GET",
        "/data-permission/rules?userId=1&selectorId={selector}&currentPage=1&pageSize=12",
        "",
        QUERY,
        Page,
    ),
    (
        "POST",
        "/data-permission/selector",
        r#"{"userId":"1","dataId":"{selector}","dataType":0}"#,
        "save success",
        Number,
    ),
    (
        "DELETE",
        "/data-permission/selector",
        r#"{"userId":"1","dataId":"{selector}","dataType":0}"#,
        DELETED,
        Number,
    ),
    (
        "POST",
        "/data-permission/rule",
        r#"{"userId":"1","dataId":"{rule}","dataType":1}"#,
        "save success",
        Number,
    ),
    (
        "DELETE",
        "/data-permission/rule",
        r#"{"userId":"1","dataId":"{rule}","dataType":1}"#,
        DELETED,
        Number,
    ),
    // Namespaces.
    ("POST", "/namespace/insertOrUpdate", r#"{"name":"dev","description":"d"}"#, "success", Object),
    ("GET", "/namespace/findPageByQuery?currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/namespace/list", "", QUERY, List),
    ("GET", "/namespace/{namespace}", "", DETAIL, Object),
    // Nodes.
    ("GET", "/discovery?pluginName=tcp&level=1", "", "success", Null),
    ("GET", "/discovery/typeEnums", "", "success", List),
    (
        "POST",
        "/discovery/insertOrUpdate",
        r#"{"name":"d","pluginName":"tcp","level":"1","type":"local"}"#,
        "success",
        Object,
    ),
    ("GET", "/discovery?pluginName=tcp&level=1", "", "success", Object),
    ("POST", "/discovery-upstream", NODE, CREATED, Null),
    (
        "PUT",
        "/discovery-upstream/{selector}",
        r#"[{"protocol":"http://","url":"10.0.0.2:80","status":0,"weight":50,"props":"{}"}]"#,
        "",
        Null,
    ),
    ("DELETE", "/discovery-upstream/batch", r#"["1"]"#, DELETED, Null),
    ("POST", "/proxy-selector/addProxySelector", PORT, CREATED, Null),
    ("GET", "/proxy-selector?name=&currentPage=1&pageSize=12", "", QUERY, Page),
    ("PUT", "/proxy-selector/fetch/1", "", "", Null),
    (
        "POST",
        "/proxy-selector/binding",
        r#"{"selectorId":"{selector}","name":"s","discovery":{"discoveryType":"local"},"discoveryUpstreams":[]}"#,
        CREATED,
        Null,
    ),
    // Instances, and features that only have empty pages here.
    ("GET", "/instance?currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/instance/analysis/{namespace}", "", QUERY, Object),
    ("GET", "/alert/receiver?currentPage=1&pageSize=12", "", "", Null),
    ("GET", "/scale/policy", "", "", Null),
    ("GET", "/registry?currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/tag?currentPage=1&pageSize=12", "", QUERY, Page),
    ("GET", "/operation-record/log/list", "", QUERY, List),
    (
        "POST",
        "/operation-record/log/list/search",
        r#"{"pageNum":1,"pageSize":5,"condition":{"keyword":"SELECTOR"}}"#,
        QUERY,
        Found,
    ),
    ("GET", "/selector/{selector}/ai-proxy-apikey", "", QUERY, Page),
    ("GET", "/platform/enum", "", QUERY, Object),
    // Deleted last, because other calls need these rows.
    ("DELETE", "/rule/batch", r#"{"ids":["{rule}"],"namespaceId":"{namespace}"}"#, DELETED, Number),
    ("DELETE", "/selector/batch", r#"["{selector}"]"#, DELETED, Number),
];

/// Login, token, wrapper and pages (the checklist's row of the same name).
#[tokio::test]
async fn login_get_and_post_x_access_token_wrappers_paging() {
    let fixture = Fixture::new().await;
    let (selector, rule) = fixture.pair().await;
    let apply = json!({"appName": "a", "open": true, "pathList": ["/a"]});
    fixture.expect("POST", "/appAuth/apply", &apply, CREATED).await;
    let apps = fixture.expect("GET", "/appAuth/findPageByQuery", &Value::Null, QUERY).await;
    let member = |name: &str| apps["dataList"][0][name].as_str().expect("a text").to_owned();
    let names = [
        ("{selector}", selector.as_str()),
        ("{rule}", &rule),
        ("{app}", &member("id")),
        ("{key}", &member("appKey")),
        ("{namespace}", NAMESPACE),
    ];
    let fill =
        |text: &str| names.iter().fold(text.to_owned(), |text, (name, id)| text.replace(name, id));
    for (method, path, body, message, expected) in LINES {
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&fill(body)).expect("the table holds JSON")
        };
        let answer = fixture.call(method, &fill(path), &body).await;
        if path.starts_with("/alert") || path.starts_with("/scale") {
            let text = answer["message"].as_str().unwrap_or_default();
            assert!(answer["code"] == 500 && text.contains("is not served here"), "{answer}");
            continue;
        }
        assert_eq!(
            (&answer["code"], &answer["message"]),
            (&json!(200), &json!(message)),
            "{method} {path}: {answer}"
        );
        assert_eq!(shape(&answer["data"]), *expected, "{method} {path}: {answer}");
    }
}

#[tokio::test]
async fn a_method_that_is_not_supported_names_those_that_are() {
    let fixture = Fixture::new().await;
    for (method, path, message) in [
        (
            "DELETE",
            "/selector",
            "DELETE method is not supported for this request. Supported methods are GET POST ",
        ),
        (
            "GET",
            "/selector/batchEnabled",
            "GET method is not supported for this request. Supported methods are POST ",
        ),
        (
            "POST",
            "/rule/batch",
            "POST method is not supported for this request. Supported methods are DELETE ",
        ),
    ] {
        let answer = fixture.call(method, path, &json!({})).await;
        assert_eq!((&answer["code"], &answer["message"]), (&json!(500), &json!(message)), "{path}");
    }
}

#[tokio::test]
async fn everything_that_is_missing_is_named_at_once() {
    let fixture = Fixture::new().await;
    let answer = fixture.call("POST", "/selector", &json!({})).await;
    let expected =
        "Request error! invalid argument [name: must not be null| pluginId: must not be null]";
    assert_eq!(answer["message"], expected);
}

#[tokio::test]
async fn rows_that_are_not_there_are_missed_in_shenyus_words() {
    let fixture = Fixture::new().await;
    for (path, message) in [
        ("/selector/0", "selector is not existed"),
        ("/rule/0", "rule is not existed"),
        ("/plugin/0", "plugin is not existed"),
        ("/appAuth/detail?id=0", "app key not existed"),
        ("/shenyu-dict/0", "dict is not existed"),
        ("/role/0", "role is not existed"),
        ("/namespace/0", "namespace is not existed"),
    ] {
        let answer = fixture.call("GET", path, &Value::Null).await;
        assert_eq!((&answer["code"], &answer["message"]), (&json!(500), &json!(message)), "{path}");
    }
}

#[tokio::test]
async fn a_new_selector_is_answered_with_its_id() {
    let fixture = Fixture::new().await;
    let body: Value = serde_json::from_str(SELECTOR).expect("JSON");
    let id = fixture.expect("POST", "/selector", &body, CREATED).await;
    let path = format!("/selector/{}", id.as_str().expect("an id"));
    let one = fixture.expect("GET", &path, &Value::Null, DETAIL).await;
    assert_eq!(one["name"], "s");
}

#[tokio::test]
async fn many_rows_go_with_what_depends_on_them_and_nothing_else() {
    let fixture = Fixture::new().await;
    let total = async |path: &str| {
        let page = fixture.expect("GET", path, &Value::Null, "query success").await;
        page["page"]["totalCount"].as_i64()
    };
    let mut selectors = Vec::new();
    for at in 0..4 {
        let plugin = if at < 3 { "5" } else { "2" };
        let body = json!({"id": format!("s{at}"), "pluginId": plugin, "name": format!("s{at}"), "selectorConditions": []});
        fixture.expect("POST", "/selector", &body, "create success").await;
        for rule in 0..3 {
            let body = json!({"selectorId": format!("s{at}"), "name": format!("r{rule}"), "ruleConditions": []});
            fixture.expect("POST", "/rule", &body, "create success").await;
        }
        let nodes = json!([{"url": "10.0.0.1:80", "protocol": "http://", "status": 0}]);
        let path = format!("/discovery-upstream/s{at}");
        fixture.expect("PUT", &path, &nodes, "").await;
        selectors.push(format!("s{at}"));
    }
    let gone = json!([selectors[0], selectors[1], selectors[0], "nope"]);
    let count = fixture.expect("DELETE", "/selector/batch", &gone, "delete success").await;
    assert_eq!((count, total("/selector").await), (json!(2), Some(2)));
    assert_eq!(total("/rule").await, Some(6));
    assert_eq!(total("/rule?selectorId=s0").await, Some(0));
    let nodes = async || {
        let groups = "/configs/fetch?groupKeys=DISCOVER_UPSTREAM";
        let groups = fixture.expect("GET", groups, &Value::Null, "success").await;
        groups["DISCOVER_UPSTREAM"]["data"].as_array().map(Vec::len)
    };
    assert_eq!(nodes().await, Some(2));
    fixture.expect("DELETE", "/plugin/batch", &json!(["5"]), "delete success").await;
    assert_eq!((total("/selector").await, total("/rule").await), (Some(1), Some(3)));
    assert_eq!(nodes().await, Some(1));
}

#[tokio::test]
async fn a_namespace_begins_with_the_plugins_of_the_default_one() {
    let fixture = Fixture::new().await;
    let made = json!({"name": "dev"});
    let made = fixture.expect("POST", "/namespace/insertOrUpdate", &made, "success").await;
    let namespace = made["namespaceId"].as_str().expect("an id").to_owned();
    assert_ne!(namespace, NAMESPACE);
    let path = format!("/namespace-plugin/all/{namespace}");
    let plugins = fixture.expect("GET", &path, &Value::Null, QUERY).await;
    let divide = plugins.as_array().expect("a list").iter().find(|it| it["name"] == "divide");
    assert_eq!(divide.expect("divide")["pluginId"], "5");
    // Disabled by the id of the plugin that it was copied from, as in 2.7.
    let off = json!({"ids": ["5"], "enabled": false, "namespaceId": namespace});
    fixture.expect("POST", "/namespace-plugin/enabledByNamespace", &off, ENABLED).await;
    let path =
        format!("/namespace-plugin/{}", divide.expect("divide")["id"].as_str().expect("an id"));
    assert_eq!(fixture.expect("GET", &path, &Value::Null, DETAIL).await["enabled"], false);
    assert_eq!(fixture.expect("GET", "/plugin/5", &Value::Null, DETAIL).await["enabled"], true);
    let again = fixture.call("POST", "/namespace/insertOrUpdate", &json!({"name": "dev"})).await;
    assert_eq!(again["code"], 500, "{again}");
    // Services can register in the new namespace.
    let register =
        json!({"contextPath": "/a", "host": "10.0.0.1", "port": 80, "namespaceId": namespace});
    assert_eq!(fixture.call("POST", "/shenyu-client/register-uri", &register).await, "success");
    let remove = json!([made["id"]]);
    fixture.expect("DELETE", "/namespace/batch", &remove, "success").await;
    let list = fixture.expect("GET", "/selector", &Value::Null, QUERY).await;
    assert_eq!(list["page"]["totalCount"], 0, "with all that was in it");
}

#[tokio::test]
async fn other_registries_are_refused_with_a_clear_word() {
    let fixture = Fixture::new().await;
    for kind in ["zookeeper", "etcd", "nacos", "eureka", "kubernetes"] {
        for (path, body) in [
            ("/discovery/insertOrUpdate", json!({"name": "d", "pluginName": "tcp", "type": kind})),
            (
                "/proxy-selector/addProxySelector",
                json!({"name": "p", "forwardPort": 1, "discovery": {"discoveryType": kind}}),
            ),
            (
                "/proxy-selector/binding",
                json!({"selectorId": "1", "discovery": {"discoveryType": kind}}),
            ),
            (
                "/shenyu-client/register-discoveryConfig",
                json!({"name": "d", "pluginName": "tcp", "discoveryType": kind}),
            ),
        ] {
            let answer = fixture.call("POST", path, &body).await;
            let text = answer["message"].as_str().unwrap_or_default();
            assert!(
                answer["code"] == 500 && text.contains("are not followed here"),
                "{path} {answer}"
            );
        }
    }
}

#[tokio::test]
async fn a_port_comes_with_its_nodes_and_goes_with_them() {
    let fixture = Fixture::new().await;
    let body: Value = serde_json::from_str(PORT).expect("JSON");
    fixture.expect("POST", "/proxy-selector/addProxySelector", &body, CREATED).await;
    let list = fixture.expect("GET", "/proxy-selector", &Value::Null, QUERY).await;
    let one = &list["dataList"][0];
    assert_eq!((&one["forwardPort"], &one["props"]), (&json!(9123), &json!("{}")));
    for (time, stored) in [("createTime", "dateCreated"), ("updateTime", "dateUpdated")] {
        assert!(one[time].is_string(), "{one}");
        assert_eq!(one[time], one[stored]);
    }
    assert_eq!(one["discoveryUpstreams"][0]["url"], "10.0.0.9:6379");
    let groups = fixture
        .call(
            "GET",
            "/configs/fetch?groupKeys=PROXY_SELECTOR&groupKeys=DISCOVER_UPSTREAM",
            &Value::Null,
        )
        .await;
    assert_eq!(groups["data"]["PROXY_SELECTOR"]["data"][0]["name"], "redis");
    assert_eq!(
        groups["data"]["DISCOVER_UPSTREAM"]["data"][0]["upstreamDataList"][0]["url"],
        "10.0.0.9:6379"
    );
    fixture.expect("DELETE", "/proxy-selector/batch", &json!([one["id"]]), DELETED).await;
    let groups =
        fixture.call("GET", "/configs/fetch?groupKeys=DISCOVER_UPSTREAM", &Value::Null).await;
    assert_eq!(groups["data"]["DISCOVER_UPSTREAM"]["data"], json!([]));
}
