//! Tests with Spring's own cases, with a matcher that tries everything, and of the anchor of each
//! pattern against matching paths.

use proptest::prelude::*;

use super::*;

#[test]
fn ant_patterns_take_what_spring_says() {
    let cases = [
        // Columns: pattern, path, match.
        ("test", "test", true),
        ("/test", "/test", true),
        ("/test", "test", false),
        ("test", "/test", false),
        ("/test", "/test/", false),
        ("/test/", "/test", false),
        ("t?st", "test", true),
        ("tes?", "tes", false),
        ("*", "test", true),
        ("test*", "test", true),
        ("test*", "test/t", false),
        ("*test*", "AnothertestTest", true),
        ("*.*", "test", false),
        ("*.*", "test.", true),
        ("test*aaa", "testblaaaa", true),
        ("test*aaa", "testblaaab", false),
        ("/?a", "/aa", true),
        ("/?/a", "/a/a", true),
        ("/**", "/testing/testing", true),
        ("/*/**", "/testing/testing", true),
        ("/**/*", "/testing/testing", true),
        ("/bla/**/bla", "/bla/testing/testing/bla", true),
        ("/bla/**/bla", "/bla/testing/testing/bla/bla", true),
        ("/**/test", "/bla/bla/test", true),
        ("/bla/**/**/bla", "/bla/bla/bla/bla/bla/bla", true),
        ("/bla*bla/test", "/blaXXXbl/test", false),
        ("/*bla/test", "xbl/test", false),
        ("/*bla*/**/bla/**", "/XXXblaXXXX/testing/testing/bla/testing/testing/", true),
        ("/*bla*/**/bla/*", "/XXXblaXXXX/testing/testing/bla/testing", true),
        ("/*bla*/**/bla/**", "/XXXblaXXXX/testing/testing/bla/testing/testing.jpg", true),
        ("/x/x/**/bla", "/x/x/x/", false),
        ("/foo/bar/**", "/foo/bar", true),
        ("/foo/*", "/foo/", true),
        ("/foo/*", "/foo", false),
        ("/{bla}.*", "/testing.html", true),
        ("/{bla}", "//x\ny", true),
        ("/user/{id}", "/user/7", true),
        ("/user/{id}", "/user/7/x", false),
        ("/user/{id:[0-9]{1,3}}", "/user/123", true),
        ("/user/{id:[0-9]{1,3}}", "/user/1234", false),
        ("/user/{id:a|b}c", "/user/bc", true),
        ("/a//b", "/a/b", true),
        ("/a/b", "/a//b", true),
        ("/Test", "/test", false),
        ("/**/foo/", "/x/foo", false),
        ("/**/foo/", "/x/foo/", true),
        ("", "", true),
        ("/a{", "/a{", true),
        ("/über/*", "/über/ü", true),
    ];
    for (pattern, path, taken) in cases {
        let compiled = AntPattern::compile(pattern).unwrap();
        assert_eq!(compiled.matches(path), taken, "{pattern} {path}");
    }
}

#[test]
fn ant_patterns_that_cannot_be_compiled_are_refused() {
    for pattern in ["/{a:(}", "/{a:(?=x)}", "/{a:a)(b}", &"/x".repeat(PATTERN_BYTES_MAX)] {
        assert!(AntPattern::compile(pattern).is_err());
    }
}

#[test]
fn a_run_of_stars_costs_no_more_than_the_product_of_lengths() {
    let pattern = AntPattern::compile(&format!("/{}b/{}b", "a*".repeat(200), "**/a/".repeat(200)));
    let path = format!("/{}c{}", "a".repeat(2000), "/a".repeat(2000));
    assert!(!pattern.unwrap().matches(&path));
}

/// Reference matcher: tries every way to apply the pattern to the path.
fn naive(pattern: &str, path: &str) -> bool {
    fn segment(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| segment(rest, &text[at..])),
            ([b'?', rest @ ..], [_, text @ ..]) => segment(rest, text),
            ([a, rest @ ..], [b, text @ ..]) => a == b && segment(rest, text),
            ([], _) | (_, []) => false,
        }
    }
    fn all(tokens: &[&str], segments: &[&str]) -> bool {
        match (tokens, segments) {
            ([], []) => true,
            (["**", rest @ ..], _) => (0..=segments.len()).any(|at| all(rest, &segments[at..])),
            ([token, rest @ ..], [first, segments @ ..]) => {
                segment(token.as_bytes(), first.as_bytes()) && all(rest, segments)
            }
            ([], _) | (_, []) => false,
        }
    }
    let tokens: Vec<&str> = segments(pattern).collect();
    let parts: Vec<&str> = segments(path).collect();
    if pattern.starts_with('/') != path.starts_with('/') {
        return false;
    }
    let slash_counts = tokens.last().is_some_and(|token| *token != "**") || tokens.is_empty();
    let slash_agrees = !slash_counts || pattern.ends_with('/') == path.ends_with('/');
    // `/a/*` matches `/a/`, where the star matches the empty last segment.
    let star_at_end = tokens.last() == Some(&"*")
        && path.ends_with('/')
        && !tokens.contains(&"**")
        && all(&tokens[..tokens.len() - 1], &parts);
    (all(&tokens, &parts) && slash_agrees) || star_at_end
}

fn pattern_text() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec!["a", "b", "ab", "*", "**", "a*", "?b", "*b", "?", ""]);
    prop::collection::vec(token, 0..6).prop_map(|tokens| format!("/{}", tokens.join("/")))
}

fn path_text() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec!["a", "b", "ab", "ba", "abb", ""]);
    prop::collection::vec(segment, 0..6).prop_map(|segments| format!("/{}", segments.join("/")))
}

proptest! {
    #[test]
    fn compiled_and_naive_ant_agree(pattern in pattern_text(), path in path_text()) {
        let compiled = AntPattern::compile(&pattern).unwrap();
        prop_assert_eq!(compiled.matches(&path), naive(&pattern, &path), "{} {}", pattern, path);
    }

    #[test]
    fn every_path_taken_begins_with_the_anchor(pattern in pattern_text(), path in path_text()) {
        let compiled = AntPattern::compile(&pattern).unwrap();
        let path = crate::matching::collapse_slashes(&path);
        if compiled.matches(&path) {
            match compiled.anchor() {
                Some(Anchor::Exact(text)) => prop_assert_eq!(text, path),
                Some(Anchor::Prefix(text)) => prop_assert!(path.starts_with(&text), "{} {}", pattern, path),
                None => {}
            }
        }
    }
}
