//! Spellings that are read in one way, and those that are not.

use super::*;

fn check(options: NormalizeOptions, cases: &[(&str, bool)]) {
    for (path, expected) in cases {
        assert_eq!(is_ambiguous(path.as_bytes(), &options), *expected, "{path} {options:?}");
        assert!(!expected || may_be_ambiguous(path.as_bytes()), "{path}");
    }
}

#[test]
fn spellings_that_servers_read_in_two_ways_are_found() {
    check(
        NormalizeOptions::default(),
        &[
            ("/", false),
            ("/a/b.c", false),
            ("/a//b", false),
            ("/a/../b", false),
            ("/%61/%2e%2e/b", false),
            ("/a%20b%3Fc%25", false),
            ("/a%3Bb", false),
            ("/a%252fb", false),
            ("/a%2fb", true),
            ("/a%2Fb", true),
            ("/a\\b", true),
            ("/a%5cb", true),
            ("/a%5Cb", true),
            ("/a/..;/b", true),
            ("/a/;x/b", true),
            ("/a;x/b", true),
            ("/a/b;x", true),
            ("/a;/../b", true),
        ],
    );
}

#[test]
fn an_escaped_slash_is_data_where_the_operator_says_so() {
    let options = NormalizeOptions { encoded_slash: true, ..Default::default() };
    check(
        options,
        &[
            ("/a%2Fb", false),
            ("/a%2fb/...%2F...%2f.x", false),
            ("/a/../b%2fc", false),
            ("/a%2F..%2Fb", true),
            ("/a/..%2fb", true),
            ("/a%2f../b", true),
            ("/a%2F%2e%2E", true),
            ("/a%2f.", true),
            ("/a%5Cb", true),
            ("/a;b%2F", true),
        ],
    );
}

#[test]
fn parameters_are_read_in_one_way_where_routes_see_none() {
    let options = NormalizeOptions { servlet_params: true, ..Default::default() };
    check(options, &[("/a;x/b;y", false), ("/a%3bx", true), ("/a%3Bx", true), ("/a;x%2fb", true)]);
}
