//! Users and groups that get the right to what is created for them.

use super::*;

/// Creates a user without rights; returns its id and token.
async fn user(server: &Server, name: &str) -> (String, String) {
    let user = json!([{"name": name, "password": "pass word"}]);
    let created = server.post("/core/v1/users", &user).await.json();
    let id = created["responses"][0]["user"]["id"].as_str().expect("an id").to_owned();
    let shown = server.get(&format!("/core/v1/user/token?id={id}")).await.json();
    (id, shown["user"]["auth_token"].as_str().expect("a token").to_owned())
}

async fn write_as(server: &Server, token: &str, path: &str, body: &Value) -> u64 {
    let headers = format!("content-type: application/json\r\nx-polaris-token: {token}\r\n");
    server.send("PUT", path, &headers, &body.to_string()).await.code()
}

#[tokio::test]
async fn a_user_may_use_what_was_created_for_it() {
    let server = Server::start().await;
    let (id, token) = user(&server, "alice").await;
    let namespace = json!([{"name": "ns", "user_ids": [id]}, {"name": "other"}]);
    assert_eq!(server.post("/naming/v1/namespaces", &namespace).await.code(), 200_000);
    let service = json!([{"name": "svc", "namespace": "other", "user_ids": [id]}]);
    assert_eq!(server.post("/naming/v1/services", &service).await.code(), 200_000);
    let group = json!({"name": "g", "namespace": "other", "user_ids": [id]});
    assert_eq!(server.post("/config/v1/configfilegroups", &group).await.code(), 200_000);
    let policies = server
        .get(&format!(
            "/core/v1/auth/strategies?principal_id={id}&principal_type=1&show_detail=true"
        ))
        .await;
    let resources = &policies.json()["authStrategies"][0]["resources"];
    assert_eq!(resources["namespaces"][0]["id"], "ns", "{}", policies.text);
    assert_eq!(resources["services"].as_array().map(Vec::len), Some(1), "{}", policies.text);
    assert_eq!(resources["config_groups"].as_array().map(Vec::len), Some(1), "{}", policies.text);
    let others = json!([{"name": "other", "comment": "c"}]);
    assert_ne!(write_as(&server, &token, "/naming/v1/namespaces", &others).await, 200_000);
}

#[tokio::test]
async fn unknown_grantees_are_refused_before_anything_is_created() {
    let server = Server::start().await;
    for (field, code) in [("user_ids", 400_312), ("group_ids", 400_314)] {
        let namespace = json!([{"name": "ns", field: ["nobody"]}]);
        assert_eq!(server.post("/naming/v1/namespaces", &namespace).await.code(), code, "{field}");
        let group = json!({"name": "g", "namespace": "default", field: ["nobody"]});
        assert_eq!(server.post("/config/v1/configfilegroups", &group).await.code(), code);
    }
    let listed = server.get("/naming/v1/namespaces?name=ns").await.json();
    assert_eq!(listed["amount"], 0);
}

#[tokio::test]
async fn calls_about_the_server_take_a_right_to_all_namespaces() {
    let server = Server::start().await;
    let (own, narrow) = user(&server, "alice").await;
    let (all, wide) = user(&server, "chief").await;
    let namespace = json!([{"name": "ns", "user_ids": [own]}]);
    assert_eq!(server.post("/naming/v1/namespaces", &namespace).await.code(), 200_000);
    let policy = json!({
        "name": "everything", "action": "READ_WRITE", "principals": {"users": [{"id": all}]},
        "resources": {"namespaces": [{"id": "*"}]},
    });
    let made = server.post("/core/v1/auth/strategy", &policy).await;
    assert_eq!(made.code(), 200_000, "{}", made.text);
    for (token, is_allowed) in [(narrow, false), (wide, true)] {
        let headers = format!("content-type: application/json\r\nx-polaris-token: {token}\r\n");
        for (method, path) in [
            ("GET", "/maintain/v1/apiserver/conn?protocol=service-grpc"),
            ("GET", "/maintain/v1/report/clients"),
            ("GET", "/maintain/v1/cmdb/info"),
            ("GET", "/core/v1/auth/rehearsal"),
            ("POST", "/maintain/v1/apiserver/conn/close"),
            ("PUT", "/maintain/v1/log/outputlevel"),
        ] {
            let body = if method == "GET" { "" } else { "{}" };
            let answer = server.send(method, path, &headers, body).await;
            let is_refused = answer.text.contains("401") || answer.text.contains("not approved");
            assert_ne!(is_refused, is_allowed, "{method} {path}: {}", answer.text);
        }
    }
}
