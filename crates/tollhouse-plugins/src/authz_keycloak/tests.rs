//! Tests of decisions by Keycloak.

use tollhouse_plugin::testing::{Harness, Outcome};

use super::*;
use crate::shared::test_server::{TestServer, body, header, reply};

const DENIED: &str = r#"{"error":"access_denied","error_description":"not_authorized"}"#;

/// Keycloak that grants `course#view` to the token `good`.
fn keycloak() -> TestServer {
    TestServer::start(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let token = header(request, "authorization").unwrap_or_default();
        match path {
            "/discovery" => {
                let host = header(request, "host").unwrap();
                let document = json!({
                    "token_endpoint": format!("http://{host}/token"),
                    "resource_registration_endpoint": format!("http://{host}/resources"),
                });
                reply(200, "", &document.to_string())
            }
            "/resources?uri=%2Fcourse%2F1&matchingUri=true" if token == "Bearer own" => {
                reply(200, "", r#"["course-1"]"#)
            }
            path if path.starts_with("/resources") => reply(200, "", "[]"),
            "/token" if body(request).contains("client_credentials") => {
                reply(200, "", r#"{"access_token":"own","expires_in":60}"#)
            }
            "/token" if body(request).contains("grant_type=password") => {
                let is_good = body(request).contains("username=jack&password=p%20w");
                reply(if is_good { 200 } else { 401 }, "", r#"{"access_token":"new"}"#)
            }
            "/token" if token == "Bearer odd" => reply(200, "", r#"{"result":false}"#),
            "/token" if token != "Bearer good" => reply(401, "", r#"{"error":"invalid_grant"}"#),
            "/token" if body(request).contains("permission=course") => {
                reply(200, "", r#"{"result":true}"#)
            }
            "/token" => reply(403, "", DENIED),
            _ => reply(404, "", ""),
        }
    })
}

fn ask(server: &TestServer, more: Value, request: &str) -> Outcome {
    let mut conf = json!({"token_endpoint": server.url("/token"), "client_id": "gateway"});
    conf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Harness::new::<AuthzKeycloak>(&conf).request(request)
}

#[test]
fn keycloak_decides_about_the_permissions_of_a_token() {
    let server = keycloak();
    let view = json!({"permissions": ["course#view"]});
    for (more, headers, status, text) in [
        (view.clone(), "Authorization: Bearer good\n", 0, ""),
        (view.clone(), "Authorization: good\n", 0, ""),
        (view.clone(), "Authorization: Bearer bad\n", 401, "invalid_grant"),
        (view.clone(), "Authorization: Bearer odd\n", 503, ""),
        (view, "", 401, "Missing JWT token in request"),
        (json!({"permissions": ["other"]}), "Authorization: Bearer good\n", 403, DENIED),
        (json!({}), "Authorization: Bearer good\n", 403, DENIED),
        (
            json!({"policy_enforcement_mode": "PERMISSIVE"}),
            "Authorization: Bearer good\n",
            403,
            DENIED,
        ),
    ] {
        let outcome = ask(&server, more.clone(), &format!("GET / HTTP/1.1\n{headers}\n"));
        assert_eq!(outcome.status(), status, "{more} {headers}");
        assert!(outcome.answer.is_none() || outcome.body().contains(text), "{}", outcome.body());
    }
}

#[test]
fn each_scope_and_the_method_are_decisions_of_their_own() {
    let server = keycloak();
    let conf = json!({
        "permissions": ["course#view, edit", "course"], "http_method_as_scope": true,
    });
    let outcome = ask(&server, conf.clone(), "PUT / HTTP/1.1\nAuthorization: Bearer good\n\n");
    assert!(outcome.passes());
    let common = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Auma-ticket&audience=gateway\
        &response_mode=decision&permission=course%23";
    for scope in ["view", "edit", "PUT"] {
        let sent = server.next_request();
        assert_eq!(header(&sent, "content-type"), Some("application/x-www-form-urlencoded"));
        assert_eq!(body(&sent), format!("{common}{scope}"));
    }
    for method in ["A#B", "A,B"] {
        let request = format!("{method} / HTTP/1.1\nAuthorization: Bearer good\n\n");
        assert_eq!(ask(&server, conf.clone(), &request).status(), 400, "{method}");
    }
}

#[test]
fn one_granted_permission_does_not_admit_a_request_that_needs_two() {
    let server = keycloak();
    for permissions in [json!(["course#view", "other"]), json!(["other", "course#view"])] {
        let conf = json!({"permissions": permissions});
        let outcome = ask(&server, conf, "GET / HTTP/1.1\nAuthorization: Bearer good\n\n");
        assert_eq!(outcome.status(), 403);
    }
}

#[test]
fn resources_of_the_path_are_looked_up() {
    let server = keycloak();
    let conf = json!({
        "discovery": server.url("/discovery"), "client_id": "gateway", "client_secret": "s",
        "lazy_load_paths": true,
    });
    let mut harness = Harness::new::<AuthzKeycloak>(&conf);
    for (path, status) in [("/course/1", 0), ("/course/2", 403), ("/course/1", 0)] {
        let request = format!("GET {path} HTTP/1.1\nAuthorization: Bearer good\n\n");
        assert_eq!(harness.request(&request).status(), status, "{path}");
    }
    // Document and own token are asked for once.
    let paths: Vec<_> = (0..7)
        .map(|_| server.next_request().split(' ').nth(1).unwrap_or_default().to_owned())
        .collect();
    let count = |path: &str| paths.iter().filter(|other| other.starts_with(path)).count();
    assert_eq!((count("/discovery"), count("/token"), count("/resources")), (1, 3, 3), "{paths:?}");
}

#[test]
fn refused_clients_are_redirected_if_wanted() {
    let server = keycloak();
    let conf = json!({"permissions": ["other"], "access_denied_redirect_uri": "http://a/denied"});
    for (token, status) in [("good", 307), ("bad", 401)] {
        let request = format!("GET / HTTP/1.1\nAuthorization: Bearer {token}\n\n");
        let outcome = ask(&server, conf.clone(), &request);
        assert_eq!(outcome.status(), status);
        let location = (status == 307).then_some("http://a/denied");
        assert_eq!(outcome.header("location"), location);
    }
}

#[test]
fn a_name_and_a_password_are_exchanged_for_a_token() {
    let server = keycloak();
    let conf = json!({"password_grant_token_generation_incoming_uri": "/api/token"});
    let form = "Content-Type: application/x-www-form-urlencoded";
    for (uri, sent, status, text) in [
        ("/api/token", "username=jack&password=p+w", 200, r#"{"access_token":"new"}"#),
        ("/api/token", "username=jack&password=wrong", 401, "Could not decode JSON from response."),
        ("/api/token", "username=jack", 422, "password is missing."),
        ("/api/token", "password=x", 422, "username is missing."),
        ("/api/other", "username=jack&password=p+w", 401, "Missing JWT token"),
    ] {
        let request = format!("POST {uri} HTTP/1.1\n{form}\n\n{sent}");
        let outcome = ask(&server, conf.clone(), &request);
        assert_eq!(outcome.status(), status, "{sent}");
        assert!(outcome.body().contains(text), "{}", outcome.body());
    }
}

#[test]
fn without_keycloak_no_request_passes() {
    let server = TestServer::start(|_| String::new());
    for conf in [
        json!({"permissions": ["a"]}),
        json!({"discovery": server.url("/"), "lazy_load_paths": true}),
    ] {
        let outcome = ask(&server, conf, "GET / HTTP/1.1\nAuthorization: Bearer good\n\n");
        assert_eq!(outcome.status(), 503);
    }
}

#[test]
fn bad_confs_are_refused() {
    for (conf, text) in [
        (json!({"client_id": "a"}), "allOf 1 failed: object matches none of the required"),
        (json!({"token_endpoint": "http://a"}), "property \"client_id\" is required"),
        (
            json!({"client_id": "a", "token_endpoint": "http://a", "lazy_load_paths": true}),
            "allOf 2 failed",
        ),
        (
            json!({"client_id": "a", "token_endpoint": "http://a", "grant_type": "password"}),
            "matches none of the enum values",
        ),
        (
            json!({"client_id": "a", "token_endpoint": "http://a", "permissions": ["a", "a"]}),
            "unique",
        ),
        (
            json!({
                "client_id": "a", "token_endpoint": "http://a", "http_method_as_scope": true,
                "permissions": (0..17).map(|it| format!("r{it}#view")).collect::<Vec<_>>(),
            }),
            "34 decisions per request: at most 32 are allowed",
        ),
    ] {
        let refusal = Harness::refusal::<AuthzKeycloak>(&conf);
        assert!(refusal.contains(text), "{refusal}");
    }
}
