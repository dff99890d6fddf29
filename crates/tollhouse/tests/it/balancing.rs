//! Which node gets a request: turns, weights, hashes, connections, priorities, names.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{ClosedPort, Gateway, Origin, RawClient};

use crate::support::{everything_with, gateway, nodes, routes, upstream};

/// Bodies of the answers to `count` requests, one after another.
fn bodies(client: &mut RawClient, count: usize) -> Vec<String> {
    (0..count).map(|_| client.get("/").text()).collect()
}

fn counts(bodies: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for body in bodies {
        *counts.entry(body.as_str()).or_default() += 1;
    }
    counts
}

fn start(upstream: Value, members: Value) -> Gateway {
    gateway().resources(&everything_with(upstream, members)).start()
}

#[test]
fn equal_nodes_take_turns_exactly() {
    let origins = [Origin::named("a"), Origin::named("b")];
    let gateway = start(upstream([origins[0].address(), origins[1].address()]), json!({}));
    let bodies = bodies(&mut gateway.client(), 10);
    assert!(bodies.windows(2).all(|pair| pair[0] != pair[1]), "{bodies:?}");
}

#[test]
fn turns_do_not_depend_on_connections() {
    let origins = [Origin::named("a"), Origin::named("b")];
    let gateway = start(upstream([origins[0].address(), origins[1].address()]), json!({}));
    let bodies: Vec<_> = (0..10).map(|_| gateway.client().get("/").text()).collect();
    assert!(bodies.windows(2).all(|pair| pair[0] != pair[1]), "{bodies:?}");
}

#[test]
fn weights_are_kept_in_every_round() {
    let origins = [Origin::named("a"), Origin::named("b"), Origin::named("never")];
    let [a, b, never] = origins.each_ref().map(Origin::address);
    let weighted = json!({ "type": "roundrobin", "nodes": nodes([(a, 3), (b, 1), (never, 0)]) });
    let gateway = start(weighted, json!({}));
    let bodies = bodies(&mut gateway.client(), 16);
    for round in bodies.chunks(4) {
        assert_eq!(counts(round), BTreeMap::from([("a", 3), ("b", 1)]), "{bodies:?}");
    }
}

#[test]
fn one_key_stays_with_one_node() {
    let origins = [Origin::named("a"), Origin::named("b"), Origin::named("c")];
    let addresses = origins.each_ref().map(Origin::address);
    type WithKey = fn(usize) -> String;
    let hashes: [(Value, WithKey); 4] = [
        (json!({ "hash_on": "header", "key": "X-Session" }), |n| {
            format!("/ HTTP/1.1\r\nX-Session: s{n}")
        }),
        (json!({ "hash_on": "cookie", "key": "session" }), |n| {
            format!("/ HTTP/1.1\r\nCookie: other=1; session=s{n}")
        }),
        (json!({ "hash_on": "vars", "key": "arg_session" }), |n| {
            format!("/?x=1&session=s{n} HTTP/1.1")
        }),
        (json!({ "key": "uri" }), |n| format!("/path/{n} HTTP/1.1")),
    ];
    for (members, request) in hashes {
        let mut hashed = upstream(addresses);
        hashed["type"] = json!("chash");
        let gateway = start(hashed, members.clone());
        let mut client = gateway.client();
        let mut ask = |n| client.ask(format!("GET {}\r\nHost: a\r\n\r\n", request(n))).text();
        let first: Vec<_> = (0..30).map(&mut ask).collect();
        let second: Vec<_> = (0..30).map(&mut ask).collect();
        assert_eq!(first, second, "{members}");
        assert_eq!(counts(&first).len(), 3, "thirty keys reach every node: {members} {first:?}");
        // Another process chooses alike, so that a fleet of gateways agrees.
        let other = start(
            crate::support::with(upstream(addresses), json!({ "type": "chash" })),
            members.clone(),
        );
        let mut client = other.client();
        let mut ask = |n| client.ask(format!("GET {}\r\nHost: a\r\n\r\n", request(n))).text();
        assert_eq!(first, (0..30).map(&mut ask).collect::<Vec<_>>(), "{members}");
    }
}

#[test]
fn a_missing_key_falls_back_to_the_clients_address() {
    let origins = [Origin::named("a"), Origin::named("b")];
    let mut hashed = upstream([origins[0].address(), origins[1].address()]);
    hashed["type"] = json!("chash");
    let gateway = start(hashed, json!({ "hash_on": "header", "key": "X-Session" }));
    let bodies = bodies(&mut gateway.client(), 10);
    assert_eq!(counts(&bodies).len(), 1, "{bodies:?}");
}

#[test]
fn the_node_with_fewest_requests_under_way_is_chosen() {
    let (finish, may_finish) = channel::<()>();
    let may_finish = Mutex::new(may_finish);
    let slow = Origin::script(move |connection| {
        while connection.request().is_some() {
            // The test ends the wait by ending its half.
            let _ = may_finish.lock().expect("no panic before").recv();
            connection.send(answer(200, "slow"));
        }
    });
    let quick = Origin::named("quick");
    let mut least = upstream([slow.address(), quick.address()]);
    least["type"] = json!("least_conn");
    let gateway = start(least, json!({}));
    // Between idle nodes chance decides: one client asks until its request waits at the slow one. Its
    // earlier requests have ended by then, since they went over the same connection.
    let mut waiting = gateway.client();
    for sent in 1.. {
        waiting.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
        wait_for("a node sees it", || {
            (slow.requests().len() + quick.requests().len() == sent).then_some(())
        });
        if slow.requests().len() == 1 {
            break;
        }
        assert_eq!(waiting.answer().text(), "quick");
    }
    let bodies = bodies(&mut gateway.client(), 10);
    assert_eq!(counts(&bodies), BTreeMap::from([("quick", 10)]));
    drop(finish);
    assert_eq!(waiting.answer().text(), "slow");
}

#[test]
fn average_times_decide_and_every_node_is_tried() {
    let origins = [Origin::named("a"), Origin::named("b")];
    let mut timed = upstream([origins[0].address(), origins[1].address()]);
    timed["type"] = json!("ewma");
    let gateway = start(timed, json!({}));
    let bodies = bodies(&mut gateway.client(), 50);
    assert_eq!(counts(&bodies).values().sum::<usize>(), 50);
    assert!(origins.iter().all(|origin| !origin.requests().is_empty()), "{bodies:?}");
}

#[test]
fn a_lower_priority_serves_only_when_the_higher_fails() {
    let (high, low) = (Origin::named("high"), Origin::named("low"));
    let refusing = ClosedPort::new();
    let node = |port: u16, priority: i32| json!({ "host": "127.0.0.1", "port": port, "weight": 1, "priority": priority });
    let grouped = |first: u16| {
        let nodes = json!([node(first, 10), node(low.address().port(), -1)]);
        start(json!({ "type": "roundrobin", "nodes": nodes }), json!({}))
    };
    let gateway = grouped(high.address().port());
    assert_eq!(bodies(&mut gateway.client(), 5), ["high"; 5]);
    let gateway = grouped(refusing.address().port());
    assert_eq!(bodies(&mut gateway.client(), 5), ["low"; 5]);
}

#[test]
fn a_node_may_have_a_name() {
    let origin = Origin::named("a");
    let name = format!("localhost:{}", origin.address().port());
    let gateway = start(json!({ "type": "roundrobin", "nodes": { name: 1 } }), json!({}));
    assert_eq!(bodies(&mut gateway.client(), 5), ["a"; 5]);
}

#[test]
fn an_upstream_is_found_inline_by_id_and_through_the_service() {
    let origins = [Origin::named("inline"), Origin::named("by id"), Origin::named("service")];
    let [inline, by_id, service] = origins.each_ref().map(|origin| upstream([origin.address()]));
    let resources = json!({
        "routes": [
            { "id": "1", "uri": "/inline", "upstream": inline, "service_id": "s" },
            { "id": "2", "uri": "/by-id", "upstream_id": "u", "service_id": "s" },
            { "id": "3", "uri": "/service", "service_id": "s" },
            { "id": "4", "uri": "/service-by-id", "service_id": "t" },
        ],
        "services": [{ "id": "s", "upstream": service }, { "id": "t", "upstream_id": "u" }],
        "upstreams": [crate::support::with(by_id, json!({ "id": "u" }))],
    });
    let gateway = gateway().resources(&resources).start();
    let mut client = gateway.client();
    let cases = [
        ("/inline", "inline"),
        ("/by-id", "by id"),
        ("/service", "service"),
        ("/service-by-id", "by id"),
    ];
    for (target, expected) in cases {
        assert_eq!(client.get(target).text(), expected, "{target}");
    }
}

#[test]
fn a_client_stays_on_the_node_of_its_cookie() {
    let origins = ["a", "b", "c", "d"].map(Origin::named);
    let nodes = origins.each_ref().map(|origin| (origin.address().to_string(), json!(1)));
    let upstream = json!({ "type": "chash", "hash_on": "cookie", "key": "route", "nodes": Value::Object(nodes.into_iter().collect()) });
    let plugins = json!({ "session-cookie": { "name": "route" } });
    let route = json!({ "id": "all", "uri": "/*", "upstream": upstream, "plugins": plugins });
    let gateway = gateway().resources(&routes([route])).start();
    let mut chosen = Vec::new();
    for _ in 0..20 {
        let mut client = gateway.client();
        let first = client.get("/");
        let cookie = first.field("set-cookie").expect("a new client gets a cookie").to_owned();
        let pair = cookie.split(';').next().unwrap_or_default().to_owned();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {pair}\r\n\r\n");
        for _ in 0..3 {
            let next = client.ask(&request);
            assert_eq!(next.text(), first.text(), "{pair}");
            assert_eq!(next.field("set-cookie"), None);
        }
        chosen.push(first.text());
    }
    // Twenty clients on one of four nodes would be a chance of one in a million million.
    assert!(counts(&chosen).len() > 1, "{chosen:?}");
}
