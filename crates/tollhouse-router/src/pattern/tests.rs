//! Which paths patterns take and what they capture, by table and against regular expressions.

use proptest::prelude::*;

use super::*;
use crate::captures::Captures;

/// What `pattern` captures of `path` by `names`; `None` when it does not match.
fn captured(
    text: &str,
    parameters: Parameters,
    path: &str,
    names: &[&str],
) -> Option<Vec<Option<String>>> {
    let pattern = Pattern::parse(text, parameters);
    let path = path.as_bytes();
    let mut captures = Captures::default();
    let matched = match &pattern.key {
        Key::Exact(exact) => path == &**exact,
        Key::Prefix(prefix) => path.starts_with(prefix),
    } && match &pattern.rest {
        Rest::Nothing => true,
        Rest::Anything(key_bytes) => {
            captures.set_remainder(*key_bytes);
            true
        }
        Rest::Wildcards(wildcards) => captures.set_from(wildcards, path),
    };
    let of = |name: &&str| {
        captures.get(name, path).map(|value| String::from_utf8_lossy(value).into_owned())
    };
    matched.then(|| names.iter().map(of).collect())
}

fn check(text: &str, parameters: Parameters, path: &str, expected: Option<&[(&str, &str)]>) {
    let names: Vec<&str> = expected.unwrap_or_default().iter().map(|(name, _)| *name).collect();
    let values = expected
        .map(|pairs| pairs.iter().map(|(_, value)| Some((*value).to_owned())).collect::<Vec<_>>());
    assert_eq!(captured(text, parameters, path, &names), values, "{text} against {path}");
}

#[test]
fn exact_and_prefix_patterns() {
    use Parameters::Off;
    check("/foo", Off, "/foo", Some(&[]));
    check("/foo", Off, "/foo/", None);
    check("/foo", Off, "/fo", None);
    check("/foo*", Off, "/foo", Some(&[(":ext", "")]));
    check("/foo*", Off, "/foobar", Some(&[(":ext", "bar")]));
    check("/foo*", Off, "/foo/bar", Some(&[(":ext", "/bar")]));
    check("/foo/*", Off, "/foo/", Some(&[(":ext", "")]));
    check("/foo/*", Off, "/foo/a/b", Some(&[(":ext", "a/b")]));
    check("/foo/*", Off, "/foo", None);
    check("/*", Off, "/", Some(&[(":ext", "")]));
    check("/a/*rest", Off, "/a/b/c", Some(&[("rest", "b/c")]));
}

#[test]
fn a_star_in_the_middle_is_greedy_across_slashes() {
    use Parameters::Off;
    check("/a/*/b", Off, "/a/x/b", Some(&[(":ext", "x")]));
    check("/a/*/b", Off, "/a/x/y/b", Some(&[(":ext", "x/y")]));
    check("/a/*/b", Off, "/a//b", Some(&[(":ext", "")]));
    check("/a/*/b", Off, "/a/b", None);
    check("/a/*/b", Off, "/a/x/b/c", None);
    check("/a/*/b*", Off, "/a/x/b/c", Some(&[]));
    check("/a/*name/b", Off, "/a/x/y/b", Some(&[("name", "x/y")]));
    check("/a/*x/b/*y", Off, "/a/1/b/2/b/3", Some(&[("x", "1/b/2"), ("y", "3")]));
    check("/a/*.png", Off, "/a/b/c.png", Some(&[]));
    check("/a/*.png", Off, "/a/b/c.gif", None);
    check("/a.c/*/b", Off, "/abc/x/b", None);
    check("/a/**", Off, "/a/x", Some(&[]));
    check("/a*a", Off, "/a", None);
    check("/a*a", Off, "/aa", Some(&[]));
    check("/a/*/é", Off, "/a/ü/é", Some(&[(":ext", "ü")]));
}

#[test]
fn parameters_take_one_segment_where_they_are_on() {
    use Parameters::{Off, On};
    check("/user/:id", On, "/user/7", Some(&[("id", "7")]));
    check("/user/:id", On, "/user/7/x", None);
    check("/user/:id", On, "/user/", None);
    check("/user/:id", On, "/user", None);
    check("/user/:id/x", On, "/user/7/x", Some(&[("id", "7")]));
    check("/user/:id/x", On, "/user/7/y", None);
    check("/user/:id/*", On, "/user/7/", Some(&[("id", "7"), (":ext", "")]));
    check("/:a/:b/*c", On, "/1/2/3/4", Some(&[("a", "1"), ("b", "2"), ("c", "3/4")]));
    check("/*a/:b", On, "/1/2/3", Some(&[("a", "1/2"), ("b", "3")]));
    check("/*a/:b/*c/d", On, "/1/2/3/4/d", Some(&[("a", "1/2"), ("b", "3"), ("c", "4")]));
    check("/*a/:b", On, "/1/2/", None);
    check("/user/:id", Off, "/user/:id", Some(&[]));
    check("/user/:id", Off, "/user/7", None);
    check("/a:b", On, "/a:b", Some(&[]));
    check("/a:b", On, "/a7", None);
}

#[test]
fn the_text_before_the_first_special_letter_is_the_key() {
    let key = |text: &str, parameters| Pattern::parse(text, parameters).key;
    let prefix = |text: &str| Key::Prefix(text.as_bytes().into());
    assert_eq!(key("/a/b", Parameters::On), Key::Exact(b"/a/b"[..].into()));
    assert_eq!(key("/a/*", Parameters::Off), prefix("/a/"));
    assert_eq!(key("/a*", Parameters::Off), prefix("/a"));
    assert_eq!(key("/a/:id/*", Parameters::On), prefix("/a/"));
    assert_eq!(key("/a/:id/*", Parameters::Off), prefix("/a/:id/"));
    assert_eq!(key("/a:b", Parameters::On), prefix("/a"));
}

/// The same pattern as a regular expression with named groups `c0`, `c1`, … in order.
fn regular_expression(text: &str, parameters: Parameters) -> regex::Regex {
    let mut source = String::from("(?s)\\A");
    let mut count = 0;
    let mut group = |source: &mut String, inner: &str| {
        source.push_str(&format!("(?<c{count}>{inner})"));
        count += 1;
    };
    for (index, segment) in text.split('/').enumerate() {
        if index > 0 {
            source.push('/');
        }
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        };
        if parameters == Parameters::On && segment.starts_with(':') && index > 0 {
            group(&mut source, "[^/]+");
            continue;
        }
        if segment.strip_prefix('*').is_some_and(is_word) && index > 0 {
            group(&mut source, ".*");
            continue;
        }
        for letter in segment.chars() {
            match letter {
                '*' => group(&mut source, ".*"),
                other => source.push_str(&regex::escape(&other.to_string())),
            }
        }
    }
    source.push_str("\\z");
    regex::Regex::new(&source).expect("a valid expression")
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn patterns_take_and_capture_what_greedy_expressions_do(
        text in "(/(a|b|ab|\\*|\\*n|a\\*|\\*b|:p|:q|)){1,5}",
        paths in prop::collection::vec("(/(a|b|ab|aab|)){1,6}", 8),
        parameters in prop_oneof![Just(Parameters::On), Just(Parameters::Off)],
    ) {
        let expression = regular_expression(&text, parameters);
        let pattern = Pattern::parse(&text, parameters);
        for path in &paths {
            let expected = expression.captures(path);
            prop_assert_eq!(
                captured(&text, parameters, path, &[]).is_some(), expected.is_some(),
                "{} against {}", text, path
            );
            let (Rest::Wildcards(wildcards), Some(expected)) = (&pattern.rest, expected) else {
                continue;
            };
            let mut ranges = Vec::new();
            prop_assert!(wildcards.matches(path.as_bytes(), &mut ranges));
            for (index, (start, end)) in ranges.into_iter().enumerate() {
                let found = &path[start as usize..end as usize];
                let group = expected.name(&format!("c{index}")).expect("a group a capture");
                prop_assert_eq!(found, group.as_str(), "capture {} of {}", index, text);
            }
        }
    }
}
