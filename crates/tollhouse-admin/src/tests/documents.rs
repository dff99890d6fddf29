//! Whole documents: validation in any mode, and replacement in standalone mode.

use std::sync::Mutex;

use tollhouse_store::{InService, Revision};

use super::*;
use crate::{Document, DocumentSink, Mode};

/// Sink that stores the documents that it receives.
#[derive(Debug, Default)]
struct Memory(Mutex<Vec<Document>>);

impl DocumentSink for Memory {
    fn accept(&self, document: &Document) -> Revision {
        let mut accepted = self.0.lock().expect("nobody panicked");
        accepted.push(document.clone());
        Revision(accepted.len() as u64)
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_is_answered_once_it_serves() {
    let sink = Arc::new(Memory::default());
    let mode = Mode::Standalone(Arc::clone(&sink) as Arc<dyn DocumentSink>);
    let store = tollhouse_store::open(&Location::Memory).expect("memory is there");
    let (tell, told) = tokio::sync::watch::channel(Revision::ZERO);
    let parts = Parts {
        in_service: Some(InService::new(told)),
        ..parts(Arc::clone(&store), Options { mode, ..options() }, None)
    };
    let api = AdminApi::new(parts);
    let fixture = Fixture { api, store };
    let mut put = Box::pin(fixture.send(configs("PUT", &[("X-Digest", "d1")], "{}")));
    let second = std::time::Duration::from_secs(1);
    assert!(tokio::time::timeout(second, &mut put).await.is_err(), "it does not serve yet");
    assert_eq!(sink.0.lock().expect("nobody panicked").len(), 1, "but is on its way");
    tell.send_replace(Revision(1));
    assert_eq!(put.await.status, 202);
}

async fn standalone() -> (Fixture, Arc<Memory>) {
    let sink = Arc::new(Memory::default());
    let mode = Mode::Standalone(Arc::clone(&sink) as Arc<dyn DocumentSink>);
    (Fixture::with(Options { mode, ..options() }).await, sink)
}

fn configs(method: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut request = request(method, "/configs", body);
    for (name, value) in headers {
        let name: hyper::header::HeaderName = name.parse().expect("it is a header");
        request.headers_mut().insert(name, value.parse().expect("it is a value"));
    }
    request
}

#[tokio::test]
async fn all_that_is_wrong_with_a_document_is_told() {
    let fixture = Fixture::new().await;
    let document = json!({
        "routes": [
            {"id": "r1", "uri": "/a", "upstream_id": "elsewhere", "modifiedIndex": 3},
            {"id": "r1", "uri": 7, "plugins": {}},
        ],
        "consumers": [
            {"username": "jack", "id": 1},
            {"username": "jack"},
            {"id": "jack/credentials/c", "plugins": {"key-auth": {"key": "a"}}},
            {"id": "jack/credentials/c", "plugins": {"key-auth": {"key": "b"}}},
        ],
        "plugin_metadata": [{"id": "none"}, {"id": "cors"}],
        "secrets": [{"id": "vault/1", "uri": "http://a", "prefix": "p", "token": "t"}],
        "plugins": [{"name": "cors"}, {}],
        "upstreams": {},
        "services": 7,
        "routes_conf_version": 1,
    });
    let answer = fixture.call("POST", "/configs/validate", document.to_string()).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.error(), "Configuration validation failed");
    let errors = &answer.json()["errors"];
    let found: Vec<(String, String)> = errors
        .as_array()
        .expect("they are listed")
        .iter()
        .map(|error| {
            let place = format!(
                "{}[{}] {}",
                error["resource_type"].as_str().unwrap_or_default(),
                error["index"],
                error["resource_id"].as_str().unwrap_or("-"),
            );
            (place, error["error"].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    let expected = [
        (
            "routes[1] r1",
            "invalid routes at index 1, err: invalid configuration: property \"uri\" \
            validation failed: wrong type: expected string, got number",
        ),
        ("routes[1] r1", "found duplicate id r1 in routes"),
        ("services[0] -", "invalid services, err: wrong type: expected array, got number"),
        ("consumers[1] jack", "found duplicate username jack in consumers"),
        (
            "consumers[3] jack/credentials/c",
            "found duplicate credential id jack/credentials/c in consumers",
        ),
        ("plugin_metadata[0] none", "invalid plugin_metadata at index 0, err: invalid plugin name"),
        (
            "plugins[1] -",
            "invalid plugins at index 1, err: invalid configuration: failed to \
            validate item 1: property \"name\" is required",
        ),
    ];
    let expected: Vec<(String, String)> =
        expected.map(|(place, text)| (place.to_owned(), text.to_owned())).to_vec();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_good_document_is_good_in_either_form() {
    let fixture = Fixture::new().await;
    let answer = fixture.call("POST", "/configs/validate", r#"{"routes":[]}"#).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "{}\n"));
    let mut yaml =
        request("POST", "/configs/validate", "routes:\n  - id: 1\n    uri: /a\n    plugins: {}\n");
    let kind = "application/yaml".parse().expect("it is a value");
    yaml.headers_mut().insert("content-type", kind);
    let answer = fixture.send(yaml).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "{}\n"));
    for body in ["", "7", "{", "[1]"] {
        let answer = fixture.call("POST", "/configs/validate", body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.error().starts_with("invalid request body: "), "{body}");
    }
}

#[tokio::test]
async fn a_standalone_gateway_keeps_one_document() {
    let (fixture, sink) = standalone().await;
    let fresh = fixture.get("/configs").await;
    assert_eq!(fresh.status, 200);
    let fresh_json = fresh.json();
    assert_eq!(fresh_json["routes_conf_version"], 0);
    assert_eq!(fresh_json.as_object().map(|fields| fields.len()), Some(13));
    assert_eq!(fresh.header("x-digest"), "");

    let document = json!({"routes": [{"id": "r1", "uri": "/a", "plugins": {}}]}).to_string();
    let answer = fixture.send(configs("PUT", &[], document.clone())).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "missing digest header"));
    let answer = fixture.send(configs("PUT", &[("X-Digest", "d1")], document.clone())).await;
    assert_eq!((answer.status, answer.header("x-digest")), (202, "d1"));
    assert!(answer.header("x-last-modified").parse::<u64>().is_ok());
    let answer = fixture.send(configs("PUT", &[("X-Digest", "d1")], document)).await;
    assert_eq!((answer.status, answer.text.as_str()), (204, ""));
    assert_eq!(sink.0.lock().expect("nobody panicked").len(), 1);

    let answer = fixture.get("/configs").await;
    let body = answer.json();
    assert_eq!(body["routes"][0]["id"], "r1");
    assert_eq!((&body["routes_conf_version"], &body["X-Digest"]), (&json!(1), &json!("d1")));
    assert_eq!(body["X-Last-Modified"].to_string(), answer.header("x-last-modified"));
    let head = fixture.send(configs("HEAD", &[], "")).await;
    assert_eq!((head.status, head.header("x-digest"), head.text.as_str()), (200, "d1", ""));
    let yaml = fixture.send(configs("GET", &[("Accept", "application/yaml")], "")).await;
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(yaml.text.contains("routes:") && !yaml.text.contains("---"), "{}", yaml.text);
}

#[tokio::test]
async fn versions_decide_which_lists_change() {
    let (fixture, _) = standalone().await;
    let put = async |digest: &str, document: Value| {
        fixture.send(configs("PUT", &[("X-Digest", digest)], document.to_string())).await
    };
    let route = |id: &str| json!([{"id": id, "uri": "/a", "plugins": {}}]);
    let first = json!({"routes": route("a"), "routes_conf_version": 1000});
    assert_eq!(put("1", first).await.status, 202);
    let answer = put("2", json!({"routes": route("b"), "routes_conf_version": 999})).await;
    let expected = "routes_conf_version must be greater than or equal to (1000)";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));
    let equal = json!({"routes": route("b"), "routes_conf_version": 1000});
    assert_eq!(put("3", equal).await.status, 202);
    assert_eq!(fixture.get("/configs").await.json()["routes"][0]["id"], "a", "it stays");
    assert_eq!(put("4", json!({"routes": route("c")})).await.status, 202);
    let shown = fixture.get("/configs").await.json();
    assert_eq!(
        (&shown["routes"][0]["id"], &shown["routes_conf_version"]),
        (&json!("c"), &json!(1001))
    );
    let answer = put("5", json!({"routes_conf_version": "x"})).await;
    assert_eq!(answer.error(), "routes_conf_version must be a number");
    let answer = put("6", json!({"routes": [{"id": "x"}]})).await;
    assert!(answer.error().starts_with("invalid routes at index 0, err: "), "{answer:?}");
    assert_eq!(put("7", json!({})).await.status, 202);
    assert!(fixture.get("/configs").await.json().get("routes").is_none());
}

#[tokio::test]
async fn a_standalone_gateway_has_no_other_paths() {
    let (fixture, _) = standalone().await;
    for (method, path) in
        [("GET", "/routes"), ("PUT", "/routes/1"), ("GET", "/plugins/list"), ("POST", "/configs")]
    {
        let answer = fixture.call(method, path, "{}").await;
        assert_eq!(answer.status, 404, "{method} {path}");
        assert!(answer.text.contains("404 Not Found"), "{method} {path}");
    }
    assert_eq!(fixture.call("POST", "/configs/validate", "{}").await.status, 200);
    let no_key = Request::builder().uri("/apisix/admin/configs").body(Full::default());
    assert_eq!(fixture.send(no_key.expect("it is a request")).await.status, 401);
    let ping = Request::builder().method("HEAD").uri("/apisix/admin").body(Full::default());
    assert_eq!(fixture.send(ping.expect("it is a request")).await.status, 200);
}

#[tokio::test]
async fn a_document_that_is_replaced_is_a_row_with_what_differs_and_no_secret() {
    let (fixture, _) = standalone().await;
    let document = |uri: &str, key: &str| {
        json!({
            "routes": [{"id": "1", "uri": uri, "upstream": {"nodes": {"127.0.0.1:1": 1}}},
                {"id": "2", "uri": "/same", "upstream": {"nodes": {"127.0.0.1:1": 1}}}],
            "consumers": [{"username": "jack", "plugins": {"key-auth": {"key": key}}}],
        })
        .to_string()
    };
    for (digest, uri, key) in [("a", "/a", "hush-1"), ("b", "/b", "hush-1"), ("c", "/b", "hush-2")]
    {
        let put = configs("PUT", &[("x-digest", digest)], document(uri, key));
        assert_eq!(fixture.send(put).await.status, 202);
    }
    let get = |path: &str| {
        let mut request = request("GET", "", "");
        let uri = format!("http://127.0.0.1:9180/console/v1{path}");
        *request.uri_mut() = uri.parse().expect("it is a URI");
        request
    };
    let list = fixture.send(get("/changes?kind=document")).await.json();
    let rows = list["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &rows[1]["actor"]), (3, &json!("admin")));
    let name = |row: &Value| format!("/changes/{}", row["name"].as_str().expect("a name"));
    let second = fixture.send(get(&name(&rows[1]))).await.json();
    let differences = json!([{"pointer": "/routes~11/uri", "before": "/a", "after": "/b"}]);
    assert_eq!(second["differences"], differences);
    let third = fixture.send(get(&name(&rows[0]))).await.json();
    assert!(third["after"]["consumers/jack"].is_object(), "{third}");
    assert!(!third.to_string().contains("hush"), "{third}");
}

#[tokio::test]
async fn what_a_viewer_was_shown_of_a_document_does_not_count_in_another() {
    let (fixture, sink) = standalone().await;
    let document = |key: &Value| json!({"consumers": [{"username": "jack", "plugins": {"key-auth": {"key": key}}}]});
    let put = |digest: &'static str, body: Value| {
        fixture.send(configs("PUT", &[("X-Digest", digest)], body.to_string()))
    };
    assert_eq!(put("d1", document(&json!("auth-one"))).await.status, 202);
    let shown = fixture.call_as(VIEWER, "GET", "/configs").await.json();
    let hidden = &shown["consumers"][0]["plugins"]["key-auth"]["key"];
    assert!(hidden.is_string() && hidden != "auth-one", "{shown}");
    let answer = put("d2", document(hidden)).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.text.contains("failed to open the sealed value"), "{answer:?}");
    assert_eq!(sink.0.lock().expect("the lock is whole").len(), 1);
}
