//! `/schema`, `/plugins`, and the OpenAPI document.

use super::*;

#[tokio::test]
async fn schemas_of_objects_are_shown() {
    let fixture = Fixture::new().await;
    for name in tollhouse_model::schema::core_names() {
        let answer = fixture.get(&format!("/schema/{name}")).await;
        assert_eq!(answer.status, 200, "{name}");
        assert!(answer.json().is_object(), "{name}");
    }
    for (name, fields) in [
        ("ssl", json!(["key", "keys"])),
        ("upstream", json!(["tls.client_key"])),
        ("route", json!(["upstream.tls.client_key"])),
        ("secret_vault", json!(["token"])),
        ("secret_gcp", json!(["auth_config.private_key"])),
        ("proto", json!(null)),
    ] {
        let schema = fixture.get(&format!("/schema/{name}")).await.json();
        assert_eq!(schema["encrypt_fields"], fields, "{name}");
    }
    let answer = fixture.get("/schema/nothing").await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "not found schema: nothing"));
    assert_eq!(answer.header("x-api-version"), "v3");
}

#[tokio::test]
async fn schemas_validate_without_looking_further() {
    let fixture = Fixture::new().await;
    let table = [
        ("routes", r#"{"uri":"/a","upstream_id":"9"}"#, 200, ""),
        ("route", r#"{"uri":"/a","plugins":{"none":{}}}"#, 200, ""),
        (
            "routes",
            r#"{"uri":7,"plugins":{}}"#,
            400,
            "property \"uri\" validation failed: wrong type: expected string, got number",
        ),
        ("consumers", "{}", 400, "property \"username\" is required"),
        ("nothing", "{}", 404, "Unsupported resource type: nothing"),
        ("routes", "", 400, "wrong type: expected object, got nil"),
    ];
    for (name, body, status, expected) in table {
        let answer = fixture.call("POST", &format!("/schema/validate/{name}"), body).await;
        assert_eq!(answer.status, status, "{name} {body}: {answer:?}");
        if status == 200 {
            assert_eq!(answer.text, "", "{name}");
        } else {
            assert_eq!(answer.error(), expected, "{name} {body}");
        }
    }
    let answer = fixture.call("POST", "/schema/validate/routes", "{").await;
    assert!(answer.error().starts_with("invalid request body: "), "{answer:?}");
}

#[tokio::test]
async fn plugins_are_listed_by_priority() {
    let fixture = Fixture::new().await;
    let names = fixture.get("/plugins/list").await.json();
    let names: Vec<&str> =
        names.as_array().expect("it is a list").iter().filter_map(Value::as_str).collect();
    let catalogue = tollhouse_plugins::catalogue();
    let priority = |name: &&str| catalogue.get(name).map(|plugin| -plugin.priority);
    assert!(names.contains(&"key-auth") && names.is_sorted_by_key(priority), "{names:?}");
    let stream = fixture.get("/plugins/list?subsystem=stream").await.json();
    let stream = stream.as_array().expect("it is a list").clone();
    assert!(!stream.contains(&json!("key-auth")), "{stream:?}");
    let answer = fixture.get("/plugins/list?subsystem=other").await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "unsupported subsystem: other"));
}

#[tokio::test]
async fn a_plugin_shows_its_schemas() {
    let fixture = Fixture::new().await;
    for path in ["/plugins/key-auth", "/schema/plugins/key-auth"] {
        let schema = fixture.get(path).await.json();
        assert_eq!(schema["properties"]["header"]["default"], "apikey", "{path}");
        assert!(schema["properties"]["_meta"]["properties"].is_object(), "{path}");
        assert_eq!(schema["$comment"], "this is a mark for our injected plugin schema", "{path}");
        assert_eq!(schema.get("encrypt_fields"), None, "{path}");
        let schema = fixture.get(&format!("{path}?schema_type=consumer")).await.json();
        assert_eq!(schema["required"], json!(["key"]), "{path}");
        assert_eq!(schema["encrypt_fields"], json!(["key"]), "{path}");
        assert_eq!(schema.get("$comment"), None, "{path}");
    }
    for query in ["", "?subsystem=http"] {
        let answer = fixture.get(&format!("/plugins/nothing{query}")).await;
        let expected = "plugin not found in subsystem http";
        assert_eq!((answer.status, answer.error().as_str()), (404, expected));
    }
    let answer = fixture.get("/plugins/key-auth?subsystem=stream").await;
    assert_eq!(answer.error(), "plugin not found in subsystem stream");
    assert_eq!(fixture.get("/plugins").await.status, 404);
    assert_eq!(fixture.get("/plugins/cors?schema_type=consumer").await.error(), "not found schema");
}

#[tokio::test]
async fn a_plugin_for_connections_alone_is_none_of_http() {
    let fixture = Fixture::new().await;
    for subsystem in ["http", "stream"] {
        let names = fixture.get(&format!("/plugins/list?subsystem={subsystem}")).await.json();
        let is_listed = names.as_array().expect("it is a list").contains(&json!("mqtt-proxy"));
        assert_eq!(is_listed, subsystem == "stream", "{names:?}");
    }
    let answer = fixture.get("/plugins/mqtt-proxy").await;
    assert_eq!(
        (answer.status, answer.error().as_str()),
        (404, "plugin not found in subsystem http")
    );
    assert_eq!(fixture.get("/plugins/mqtt-proxy?subsystem=stream").await.status, 200);
    let plugins = json!({"mqtt-proxy": {"protocol_level": 4}});
    let answer = fixture.put("/routes/1", &json!({"uri": "/a", "plugins": plugins})).await;
    assert_eq!((answer.status, answer.error().as_str()), (400, "unknown plugin [mqtt-proxy]"));
    assert_eq!(fixture.put("/stream_routes/1", &json!({"plugins": plugins})).await.status, 201);
}

#[tokio::test]
async fn everything_about_all_plugins_is_one_map() {
    let fixture = Fixture::new().await;
    let all = fixture.get("/plugins?all=true").await.json();
    let key_auth = &all["key-auth"];
    assert_eq!((&key_auth["version"], &key_auth["priority"]), (&json!(0.1), &json!(2500)));
    assert_eq!(key_auth["type"], "auth");
    assert!(key_auth["consumer_schema"].is_object() && key_auth["schema"].is_object());
    let stream = fixture.get("/plugins?all=true&subsystem=stream").await.json();
    assert!(stream.get("key-auth").is_none());
}

#[tokio::test]
async fn plugins_are_reloaded_by_put_alone() {
    let fixture = Fixture::new().await;
    let answer = fixture.call("PUT", "/plugins/reload", "").await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "done"));
    for method in ["GET", "POST", "DELETE", "PATCH"] {
        let answer = fixture.call(method, "/plugins/reload", "").await;
        let expected =
            format!("please use PUT method to reload the plugins, {method} method is not allowed.");
        assert_eq!((answer.status, answer.error()), (405, expected));
    }
}

/// Regenerated by `UPDATE_EXPECT=1`.
#[tokio::test]
async fn the_openapi_document_is_the_one_in_the_reference() {
    let fixture = Fixture::new().await;
    let served = fixture.get("/openapi.json").await.json();
    let mut text = serde_json::to_string_pretty(&served).expect("it is JSON");
    text.push('\n');
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(golden, &text).expect("the reference can be written");
    }
    let expected = std::fs::read_to_string(golden).unwrap_or_default();
    assert!(expected == text, "run with UPDATE_EXPECT=1 to write docs/reference/openapi.json");
}

#[test]
fn every_reference_in_the_openapi_document_leads_somewhere() {
    let document = crate::openapi_document();
    let mut waiting = vec![&document];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.trim_start_matches('#');
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                waiting.extend(fields.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    let mut identifiers: Vec<&Value> = document["paths"]
        .as_object()
        .expect("there are paths")
        .values()
        .flat_map(|methods| methods.as_object().expect("there are methods").values())
        .map(|operation| &operation["operationId"])
        .collect();
    let count = identifiers.len();
    identifiers.sort_by_key(|identifier| identifier.as_str());
    identifiers.dedup();
    assert_eq!(identifiers.len(), count, "operations have names of their own");
}
