//! Bulk changes of instances, and search and sort order of the registry's lists.

use super::registry::{Registered, registry_request};
use super::*;

impl Registered {
    async fn ids(&self, query: &str) -> Vec<String> {
        let answer = self.call("GET", query, "").await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
        let value = answer.json();
        let list = value["list"].as_array().expect("a list").iter();
        let name = |it: &Value| {
            it["id"].as_str().filter(|id| !id.is_empty()).or(it["name"].as_str()).map(str::to_owned)
        };
        list.filter_map(|it| it["name"].as_str().map(str::to_owned).or_else(|| name(it))).collect()
    }
}

async fn shop() -> Registered {
    let registered = Registered::new().await;
    for (id, service, host, weight, version) in [
        ("a", "orders", "10.0.0.3", 50, "1"),
        ("b", "orders", "10.0.0.1", 200, "2"),
        ("c", "billing", "10.0.0.2", 100, "2"),
    ] {
        let body = json!({
            "id": id, "namespace": "shop", "service": service, "host": host, "port": 80,
            "weight": weight, "version": version, "metadata": {"zone": format!("Zone-{id}")},
        });
        assert_eq!(registered.register(&body).await.status, 201);
    }
    registered
}

#[tokio::test]
async fn many_instances_are_isolated_and_weighted_in_one_commit() {
    let registered = shop().await;
    let version = registered.registry.state().version();
    let patch = json!({"ids": ["a", "b"], "isolated": true, "weight": 7});
    let answer = registered.call("PATCH", "/instances", patch.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let value = answer.json();
    assert_eq!((&value["changed"], &value["unchanged"]), (&2.into(), &0.into()));
    assert_eq!(registered.registry.state().version(), version + 1, "one version has both");
    for (id, isolated, weight) in [("a", true, 7), ("b", true, 7), ("c", false, 100)] {
        let it = registered.call("GET", &format!("/instances/{id}"), "").await.json();
        assert_eq!((&it["isolated"], &it["weight"]), (&isolated.into(), &weight.into()), "{id}");
    }
    let again = registered.call("PATCH", "/instances", patch.to_string()).await.json();
    assert_eq!((&again["changed"], &again["unchanged"]), (&0.into(), &2.into()));
    let rows = registered.fixture.changes("?kind=registry").await;
    assert_eq!(rows.len(), 1, "one row about all of them, and none about nothing: {rows:?}");
    assert_eq!((&rows[0]["deed"], &rows[0]["id"]), (&json!("patch"), &json!("instances")));
    assert!(rows[0]["title"].as_str().is_some_and(|it| it.contains(", ")), "{rows:?}");
    let places = rows[0]["differences"].to_string();
    assert!(places.contains("instances~1a/isolated"), "{places}");
}

#[tokio::test]
async fn what_one_of_many_is_refused_for_leaves_all_as_they_were() {
    let registered = shop().await;
    for (body, status, expected) in [
        (json!({"ids": ["a", "none"], "isolated": true}), 404, "instance"),
        (json!({"ids": ["a"], "isolated": true, "weight": 70_000}), 400, "weight"),
        (json!({"ids": [], "isolated": true}), 400, "1 to 1000"),
        (json!({"ids": ["a"]}), 400, "isolated or weight"),
        (json!({"ids": ["a"], "healthy": false}), 400, "unknown field"),
        (json!({"ids": vec!["a"; 1001], "isolated": true}), 400, "1 to 1000"),
    ] {
        let answer = registered.call("PATCH", "/instances", body.to_string()).await;
        assert!(answer.status == status && answer.text.contains(expected), "{body}: {answer:?}");
    }
    let mut forbidden = registry_request("PATCH", "/instances", r#"{"ids":["a"],"isolated":true}"#);
    forbidden.headers_mut().insert("X-API-KEY", VIEWER.parse().expect("it is a value"));
    assert_eq!(registered.fixture.send(forbidden).await.status, 401);
    assert_eq!(registered.call("GET", "/instances/a", "").await.json()["isolated"], false);
}

#[tokio::test]
async fn lists_are_searched_by_words_and_come_in_order() {
    let registered = shop().await;
    for (name, target) in [("old", "orders"), ("older", "billing")] {
        let alias = json!({"namespace": "shop", "name": name, "target": {"namespace": "shop", "name": target}});
        assert_eq!(registered.call("POST", "/aliases", alias.to_string()).await.status, 201);
    }
    for (id, name) in [("1", "zeta"), ("2", "alpha")] {
        let rule = json!({"id": id, "name": name}).to_string();
        assert_eq!(registered.call("POST", "/rules/routing", rule).await.status, 201);
    }
    for (query, expected) in [
        ("/instances", vec!["c", "a", "b"]),
        ("/instances?sort=weight", vec!["a", "c", "b"]),
        ("/instances?sort=-weight", vec!["b", "c", "a"]),
        ("/instances?sort=host&page_size=2&page=2", vec!["a"]),
        ("/instances?q=ZONE-b", vec!["b"]),
        ("/instances?q=orders+10.0.0", vec!["a", "b"]),
        ("/instances?q=2&service=orders&sort=id", vec!["b"]),
        ("/services", vec!["billing", "orders"]),
        ("/services?sort=-instances", vec!["orders", "billing"]),
        ("/services?q=SHOP+bill", vec!["billing"]),
        ("/aliases?sort=target", vec!["older", "old"]),
        ("/aliases?q=orders", vec!["old"]),
        ("/rules", vec!["zeta", "alpha"]),
        ("/rules/routing?sort=name", vec!["alpha", "zeta"]),
        ("/rules?q=svc+zet", vec!["zeta"]),
        ("/namespaces?sort=-instances&q=shop", vec!["shop"]),
    ] {
        assert_eq!(registered.ids(query).await, expected, "{query}");
    }
    for path in ["/instances", "/services", "/aliases", "/rules", "/namespaces"] {
        let refused = registered.call("GET", &format!("{path}?sort=colour"), "").await;
        assert!(refused.status == 400 && refused.error().contains("sort is one of"), "{refused:?}");
    }
}

#[tokio::test]
async fn what_rules_are_made_of_is_told_to_whoever_may_read() {
    let registered = Registered::new().await;
    let schema = registered.fixture.console(VIEWER, "GET", "/schema/rules/rate-limit").await;
    assert_eq!((schema.status, &schema.json()["title"]), (200, &json!("rate-limit")));
    for (method, path, status) in
        [("GET", "/schema/rules/none", 404), ("POST", "/schema/rules/routing", 405)]
    {
        assert_eq!(registered.fixture.console(ADMIN, method, path).await.status, status, "{path}");
    }
    let off = Fixture::new().await.console(ADMIN, "GET", "/schema/rules/routing").await;
    assert!(off.status == 404 && off.error().contains("registry is off"), "{off:?}");
}
