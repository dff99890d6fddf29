//! Lines of every format, and formats that are refused.

use super::*;
use crate::access_log::Entry;
use crate::codes::ErrorCode;

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

fn entry() -> Entry<'static> {
    Entry {
        unix_ms: 784_111_777_042,
        request_time_ms: 45,
        status: 200,
        remote_addr: b"192.0.2.7",
        remote_port: 4_711,
        scheme: "http",
        method: b"GET",
        request_target: b"/users?id=1",
        protocol: "HTTP/1.1",
        host: b"example.com",
        http_host: b"example.com:9080",
        http_user_agent: b"curl/8.0 \"quoted\"",
        request_length: 120,
        bytes_sent: 2_345,
        body_bytes_sent: 2_048,
        attempts: ATTEMPTS,
        upstream_scheme: "http",
        upstream_host: b"example.com",
        upstream_uri: b"/users?id=1",
        route_id: "7",
        ..Entry::default()
    }
}

fn line(layout: &Layout, entry: &Entry<'_>) -> String {
    let mut line = Vec::new();
    layout.write(entry, &Times::from_unix_seconds(entry.unix_ms / 1_000), &mut line);
    String::from_utf8(line).expect("a line is UTF-8")
}

fn template_line(format: &str, escape: Escape) -> String {
    let layout = Layout::template(format, escape).expect("a good format");
    line(&layout, &entry())
}

#[test]
fn the_combined_format_is_that_of_web_servers() {
    assert_eq!(
        line(&Layout::combined(), &entry()),
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
    let failed = Entry { error_code: Some(ErrorCode::UpstreamReset), status: 502, ..entry() };
    let text = line(&Layout::json(JSON_FIELDS), &failed);
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
fn every_variable_is_valid_json_and_empty_entries_are_too() {
    let layout = Layout::json(Variable::ALL);
    for entry in [entry(), Entry::default()] {
        let text = line(&layout, &entry);
        let object: serde_json::Value = serde_json::from_str(&text).expect("a line is JSON");
        assert_eq!(object.as_object().map(serde_json::Map::len), Some(Variable::ALL.len()));
    }
    assert_eq!(line(&Layout::json(&[]), &entry()), "{}\n");
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
