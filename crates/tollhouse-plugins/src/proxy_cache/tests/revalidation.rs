//! Conditions, ranges, revalidation and invalidation, in memory and on the disk.

use super::*;

const TAGGED: &str =
    "200\nCache-Control: max-age=10\nETag: \"a\"\nContent-Type: text/plain\nX-A: 1";
const MODIFIED: &str =
    "200\nCache-Control: max-age=10\nLast-Modified: Tue, 14 Nov 2023 10:00:00 GMT";

/// Both strategies, with what clients ask for.
fn stores() -> [Value; 2] {
    [json!({"cache_control": true}), json!({"cache_control": true, "cache_strategy": "disk"})]
}

fn get(lines: &str) -> String {
    let separator = if lines.is_empty() { "" } else { "\n" };
    format!("GET /a HTTP/1.1\n{lines}{separator}\n")
}

/// Asks the plugin; its answer, or the edits of the request that a node gets.
fn ask(harness: &mut Harness, request: &str) -> (FakeExchange, Outcome) {
    let mut exchange = FakeExchange::parse(request, harness.now_ms);
    let outcome = harness.run(&mut exchange);
    (exchange, outcome)
}

/// Status, verdict and body of the answer to a request, for which the node has `head` and a body of ten bytes.
fn told(harness: &mut Harness, request: &str, head: &str) -> String {
    let reply = exchange(harness, request, head, "0123456789");
    format!("{} {} {}", reply.status, reply.header(STATUS_HEADER).unwrap_or("-"), reply.body)
}

#[test]
fn a_client_that_has_the_stored_version_gets_a_304() {
    for conf in stores() {
        for (head, lines, expected) in [
            (TAGGED, "If-None-Match: \"a\"", "304 HIT "),
            (TAGGED, "If-None-Match: W/\"a\"", "304 HIT "),
            (TAGGED, "If-None-Match: \"b\"\nIf-None-Match: \"a\"", "304 HIT "),
            (TAGGED, "If-None-Match: \"b\"", "200 HIT 0123456789"),
            (MODIFIED, "If-Modified-Since: Tue, 14 Nov 2023 10:00:00 GMT", "304 HIT "),
            (MODIFIED, "If-Modified-Since: Tue, 14 Nov 2023 09:00:00 GMT", "200 HIT 0123456789"),
        ] {
            let (mut harness, _disk) = on_disk(conf.clone());
            assert_eq!(told(&mut harness, &get(""), head), "200 MISS 0123456789");
            assert_eq!(told(&mut harness, &get(lines), head), expected, "{conf} {lines}");
        }
    }
    let (mut harness, _disk) = on_disk(json!({}));
    exchange(&mut harness, &get(""), TAGGED, "body");
    harness.now_ms += 3_000;
    let reply = exchange(&mut harness, &get("If-None-Match: \"a\""), TAGGED, "");
    let names: Vec<&str> = reply.headers.iter().map(|(name, _)| &**name).collect();
    let expected = ["Cache-Control", "ETag", "X-A", "Date", "Age", STATUS_HEADER];
    assert_eq!(names, expected, "a 304 describes no body");
    assert_eq!(reply.header("age"), Some("3"));
}

#[test]
fn conditions_are_not_asked_of_answers_that_are_no_success() {
    let (mut harness, _disk) = on_disk(json!({}));
    let head = "404\nETag: \"a\"";
    assert_eq!(told(&mut harness, &get(""), head), "404 MISS 0123456789");
    let again = get("If-None-Match: \"a\"\nRange: bytes=0-1");
    assert_eq!(told(&mut harness, &again, head), "404 HIT 0123456789");
}

#[test]
fn a_returning_client_fills_the_cache_for_others() {
    for conf in stores() {
        let (mut harness, _disk) = on_disk(conf);
        let (mut request, outcome) = ask(&mut harness, &get("If-None-Match: \"a\""));
        assert!(outcome.edits.contains("-if-none-match\n"), "{}", outcome.edits);
        let reply = harness.respond(&mut request, TAGGED, &["01234", "56789"]);
        assert_eq!((reply.status, reply.body.as_str()), (304, ""));
        assert_eq!(reply.header(STATUS_HEADER), Some("MISS"));
        assert_eq!(told(&mut harness, &get(""), TAGGED), "200 HIT 0123456789");
    }
}

#[test]
fn a_returning_client_gets_a_304_also_of_an_answer_that_is_not_stored() {
    let (mut harness, _disk) = on_disk(json!({}));
    let head = "200\nCache-Control: private\nETag: \"a\"";
    let request = get("If-None-Match: \"a\"");
    assert_eq!(told(&mut harness, &request, head), "304 MISS ");
    assert_eq!(told(&mut harness, &get(""), head), "200 MISS 0123456789");
    // The node decides for a client with credentials of its own, whose answers are seldom stored.
    let (_, outcome) = ask(&mut harness, &get("Cookie: a=b\nIf-None-Match: \"a\""));
    assert_eq!(outcome.edits, "");
}

#[test]
fn a_stale_answer_is_revalidated_and_refreshed() {
    for conf in stores() {
        for (head, question) in [
            (TAGGED, "+If-None-Match: \"a\"\n"),
            (MODIFIED, "+If-Modified-Since: Tue, 14 Nov 2023 10:00:00 GMT\n"),
        ] {
            let (mut harness, _disk) = on_disk(conf.clone());
            assert_eq!(told(&mut harness, &get(""), head), "200 MISS 0123456789");
            harness.now_ms += 11_000;
            let (mut request, outcome) = ask(&mut harness, &get(""));
            assert_eq!(outcome.edits, question, "{conf}");
            let update = "304\nCache-Control: max-age=20\nX-A: 2\nContent-Length: 3";
            let reply = harness.respond(&mut request, update, &[]);
            assert_eq!((reply.status, reply.body.as_str()), (200, "0123456789"), "{conf}");
            assert_eq!(reply.header(STATUS_HEADER), Some("REVALIDATED"));
            assert_eq!((reply.header("x-a"), reply.header("age")), (Some("2"), Some("0")));
            assert_eq!(reply.header("date"), Some("Tue, 02 Oct 2096 07:06:51 GMT"));
            assert_eq!(reply.header("content-length"), None);
            harness.now_ms += 19_000;
            let reply = exchange(&mut harness, &get(""), "500", "");
            assert_eq!((reply.status, reply.header("x-a")), (200, Some("2")), "{conf}");
            assert_eq!(
                (reply.header(STATUS_HEADER), reply.header("age")),
                (Some("HIT"), Some("19"))
            );
        }
    }
}

#[test]
fn conditions_of_a_client_are_answered_from_the_refreshed_answer() {
    for (lines, expected) in [
        ("If-None-Match: \"a\"", "304 REVALIDATED "),
        ("If-None-Match: \"b\"", "200 REVALIDATED 0123456789"),
        ("Range: bytes=2-3", "206 REVALIDATED 23"),
    ] {
        let (mut harness, _disk) = on_disk(json!({}));
        told(&mut harness, &get(""), TAGGED);
        harness.now_ms += 11_000;
        assert_eq!(told(&mut harness, &get(lines), "304\nETag: \"a\""), expected, "{lines}");
    }
}

#[test]
fn a_new_version_replaces_a_stale_answer() {
    for conf in stores() {
        let (mut harness, _disk) = on_disk(conf);
        told(&mut harness, &get(""), TAGGED);
        harness.now_ms += 11_000;
        let newer = "200\nCache-Control: max-age=10\nETag: \"b\"";
        assert_eq!(told(&mut harness, &get("If-None-Match: \"b\""), newer), "304 EXPIRED ");
        assert_eq!(told(&mut harness, &get("If-None-Match: \"a\""), newer), "200 HIT 0123456789");
    }
}

#[test]
fn a_304_about_another_version_refreshes_nothing() {
    let (mut harness, _disk) = on_disk(json!({}));
    told(&mut harness, &get(""), TAGGED);
    harness.now_ms += 11_000;
    let other = "304\nCache-Control: max-age=10\nETag: \"b\"";
    assert_eq!(told(&mut harness, &get(""), other), "200 REVALIDATED 0123456789");
    assert_eq!(told(&mut harness, &get(""), TAGGED), "200 MISS 0123456789");
}

#[test]
fn what_a_304_says_to_one_client_reaches_no_other() {
    for update in [
        "304\nCache-Control: max-age=10, public\nSet-Cookie: sid=alice",
        "304\nCache-Control: max-age=10\nX-User: alice",
        "304\nCache-Control: max-age=10, private\nX-User: alice",
    ] {
        let (mut harness, _disk) = on_disk(json!({}));
        told(&mut harness, &get(""), TAGGED);
        harness.now_ms += 11_000;
        let alice = exchange(&mut harness, &get("Cookie: sid=alice"), update, "");
        assert_eq!((alice.status, alice.body.as_str()), (200, "0123456789"), "{update}");
        let own = alice.header("set-cookie").or(alice.header("x-user"));
        assert!(own.is_some_and(|line| line.ends_with("alice")), "{update}");
        let bob = exchange(&mut harness, &get("Cookie: sid=bob"), "304\nETag: \"a\"", "");
        assert_eq!((bob.header("set-cookie"), bob.header("x-user")), (None, None), "{update}");
    }
}

#[test]
fn an_answer_that_prohibits_reuse_is_stored_to_be_revalidated() {
    for directives in ["no-cache", "max-age=0", "no-cache, max-age=60"] {
        let (mut harness, _disk) = on_disk(json!({}));
        let head = format!("200\nCache-Control: {directives}\nETag: \"a\"");
        assert_eq!(told(&mut harness, &get(""), &head), "200 MISS 0123456789");
        let update = format!("304\nCache-Control: {directives}\nETag: \"a\"");
        for _ in 0..2 {
            let told = told(&mut harness, &get(""), &update);
            assert_eq!(told, "200 REVALIDATED 0123456789", "{directives}");
        }
    }
}

#[test]
fn fields_that_an_answer_names_are_not_stored() {
    let (mut harness, _disk) = on_disk(json!({}));
    let head = "200\nCache-Control: max-age=10, no-cache=\"x-a, vary\", private=\"X-B\"\nX-A: 1\nX-B: 2\nX-C: 3\nVary: Accept";
    let first = exchange(&mut harness, &get("Accept: a"), head, "one");
    assert_eq!((first.header("x-a"), first.header("x-b")), (Some("1"), Some("2")));
    let hit = exchange(&mut harness, &get("Accept: a"), head, "two");
    let lines = (hit.header("x-a"), hit.header("x-b"), hit.header("x-c"));
    assert_eq!((hit.body.as_str(), lines), ("one", (None, None, Some("3"))));
    assert_eq!(exchange(&mut harness, &get("Accept: b"), head, "two").body, "two");
}

#[test]
fn parts_of_stored_bodies_are_sent() {
    for conf in stores() {
        let (mut harness, _disk) = on_disk(conf);
        told(&mut harness, &get(""), TAGGED);
        for (lines, expected, content_range) in [
            ("Range: bytes=0-1", "206 HIT 01", Some("bytes 0-1/10")),
            ("Range: bytes=-2", "206 HIT 89", Some("bytes 8-9/10")),
            ("Range: bytes=0-4, 3-6", "206 HIT 0123456", Some("bytes 0-6/10")),
            ("Range: bytes=0-1, 8-9", "200 HIT 0123456789", None),
            ("Range: bytes=10-", "416 HIT ", Some("bytes */10")),
            ("Range: bytes=0-1\nIf-Range: \"a\"", "206 HIT 01", Some("bytes 0-1/10")),
            ("Range: bytes=0-1\nIf-Range: \"b\"", "200 HIT 0123456789", None),
            ("Range: bytes=0-1\nIf-None-Match: \"a\"", "304 HIT ", None),
        ] {
            let reply = exchange(&mut harness, &get(lines), "500", "");
            let verdict = reply.header(STATUS_HEADER).unwrap_or("-");
            assert_eq!(format!("{} {verdict} {}", reply.status, reply.body), expected, "{lines}");
            assert_eq!(reply.header("content-range"), content_range, "{lines}");
            assert_eq!(reply.header("x-a").is_some(), reply.status != 416, "{lines}");
        }
        let head = "HEAD /a HTTP/1.1\nRange: bytes=0-1\n\n";
        assert_eq!(exchange(&mut harness, head, "500", "").status, 200);
    }
}

#[test]
fn a_part_from_a_node_is_not_stored_and_a_whole_body_asked_for_as_a_range_is() {
    let (mut harness, _disk) = on_disk(json!({"cache_http_status": [200, 206, 412, 416]}));
    let (mut request, outcome) = ask(&mut harness, &get("Range: bytes=0-1"));
    assert_eq!(outcome.edits, "");
    let part = "206\nCache-Control: max-age=10\nContent-Range: bytes 0-1/10";
    assert_eq!(harness.respond(&mut request, part, &["01"]).body, "01");
    let unsatisfied = "416\nCache-Control: max-age=10";
    assert_eq!(told(&mut harness, &get("Range: bytes=90-"), unsatisfied), "416 MISS 0123456789");
    let head = format!("{TAGGED}\nContent-Length: 10");
    let first = exchange(&mut harness, &get("Range: bytes=0-"), &head, "0123456789");
    assert_eq!((first.status, first.body.as_str()), (206, "0123456789"));
    assert_eq!(first.header("content-range"), Some("bytes 0-9/10"));
    assert_eq!(told(&mut harness, &get(""), TAGGED), "200 HIT 0123456789");
}

#[test]
fn a_stale_answer_is_served_when_a_node_fails_if_it_permits() {
    for (directives, after_ms, expected) in [
        ("max-age=10, stale-if-error=60", 11_000, true),
        ("max-age=10, stale-if-error=60", 71_000, false),
        ("max-age=10", 11_000, false),
        ("max-age=10, stale-if-error=60, must-revalidate", 11_000, false),
        ("s-maxage=10, stale-if-error=60", 11_000, false),
    ] {
        for conf in stores() {
            let (mut harness, _disk) = on_disk(conf);
            let head = format!("200\nCache-Control: {directives}");
            told(&mut harness, &get(""), &head);
            harness.now_ms += after_ms;
            let (mut request, _) = ask(&mut harness, &get(""));
            let reply = harness.fail(&mut request, 504);
            assert_eq!(reply.is_some(), expected, "{directives} {after_ms}");
            if let Some(reply) = reply {
                assert_eq!(reply.header(STATUS_HEADER), Some("STALE"));
                assert_eq!(reply.body, "0123456789");
            }
            let told = told(&mut harness, &get(""), "503");
            let is_stale = told == "200 STALE 0123456789";
            assert_eq!(is_stale, expected, "{directives} {after_ms} {told}");
        }
    }
}

#[test]
fn received_age_is_counted_and_told() {
    for conf in stores() {
        let (mut harness, _disk) = on_disk(conf);
        let head = "200\nCache-Control: max-age=60\nAge: 50\nDate: Tue, 14 Nov 2023 22:12:00 GMT";
        assert_eq!(told(&mut harness, &get(""), head), "200 MISS 0123456789");
        harness.now_ms += 9_000;
        let reply = exchange(&mut harness, &get(""), head, "");
        assert_eq!((reply.header("age"), reply.header(STATUS_HEADER)), (Some("59"), Some("HIT")));
        assert_eq!(reply.header("date"), Some("Tue, 14 Nov 2023 22:12:00 GMT"));
        harness.now_ms += 1_000;
        assert_eq!(told(&mut harness, &get(""), head), "200 EXPIRED 0123456789");
    }
}

#[test]
fn unsafe_requests_that_succeed_invalidate_their_target() {
    for (method, status, expected) in [
        ("POST", "200", "MISS"),
        ("PUT", "204", "MISS"),
        ("DELETE", "302", "MISS"),
        ("M-SEARCH", "200", "MISS"),
        ("POST", "404", "HIT"),
        ("POST", "500", "HIT"),
        ("OPTIONS", "200", "HIT"),
    ] {
        for conf in stores() {
            let (mut harness, _disk) = on_disk(conf.clone());
            let head = "200\nCache-Control: max-age=60";
            assert_eq!(verdicts(&mut harness, &[GET, GET], head), "MISS HIT");
            let change = format!("{method} /a?x=1 HTTP/1.1\nContent-Length: 1\n\nx");
            exchange(&mut harness, &change, status, "");
            let found = verdicts(&mut harness, &[GET], head);
            assert_eq!(found, expected, "{conf} {method} {status}");
        }
    }
}

#[test]
fn uris_of_the_same_origin_that_an_answer_names_are_invalidated() {
    let (mut harness, _disk) = on_disk(json!({}));
    let head = "200\nCache-Control: max-age=60";
    let [a, b, c, d] = ["/a", "/b?x=1", "/c", "/d"].map(|uri| format!("GET {uri} HTTP/1.1\n\n"));
    let all = [&*a, &*b, &*c, &*d];
    assert_eq!(verdicts(&mut harness, &all, head), "MISS MISS MISS MISS");
    let change = "POST /post HTTP/1.1\nContent-Length: 1\n\nx";
    let answer = "201\nLocation: http://test.com/a\nContent-Location: /b?x=1";
    exchange(&mut harness, change, answer, "");
    let answer = "201\nLocation: http://other.com/c\nContent-Location: //other.com/d";
    exchange(&mut harness, change, answer, "");
    assert_eq!(verdicts(&mut harness, &all, head), "MISS MISS HIT HIT");
}

#[test]
fn a_user_who_changes_something_sees_the_change() {
    let mut harness = harness(json!({}));
    let head = "200\nCache-Control: max-age=60";
    exchange_as(&mut harness, GET, head, "jack's", Some("jack"));
    exchange_as(&mut harness, GET, head, "all's", None);
    exchange_as(&mut harness, "DELETE /a?x=1 HTTP/1.1\n\n", "204", "", Some("jack"));
    assert_eq!(exchange_as(&mut harness, GET, head, "new", Some("jack")).body, "new");
    assert_eq!(exchange_as(&mut harness, GET, head, "new", None).body, "new");
}
