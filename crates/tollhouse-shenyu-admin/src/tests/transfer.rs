//! Tests of the whole configuration as an archive: imports of ShenYu's exports, and exports in the
//! same form.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use tollhouse_store::{Listing, Operation, Revision};

use super::{Fixture, NAMESPACE};
use crate::archive::{self, File};
use crate::transfer::{Source, plan_import};

fn zip(files: &[(&str, Value)]) -> Vec<u8> {
    let files: Vec<File> = files
        .iter()
        .map(|(name, content)| File {
            name: (*name).to_owned(),
            content: content.to_string().into(),
        })
        .collect();
    archive::write(&files).expect("an archive")
}

impl Fixture {
    /// Sends an archive as the console does.
    async fn import(&self, archive: &[u8], namespace: Option<&str>) -> Value {
        let mut body = Vec::new();
        if let Some(namespace) = namespace {
            let head = "--b\r\nContent-Disposition: form-data; name=\"namespace\"\r\n\r\n";
            body.extend(format!("{head}{namespace}\r\n").into_bytes());
        }
        let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"c.zip\"\r\n\
                    Content-Type: application/zip\r\n\r\n";
        body.extend(head.as_bytes());
        body.extend(archive);
        body.extend(b"\r\n--b--\r\n");
        let kind = "multipart/form-data; boundary=b";
        let (_, text) = self.send_bytes("POST", "/configs/import", kind, body).await;
        serde_json::from_slice(&text).expect("JSON")
    }

    async fn export(&self, path: &str) -> Vec<File> {
        let (status, bytes) = self.send_bytes("GET", path, "", Vec::new()).await;
        assert_eq!(status, 200);
        archive::read(&bytes).expect("an archive")
    }
}

fn condition(value: &str) -> Value {
    json!([{"id": "1", "paramType": "uri", "operator": "startsWith", "paramName": "/", "paramValue": value}])
}

/// Returns an export as of ShenYu 2.7: plugins as templates and as copies in the namespace, nodes
/// by their discovery handler.
fn export_of_2_7() -> Vec<u8> {
    zip(&[
        (
            "discovery_upstream.json",
            json!([
                {"id": "u1", "discoveryHandlerId": "h1", "protocol": "http://", "url": "10.0.0.1:80", "status": 0, "weight": 50, "props": "{}"},
                {"id": "u2", "discoveryHandlerId": "h2", "protocol": "http://", "url": "10.0.0.2:80", "status": 0, "weight": 50, "props": "{}"},
                {"id": "u3", "discoveryHandlerId": "gone", "protocol": "http://", "url": "10.0.0.3:80", "status": 0, "weight": 50, "props": "{}"},
            ]),
        ),
        (
            "plugin_template.json",
            json!([
                {"id": "5", "name": "divide", "role": "Proxy", "enabled": true, "sort": 200, "config": "{\"multiSelectorHandle\":\"1\"}"},
                {"id": "777", "name": "mine", "role": "Common", "enabled": true, "sort": 3, "config": "", "file": "UEs="},
            ]),
        ),
        (
            "namespace_plugin.json",
            json!([
                {"id": "n1", "pluginId": "5", "name": "divide", "role": "Proxy", "enabled": false, "sort": 201, "config": "{}", "namespaceId": NAMESPACE},
            ]),
        ),
        (
            "selector.json",
            json!([
                {"id": "s1", "pluginId": "5", "name": "order", "matchMode": 0, "type": 1, "sort": 1, "enabled": true, "loged": true,
                 "continued": true, "handle": "[]", "namespaceId": NAMESPACE, "selectorConditions": condition("/order/"),
                 "discoveryHandler": {"id": "h1", "handler": "{}", "listenerNode": ""}},
                {"id": "s2", "pluginId": "5", "name": "pay", "selectorConditions": condition("/pay/"), "namespaceId": NAMESPACE},
            ]),
        ),
        (
            "rule.json",
            json!([
                {"id": "r1", "selectorId": "s1", "name": "all", "matchMode": 0, "sort": 1, "enabled": true, "loged": true,
                 "handle": "{\"loadBalance\":\"hash\"}", "ruleConditions": condition("/order/"), "namespaceId": NAMESPACE},
            ]),
        ),
        (
            "meta.json",
            json!([
                {"id": "m1", "appName": "order", "path": "/order/**", "rpcType": "http", "serviceName": "", "methodName": null, "enabled": true},
            ]),
        ),
        (
            "auth.json",
            json!([
                {"id": "a1", "appKey": "K", "appSecret": "S", "open": true, "enabled": true, "authParamList": [],
                 "authPathList": [{"appName": "order", "path": "/order/**", "enabled": true}]},
            ]),
        ),
        (
            "dict.json",
            json!([
                {"id": "d1", "type": "loadBalance", "dictCode": "hash", "dictName": "by hash", "dictValue": "hash", "sort": 0, "enabled": true},
                {"id": "d2", "type": "mine", "dictCode": "one", "dictName": "one", "dictValue": "1", "sort": 0, "enabled": true},
            ]),
        ),
        (
            "discovery.json",
            json!([
                {"id": "di", "name": "d", "type": "local", "level": "0", "pluginName": "divide", "serverList": "", "props": "{}",
                 "discoveryRel": {"discoveryHandlerId": "h2", "selectorId": "s2", "pluginName": "divide"}},
            ]),
        ),
    ])
}

#[tokio::test]
async fn zip_import_takes_an_export_of_2_7_over() {
    let fixture = Fixture::new().await;
    let dictionary = fixture.call("GET", "/shenyu-dict/all/loadBalance", &Value::Null).await;
    let answer = fixture.import(&export_of_2_7(), None).await;
    assert_eq!((&answer["code"], &answer["message"]), (&json!(200), &json!("import success")));
    let counts = [
        ("pluginTemplate", 1),
        ("namespacePlugin", 1),
        ("selector", 2),
        ("rule", 1),
        ("meta", 1),
        ("auth", 1),
        ("dict", 2),
        ("discovery", 1),
        ("discoveryUpstream", 2),
    ];
    for (name, count) in counts {
        assert_eq!(answer["data"][format!("{name}ImportSuccessCount")], count, "{name}: {answer}");
    }
    let failed = |name: &str| {
        answer["data"][format!("{name}ImportFailMessage")].as_str().unwrap_or_default().to_owned()
    };
    assert!(
        failed("pluginTemplate").contains("`mine`: it is there, but its archive of Java"),
        "{answer}"
    );
    assert!(failed("discoveryUpstream").contains("`10.0.0.3:80`: no selector"), "{answer}");
    let selector = fixture.expect("GET", "/selector/s1", &Value::Null, "detail success").await;
    assert_eq!(selector["pluginName"], "divide");
    assert_eq!(selector["selectorConditions"][0]["paramValue"], "/order/");
    assert_eq!(selector["discoveryUpstreams"][0]["url"], "10.0.0.1:80");
    let selector = fixture.expect("GET", "/selector/s2", &Value::Null, "detail success").await;
    assert_eq!(selector["discoveryUpstreams"][0]["url"], "10.0.0.2:80");
    let plugin = fixture.expect("GET", "/plugin/5", &Value::Null, "detail success").await;
    assert_eq!((&plugin["enabled"], &plugin["sort"]), (&json!(false), &json!(201)));
    let rule = fixture.expect("GET", "/rule/r1", &Value::Null, "detail success").await;
    assert_eq!(rule["pluginName"], "divide");
    let app = fixture.expect("GET", "/appAuth/detail?id=a1", &Value::Null, "detail success").await;
    assert_eq!(app["authPathList"][0]["path"], "/order/**");
    // No value occurs twice in the dictionary.
    let after = fixture.call("GET", "/shenyu-dict/all/loadBalance", &Value::Null).await;
    let count = |answer: &Value| answer["data"].as_array().map(Vec::len);
    assert_eq!(count(&after), count(&dictionary));
    assert_eq!(after["data"][0]["dictName"], "by hash");
    // A second import of the same archive creates no duplicates.
    fixture.import(&export_of_2_7(), None).await;
    let selectors = fixture.call("GET", "/selector?pageSize=100", &Value::Null).await;
    assert_eq!(selectors["data"]["page"]["totalCount"], 2);
}

#[tokio::test]
async fn zip_import_keeps_values_of_the_dictionary_that_share_a_code() {
    let fixture = Fixture::new().await;
    let value = |id: &str, kind: &str, code: &str, name: &str, value: &str| {
        json!({"id": id, "type": kind, "dictCode": code, "dictName": name, "dictValue": value, "desc": "of ShenYu",
            "sort": 0, "enabled": true})
    };
    // Entries as in ShenYu, and two custom entries with equal values.
    let export = zip(&[(
        "dict.json",
        json!([
            value("1", "operator", "OPERATOR", "match", "match"),
            value("2", "operator", "OPERATOR", "=", "="),
            value("3", "operator", "OPERATOR", "regex", "regex"),
            value("4", "status", "DIVIDE_STATUS", "close", "false"),
            value("5", "apidocEnv", "MINE", "one", "http://same"),
            value("6", "apidocEnv", "MINE", "two", "http://same"),
        ]),
    )]);
    for _ in 0..2 {
        let answer = fixture.import(&export, None).await;
        assert_eq!(answer["data"]["dictImportSuccessCount"], 6, "{answer}");
        for (kind, count, expected) in [
            ("operator", 11, vec!["match", "=", "regex"]),
            ("status", 2, vec!["close"]),
            ("apidocEnv", 4, vec!["one", "two"]),
        ] {
            let path = format!("/shenyu-dict/all/{kind}");
            let values = fixture.expect("GET", &path, &Value::Null, "query success").await;
            let values = values.as_array().expect("a list");
            assert_eq!(values.len(), count, "{values:?}");
            let ours = values.iter().filter(|value| value["desc"] == "of ShenYu");
            let names: BTreeSet<_> = ours.filter_map(|value| value["dictName"].as_str()).collect();
            assert_eq!(names, expected.into_iter().collect(), "{kind}");
        }
    }
}

#[tokio::test]
async fn zip_import_looks_up_each_of_thousands_of_objects_at_once() {
    const METHODS: usize = 4_000;
    let fixture = Fixture::new().await;
    let method = |at: usize| {
        json!({"id": format!("m{at}"), "appName": "a", "path": format!("/a/{at}"), "rpcType": "dubbo",
            "serviceName": "s", "methodName": "m", "enabled": true})
    };
    // The path of the last method belongs to another one already.
    let mut methods: Vec<Value> = (0..METHODS).map(method).collect();
    methods.push(json!({"id": "again", "appName": "a", "path": "/a/0", "rpcType": "dubbo", "serviceName": "s",
        "methodName": "m", "enabled": true}));
    let answer = fixture.import(&zip(&[("meta.json", methods.into())]), None).await;
    assert_eq!(answer["data"]["metaImportSuccessCount"], METHODS, "{answer}");
    let failed = answer["data"]["metaImportFailMessage"].as_str().unwrap_or_default();
    assert!(failed.contains("`/a/0`: The path already exists"), "{answer}");
    // A renamed object is no longer found under its old name, which another object can then use.
    let renamed = json!([{"id": "m1", "path": "/a/other"}, {"id": "m2", "path": "/a/1"}]);
    let answer = fixture.import(&zip(&[("meta.json", renamed)]), None).await;
    assert_eq!(answer["data"]["metaImportSuccessCount"], 2, "{answer}");
}

#[tokio::test]
async fn zip_import_takes_objects_in_the_shape_of_synchronisation() {
    let fixture = Fixture::new().await;
    let archive = zip(&[
        (
            "plugin.json",
            json!([{"id": "9999", "name": "divide", "role": "Proxy", "enabled": true, "sort": 200}]),
        ),
        (
            "selector.json",
            json!([{"id": "s1", "pluginId": "9999", "pluginName": "divide", "name": "order", "type": 1, "matchMode": 0,
            "logged": true, "conditionList": condition("/order/"), "handle": "[]"}]),
        ),
        (
            "rule.json",
            json!([{"id": "r1", "selectorId": "s1", "name": "all", "conditionDataList": condition("/order/")}]),
        ),
        (
            "auth.json",
            json!([{"appKey": "K", "appSecret": "S", "pathDataList": [{"path": "/**", "enabled": true}]}]),
        ),
    ]);
    let answer = fixture.import(&archive, None).await;
    assert_eq!(
        answer["data"],
        json!({"pluginImportSuccessCount": 1, "selectorImportSuccessCount": 1,
        "ruleImportSuccessCount": 1, "authImportSuccessCount": 1})
    );
    let selector = fixture.expect("GET", "/selector/s1", &Value::Null, "detail success").await;
    // The selector refers to the plugin of that name in this admin.
    assert_eq!((&selector["pluginId"], &selector["loged"]), (&json!("5"), &json!(true)));
    assert_eq!(selector["selectorConditions"][0]["operator"], "startsWith");
}

#[tokio::test]
async fn zip_export_is_what_an_import_elsewhere_takes() {
    let fixture = Fixture::new().await;
    fixture.import(&export_of_2_7(), None).await;
    let exported = fixture.export("/configs/export").await;
    let other = Fixture::new().await;
    let archive = archive::write(&exported).expect("an archive");
    other.import(&archive, None).await;
    let is_compared = |name: &str| !name.starts_with("date") && name != "namespaceId";
    let without_dates = |files: Vec<File>| -> Vec<(String, Value)> {
        let read = |file: File| {
            let mut rows: Vec<serde_json::Map<String, Value>> =
                serde_json::from_slice(&file.content).expect("a list");
            for row in &mut rows {
                row.retain(|name, _| is_compared(name));
                let options = row.get_mut("dictOptions").and_then(Value::as_array_mut);
                for option in options.into_iter().flatten().filter_map(Value::as_object_mut) {
                    option.retain(|name, _| is_compared(name));
                }
            }
            rows.sort_by_key(|row| row.get("id").map(ToString::to_string));
            (file.name, json!(rows))
        };
        files.into_iter().map(read).collect()
    };
    let again = without_dates(other.export("/configs/export").await);
    for (before, after) in without_dates(exported).into_iter().zip(again) {
        assert!(before == after, "{} differs", before.0);
    }
    // The export of an empty namespace contains only what all namespaces share.
    let files = other.export("/configs/exportByNamespace?namespace=other").await;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["plugin_handle.json", "dict.json"]);
}

#[tokio::test]
async fn zip_export_of_a_selector_whose_nodes_are_gone_brings_none_back() {
    let (fixture, other) = (Fixture::new().await, Fixture::new().await);
    let (selector, _) = fixture.pair().await;
    let handle = json!([{"upstreamUrl": "10.0.0.1:80", "protocol": "http://", "weight": 50, "status": true}]);
    let path = format!("/selector/{selector}");
    let body = json!({"handle": handle.to_string()});
    fixture.expect("PUT", &path, &body, "update success").await;
    let nodes = format!("/discovery-upstream/{selector}");
    fixture.expect("PUT", &nodes, &json!([]), "").await;
    let (_, archive) = fixture.send_bytes("GET", "/configs/export", "", Vec::new()).await;
    other.import(&archive, None).await;
    for admin in [&fixture, &other] {
        let groups = "/configs/fetch?groupKeys=DISCOVER_UPSTREAM";
        let groups = admin.expect("GET", groups, &Value::Null, "success").await;
        let found = &groups["DISCOVER_UPSTREAM"]["data"];
        assert_eq!(found[0]["selectorId"], selector.as_str(), "{groups}");
        assert_eq!(found[0]["upstreamDataList"], json!([]), "{groups}");
    }
    // The same holds for the groups that gateways fetch, which stand in for an export where an
    // admin has none.
    let groups = "/configs/fetch?groupKeys=PLUGIN&groupKeys=SELECTOR&groupKeys=DISCOVER_UPSTREAM";
    let groups = fixture.expect("GET", groups, &Value::Null, "success").await;
    let listing = Listing { revision: Revision::ZERO, entries: Vec::new() };
    let (_, operations) = plan_import(&listing, Source::Groups(&groups), None).expect("groups");
    let key = format!("/shenyu/discoveryUpstream/{selector}");
    let is_written = |operation: &Operation| matches!(operation, Operation::Put { key: put, .. } if **put == *key);
    assert!(operations.iter().any(is_written), "{operations:?}");
}

#[tokio::test]
async fn zip_import_into_another_namespace_makes_copies() {
    let fixture = Fixture::new().await;
    fixture.import(&export_of_2_7(), None).await;
    let answer = fixture.import(&export_of_2_7(), Some("other")).await;
    assert_eq!(answer["data"]["selectorImportSuccessCount"], 2, "{answer}");
    assert_eq!(answer["data"]["ruleImportSuccessCount"], 1, "{answer}");
    let copies = fixture.call("GET", "/selector?namespaceId=other&name=order", &Value::Null).await;
    let copy = &copies["data"]["dataList"][0];
    assert_ne!(copy["id"], "s1");
    assert_eq!(copy["discoveryUpstreams"][0]["url"], "10.0.0.1:80");
    let path = format!("/rule?selectorId={}", copy["id"].as_str().unwrap_or_default());
    let rules = fixture.call("GET", &path, &Value::Null).await;
    assert_eq!(rules["data"]["dataList"][0]["namespaceId"], "other");
    let original = fixture.expect("GET", "/selector/s1", &Value::Null, "detail success").await;
    assert_eq!(original["namespaceId"], NAMESPACE);
}

#[tokio::test]
async fn broken_exports_are_refused_and_broken_objects_named_while_the_rest_is_taken() {
    let fixture = Fixture::new().await;
    let whole = export_of_2_7();
    for broken in [&b""[..], b"hello", &whole[..whole.len() / 2]] {
        let answer = fixture.import(broken, None).await;
        assert_eq!(answer["code"], 500, "{answer}");
    }
    let archive = zip(&[
        ("passwords.txt", json!("foreign")),
        ("meta.json", json!({"no": "list"})),
        (
            "selector.json",
            json!([
                {"id": "s1", "pluginName": "divide", "name": "good", "conditionList": []},
                {"id": "s2", "pluginName": "divide", "name": "handle", "handle": "{not json"},
                {"id": "s3", "pluginName": "divide", "name": "operator", "conditionList": [{"paramType": "uri", "operator": "SpEL", "paramValue": "1"}]},
                {"id": "s4", "pluginName": "nothing", "name": "plugin"},
                {"id": "s5", "pluginName": "divide"},
            ]),
        ),
        (
            "rule.json",
            json!([
                {"id": "r1", "selectorId": "s1", "name": "good"}, {"id": "r2", "selectorId": "s2", "name": "lost"}, {"name": "none"},
            ]),
        ),
        ("auth.json", json!([{"appKey": "K"}, {"appSecret": "S"}])),
    ]);
    let answer = fixture.import(&archive, None).await;
    let data = &answer["data"];
    assert_eq!(
        (&data["selectorImportSuccessCount"], &data["ruleImportSuccessCount"]),
        (&json!(1), &json!(1)),
        "{answer}"
    );
    for (part, texts) in [
        ("meta", &["expected a list of JSON objects"][..]),
        (
            "selector",
            &[
                "`handle`: Request error! invalid argument [handle: must be JSON",
                "`operator`",
                "SpEL",
                "its plugin nothing is not there",
                "`s5`: it has no name",
            ],
        ),
        ("rule", &["its selector s2 is not there", "`none`: it has no selector"]),
        ("auth", &["`K`: it has no appSecret", "it has no appKey"]),
    ] {
        let message = data[format!("{part}ImportFailMessage")].as_str().unwrap_or_default();
        for text in texts {
            assert!(message.contains(text), "{part}: {text} in {message}");
        }
    }
}
