//! Sequences of calls as programs that manage gateways send them.

use super::*;

/// ADC: finds the version, dumps every list, writes object by object.
#[tokio::test]
async fn adc_pings_dumps_and_syncs() {
    let fixture = Fixture::new().await;
    let ping = Request::builder().method("HEAD").uri("/apisix/admin").body(Full::default());
    assert_eq!(fixture.send(ping.expect("it is a request")).await.status, 200);
    let version = fixture.get("/routes").await.header("server").to_owned();
    assert_eq!(version.strip_prefix("APISIX/"), Some("3.18.0"));
    for list in [
        "routes",
        "services",
        "consumers",
        "ssls",
        "global_rules",
        "plugin_metadata",
        "stream_routes",
        "upstreams",
    ] {
        let answer = fixture.get(&format!("/{list}")).await;
        assert_eq!((answer.status, &answer.json()["total"]), (200, &json!(0)), "{list}");
    }
    let service_id = "6b5ab8d1a7d0ce2ecb0b84f5ba45db9bb7d6f9d5";
    let service = json!({
        "id": service_id, "name": "httpbin", "upstream": {
            "name": "default", "scheme": "http", "type": "roundrobin", "pass_host": "pass",
            "nodes": [{"host": "127.0.0.1", "port": 80, "weight": 100}],
        },
    });
    let route = json!({
        "id": "r-1", "name": "get", "uris": ["/get"], "methods": ["GET"], "service_id": service_id,
        "labels": {"managed-by": "adc"}, "status": 1, "enable_websocket": false,
    });
    fixture
        .given(&[
            (&format!("/services/{service_id}"), service),
            ("/routes/r-1", route),
            ("/global_rules/cors", json!({"plugins": {"cors": {"allow_origins": "*"}}})),
            ("/consumers/jack", json!({"username": "jack"})),
            (
                "/consumers/jack/credentials/k",
                json!({"name": "k", "plugins": {"key-auth": {"key": "x"}}}),
            ),
        ])
        .await;
    let rule = fixture.get("/global_rules").await.json();
    assert_eq!(rule["list"][0]["value"]["id"], "cors");
    let validated = json!({"routes": [], "consumers": []}).to_string();
    assert_eq!(fixture.call("POST", "/configs/validate", validated).await.status, 200);
    assert_eq!(fixture.delete("/routes/r-1").await.status, 200);
    assert_eq!(fixture.delete(&format!("/services/{service_id}")).await.status, 200);
}

/// The dashboard: pages, filters, plugin catalogues, and 404 for an empty list of credentials.
#[tokio::test]
async fn the_dashboard_finds_its_way() {
    let fixture = Fixture::new().await;
    fixture
        .given(&[("/services/s", json!({"name": "s"})), ("/consumers", json!({"username": "j"}))])
        .await;
    for path in [
        "/routes?page=1&page_size=10",
        "/routes?page=1&page_size=500&filter=service_id%3Ds",
        "/stream_routes?page=1&page_size=10&filter=service_id%3Ds",
        "/plugins/list",
        "/plugins?all=true&subsystem=http",
        "/plugins?all=true&subsystem=stream",
        "/plugins/key-auth",
        "/secrets?page=1&page_size=10",
        "/plugin_metadata",
    ] {
        assert_eq!(fixture.get(path).await.status, 200, "{path}");
    }
    assert_eq!(fixture.get("/consumers/j/credentials").await.status, 404);
    let created = fixture.call("POST", "/routes", route().to_string()).await.json();
    let id = created["value"]["id"].as_str().expect("it has an id").to_owned();
    assert_eq!(fixture.delete(&format!("/routes/{id}")).await.status, 200);
}

/// Terraform providers: writes are 200 or 201, drift is 404, `value` is what was sent and more.
#[tokio::test]
async fn terraform_sees_drift() {
    let fixture = Fixture::new().await;
    let upstream = json!({
        "name": "u", "type": "chash", "hash_on": "header", "key": "x-user",
        "nodes": [{"host": "127.0.0.1", "port": 8080, "weight": 1}],
        "timeout": {"connect": 6, "send": 6, "read": 6},
        "keepalive_pool": {"size": 320, "idle_timeout": 60, "requests": 1000},
        "labels": {"owner": "terraform"},
    });
    for expected in [201, 200] {
        assert_eq!(fixture.put("/upstreams/u1", &upstream).await.status, expected);
    }
    let value = fixture.get("/upstreams/u1").await.json()["value"].clone();
    for (name, sent) in upstream.as_object().expect("they are fields") {
        assert_eq!(&value[name], sent, "{name}");
    }
    assert_eq!(fixture.delete("/upstreams/u1").await.status, 200);
    assert_eq!(fixture.get("/upstreams/u1").await.status, 404);
    assert_eq!(fixture.delete("/upstreams/u1").await.status, 404);
}

/// Documented calls with curl, whose bodies have the content type of forms, and may begin with a
/// byte order mark.
#[tokio::test]
async fn recipes_with_curl_work_as_printed() {
    let fixture = Fixture::new().await;
    let body = "\n{\n  \"uri\": \"/index.html\",\n  \"upstream\": {\n    \"type\": \"roundrobin\",\n    \"nodes\": {\n      \"127.0.0.1:1980\": 1\n    }\n  }\n}";
    assert_eq!(fixture.call("PUT", "/routes/1", body).await.status, 201);
    let stored = fixture.get("/routes/1").await.text;
    let order: Vec<usize> = ["uri", "upstream", "type", "nodes", "create_time", "update_time"]
        .iter()
        .map(|name| stored.find(&format!("\"{name}\"")).expect("it is there"))
        .collect();
    assert!(order.is_sorted(), "fields keep their order: {stored}");
}
