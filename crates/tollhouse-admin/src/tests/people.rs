//! Users of the registry as callers of the Admin API: rights by object, and sessions.

use hyper::header::{COOKIE, SET_COOKIE};
use tollhouse_registry::config::{ConfigAuthor, ConfigCommand};
use tollhouse_registry::identity::{
    AccessToken, IdentityCommand, IdentityHead, IdentityKind, IdentityObject, IdentityWrite,
    PasswordHash, Policy, PolicyAction, Principal, ResourceKind, ResourceLabel, ResourcePattern,
    User,
};
use tollhouse_registry::{Command, ServiceKey};

use super::registry::{Registered, registry_request};
use super::*;

fn head(id: &str) -> IdentityHead {
    IdentityHead { id: id.into(), name: id.into(), ..IdentityHead::default() }
}

/// Creates a user with a policy for objects of the gateway.
async fn create(registered: &Registered, id: &str, functions: &[&str], objects: &[&str]) {
    let token = AccessToken { text: format!("token of {id}").into(), is_enabled: true };
    let password = PasswordHash(format!("password of {id}").into());
    let user = User { head: head(id), token, password, ..User::default() };
    let resources = objects
        .iter()
        .map(|text| ResourcePattern { kind: ResourceKind::Gateway, text: (*text).into() });
    let policy = Policy {
        head: head(&format!("policy of {id}")),
        action: PolicyAction::Allow,
        principals: [Principal::user(id)].into(),
        resources: resources.collect(),
        functions: functions.iter().map(|it| (*it).into()).collect(),
        ..Policy::default()
    };
    let writes = vec![IdentityWrite::Create(user.into()), IdentityWrite::Create(policy.into())];
    let command = Command::Identity(Box::new(IdentityCommand::Write(writes)));
    registered.registry.submit(command).await.expect("created");
}

#[tokio::test]
async fn users_reach_the_objects_that_their_policies_name() {
    let registered = Registered::new().await;
    let all = ["DescribeGatewayObjects", "UpdateGatewayObjects"];
    create(&registered, "team", &all, &["routes/team-*"]).await;
    create(&registered, "reader", &["DescribeGatewayObjects"], &["*"]).await;
    create(&registered, "chief", &["AdministerGateway"], &["*"]).await;
    create(&registered, "nothing", &[], &[]).await;
    registered.fixture.put("/routes/team-1", &route()).await;
    registered.fixture.put("/routes/other", &route()).await;
    let status = async |user: &str, method: &str, path: &str| {
        let body = if method == "PUT" { route().to_string() } else { String::new() };
        let mut call = request(method, path, body);
        let key = format!("token of {user}").parse().expect("it is a value");
        call.headers_mut().insert("X-API-KEY", key);
        registered.fixture.send(call).await.status
    };
    for (method, path, team, reader, chief) in [
        ("GET", "/routes/team-1", 200, 200, 200),
        ("GET", "/routes/other", 401, 200, 200),
        ("GET", "/routes", 401, 200, 200),
        ("GET", "/upstreams", 401, 200, 200),
        ("PUT", "/routes/team-2", 201, 401, 200),
        ("PUT", "/routes/team-1/../other", 401, 401, 200),
        ("PUT", "/routes/other", 401, 401, 200),
        ("POST", "/routes", 401, 401, 400),
        ("DELETE", "/routes/team-2", 200, 401, 404),
        ("DELETE", "/routes/other", 401, 401, 200),
    ] {
        for (user, expected) in [("team", team), ("reader", reader), ("chief", chief)] {
            if (method, user) == ("DELETE", "chief") {
                continue;
            }
            assert_eq!(status(user, method, path).await, expected, "{method} {path} by {user}");
        }
        assert_eq!(status("nothing", method, path).await, 401, "{method} {path}");
        assert_eq!(status("stranger", method, path).await, 401, "{method} {path}");
    }
    let about_registry = async |user: &str| {
        let mut call = registry_request("GET", "/namespaces", "");
        let key = format!("token of {user}").parse().expect("it is a value");
        call.headers_mut().insert("X-API-KEY", key);
        registered.fixture.send(call).await.status
    };
    assert_eq!((about_registry("team").await, about_registry("reader").await), (401, 200));
}

#[tokio::test]
async fn users_sign_in_with_a_password_until_their_token_changes() {
    let sessions = Some(crate::Sessions::new(b"secret", crate::Encryption::Off));
    let registered = Registered::with(Options { sessions, ..options() }).await;
    create(&registered, "alice", &["DescribeGatewayObjects"], &["*"]).await;
    let send = async |method: &str, path: &str, body: Value, session: Option<(&str, &str)>| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut call = request(method, path, body);
        call.headers_mut().remove("X-API-KEY");
        let (cookie, proof) = session.unwrap_or(("", "1"));
        for (name, value) in [(COOKIE.as_str(), cookie), ("x-tollhouse-console", proof)] {
            let name: hyper::header::HeaderName = name.parse().expect("it is a name");
            call.headers_mut().insert(name, value.parse().expect("it is a value"));
        }
        registered.fixture.send(call).await
    };
    let login = "/../../console/v1/login";
    for (name, password) in [("alice", "wrong"), ("absent", "password of alice")] {
        let body = json!({"name": name, "password": password});
        assert_eq!(send("POST", login, body, None).await.status, 401, "{name} {password}");
    }
    let body = json!({"name": "alice", "password": "password of alice"});
    let signed_in = send("POST", login, body, None).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let proof = signed_in.json()["proof"].as_str().expect("a proof").to_owned();
    let line = signed_in.headers.get(SET_COOKIE).expect("a cookie").to_str().expect("text");
    let cookie = line.split(';').next().expect("a pair").to_owned();
    let session = Some((cookie.as_str(), proof.as_str()));
    let who = send("GET", login, Value::Null, session).await.json();
    assert_eq!((&who["name"], &who["role"]), (&json!("alice"), &json!("viewer")), "{who}");
    assert_eq!(send("GET", "/routes", Value::Null, session).await.status, 200);
    assert_eq!(send("PUT", "/routes/1", route(), session).await.status, 401);
    let as_another = cookie.replace(".user.alice", ".user.bob");
    let forged = Some((as_another.as_str(), proof.as_str()));
    assert_eq!(send("GET", "/routes", Value::Null, forged).await.status, 401);

    let state = registered.registry.state_full();
    let Some(IdentityObject::User(mut user)) = state.identity_object(IdentityKind::User, "alice")
    else {
        panic!("no user");
    };
    Arc::make_mut(&mut user).token.text = "new".into();
    let write = IdentityWrite::Replace(IdentityObject::User(user));
    let command = Command::Identity(Box::new(IdentityCommand::Write(vec![write])));
    registered.registry.submit(command).await.expect("replaced");
    assert_eq!(send("GET", "/routes", Value::Null, session).await.status, 401);
}

#[tokio::test]
async fn calls_of_polaris_reach_the_registry_with_the_callers_own_token() {
    let registered = Registered::new().await;
    create(&registered, "mary", &[], &[]).await;
    let path = "/polaris/config/v1/configfiles/by-group?group=a%26b";
    let send = async |key: &str| {
        let mut call = registry_request("GET", path, "");
        call.headers_mut().insert("X-API-KEY", key.parse().expect("it is a value"));
        registered.fixture.send(call).await
    };
    let answer = send("token of mary").await;
    assert_eq!(answer.status, 200, "the registry decides about users without gateway policies");
    let body = answer.json();
    assert_eq!(body["call"], "GET /config/v1/configfiles/by-group?group=a%26b");
    assert_eq!((&body["caller"], &body["way"]), (&json!("token of mary"), &json!("api")));
    assert_eq!(send(ADMIN).await.json()["caller"], "key admin");
    assert_eq!(send("stranger").await.status, 401);
    // A key in the query is not passed on, because the registry would refuse and log it.
    for key in ["token%20of%20mary", ADMIN] {
        let mut call = registry_request("GET", &format!("{path}&api_key={key}&limit=1"), "");
        call.headers_mut().remove("X-API-KEY");
        let answer = registered.fixture.send(call).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let passed_on = "GET /config/v1/configfiles/by-group?group=a%26b&limit=1";
        assert_eq!(answer.json()["call"], passed_on);
    }
}

#[tokio::test]
async fn references_to_files_take_the_right_to_read_their_group() {
    let registered = Registered::new().await;
    let writes = ["DescribeGatewayObjects", "UpdateGatewayObjects"];
    for user in ["reader", "stranger"] {
        create(&registered, user, &writes, &["*"]).await;
    }
    create(&registered, "chief", &["AdministerGateway"], &["*"]).await;
    let policy = Policy {
        head: head("files of reader"),
        action: PolicyAction::Allow,
        principals: [Principal::user("reader")].into(),
        resources: [ResourcePattern { kind: ResourceKind::ConfigGroup, text: "ns/g".into() }]
            .into(),
        functions: vec!["DiscoverConfigFile".into()],
        ..Policy::default()
    };
    let write = vec![IdentityWrite::Create(policy.into())];
    let command = Command::Identity(Box::new(IdentityCommand::Write(write)));
    registered.registry.submit(command).await.expect("created");
    // A policy about groups counts for groups that exist.
    for group in ["g", "other"] {
        let new = ConfigCommand::CreateGroup(ServiceKey::new("ns", group), Default::default());
        let command = Command::Config(ConfigAuthor::default(), Box::new(new));
        registered.registry.submit(command).await.expect("created");
    }
    let send = async |user: &str, method: &str, path: &str, body: &Value| {
        let mut call = request(method, path, body.to_string());
        let key = if user == "key" { ADMIN.to_owned() } else { format!("token of {user}") };
        call.headers_mut().insert("X-API-KEY", key.parse().expect("it is a value"));
        registered.fixture.send(call).await
    };
    let consumer =
        |reference: &str| json!({"username": "jack", "plugins": {"key-auth": {"key": reference}}});
    let (mine, other) = ("$config://ns/g/f.yaml#key", "$config://ns/other/f.yaml");
    let lists = |reference: &str| json!({"consumers": [consumer(reference)]});
    for (user, reference, is_allowed) in [
        ("stranger", mine, false),
        ("chief", mine, false),
        ("reader", other, false),
        ("reader", mine, true),
        ("key", other, true),
    ] {
        let written = send(user, "PUT", "/consumers", &consumer(reference)).await;
        assert_eq!(written.status < 300, is_allowed, "{user} {reference} {written:?}");
        let text = written.json()["error_msg"].to_string();
        assert_eq!(text.contains("DiscoverConfigFile"), !is_allowed, "{text}");
        let checked = send(user, "POST", "/configs/validate", &lists(reference)).await;
        assert_eq!(checked.status == 403, !is_allowed, "{user} {reference} {checked:?}");
        let place = "/../../console/v1/validate/consumers";
        let checked = send(user, "POST", place, &consumer(reference)).await;
        assert_eq!(checked.status == 403, !is_allowed, "{user} {reference} {checked:?}");
    }
    // A change of another field is refused as well, since it may change where the value is sent.
    let mut object = route();
    object["plugins"] = json!({"response-rewrite": {"headers": {"x": other}}});
    assert_eq!(send("key", "PUT", "/routes/1", &object).await.status, 201);
    let patch = json!({"desc": "mine"});
    assert_eq!(send("reader", "PATCH", "/routes/1", &patch).await.status, 403);
    assert_eq!(send("key", "PATCH", "/routes/1", &patch).await.status, 200);
}

#[tokio::test]
async fn files_of_objects_that_go_along_take_the_right_to_read_their_group() {
    let registered = Registered::new().await;
    create(&registered, "editor", &["DescribeGatewayObjects", "UpdateGatewayObjects"], &["*"])
        .await;
    let send = async |user: &str, path: &str, body: &Value| {
        let mut call = request("PUT", path, body.to_string());
        let key = if user == "key" { ADMIN.to_owned() } else { format!("token of {user}") };
        call.headers_mut().insert("X-API-KEY", key.parse().expect("it is a value"));
        registered.fixture.send(call).await.status
    };
    let secret = json!({"response-rewrite": {"headers": {"x": "$config://ns/g/f.yaml"}}});
    let nodes = json!({"nodes": {"127.0.0.1:80": 1}});
    let uses = |field: &str, id: &str| json!({"uri": "/a", field: id, "upstream": nodes});
    assert!(send("key", "/plugin_configs/1", &json!({"plugins": secret})).await < 300);
    assert!(send("key", "/plugin_configs/2", &json!({"plugins": {}})).await < 300);
    assert!(send("key", "/services/1", &json!({"plugins": secret})).await < 300);
    for id in ["1", "2"] {
        assert!(send("key", &format!("/upstreams/{id}"), &nodes).await < 300);
    }
    let route = json!({"uri": "/b", "plugin_config_id": "1", "upstream_id": "1"});
    assert!(send("key", "/routes/1", &route).await < 300);
    for (path, object, is_allowed) in [
        ("/routes/2", uses("plugin_config_id", "1"), false),
        ("/routes/2", uses("service_id", "1"), false),
        ("/routes/2", uses("plugin_config_id", "2"), true),
        // Its nodes get what the route's other object adds.
        ("/upstreams/1", nodes.clone(), false),
        ("/upstreams/2", nodes.clone(), true),
    ] {
        let status = send("editor", path, &object).await;
        assert_eq!(status == 403, !is_allowed, "{path} {object}: {status}");
        assert!(send("key", path, &object).await < 300, "{path}");
    }
}

#[tokio::test]
async fn people_see_changes_of_the_registry_only_if_they_may_do_everything() {
    let registered = Registered::new().await;
    create(&registered, "reader", &["DescribeGatewayObjects"], &["*"]).await;
    create(&registered, "chief", &["AdministerGateway"], &["*"]).await;
    let made = registry_request("PUT", "/namespaces/secret-project", "{}");
    let made = registered.fixture.send(made).await;
    assert!(made.status < 300, "{made:?}");
    registered.fixture.put("/routes/1", &route()).await;
    let see = async |user: &str, path: &str| {
        let mut call = request("GET", path, String::new());
        let key = format!("token of {user}").parse().expect("it is a value");
        call.headers_mut().insert("X-API-KEY", key);
        registered.fixture.send(call).await
    };
    let list = "/../../console/v1/changes";
    let all = see("chief", list).await.json();
    let about = |kind: &str| {
        let rows = all["rows"].as_array().expect("rows");
        rows.iter().find(|row| row["kind"] == kind).map(|row| row["name"].to_string())
    };
    let name = about("registry").expect("a row about the registry");
    let of_registry = format!("{list}/{}", name.trim_matches('"'));
    assert_eq!(see("chief", &of_registry).await.status, 200);
    assert_eq!(see("reader", &of_registry).await.status, 404);
    let some = see("reader", list).await.json();
    let rows = some["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["kind"] == "routes") && !rows.is_empty(), "{some}");
    assert_eq!(some["total"], rows.len());
}

/// Creates a policy of a user for objects with a label.
async fn policy_by_label(registered: &Registered, user: &str, action: PolicyAction, team: &str) {
    let label =
        ResourceLabel { key: "team".into(), value: team.into(), compare: "string_equal".into() };
    let policy = Policy {
        head: head(&format!("{action:?} {team} {user}")),
        action,
        principals: [Principal::user(user)].into(),
        functions: ["DescribeGatewayObjects", "UpdateGatewayObjects"].map(Into::into).into(),
        labels: vec![label],
        ..Policy::default()
    };
    let write = vec![IdentityWrite::Create(policy.into())];
    let command = Command::Identity(Box::new(IdentityCommand::Write(write)));
    registered.registry.submit(command).await.expect("created");
}

fn of_team(team: &str) -> Value {
    let mut object = route();
    object["labels"] = json!({"team": team});
    object
}

async fn as_user(registered: &Registered, user: &str, call: (&str, &str, Value)) -> Answer {
    let (method, path, body) = call;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut call = request(method, path, body);
    let key = format!("token of {user}").parse().expect("it is a value");
    call.headers_mut().insert("X-API-KEY", key);
    registered.fixture.send(call).await
}

#[tokio::test]
async fn a_policy_by_label_counts_for_the_object_as_it_is_and_as_it_becomes() {
    let registered = Registered::new().await;
    create(&registered, "ann", &[], &[]).await;
    policy_by_label(&registered, "ann", PolicyAction::Allow, "a").await;
    registered.fixture.put("/routes/a", &of_team("a")).await;
    registered.fixture.put("/routes/b", &of_team("b")).await;
    registered.fixture.put("/routes/none", &route()).await;
    let none = Value::Null;
    for (method, path, body, expected) in [
        ("GET", "/routes/a", none.clone(), 200),
        ("GET", "/routes/b", none.clone(), 401),
        ("GET", "/routes/none", none.clone(), 401),
        ("GET", "/routes/absent", none.clone(), 401),
        ("PUT", "/routes/a", of_team("a"), 200),
        ("PUT", "/routes/a", of_team("b"), 403),
        ("PUT", "/routes/a", route(), 403),
        ("PUT", "/routes/b", of_team("a"), 401),
        ("PUT", "/routes/none", of_team("a"), 401),
        ("PUT", "/routes/new", of_team("b"), 403),
        ("PUT", "/routes/new", route(), 403),
        ("PUT", "/routes/new", of_team("a"), 201),
        ("POST", "/routes", of_team("a"), 201),
        ("POST", "/routes", of_team("b"), 403),
        ("PATCH", "/routes/new", json!({"labels": {"team": "b"}}), 403),
        ("PATCH", "/routes/new", json!({"labels": null}), 403),
        ("PATCH", "/routes/new/labels/team", json!("b"), 403),
        ("PATCH", "/routes/new", json!({"desc": "mine"}), 200),
        ("PATCH", "/routes/b", json!({"labels": {"team": "a"}}), 401),
        ("DELETE", "/routes/b", none.clone(), 401),
        ("DELETE", "/routes/absent", none.clone(), 401),
        ("DELETE", "/routes/new", none.clone(), 200),
    ] {
        let text = format!("{method} {path} {body}");
        let answer = as_user(&registered, "ann", (method, path, body)).await;
        assert_eq!(answer.status, expected, "{text}: {answer:?}");
    }
    for (path, expected) in [("/routes", 2), ("/routes?page=1&page_size=10", 2)] {
        let list = as_user(&registered, "ann", ("GET", path, Value::Null)).await.json();
        assert_eq!(list["total"], expected, "{list}");
        let objects = list["list"].as_array().expect("a list");
        assert!(objects.iter().all(|it| it["value"]["labels"]["team"] == "a"), "{list}");
    }
}

#[tokio::test]
async fn a_policy_for_all_functions_gives_no_right_to_the_gateway_by_label() {
    let registered = Registered::new().await;
    create(&registered, "ann", &[], &[]).await;
    let label =
        ResourceLabel { key: "team".into(), value: "a".into(), compare: "string_equal".into() };
    let policy = Policy {
        head: head("for services"),
        action: PolicyAction::Allow,
        principals: [Principal::user("ann")].into(),
        functions: vec!["*".into()],
        labels: vec![label],
        ..Policy::default()
    };
    let write = vec![IdentityWrite::Create(policy.into())];
    let command = Command::Identity(Box::new(IdentityCommand::Write(write)));
    registered.registry.submit(command).await.expect("created");
    registered.fixture.put("/routes/a", &of_team("a")).await;
    for (method, body) in [("GET", Value::Null), ("PUT", of_team("a"))] {
        let answer = as_user(&registered, "ann", (method, "/routes/a", body)).await;
        assert_eq!(answer.status, 401, "{answer:?}");
    }
}

#[tokio::test]
async fn a_denial_by_label_wins_and_ends_calls_about_all_objects() {
    let registered = Registered::new().await;
    let functions = ["DescribeGatewayObjects", "UpdateGatewayObjects"];
    create(&registered, "ann", &functions, &["*"]).await;
    let everything = "/../../console/v1/objects/routes";
    let search = ("GET", everything, Value::Null);
    assert_eq!(as_user(&registered, "ann", search.clone()).await.status, 200);
    policy_by_label(&registered, "ann", PolicyAction::Deny, "b").await;
    registered.fixture.put("/routes/a", &of_team("a")).await;
    registered.fixture.put("/routes/b", &of_team("b")).await;
    let consumer = json!({"username": "jack"});
    registered.fixture.put("/consumers/jack", &consumer).await;
    let mut credential = json!({"plugins": {"key-auth": {"key": "k"}}});
    credential["labels"] = json!({"team": "b"});
    registered.fixture.put("/consumers/jack/credentials/1", &credential).await;
    let none = Value::Null;
    for (method, path, body, expected) in [
        ("GET", "/routes/a", none.clone(), 200),
        ("GET", "/routes/b", none.clone(), 401),
        ("PUT", "/routes/a", of_team("b"), 403),
        ("PUT", "/routes/b", of_team("a"), 401),
        ("PUT", "/routes/new", of_team("b"), 403),
        ("DELETE", "/routes/b", none.clone(), 401),
        ("DELETE", "/consumers/jack", none.clone(), 403),
        ("GET", everything, none.clone(), 401),
    ] {
        let text = format!("{method} {path} {body}");
        let answer = as_user(&registered, "ann", (method, path, body)).await;
        assert_eq!(answer.status, expected, "{text}: {answer:?}");
    }
    let list = as_user(&registered, "ann", ("GET", "/routes", none)).await.json();
    assert_eq!(list["total"], 1, "{list}");
}
