//! What scripts see and change, by the documentation of APISIX and OpenResty.

use tollhouse_plugin::FunctionPhase;

use super::*;

#[test]
fn expressions_have_the_values_of_openresty() {
    let table = [
        ("ngx.say('a', 1, true, ngx.null, {'b', {'c'}})", "a1truenullbc\n"),
        ("ngx.print(ngx.var.uri, ' ', ngx.var.arg_y, ' ', ngx.var.args)", "/a/b 2 x=1&y=2&x=3&z"),
        ("ngx.print(ngx.var.request_method, ngx.req.get_method(), ngx.var.host)", "POSTPOSTt.com"),
        ("ngx.print(tostring(ngx.var.nothing))", "nil"),
        ("ngx.print(ngx.req.get_headers()['x_a'], ngx.req.get_headers()['X-A'])", "11"),
        (
            "ngx.req.set_header('tenant_id', '5') ngx.print(require('apisix.core').request.header(ctx, 'tenant_id'), \
             tostring(ngx.req.get_headers()['tenant-id']))",
            "5nil",
        ),
        ("ngx.print(ngx.var.arg_Y, ngx.var.ARG_y, ctx.var.arg_Y)", "2nilnil"),
        (";;; ngx.print((function(a) return a end)\n(3))", "3"),
        ("ngx.print(ngx.req.get_uri_args().x[2], tostring(ngx.req.get_uri_args().z))", "3true"),
        ("ngx.req.read_body() ngx.print(ngx.req.get_body_data())", "{\"k\":[1]}"),
        ("ngx.print(ngx.encode_base64('hello'), ngx.decode_base64('aGVsbG8='))", "aGVsbG8=hello"),
        ("ngx.print(ngx.md5('a'))", "0cc175b9c0f1b6a831c399e269772661"),
        (
            "ngx.print(require('resty.string').to_hex(ngx.sha1_bin('a')))",
            "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8",
        ),
        ("ngx.print(ngx.escape_uri('a b/c'), ngx.unescape_uri('a%20b+c'))", "a%20b%2Fca b c"),
        ("ngx.print(ngx.encode_args({a = 'b c'}), ngx.decode_args('q=1&r').q)", "a=b%20c1"),
        ("ngx.print(ngx.re.match('hello, 1234', '([0-9])[0-9]+')[1])", "1"),
        ("ngx.print(ngx.re.match('k=v', '(?<key>k)=(?<val>v)')['val'])", "v"),
        ("local f, t = ngx.re.find('hello, 1234', '[0-9]+', 'jo') ngx.print(f, t)", "811"),
        ("ngx.print((ngx.re.gsub('a1b22', '[0-9]+', '<$0>')))", "a<1>b<22>"),
        ("ngx.print((ngx.re.sub('ab', '(a)(b)', '$2${1}')))", "ba"),
        ("for m in ngx.re.gmatch('a,b', '[a-z]') do ngx.print(m[0]) end", "ab"),
        ("ngx.print((('x'):rep(3)):upper(), ('a.b'):find('.', 1, true))", "XXX22"),
        ("ngx.print((('hello'):gsub('l', {l = 'L'})))", "heLLo"),
        ("for w in ('one two'):gmatch('%a+') do ngx.print(w, ';') end", "one;two;"),
        ("ngx.print(string.format('%5.2f|%s', 1.5, 'x'))", " 1.50|x"),
        (
            "ngx.print(require('cjson').encode({a = {1, 2}}), require('cjson').decode('[1]')[1])",
            "{\"a\":[1,2]}1",
        ),
        ("ngx.print(tostring(require('cjson.safe').decode('{')))", "nil"),
        (
            "ngx.print(require('apisix.core').json.encode(require('apisix.core').json.decode('[]')))",
            "[]",
        ),
        ("ngx.print(require('apisix.core').request.header(ctx, 'x-a'))", "1"),
        ("ngx.print(require('apisix.core').request.get_body())", "{\"k\":[1]}"),
        ("ngx.print(ctx.var.arg_x, ctx.var.cookie_c, conf.a)", "1d1"),
        ("ngx.print(require('apisix.core').string.has_prefix('abc', 'ab'))", "true"),
        ("local b = require('bit') ngx.print(b.band(7, 2))", "2"),
        ("ngx.sleep(0.01) ngx.print('late')", "late"),
        ("ngx.print(pcall(function() error('x', 0) end))", "falsex"),
        ("ngx.print(select('#', coroutine.wrap(function() ngx.sleep(0) return 1, 2 end)()))", "2"),
        ("local s = require('resty.sha256'):new() s:update('a') ngx.print(#s:final())", "32"),
        (
            "ngx.shared.d:set('k', 1) ngx.print(ngx.shared.d:incr('k', 2), ngx.shared.d:get('k'))",
            "33",
        ),
        ("ngx.print(ngx.shared.d:incr('n', 1, 5), tostring(ngx.shared.d:get('none')))", "6nil"),
        ("ngx.ctx.a = 5 ngx.print(ngx.ctx.a, ngx.get_phase())", "5access"),
        (
            "ngx.print(type(ngx.now()), ngx.time() > 0, ngx.http_time(0))",
            "numbertrueThu, 01 Jan 1970 00:00:00 GMT",
        ),
        ("ngx.print(#require('apisix.core').utils.uuid())", "36"),
    ];
    for (body, expected) in table {
        assert_eq!(said(body), expected, "{body}");
    }
}

#[test]
fn tokens_are_signed_and_verified() {
    let body = "
        local jwt = require('resty.jwt')
        local token = jwt:sign('key', {header = {typ = 'JWT', alg = 'HS256'}, payload = {sub = 'jack'}})
        local good, bad = jwt:verify('key', token), jwt:verify('other', token)
        ngx.print(good.verified, good.payload.sub, bad.verified, jwt:verify('k', 'x').reason)";
    assert_eq!(said(body), "truejackfalseinvalid jwt string");
}

#[test]
fn answers_have_the_statuses_and_bodies_that_scripts_give() {
    let table = [
        ("return 403, {message = 'no'}", 403, "{\"message\":\"no\"}\n"),
        ("return 401", 401, ""),
        ("return nil, 'text'", 200, "text"),
        ("ngx.exit(404)", 404, ""),
        ("ngx.status = 202 ngx.say('x') ngx.exit(200)", 202, "x\n"),
        ("ngx.exit(ngx.OK)", 0, "(no answer)"),
        ("ngx.redirect('/b', 301)", 301, ""),
        ("require('apisix.core').response.exit(418, 'tea')", 418, "tea"),
        ("require('apisix.core').response.exit(400, {a = 1})", 400, "{\"a\":1}\n"),
        ("pcall(ngx.exit, 403)", 403, ""),
        ("coroutine.wrap(function() ngx.exit(409) end)()", 409, ""),
        ("local x = 1", 0, "(no answer)"),
        ("error('broken')", 500, ""),
        ("coroutine.yield()", 500, ""),
    ];
    for (body, status, text) in table {
        let outcome = run(body, "GET / HTTP/1.1\n\n");
        assert_eq!((status_of(&outcome), &*text_of(&outcome)), (status, text), "{body}");
    }
}

#[test]
fn changes_of_the_request_reach_the_node() {
    let body = "
        ngx.req.set_header('X-New', 'a\\r\\nb')
        ngx.req.clear_header('X-A')
        ngx.req.set_uri_args({k = 'v'})
        ngx.req.set_body_data('other')
        ngx.var.mine = 'set'
        require('apisix.core').request.add_header(ctx, 'X-Two', 2)";
    let edits = run(body, "GET /a?b=c HTTP/1.1\nX-A: 1\n\n").edits;
    for part in ["X-New: a%0D%0Ab", "/a?k=v", "X-Two: 2"] {
        assert!(edits.contains(part), "{part} in {edits}");
    }
    let edits = run("ngx.req.set_uri('/new path')", "GET /a?b=c HTTP/1.1\n\n").edits;
    assert!(edits.contains("/new%20path?b=c"), "{edits}");
}

#[test]
fn a_path_that_servers_read_in_two_ways_is_refused() {
    for path in ["/a/..%2fb", "/a;x/../b", "/../b"] {
        let outcome = run(&format!("ngx.var.upstream_uri = '{path}'"), "GET / HTTP/1.1\n\n");
        assert_eq!(status_of(&outcome), 500, "{path}");
    }
}

#[test]
fn several_functions_run_in_order_until_one_answers() {
    let texts = [
        "return function(conf, ctx) ctx.seen = 'first' end",
        "return function(conf, ctx) return 200, ctx.seen .. tostring(conf.a) end",
        "return function() return 500 end",
    ];
    let mut harness = functions(FunctionPhase::Access, &texts);
    let outcome = harness.request("GET / HTTP/1.1\n\n");
    assert_eq!((status_of(&outcome), &*text_of(&outcome)), (200, "first1"));
}

#[test]
fn head_and_body_of_an_answer_are_rewritten() {
    let text = "return function() ngx.header['X-B'] = ngx.status ngx.header.etag = nil end";
    let mut harness = functions(FunctionPhase::HeaderFilter, &[text]);
    let reply = harness.respond(&mut get(), "201\nETag: x", &["body"]);
    assert!(reply.headers.iter().any(|(name, value)| name == "X-B" && value == "201"), "{reply:?}");
    assert!(!reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("etag")));
    let text = "return function()
        if ngx.arg[1] then ngx.arg[1] = ngx.arg[1]:upper() end
        if ngx.arg[2] then ngx.arg[1] = (ngx.arg[1] or '') .. '!' end
    end";
    let mut harness = functions(FunctionPhase::BodyFilter, &[text]);
    let reply = harness.respond(&mut get(), "200\nContent-Length: 4", &["ab", "cd"]);
    assert_eq!(reply.body, "ABCD!");
}

#[test]
fn headers_that_a_request_function_sets_are_in_the_answer() {
    let text = "return function() ngx.header['X-Late'] = 'v' end";
    let mut harness = functions(FunctionPhase::Access, &[text]);
    let mut exchange = get();
    assert!(harness.run(&mut exchange).answer.is_none());
    let reply = harness.respond(&mut exchange, "200", &["x"]);
    assert!(
        reply.headers.iter().any(|(name, value)| name == "X-Late" && value == "v"),
        "{reply:?}"
    );
}

#[test]
fn scripts_wait_for_other_services() {
    let http = "
        local reply, err = require('resty.http').new():request_uri('http://a/b', {method = 'POST', body = 'x', query = {q = 1}})
        local _, refused = require('resty.http').new():request_uri('http://refused')
        ngx.print(reply.status, reply.body, reply.headers['x-seen'], err == nil, refused)";
    assert_eq!(said(http), "201POST http://a/b?q=1 xyestrueconnection refused");
    let redis = "
        local red = require('resty.redis'):new()
        red:set_timeout(100)
        assert(red:connect('127.0.0.1', 6379))
        local failed, err = red:eval('x', 0)
        ngx.print(red:set('k', 'v'), red:get('k') == ngx.null, red:incr('n'), red:lrange('l', 0, 1)[1], failed, err)";
    assert_eq!(said(redis), "set k vtrue7afalseERR bad");
    let outcome = run("ngx.sleep(2) return 200", "GET / HTTP/1.1\n\n");
    assert_eq!(outcome.slept.as_secs(), 2);
}

#[test]
fn texts_are_refused_when_they_are_written() {
    let table = [
        ("return function() end", ""),
        ("return function(", "failed to loadstring: "),
        ("error('x')", "pcall error: "),
        ("return 1", "only accept Lua function, the input code type is number"),
        ("local a = 1", "only accept Lua function, the input code type is nil"),
        ("return function() os.execute('ls') end", "\"os.execute\" is not available"),
        ("return function() io.open('/etc/passwd') end", "\"io\" is not available"),
        ("return function() ngx.location.capture('/') end", "\"ngx.location\" is not available"),
        ("local f = require('ffi') return function() end", "module \"ffi\" is not available"),
        (
            "local core = require('apisix.core') return function() core.etcd.get() end",
            "\"apisix.core.etcd\" is not available",
        ),
        ("return function() debug.getinfo(1) end", "\"debug\" is not available"),
        ("while true do end", "the script ran too long"),
        ("\u{1b}LJ", "bytecode cannot be loaded"),
    ];
    for (text, expected) in table {
        let found = refusal(text);
        let is_as_expected = if expected.is_empty() {
            found.is_empty()
        } else {
            found.starts_with(expected) || found.contains(expected)
        };
        assert!(is_as_expected, "{text}: {found}");
    }
}
