//! Scripts that try to stay, to take everything, or to reach what is not theirs.

use tollhouse_plugin::FunctionPhase;

use super::*;

#[test]
fn a_script_that_never_ends_is_ended_and_the_next_request_runs() {
    let bodies = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local function f() return f() end f()",
        "local t = setmetatable({}, {__index = function(t, k) return t[k .. 'x'] end}) while true do pcall(function() return t.a end) end",
        "('a'):rep(3000):find('.-.-.-.-.-b')",
        "while true do pcall(string.find, ('a'):rep(3000), '.-.-.-.-.-b') end",
        "while true do ('x'):gsub('x', 'y') end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) end",
        "while true do pcall(function() local t = {} while true do t[#t + 1] = ('x'):rep(1000) end end) end",
        "('x'):rep(1e9)",
        "return string.rep('x', 1e18)",
        "local f f = function() pcall(f) f() end f()",
        "repeat local ok = pcall(error) until false",
    ];
    for body in bodies {
        let text = format!("return function() if ngx.var.arg_bad then {body} end end");
        let mut harness = functions(FunctionPhase::Access, &[&text]);
        let outcome = harness.request("GET /?bad=1 HTTP/1.1\n\n");
        let reply = outcome.answer.expect("a refusal");
        assert_eq!(reply.status, 500, "{body}");
        assert!(harness.request("GET / HTTP/1.1\n\n").answer.is_none(), "after {body}");
    }
}

#[test]
fn expensive_calls_are_ended_after_a_few() {
    // Each call of a function takes a millisecond or more.
    for call in ["text:upper()", "text:sub(2)", "ngx.md5(text)", "cjson.encode(text)"] {
        let text = format!(
            "local cjson = require('cjson')
            local calls = 0
            return function()
                if ngx.var.arg_count then return 200, calls end
                local text = ('x'):rep(4000000)
                while true do calls = calls + 1 local _ = {call} end
            end"
        );
        let mut harness = functions(FunctionPhase::Access, &[&text]);
        assert_eq!(harness.request("GET / HTTP/1.1\n\n").answer.map(|it| it.status), Some(500));
        let calls = text_of(&harness.request("GET /?count=1 HTTP/1.1\n\n"));
        assert!(calls.parse::<u32>().is_ok_and(|calls| calls < 20), "{calls} calls of {call}");
    }
}

#[test]
fn what_is_not_there_cannot_be_reached() {
    let table = [
        ("return 200, tostring(getmetatable(''))", "nil"),
        ("return 200, tostring(pcall(function() (''):dump() end))", "false"),
        ("return 200, tostring(pcall(function() string.find = nil end))", "false"),
        ("return 200, tostring(pcall(rawset, string, 'find', 1))", "false"),
        ("return 200, tostring(pcall(setmetatable, ngx, {}))", "false"),
        ("return 200, tostring(getmetatable(ngx))", "false"),
        ("return 200, tostring(pcall(setmetatable, {}, {__gc = function() end}))", "false"),
        ("return 200, tostring((load('\\27LJ')))", "nil"),
        ("return 200, tostring(pcall(loadstring('return ' .. 'io')))", "false"),
        ("return 200, tostring(pcall(loadstring('return ' .. 'getfenv'))) ", "false"),
        ("return 200, tostring(collectgarbage('stop'))", "0"),
        ("return 200, tostring(pcall(function() ngx.say = print end))", "false"),
        ("return 200, tostring(pcall(function() tostring = print end))", "false"),
        ("return 200, tostring(os.getenv('HOME'))", "nil"),
        (
            "local e = require 'resty.http' return 200, tostring(pcall(function() e.new = 1 end))",
            "false",
        ),
        ("return 200, tostring(pcall(require, 'jit'))", "false"),
    ];
    for (body, expected) in table {
        assert_eq!(said(body).split(['\t', '\n']).next().unwrap_or_default(), expected, "{body}");
    }
}

#[test]
fn globals_of_a_request_are_gone_with_it() {
    let text = "return function()
        if ngx.var.arg_set then secret = 'of one' return 200, secret end
        return 200, tostring(pcall(function() return secret end))
    end";
    let mut harness = functions(FunctionPhase::Access, &[text]);
    assert_eq!(text_of(&harness.request("GET /?set=1 HTTP/1.1\n\n")), "of one");
    assert_eq!(text_of(&harness.request("GET / HTTP/1.1\n\n")), "false");
    // Variables of the text itself stay, as in OpenResty.
    let text = "local count = 0 return function() count = count + 1 return 200, count end";
    let mut harness = functions(FunctionPhase::Access, &[text]);
    harness.request("GET / HTTP/1.1\n\n");
    assert_eq!(text_of(&harness.request("GET / HTTP/1.1\n\n")), "2");
}

#[test]
fn the_context_of_a_request_is_gone_with_it() {
    for (leave, look) in [
        ("ctx.user = 'jack'", "ctx.user"),
        ("rawset(ctx, 'user', 'jack')", "ctx.user"),
        ("setmetatable(ctx, {__index = function() return 'jack' end})", "ctx.user"),
        ("ngx.ctx.user = 'jack'", "ngx.ctx.user"),
        ("ngx.var.mine = 'jack'", "ngx.var.mine"),
        ("ngx.header['X-A'] = 'jack'", "ngx.header['X-A']"),
    ] {
        let text = format!(
            "return function(conf, ctx)
                if ctx.var.arg_set then {leave} return end
                if ctx.var.arg_look then return 200, tostring({look}) end
            end"
        );
        let mut harness = functions(FunctionPhase::Access, &[&text]);
        // The state of a request without traces serves the next one.
        for _ in 0..2 {
            assert!(harness.request("GET / HTTP/1.1\n\n").answer.is_none());
        }
        assert!(harness.request("GET /?set=1 HTTP/1.1\n\n").answer.is_none());
        for _ in 0..2 {
            assert_eq!(text_of(&harness.request("GET /?look=1 HTTP/1.1\n\n")), "nil", "{leave}");
        }
    }
}

#[test]
fn a_context_that_a_script_has_kept_is_not_that_of_the_next_request() {
    let text = "local last
        return function(conf, ctx)
            if ctx.var.arg_set then last = ctx return end
            if last then last.user = 'jack' end
            if ctx.var.arg_look then
                local meta = getmetatable(ctx)
                return 200, tostring(ctx.user) .. tostring(meta)
            end
        end";
    let mut harness = functions(FunctionPhase::Access, &[text]);
    assert!(harness.request("GET /?set=1 HTTP/1.1\n\n").answer.is_none());
    for _ in 0..2 {
        assert_eq!(text_of(&harness.request("GET /?look=1 HTTP/1.1\n\n")), "nilnil");
    }
}

#[test]
fn reading_a_credential_makes_the_answer_private() {
    for (body, is_noted) in [
        ("local a = ngx.var.http_authorization", true),
        ("local a = ngx.req.get_headers()", true),
        ("local a = ngx.var.cookie_session", true),
        ("local a = ngx.var.http_user_agent", false),
        ("local a = ngx.var.uri", false),
        ("require('tollhouse').note_identity('jack')", true),
    ] {
        let text = format!("return function() {body} end");
        let mut harness = functions(FunctionPhase::Access, &[&text]);
        let mut exchange = get();
        harness.run(&mut exchange);
        assert_eq!(!exchange.edits.identities.is_empty(), is_noted, "{body}");
    }
}

#[test]
fn invalid_header_values_cannot_end_a_line() {
    let text = "return function() ngx.header['X-A'] = 'a\\r\\nSet-Cookie: b' end";
    let mut harness = functions(FunctionPhase::HeaderFilter, &[text]);
    let reply = harness.respond(&mut get(), "200", &[]);
    assert!(reply.headers.iter().all(|(name, _)| name != "Set-Cookie"), "{reply:?}");
}

#[test]
fn a_body_function_that_fails_lets_nothing_pass() {
    let text = "return function() error('x') end";
    let mut harness = functions(FunctionPhase::BodyFilter, &[text]);
    let reply = harness.respond(&mut get(), "200", &["secret"]);
    assert!(!reply.body.contains("secret"), "{reply:?}");
}
