//! Tests with Spring's own cases, of the anchor of each pattern against matching paths, and of
//! patterns that only Ant's language accepts.

use proptest::prelude::*;

use super::*;

#[test]
fn path_patterns_take_what_spring_says() {
    let cases = [
        // Columns: pattern, path, match.
        ("/a", "/a", true),
        ("/a", "/a/", false),
        ("/a", "//a", false),
        ("/a/", "/a/", true),
        ("/a/b", "/a//b", false),
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/", true),
        ("/a/*", "/a", false),
        ("/a/*/b", "/a//b", false),
        ("/a/{name}", "/a/", false),
        ("/a/*", "/a/b/c", false),
        ("/a/**", "/a", true),
        ("/a/**", "/a/", true),
        ("/a/**", "/a/b/c", true),
        ("/a/**", "/ab", false),
        ("/**", "/", true),
        ("/**", "/a/b", true),
        ("/a/{*rest}", "/a/b/c", true),
        ("/a/{*rest}", "/a", true),
        ("/{name}", "/x", true),
        ("/{name}", "/", false),
        ("/{name}/b", "/x/b", true),
        ("/{id:[0-9]+}", "/12", true),
        ("/{id:[0-9]+}", "/x", false),
        ("/a?c", "/abc", true),
        ("/a?c", "/ac", false),
        ("/*.html", "/index.html", true),
        ("/{a}-{b}", "/x-y", true),
    ];
    for (pattern, path, taken) in cases {
        let compiled = PathPattern::compile(pattern).unwrap();
        assert_eq!(compiled.matches(path), taken, "{pattern} {path}");
    }
}

#[test]
fn nothing_may_follow_the_rest() {
    for pattern in ["/a/**/b", "/**/", "/{*rest}/b"] {
        assert_eq!(PathPattern::compile(pattern).unwrap_err(), PatternError::DataAfterRest);
    }
}

/// Reference matcher: compares segment by segment and counts slashes.
fn naive(pattern: &str, path: &str) -> bool {
    fn all(tokens: &[&str], segments: &[&str]) -> bool {
        match (tokens, segments) {
            ([], []) | (["**"], _) => true,
            (["*"], [_]) => true,
            (["*", tokens @ ..], [first, rest @ ..]) => !first.is_empty() && all(tokens, rest),
            ([token, tokens @ ..], [first, rest @ ..]) => token == first && all(tokens, rest),
            ([], _) | (_, []) => false,
        }
    }
    let tokens: Vec<&str> = pattern.split('/').collect();
    let segments: Vec<&str> = path.split('/').collect();
    all(&tokens, &segments)
}

proptest! {
    #[test]
    fn compiled_and_naive_path_patterns_agree(pattern in "(/(a|b|\\*)?){0,4}(/\\*\\*)?", path in "(/(a|b)?){0,5}") {
        let compiled = PathPattern::compile(&pattern).unwrap();
        prop_assert_eq!(compiled.matches(&path), naive(&pattern, &path), "{} {}", pattern, path);
        if compiled.matches(&path) {
            match compiled.anchor() {
                Some(Anchor::Exact(text)) => prop_assert_eq!(text, path),
                Some(Anchor::Prefix(text)) => prop_assert!(path.starts_with(&text), "{} {}", pattern, path),
                None => {}
            }
        }
    }
}
