//! Plugins that let users sign in at other servers, or ask these about tokens, seen from outside:
//! authz-keycloak, authz-casdoor and cas-auth.

use serde_json::{Value, json};
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::{Gateway, Message, Origin};

use crate::plugins_oidc::{Browser, location};
use crate::support::{gateway, routes, upstream};

/// A gateway with one route to `origin`, for everything.
fn protected(origin: &Origin, plugins: &Value) -> Gateway {
    let route = json!({"id": "all", "uri": "/*", "plugins": plugins,
        "upstream": upstream([origin.address()])});
    gateway().resources(&routes([route])).start()
}

/// A server that answers each request with a status and a body.
fn server(reply: impl Fn(&Message) -> (u16, String) + Send + Sync + 'static) -> Origin {
    Origin::script(move |connection| {
        while let Some(request) = connection.request() {
            let (status, body) = reply(&request);
            connection.send(&answer(status, &body));
        }
    })
}

#[test]
fn keycloak_decides_about_tokens() {
    let keycloak = server(|request| match request.field("authorization") {
        Some("Bearer good") if request.text().ends_with("&permission=course%23view") => {
            (200, r#"{"result":true}"#.into())
        }
        Some("Bearer good") => (403, r#"{"error":"access_denied"}"#.into()),
        _ => (401, r#"{"error":"invalid_grant"}"#.into()),
    });
    let node = Origin::named("a");
    let conf = json!({
        "token_endpoint": format!("http://{}/token", keycloak.address()),
        "client_id": "gateway", "permissions": ["course#view"],
    });
    let gateway = protected(&node, &json!({"authz-keycloak": conf}));
    let mut client = gateway.client();
    for (line, status) in
        [("Authorization: Bearer good\r\n", 200), ("Authorization: bad\r\n", 401), ("", 401)]
    {
        let answer = client.ask(format!("GET /a HTTP/1.1\r\nHost: a\r\n{line}\r\n"));
        assert_eq!(answer.status(), status, "{line}");
    }
    assert_eq!(node.requests().len(), 1);
    drop(keycloak);
}

#[test]
fn browsers_sign_in_at_casdoor() {
    let casdoor = server(|request| match request.text().starts_with("code=good&") {
        true => (200, r#"{"access_token":"t","expires_in":3600}"#.into()),
        false => (200, r#"{"access_token":"","expires_in":0}"#.into()),
    });
    let node = Origin::named("a");
    let conf = json!({
        "endpoint_addr": format!("http://{}", casdoor.address()), "client_id": "id",
        "client_secret": "secret", "callback_url": "http://shop.test/callback",
    });
    let gateway = protected(&node, &json!({"authz-casdoor": conf}));
    let mut browser = Browser::default();
    let login = location(&browser.get(&gateway, "/page?a=b"));
    let state = login.split("state=").nth(1).and_then(|rest| rest.split('&').next());
    let state = state.expect("a state").to_owned();
    let foreign = Browser::default().get(&gateway, &format!("/callback?code=good&state={state}"));
    assert_eq!(foreign.status(), 503);
    let back = browser.get(&gateway, &format!("/callback?code=good&state={state}"));
    assert_eq!(location(&back), "/page?a=b");
    assert_eq!(browser.get(&gateway, "/page?a=b").status(), 200);
    assert_eq!(node.last_request().field("cookie"), None);
    assert_eq!(node.requests().len(), 1);
}

#[test]
fn browsers_sign_in_by_cas_and_the_server_signs_them_out() {
    let cas = server(|request| match request.target().contains("ticket=ST-1&") {
        true => {
            let user = "<cas:authenticationSuccess><cas:user>jack</cas:user>";
            (200, format!("<cas:serviceResponse>{user}"))
        }
        false => (200, "<cas:authenticationFailure/>".into()),
    });
    let node = Origin::named("a");
    let conf = json!({
        "idp_uri": format!("http://{}/cas", cas.address()), "logout_uri": "/logout",
        "cas_callback_uri": "http://shop.test/back",
        "cookie": {"secret": "0123456789abcdef0123456789abcdef", "secure": false},
    });
    let gateway = protected(&node, &json!({"cas-auth": conf}));
    let mut browser = Browser::default();
    let login = location(&browser.get(&gateway, "/page?a=b"));
    assert!(login.ends_with("/cas/login?service=http%3A%2F%2Fshop.test%2Fback"), "{login}");
    assert_eq!(browser.get(&gateway, "/back?ticket=ST-2").status(), 401);
    assert_eq!(location(&browser.get(&gateway, "/back?ticket=ST-1")), "/page?a=b");
    assert_eq!(browser.get(&gateway, "/page?a=b").status(), 200);
    let body = "<samlp:SessionIndex>ST-1</samlp:SessionIndex>";
    let request = format!(
        "POST /back HTTP/1.1\r\nHost: shop.test\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(gateway.client().ask(request).status(), 200);
    assert_eq!(browser.get(&gateway, "/page?a=b").status(), 302);
    assert_eq!(node.requests().len(), 1);
}
