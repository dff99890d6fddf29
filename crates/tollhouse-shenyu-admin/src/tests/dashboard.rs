//! Tests of the calls of ShenYu's console and of its end-to-end test client, in their exact form,
//! and of the parts of the answers that they read.

use serde_json::{Value, json};

use super::{Fixture, NAMESPACE};

async fn get(fixture: &Fixture, path: &str) -> Value {
    fixture.call("GET", path, &Value::Null).await["data"].clone()
}

fn condition(members: Value) -> Value {
    json!({"pageNum": 1, "pageSize": 10, "condition": members})
}

#[tokio::test]
async fn what_was_made_is_found_again_by_a_search() {
    let fixture = Fixture::new().await;
    let selector = json!({"pluginId": "5", "name": "e2e-http", "type": "1", "matchMode": "0",
        "enabled": true, "namespaceId": NAMESPACE});
    fixture.expect("POST", "/selector", &selector, "create success").await;
    let path = "/selector/list/search";
    let meant = json!({"keyword": "e2e", "plugins": ["5"], "switchStatus": true,
        "namespaceId": NAMESPACE});
    let found = fixture.expect("POST", path, &condition(meant), "query success").await;
    assert_eq!((&found["total"], &found["pages"]), (&json!(1), &json!(1)), "{found}");
    let id = found["list"][0]["id"].as_str().expect("an id").to_owned();
    let rule = json!({"selectorId": id, "name": "r", "matchMode": "0", "namespaceId": NAMESPACE});
    fixture.expect("POST", "/rule", &rule, "create success").await;
    for (path, members, total) in [
        ("/selector/list/search", json!({"plugins": ["2"]}), 0),
        ("/selector/list/search", json!({"plugin": ["5", "2"]}), 1),
        ("/selector/list/search", json!({"switchStatus": false}), 0),
        ("/selector/list/search", json!({"excluded": [id]}), 0),
        ("/rule/list/search", json!({"selectors": [id], "switchStatus": true}), 1),
        ("/rule/list/search", json!({"selectors": ["x"]}), 0),
        ("/rule/list/search", json!({"keyword": "nothing"}), 0),
    ] {
        let body = condition(members.clone());
        let found = fixture.expect("POST", path, &body, "query success").await;
        assert_eq!(found["total"], total, "{path} {members}");
        let adaptor = format!("{path}/adaptor");
        let pager = fixture.expect("POST", &adaptor, &body, "query success").await;
        assert_eq!(pager["page"]["totalCount"], total, "{path} {members}");
    }
    let gone = json!({"ids": [id], "namespaceId": NAMESPACE});
    let count = fixture.expect("DELETE", "/selector/batch", &gone, "delete success").await;
    assert_eq!(count, 1);
    let missed = fixture.call("GET", &format!("/selector/{id}"), &Value::Null).await;
    assert_eq!(missed["code"], 500, "{missed}");
    assert!(missed["message"].as_str().unwrap().contains("selector is not existed"), "{missed}");
}

#[tokio::test]
async fn plugins_are_narrowed_by_whether_they_are_on_as_a_number_too() {
    let fixture = Fixture::new().await;
    let total = |data: Value| data["page"]["totalCount"].as_u64().unwrap();
    let all = total(get(&fixture, "/plugin?enabled=").await);
    for (on, off) in [("1", "0"), ("true", "false")] {
        let on = total(get(&fixture, &format!("/plugin?enabled={on}")).await);
        let off = total(get(&fixture, &format!("/plugin?enabled={off}")).await);
        assert!(on > 0 && off > 0 && on + off == all, "{on} and {off} of {all}");
    }
}

/// Returns the paths of a menu tree.
fn paths(menus: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for menu in menus.as_array().into_iter().flatten() {
        found.push(menu["url"].as_str().unwrap_or_default().to_owned());
        found.extend(paths(&menu["children"]));
    }
    found
}

fn permissions(told: &Value, member: &str) -> Vec<String> {
    let told = told[member].as_array().into_iter().flatten();
    told.map(|it| it["perms"].as_str().unwrap_or_default().to_owned()).collect()
}

const TOLD: &str = "/permission/getUserPermissionByToken?token=any";

#[tokio::test]
async fn a_console_finds_its_pages_and_buttons_under_its_own_names() {
    let fixture = Fixture::new().await;
    let told = get(&fixture, TOLD).await;
    let paths = paths(&told["menu"]);
    for path in [
        "/plug",
        "/plug/divide",
        "/config",
        "/config/plugin",
        "/config/pluginhandle",
        "/config/auth",
        "/config/metadata",
        "/config/dict",
        "/config/namespace",
        "/config/namespacePlugin",
        "/system",
        "/system/manage",
        "/system/role",
        "/system/resource",
    ] {
        assert!(paths.iter().any(|it| it == path), "{path} among {paths:?}");
    }
    let held = permissions(&told, "currentAuth");
    for permission in [
        "plugin:divideSelector:add",
        "plugin:divideRule:query",
        "plugin:divide:modify",
        "system:manager:add",
        "system:manager:configureDataPermission",
        "system:role:edit",
        "system:resource:addButton",
        "system:authen:editResourceDetails",
        "system:pluginHandler:list",
        "system:namespacePlugin:modify",
        "system:manager:exportConfig",
        "system:manager:importConfig",
    ] {
        assert!(held.iter().any(|it| it == permission), "{permission}");
    }
    assert_eq!(told["menu"][0]["meta"]["title"], "SHENYU.MENU.PLUGIN.LIST");
    let of_namespace = format!("/permission/getUserPermissionByNamespace?namespaceId={NAMESPACE}");
    assert_eq!(get(&fixture, &of_namespace).await, told, "2.7.1 asks for it after a login");
    let enums = get(&fixture, "/platform/enum").await;
    for name in ["operatorEnums", "paramTypeEnums", "pluginTypeEnums", "serializeEnums"] {
        let first = &enums[name][0];
        assert!(first["code"].is_null() && first["name"].is_string(), "{name}: {first}");
    }
    for (name, code, value) in [
        ("selectorTypeEnums", 1, "custom"),
        ("matchModeEnums", 0, "and"),
        ("wafEnums", 0, "reject"),
        ("loadBalanceEnums", 2, "random"),
        ("hystrixIsolationModeEnums", 1, "semaphore"),
        ("pluginEnums", 200, "divide"),
    ] {
        let all = enums[name].as_array().expect(name);
        assert!(all.iter().any(|it| it["code"] == code && it["name"] == value), "{name}: {all:?}");
    }
    assert!(enums["rpcTypeEnums"].as_array().unwrap().iter().any(|it| it["name"] == "grpc"));
}

/// Logs in a new user of a role with these permissions. The user is created as consoles do, which
/// write the same `role` for every user.
async fn clerk(fixture: &mut Fixture, permissions: &[&str]) {
    let role = json!({"roleName": "some", "description": "", "currentPermissionIds": permissions});
    fixture.expect("POST", "/role", &role, "create success").await;
    let roles = get(fixture, "/role/getAllRoles").await;
    let role = roles.as_array().unwrap().iter().find(|it| it["roleName"] == "some").unwrap();
    let user = json!({"userName": "clerk", "password": "secret1", "enabled": true,
        "roles": [role["id"]], "role": 1});
    fixture.expect("POST", "/dashboardUser", &user, "create success").await;
    fixture.token = fixture.log_in("clerk", "secret1").await.expect("the new user");
}

#[tokio::test]
async fn a_user_that_a_console_makes_has_what_its_roles_permit_and_no_more() {
    let mut fixture = Fixture::new().await;
    let held = ["plugin:divideSelector:add", "system:namespacePlugin:disable"];
    clerk(&mut fixture, &held).await;
    for path in ["/dashboardUser", "/role", "/configs/export"] {
        assert_eq!(fixture.call("GET", path, &Value::Null).await["code"], 601, "{path}");
    }
    let told = get(&fixture, TOLD).await;
    let mut shown = paths(&told["menu"]);
    shown.sort();
    assert_eq!(shown, ["/config", "/config/namespacePlugin", "/plug", "/plug/divide"]);
    assert_eq!(permissions(&told, "currentAuth"), held);
    let off = json!({"ids": ["5"], "enabled": false, "namespaceId": NAMESPACE});
    fixture.expect("POST", "/namespace-plugin/enabled", &off, "enable success").await;
    assert_eq!(fixture.call("POST", "/plugin", &off).await["code"], 601);
}

#[tokio::test]
async fn menus_and_buttons_are_added_granted_and_taken_out() {
    let mut fixture = Fixture::new().await;
    let menu = json!({"parentId": "", "title": "own", "name": "own", "url": "/own",
        "component": "own", "resourceType": 0, "sort": 9, "icon": "api", "isRoute": 0});
    fixture.expect("POST", "/resource", &menu, "create success").await;
    let found = get(&fixture, "/resource?title=own&currentPage=1&pageSize=12").await;
    let id = found["dataList"][0]["id"].as_str().expect("an id").to_owned();
    let button = json!({"parentId": id, "title": "enable", "resourceType": 2, "isLeaf": true,
        "perms": "system:plugin:disable"});
    fixture.expect("POST", "/resource", &button, "create success").await;
    let buttons = get(&fixture, &format!("/resource/button?id={id}")).await;
    assert_eq!(buttons[0]["perms"], "system:plugin:disable");
    let renamed = json!({"title": "renamed"});
    fixture.expect("PUT", &format!("/resource/{id}"), &renamed, "update success").await;
    let one = get(&fixture, &format!("/resource/{id}")).await;
    assert_eq!((&one["title"], &one["url"]), (&json!("renamed"), &json!("/own")));
    let refused = fixture.call("PUT", "/resource/system:role", &renamed).await;
    assert_eq!(refused["code"], 500, "those of the console stay: {refused}");
    // A user who holds the button has the permission that it names.
    let superior = fixture.token.clone();
    clerk(&mut fixture, &[buttons[0]["id"].as_str().unwrap()]).await;
    let off = json!({"ids": ["5"], "enabled": false});
    fixture.expect("POST", "/plugin/enabled", &off, "enable success").await;
    let shown = paths(&get(&fixture, TOLD).await["menu"]);
    assert_eq!(shown, ["/config", "/config/plugin", "/own"]);
    let token = std::mem::replace(&mut fixture.token, superior);
    let count = fixture.expect("DELETE", "/resource/batch", &json!([id]), "delete success").await;
    assert_eq!(count, 2, "the button goes with its menu");
    fixture.token = token;
    assert_eq!(fixture.call("POST", "/plugin/enabled", &off).await["code"], 601);
}

#[tokio::test]
async fn whoever_has_the_password_of_the_manual_is_asked_for_another() {
    let mut fixture = Fixture::new().await;
    let path = "/dashboardUser/check/password";
    let told = fixture.call("GET", path, &Value::Null).await;
    assert_eq!(told["code"], 500, "{told}");
    assert!(told["message"].as_str().unwrap().contains("choose another"), "{told}");
    clerk(&mut fixture, &[]).await;
    fixture.expect("GET", path, &Value::Null, "success").await;
}

#[tokio::test]
async fn plugins_of_the_first_namespace_are_found_by_the_ids_that_scripts_of_shenyu_know() {
    let fixture = Fixture::new().await;
    let body = json!({"pluginId": "8", "name": "springCloud", "enabled": "true", "role": "Proxy",
        "sort": "200", "namespaceId": NAMESPACE, "config": "{}"});
    let path = "/namespace-plugin/1801816010882822185";
    fixture.expect("PUT", path, &body, "update success").await;
    let one = fixture.expect("GET", path, &Value::Null, "detail success").await;
    assert_eq!((&one["name"], &one["enabled"]), (&json!("springCloud"), &json!(true)));
    let sync = "/namespace-plugin/syncPluginData?id=1801816010882822145";
    fixture.expect("PUT", sync, &Value::Null, "sync success").await;
    let later = json!({"code": 200, "name": "aiProxy"});
    let found = fixture.call("GET", "/namespace-plugin/1801816010882822187", &Value::Null).await;
    assert_eq!((&found["code"], &found["data"]["name"]), (&later["code"], &later["name"]));
    for unknown in ["1801816010882822144", "1801816010882822191", "18446744073709551616"] {
        let path = format!("/namespace-plugin/{unknown}");
        assert_eq!(fixture.call("GET", &path, &Value::Null).await["code"], 500, "{unknown}");
    }
}

#[tokio::test]
async fn a_new_admin_has_the_fields_of_its_plugins_forms() {
    let fixture = Fixture::new().await;
    let rules = get(&fixture, "/plugin-handle/all/4/2").await;
    let field = rules.as_array().unwrap().iter().find(|it| it["field"] == "algorithmName");
    assert_eq!(field.expect("a field")["dataType"], 3);
    let choices = get(&fixture, "/shenyu-dict/all/algorithmName").await;
    assert_eq!(choices.as_array().map(Vec::len), Some(4));
    let options = &field.expect("a field")["dictOptions"];
    assert_eq!(options.as_array().map(Vec::len), Some(4), "forms choose from these: {options}");
    for field in rules.as_array().unwrap() {
        assert_eq!(field["dictOptions"].is_null(), field["dataType"] != 3, "{field}");
    }
    let modes = get(&fixture, "/shenyu-dict/all/discoveryMode").await;
    for mode in modes.as_array().unwrap() {
        let settings = mode["dictValue"].as_str().expect("a text");
        let settings: Value = serde_json::from_str(settings).expect("a console reads it as JSON");
        assert!(settings.is_object(), "{mode}");
    }
    let plugins = format!("/namespace-plugin?namespaceId={NAMESPACE}&currentPage=1&pageSize=50");
    let plugins = get(&fixture, &plugins).await;
    let divide = plugins["dataList"].as_array().unwrap().iter().find(|it| it["name"] == "divide");
    let divide = divide.expect("a plugin");
    assert_eq!(divide["pluginRelId"], divide["id"]);
    assert!(divide["pluginHandleList"].is_array(), "{divide}");
    for (plugin, name) in [(9, "hystrix"), (23, "modifyResponse")] {
        let built_in = get(&fixture, &format!("/plugin-handle/all/{plugin}/2")).await;
        assert_eq!(built_in, json!([]), "{name} has a form of the console's own");
    }
    let config = get(&fixture, "/plugin-handle/all/33/3").await;
    assert!(config.as_array().unwrap().iter().any(|it| it["field"] == "topic"), "{config}");
}

#[tokio::test]
async fn documents_of_interfaces_are_found_by_their_tags_and_go_off_line_with_their_service() {
    let fixture = Fixture::new().await;
    let document = |path: &str, event: &str| {
        json!({"contextPath": "/shop", "apiPath": path, "httpMethod": 0, "consume": "*/*",
            "produce": "*/*", "version": "v0.01", "rpcType": "http", "state": 1, "ext": "{}",
            "apiOwner": "joe", "apiDesc": "finds", "apiSource": 1, "document": "{}",
            "eventType": event, "tags": ["orders", "shop"]})
    };
    let path = "/shenyu-client/register-apiDoc";
    // A second registration of an interface adds no second document.
    for api in ["/shop/find", "/shop/find", "/shop/save"] {
        assert_eq!(fixture.call("POST", path, &document(api, "REGISTER")).await, "success");
    }
    let roots = get(&fixture, "/tag/queryRootTag").await;
    let names: Vec<&str> =
        roots.as_array().unwrap().iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    assert!(names.len() == 2 && names.contains(&"orders"), "{roots}");
    assert_eq!(roots[0]["hasChildren"], false);
    let tag = roots[0]["id"].as_str().unwrap();
    let page = format!("/api?tagId={tag}&currentPage=0&pageSize=100");
    let found = fixture.expect("GET", &page, &Value::Null, "query success").await;
    assert_eq!(found["page"]["totalCount"], 2, "{found}");
    assert_eq!(found["dataList"][0]["tags"].as_array().map(Vec::len), Some(2));
    let id = found["dataList"][0]["id"].as_str().unwrap();
    let one = fixture.expect("GET", &format!("/api/{id}"), &Value::Null, "detail success").await;
    assert_eq!((&one["apiOwner"], &one["state"]), (&json!("joe"), &json!(1)));
    let menus = get(&fixture, "/apidoc/getDocMenus").await;
    assert_eq!(menus["menuProjects"][0]["label"], "/shop");
    assert_eq!(menus["gatewayUrl"], menus["envProps"][0]["addressUrl"]);
    let gone = document("/shop/find", "OFFLINE");
    assert_eq!(fixture.call("POST", path, &gone).await, "success");
    assert_eq!(get(&fixture, &format!("/api/{id}")).await["state"], 2);
    let refused = fixture.call("POST", path, &json!({"contextPath": "/shop"})).await;
    assert_eq!(refused["code"], 500, "{refused}");
}

#[tokio::test]
async fn tags_form_a_tree_and_documents_are_written_by_operators_too() {
    let mut fixture = Fixture::new().await;
    fixture.expect("POST", "/tag", &json!({"name": "top", "tagDesc": "t"}), "create success").await;
    let top = get(&fixture, "/tag/queryRootTag").await[0]["id"].as_str().unwrap().to_owned();
    let below = json!({"name": "below", "tagDesc": "", "parentTagId": top});
    fixture.expect("POST", "/tag", &below, "create success").await;
    let path = format!("/tag/parentTagId/{top}");
    let children = fixture.expect("GET", &path, &Value::Null, "detail success").await;
    let child = children[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(get(&fixture, &format!("/tag/id/{top}")).await["hasChildren"], true);
    let renamed = json!({"name": "renamed"});
    fixture.expect("PUT", &format!("/tag/id/{child}"), &renamed, "update success").await;
    assert_eq!(get(&fixture, "/tag/name/renam").await[0]["parentTagId"], top);
    let api = json!({"contextPath": "/a", "apiPath": "/a/b", "httpMethod": 1, "rpcType": "http",
        "state": 0, "tagIds": [child]});
    fixture.expect("POST", "/api", &api, "create success").await;
    let found = get(&fixture, &format!("/api?apiPath=b&state=0&tagId={child}")).await;
    let id = found["dataList"][0]["id"].as_str().unwrap().to_owned();
    let described = json!({"apiDesc": "b"});
    fixture.expect("PUT", &format!("/api/{id}"), &described, "update success").await;
    assert_eq!(get(&fixture, &format!("/api/{id}")).await["apiPath"], "/a/b");
    let superior = fixture.token.clone();
    clerk(&mut fixture, &["system:api:edit"]).await;
    fixture.expect("PUT", &format!("/api/{id}"), &described, "update success").await;
    assert_eq!(fixture.call("DELETE", "/api/batch", &json!([id])).await["code"], 601);
    fixture.token = superior;
    fixture.expect("DELETE", "/api/batch", &json!([id]), "delete success").await;
    fixture.expect("DELETE", "/tag/batchDelete", &json!([child, top]), "delete success").await;
    assert_eq!(fixture.call("GET", &format!("/api/{id}"), &Value::Null).await["code"], 500);
}

#[tokio::test]
async fn a_new_admin_has_the_plugins_of_shenyu_with_settings_that_its_gateways_can_read() {
    let fixture = Fixture::new().await;
    let all = get(&fixture, "/plugin-template?currentPage=1&pageSize=100").await;
    let all = all["dataList"].as_array().expect("a list").clone();
    for name in ["aiProxy", "aiResponseTransformer", "mcpServer", "mqtt", "loggingRabbitMQ"] {
        assert!(all.iter().any(|it| it["name"] == name), "{name}");
    }
    assert!(!all.iter().any(|it| it["name"] == "motan"), "it is gone in 2.7.1");
    // These plugins are read whether they are enabled or not.
    for name in ["basicAuth", "casdoor"] {
        let plugin = all.iter().find(|it| it["name"] == name).expect(name);
        let config: Value = serde_json::from_str(plugin["config"].as_str().unwrap()).expect(name);
        assert!(config.is_object(), "{plugin}");
    }
    for plugin in &all {
        let config = plugin["config"].as_str().unwrap_or_default();
        assert!(config.is_empty() || config.starts_with('{'), "{plugin}");
        assert!(!config.contains("test123"), "a default password would be known to all: {plugin}");
    }
}

#[tokio::test]
async fn a_rule_that_the_gateway_could_not_use_is_refused_with_the_reason() {
    let fixture = Fixture::new().await;
    let selector = json!({"pluginId": "3", "name": "old", "type": 1, "namespaceId": NAMESPACE});
    let id = fixture.expect("POST", "/selector", &selector, "create success").await;
    let rule = |replace: &str| {
        let handle = json!({"regex": "/shop/{id}", "replace": replace}).to_string();
        json!({"selectorId": id, "name": "r", "handle": handle, "namespaceId": NAMESPACE})
    };
    let refused = fixture.call("POST", "/rule", &rule("/v2/{other}")).await;
    assert_eq!(refused["code"], 500, "{refused}");
    let message = refused["message"].as_str().expect("a text");
    assert!(message.contains("handle") && message.contains("`other`"), "{message}");
    fixture.expect("POST", "/rule", &rule("/v2/{id}"), "create success").await;
}

#[tokio::test]
async fn health_is_told_without_the_wrapper_of_other_answers_and_tools_are_refused() {
    let fixture = Fixture::new().await;
    let health = fixture.call("GET", "/actuator/health/readiness", &Value::Null).await;
    assert_eq!(health, json!({"status": "UP"}));
    let tool = fixture.call("POST", "/shenyu-client/register-mcp", &json!({})).await;
    assert!(tool["message"].as_str().is_some_and(|it| it.contains("mcpServer")), "{tool}");
}

#[tokio::test]
async fn rows_with_few_members_have_the_others_as_null() {
    let fixture = Fixture::new().await;
    let plugin = json!({"name": "plain", "role": "HttpProcess"});
    let metadata = json!({"appName": "a", "path": "/a", "rpcType": "http", "serviceName": "s",
        "methodName": "m", "namespaceId": NAMESPACE});
    for (path, body, name, members) in [
        ("/plugin-template", plugin, "plain", ["config", "sort"]),
        ("/meta-data/createOrUpdate", metadata, "a", ["pathDesc", "rpcExt"]),
    ] {
        fixture.expect("POST", path, &body, "create success").await;
        let resource = path.split('/').nth(1).unwrap();
        let list = get(&fixture, &format!("/{resource}?name={name}&path=/{name}")).await;
        let rows = list["dataList"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["name"] == name || row["appName"] == name).unwrap();
        for member in members {
            assert_eq!(row.get(member), Some(&Value::Null), "{path} {member}");
        }
    }
}
