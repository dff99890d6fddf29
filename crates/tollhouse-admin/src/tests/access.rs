//! Access checks, and headers that every answer has.

use super::*;
use crate::{ApiVersion, Cors, Encryption, KeyCheck, ServerToken, Sessions};
use tollhouse_net::local_name::HostNames;

fn bare(method: &str, uri: &str) -> hyper::http::request::Builder {
    Request::builder().method(method).uri(uri)
}

fn empty(builder: hyper::http::request::Builder) -> Request<Full<Bytes>> {
    builder.body(Full::default()).expect("it is a request")
}

#[tokio::test]
async fn keys_are_looked_for_in_argument_header_and_cookie() {
    let fixture = Fixture::new().await;
    let wrong = Some("wrong apikey");
    let viewer = format!("X-API-KEY: {VIEWER}");
    let table: [(&str, &str, Option<String>, Option<&str>); 13] = [
        ("GET", "/apisix/admin/routes", None, Some("missing apikey")),
        ("GET", "/apisix/admin/routes", Some("X-API-KEY: x".into()), wrong),
        ("GET", "/apisix/admin/routes", Some("X-API-KEY: ".into()), wrong),
        ("GET", "/apisix/admin/routes", Some(format!("X-API-KEY: {ADMIN}")), None),
        ("GET", "/apisix/admin/routes", Some(format!("X_API_KEY: {ADMIN}")), None),
        ("GET", "/apisix/admin/routes", Some(format!("Cookie: a=b; x_api_key={ADMIN}")), None),
        ("GET", &format!("/apisix/admin/routes?api_key={ADMIN}"), None, None),
        ("GET", "/apisix/admin/routes?api_key=x", Some(format!("X-API-KEY: {ADMIN}")), wrong),
        ("GET", "/apisix/admin/routes", Some(viewer.clone()), None),
        ("GET", "/apisix/admin/plugins/list", Some(viewer.clone()), None),
        (
            "DELETE",
            "/apisix/admin/routes/1",
            Some(viewer.clone()),
            Some("invalid method for role viewer"),
        ),
        ("POST", "/apisix/admin/schema/validate/routes", None, Some("missing apikey")),
        ("GET", "/apisix/admin/nothing", None, Some("missing apikey")),
    ];
    for (method, uri, header, refusal) in table {
        let mut builder = bare(method, uri);
        if let Some((name, value)) = header.as_deref().and_then(|line| line.split_once(": ")) {
            builder = builder.header(name, value);
        }
        let answer = fixture.send(empty(builder)).await;
        let Some(description) = refusal else {
            assert_eq!(answer.status, 200, "{uri} {header:?}: {answer:?}");
            continue;
        };
        let expected = json!({
            "error_msg": "failed to check token", "description": description,
        });
        assert_eq!((answer.status, answer.json()), (401, expected), "{uri} {header:?}");
    }
}

#[tokio::test]
async fn without_key_check_everybody_may_write() {
    let fixture = Fixture::with(Options { key_check: KeyCheck::Off, ..options() }).await;
    let answer = fixture.send(empty(bare("DELETE", "/apisix/admin/routes/1"))).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn without_key_check_no_website_may_call_through_a_browser() {
    let fixture = Fixture::with(Options { key_check: KeyCheck::Off, ..options() }).await;
    for (host, origin, status) in [
        ("127.0.0.1:9180", None, 200),
        ("apisix:9180", None, 200),
        ("127.0.0.1:9180", Some("http://127.0.0.1:9180"), 200),
        ("127.0.0.1:9180", Some("https://evil.example"), 403),
        ("127.0.0.1:9180", Some("null"), 403),
        ("evil.example:9180", None, 403),
        ("evil.example:9180", Some("http://evil.example:9180"), 403),
    ] {
        let mut builder = bare("GET", "/apisix/admin/routes").header("host", host);
        if let Some(origin) = origin {
            builder = builder.header("origin", origin);
        }
        let answer = fixture.send(empty(builder)).await;
        assert_eq!(answer.status, status, "{host} {origin:?}: {}", answer.text);
        assert_eq!(answer.header("access-control-allow-origin"), "", "{host} {origin:?}");
    }
}

#[tokio::test]
async fn with_key_check_no_website_opens_the_console_under_a_name_of_its_own() {
    let hosts = HostNames::new(&["gw.example.org".to_owned()]);
    let fixture = Fixture::with(Options { hosts, ..options() }).await;
    let (page, call, api) = ("/ui/", "/console/v1/login", "/apisix/admin/routes");
    for (path, host, origin, key, status) in [
        (page, "127.0.0.1:9180", None, None, 200),
        (page, "gw.example.org:9180", None, None, 200),
        (page, "evil.example:9180", None, None, 403),
        ("/ui/?api_key=x", "evil.example:9180", None, None, 403),
        ("/", "evil.example:9180", None, None, 403),
        ("/ui/a/x/main.js", "evil.example", None, None, 403),
        (page, "evil.example:9180", None, Some("wrong"), 403),
        (call, "gw.example.org", Some("http://gw.example.org"), None, 200),
        (call, "evil.example", Some("http://evil.example"), None, 403),
        (call, "127.0.0.1:9180", Some("https://evil.example"), None, 403),
        (call, "evil.example", None, Some(ADMIN), 200),
        (api, "admin.example.org", Some("https://evil.example"), Some(ADMIN), 200),
        (api, "admin.example.org", None, None, 401),
    ] {
        let mut builder = bare("GET", path).header("host", host);
        for (name, value) in [("origin", origin), ("x-api-key", key)] {
            if let Some(value) = value {
                builder = builder.header(name, value);
            }
        }
        let answer = fixture.send(empty(builder)).await;
        assert_eq!(answer.status, status, "{path} {host} {origin:?} {key:?}: {}", answer.text);
        if status == 403 {
            assert!(answer.error().contains("listen.hosts"), "{answer:?}");
        }
    }
    let sessions = Some(Sessions::new(b"secret", Encryption::Tls));
    let fixture = Fixture::with(Options { sessions, ..options() }).await;
    let answer = fixture.send(empty(bare("GET", "/ui/").header("host", "gw.example.net"))).await;
    assert_eq!(answer.status, 200, "over TLS a name has to have a certificate");
}

#[tokio::test]
async fn peers_outside_of_the_allow_list_get_a_page() {
    let allow = vec!["127.0.0.0/24".parse().expect("it is a network")];
    let fixture = Fixture::with(Options { allow, ..options() }).await;
    let table = [
        ("127.0.0.7:1", 200),
        ("[::ffff:127.0.0.7]:1", 200),
        ("127.0.1.1:1", 403),
        ("[::1]:1", 403),
    ];
    for (peer, status) in table {
        let peer = peer.parse().expect("it is an address");
        let answer = fixture.send_from(request("GET", "/routes", ""), peer).await;
        assert_eq!(answer.status, status, "{peer}");
        if status == 403 {
            assert!(answer.header("content-type").starts_with("text/html"));
            assert!(answer.text.contains("403 Forbidden"), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn what_nobody_registered_is_a_page() {
    let fixture = Fixture::with(Options { cors: Cors::Off, ..options() }).await;
    let table = [
        ("GET", "/apisix"),
        ("GET", "/apisix/admin"),
        ("PUT", "/apisix/admin"),
        ("GET", "/apisix/status"),
        ("HEAD", "/apisix/admin/routes"),
        ("OPTIONS", "/apisix/admin/routes"),
        ("TRACE", "/apisix/admin/routes"),
        ("PURGE", "/apisix/admin/routes"),
    ];
    for (method, uri) in table {
        let answer = fixture.send(empty(bare(method, uri))).await;
        assert_eq!(answer.status, 404, "{method} {uri}");
        assert!(answer.text.contains("404 Not Found"), "{method} {uri}");
        assert!(answer.header("content-type").starts_with("text/html"), "{method} {uri}");
        assert_eq!(answer.header("server"), "APISIX/3.18.0");
        assert_eq!(answer.header("x-api-version"), "");
    }
}

#[tokio::test]
async fn liveness_needs_no_key() {
    let fixture = Fixture::new().await;
    let answer = fixture.send(empty(bare("HEAD", "/apisix/admin"))).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, ""));
}

#[tokio::test]
async fn cors_answers_preflights_and_marks_every_reply() {
    let fixture = Fixture::new().await;
    let answer = fixture.send(empty(bare("OPTIONS", "/apisix/admin/routes/1"))).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, ""));
    let all = [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-credentials", "true"),
        ("access-control-max-age", "3600"),
        ("access-control-expose-headers", "*"),
    ];
    let preflight = [
        ("access-control-allow-methods", "POST, GET, PUT, OPTIONS, DELETE, PATCH"),
        ("access-control-allow-headers", "*"),
    ];
    for (name, value) in all.into_iter().chain(preflight) {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let answer = fixture.get("/routes").await;
    for (name, value) in all {
        assert_eq!(answer.header(name), value, "{name}");
    }
    assert_eq!(answer.header("access-control-allow-methods"), "");

    let fixture = Fixture::with(Options { cors: Cors::Off, ..options() }).await;
    assert_eq!(fixture.get("/routes").await.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn the_server_header_may_keep_the_version_to_itself() {
    let token = ServerToken("APISIX".into());
    let fixture = Fixture::with(Options { server_token: token, ..options() }).await;
    assert_eq!(fixture.get("/routes").await.header("server"), "APISIX");
}

#[tokio::test]
async fn the_older_dialect_wraps_everything_in_nodes() {
    let fixture = Fixture::with(Options { api_version: ApiVersion::V2, ..options() }).await;
    let answer = fixture.put("/routes/1", &route()).await;
    assert_eq!(answer.header("x-api-version"), "v2");
    assert_eq!((answer.status, &answer.json()["action"]), (201, &json!("set")));
    assert_eq!(answer.json()["node"]["value"]["id"], "1");
    let answer = fixture.get("/routes/1").await.json();
    assert_eq!((&answer["action"], &answer["count"]), (&json!("get"), &json!(1)));
    assert_eq!(answer["node"]["key"], "/apisix/routes/1");
    assert_eq!(answer["node"]["createdIndex"], 1);
    let answer = fixture.get("/routes").await.json();
    assert_eq!((&answer["count"], &answer["node"]["dir"]), (&json!(1), &json!(true)));
    assert_eq!(answer["node"]["nodes"][0]["value"]["uri"], "/a");
    let answer = fixture.call("PATCH", "/routes/1", r#"{"uri":"/b"}"#).await.json();
    assert_eq!(answer["action"], "compareAndSwap");
    let answer = fixture.call("POST", "/routes", route().to_string()).await.json();
    assert_eq!(answer["action"], "create");
    let answer = fixture.delete("/routes/1").await.json();
    assert_eq!((&answer["action"], &answer["deleted"]), (&json!("delete"), &json!("1")));
}
