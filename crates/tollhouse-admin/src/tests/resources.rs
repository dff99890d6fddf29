//! Resources: the methods of each, and its peculiarities.

use super::*;
use crate::StreamMode;

#[tokio::test]
async fn verbs_that_a_resource_lacks_are_refused() {
    let fixture = Fixture::new().await;
    let table = [
        ("POST", "/consumers", "consumer"),
        ("PATCH", "/consumers/jack", "consumer"),
        ("POST", "/consumers/jack/credentials", "credential"),
        ("PATCH", "/consumers/jack/credentials/c", "credential"),
        ("POST", "/consumer_groups", "consumer group"),
        ("POST", "/plugin_configs", "plugin config"),
        ("POST", "/global_rules", "global rule"),
        ("POST", "/plugin_metadata", "plugin"),
        ("PATCH", "/plugin_metadata/cors", "plugin"),
        ("PATCH", "/protos/1", "proto"),
        ("PATCH", "/stream_routes/1", "stream route"),
        ("POST", "/secrets/vault", "secret"),
    ];
    for (method, path, kind) in table {
        let answer = fixture.call(method, path, "{}").await;
        let expected = format!("not supported `{method}` method for {kind}");
        assert_eq!((answer.status, answer.error()), (405, expected), "{method} {path}");
    }
}

#[tokio::test]
async fn what_is_no_resource_is_told_so() {
    let fixture = Fixture::new().await;
    for (path, name) in [("/xyz", "xyz"), ("/xyz/1", "xyz"), ("/configs", "configs")] {
        let answer = fixture.get(path).await;
        let expected = format!("Unsupported resource type: {name}");
        assert_eq!((answer.status, answer.error()), (404, expected), "{path}");
    }
    for (method, path) in [("POST", "/plugins"), ("DELETE", "/schema/route"), ("PUT", "/plugins/x")]
    {
        let answer = fixture.call(method, path, "{}").await;
        assert_eq!((answer.status, answer.error().as_str()), (404, "not found"), "{method} {path}");
    }
}

#[tokio::test]
async fn every_verb_of_every_resource_works() {
    let fixture = Fixture::new().await;
    let (cert, key) = super::encryption::certificate();
    let nodes = json!({"nodes": {"127.0.0.1:1": 1}});
    fixture.given(&[("/consumers", json!({"username": "jack"})), ("/services/0", json!({}))]).await;
    let table = [
        ("/routes", "1", route(), "PUT POST PATCH"),
        ("/services", "1", json!({"upstream": nodes}), "PUT POST PATCH"),
        ("/upstreams", "1", nodes.clone(), "PUT POST PATCH"),
        ("/consumers", "ann", json!({"username": "ann"}), "PUT"),
        ("/consumers/jack/credentials", "c", json!({"plugins": {"key-auth": {"key": "x"}}}), "PUT"),
        ("/consumer_groups", "g", json!({"plugins": {}}), "PUT PATCH"),
        ("/plugin_configs", "1", json!({"plugins": {}}), "PUT PATCH"),
        ("/global_rules", "1", json!({"plugins": {}}), "PUT PATCH"),
        ("/plugin_metadata", "cors", json!({}), "PUT"),
        ("/ssls", "1", json!({"sni": "test.com", "cert": cert, "key": key}), "PUT POST PATCH"),
        ("/protos", "1", json!({"content": "syntax = \"proto3\";"}), "PUT POST"),
        ("/stream_routes", "1", json!({"upstream": nodes}), "PUT POST"),
        (
            "/secrets/vault",
            "1",
            json!({"uri": "http://127.0.0.1:8200", "prefix": "kv/a", "token": "t"}),
            "PUT PATCH",
        ),
        ("/secrets/aws", "1", json!({"access_key_id": "a", "secret_access_key": "b"}), "PUT PATCH"),
        ("/secrets/gcp", "1", json!({"auth_file": "/a"}), "PUT PATCH"),
        (
            "/services/0/graphql_cost_decorations",
            "1",
            json!({"field_path": "Query.users", "mul_arguments": ["first"]}),
            "PUT POST PATCH",
        ),
    ];
    for (collection, id, value, verbs) in table {
        let path = format!("{collection}/{id}");
        let answer = fixture.put(&path, &value).await;
        assert_eq!(answer.status, 201, "PUT {path}: {answer:?}");
        assert_eq!(answer.json()["key"], format!("/apisix{path}"), "{path}");
        let read = fixture.get(&path).await;
        assert_eq!((read.status, &read.json()["key"]), (200, &json!(format!("/apisix{path}"))));
        let list = fixture.get(collection).await.json();
        let keys: Vec<&Value> =
            list["list"].as_array().expect("it is a list").iter().map(|i| &i["key"]).collect();
        assert!(keys.contains(&&json!(format!("/apisix{path}"))), "{path}: {keys:?}");
        if verbs.contains("PATCH") {
            let answer = fixture.call("PATCH", &path, "{}").await;
            assert_eq!(answer.status, 200, "PATCH {path}: {answer:?}");
        }
        let answer = fixture.delete(&path).await;
        assert_eq!(answer.status, 200, "DELETE {path}: {answer:?}");
        assert_eq!(answer.json(), json!({"deleted": "1", "key": format!("/apisix{path}")}));
        if verbs.contains("POST") {
            let answer = fixture.call("POST", collection, value.to_string()).await;
            assert_eq!(answer.status, 201, "POST {collection}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn consumers_are_known_by_their_names() {
    let fixture = Fixture::new().await;
    let jack = json!({"username": "jack"});
    let answer = fixture.put("/consumers", &jack).await;
    assert_eq!((answer.status, &answer.json()["key"]), (201, &json!("/apisix/consumers/jack")));
    assert!(answer.json()["value"].get("id").is_none(), "{answer:?}");
    assert_eq!(fixture.put("/consumers/jack", &jack).await.status, 200);
    let answer = fixture.put("/consumers/bob", &jack).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "wrong username"));
    let answer = fixture.delete("/consumers").await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "missing consumer id"));
}

#[tokio::test]
async fn credentials_live_below_their_consumers() {
    let fixture = Fixture::new().await;
    let credential = json!({"plugins": {"key-auth": {"key": "x"}}});
    let answer = fixture.put("/consumers/jack/credentials/c", &credential).await;
    assert_eq!((answer.status, answer.error().as_str()), (404, "consumer not found"));
    fixture.given(&[("/consumers", json!({"username": "jack"}))]).await;
    assert_eq!(fixture.get("/consumers/jack/credentials").await.status, 404, "there is none");
    let table = [
        ("/consumers/jack/credentials", credential.clone(), "missing credential id"),
        (
            "/consumers/jack/credentials/c",
            json!({"plugins": {"cors": {}}}),
            "only supports auth type plugins in consumer credential",
        ),
        (
            "/consumers/jack/credentials/c",
            json!({"plugins": {"none": {}}}),
            "unknown plugin [none]",
        ),
        (
            "/consumers/jack/credentials/c",
            json!({"plugins": {"key-auth": {"key": "a"}, "basic-auth": {}}}),
            "invalid configuration: property \"plugins\" validation failed: expect object to \
             have at most 1 properties",
        ),
        (
            "/consumers/jack/credentials/c",
            json!({"plugins": {"key-auth": {}}}),
            "failed to check the configuration of plugin key-auth err: property \"key\" is \
             required",
        ),
    ];
    for (path, value, expected) in table {
        let answer = fixture.put(path, &value).await;
        assert_eq!((answer.status, answer.error().as_str()), (400, expected), "{path} {value}");
    }
    let mut named = credential.clone();
    named["id"] = json!("c");
    fixture.given(&[("/consumers/jack/credentials", named)]).await;
    let read = fixture.get("/consumers/jack/credentials/c").await.json();
    assert_eq!(read["key"], "/apisix/consumers/jack/credentials/c");
    assert_eq!(read["value"]["id"], "c");
    assert_eq!(fixture.get("/consumers").await.json()["total"], 1, "credentials are no consumers");
    assert_eq!(fixture.get("/consumers/jack/credentials").await.json()["total"], 1);
    assert_eq!(fixture.delete("/consumers/jack").await.status, 200);
    assert_eq!(fixture.get("/consumers/jack/credentials/c").await.status, 404, "it went too");
}

#[tokio::test]
async fn metadata_is_for_plugins_that_exist() {
    let fixture = Fixture::new().await;
    let table = [
        ("PUT", "/plugin_metadata", "{}", "missing plugin name"),
        ("PUT", "/plugin_metadata", "", "missing plugin name"),
        ("PUT", "/plugin_metadata/none", "{}", "invalid plugin name"),
        ("DELETE", "/plugin_metadata", "", "missing plugin name"),
    ];
    for (method, path, body, expected) in table {
        let answer = fixture.call(method, path, body).await;
        assert_eq!((answer.status, answer.error().as_str()), (400, expected), "{method} {path}");
    }
    fixture
        .given(&[("/plugin_metadata/cors", json!({"allow_origins": {"a": "http://a.com"}}))])
        .await;
    let expected = json!({"allow_origins": {"a": "http://a.com"}, "id": "cors"});
    for _ in 0..2 {
        let read = fixture.get("/plugin_metadata/cors").await.json()["value"].clone();
        assert_eq!(read, expected, "clients compare it with what they want");
        assert_eq!(fixture.put("/plugin_metadata/cors", &read).await.status, 200);
    }
    let mut other = expected;
    other["id"] = json!("http-logger");
    let answer = fixture.put("/plugin_metadata/cors", &other).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "wrong plugin id"));
}

#[tokio::test]
async fn secrets_belong_to_managers() {
    let fixture = Fixture::new().await;
    let vault = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": "t"});
    fixture.given(&[("/secrets/vault/1", vault.clone())]).await;
    let read = fixture.get("/secrets/vault/1").await.json();
    assert_eq!(
        (&read["key"], &read["value"]["id"]),
        (&json!("/apisix/secrets/vault/1"), &json!("vault/1"))
    );
    assert_eq!(fixture.get("/secrets").await.json()["total"], 1);
    let answer = fixture.put("/secrets/vault", &vault).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "no secret id"));
    let answer = fixture.put("/secrets/other/1", &vault).await;
    assert_eq!(answer.status, 400);
    // The length and the characters of the id are limited, as for other ids.
    for id in ["x".repeat(65), "a%20b".to_owned()] {
        let answer = fixture.put(&format!("/secrets/vault/{id}"), &vault).await;
        let expected = "invalid configuration: property \"id\" validation failed: object matches none of the required";
        assert_eq!((answer.status, answer.error().as_str()), (400, expected), "{id}");
    }
    assert_eq!(
        fixture.put(&format!("/secrets/vault/{}", "x".repeat(64)), &vault).await.status,
        201
    );
    // As in APISIX, path segments after the id are ignored in a PUT.
    let answer = fixture.put("/secrets/vault/1/token", &vault).await;
    assert_eq!((answer.status, &answer.json()["key"]), (200, &json!("/apisix/secrets/vault/1")));
    let answer = fixture.call("PATCH", "/secrets/vault/1/token", "\"u\"").await;
    assert_eq!((answer.status, &answer.json()["value"]["token"]), (200, &json!("u")));
}

#[tokio::test]
async fn a_write_as_a_whole_is_of_the_object_whose_id_comes_first_in_the_path() {
    // As in APISIX, only PATCH uses the path segments after the id.
    let fixture = Fixture::new().await;
    let route = json!({"uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let answer = fixture.put("/routes/a/b", &route).await;
    assert_eq!((answer.status, &answer.json()["key"]), (201, &json!("/apisix/routes/a")));
    assert_eq!(fixture.get("/routes").await.json()["total"], 1);
    assert_eq!(fixture.get("/routes/a/b").await.json()["value"]["id"], "a");
}

#[tokio::test]
async fn without_stream_mode_stream_routes_are_refused() {
    let fixture = Fixture::with(Options { stream_mode: StreamMode::Off, ..options() }).await;
    for (method, path) in
        [("GET", "/stream_routes"), ("PUT", "/stream_routes/1"), ("POST", "/stream_routes")]
    {
        let answer = fixture.call(method, path, "{}").await;
        let expected = "stream mode is disabled, can not add stream routes";
        assert_eq!((answer.status, answer.error().as_str()), (400, expected), "{method}");
    }
}

#[tokio::test]
async fn children_of_services_are_no_services() {
    let fixture = Fixture::new().await;
    let decoration = json!({"field_path": "Query.users"});
    let answer = fixture.put("/services/1/graphql_cost_decorations/1", &decoration).await;
    assert_eq!((answer.status, answer.error().as_str()), (404, "service not found"));
    fixture
        .given(&[
            ("/services/1", json!({})),
            ("/services/1/graphql_cost_decorations/1", decoration),
        ])
        .await;
    assert_eq!(fixture.get("/services").await.json()["total"], 1);
    let answer = fixture.put("/services/1/graphql_cost_decorations/2", &json!({})).await;
    assert_eq!(answer.error(), "invalid configuration: property \"field_path\" is required");
    assert_eq!(fixture.get("/services/2/graphql_cost_decorations").await.status, 404);
}

#[tokio::test]
async fn a_decoration_is_of_one_field_and_says_whose_it_is() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/services/shop", json!({})), ("/services/blog", json!({}))]).await;
    let place = |id: &str| format!("/services/shop/graphql_cost_decorations/{id}");
    let products = json!({"field_path": "Query.products", "mul_arguments": ["first"]});
    let answer = fixture.put(&place("d1"), &products).await;
    assert_eq!((answer.status, &answer.json()["value"]["service_id"]), (201, &json!("shop")));
    let same = fixture.put(&place("d1"), &json!({"field_path": "Query.products"})).await;
    assert_eq!(same.status, 200);
    let duplicate = "field_path Query.products is already decorated on this service by [d1]";
    let refused = [
        (
            json!({"field_path": "Query.x", "service_id": "blog"}),
            "wrong service_id, it is taken from the path",
        ),
        (products.clone(), duplicate),
    ];
    for (value, expected) in refused {
        let answer = fixture.put(&place("d2"), &value).await;
        assert_eq!((answer.status, answer.error().as_str()), (400, expected));
    }
    let collection = "/services/shop/graphql_cost_decorations";
    let answer = fixture.call("POST", collection, products.to_string()).await;
    assert_eq!(answer.error(), duplicate);
    let other = fixture.call("POST", collection, r#"{"field_path":"Product.reviews"}"#).await;
    assert_eq!((other.status, &other.json()["value"]["service_id"]), (201, &json!("shop")));
    for field in ["Query.", "Query..a", "9Product", ".", ""] {
        let answer = fixture.put(&place("d3"), &json!({"field_path": field})).await;
        let expected = "invalid configuration: property \"field_path\" validation failed: ";
        assert!(answer.error().starts_with(expected), "{field}: {answer:?}");
    }
    for field in ["Product", "Query.products.nodes.reviews", "_a._1"] {
        assert_eq!(fixture.put(&place("d3"), &json!({"field_path": field})).await.status / 100, 2);
    }
    for name in ["add_value", "mul_value"] {
        let answer = fixture.put(&place("d4"), &json!({"field_path": "A.b", name: -1})).await;
        assert!(answer.error().contains(&format!("\"{name}\" validation failed: ")), "{answer:?}");
    }
    let patched = fixture.call("PATCH", &place("d1"), r#"{"add_value":7}"#).await.json();
    assert_eq!(
        (&patched["value"]["service_id"], &patched["value"]["add_value"]),
        (&json!("shop"), &json!(7))
    );
    for (path, body) in [("d1", r#"{"service_id":"blog"}"#), ("d1/service_id", "\"blog\"")] {
        let answer = fixture.call("PATCH", &place(path), body).await;
        assert_eq!(
            (answer.status, answer.error().as_str()),
            (400, "service_id can not be patched")
        );
    }
    let answer = fixture.call("PATCH", &place("d3"), r#"{"field_path":"Query.products"}"#).await;
    assert_eq!(answer.error(), duplicate);
    assert_eq!(
        fixture.put("/services/blog/graphql_cost_decorations/1", &products).await.status,
        201
    );
}
