//! Tests of the rights of users without the role `super`.

use serde_json::{Value, json};

use super::Fixture;

/// Logs in a new user of a role with these permissions; the fixture uses that user's token from
/// then on. Returns the user's id and the fixture's previous token.
async fn become_user(fixture: &mut Fixture, permissions: &[&str]) -> (String, String) {
    let role = json!({"roleName": "some", "currentPermissionIds": permissions});
    fixture.expect("POST", "/role", &role, "create success").await;
    let roles = fixture.expect("GET", "/role?roleName=some", &Value::Null, "query success").await;
    let user = json!({"userName": "clerk", "password": "secret1", "enabled": true,
        "roles": [roles["dataList"][0]["id"]]});
    fixture.expect("POST", "/dashboardUser", &user, "create success").await;
    let path = "/dashboardUser?userName=clerk";
    let users = fixture.expect("GET", path, &Value::Null, "query success").await;
    let id = users["dataList"][0]["id"].as_str().expect("an id").to_owned();
    let token = fixture.log_in("clerk", "secret1").await.expect("the new user");
    (id, std::mem::replace(&mut fixture.token, token))
}

#[tokio::test]
async fn a_role_permits_what_its_permissions_name() {
    let mut fixture = Fixture::new().await;
    let (selector, _) = fixture.pair().await;
    become_user(
        &mut fixture,
        &["plugin:divideSelector:add", "plugin:divideRule:edit", "system:meta:add"],
    )
    .await;
    let on = |id: &str| json!({"ids": [id], "enabled": true});
    let cases = [
        ("POST", "/selector", json!({"pluginId": "5", "name": "a"}), 200),
        ("POST", "/selector", json!({"pluginId": "2", "name": "a"}), 601),
        ("PUT", "/selector/x", json!({"pluginId": "5", "name": "a"}), 601),
        ("POST", "/selector/batchEnabled", on(&selector), 601),
        ("POST", "/rule", json!({"selectorId": selector, "name": "a"}), 601),
        (
            "POST",
            "/meta-data/createOrUpdate",
            json!({"appName": "a", "path": "/a", "rpcType": "grpc",
            "serviceName": "S", "methodName": "m"}),
            200,
        ),
        ("POST", "/meta-data/batchEnabled", on("1"), 601),
        ("GET", "/appAuth/findPageByQuery", Value::Null, 601),
        ("GET", "/appAuth/updateSk?appKey=a&appSecret=b", Value::Null, 601),
        ("GET", "/role", Value::Null, 601),
        ("POST", "/configs/import", json!({}), 601),
        ("POST", "/discovery-upstream", json!({}), 601),
    ];
    for (method, path, body, code) in cases {
        let answer = fixture.call(method, path, &body).await;
        assert_eq!(answer["code"], code, "{method} {path}: {answer}");
    }
    let told = fixture.expect(
        "GET",
        "/permission/getUserPermissionByToken",
        &Value::Null,
        "get menu and permission success",
    );
    let told = told.await;
    assert_eq!(told["currentAuth"].as_array().map(Vec::len), Some(3), "{told}");
}

#[tokio::test]
async fn a_rule_of_another_plugin_is_not_reached_by_naming_two() {
    let mut fixture = Fixture::new().await;
    let waf = json!({"pluginId": "2", "name": "w"});
    let waf = fixture.expect("POST", "/selector", &waf, "create success").await;
    become_user(&mut fixture, &["plugin:divideSelector:edit"]).await;
    let path = format!("/selector/{}", waf.as_str().expect("an id"));
    // Moving a selector to another plugin needs the permissions for both plugins.
    let answer = fixture.call("PUT", &path, &json!({"pluginId": "5", "name": "w"})).await;
    assert_eq!(answer["code"], 601, "{answer}");
}

#[tokio::test]
async fn data_permissions_narrow_what_a_user_sees_and_changes() {
    let mut fixture = Fixture::new().await;
    let (selector, rule) = fixture.pair().await;
    let other = json!({"pluginId": "5", "name": "other"});
    let other = fixture.expect("POST", "/selector", &other, "create success").await;
    let other = other.as_str().expect("an id").to_owned();
    let verbs = ["plugin:divideSelector:add", "plugin:divideSelector:edit"];
    let (user, superior) = become_user(&mut fixture, &verbs).await;
    let clerk = std::mem::replace(&mut fixture.token, superior);
    let permit = json!({"userId": user, "dataId": selector, "dataType": 0});
    fixture.expect("POST", "/data-permission/selector", &permit, "save success").await;
    let path = format!("/data-permission/rules?userId={user}&selectorId={selector}");
    let rules = fixture.expect("GET", &path, &Value::Null, "query success").await;
    let expected = json!({"dataId": rule, "dataName": "r", "isChecked": true});
    assert_eq!(rules["dataList"][0], expected, "the selector's rules come with it");
    fixture.token = clerk;
    let list = fixture.expect("GET", "/selector", &Value::Null, "query success").await;
    assert_eq!(list["page"]["totalCount"], 1);
    assert_eq!(fixture.call("GET", &format!("/selector/{other}"), &Value::Null).await["code"], 500);
    let change = json!({"pluginId": "5", "name": "x"});
    for (id, code) in [(&selector, 200), (&other, 601)] {
        let answer = fixture.call("PUT", &format!("/selector/{id}"), &change).await;
        assert_eq!(answer["code"], code, "{answer}");
    }
    // A user may see the rows that the user creates.
    fixture
        .expect("POST", "/selector", &json!({"pluginId": "5", "name": "mine"}), "create success")
        .await;
    let list = fixture.expect("GET", "/selector", &Value::Null, "query success").await;
    assert_eq!(list["page"]["totalCount"], 2);
}

#[tokio::test]
async fn users_change_their_own_password_and_no_other() {
    let mut fixture = Fixture::new().await;
    let (user, _) = become_user(&mut fixture, &[]).await;
    let change = json!({"oldPassword": "secret1", "password": "secret2"});
    let answer = fixture.call("PUT", "/dashboardUser/modify-password/1", &change).await;
    assert_eq!(answer["code"], 601, "{answer}");
    let path = format!("/dashboardUser/modify-password/{user}");
    let wrong = json!({"oldPassword": "wrong", "password": "secret2"});
    assert_eq!(fixture.call("PUT", &path, &wrong).await["code"], 500);
    fixture.expect("PUT", &path, &change, "update success").await;
    assert_eq!(fixture.call("GET", "/selector", &Value::Null).await["code"], 600, "the old token");
    assert!(fixture.log_in("clerk", "secret2").await.is_some());
}

#[tokio::test]
async fn the_role_that_may_everything_is_not_made_twice() {
    let fixture = Fixture::new().await;
    let answer = fixture.call("POST", "/role", &json!({"roleName": "super"})).await;
    assert_eq!(answer["message"], "can not create super role");
}

#[tokio::test]
async fn who_may_only_read_sees_no_secret_and_who_may_change_them_does() {
    let mut fixture = Fixture::new().await;
    let app = json!({"appKey": "A1", "appSecret": "hush", "open": false});
    fixture.expect("POST", "/appAuth", &app, "create success").await;
    let config = r#"{"mode":"standalone","url":"a:1","password":"hush"}"#;
    fixture.expect("PUT", "/plugin/4", &json!({"config": config}), "update success").await;
    let selector = json!({"pluginId": "40", "name": "keys"});
    let selector = fixture.expect("POST", "/selector", &selector, "create success").await;
    let handle = r#"{"keyName":"apiKey","key":"hush"}"#;
    let rule = json!({"selectorId": selector, "name": "keys", "handle": handle});
    fixture.expect("POST", "/rule", &rule, "create success").await;
    let superior = fixture.token.clone();
    let readers = &["system:authen:list"];
    let editors = &[
        "system:authen:list",
        "system:authen:edit",
        "system:plugin:edit",
        "plugin:keyAuthRule:edit",
    ];
    let paths = [
        "/appAuth/findPageByQuery",
        "/appAuth/detail?id=A1",
        "/plugin",
        "/plugin/all",
        "/plugin/4",
        "/namespace-plugin/4",
        "/rule",
        "/rule/list/search",
    ];
    let searches = |path: &str| if path.ends_with("search") { "POST" } else { "GET" };
    for (permissions, sees) in [(&readers[..], false), (&editors[..], true)] {
        fixture.token = superior.clone();
        for (path, name) in [("/role", "roleName"), ("/dashboardUser", "userName")] {
            let list = fixture.call("GET", path, &Value::Null).await;
            let rows = list["data"]["dataList"].as_array().expect("a list");
            let made = rows
                .iter()
                .filter(|row| ["some", "clerk"].contains(&row[name].as_str().unwrap_or_default()));
            let ids: Vec<&Value> = made.map(|row| &row["id"]).collect();
            if !ids.is_empty() {
                let path = format!("{path}/batch");
                fixture.expect("DELETE", &path, &json!(ids), "delete success").await;
            }
        }
        become_user(&mut fixture, permissions).await;
        for path in paths {
            let body = json!({"pageNum": 1, "pageSize": 100, "condition": {}});
            let answer = fixture.call(searches(path), path, &body).await;
            assert_eq!(answer["code"], 200, "{path}: {answer}");
            assert_eq!(answer.to_string().contains("hush"), sees, "{path}: {answer}");
            assert_eq!(answer.to_string().contains("******"), !sees, "{path}: {answer}");
        }
    }
}
