//! Functions that are called by the C interface of Lua: they leave nothing behind, however they end.

use tollhouse_plugin::FunctionPhase;

use super::*;

/// Bodies of functions with the status that each answers with; 0 if the request goes on.
const BODIES: [(&str, u16); 26] = [
    ("", 0),
    ("return nil", 0),
    ("return nil, nil, 3", 0),
    ("return 403", 403),
    ("return 201, 'text'", 201),
    ("return 202, {a = 1}", 202),
    ("return 'text'", 200),
    ("if ctx.var.arg_page == '2' then return 204 end", 204),
    (
        "if ctx.var.arg_none == nil and ctx.var[1] == nil and ctx.var.uri == '/a' then return 205 end",
        205,
    ),
    ("ctx.var.mine = 'x' if ctx.var.mine == 'x' then return 206 end", 206),
    ("counter = (rawget(_G, 'counter') or 0) + 1", 0),
    ("mine = 7 if mine == 7 then return 207 end", 207),
    ("ngx.header['X-A'] = 'b'", 0),
    ("ngx.status = 208 ngx.say(ctx.var.arg_page)", 208),
    ("ngx.exit(403)", 403),
    ("ngx.status = 418 ngx.say('x') ngx.exit(200)", 418),
    ("ngx.exit(ngx.OK) error('not reached')", 0),
    ("ngx.redirect('/x')", 302),
    ("error('x')", 500),
    ("error({a = 1})", 500),
    ("error(nil)", 500),
    ("error(setmetatable({}, {__tostring = function() error('y') end}))", 500),
    ("local function f(...) return f(1, ...) end f()", 500),
    ("local t = {} while true do t[#t + 1] = ('x'):rep(100000) end", 500),
    (
        "pcall(error, 'x') local ok = pcall(function() return ctx.var.uri.a.b end) if ok then return 1 end",
        0,
    ),
    ("ngx.req.set_header('X-B', ctx.var.arg_page)", 0),
];

#[test]
fn each_ending_leaves_the_state_as_it_was() {
    let lua = lua_with(&[]);
    let mut harnesses: Vec<_> = BODIES
        .iter()
        .map(|(body, status)| {
            let text = format!("return function(conf, ctx) {body} end");
            (functions_of(&lua, FunctionPhase::Access, &[&text]), body, *status)
        })
        .collect();
    // Each function runs after each other one, in the state that they share.
    for round in 0..60 {
        let count = harnesses.len();
        let (harness, body, status) = &mut harnesses[(round * 7 + round / 22) % count];
        for _ in 0..2 {
            let outcome = harness.request("GET /a?page=2 HTTP/1.1\n\n");
            assert_eq!(status_of(&outcome), *status, "{body}");
        }
    }
}

#[test]
fn a_function_without_end_is_ended_and_the_others_run() {
    let text = "return function(conf, ctx)
        if ctx.var.arg_bad then while true do pcall(function() while true do end end) end end
        return 201
    end";
    let mut harness = functions(FunctionPhase::Access, &[text]);
    for _ in 0..3 {
        assert_eq!(status_of(&harness.request("GET /?bad=1 HTTP/1.1\n\n")), 500);
        assert_eq!(status_of(&harness.request("GET / HTTP/1.1\n\n")), 201);
    }
}

#[test]
fn the_end_of_a_phase_counts_even_if_the_script_catches_it() {
    let text = "return function() pcall(function() ngx['ex' .. 'it'](403) end) return 200 end";
    let mut harness = functions(FunctionPhase::Access, &[text]);
    assert_eq!(status_of(&harness.request("GET / HTTP/1.1\n\n")), 403);
}

#[test]
fn variables_that_a_function_replaces_are_those_of_other_requests_still() {
    let lua = lua_with(&[]);
    let replaces = "return function(conf, ctx) ctx.var = {uri = 'x'} end";
    let reads = "return function(conf, ctx) if ctx.var.uri == '/a' then return 201 end end";
    let mut replacing = functions_of(&lua, FunctionPhase::Access, &[replaces]);
    assert_eq!(status_of(&replacing.request("GET /a HTTP/1.1\n\n")), 0);
    let mut reading = functions_of(&lua, FunctionPhase::Access, &[reads]);
    assert_eq!(status_of(&reading.request("GET /a HTTP/1.1\n\n")), 201);
}

#[test]
fn functions_run_in_order_until_one_answers() {
    let mut harness = functions(
        FunctionPhase::Access,
        &[
            "return function(conf, ctx) ctx.var.a = 'x' return false end",
            "return function(conf, ctx) if ctx.var.a == 'x' and conf.a == 1 then return 403 end end",
            "return function() return 404 end",
        ],
    );
    assert_eq!(status_of(&harness.request("GET / HTTP/1.1\n\n")), 403);
}

#[test]
fn a_function_that_reads_a_credential_makes_the_answer_private() {
    for (name, is_noted) in [
        ("http_authorization", true),
        ("cookie_session", true),
        ("http_user_agent", false),
        ("http_x_missing", true),
        ("arg_page", false),
    ] {
        let text = format!("return function(conf, ctx) local a = ctx.var.{name} end");
        let mut harness = functions(FunctionPhase::Access, &[&text]);
        for _ in 0..2 {
            let mut exchange = get();
            harness.run(&mut exchange);
            assert_eq!(!exchange.edits.identities.is_empty(), is_noted, "{name}");
        }
    }
}

#[test]
fn long_and_many_variables_are_read_too() {
    let long = "v".repeat(10_000);
    let text = "return function(conf, ctx) return 200, #ctx.var.arg_long end";
    let request = format!("GET /?long={long} HTTP/1.1\n\n");
    assert_eq!(text_of(&functions(FunctionPhase::Access, &[text]).request(&request)), "10000");
    // More names than a state keeps, over several requests.
    let text = "return function(conf, ctx)
        local n, from = 0, tonumber(ctx.var.arg_from)
        for i = from, from + 49 do if ctx.var['arg_a' .. i] == 'b' then n = n + 1 end end
        return 200, n
    end";
    let mut harness = functions(FunctionPhase::Access, &[text]);
    for from in (0..300).step_by(50) {
        let request = format!("GET /?from={from}&a{from}=b&a{}=b HTTP/1.1\n\n", from + 49);
        for _ in 0..2 {
            assert_eq!(text_of(&harness.request(&request)), "2", "{from}");
        }
    }
}

#[test]
fn the_state_of_a_request_is_shared_by_functions_of_both_kinds() {
    let lua = lua_with(&[]);
    let mut exchange = get();
    let text = "return function(conf, ctx) ctx.var.mine = 'x' ngx.ctx.mine = 'y' end";
    functions_of(&lua, FunctionPhase::Rewrite, &[text]).run(&mut exchange);
    let text = "return function(conf, ctx) ctx.a = 1 return 200, ctx.var.mine .. ngx.ctx.mine end";
    let outcome = functions_of(&lua, FunctionPhase::Access, &[text]).run(&mut exchange);
    assert_eq!(text_of(&outcome), "xy");
}
