//! Behaviour of every resource: methods, statuses, and format of answers.

use super::*;

#[tokio::test]
async fn an_object_lives_from_put_to_delete() {
    let fixture = Fixture::new().await;
    let missing = json!({"message": "Key not found"});
    let answer = fixture.get("/routes/1").await;
    assert_eq!((answer.status, answer.json()), (404, missing.clone()));

    let answer = fixture.put("/routes/1", &route()).await;
    assert_eq!(answer.status, 201);
    assert!(answer.text.ends_with("}\n") && !answer.text.ends_with("\n\n"));
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("x-api-version"), "v3");
    assert_eq!(answer.header("server"), "APISIX/3.18.0");
    let body = answer.json();
    assert_eq!(body["key"], "/apisix/routes/1");
    assert_eq!(body["value"]["id"], "1");
    assert!(body["value"]["create_time"].is_i64());
    assert_eq!(body["value"]["create_time"], body["value"]["update_time"]);
    assert_eq!(body.as_object().map(|fields| fields.len()), Some(2), "no revisions in {body}");

    let answer = fixture.put("/routes/1", &route()).await;
    assert_eq!(answer.status, 200);
    let answer = fixture.get("/routes/1").await;
    assert_eq!(answer.status, 200);
    let stored = answer.json();
    assert_eq!(stored["createdIndex"], 1);
    assert_eq!(stored["modifiedIndex"], 2);
    let mut bare = stored["value"].clone();
    let fields = bare.as_object_mut().expect("it is an object");
    for added in ["id", "create_time", "update_time"] {
        fields.remove(added);
    }
    assert_eq!(bare, route(), "no defaults are stored");

    let answer = fixture.delete("/routes/1").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({"deleted": "1", "key": "/apisix/routes/1"}));
    let answer = fixture.delete("/routes/1").await;
    assert_eq!((answer.status, answer.json()), (404, missing));
}

#[tokio::test]
async fn a_replacement_keeps_its_birthday() {
    let fixture = Fixture::new().await;
    fixture.given(&[("/routes/1", route())]).await;
    let patched = fixture.call("PATCH", "/routes/1", r#"{"create_time":5,"update_time":6}"#).await;
    assert_eq!(patched.json()["value"]["update_time"], 6);
    let replaced = fixture.put("/routes/1", &route()).await.json();
    assert_eq!(replaced["value"]["create_time"], 5);
    assert!(replaced["value"]["update_time"].as_i64() > Some(6));
}

#[tokio::test]
async fn ids_come_from_path_or_body() {
    let fixture = Fixture::new().await;
    let with = |id: Value| {
        let mut value = route();
        value["id"] = id;
        value
    };
    let unreachable = "invalid configuration: property \"id\" validation failed: object matches none of the required";
    let table = [
        ("/routes", with(json!("a")), Ok(("/apisix/routes/a", json!("a")))),
        ("/routes", with(json!(7)), Ok(("/apisix/routes/7", json!(7)))),
        ("/routes/8", with(json!(8)), Ok(("/apisix/routes/8", json!("8")))),
        ("/routes/b", with(json!("b")), Ok(("/apisix/routes/b", json!("b")))),
        ("/routes/b/", route(), Ok(("/apisix/routes/b", json!("b")))),
        ("/routes", route(), Err("missing route id")),
        ("/routes/1", with(json!(2)), Err("wrong route id")),
        ("/upstreams/1", json!({"id": "2", "nodes": {}}), Err("wrong upstream id")),
        ("/services", json!({}), Err("missing service id")),
        ("/ssls", json!({}), Err("missing ssl id")),
        ("/plugin_configs", json!({"plugins": {}}), Err("missing plugin config id")),
        ("/global_rules", json!({"plugins": {}}), Err("missing global rule id")),
        ("/stream_routes", json!({}), Err("missing stream route id")),
        ("/protos", json!({"content": "x"}), Err("missing proto id")),
        ("/routes", with(json!(".")), Err(unreachable)),
        ("/routes", with(json!("..")), Err(unreachable)),
        ("/upstreams", json!({"id": "..", "nodes": {}}), Err(unreachable)),
        ("/routes", with(json!("...")), Ok(("/apisix/routes/...", json!("...")))),
    ];
    for (path, value, expected) in table {
        let answer = fixture.put(path, &value).await;
        match expected {
            Ok((key, id)) => {
                let body = answer.json();
                assert_eq!((&body["key"], &body["value"]["id"]), (&json!(key), &id), "{path}");
            }
            Err(error) => {
                assert_eq!((answer.status, answer.error().as_str()), (400, error), "{path}");
            }
        }
    }
    for id in ["a%20b", "a%25", &"x".repeat(65)] {
        let answer = fixture.put(&format!("/routes/{id}"), &route()).await;
        assert_eq!(answer.status, 400, "{id}");
        let error = answer.error();
        assert!(error.starts_with("invalid configuration: property \"id\""), "{error}");
    }
}

#[tokio::test]
async fn posted_objects_get_the_number_of_a_revision() {
    let fixture = Fixture::new().await;
    let answer = fixture.call("POST", "/routes", route().to_string()).await;
    assert_eq!(answer.status, 201);
    let body = answer.json();
    assert_eq!(body["value"]["id"], "00000000000000000001");
    assert_eq!(body["key"], "/apisix/routes/00000000000000000001");
    let read = fixture.get("/routes/00000000000000000001").await.json();
    assert_eq!(read["createdIndex"], 2);
    let refused = "wrong route id, do not need it";
    let mut numbered = route();
    numbered["id"] = json!("1");
    let answer = fixture.call("POST", "/routes", numbered.to_string()).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, refused));
    let answer = fixture.call("POST", "/routes/1", route().to_string()).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, refused));
    assert_eq!(fixture.get("/routes").await.json()["total"], 1);
}

#[tokio::test]
async fn times_are_not_for_clients_to_say() {
    let fixture = Fixture::new().await;
    let table = [
        (json!({"create_time": 1}), "the property is forbidden:  create_time"),
        (json!({"update_time": 1}), "the property is forbidden:  update_time"),
        (
            json!({"create_time": 1, "update_time": 1}),
            "the property is forbidden:  create_time update_time",
        ),
    ];
    for (times, expected) in table {
        let mut value = route();
        for (name, time) in times.as_object().expect("they are fields") {
            value[name] = time.clone();
        }
        for (method, path) in [("PUT", "/routes/1"), ("POST", "/routes")] {
            let answer = fixture.call(method, path, value.to_string()).await;
            assert_eq!((answer.status, answer.error().as_str()), (400, expected), "{method}");
        }
    }
}

/// Returns a route with further fields.
fn with(fields: Value) -> Value {
    let mut route = route();
    for (name, value) in fields.as_object().expect("they are fields") {
        route[name] = value.clone();
    }
    route
}

/// Checks that objects are refused, each with the expected reason.
async fn refuses(table: &[(&str, Value, &str)]) {
    let fixture = Fixture::new().await;
    for (path, value, expected) in table {
        let answer = fixture.put(path, value).await;
        assert_eq!(answer.status, 400, "{path} {value}: {answer:?}");
        assert_eq!(answer.error(), *expected, "{path} {value}");
    }
}

#[tokio::test]
async fn faults_of_routes_are_told_in_the_words_of_the_reference() {
    refuses(&[
        (
            "/routes/1",
            with(json!({"uri": 7})),
            "invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number",
        ),
        (
            "/routes/1",
            with(json!({"unknown": 1})),
            "invalid configuration: additional properties forbidden, found unknown",
        ),
        (
            "/routes/1",
            with(json!({"host": "a.com", "hosts": ["a.com"]})),
            "only one of host or hosts is allowed",
        ),
        (
            "/routes/1",
            with(json!({"remote_addr": "1.1.1.1", "remote_addrs": ["1.1.1.1"]})),
            "only one of remote_addr or remote_addrs is allowed",
        ),
        (
            "/routes/1",
            with(json!({"vars": [["a", "=", "b"]]})),
            "failed to validate the 'vars' expression: invalid operator '='",
        ),
    ])
    .await;
}

#[tokio::test]
async fn faults_of_plugins_are_told_in_the_words_of_the_reference() {
    refuses(&[
        ("/routes/1", with(json!({"plugins": {"nothing": {}}})), "unknown plugin [nothing]"),
        (
            "/routes/1",
            with(json!({"plugins": {"key-auth": 1}})),
            "invalid plugin conf 1 for plugin [key-auth]",
        ),
        (
            "/routes/1",
            with(json!({"plugins": {"key-auth": {"header": 1}}})),
            "failed to check the configuration of plugin key-auth err: property \"header\" \
             validation failed: wrong type: expected string, got number",
        ),
        (
            "/routes/1",
            with(json!({"plugins": {"key-auth": {"_meta": {"x": 1}}}})),
            "failed to check the configuration of plugin key-auth err: property \"_meta\" \
             validation failed: additional properties forbidden, found x",
        ),
        (
            "/routes/1",
            with(json!({"plugins": {"key-auth": {"_meta": {"filter": [["a", "=", 1]]}}}})),
            "failed to validate the 'vars' expression: invalid operator '='",
        ),
    ])
    .await;
    let off = json!({"plugins": {"key-auth": {"header": 1, "_meta": {"disable": true}}}});
    Fixture::new().await.given(&[("/routes/1", with(off))]).await;
}

#[tokio::test]
async fn faults_of_other_objects_are_told_in_the_words_of_the_reference() {
    let nodes = || json!({"127.0.0.1:1": 1});
    refuses(&[
        ("/upstreams/1", json!({"nodes": nodes(), "type": "chash"}), "missing key"),
        (
            "/upstreams/1",
            json!({"nodes": nodes(), "pass_host": "rewrite"}),
            "`upstream_host` can't be empty when `pass_host` is `rewrite`",
        ),
        (
            "/consumers",
            json!({"username": "a", "plugins": {"key-auth": {}}}),
            "invalid plugins configuration: failed to check the configuration of plugin key-auth \
             err: property \"key\" is required",
        ),
        (
            "/consumers",
            json!({"username": "a b"}),
            "invalid configuration: property \"username\" validation failed: failed to match \
             pattern \"^[a-zA-Z0-9_\\\\-]+$\" with \"a b\"",
        ),
        ("/protos/1", json!({}), "invalid configuration: property \"content\" is required"),
        (
            "/protos/1",
            json!({"content": "syntax = \"proto3\"; message A {"}),
            "invalid configuration: property \"content\" validation failed: expected a message \
             field, oneof, reserved range, enum, message, option or '}', but reached end of file",
        ),
        ("/global_rules/1", json!({}), "invalid configuration: property \"plugins\" is required"),
        (
            "/secrets/vault/1",
            json!({"uri": "http://a", "prefix": "p"}),
            "invalid configuration: property \"token\" is required",
        ),
        (
            "/stream_routes/1",
            json!({"upstream": {"nodes": {}},
            "plugins": {"ip-restriction": {"whitelist": 1}}}),
            "failed to check the configuration of stream plugin [ip-restriction]: property \
             \"whitelist\" validation failed: wrong type: expected array, got number",
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_empty_list_is_an_empty_conf() {
    let fixture = Fixture::new().await;
    let mut value = route();
    value["plugins"] = json!({"key-auth": [], "cors": {"_meta": []}});
    let answer = fixture.put("/routes/1", &value).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    value["plugins"] = json!({"limit-count": []});
    let answer = fixture.put("/routes/1", &value).await;
    let expected = "failed to check the configuration of plugin limit-count err: ";
    assert!(answer.error().starts_with(expected), "{answer:?}");
    value["plugins"] = json!({"key-auth": [1]});
    let answer = fixture.put("/routes/1", &value).await;
    assert_eq!(answer.error(), "invalid plugin conf [1] for plugin [key-auth]");
}

#[tokio::test]
async fn times_are_set_by_nobody_else_at_any_depth() {
    let fixture = Fixture::new().await;
    for (method, path) in [("PUT", "/routes/1"), ("POST", "/routes")] {
        for (change, found) in [
            (json!({"create_time": 1, "update_time": 2}), "create_time update_time"),
            (json!({"upstream": {"nodes": {}, "create_time": 1}}), "upstream.create_time"),
            (
                json!({"update_time": 1, "upstream": {"update_time": 1}}),
                "update_time upstream.update_time",
            ),
            (json!({"plugins": {"create_time": {}}}), "plugins.create_time"),
        ] {
            let mut value = route();
            value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let answer = fixture.call(method, path, value.to_string()).await;
            let expected = format!("the property is forbidden:  {found}");
            assert_eq!((answer.status, answer.error()), (400, expected), "{method} {change}");
        }
    }
}

#[tokio::test]
async fn a_conf_is_checked_with_its_plugins_metadata() {
    let fixture = Fixture::new().await;
    let mut value = route();
    value["plugins"] = json!({"file-logger": {}});
    let answer = fixture.put("/routes/1", &value).await;
    let expected = "failed to check the configuration of plugin file-logger err: \
                    property \"path\" is not set in either the plugin conf or the metadata";
    assert_eq!((answer.status, answer.error().as_str()), (400, expected));
    let metadata = json!({"path": "logs/a.log", "log_format_extra": {"a": "$host"}});
    fixture.given(&[("/plugin_metadata/file-logger", metadata.clone())]).await;
    assert_eq!(fixture.put("/routes/1", &value).await.status, 201);
    fixture.delete("/plugin_metadata/file-logger").await;
    assert_eq!(fixture.put("/routes/1", &value).await.error(), expected);
    let mut item = metadata;
    item["id"] = "file-logger".into();
    value["id"] = "1".into();
    for (document, status) in [
        (json!({"routes": [value]}), 400),
        (json!({"routes": [value], "plugin_metadata": [item]}), 200),
    ] {
        let answer = fixture.call("POST", "/configs/validate", document.to_string()).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[tokio::test]
async fn refusals_say_what_was_probably_meant_beside_the_words_of_apisix() {
    let fixture = Fixture::new().await;
    let with = |name: &str, value: Value| {
        let mut object = route();
        object[name] = value;
        object
    };
    let table = [
        (
            with("urii", json!("/a")),
            "invalid configuration: additional properties forbidden, found urii",
            Some("did you mean \"uri\"?"),
        ),
        (
            with("plugins", json!({"key-auht": {}})),
            "unknown plugin [key-auht]",
            Some("did you mean \"key-auth\"?"),
        ),
        (
            with(
                "plugins",
                json!({"limit-count": {"count": 1, "time_window": 1, "policy": "locl"}}),
            ),
            "failed to check the configuration of plugin limit-count err: property \"policy\" \
             validation failed: matches none of the enum values",
            Some("did you mean \"local\"?"),
        ),
        (
            with("methods", json!(["FETCH"])),
            "invalid configuration: property \"methods\" validation failed: failed to validate item \
             1: matches none of the enum values",
            Some("did you mean \"PATCH\"?"),
        ),
        (with("uri", json!(5)), "", None),
    ];
    for (object, error, hint) in table {
        let answer = fixture.put("/routes/1", &object).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(error.is_empty() || answer.error() == error, "{answer:?}");
        assert_eq!(answer.json().get("hint").and_then(Value::as_str), hint, "{answer:?}");
        let document = json!({"routes": [object]});
        let answer = fixture.call("POST", "/configs/validate", document.to_string()).await;
        assert_eq!(answer.json()["errors"][0]["hint"].as_str(), hint, "{answer:?}");
    }
}
