//! What happens when a node fails: who is tried next, what is never tried twice, and connections
//! that were kept and turn out to be dead.

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::{ClosedPort, Connection, Gateway, Origin, StuckPort};

use crate::support::{everything_with, gateway, gateway_to, routes, upstream};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

/// A gateway that tries the node on the first port and turns to the second when it fails.
fn first_then(first: u16, second: &Origin, members: Value) -> Gateway {
    let node = |port: u16, priority: i32| json!({ "host": "127.0.0.1", "port": port, "weight": 1, "priority": priority });
    let nodes = json!([node(first, 1), node(second.address().port(), 0)]);
    let upstream = json!({ "type": "roundrobin", "nodes": nodes });
    gateway().resources(&everything_with(upstream, members)).start()
}

/// What a failing node does with a connection.
type Script = fn(&mut Connection);

fn reads_and_closes(connection: &mut Connection) {
    connection.request();
}

fn reads_and_resets(connection: &mut Connection) {
    connection.request();
    connection.wire.reset().expect("the connection is still there");
}

fn says_nonsense(connection: &mut Connection) {
    connection.request();
    connection.send("nonsense\r\n\r\n");
}

fn says_nothing(connection: &mut Connection) {
    connection.request();
    // Until the gateway has had enough.
    let _ = connection.wait_end();
}

#[test]
fn a_node_that_refuses_is_passed_over() {
    let refusing = ClosedPort::new();
    let good = Origin::named("good");
    let gateway = first_then(refusing.address().port(), &good, json!({}));
    let mut client = gateway.client();
    let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for request in [GET, POST, chunked] {
        assert_eq!(client.ask(request).text(), "good", "{request:?}");
    }
    assert_eq!(good.last_request().text(), "hello");
    assert_eq!(gateway.metric("tollhouse_upstream_retries_total"), 3.0);
}

#[test]
fn a_request_that_may_be_repeated_goes_to_the_next_node() {
    let scripts: [Script; 4] = [reads_and_closes, reads_and_resets, says_nonsense, says_nothing];
    let methods = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"];
    for script in scripts {
        let (failing, good) = (Origin::script(script), Origin::named("good"));
        let timeout = json!({ "timeout": { "connect": 5, "send": 5, "read": 1 } });
        let gateway = first_then(failing.address().port(), &good, timeout);
        for method in methods {
            let mut client = gateway.client();
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"));
            let head = client.answer_head();
            assert_eq!(head.status(), 200, "{method}");
        }
        let sent: Vec<_> = good.requests().iter().map(|request| request.text()).collect();
        assert_eq!(sent, ["hi"; 5]);
        assert_eq!(failing.requests().len(), 5);
    }
}

#[test]
fn a_request_that_may_not_be_repeated_is_sent_once() {
    let scripts: [(Script, u16); 4] = [
        (reads_and_closes, 502),
        (reads_and_resets, 502),
        (says_nonsense, 502),
        (says_nothing, 504),
    ];
    for (script, status) in scripts {
        let (failing, good) = (Origin::script(script), Origin::named("good"));
        let timeout = json!({ "timeout": { "connect": 5, "send": 5, "read": 1 } });
        let gateway = first_then(failing.address().port(), &good, timeout);
        for method in ["POST", "PATCH", "LOCK"] {
            let answer = gateway.client().ask(POST.replace("POST", method));
            assert_eq!(answer.status(), status, "{method}");
        }
        assert_eq!((failing.requests().len(), good.requests().len()), (3, 0));
    }
}

#[test]
fn statuses_are_answers_and_not_failures() {
    let failing = Origin::answering(answer(503, "busy"));
    let good = Origin::named("good");
    let gateway = first_then(failing.address().port(), &good, json!({}));
    assert_eq!(gateway.client().get("/").text(), "busy");
    assert_eq!(good.requests().len(), 0);
}

#[test]
fn a_long_body_is_repeated_only_while_all_of_it_is_at_hand() {
    let failing = Origin::script(|connection| {
        connection.head();
        let _ = connection.wire.discard(1 << 20);
    });
    let good = Origin::named("good");
    let gateway = first_then(failing.address().port(), &good, json!({}));
    let mut client = gateway.client();
    let body = "x".repeat(1 << 20);
    let length = body.len();
    let answer =
        client.ask(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"));
    assert_eq!(answer.status(), 502);
    assert_eq!(good.requests().len(), 0);
}

#[test]
fn retries_are_bounded_by_number() {
    let refusing = [ClosedPort::new(), ClosedPort::new(), ClosedPort::new()];
    let addresses = refusing.each_ref().map(ClosedPort::address);
    for (members, tries) in [
        (json!({ "retries": 0 }), "502"),
        (json!({ "retries": 1 }), "502, 502"),
        (json!({ "retries": 7 }), "502, 502, 502"),
        (json!({}), "502, 502, 502"),
    ] {
        let resources = everything_with(upstream(addresses), members.clone());
        let gateway = gateway().resources(&resources).start();
        let answer = gateway.client().get("/");
        assert_eq!(answer.status(), 502);
        assert_eq!(answer.field("x-apisix-upstream-status"), Some(tries), "{members}");
    }
}

#[test]
fn the_only_node_of_an_upstream_is_tried_again_if_retries_ask_for_it() {
    let refusing = ClosedPort::new();
    for (members, tries) in [(json!({ "retries": 2 }), "502, 502, 502"), (json!({}), "502")] {
        let resources = everything_with(upstream([refusing.address()]), members.clone());
        let gateway = gateway().resources(&resources).start();
        let answer = gateway.client().get("/");
        assert_eq!(answer.field("x-apisix-upstream-status"), Some(tries), "{members}");
    }
}

#[test]
fn retries_are_bounded_by_time() {
    let (stuck, good) = (StuckPort::new(), Origin::named("good"));
    let slow = json!({ "timeout": { "connect": 0.2, "send": 5, "read": 5 } });
    let within = crate::support::with(slow.clone(), json!({ "retry_timeout": 5 }));
    let gateway = first_then(stuck.address().port(), &good, within);
    assert_eq!(gateway.client().get("/").text(), "good");
    let beyond = crate::support::with(slow, json!({ "retry_timeout": 0.1 }));
    let gateway = first_then(stuck.address().port(), &good, beyond);
    assert_eq!(gateway.client().get("/").status(), 502);
    gateway.wait_failures("retry_budget_exceeded", 1);
}

#[test]
fn a_routes_time_outs_win_over_its_upstreams() {
    let silent = Origin::script(says_nothing);
    let mut resources = everything_with(
        upstream([silent.address()]),
        json!({ "timeout": { "connect": 60, "send": 60, "read": 60 } }),
    );
    resources["routes"][0]["timeout"] = json!({ "connect": 1, "send": 1, "read": 0.1 });
    let gateway = gateway().resources(&resources).start();
    assert_eq!(gateway.client().get("/").status(), 504);
}

#[test]
fn connections_to_a_node_are_kept() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    for _ in 0..4 {
        let mut client = gateway.client();
        for request in [GET, POST, GET, POST, GET] {
            assert_eq!(client.ask(request).status(), 200);
        }
    }
    assert_eq!((origin.requests().len(), origin.connections()), (20, 1));
}

#[test]
fn a_pool_has_its_bounds() {
    let origin = Origin::named("a");
    let members = json!({ "keepalive_pool": { "size": 1, "idle_timeout": 60, "requests": 5 } });
    let resources = everything_with(upstream([origin.address()]), members);
    let gateway = gateway().resources(&resources).start();
    let mut client = gateway.client();
    for _ in 0..20 {
        assert_eq!(client.ask(GET).status(), 200);
    }
    assert_eq!(origin.connections(), 4);
}

#[test]
fn an_origin_that_closes_is_not_asked_again_on_that_connection() {
    let cases = [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
    ];
    for bytes in cases {
        let origin = Origin::script(move |connection| {
            connection.request();
            connection.send(bytes);
            // A second request on this connection would be lost.
            assert_eq!(connection.request(), None);
        });
        let gateway = gateway_to(&origin);
        let mut client = gateway.client();
        for request in [GET, POST, GET, POST] {
            assert_eq!(client.ask(request).text(), "a", "{bytes:?}");
        }
        assert_eq!(origin.connections(), 4);
    }
}

#[test]
fn a_kept_connection_that_the_origin_has_ended_is_invisible_to_the_client() {
    let origin = Origin::closing_after(answer(200, "a"));
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..50 {
        assert_eq!(client.ask(GET).text(), "a");
    }
    assert_eq!(origin.connections(), 50);
}

#[test]
fn a_kept_connection_that_ends_under_a_request_is_replaced_if_the_request_may_be_repeated() {
    let origin = Origin::script(|connection| {
        // Serves one request, takes a second, and is gone.
        if connection.request().is_some() {
            connection.send(answer(200, "a"));
            connection.request();
        }
    });
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..10 {
        assert_eq!(client.ask(GET).text(), "a");
    }
    assert_eq!(gateway.metric("tollhouse_upstream_retries_total"), 0.0);
    // The connection left behind by the last GET takes the POST, and nobody else may.
    origin.forget();
    assert_eq!(client.ask(POST).status(), 502);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn an_answer_nobody_asked_for_spoils_its_connection() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    );
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..5 {
        assert_eq!(client.ask(GET).text(), "a");
    }
    assert_eq!(origin.connections(), 5);
}

/// A gateway with `retry-statuses` that tries the first node before the second.
fn retrying_statuses(first: &Origin, second: &Origin, upstream_members: Value) -> Gateway {
    let node = |origin: &Origin, priority: i32| json!({ "host": "127.0.0.1", "port": origin.address().port(), "weight": 1, "priority": priority });
    let mut upstream = json!({ "type": "roundrobin", "nodes": [node(first, 1), node(second, 0)] });
    let members = upstream_members.as_object().expect("members").clone();
    upstream.as_object_mut().expect("an object").extend(members);
    let plugins = json!({ "retry-statuses": { "statuses": [502, 503] } });
    let route = json!({ "id": "all", "uri": "/*", "upstream": upstream, "plugins": plugins });
    gateway().resources(&routes([route])).start()
}

#[test]
fn a_chosen_status_leads_to_another_node() {
    let (busy, good) = (Origin::answering(answer(503, "busy")), Origin::named("good"));
    let gateway = retrying_statuses(&busy, &good, json!({}));
    let mut client = gateway.client();
    assert_eq!(client.ask(GET).text(), "good");
    assert_eq!(gateway.metric("tollhouse_upstream_retries_total"), 1.0);
    // A request that may not be repeated gets the answer of its node.
    let refused = client.ask(POST);
    assert_eq!((refused.status(), refused.text().as_str()), (503, "busy"));
    let put = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(client.ask(put).text(), "good");
    assert_eq!(good.last_request().text(), "hello");
}

#[test]
fn the_last_nodes_answer_is_passed_on_whatever_its_status() {
    let [one, other] = ["one", "other"].map(|name| Origin::answering(answer(503, name)));
    let gateway = retrying_statuses(&one, &other, json!({}));
    let last = gateway.client().ask(GET);
    assert_eq!((last.status(), last.text().as_str()), (503, "other"));
    let gateway = retrying_statuses(&one, &other, json!({ "retries": 0 }));
    assert_eq!(gateway.client().ask(GET).text(), "one");
}
