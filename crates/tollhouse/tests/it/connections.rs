//! The life of a client's connection: kept, pipelined, half-closed, ended.

use std::io::Read;
use std::net::TcpStream;

use tollhouse_testkit::origin::answer;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Origin, RawClient};

use crate::support::{everything_to, gateway, gateway_to};

/// An origin that answers with the target it was asked for.
fn echo_of_targets() -> Origin {
    Origin::script(|connection| {
        while let Some(request) = connection.request() {
            connection.send(answer(200, request.target()));
        }
    })
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..5 {
        let answer = client.get("/");
        assert_eq!((answer.status(), answer.text().as_str()), (200, "a"));
        assert_eq!(answer.field("connection"), None);
    }
    assert_eq!(origin.requests().len(), 5);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = echo_of_targets();
    let gateway = gateway_to(&origin);
    for count in [2, 100] {
        let request = |n| format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut client = gateway.client();
        client.send((0..count).map(request).collect::<String>());
        for n in 0..count {
            assert_eq!(client.answer().text(), format!("/{n}"));
        }
    }
}

#[test]
fn pipelined_requests_with_bodies_stay_apart() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    client.send(
        "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none\
         POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n\
         GET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    for _ in 0..3 {
        assert_eq!(client.answer().status(), 200);
    }
    let bodies: Vec<_> = origin.requests().iter().map(|request| request.text()).collect();
    assert_eq!(bodies, ["one", "two", ""]);
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for byte in b"\r\nPOST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok" {
        client.send([*byte]);
    }
    assert_eq!(client.answer().status(), 200);
    assert_eq!(origin.last_request().text(), "ok");
}

#[test]
fn the_connection_ends_or_stays_as_the_client_asks() {
    let cases = [
        ("HTTP/1.1", "", None),
        ("HTTP/1.1", "Connection: close\r\n", Some("close")),
        ("HTTP/1.1", "Connection: x, Close\r\n", Some("close")),
        ("HTTP/1.0", "", Some("close")),
        ("HTTP/1.0", "Connection: keep-alive\r\n", Some("keep-alive")),
        ("HTTP/1.0", "Connection: Keep-Alive\r\n", Some("keep-alive")),
        ("HTTP/1.0", "Connection: close\r\n", Some("close")),
    ];
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    for (version, line, expected) in cases {
        let request = format!("GET / {version}\r\nHost: a\r\n{line}\r\n");
        let mut client = gateway.client();
        let answer = client.ask(&request);
        assert_eq!(answer.field("connection"), expected, "{version} {line:?}");
        assert_eq!(answer.start_line, "HTTP/1.1 200 Said", "{version} {line:?}");
        if expected == Some("close") {
            client.expect_end();
        } else {
            assert_eq!(client.ask(&request).status(), 200, "{version} {line:?}");
        }
    }
}

#[test]
fn an_origin_that_speaks_one_zero_does_not_end_the_clients_connection() {
    let origin = Origin::closing_after("HTTP/1.0 200 OK\r\nX-Kind: old\r\n\r\nuntil the end");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.get("/");
        assert_eq!(answer.start_line, "HTTP/1.1 200 OK");
        assert_eq!(answer.field("transfer-encoding"), Some("chunked"));
        assert_eq!(answer.text(), "until the end");
    }
    let mut old = gateway.client();
    let answer = old.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(answer.field("transfer-encoding"), None);
    assert_eq!(answer.text(), "until the end");
}

#[test]
fn a_connection_closes_after_its_last_request() {
    let origin = Origin::named("a");
    let gateway = crate::support::gateway()
        .set("limits.requests_per_connection", "2")
        .resources(&crate::support::everything_to(origin.address()))
        .start();
    let mut client = gateway.client();
    assert_eq!(client.get("/").field("connection"), None);
    assert_eq!(client.get("/").field("connection"), Some("close"));
    client.expect_end();
}

#[test]
fn an_idle_connection_closes_without_an_answer() {
    let origin = Origin::named("a");
    let gateway = crate::support::gateway()
        .set("limits.idle_time", "1s")
        .resources(&crate::support::everything_to(origin.address()))
        .start();
    gateway.client().expect_end();
    let mut client = gateway.client();
    assert_eq!(client.get("/").status(), 200);
    client.expect_end();
}

#[test]
fn a_client_that_has_said_everything_still_gets_its_answer() {
    let origin = echo_of_targets();
    // However slow the origin is: by default, a FIN ends a request that is pending for long.
    let gateway = gateway()
        .set("on_client_half_close", "wait")
        .resources(&everything_to(origin.address()))
        .start();
    let mut client = gateway.client();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.half_close();
    assert_eq!(client.answer().text(), "/1");
    assert_eq!(client.answer().text(), "/2");
    client.expect_end();
}

#[test]
fn an_absolute_target_becomes_a_path_and_a_host() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let request = "GET http://there.test:81/a/b?c=d HTTP/1.1\r\nHost: here.test\r\n\r\n";
    assert_eq!(gateway.client().ask(request).status(), 200);
    let seen = origin.last_request();
    assert_eq!(seen.start_line, "GET /a/b?c=d HTTP/1.1");
    assert_eq!(seen.field("host"), Some("there.test:81"));
    assert_eq!(gateway.client().ask("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n").status(), 200);
    assert_eq!(origin.last_request().start_line, "GET / HTTP/1.1");
}

#[test]
fn a_question_about_the_server_as_a_whole_is_answered_by_the_gateway() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    let answer = client.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status(), answer.field("content-length")), (200, Some("0")));
    assert!(answer.field("allow").is_some_and(|methods| methods.contains("GET")));
    assert_eq!(client.get("/").text(), "a");
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn the_target_reaches_the_origin_as_it_was_sent() {
    let origin = echo_of_targets();
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for target in ["/%41%2f?x=%20", "//a//b", "/a/../b", "/?", "/a;b=c", "/~a!$&'()*+,=:@"] {
        assert_eq!(client.get(target).text(), target);
    }
}

#[test]
fn a_flood_of_clients_is_refused_with_an_answer_and_takes_nothing_from_the_others() {
    let origin = Origin::named("a");
    let resources = everything_to(origin.address());
    let gateway = gateway().resources(&resources).open_files(256, 768).start();
    let mut first = gateway.client();
    assert_eq!(first.get("/").text(), "a");
    // More than the soft limit, which is raised, and than what the hard one leaves to clients.
    let connect = || TcpStream::connect(gateway.address()).expect("the kernel queues it");
    let mut held: Vec<_> = (0..700).map(|_| connect()).collect();
    wait_for("a refusal", || {
        let name = "tollhouse_downstream_connections_refused_total{reason=\"limit\"}";
        (gateway.metric(name) > 0.0).then_some(())
    });
    assert!(
        gateway.metric("tollhouse_downstream_connections_open") > 256.0,
        "the limit was raised"
    );
    wait_for("a refusal with an answer", || {
        let mut answer = Vec::new();
        // A few are answered at a time, the rest is closed.
        let _ = connect().read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.1 503").then_some(())
    });
    // Who is in goes on, over a new connection to a node each.
    held.truncate(20);
    for client in held {
        let mut client = RawClient::over(client);
        assert_eq!(client.get("/").text(), "a");
    }
    assert_eq!(gateway.failures("upstream_connect_failed"), 0.0);
}
