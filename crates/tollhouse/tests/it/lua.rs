//! Lua in the path of requests, seen from outside.

use std::fs;

use serde_json::{Value, json};
use tollhouse_testkit::{Gateway, Origin};

use crate::support::{gateway, upstream};

const JWT: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJrZXkiOiJrMSJ9.bYhOVn7gniRtBa5O33QOuWQ4ryhsezOHLf6htmj1iac";

const LOOP: &str = "return function(conf, ctx) if ctx.var.arg_loop then while true do end end end";

const GREET: &str = r#"
local core = require("apisix.core")
local words = require("lib.words")
local _M = { version = 0.1, priority = 50, name = "greet",
    schema = { type = "object", properties = { name = { type = "string" } }, required = { "name" } } }
function _M.rewrite(conf, ctx) core.request.set_header(ctx, "X-Greeting", words.greeting(conf.name)) end
function _M.header_filter(conf, ctx) core.response.set_header("X-Greeted", conf.name) end
return _M
"#;
const WORDS: &str = "return { greeting = function(name) return 'hello ' .. name end }";

fn ask(gateway: &Gateway, target: &str, lines: &str) -> (u16, String) {
    let answer = gateway.client().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    (answer.status(), answer.text())
}

fn pre_function(phase: &str, text: &str) -> Value {
    json!({"serverless-pre-function": {"phase": phase, "functions": [text]}})
}

#[test]
fn a_printed_body_waits_for_the_other_plugins() {
    let origin = Origin::named("a");
    let say =
        |text: &str| json!({"functions": [format!("return function() ngx.say('{text}') end")]});
    let route = |id: &str, plugins: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": plugins, "upstream": upstream([origin.address()])});
    let noted =
        json!({"functions": ["return function() ngx.header['X-A'] = 'a' ngx.say('a') end"]});
    let mut before = say("a");
    before["phase"] = json!("rewrite");
    let resources = json!({
        "routes": [
            route("two", json!({"serverless-pre-function": noted, "serverless-post-function": say("b")})),
            route("auth", json!({"serverless-pre-function": before, "key-auth": {}})),
            route("before", json!({"proxy-rewrite": {"uri": "/x", "_meta": {
                "pre_function": "return function() ngx.say('a') end"}}})),
            route("closed", json!({"serverless-pre-function": {
                "functions": ["return function() ngx.exit(444) end"]}})),
            route("closed-too", json!({"fault-injection": {"abort": {"http_status": 444}}})),
        ],
    });
    let gateway = gateway().resources(&resources).set("scripting.lua", "trusted").start();
    let answer = gateway.client().ask("GET /two HTTP/1.1\r\nHost: a\r\n\r\n".to_owned());
    assert_eq!((answer.status(), answer.text().as_str()), (200, "a\nb\n"));
    assert_eq!(answer.field("x-a"), Some("a"));
    assert_eq!(ask(&gateway, "/auth", "").0, 401, "a refusal comes before a printed body");
    assert_eq!(ask(&gateway, "/before", ""), (200, "a\n".to_owned()));
    for target in ["/closed", "/closed-too"] {
        gateway.client().send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).expect_end();
    }
}

#[test]
fn the_context_has_the_matched_path_and_facts_of_other_plugins() {
    let origin = Origin::named("a");
    let say = |text: &str| json!({"phase": "access", "functions": [format!("return function(conf, ctx) ngx.say({text}) ngx.exit(200) end")]});
    let user = "return function(conf, ctx) ctx.external_user = { team = { ctx.var.arg_team } } end";
    let route = |uri: &str, plugins: Value| json!({"id": uri.replace(['/', '*'], ""), "uri": uri, "plugins": plugins, "upstream": upstream([origin.address()])});
    let mut hosted = route(
        "/hosted/*",
        json!({"serverless-post-function": say(
        "ctx.curr_req_matched._path, ' ', ctx.curr_req_matched._host, ' ', ctx.curr_req_matched[':ext']")}),
    );
    hosted["hosts"] = json!(["*.example.com"]);
    let resources = json!({
        "routes": [
            hosted,
            route("/acl", json!({
                "serverless-pre-function": {"phase": "rewrite", "functions": [user]},
                "acl": {"external_user_label_field": "team", "allow_labels": {"team": ["infra"]}},
            })),
            route("/jwt", json!({
                "jwt-auth": {"store_in_ctx": true},
                "serverless-post-function": say("ctx.jwt_auth_payload.key"),
            })),
        ],
        "consumers": [{"username": "jack", "plugins": {"jwt-auth": {"key": "k1", "secret": "a-secret-of-at-least-32-characters"}}}],
    });
    let gateway = gateway().resources(&resources).set("scripting.lua", "trusted").start();
    let answer =
        gateway.client().ask("GET /hosted/x/y HTTP/1.1\r\nHost: a.example.com\r\n\r\n".to_owned());
    assert_eq!(answer.text(), "/hosted/* *.example.com x/y\n");
    assert_eq!(ask(&gateway, "/acl?team=infra", "").0, 200);
    assert_eq!(ask(&gateway, "/acl?team=other", "").0, 403);
    // {"alg":"HS256","typ":"JWT"}.{"key":"k1"}, signed with the secret of the consumer.
    let token = JWT;
    assert_eq!(
        ask(&gateway, "/jwt", &format!("Authorization: {token}\r\n")),
        (200, "k1\n".to_owned())
    );
}

#[test]
fn a_global_exit_transformer_sees_requests_without_a_route() {
    let origin = Origin::named("a");
    let function = "local code, body, header = ... \
        if code == 404 then return 405, body.error_msg, header end return ...";
    let resources = json!({
        "routes": [{"id": "1", "uri": "/a", "upstream": upstream([origin.address()])}],
        "global_rules": [{"id": "1", "plugins": {"exit-transformer": {"functions": [function]}}}],
    });
    let gateway = gateway().resources(&resources).set("scripting.lua", "trusted").start();
    assert_eq!(ask(&gateway, "/a", "").0, 200);
    assert_eq!(ask(&gateway, "/b", ""), (405, "404 Route Not Found".to_owned()));
}

#[test]
fn functions_conditions_and_scripts_run_for_requests() {
    let origin = Origin::named("a");
    let upstream = || upstream([origin.address()]);
    let route = |id: &str, plugins: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": plugins, "upstream": upstream()});
    let answers = "return function() ngx.say('from lua') ngx.exit(200) end";
    let body = "return function() if ngx.arg[1] then ngx.arg[1] = ngx.arg[1]:upper() end end";
    let path = "return function() ngx.req.set_uri('/blocked/x') end";
    let waits = "return function() ngx.sleep(0.001) return 200, 'late' end";
    let label = "return function(conf, ctx) ngx.say(ctx.matched_route.value.labels.version) ngx.exit(200) end";
    let resources = json!({
        "routes": [
            {"id": "label", "uri": "/label", "labels": {"version": "v2"}, "upstream": upstream(),
                "plugins": pre_function("rewrite", label)},
            route("answers", pre_function("access", answers)),
            route("body", pre_function("body_filter", body)),
            route("waits", pre_function("rewrite", waits)),
            route("loop", pre_function("access", LOOP)),
            route("path", json!({
                "serverless-pre-function": {"phase": "rewrite", "functions": [path]},
                "uri-blocker": {"block_rules": ["^/blocked"], "rejected_code": 418},
            })),
            route("before", json!({"mocking": {"response_example": "x", "_meta": {
                "pre_function": "return function(conf, ctx) ngx.header['X-Before'] = 'yes' end"}}})),
            route("exit", json!({
                "key-auth": {},
                "exit-transformer": {"functions": ["local code, body, header = ... ; return 499, 'other', header"]},
            })),
            {"id": "one", "uri": "/chosen", "upstream": upstream(),
                "plugins": pre_function("access", "return function() return 201 end"),
                "filter_func": "function(vars) return vars.arg_v == '1' end"},
            {"id": "two", "uri": "/chosen", "upstream": upstream(), "priority": -1},
            {"id": "script", "uri": "/script",
                "script": "local _M = {} function _M.access(ctx) ngx.say(ctx.var.uri) ngx.exit(200) end return _M"},
        ],
    });
    let gateway = gateway().resources(&resources).set("scripting.lua", "trusted").start();
    assert_eq!(ask(&gateway, "/answers", ""), (200, "from lua\n".to_owned()));
    assert_eq!(ask(&gateway, "/label", ""), (200, "v2\n".to_owned()));
    assert_eq!(ask(&gateway, "/waits", ""), (200, "late".to_owned()));
    let (status, text) = ask(&gateway, "/body", "");
    assert_eq!((status, text.clone()), (200, text.to_uppercase()));
    assert_eq!(ask(&gateway, "/path", "").0, 418, "a path that Lua sets is judged");
    assert_eq!(ask(&gateway, "/before", "").0, 200);
    assert_eq!(ask(&gateway, "/exit", ""), (499, "other".to_owned()));
    assert_eq!(ask(&gateway, "/chosen?v=1", "").0, 201);
    assert_eq!(ask(&gateway, "/chosen?v=2", "").0, 200);
    assert_eq!(ask(&gateway, "/script", ""), (200, "/script\n".to_owned()));
    assert_eq!(ask(&gateway, "/loop", "").0, 200);
    assert_eq!(ask(&gateway, "/loop?loop=1", "").0, 500);
    assert_eq!(ask(&gateway, "/loop", "").0, 200);
    gateway.wait_failures("plugin_failed", 1);
}

#[test]
fn plugins_of_a_folder_are_part_of_the_catalogue() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("plugins")).expect("a folder");
    fs::create_dir_all(folder.path().join("lib")).expect("a folder");
    fs::write(folder.path().join("plugins/greet.lua"), GREET).expect("a file");
    fs::write(folder.path().join("lib/words.lua"), WORDS).expect("a file");
    let origin = Origin::named("a");
    let gateway = gateway()
        .without_resources()
        .set("scripting.lua", "trusted")
        .set("scripting.folder", &folder.path().display().to_string())
        .start();
    let route = |conf: Value| json!({"uri": "/*", "plugins": {"greet": conf}, "upstream": upstream([origin.address()])});
    let refused = gateway.admin("PUT", "/routes/1", &route(json!({})));
    assert_eq!(refused.status(), 400);
    assert!(refused.text().contains("plugin greet err"), "{}", refused.text());
    assert_eq!(gateway.admin("PUT", "/routes/1", &route(json!({"name": "you"}))).status(), 201);
    let answer = gateway.client().get("/a");
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.field("x-greeted"), Some("you"));
    let listed = gateway.admin("GET", "/plugins/list", &Value::Null).text();
    assert!(listed.contains("\"greet\""), "{listed}");
    // A plugin that cannot be used keeps the gateway from starting, because routes may need it.
    fs::write(folder.path().join("plugins/bad.lua"), "return io").expect("a file");
    let failure = crate::support::gateway()
        .set("scripting.lua", "trusted")
        .set("scripting.folder", &folder.path().display().to_string())
        .fail();
    assert!(failure.text.contains("\"io\" is not available"), "{}", failure.text);
}

#[test]
fn lua_is_refused_unless_it_is_trusted_and_an_administrator_writes_it() {
    let origin = Origin::named("a");
    let route = json!({
        "uri": "/*", "plugins": pre_function("access", LOOP), "upstream": upstream([origin.address()]),
    });
    let off = gateway().without_resources().start();
    for object in [
        route.clone(),
        json!({"uri": "/*", "filter_func": "function(vars) return true end", "plugins": {}}),
        json!({"uri": "/*", "script": "return { access = 1 }"}),
    ] {
        let refused = off.admin("PUT", "/routes/1", &object);
        assert_eq!(refused.status(), 400);
        assert!(refused.text().contains("scripting.lua: trusted"), "{}", refused.text());
    }
    let keys = json!([{"name": "night", "key": "0123456789-night-shift", "role": "operator"}]);
    let on = gateway()
        .without_resources()
        .set("scripting.lua", "trusted")
        .set("admin.keys", &keys.to_string())
        .start();
    let put = |key: &str, object: &Value| {
        let body = object.to_string();
        let bytes = body.len();
        let mut client = tollhouse_testkit::RawClient::connect(on.admin_address());
        client.ask(format!(
            "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: a\r\nX-API-KEY: {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n{body}"
        ))
    };
    let refused = put("0123456789-night-shift", &route);
    assert_eq!(refused.status(), 403, "{}", refused.text());
    assert!(refused.text().contains("only administrators may write Lua"), "{}", refused.text());
    assert_eq!(put(&on.admin_key(), &route).status(), 201);
    let mut renamed = route.clone();
    renamed["name"] = json!("n");
    assert_eq!(put("0123456789-night-shift", &renamed).status(), 200);
    renamed["plugins"] = pre_function("access", "return function() end");
    assert_eq!(put("0123456789-night-shift", &renamed).status(), 403);
    let missing = json!({
        "uri": "/*", "plugins": pre_function("access", "return function() os.execute('ls') end"),
    });
    let refused = put(&on.admin_key(), &missing);
    assert!(refused.text().contains("os.execute"), "{}", refused.text());
}
