//! References: objects that must exist, and objects that cannot be deleted.

use super::*;

#[tokio::test]
async fn what_is_named_must_exist() {
    let fixture = Fixture::new().await;
    let missing =
        |noun: &str| format!("failed to fetch {noun} info by {noun} id [9], response code: 404");
    let table = [
        ("/routes/1", json!({"uri": "/a", "upstream_id": "9"}), missing("upstream")),
        ("/routes/1", json!({"uri": "/a", "service_id": 9}), missing("service")),
        (
            "/routes/1",
            json!({"uri": "/a", "plugin_config_id": "9", "plugins": {}}),
            missing("plugin config"),
        ),
        ("/services/1", json!({"upstream_id": "9"}), missing("upstream")),
        ("/stream_routes/1", json!({"upstream_id": "9"}), missing("upstream")),
        ("/stream_routes/1", json!({"service_id": "9"}), missing("service")),
        ("/consumers", json!({"username": "a", "group_id": "9"}), missing("consumer group")),
        ("/upstreams/1", json!({"nodes": {}, "tls": {"client_cert_id": "9"}}), missing("ssl")),
        (
            "/routes/1",
            json!({"uri": "/a", "upstream": {"nodes": {}, "tls": {"client_cert_id": "9"}}}),
            missing("ssl"),
        ),
    ];
    for (path, value, expected) in table {
        let answer = fixture.put(path, &value).await;
        assert_eq!((answer.status, answer.error()), (400, expected), "{path} {value}");
    }
}

/// Returns an object whose plugin refers to a definition of gRPC services.
fn transcoding(proto: u64) -> Value {
    let conf = json!({"proto_id": proto, "service": "a.B", "method": "C"});
    json!({"plugins": {"grpc-transcode": conf}})
}

#[tokio::test]
async fn what_is_used_stays() {
    let fixture = Fixture::new().await;
    let nodes = json!({"nodes": {"127.0.0.1:1": 1}});
    let consumer =
        json!({"username": "jack", "group_id": "g", "plugins": {"key-auth": {"key": "k"}}});
    fixture
        .given(&[
            ("/upstreams/1", nodes.clone()),
            ("/upstreams/2", nodes.clone()),
            ("/upstreams/3", nodes.clone()),
            ("/upstreams/4", nodes.clone()),
            ("/services/1", json!({"upstream_id": "2"})),
            ("/services/2", json!({})),
            ("/protos/1", json!({"content": "syntax = \"proto3\";"})),
            ("/protos/2", json!({"content": "syntax = \"proto3\";"})),
            ("/services/3", transcoding(1)),
            ("/plugin_configs/2", transcoding(2)),
            ("/plugin_configs/1", json!({"plugins": {}})),
            ("/consumer_groups/g", json!({"plugins": {}})),
            (
                "/routes/1",
                json!({"uri": "/a", "upstream_id": 1, "service_id": "1", "plugin_config_id": "1"}),
            ),
            ("/consumers", consumer),
            ("/stream_routes/1", json!({"service_id": "2", "upstream_id": "4"})),
            (
                "/stream_routes/2",
                json!({"upstream": nodes,
                "protocol": {"name": "redis", "superior_id": "1"}}),
            ),
        ])
        .await;
    let now = "is still using it now";
    let table = [
        ("/protos/1", format!("can not delete this proto, service [3] {now}")),
        ("/protos/2", format!("can not delete this proto, plugin_config [2] {now}")),
        ("/upstreams/1", format!("can not delete this upstream, route [1] {now}")),
        ("/upstreams/2", format!("can not delete this upstream, service [1] {now}")),
        ("/services/1", format!("can not delete this service directly, route [1] {now}")),
        ("/services/2", format!("can not delete this service directly, stream_route [1] {now}")),
        ("/plugin_configs/1", format!("can not delete this plugin config, route [1] {now}")),
        (
            "/consumer_groups/g",
            format!("can not delete this consumer group, consumer [jack] {now}"),
        ),
        (
            "/stream_routes/1",
            "can not delete this stream route directly, stream route [2] is still using it as \
             superior_id"
                .to_owned(),
        ),
    ];
    for (path, expected) in &table {
        for query in ["", "?force=false", "?force=1"] {
            let answer = fixture.delete(&format!("{path}{query}")).await;
            assert_eq!((answer.status, answer.error()), (400, expected.clone()), "{path}{query}");
        }
    }
    assert_eq!(fixture.delete("/upstreams/4").await.status, 200, "stream routes are not asked");
    for (path, _) in &table {
        let answer = fixture.delete(&format!("{path}?force=true")).await;
        assert_eq!(answer.status, 200, "{path}");
    }
}

#[tokio::test]
async fn what_is_not_used_any_more_may_go() {
    let fixture = Fixture::new().await;
    let nodes = json!({"nodes": {"127.0.0.1:1": 1}});
    fixture
        .given(&[("/upstreams/1", nodes), ("/routes/1", json!({"uri": "/a", "upstream_id": "1"}))])
        .await;
    assert_eq!(fixture.delete("/upstreams/1").await.status, 400);
    fixture.given(&[("/routes/1", route())]).await;
    assert_eq!(fixture.delete("/upstreams/1").await.status, 200);
}

#[tokio::test]
async fn an_api_opened_later_and_one_beside_know_the_same() {
    let first = Fixture::new().await;
    let nodes = json!({"nodes": {"127.0.0.1:1": 1}});
    first.given(&[("/upstreams/1", nodes)]).await;
    let second = Fixture::over(Arc::clone(&first.store), options()).await;
    second.given(&[("/routes/1", json!({"uri": "/a", "upstream_id": "1"}))]).await;
    assert_eq!(first.delete("/upstreams/1").await.status, 400, "it follows the store");
    assert_eq!(second.delete("/routes/1").await.status, 200);
    assert_eq!(first.delete("/upstreams/1").await.status, 200);
}

#[tokio::test]
async fn a_credential_has_one_owner() {
    let fixture = Fixture::new().await;
    let key = |key: &str| json!({"plugins": {"key-auth": {"key": key}}});
    let consumer = |name: &str, value: &str| {
        let mut consumer = key(value);
        consumer["username"] = name.into();
        consumer
    };
    fixture
        .given(&[
            ("/consumers", consumer("bob", "k1")),
            ("/consumers", json!({"username": "ann"})),
            ("/consumers/ann/credentials/c1", key("k2")),
        ])
        .await;
    let by = |owner: &str| format!("duplicate key of plugin key-auth found with {owner}");
    let table = [
        ("/consumers", consumer("eve", "k1"), by("consumer: bob")),
        ("/consumers", consumer("eve", "k2"), by("credential: c1 of consumer: ann")),
        ("/consumers/ann/credentials/c2", key("k1"), by("consumer: bob")),
        ("/consumers/bob/credentials/c2", key("k1"), by("consumer: bob")),
        ("/consumers/ann/credentials/c2", key("k2"), by("credential: c1 of consumer: ann")),
    ];
    for (path, value, expected) in table {
        let answer = fixture.put(path, &value).await;
        assert_eq!((answer.status, answer.error()), (400, expected), "{path} {value}");
    }
    fixture
        .given(&[("/consumers", consumer("bob", "k1")), ("/consumers", consumer("bob", "k3"))])
        .await;
    fixture.given(&[("/consumers", consumer("eve", "k1"))]).await;
    assert_eq!(fixture.delete("/consumers/ann").await.status, 200);
    fixture.given(&[("/consumers", consumer("max", "k2"))]).await;
}

#[tokio::test]
async fn a_plugin_stands_in_one_global_rule() {
    let fixture = Fixture::new().await;
    let rule = || json!({"plugins": {"cors": {}}});
    fixture.given(&[("/global_rules/1", rule()), ("/global_rules/1", rule())]).await;
    let expected = "plugin 'cors' already exists in global rule with id '1'";
    let answer = fixture.put("/global_rules/2", &rule()).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));
    fixture
        .given(&[("/global_rules/1", json!({"plugins": {}})), ("/global_rules/2", rule())])
        .await;
    let answer = fixture.call("PATCH", "/global_rules/1", rule().to_string()).await;
    let expected = "plugin 'cors' already exists in global rule with id '2'";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));
}
