//! Lists of the console: counts, names, and the changes that their reader may make.

use super::*;

/// Creates a user with a policy of these functions on these resources; returns its token.
async fn user(server: &Server, functions: &[&str], resources: Value) -> String {
    let user = json!([{"name": "alice", "password": "pass word"}]);
    let created = server.post("/core/v1/users", &user).await.json();
    let id = created["responses"][0]["user"]["id"].as_str().expect("an id").to_owned();
    let policy = json!({
        "name": "p", "action": "ALLOW", "principals": {"users": [{"id": id}]},
        "resources": resources, "functions": functions,
    });
    let made = server.post("/core/v1/auth/strategy", &policy).await;
    assert_eq!(made.code(), 200_000, "{}", made.text);
    let shown = server.get(&format!("/core/v1/user/token?id={id}")).await.json();
    shown["user"]["auth_token"].as_str().expect("a token").to_owned()
}

async fn get_as(server: &Server, token: &str, path: &str) -> Value {
    let headers = format!("x-polaris-token: {token}\r\n");
    let answer = server.send("GET", path, &headers, "").await;
    assert_eq!(answer.code(), 200_000, "{}", answer.text);
    answer.json()
}

/// Creates an object of each list.
async fn with_objects() -> Server {
    let server = Server::start().await;
    let service = json!({"service": "svc", "namespace": "ns"});
    let target = json!({"service": "svc", "namespace": "ns", "method": {"value": "*"}});
    let route = json!([{
        "name": "route", "enable": true, "editable": true, "routing_config": {
            "@type": "type.googleapis.com/v1.RuleRoutingConfig",
            "rules": [{"sources": [service], "destinations": [service]}],
        },
    }]);
    for (path, body) in [
        ("/naming/v1/namespaces", json!([{"name": "ns"}])),
        ("/naming/v1/services", json!([{"name": "svc", "namespace": "ns"}])),
        (
            "/naming/v1/service/alias",
            json!({"service": "svc", "namespace": "ns", "alias": "a", "alias_namespace": "ns"}),
        ),
        ("/naming/v2/routings", route),
        (
            "/naming/v1/ratelimits",
            json!([{"name": "limit", "service": "svc", "namespace": "ns",
                "amounts": [{"maxAmount": 1, "validDuration": "1s"}]}]),
        ),
        (
            "/naming/v1/circuitbreaker/rules",
            json!([{"name": "breaker", "enable": true, "rule_matcher": {
                "source": {"service": "*", "namespace": "*"}, "destination": target}}]),
        ),
        ("/naming/v1/faultdetectors", json!([{"name": "detector", "target_service": target}])),
        ("/naming/v1/lane/groups", json!([{"name": "lane"}])),
        ("/naming/v1/lossless/rules", json!([{"service": "svc", "namespace": "ns"}])),
        ("/config/v1/configfilegroups", json!({"name": "g", "namespace": "ns"})),
    ] {
        let created = server.post(path, &body).await;
        assert_eq!(created.code(), 200_000, "{path} {}", created.text);
    }
    server
}

/// Lists of the console, and the field that has their objects.
const LISTS: [(&str, &str); 10] = [
    ("/naming/v1/namespaces?name=ns", "namespaces"),
    ("/naming/v1/services?namespace=ns", "services"),
    ("/naming/v1/service/aliases", "aliases"),
    ("/naming/v2/routings", "data"),
    ("/naming/v1/ratelimits", "rateLimits"),
    ("/naming/v1/circuitbreaker/rules", "data"),
    ("/naming/v1/faultdetectors", "data"),
    ("/naming/v1/lane/groups", "data"),
    ("/naming/v1/lossless/rules", "data"),
    ("/config/v1/configfilegroups", "configFileGroups"),
];

#[tokio::test]
async fn lists_tell_which_changes_the_reader_may_make() {
    let server = with_objects().await;
    let all = json!([{"id": "*"}]);
    let resources = json!({
        "namespaces": all, "services": all, "config_groups": all, "route_rules": all,
        "ratelimit_rules": all, "circuitbreaker_rules": all, "faultdetect_rules": all,
        "lane_rules": all,
    });
    let token = user(&server, &["Describe*", "Update*"], resources).await;
    for (path, field) in LISTS {
        for (token, may_delete) in [("secret", true), (&*token, false)] {
            let list = get_as(&server, token, path).await;
            let object = &list[field][0];
            let permits = [object["editable"].clone(), object["deleteable"].clone()];
            assert_eq!(permits, [json!(true), json!(may_delete)], "{path} {list}");
        }
    }
}

#[tokio::test]
async fn only_lists_have_the_changes_that_the_reader_may_make() {
    let server = with_objects().await;
    let rule = json!([{
        "name": "b", "enable": true, "editable": true, "deleteable": true,
        "rule_matcher": {"source": {"service": "*", "namespace": "*"},
            "destination": {"service": "svc", "namespace": "ns", "method": {"value": "*"}}},
    }]);
    let created = server.post("/naming/v1/circuitbreaker/rules", &rule).await;
    assert_eq!(created.code(), 200_000, "{}", created.text);
    assert!(!created.text.contains("editable"), "{}", created.text);
}

#[tokio::test]
async fn namespaces_are_listed_with_their_counts_together_and_built_in_ones_with_comments() {
    let server = with_objects().await;
    let instances = json!([
        {"service": "svc", "namespace": "ns", "host": "10.0.0.1", "port": 1, "healthy": true},
        {"service": "svc", "namespace": "ns", "host": "10.0.0.2", "port": 1, "healthy": false},
    ]);
    assert_eq!(server.post("/naming/v1/instances", &instances).await.code(), 200_000);
    let list = server.get("/naming/v1/namespaces").await.json();
    let expected = json!({
        "total_service_count": 1, "total_health_instance_count": 1, "total_instance_count": 2,
    });
    assert_eq!(list["summary"], expected, "{list}");
    let listed = list["namespaces"].as_array().expect("a list");
    let found = |name: &str| listed.iter().find(|it| it["name"] == name).expect("listed");
    assert_eq!(found("default")["comment"], "Default Environment");
    assert_eq!(found("Polaris")["comment"], "Polaris-server");
    assert_eq!(found("default")["ctime"], Value::Null);
    let page = server.get("/naming/v1/namespaces?name=default").await.json();
    assert_eq!(page["summary"]["total_instance_count"], 0, "{page}");
}

#[tokio::test]
async fn policies_name_the_rules_that_they_cover() {
    let server = with_objects().await;
    let mut resources = json!({});
    for (path, list, field) in [
        ("/naming/v2/routings", "data", "route_rules"),
        ("/naming/v1/ratelimits", "rateLimits", "ratelimit_rules"),
        ("/naming/v1/circuitbreaker/rules", "data", "circuitbreaker_rules"),
        ("/naming/v1/faultdetectors", "data", "faultdetect_rules"),
        ("/naming/v1/lane/groups", "data", "lane_rules"),
    ] {
        let listed = server.get(path).await.json();
        resources[field] = json!([{"id": listed[list][0]["id"]}, {"id": "unknown"}]);
    }
    user(&server, &["*"], resources).await;
    let policies = server.get("/core/v1/auth/strategies?name=p&show_detail=true").await.json();
    let shown = &policies["authStrategies"][0]["resources"];
    for (field, name) in [
        ("route_rules", "route"),
        ("ratelimit_rules", "limit"),
        ("circuitbreaker_rules", "breaker"),
        ("faultdetect_rules", "detector"),
        ("lane_rules", "lane"),
    ] {
        let names: Vec<_> =
            shown[field].as_array().expect("a list").iter().map(|it| it["name"].clone()).collect();
        assert!(names.contains(&json!(name)) && names.contains(&json!("unknown")), "{shown}");
    }
}

#[tokio::test]
async fn a_disabled_rule_has_no_time_since_which_it_is_enabled() {
    let server = with_objects().await;
    let rules = "/naming/v2/routings";
    let id = server.get(rules).await.json()["data"][0]["id"].clone();
    for (enable, is_dated) in [(false, false), (true, true)] {
        let body = json!([{"id": id, "enable": enable}]);
        assert_eq!(server.write("PUT", &format!("{rules}/enable"), &body).await.code(), 200_000);
        let rule = server.get(rules).await.json()["data"][0].clone();
        assert_eq!(rule["etime"] != "", is_dated, "{rule}");
    }
}

#[tokio::test]
async fn a_list_of_callers_is_replaced_by_its_name_and_service() {
    let server = Server::start().await;
    let path = "/naming/v1/blockallow/rules";
    let rule = |name: &str, priority: u32| json!([{"name": name, "service": "s", "namespace": "ns", "priority": priority}]);
    assert_eq!(server.post(path, &rule("one", 1)).await.code(), 200_000);
    let put = async |body: Value| server.write("PUT", path, &body).await;
    let replaced = put(rule("one", 7)).await;
    assert_eq!(replaced.code(), 200_000, "{}", replaced.text);
    let listed = server.get(path).await.json();
    assert_eq!((&listed["amount"], &listed["data"][0]["priority"]), (&json!(1), &json!(7)));
    assert_eq!(put(rule("other", 1)).await.code(), 400_202);
    assert_eq!(put(rule("", 1)).await.code(), 400_103);
    assert_eq!(server.post(path, &rule("one", 2)).await.code(), 200_000);
    let unclear = put(rule("one", 3)).await;
    assert_eq!(unclear.code(), 400_103, "{}", unclear.text);
    assert!(unclear.text.contains("the rule has no id"), "{}", unclear.text);
}

#[tokio::test]
async fn every_alias_is_listed_with_its_metadata() {
    let server = with_objects().await;
    let list = server.get("/naming/v1/service/aliases").await.json();
    assert_eq!(list["aliases"][0]["metadata"], json!({}), "{list}");
}
