//! Scripts that are understood, and code that is refused with its line and another way.
//! Expectations are one line each: method, path, headers, body.

use super::*;

fn read(text: &str) -> Result<Script, String> {
    Script::parse(text, vec![("X-From".into(), "command line".into())])
}

/// Method, path, headers and body in one line.
fn shown(text: &str) -> String {
    let script = read(text).unwrap_or_else(|why| panic!("{text}\n{why}"));
    let headers: Vec<String> =
        script.headers.iter().skip(1).map(|(name, value)| format!("{name}={value}")).collect();
    let body = match script.body {
        None => String::new(),
        Some(Body::Text(text)) => text,
        Some(Body::File(path)) => format!("@{}", path.display()),
    };
    let (method, path) = (script.method.unwrap_or_default(), script.path.unwrap_or_default());
    format!("{method} {path} [{}] {body}", headers.join(", "))
}

#[test]
fn scripts_that_say_what_is_sent_are_understood() {
    for (text, expected) in [
        ("", "  [] "),
        (
            "-- example script that posts\nwrk.method = \"POST\"\nwrk.body   = \"foo=bar&baz=quux\"\n\
             wrk.headers[\"Content-Type\"] = \"application/x-www-form-urlencoded\"",
            "POST  [Content-Type=application/x-www-form-urlencoded] foo=bar&baz=quux",
        ),
        ("wrk.path = '/a'; wrk.headers.Host = 'h'", " /a [Host=h] "),
        ("wrk[\"method\"] = 'PUT'", "PUT  [] "),
        ("wrk.body = '{\"a\":\\t\\x41\\066\\\\}'", "  [] {\"a\":\tAB\\}"),
        ("wrk.body = [[\n{\n  \"a\": 1\n}]]", "  [] {\n  \"a\": 1\n}"),
        ("wrk.body = [==[a]]b]==] --[[ two\nlines ]] wrk.method = 'X'", "X  [] a]]b"),
        ("local name = 'a'\nlocal n = 12\nwrk.path = '/' .. name .. '?n=' .. n", " /a?n=12 [] "),
        ("wrk.body = io.open(\"b.json\"):read(\"*a\")", "  [] @b.json"),
        ("local f = io.open('b', 'rb')\nwrk.body = f:read('*all')\nf:close()", "  [] @b"),
        ("f = assert(io.open('b'))\nwrk.body = f:read \"*a\"\nio.close(f)", "  [] @b"),
        ("wrk.headers['A'] = '1' wrk.headers['a'] = '2'", "  [a=2] "),
        ("wrk.headers['A'] = 1 wrk.headers['A'] = nil", "  [] "),
        ("function request()\n return wrk.format('POST', '/p', nil, 'x')\nend", "POST /p [] x"),
        (
            "request = function()\n  local p = '/q'\n  wrk.headers['A'] = 'b'\n  \
             return wrk.format(nil, p)\nend",
            " /q [A=b] ",
        ),
        ("wrk.path = '/a' wrk.path = wrk.path .. '/b'", " /a/b [] "),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn a_table_replaces_all_headers() {
    let script = read("wrk.headers = { [\"A\"] = \"1\", b = '2'; }").expect("understood");
    assert_eq!(script.headers, [("A".into(), "1".into()), ("b".into(), "2".into())]);
    let script = read("local h = {}\nwrk.headers = h").expect("understood");
    assert!(script.headers.is_empty());
}

#[test]
fn code_is_refused_with_its_line_and_another_way() {
    for (text, part) in [
        (
            "local n = 0\nrequest = function()\n  n = n + 1\n  return wrk.format()\nend",
            "line 3: `+`",
        ),
        ("done = function(summary) end", "line 1: `done` is a function"),
        ("\nfunction response(status) end", "line 2: `response`"),
        ("local function id() return 1 end", "line 1: `function`"),
        ("wrk.method = os.getenv('M')", "line 1: `os`"),
        ("if true then wrk.method = 'X' end", "line 1: `true`"),
        ("wrk.thread = 1", "`wrk.thread`"),
        ("wrk.method = {}", "wrk.method is a table"),
        ("wrk.path = 'x'", "begins with `/`"),
        ("wrk.body = 'a", "without its end"),
        ("wrk.body = [[a", "without `]]`"),
        ("wrk.body = '\\xff'", "no UTF-8"),
        ("wrk.body = '\\q'", "escape"),
        ("wrk.body = io.open('f'):read('*l')", "in pieces"),
        ("wrk.body = 'a' .. io.open('f'):read('*a')", "the content of a file"),
        ("wrk.body = io.open('f', 'w')", "more than reading"),
        ("wrk.body =", "too early"),
        ("wrk.body = 'a' 'b'", "a string is not understood"),
        ("wrk.body = ((((((((((((((((((((1))))))))))))))))))))", "within each other"),
        ("§", "`§`"),
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains(part), "{text}: {why}");
        assert!(why.contains("PLAN.yaml"), "{why}");
    }
}

#[test]
fn a_path_replaces_the_path_of_the_target() {
    for (target, expected) in [
        ("http://h:1/a?b", "http://h:1/c?d"),
        ("http://h:1", "http://h:1/c?d"),
        ("http://h?x", "http://h/c?d"),
    ] {
        let mut case = Case::new(target);
        read("wrk.path = '/c?d'").expect("understood").apply(&mut case);
        assert_eq!(case.target, expected);
    }
}

#[test]
fn a_script_that_is_not_there_is_named() {
    let error = Script::read(Path::new("/nonexistent/x.lua"), Vec::new()).expect_err("no file");
    assert!(error.to_string().starts_with("/nonexistent/x.lua: "), "{error}");
}
