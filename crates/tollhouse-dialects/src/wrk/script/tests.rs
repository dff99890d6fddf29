//! Scripts that are understood, and code that is refused with its line and another way.
//! Expectations are one line each: method, path, headers, body.

use super::*;

fn parse(text: &str) -> Result<Script, String> {
    Script::parse(text, vec![("X-From".into(), "command line".into())])
}

/// Method, path, headers and body in one line.
fn described(text: &str) -> String {
    let script = parse(text).unwrap_or_else(|why| panic!("{text}\n{why}"));
    let headers: Vec<String> =
        script.headers.iter().skip(1).map(|(name, value)| format!("{name}={value}")).collect();
    let [method, path, body] =
        [script.method, script.path, script.body].map(Option::unwrap_or_default);
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
        ("#!/usr/bin/env wrk\nwrk.method = 'PUT'", "PUT  [] "),
        ("wrk.path = '/a'; wrk.headers.Host = 'h'", " /a [Host=h] "),
        ("wrk[\"method\"] = 'PUT'", "PUT  [] "),
        ("wrk.body = '{\"a\":\\t\\\"\\\\}'", "  [] {\"a\":\t\"\\}"),
        ("wrk.body = [[\n{\n  \"a\": 1\n}]]", "  [] {\n  \"a\": 1\n}"),
        ("wrk.body = [==[a]]b]==] --[[ two\nlines ]] wrk.method = 'X'", "X  [] a]]b"),
        ("wrk.body = '{\"a\":' ..\n  '1}'", "  [] {\"a\":1}"),
        ("wrk.headers['A'] = '1' wrk.headers['a'] = '2'", "  [a=2] "),
    ] {
        assert_eq!(described(text), expected, "{text}");
    }
}

#[test]
fn code_is_refused_with_its_line_and_another_way() {
    for (text, part) in [
        (
            "wrk.method = 'GET'\nrequest = function()\n  return wrk.format()\nend",
            "line 2: `request`",
        ),
        ("\nfunction response(status) end", "line 2: `function`"),
        ("local n = 0", "line 1: `local`"),
        ("wrk.method = os.getenv('M')", "line 1: `os`"),
        ("wrk.body = io.open('f'):read('*a')", "line 1: `io`"),
        ("wrk.headers = {}", "line 1: `=`"),
        ("wrk.thread = '1'", "`wrk.thread`"),
        ("wrk.headers['A'] = 1", "line 1: `1`"),
        ("wrk.path = 'x'", "begins with `/`"),
        ("wrk.body = 'a", "without its end"),
        ("wrk.body = 'a\\", "without its end"),
        ("wrk.body = [[a", "without `]]`"),
        ("wrk.body = '\\q'", "escape `\\q`"),
        ("wrk.body =", "too early"),
        ("wrk.body = 'a' 'b'", "`'` is not supported"),
        ("§", "`§`"),
    ] {
        let why = parse(text).expect_err(text);
        assert!(why.contains(part), "{text}: {why}");
        assert!(why.contains("no Lua runs") && why.contains("PLAN.yaml"), "{why}");
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
        parse("wrk.path = '/c?d'").expect("understood").apply(&mut case);
        assert_eq!(case.target, expected);
    }
}

#[test]
fn a_script_that_is_not_there_is_named() {
    let error = Script::open(Path::new("/nonexistent/x.lua"), Vec::new()).expect_err("no file");
    assert!(error.to_string().starts_with("/nonexistent/x.lua: "), "{error}");
}
