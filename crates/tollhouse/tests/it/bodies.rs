//! Bodies and what surrounds them: framing in both directions, trailers, interim answers, answers
//! that come before the request has ended.

use tollhouse_testkit::{Connection, Origin, RawClient};

use crate::support::gateway_to;

#[test]
fn a_chunked_request_arrives_in_chunks_of_the_gateways_own() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
    let body = "5;name=value\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 11\r\n\r\n";
    let mut client = gateway.client();
    assert_eq!(client.ask(format!("{head}{body}")).status(), 200);
    let seen = origin.last_request();
    assert_eq!(seen.field("transfer-encoding"), Some("chunked"));
    assert_eq!(seen.field("content-length"), None);
    assert_eq!(seen.text(), "hello world");
    assert_eq!((seen.field("trailer"), seen.trailers.len()), (None, 0));
    assert_eq!(client.get("/").status(), 200);
}

#[test]
fn trailers_of_an_answer_pass_to_a_client_that_asks_for_them() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n";
    let body = "5\r\nhello\r\n6\r\n world\r\n0\r\nConnection: close\r\nX-Sum: 11\r\n\r\n";
    let origin = Origin::answering(format!("{head}{body}"));
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.get("/");
        assert_eq!(answer.text(), "hello world");
        assert_eq!((answer.field("trailer"), answer.trailers.len()), (None, 0));
        let asking = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
        let answer = client.ask(asking);
        assert_eq!(
            (answer.text().as_str(), answer.field("trailer")),
            ("hello world", Some("X-Sum"))
        );
        assert_eq!(answer.trailers, [("X-Sum".to_owned(), "11".to_owned())]);
    }
    assert_eq!(origin.connections(), 1, "the connection to the node is kept");
    let answer = gateway.client().ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(answer.field("transfer-encoding"), None);
    assert_eq!(answer.text(), "hello world");
}

#[test]
fn answers_without_a_body_have_none_whatever_their_head_says() {
    let cases = [
        ("HEAD", "200 OK\r\nContent-Length: 7", Some("7")),
        ("HEAD", "200 OK\r\nTransfer-Encoding: chunked", None),
        ("HEAD", "404 Not Found\r\nContent-Length: 0", Some("0")),
        ("GET", "204 No Content", None),
        ("GET", "204 No Content\r\nContent-Length: 0", None),
        ("GET", "304 Not Modified\r\nContent-Length: 7\r\nETag: \"x\"", Some("7")),
        ("GET", "205 Reset Content\r\nContent-Length: 0", Some("0")),
    ];
    for (method, head, length) in cases {
        let origin = Origin::answering(format!("HTTP/1.1 {head}\r\n\r\n"));
        let gateway = gateway_to(&origin);
        let mut client = gateway.client();
        for _ in 0..2 {
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
            let answer = if method == "HEAD" { client.answer_to_head() } else { client.answer() };
            assert_eq!(
                answer.start_line,
                format!("HTTP/1.1 {}", head.split('\r').next().expect("a line"))
            );
            assert_eq!(answer.field("content-length"), length, "{method} {head}");
        }
        assert_eq!(origin.connections(), 1, "{method} {head}");
    }
}

const EXPECTING: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";

#[test]
fn a_body_is_invited_once_it_is_wanted() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        client.send(EXPECTING).expect("HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(client.ask("hello").status(), 200);
        assert_eq!(origin.last_request().text(), "hello");
        assert_eq!(origin.last_request().field("expect"), None);
    }
    // A body that has come along needs no invitation.
    assert_eq!(client.ask(format!("{EXPECTING}hello")).status(), 200);
}

#[test]
fn a_refused_request_gets_its_answer_and_no_invitation() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let cases = [
        (EXPECTING.replace("POST /", "POST /%"), 400),
        (EXPECTING.replace("100-continue", "200-maybe"), 417),
        (EXPECTING.replace("Host: a", "Host: a b"), 400),
    ];
    for (request, status) in cases {
        let mut client = gateway.client();
        let answer = client.ask(&request);
        assert_eq!((answer.status(), answer.field("connection")), (status, Some("close")));
        client.expect_end();
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_refusal_by_a_plugin_is_read_whatever_the_client_still_sends() {
    const BODY_BYTES: usize = 8_000_000;
    let origin = Origin::named("a");
    let refusing = serde_json::json!({"ip-restriction": {"whitelist": ["192.0.2.0/24"]}});
    let route = serde_json::json!({
        "id": "1", "uri": "/*", "plugins": refusing, "upstream": crate::support::upstream([origin.address()]),
    });
    let gateway = crate::support::gateway().resources(&crate::support::routes([route])).start();
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY_BYTES}\r\n");
    // The answer comes in the place of the invitation.
    let answer = gateway.client().ask(format!("{head}Expect: 100-continue\r\n\r\n"));
    assert_eq!((answer.status(), answer.field("connection")), (403, Some("close")));
    // Whoever sends all of the body first reads the answer behind it.
    let mut client = gateway.client();
    client.send(format!("{head}\r\n")).send(vec![b'x'; BODY_BYTES]);
    assert_eq!(client.answer().status(), 403);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn early_hints_reach_clients_that_know_them() {
    let origin = Origin::answering(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone",
    );
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for link in ["</a.css>; rel=preload", "</b.css>; rel=preload"] {
        let hint = if link.contains("/a") { client.get("/") } else { client.answer() };
        assert_eq!((hint.status(), hint.field("link")), (103, Some(link)));
    }
    assert_eq!(client.answer().text(), "done");
    let mut old = gateway.client();
    assert_eq!(old.ask("GET / HTTP/1.0\r\n\r\n").text(), "done");
}

#[test]
fn a_node_may_say_for_long_that_it_is_at_work() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(300)
        + &"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".repeat(2)
        + "HTTP/1.1 199 Of No Kind\r\n\r\n";
    let origin = Origin::answering(interim + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    let mut statuses = Vec::new();
    let mut answer = client.get("/");
    while answer.status() < 200 {
        statuses.push(answer.status());
        answer = client.answer();
    }
    assert_eq!(answer.text(), "done");
    assert_eq!(statuses, [&[102; 300][..], &[103, 103, 199]].concat());
    // HTTP/1.0 has no interim answers.
    let old = gateway.client().ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((old.status(), old.text().as_str()), (200, "done"));
}

#[test]
fn endless_interim_answers_are_no_answer() {
    let origin = Origin::script(|connection| {
        if connection.request().is_some() {
            while connection.send("HTTP/1.1 102 Processing\r\n\r\n") {}
        }
    });
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    let mut answer = client.get("/");
    while answer.status() == 102 {
        answer = client.answer();
    }
    assert_eq!(answer.status(), 502);
}

const TOO_LARGE: &str =
    "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\ntoo large";
const UPLOAD_BYTES: usize = 16 << 20;

fn refuses_uploads(connection: &mut Connection) {
    if connection.head().is_some() {
        connection.send(TOO_LARGE);
        // Until the gateway gives the connection up; what it still sent is not of interest.
        let _ = connection.wait_end();
    }
}

#[test]
fn an_answer_may_come_while_the_request_is_still_being_sent() {
    let origin = Origin::script(refuses_uploads);
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n"));
    client.send(vec![b'x'; 100_000]);
    let answer = client.answer();
    assert_eq!((answer.status(), answer.text().as_str()), (413, "too large"));
    assert_eq!(answer.field("connection"), Some("close"));
    client.expect_end();
}

#[test]
fn an_early_answer_arrives_although_the_client_does_not_stop() {
    let scripts: [fn(&mut Connection); 2] = [refuses_uploads, |connection| {
        if connection.head().is_some() {
            connection.send(TOO_LARGE);
        }
    }];
    for script in scripts {
        let origin = Origin::script(script);
        let gateway = gateway_to(&origin);
        let mut client = gateway.client();
        let length = format!("Content-Length: {UPLOAD_BYTES}\r\n");
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{length}\r\n"));
        let stream = client.wire.stream().try_clone().expect("a socket can be shared");
        let upload = std::thread::spawn(move || {
            // Breaks off when the gateway closes, as it may.
            let _ = std::io::Write::write_all(&mut &stream, &vec![b'x'; UPLOAD_BYTES]);
        });
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text().as_str()), (413, "too large"));
        drop(client);
        upload.join().expect("the upload ends");
    }
}

#[test]
fn an_early_answer_tells_whether_the_connection_goes_on() {
    let origin = Origin::script(|connection| {
        if connection.head().is_some() {
            connection.send(TOO_LARGE);
        }
    });
    let gateway = gateway_to(&origin);
    for length in [1, 10_000, 20_000, 100_000, 1_000_000] {
        let mut client = gateway.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        client.send(vec![b'x'; length]);
        let answer = client.answer();
        assert_eq!((answer.status(), answer.text().as_str()), (413, "too large"), "{length}");
        match answer.field("connection") {
            Some(_) => client.expect_end(),
            None => assert_eq!(client.get("/").status(), 413, "{length}"),
        }
    }
}

#[test]
fn an_answer_that_breaks_off_is_seen_to_break_off() {
    let cases = [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ];
    for bytes in cases {
        let origin = Origin::closing_after(bytes);
        let gateway = gateway_to(&origin);
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer_head().status(), 200);
        let rest = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(rest.contains("half") && !rest.ends_with("0\r\n\r\n"), "{bytes:?}: {rest:?}");
    }
}

#[test]
fn an_answer_that_is_broken_from_the_start_is_replaced() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let origin = Origin::answering(format!("{head}zz\r\n"));
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        assert_eq!(client.get("/").status(), 502);
    }
    gateway.wait_failures("upstream_bad_response", 2);
}

#[test]
fn a_client_that_breaks_off_inside_of_its_body_ends_the_request() {
    let origin = Origin::script(|connection| {
        connection.head();
        assert!(connection.wire.take(10).is_err(), "the body must not look complete");
    });
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
    origin.wait_requests(1);
    drop(client);
    gateway.wait_failures("downstream_gone", 1);
}

/// Asks over one connection and gives the statuses.
fn statuses(client: &mut RawClient, requests: &[&str]) -> Vec<u16> {
    requests.iter().map(|request| client.ask(request).status()).collect()
}

#[test]
fn methods_with_and_without_bodies_share_a_connection() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let found = statuses(
        &mut gateway.client(),
        &[
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy",
            "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n",
            "PATCH / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "PROPFIND / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ],
    );
    assert_eq!(found, [200; 4]);
    let bodies: Vec<_> = origin.requests().iter().map(|request| request.body.len()).collect();
    assert_eq!(bodies, [2, 0, 0, 0]);
}
