//! What nodes get to see, and which confs are refused.

use tollhouse_plugin::testing::Harness;

use super::*;

fn edits(conf: Value, target: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\nX-Old: 1\n\n");
    let outcome = Harness::new::<ProxyRewrite>(&conf).request(&request);
    assert!(outcome.passes(), "{conf}: {outcome:?}");
    outcome.edits
}

#[test]
fn the_uri_is_replaced_and_the_query_kept() {
    for (uri, target, expected) in [
        ("/new", "/old", "uri /new\n"),
        ("/new", "/old?a=1", "uri /new?a=1\n"),
        ("/new?x=1", "/old", "uri /new?x=1\n"),
        ("/new?x=1", "/old?a=1", "uri /new?x=1&a=1\n"),
        ("/new", "/old?", "uri /new\n"),
        ("/x$uri", "/old", "uri /x/old\n"),
        ("/x/$arg_a", "/old?a=b%20c", "uri /x/b%20c?a=b%20c\n"),
        ("/x/${arg_none}", "/old", "uri /x/\n"),
        ("/$arg_a", "/old?a=b%3Fc", "uri /b%3Fc?a=b%3Fc\n"),
        ("/$arg_a", "/old?a=b%3Fc%3Fd%20e", "uri /b%3Fc%3Fd%20e?a=b%3Fc%3Fd%20e\n"),
        (
            "/a?p=$arg_q",
            "/?q=1%20H%0d%0aB:%3f%23",
            "uri /a?p=1%20H%0D%0AB:%3F%23&q=1%20H%0d%0aB:%3f%23\n",
        ),
        ("/a b", "/old", "uri /a%20b\n"),
        ("/x%2F$arg_a", "/old?a=%25", "uri /x%252F%25?a=%25\n"),
        ("/x?p=$arg_a", "/old?a=1%26b%3D2%2B", "uri /x?p=1%26b%3D2%2B&a=1%26b%3D2%2B\n"),
        ("/x?p=${arg_none ?? a&b}", "/old", "uri /x?p=a%26b\n"),
        ("/x$request_uri", "/old?a=%20", "uri /x/old?a=%20\n"),
        ("/x?$args", "/old?a=1", "uri /x?a=1\n"),
        ("/x?back=$request_uri", "/old?a=1", "uri /x?back=/old%3Fa%3D1\n"),
        ("/same", "/same", ""),
    ] {
        assert_eq!(edits(json!({ "uri": uri }), target), expected, "{uri} for {target}");
    }
}

#[test]
fn the_first_pattern_that_matches_counts() {
    let conf = json!({"regex_uri": ["^/a/(.*)/(.*)", "/$2/$1", "^/a/(.*)", "/b/$1?x=$1"]});
    for (target, expected) in [
        ("/a/1/2", "uri /2/1\n"),
        ("/a/1", "uri /b/1?x=1\n"),
        ("/a/1?q", "uri /b/1?x=1&q\n"),
        ("/c", ""),
    ] {
        assert_eq!(edits(conf.clone(), target), expected, "{target}");
    }
    let conf = json!({"uri": "/u", "regex_uri": ["^/a", "/r"]});
    assert_eq!(edits(conf, "/a"), "uri /u\n", "uri wins");
}

#[test]
fn the_real_uri_is_left_as_sent() {
    let conf = json!({"use_real_request_uri_unsafe": true});
    assert_eq!(edits(conf, "/a%2Fb//c?d=%20"), "");
    let conf = json!({"use_real_request_uri_unsafe": true, "regex_uri": ["^/a(.*)", "/x$1"]});
    assert_eq!(edits(conf, "/a%2Fb?d=1"), "uri /x%2Fb?d=1\n");
    let conf = json!({"use_real_request_uri_unsafe": true, "uri": "/x%2Fy"});
    assert_eq!(edits(conf, "/a?b=1"), "uri /x%2Fy?b=1\n");
    let conf = json!({"use_real_request_uri_unsafe": true, "uri": "/x?c=$arg_b"});
    assert_eq!(edits(conf, "/a?b=1%0a2"), "uri /x?c=1%0A2&b=1%0a2\n");
}

#[test]
fn the_body_is_read_where_a_variable_is_in_it() {
    for conf in [json!({"headers": {"X-A": "$post_arg_a"}}), json!({"uri": "/$post_arg_a"})] {
        let outcome = Harness::new::<ProxyRewrite>(&conf).request("POST / HTTP/1.1\n\na=b");
        assert!(["+X-A: b\n", "uri /b\n"].contains(&outcome.edits.as_str()), "{outcome:?}");
    }
}

#[test]
fn host_and_method_are_replaced() {
    let conf = json!({"host": "a.example:81", "method": "POST"});
    assert_eq!(edits(conf, "/"), "host a.example:81\nmethod POST\n");
    let conf = json!({"headers": {"set": {"host": "$arg_h"}}});
    assert_eq!(edits(conf, "/?h=b"), "host b\n");
}

#[test]
fn headers_are_added_set_and_removed() {
    let conf = json!({"headers": {
        "add": {"X-A": "1"}, "set": {"X-B": "<$arg_b>", "X-N": 7}, "remove": ["X-Old", "X-A"],
    }});
    assert_eq!(edits(conf, "/?b=c"), "+X-B: <c>\n+X-N: 7\n-X-Old\n-X-A\n");
    let conf = json!({"headers": {"X-Old": "", "X-New": "v"}});
    assert_eq!(edits(conf, "/"), "+X-New: v\n-X-Old\n");
    let conf = json!({"headers": {
        "add": {"X-A": ["1", 2, "$arg_none"]}, "set": {"X-Old": ["<$arg_b>", "3"], "X-C": "$arg_none"},
    }});
    assert_eq!(edits(conf, "/?b=c"), "+X-A: 1\n+X-A: 2\n+X-Old: <c>\n+X-Old: 3\n-X-C\n");
}

#[test]
fn values_may_name_groups() {
    let conf = json!({
        "regex_uri": ["^/u/(\\w+)/(\\w+)", "/$1"],
        "headers": {"set": {"X-1": "$1-${2}-$3-$uri", "X-2": "\\$1"}},
    });
    let expected = "+X-1: a-b--/u/a/b\n+X-2: $1\nuri /a\n";
    assert_eq!(edits(conf.clone(), "/u/a/b"), expected);
    assert_eq!(edits(conf, "/v"), "+X-1: ---/v\n+X-2: $1\n", "no groups without a match");
}

#[test]
fn a_pattern_without_end_is_answered_by_500() {
    let conf = json!({"regex_uri": ["(a*)*(?<!c)\\1x", "/"]});
    let request = format!("GET /{} HTTP/1.1\n\n", "a".repeat(64));
    let outcome = Harness::new::<ProxyRewrite>(&conf).request(&request);
    assert_eq!(outcome.status(), 500);
    assert!(outcome.body().starts_with("{\"error_msg\":\"failed to match the uri /aaa"));
}

#[test]
fn bad_confs_are_refused() {
    for (conf, expected) in [
        (json!({"uri": "a"}), "property \"uri\" validation failed: failed to match pattern"),
        (
            json!({"method": "GET1"}),
            "property \"method\" validation failed: matches none of the enum",
        ),
        (json!({"host": "a_b"}), "property \"host\" validation failed: failed to match pattern"),
        (
            json!({"regex_uri": ["^/a"]}),
            "property \"regex_uri\" validation failed: expect array to have at least 2 items",
        ),
        (
            json!({"regex_uri": ["^/a", "/b", "^/c"]}),
            "The length of regex_uri should be an even number",
        ),
        (json!({"regex_uri": ["^/(a", "/b"]}), "invalid regex_uri(^/(a, /b), err:"),
        (json!({"regex_uri": ["^/a", "/$x"]}), "invalid regex_uri(^/a, /$x), err:"),
        (
            json!({"headers": {}}),
            "property \"headers\" validation failed: value should match only one schema, but matches none",
        ),
        (
            json!({"headers": {"remove": []}}),
            "property \"headers\" validation failed: value should match only one schema, but matches none",
        ),
        (
            json!({"headers": {"add": {"X-A": []}}}),
            "property \"headers\" validation failed: value should match only one schema, but matches none",
        ),
        (json!({"headers": {"X:A": "b"}}), "invalid field character in header"),
        (json!({"headers": {"X-A": "b\n"}}), "invalid value character in header"),
        (json!({"headers": {"": "b"}}), "invalid field length in header"),
    ] {
        let refusal = Harness::refusal::<ProxyRewrite>(&conf);
        assert!(refusal.starts_with(expected), "{conf}: {refusal}");
    }
    assert_eq!(Harness::refusal::<ProxyRewrite>(&json!({"uri": "/a", "unknown": 1})), "");
}
