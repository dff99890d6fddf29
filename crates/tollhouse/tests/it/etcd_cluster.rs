//! An etcd of three members: one that is lost or cut off from the others costs neither a request nor a change.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollhouse_testkit::load::{Load, Reuse};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{EtcdCluster, GatewayBuilder, Origin};

use crate::etcd::{KEYRING, put, route};
use crate::support::gateway;

fn on(endpoints: &str) -> GatewayBuilder {
    gateway()
        .without_resources()
        .set("store.etcd.endpoints", endpoints)
        .set("store.etcd.timeout", "2s")
        .set("encryption.keyring", KEYRING)
}

#[test]
fn a_leader_that_dies_while_changes_are_made_loses_and_doubles_none() {
    let Some(mut etcd) = EtcdCluster::start() else { return };
    let gateway = on(&etcd.urls()).start();
    let origin = Origin::named("a");
    put(&gateway, "/routes/all", &route(&origin));
    let leader = etcd.leader();
    let mut answers = BTreeMap::new();
    let mut post = |number: usize| {
        let route = json!({"name": format!("n{number}"), "uri": format!("/{number}"),
            "plugins": {"mocking": {"response_example": "x"}}});
        let status = gateway.admin("POST", "/routes", &route).status();
        assert!(matches!(status, 201 | 503), "{status}");
        answers.insert(format!("n{number}"), status);
        status
    };
    for number in 0..10 {
        post(number);
    }
    etcd.members[leader].kill();
    let mut number = 10;
    wait_for("the others to take changes", || {
        number += 1;
        (post(number) == 201).then_some(())
    });
    for number in number + 1..number + 10 {
        post(number);
    }
    assert_eq!(gateway.client().get("/").text(), "a");
    let list = gateway.admin("GET", "/routes", &Value::Null);
    let list: Value = serde_json::from_str(&list.text()).expect("JSON");
    let mut there: BTreeMap<&str, usize> = BTreeMap::new();
    for name in list["list"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["value"]["name"].as_str())
    {
        *there.entry(name).or_default() += 1;
    }
    for (name, status) in &answers {
        let count = there.get(name.as_str()).copied().unwrap_or_default();
        assert!(
            count == 1 || *status == 503 && count == 0,
            "{name}: {status}, {count} times there"
        );
    }
}

#[test]
fn a_watch_on_a_member_without_a_leader_is_ended_and_goes_on_at_another() {
    let Some(etcd) = EtcdCluster::start() else { return };
    let origin = Origin::named("a");
    let [first, second, third] = etcd.members.as_slice() else { panic!("they are three") };
    // The first address is asked until it fails.
    let gateway = on(&etcd.urls()).start();
    put(&gateway, "/routes/1", &route(&origin));
    second.pause();
    third.pause();
    // It answers on its connections, and leads nobody: without having asked for more, the watch would wait.
    wait_for("the outage", || (gateway.metric("tollhouse_store_down") > 0.0).then_some(()));
    assert_eq!(gateway.client().get("/").text(), "a");
    first.pause();
    second.wake();
    third.wake();
    let mocking = "{\"uri\": \"/2\", \"plugins\": {\"mocking\": {\"response_example\": \"2\"}}}";
    wait_for("a change elsewhere", || {
        let ran = second.try_control(&["put", "/apisix/routes/2", mocking]);
        ran.is_none_or(|ran| ran.status.success()).then_some(())
    });
    wait_for("what was written there", || (gateway.client().get("/2").text() == "2").then_some(()));
    first.wake();
}

#[test]
fn a_member_that_is_cut_off_from_the_others_costs_neither_a_request_nor_a_change() {
    let Some(etcd) = EtcdCluster::start_apart() else { return };
    let origin = Origin::named("a");
    // Its watch is at the first address, until that fails.
    let gateway = on(&etcd.urls()).start();
    put(&gateway, "/routes/1", &route(&origin));
    let load = Load::start(gateway.address(), 2, Reuse::KeepAlive, "/");
    let Some(()) = etcd.cut_off(0) else { return };
    let written = |number: u32| {
        let example = number.to_string();
        let plugins = json!({"mocking": {"response_example": example}});
        json!({"uri": format!("/{number}"), "plugins": plugins}).to_string()
    };
    let elsewhere = &etcd.members[1];
    wait_for("a change by the others", || {
        let ran = elsewhere.try_control(&["put", "/apisix/routes/2", &written(2)]);
        ran.is_none_or(|ran| ran.status.success()).then_some(())
    });
    wait_for("what they wrote", || (gateway.client().get("/2").text() == "2").then_some(()));
    let third = serde_json::from_str(&written(3)).expect("JSON");
    wait_for("a change at the gateway", || {
        (gateway.admin("PUT", "/routes/3", &third).status() < 300).then_some(())
    });
    assert_eq!(gateway.client().get("/3").text(), "3");
    load.wait_answers(20);
    etcd.heal();
    // A read at the member that was away asks the others: it has what they wrote.
    wait_for("the member to be one of them again", || {
        let ran = etcd.members[0].try_control(&["get", "/apisix/routes/3"]);
        ran.is_none_or(|ran| ran.text.contains("response_example")).then_some(())
    });
    wait_for("a change there", || {
        let ran = etcd.members[0].try_control(&["put", "/apisix/routes/4", &written(4)]);
        ran.is_none_or(|ran| ran.status.success()).then_some(())
    });
    wait_for("what came after", || (gateway.client().get("/4").text() == "4").then_some(()));
    let report = load.stop();
    assert!(report.lost.is_empty() && report.refused == 0, "{report:?}");
    assert_eq!(report.answers.keys().collect::<Vec<_>>(), ["200 a"]);
}
