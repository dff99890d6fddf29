//! Tests of tokens and permissions of wolf-rbac.

use std::sync::Arc;

use tollhouse_plugin::testing::{FakeExchange, Harness, Outcome, configure_among};
use tollhouse_plugin::identity::KeyParts;
use tollhouse_plugin::{Catalogue, Memory, NoConsumers, PluginType, Services};

use super::*;
use crate::public_api::PublicApi;
use crate::shared::test_server::{TestServer, body, header, reply};

const USER: &str = r#"{"id":100,"username":"admin","nickname":"ad min"}"#;

fn wolf() -> TestServer {
    TestServer::start(|request| {
        let allowed = format!("{{\"ok\":true,\"data\":{{\"userInfo\":{USER}}}}}");
        let denied = format!("{{\"ok\":false,\"reason\":\"no permission to access\",\"data\":{{\"userInfo\":{USER}}}}}");
        let logged_in =
            format!("{{\"ok\":true,\"data\":{{\"token\":\"wolf\",\"userInfo\":{USER}}}}}");
        let line = request.lines().next().unwrap_or_default();
        match (line, header(request, "x-rbac-token")) {
            (line, _) if line.contains("login.rest") => match body(request).contains("bad") {
                true => reply(200, "", "{\"ok\":false,\"reason\":\"ERR_PASSWORD_ERROR\"}"),
                false => reply(200, "", &logged_in),
            },
            (_, Some("broken")) => reply(502, "", ""),
            (_, Some("text")) => reply(200, "", "no json"),
            (line, Some("wolf")) if line.contains("%2Fforbidden") => reply(401, "", &denied),
            (_, Some("wolf")) => reply(200, "", &allowed),
            _ => reply(401, "", "{\"ok\":false,\"reason\":\"ERR_TOKEN_INVALID\"}"),
        }
    })
}

fn harness(server: &TestServer) -> Harness {
    let conf = json!({"appid": "wolf-app", "server": server.url("")});
    Harness::new::<WolfRbac>(&json!({})).consumer::<WolfRbac>("app", &conf)
}

#[test]
fn the_wolf_server_decides() {
    let server = wolf();
    for carrier in
        ["Authorization: V1#wolf-app#wolf", "X-Rbac-Token: V1#wolf-app#wolf", "Cookie: x-rbac-token=V1#wolf-app#wolf"]
    {
        let request = format!("GET /a%20b HTTP/1.1\nX-UserId: forged\n{carrier}\n\n");
        let mut exchange = FakeExchange::parse(&request, 0);
        let mut harness = harness(&server);
        let outcome = harness.run(&mut exchange);
        assert!(outcome.passes(), "{}", outcome.body());
        assert_eq!(outcome.consumer.as_deref(), Some("app"));
        for line in ["+X-UserId: 100\n", "+X-Username: admin\n", "+X-Nickname: ad%20min\n"] {
            assert!(outcome.edits.contains(line), "{}", outcome.edits);
        }
        let answer = harness.respond(&mut exchange, "200", &[]);
        assert_eq!(answer.header("x-username"), Some("admin"));
        let asked = server.next_request();
        assert!(asked.starts_with("GET /wolf/rbac/access_check?appID=wolf-app&resName=%2F"), "{asked}");
        assert!(asked.contains("&action=GET&clientIP=127.0.0.1 "), "{asked}");
    }
    let denied = harness(&server).request("GET /forbidden?rbac_token=V1%23wolf-app%23wolf HTTP/1.1\n\n");
    assert_eq!(denied.status(), 401);
    let expected = "{\"message\":\"no permission to access\",\"username\":\"admin\",\"nickname\":\"ad min\"}\n";
    assert_eq!(denied.body(), expected);
}

#[test]
fn only_the_credentials_with_the_token_are_explained() {
    const TOKEN: &str = "V1#wolf-app#wolf";
    let server = wolf();
    let own_and = |others: &str| format!("x-rbac-token: {TOKEN}\n{others}");
    let argument = "/?rbac_token=V1%23wolf-app%23wolf";
    for (target, headers, authorization, cookie) in [
        ("/", format!("Authorization: {TOKEN}\nCookie: a=b\n"), false, true),
        ("/", format!("Cookie: x-rbac-token={TOKEN}\n"), false, false),
        ("/", own_and("Cookie: a=b\n"), false, true),
        (argument, own_and("Authorization: Basic YTpi\nCookie: a=b\n"), true, true),
    ] {
        let text = format!("GET {target} HTTP/1.1\n{headers}\n");
        let mut exchange = FakeExchange::parse(&text, 0);
        assert!(harness(&server).run(&mut exchange).passes(), "{text}");
        let mut memory = Memory::default();
        let cx = RequestContext::new(&mut exchange, &NoConsumers, &mut memory);
        let key = KeyParts { identities: true, authorization: false, cookie: false };
        let missing = cx.unexplained(key);
        assert_eq!((missing.authorization, missing.cookie), (authorization, cookie), "{text}");
    }
}

#[test]
fn without_a_good_token_or_answer_nobody_passes() {
    let server = wolf();
    for (token, status, message) in [
        ("", 401, MISSING_TOKEN),
        ("Authorization: V2#wolf-app#wolf\n", 401, BAD_TOKEN),
        ("Authorization: V1#wolf-app\n", 401, BAD_TOKEN),
        ("Authorization: V1#other#wolf\n", 401, "Invalid appid in rbac token"),
        ("Authorization: V1#wolf-app#wrong\n", 401, "ERR_TOKEN_INVALID"),
        ("Authorization: V1#wolf-app#broken\n", 500, "request to wolf-server failed, status:502"),
        ("Authorization: V1#wolf-app#text\n", 500, "check permission failed! parse response json failed!"),
    ] {
        let outcome = harness(&server).request(&format!("GET / HTTP/1.1\n{token}\n"));
        assert_eq!(outcome.status(), status, "{token}");
        assert_eq!(outcome.body(), format!("{{\"message\":\"{message}\"}}\n"), "{token}");
    }
}

/// Sends a request to an endpoint.
fn endpoint(server: &TestServer, text: &str) -> Outcome {
    let services = Arc::new(Services::new("APISIX/3.18.0"));
    let catalogue = Catalogue::new([PluginType::new::<WolfRbac>()]);
    let handler = configure_among::<PublicApi>(&json!({}), &services, &catalogue, None);
    let conf = json!({"appid": "wolf-app", "server": server.url("")});
    let harness = Harness::with(handler.expect("the conf is good"), services);
    harness.consumer::<WolfRbac>("app", &conf).request(text)
}

#[test]
fn users_log_in_change_their_password_and_see_themselves() {
    let server = wolf();
    let path = "/apisix/plugin/wolf-rbac";
    let json = "Content-Type: application/json\n";
    let token = "Authorization: V1#wolf-app#wolf\n";
    let user = format!("\"user_info\":{USER}}}");
    let logged_in = format!("{{\"rbac_token\":\"V1#wolf-app#wolf\",{user}");
    for (request, status, answer) in [
        (format!("POST {path}/login HTTP/1.1\n{json}\n{{\"appid\":\"wolf-app\",\"username\":\"admin\"}}"), 200, logged_in.as_str()),
        (format!("POST {path}/login HTTP/1.1\n\nappid=wolf-app&username=admin"), 200, &logged_in),
        (format!("POST {path}/login HTTP/1.1\n\nappid=wolf-app&password=bad"), 200, "{\"message\":\"request to wolf-server failed!\"}"),
        (format!("POST {path}/login HTTP/1.1\n\nusername=admin"), 400, "{\"message\":\"appid is missing\"}"),
        (format!("POST {path}/login HTTP/1.1\n\nappid=x"), 400, "{\"message\":\"appid not found\"}"),
        (format!("POST {path}/login HTTP/1.1\n{json}\n{{"), 400, "{\"message\":\"invalid request\"}"),
        (format!("GET {path}/user_info HTTP/1.1\n{token}\n"), 200, &format!("{{{user}")),
        (format!("GET {path}/user_info HTTP/1.1\n\n"), 401, "{\"message\":\"Missing rbac token in request\"}"),
        (format!("PUT {path}/change_pwd HTTP/1.1\n{token}{json}\n{{\"oldPassword\":\"a\"}}"), 200, "{\"message\":\"success to change password\"}"),
    ] {
        let outcome = endpoint(&server, &request);
        assert_eq!((outcome.status(), outcome.body().trim_end()), (status, answer), "{request}");
    }
}

#[test]
fn bad_confs_are_refused() {
    let refusal = Harness::refusal::<WolfRbac>(&json!({"server": 1}));
    assert!(refusal.contains("wrong type: expected string, got number"), "{refusal}");
}
