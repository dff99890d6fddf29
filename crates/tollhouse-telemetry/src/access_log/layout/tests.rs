//! Tests of lines in every format, and of formats that are refused.

use super::*;
use crate::access_log::ListedValues;

const ATTEMPTS: &[Attempt<'static>] = &[
    Attempt {
        addr: b"10.0.0.1:80",
        status: 0,
        connect_time_ms: None,
        header_time_ms: None,
        response_time_ms: Some(12),
    },
    Attempt {
        addr: b"10.0.0.2:80",
        status: 200,
        connect_time_ms: Some(1),
        header_time_ms: Some(3),
        response_time_ms: Some(5),
    },
];

fn values() -> Vec<(Variable, Value<'static>)> {
    let target = b"/users?id=1";
    let (method, protocol) = (b"GET", "HTTP/1.1");
    let mut values = vec![
        (Variable::RequestTime, Value::Seconds(45)),
        (Variable::Status, Value::from_number(200)),
        (Variable::RemoteAddr, Value::Own(b"192.0.2.7")),
        (Variable::RemotePort, Value::from_number(4_711)),
        (Variable::ServerPort, Value::from_number(0)),
        (Variable::Request, Value::Request { method, target, protocol }),
        (Variable::RequestMethod, Value::Text(method)),
        (Variable::RequestUri, Value::request_uri(target)),
        (Variable::Uri, Value::path(target)),
        (Variable::Args, Value::query(target)),
        (Variable::QueryString, Value::query(target)),
        (Variable::ServerProtocol, Value::Own(protocol.as_bytes())),
        (Variable::Host, Value::Text(b"example.com")),
        (Variable::HttpHost, Value::Text(b"example.com:9080")),
        (Variable::HttpUserAgent, Value::Text(b"curl/8.0 \"quoted\"")),
        (Variable::BodyBytesSent, Value::Number(2_048)),
        (Variable::UpstreamScheme, Value::Own(b"http")),
        (Variable::UpstreamHost, Value::Text(b"example.com")),
        (Variable::UpstreamUri, Value::Text(target)),
        (Variable::RouteId, Value::Text(b"7")),
    ];
    let of_attempts = Variable::OF_ATTEMPTS.iter();
    values.extend(of_attempts.map(|it| (*it, Value::from_attempts(*it, ATTEMPTS))));
    values
}

fn line(layout: &Layout, values: &[(Variable, Value<'_>)]) -> String {
    let source = ListedValues { unix_ms: 784_111_777_042, values };
    let mut line = Vec::new();
    layout.write(&source, &Times::from_unix_seconds(source.unix_ms / 1_000), &mut line);
    String::from_utf8(line).expect("a line is UTF-8")
}

fn template_line(format: &str, escape: Escape) -> String {
    let layout = Layout::template(format, escape).expect("a good format");
    line(&layout, &values())
}

#[test]
fn the_combined_format_is_that_of_web_servers() {
    assert_eq!(
        line(&Layout::combined(), &values()),
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /users?id=1 HTTP/1.1\" 200 2048 \"-\" \
         \"curl/8.0 \\x22quoted\\x22\"\n"
    );
}

#[test]
fn the_default_format_of_apisix_is_understood() {
    let format = "$remote_addr - $remote_user [$time_local] $http_host \"$request\" $status \
                  $body_bytes_sent $request_time \"$http_referer\" \"$http_user_agent\" \
                  $upstream_addr $upstream_status $upstream_response_time \
                  \"$upstream_scheme://$upstream_host$upstream_uri\"";
    assert_eq!(
        template_line(format, Escape::Default),
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] example.com:9080 \
         \"GET /users?id=1 HTTP/1.1\" 200 2048 0.045 \"-\" \"curl/8.0 \\x22quoted\\x22\" \
         10.0.0.1:80, 10.0.0.2:80 -, 200 0.012, 0.005 \"http://example.com/users?id=1\"\n"
    );
}

#[test]
fn format_strings_are_written_out() {
    let table = [
        ("", "\n"),
        ("no variable", "no variable\n"),
        ("${status}ms $uri?$args $query_string", "200ms /users?id=1 id=1\n"),
        ("$remote_addr:$remote_port", "192.0.2.7:4711\n"),
        ("$msec $time_iso8601", "784111777.042 1994-11-06T08:49:37+00:00\n"),
        ("$upstream_connect_time|$upstream_header_time", "-, 0.001|-, 0.003\n"),
        ("$server_port$error_code$request_id", "---\n"),
        ("$route_id$service_id", "7-\n"),
        ("\u{20ac}$status", "\u{20ac}200\n"),
    ];
    for (format, expected) in table {
        assert_eq!(template_line(format, Escape::Default), expected, "{format}");
    }
}

#[test]
fn json_escape_in_a_format_string_shows_nothing_as_nothing() {
    assert_eq!(
        template_line("{\"a\":\"$http_user_agent\",\"r\":\"$http_referer\"}", Escape::Json),
        "{\"a\":\"curl/8.0 \\\"quoted\\\"\",\"r\":\"\"}\n"
    );
}

#[test]
fn a_json_line_is_one_object_with_typed_values() {
    let failed = [
        (Variable::Status, Value::from_number(502)),
        (Variable::ErrorCode, Value::Own(b"upstream_reset")),
    ];
    let text = line(&Layout::json(JSON_FIELDS), &[&failed[..], &values()].concat());
    assert!(text.ends_with("}\n"));
    let object: serde_json::Value = serde_json::from_str(&text).expect("a line is JSON");
    assert_eq!(object["status"], 502);
    assert_eq!(object["request_time"], 0.045);
    assert_eq!(object["error_code"], "upstream_reset");
    assert_eq!(object["http_user_agent"], "curl/8.0 \"quoted\"");
    assert_eq!(object["upstream_status"], "-, 200");
    assert_eq!(object["http_referer"], serde_json::Value::Null);
    assert_eq!(object.as_object().map(serde_json::Map::len), Some(JSON_FIELDS.len()));
}

#[test]
fn every_variable_is_valid_json_and_so_are_absent_values() {
    let layout = Layout::json(Variable::ALL);
    for values in [values(), vec![]] {
        let text = line(&layout, &values);
        let object: serde_json::Value = serde_json::from_str(&text).expect("a line is JSON");
        assert_eq!(object.as_object().map(serde_json::Map::len), Some(Variable::ALL.len()));
    }
    assert_eq!(line(&Layout::json(&[]), &values()), "{}\n");
}

#[test]
fn the_names_of_formats_are_known() {
    assert_eq!(Layout::parse("off", Escape::Default), Ok(None));
    assert_eq!(Layout::parse("combined", Escape::Default), Ok(Some(Layout::combined())));
    assert_eq!(Layout::parse("json", Escape::Default), Ok(Some(Layout::json(JSON_FIELDS))));
}

#[test]
fn bad_formats_are_refused() {
    let unknown =
        |name: &str, suggestion| FormatError::UnknownVariable { name: name.to_owned(), suggestion };
    let table = [
        ("$", FormatError::NoName(0)),
        ("$status $-", FormatError::NoName(8)),
        ("${status", FormatError::NoName(0)),
        ("${}", FormatError::NoName(0)),
        ("$remote_adr", unknown("remote_adr", Some("remote_addr"))),
        ("$cookie_session_of_user", unknown("cookie_session_of_user", None)),
        ("$status\n$uri", FormatError::ControlCharacter(7)),
    ];
    for (format, expected) in table {
        assert_eq!(Layout::template(format, Escape::Default), Err(expected), "{format}");
    }
    let long = "x".repeat(FORMAT_BYTES_MAX + 1);
    assert_eq!(Layout::template(&long, Escape::Default), Err(FormatError::TooLong));
    assert_eq!(
        unknown("remote_adr", Some("remote_addr")).to_string(),
        "unknown variable $remote_adr; did you mean $remote_addr?"
    );
}
