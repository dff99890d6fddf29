//! Tests of transformations: what nodes and clients get, and which templates are refused.

use tollhouse_plugin::testing::{FakeExchange, Harness, Reply};

use super::*;
use crate::shared::auth::base64::encode_base64;

fn request_conf(format: Option<&str>, template: &str) -> Value {
    match format {
        Some(format) => json!({"request": {"input_format": format, "template": template}}),
        None => json!({"request": {"template": template}}),
    }
}

/// Returns the body that the node gets, or status and body of the refusal.
fn sent(conf: &Value, request: &str) -> String {
    let mut exchange = FakeExchange::parse(request, 0);
    let outcome = Harness::new::<BodyTransformer>(conf).run(&mut exchange);
    match exchange.edits.body {
        Some(body) => String::from_utf8(body).unwrap(),
        None => format!("{} {}", outcome.status(), outcome.body()),
    }
}

fn rendered(template: &str, body: &str) -> String {
    sent(&request_conf(Some("json"), template), &format!("POST / HTTP/1.1\n\n{body}"))
}

#[test]
fn bodies_of_each_format_are_decoded() {
    let template = r#"{"foo":"{{name .. " world"}}","bar":{{age+10}}}"#;
    let expected = r#"{"foo":"hello world","bar":30}"#;
    let multipart = "--B\r\nContent-Disposition: form-data; name=name\r\n\r\nhello\r\n--B\r\n\
        Content-Disposition: form-data; name=\"age\"\r\n\r\n20\r\n--B--\r\n";
    let xml = "<?xml version=\"1.0\"?><a:r xmlns:a=\"x\"><a:name>hello</a:name><age>20</age></a:r>";
    for (kind, body) in [
        ("application/json", r#"{"name":"hello","age":20}"#),
        ("application/x-www-form-urlencoded", "name=hello&age=20"),
        ("multipart/form-data; boundary=B", multipart),
    ] {
        let request = format!("POST / HTTP/1.1\nContent-Type: {kind}\n\n{body}");
        assert_eq!(sent(&request_conf(None, template), &request), expected, "{kind}");
    }
    let conf = request_conf(Some("xml"), &template.replace("name", "r.name").replace("age", "r.age"));
    assert_eq!(sent(&conf, &format!("POST / HTTP/1.1\n\n{xml}")), expected);
    // A GET has its arguments, whatever the conf says.
    let conf = request_conf(Some("json"), template);
    assert_eq!(sent(&conf, "GET /?name=hello&age=20 HTTP/1.1\n\n"), expected);
    let conf = request_conf(Some("plain"), "{* _body *}{{name}}");
    assert_eq!(sent(&conf, "POST / HTTP/1.1\n\nplain {text}"), "plain {text}");
}

#[test]
fn xml_has_attributes_lists_texts_and_entities() {
    let xml = "<s:E xmlns:s='u'><s:B><f lang='en'>a &lt; b</f><i>1</i><i>2</i><n/></s:B></s:E>";
    let template = "{* E.B.f[1] *}|{{E.B.f._attr.lang}}|{{E.B.i[2]}}|{{E.B.n}}|{{#E.B.i}}\
                    {% if E.B.none == nil then %}|none{% end %}";
    let conf = request_conf(Some("xml"), template);
    assert_eq!(sent(&conf, &format!("POST / HTTP/1.1\n\n{xml}")), "a < b|en|2||2|none");
    for (body, text) in [
        ("{\"a\":1}", "Error Parsing XML: "),
        ("<a><b></a>", "Error Parsing XML: "),
        ("<a>&own;</a>", "unknown entity"),
        (&format!("{}x", "<a>".repeat(102)), "too many elements"),
    ] {
        let refused = sent(&conf, &format!("POST / HTTP/1.1\n\n{body}"));
        assert!(refused.starts_with("400 ") && refused.contains(text), "{refused}");
    }
}

#[test]
fn attributes_are_counted() {
    let conf = request_conf(Some("xml"), "{{(a._attr or a.e).b0 or #a.e}}");
    let attributes = |count: usize| (0..count).map(|it| format!(" b{it}='1'")).collect::<String>();
    let elements = |count: usize| format!("<e{}/>", attributes(100)).repeat(count);
    for (xml, expected) in [
        (format!("<a{}/>", attributes(1_000)), "1"),
        (format!("<a{}/>", attributes(1_001)), "too many attributes"),
        (format!("<a>{}</a>", elements(900)), "900"),
        (format!("<a>{}</a>", elements(1_000)), "too many "),
    ] {
        let outcome = sent(&conf, &format!("POST / HTTP/1.1\n\n{xml}"));
        assert!(outcome.contains(expected), "{outcome}");
    }
}

#[test]
fn bodies_on_the_core_have_fewer_steps() {
    let template = "{% for i = 1, 30000 do %}{% end %}x";
    for (length, expected) in [(1, "503 "), (32 << 10, "x"), ((32 << 10) + 1, "x")] {
        let body = format!("\"{}\"", "a".repeat(length - 1));
        assert!(rendered(template, &body).starts_with(expected), "{length}");
    }
    // A loop over the densest list of numbers fits at every length.
    let list = format!("{{\"l\":[{}100]}}", "100,".repeat(8_000));
    let template = "{% for i, v in ipairs(l) do %}{{v}}{% end %}";
    assert!(rendered(template, &list).starts_with("100100"));
}

#[test]
fn long_texts_are_shared_compared_at_a_price_and_no_numbers() {
    let long = "1".repeat(65);
    let template = "{{tonumber(n) == nil}} {{tonumber(m)}}";
    let body = json!({"n": long, "m": "1".repeat(3)}).to_string();
    assert_eq!(rendered(template, &body), "true 111");
    let text = json!({"t": "x".repeat(100 << 10)}).to_string();
    let copies = "{% local a = t .. '' for i = 1, 1000 do local b = a end %}{{#a}}";
    assert_eq!(rendered(copies, &text), (100 << 10).to_string());
    let compares = "{% local a = t .. '' for i = 1, 10000 do local b = a == t end %}";
    assert!(rendered(compares, &text).contains("too many steps"));
}

#[test]
fn templates_are_rendered_as_by_lua() {
    let body = r#"{"s":"<a/b>","n":2.50,"t":{"k":[1,2]},"no":false,"nothing":null,"big":12345678901234567}"#;
    for (template, expected) in [
        ("{{s}} {*s*} {{n}} {{big}} {{missing}}", "&lt;a&#47;b&gt; <a/b> 2.5 12345678901234567 "),
        ("{*_escape_json(s)*} {*_escape_json(t)*} {*_escape_json(nothing)*}", "\"<a/b>\" {\"k\":[1,2]} null"),
        ("{*_escape_xml(s)*}", "&lt;a/b&gt;"),
        ("a{# comment #}\nb\n  {% if no then %}\nx\n{% elseif n > 2 then %}\ny\n{% else %}z{% end %}", "ab\ny\n"),
        ("{% for i, v in ipairs(t.k) do %}{{i}}={{v}};{% end %}", "1=1;2=2;"),
        ("{% for k, v in pairs(t) do %}{{k}}{{#v}}{% end %}", "k2"),
        ("{% for i = 3, 1, -1 do %}{{i}}{% end %}", "321"),
        ("{% local a = n * 2 + 1 local b = a % 4 %}{{a}} {{b}} {{-a}}", "6 2 -6"),
        ("{{no or 'x'}} {{not no and 1 or 2}} {{1 == 1.0}} {{'a' < 'b'}}", "x 1 true true"),
        ("{{tonumber('10') + '5'}} {{tostring(no)}} {{string.upper('a')}}", "15 false A"),
        ("{{2 .. 3 .. 'x'}} {{(1 + 2) * 3}} {{10 / 4}}", "23x 9 2.5"),
        ("\\{{s}} { {\"a\":{\"b\":1}}", "{{s}} { {\"a\":{\"b\":1}}"),
        ("{{context.n}} {{_body == nil}}", "2.5 false"),
    ] {
        assert_eq!(rendered(template, body), expected, "{template}");
    }
}

#[test]
fn variables_and_the_consumer_are_known() {
    let template = "{{_ctx.var.arg_a}} {{_ctx.consumer and _ctx.consumer.username or 'none'}}";
    let conf = request_conf(Some("json"), template);
    for (name, expected) in [(None, "1 none"), (Some("jack"), "1 jack")] {
        let mut exchange = FakeExchange::parse("POST /?a=1 HTTP/1.1\n\n{\"_ctx\":1}", 0);
        if let Some(name) = name {
            exchange = exchange.with_variable("consumer_name", name);
        }
        Harness::new::<BodyTransformer>(&conf).run(&mut exchange);
        assert_eq!(exchange.edits.body.as_deref(), Some(expected.as_bytes()));
    }
}

#[test]
fn templates_in_base64_are_decoded() {
    let template = encode_base64("<n>{{name}}</n>");
    let request = "POST / HTTP/1.1\n\n{\"name\":\"a\"}";
    assert_eq!(sent(&request_conf(Some("json"), &template), request), "<n>a</n>");
    let conf = json!({"request": {"input_format": "args", "template": template, "template_is_base64": true}});
    assert_eq!(sent(&conf, "GET /?name=a HTTP/1.1\n\n"), "<n>a</n>");
    let conf = request_conf(Some("args"), &template);
    assert_eq!(sent(&conf, "GET /?name=a HTTP/1.1\n\n"), template);
}

#[test]
fn what_has_no_value_or_no_end_is_refused() {
    // The body is long enough for all steps.
    let body = json!({"list": [1], "rest": "x".repeat(33 << 10)}).to_string();
    for (template, text) in [
        ("{{a.b.c}}", "attempt to index a nil value"),
        ("{{missing + 1}}", "attempt to perform arithmetic on a nil value"),
        ("{{missing .. ''}}", "attempt to concatenate a nil value"),
        ("{{1 < 'a'}}", "attempt to compare number with string"),
        ("{{list}}", "attempt to write a table value"),
        ("{% for i = 1, 1000000000 do %}{% end %}", "too many steps"),
        ("{% for i = 1, 300000 do %}{{i}}{% end %}", "too many steps"),
        ("{% local a = _body local a = a..a..a..a..a..a..a..a..a..a..a..a local a = a..a..a..a..a..a..a..a..a..a..a..a local a = a..a..a..a..a..a..a..a..a..a..a..a local a = a..a..a..a..a..a..a..a..a..a..a..a local a = a..a..a..a..a..a..a..a..a..a..a..a local a = a..a..a..a..a..a..a..a..a..a..a..a %}", "a text is longer than"),
    ] {
        let refused = rendered(template, &body);
        let start = &refused[..refused.len().min(200)];
        assert!(start.starts_with("503 ") && start.contains(text), "{template}: {start}");
    }
    let many = format!("[{}1]", "1,".repeat(100_001));
    assert!(rendered("x", &many).starts_with("400 "), "too many values");
    let conf = json!({"request": {"template": "x"}, "max_req_body_size": 3});
    assert!(sent(&conf, "POST / HTTP/1.1\n\n1234").starts_with("413"));
}

#[test]
fn the_new_body_takes_its_memory_from_the_budget() {
    let conf = request_conf(Some("json"), "{% for i = 1, 100 do %}{{_body}}{% end %}");
    for (bytes_max, status) in [(10, 503), (100_000, 0)] {
        let mut exchange =
            FakeExchange::parse("POST / HTTP/1.1\n\n[1,2,3]", 0).with_memory(bytes_max);
        let outcome = Harness::new::<BodyTransformer>(&conf).run(&mut exchange);
        assert_eq!(outcome.status(), status);
    }
}

fn respond(conf: &Value, head: &str, body: &[&str]) -> Reply {
    let mut exchange = FakeExchange::parse("GET /hello?a=b HTTP/1.1\n\n", 0);
    Harness::new::<BodyTransformer>(conf).respond(&mut exchange, head, body)
}

#[test]
fn answers_are_transformed() {
    let template = r#"{"raw": {*_escape_json(_body)*}, "is": "{{result}}", "status": {{_ctx.var.status}}}"#;
    let conf = json!({"response": {"template": template}});
    let head = "200\nContent-Type: application/json\nContent-Length: 16\nETag: \"a\"";
    let reply = respond(&conf, head, &["{\"result\"", ": \"ok\"}"]);
    let expected = r#"{"raw": "{\"result\": \"ok\"}", "is": "ok", "status": 200}"#;
    assert_eq!(reply.body, expected);
    assert_eq!((reply.header("content-length"), reply.header("etag")), (None, None));
    // What the template hides must not pass if it cannot be rendered.
    let conf = json!({"response": {"input_format": "json", "template": "{{public}}"}});
    let reply = respond(&conf, "200", &["secret"]);
    assert!(!reply.body.contains("secret") && reply.status != 200, "{}", reply.body);
}

#[test]
fn bad_confs_are_refused() {
    for (template, text) in [
        ("{% require('os') %}", "unsupported construct in request.template: \"require\""),
        ("{{os.execute('x')}}", "the function \"os.execute\""),
        ("{{name:upper()}}", "the method call \":upper\""),
        ("{{string.gsub(_body, 'a', 'b')}}", "the function \"string.gsub\""),
        ("{(file.html)}", "the tag \"{(\""),
        ("{[name]}", "the tag \"{[\""),
        ("{-raw-}x{-raw-}", "the tag \"{-\""),
        ("{% x = 1 %}", "\"x\""),
        ("{% while true do %}{% end %}", "\"while\""),
        ("{% if a then %}", "a block without its \"end\""),
        ("{% end %}", "an \"end\" or \"else\" without"),
        ("{% if a then %}{% else %}{% else %}{% end %}", "without"),
        ("{{ a b }}", "\"b\""),
        ("{{ }}", "an incomplete code"),
        ("{{_ctx.var[a]}}", "a computed name in _ctx.var"),
        ("{{_ctx.matched_route}}", "\"_ctx.matched_route\""),
    ] {
        let refusal = Harness::refusal::<BodyTransformer>(&request_conf(None, template));
        assert!(refusal.contains(text), "{template}: {refusal}");
    }
    let deep = format!("{{{{{}1{}}}}}", "(".repeat(60), ")".repeat(60));
    assert!(Harness::refusal::<BodyTransformer>(&request_conf(None, &deep)).contains("deeper than"));
    for (conf, text) in [
        (json!({}), "object matches none of the required"),
        (json!({"request": {}}), "property \"template\" is required"),
        (json!({"request": {"template": "", "input_format": "yaml"}}), "matches none of the enum values"),
    ] {
        let refusal = Harness::refusal::<BodyTransformer>(&conf);
        assert!(refusal.contains(text), "{refusal}");
    }
}
