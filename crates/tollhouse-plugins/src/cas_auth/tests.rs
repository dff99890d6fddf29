//! Tests of logins by CAS.

use serde_json::{Value, json};
use tollhouse_plugin::testing::{Harness, Outcome};

use super::*;
use crate::shared::test_server::{TestServer, reply};

fn cas() -> TestServer {
    TestServer::start(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let expected = "/cas/serviceValidate?ticket=ST-1&service=https%3A%2F%2Fapp.test%2Fback";
        let answer = match path == expected {
            true => "<cas:serviceResponse><cas:authenticationSuccess><cas:user>jack</cas:user>",
            false => "<cas:serviceResponse><cas:authenticationFailure code='INVALID_TICKET'/>",
        };
        reply(200, "", answer)
    })
}

fn conf(server: &TestServer) -> Value {
    json!({
        "idp_uri": server.url("/cas"), "cas_callback_uri": "https://app.test/back",
        "logout_uri": "/logout", "cookie": {"secret": "0123456789abcdef0123456789abcdef"},
    })
}

fn get(harness: &mut Harness, uri: &str, cookie: &str) -> Outcome {
    harness.request(&format!("GET {uri} HTTP/1.1\nCookie: other=1; {cookie}\n\n"))
}

fn cookie(outcome: &Outcome) -> String {
    outcome.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

/// Logs in and returns the session's cookie.
fn log_in(harness: &mut Harness, server: &TestServer) -> String {
    let outcome = get(harness, "/page?a=b", "x=y");
    let expected = server.url("/cas/login?service=https%3A%2F%2Fapp.test%2Fback");
    assert_eq!((outcome.status(), outcome.header("location")), (302, Some(&*expected)));
    let line = outcome.header("set-cookie").unwrap();
    assert!(line.ends_with("; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax"), "{line}");
    let outcome = get(harness, "/back?ticket=ST-1", &cookie(&outcome));
    assert_eq!((outcome.status(), outcome.header("location")), (302, Some("/page?a=b")));
    let session = cookie(&outcome);
    assert!(session.starts_with("CAS_SESSION_") && !session.contains("ST-1"), "{session}");
    session
}

#[test]
fn a_ticket_begins_a_session_that_the_browser_or_the_server_ends() {
    let server = cas();
    let mut harness = Harness::new::<CasAuth>(&conf(&server));
    let session = log_in(&mut harness, &server);
    let outcome = get(&mut harness, "/page", &session);
    assert!(outcome.passes());
    assert_eq!(outcome.edits, "+Cookie: other=1\n");
    let outcome = get(&mut harness, "/logout", &session);
    assert_eq!(outcome.header("location"), Some(&*server.url("/cas/logout")));
    assert_eq!(get(&mut harness, "/page", &session).status(), 302);
    let session = log_in(&mut harness, &server);
    for (body, status) in [
        ("<samlp:SessionIndex>ST-9</samlp:SessionIndex>", 200),
        ("<samlp:LogoutRequest/>", 400),
    ] {
        let request = format!("POST /back HTTP/1.1\n\n{body}");
        assert_eq!(harness.request(&request).status(), status);
        assert!(get(&mut harness, "/page", &session).passes());
    }
    let request = "POST /back HTTP/1.1\n\n<samlp:SessionIndex>ST-1</samlp:SessionIndex>";
    assert_eq!(harness.request(request).status(), 200);
    assert_eq!(get(&mut harness, "/page", &session).status(), 302);
}

#[test]
fn other_callbacks_are_refused() {
    let server = cas();
    let mut harness = Harness::new::<CasAuth>(&conf(&server));
    let begun = cookie(&get(&mut harness, "/page", "x=y"));
    for (uri, cookie, status, text) in [
        ("/back?ticket=ST-1", "x=y", 401, "invalid callback state"),
        ("/back?ticket=ST-1", "CAS_REQUEST_URI=1forged", 401, "invalid callback state"),
        ("/back?ticket=ST-2", &*begun, 401, "invalid ticket"),
        ("/back", &begun, 302, ""),
        ("/page?ticket=ST-1", &begun, 302, ""),
        ("/logout", "x=y", 401, ""),
        ("/page", "CAS_SESSION_x=ST-1", 302, ""),
    ] {
        let outcome = get(&mut harness, uri, cookie);
        assert_eq!(outcome.status(), status, "{uri}");
        assert!(text.is_empty() || outcome.body().contains(text), "{}", outcome.body());
    }
}

#[test]
fn a_path_is_completed_by_the_request() {
    let server = cas();
    let mut conf = conf(&server);
    conf["cas_callback_uri"] = json!("/back");
    let outcome = Harness::new::<CasAuth>(&conf).request("GET / HTTP/1.1\nHost: a.test\n\n");
    let expected = server.url("/cas/login?service=http%3A%2F%2Fa.test%3A9080%2Fback");
    assert_eq!(outcome.header("location"), Some(&*expected));
}

#[test]
fn only_allowed_hosts_complete_a_path() {
    let server = cas();
    let mut conf = conf(&server);
    conf["allowed_hosts"] = json!(["App.test"]);
    assert!(CasAuth::remarks(&conf).is_empty());
    conf["cas_callback_uri"] = json!("/back");
    assert!(CasAuth::remarks(&conf).is_empty());
    let mut harness = Harness::new::<CasAuth>(&conf);
    for (host, status) in [("app.test", 302), ("APP.TEST:1", 302), ("other.test", 503)] {
        let request = format!("GET / HTTP/1.1\nHost: {host}\n\n");
        assert_eq!(harness.request(&request).status(), status, "{host}");
    }
    conf.as_object_mut().unwrap().remove("allowed_hosts");
    assert_eq!(CasAuth::remarks(&conf)[0].field, "cas_callback_uri");
}

#[test]
fn a_session_of_another_host_does_not_count() {
    let server = TestServer::start(|_| {
        reply(200, "", "<cas:authenticationSuccess><cas:user>jack</cas:user>")
    });
    let mut conf = conf(&server);
    conf["cas_callback_uri"] = json!("/back");
    let mut harness = Harness::new::<CasAuth>(&conf);
    let mut ask = |host: &str, uri: &str, cookie: &str| {
        harness.request(&format!("GET {uri} HTTP/1.1\nHost: {host}\nCookie: {cookie}\n\n"))
    };
    let begun = cookie(&ask("a.test", "/", "x=y"));
    let session = cookie(&ask("a.test", "/back?ticket=ST-1", &begun));
    assert!(ask("a.test", "/", &session).passes());
    assert_eq!(ask("b.test", "/", &session).status(), 302);
}

#[test]
fn a_login_has_to_be_complete_in_time() {
    let server = cas();
    for (wait_ms, status) in [(599_000, 302), (600_000, 401)] {
        let mut harness = Harness::new::<CasAuth>(&conf(&server));
        let begun = cookie(&get(&mut harness, "/page", "x=y"));
        harness.now_ms += wait_ms;
        let outcome = get(&mut harness, "/back?ticket=ST-1", &begun);
        assert_eq!(outcome.status(), status, "{wait_ms}");
    }
}

#[test]
fn bad_confs_are_refused() {
    let server = cas();
    let with = |pointer: &str, value: Value| {
        let mut conf = conf(&server);
        conf["allowed_hosts"] = json!(["app.test"]);
        *conf.pointer_mut(pointer).unwrap() = value;
        conf
    };
    let open = json!({"secret": "0123456789abcdef0123456789abcdef", "secure": false, "samesite": "None"});
    for (conf, text) in [
        (json!({}), "is required"),
        (with("/cookie/secret", json!("short")), "string too short"),
        (with("/cookie", open), "cookie.secure must be true"),
        (with("/idp_uri", json!("cas")), "no scheme"),
        (with("/allowed_hosts", json!([])), "expect array to have at least 1 items"),
        (with("/allowed_hosts", json!(["a.test:443"])), "failed to match pattern"),
    ] {
        let refusal = Harness::refusal::<CasAuth>(&conf);
        assert!(refusal.contains(text), "{refusal}");
    }
}
