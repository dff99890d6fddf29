//! Paths before and after, by table and by property.

use proptest::prelude::*;

use super::*;

fn normalized(path: &[u8], options: NormalizeOptions) -> Result<Vec<u8>, BadPath> {
    let mut out = b"left over".to_vec();
    normalize_path(path, &options, &mut out).map(|normalized| match normalized {
        Normalized::Borrowed => path.to_vec(),
        Normalized::InOut => out,
    })
}

fn check(path: &str, options: NormalizeOptions, expected: Result<&str, BadPath>) {
    let found = normalized(path.as_bytes(), options);
    let found = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(found.as_deref().map_err(|bad| *bad), expected, "{path}");
}

#[test]
fn paths_are_normalised_or_refused() {
    for (path, expected) in [
        ("/", Ok("/")),
        ("/a/b", Ok("/a/b")),
        ("/a/b/", Ok("/a/b/")),
        ("/a.b/c..d", Ok("/a.b/c..d")),
        ("/.well-known/x", Ok("/.well-known/x")),
        ("/...", Ok("/...")),
        ("/a%20b", Ok("/a b")),
        ("/a+b", Ok("/a+b")),
        ("/%61%C3%a9", Ok("/aé")),
        ("/a%2Fb", Ok("/a/b")),
        ("/a%2f%2Fb", Ok("/a/b")),
        ("/a%3Fb%23", Ok("/a?b#")),
        ("/a%2541", Ok("/a%41")),
        ("//a///b//", Ok("/a/b/")),
        ("//", Ok("/")),
        ("/./a/./b/.", Ok("/a/b/")),
        ("/a/..", Ok("/")),
        ("/a/../b/", Ok("/b/")),
        ("/a/b/../..", Ok("/")),
        ("/a/b/%2e%2E/c", Ok("/a/c")),
        ("/a%2f..%2fb", Ok("/b")),
        ("/a//../b", Ok("/b")),
        ("/a;b/c", Ok("/a;b/c")),
        ("/..", Err(BadPath::AboveRoot)),
        ("/%2e%2e/a", Err(BadPath::AboveRoot)),
        ("/a/../..", Err(BadPath::AboveRoot)),
        ("/a%2", Err(BadPath::Escape)),
        ("/a%", Err(BadPath::Escape)),
        ("/a%zz", Err(BadPath::Escape)),
        ("/a%00b", Err(BadPath::Nul)),
        ("/a\0b", Err(BadPath::Nul)),
        ("", Err(BadPath::NotAbsolute)),
        ("*", Err(BadPath::NotAbsolute)),
        ("a/b", Err(BadPath::NotAbsolute)),
        ("%2Fa", Err(BadPath::NotAbsolute)),
    ] {
        check(path, NormalizeOptions::default(), expected);
    }
}

#[test]
fn an_encoded_slash_stays_escaped_in_one_spelling() {
    let options = NormalizeOptions { encoded_slash: true, ..Default::default() };
    check("/a%2Fb%20", options, Ok("/a%2Fb "));
    check("/a%2f/../b", options, Ok("/b"));
    check("/..%2f", options, Ok("/..%2F"));
}

fn check_escaped(path: &str, options: NormalizeOptions, expected: Result<&str, BadPath>) {
    let found = escaped_path(path.as_bytes(), &options);
    let found = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(found.as_deref().map_err(|bad| *bad), expected, "{path}");
}

#[test]
fn an_escaped_path_has_one_spelling() {
    for (path, expected) in [
        ("/", Ok("/")),
        ("/a/b.c/", Ok("/a/b.c/")),
        ("/%61%2d%2E%5f%7e", Ok("/a-._~")),
        ("/a%20b%c3%a9", Ok("/a%20b%C3%A9")),
        ("/a%3fb%23%25", Ok("/a%3Fb%23%25")),
        ("/a%3bb;c%21!%3a:", Ok("/a%3Bb;c%21!%3A:")),
        ("/a%2541", Ok("/a%2541")),
        ("/a\"<>\\^`{|}[]b", Ok("/a%22%3C%3E%5C%5E%60%7B%7C%7D[]b")),
        ("//a///b//", Ok("/a/b/")),
        ("/a/./%2e%2E/b", Ok("/b")),
        ("/a%2fb", Ok("/a/b")),
        ("/a/%2e%2e;/b", Ok("/a/..;/b")),
        ("/%2e%2e", Err(BadPath::AboveRoot)),
        ("/a%zz", Err(BadPath::Escape)),
        ("/a%00", Err(BadPath::Nul)),
    ] {
        check_escaped(path, NormalizeOptions::default(), expected);
    }
    let slashes = NormalizeOptions { encoded_slash: true, ..Default::default() };
    check_escaped("/a%2fb%2F/%61", slashes, Ok("/a%2Fb%2F/a"));
    let servlet = NormalizeOptions { servlet_params: true, ..Default::default() };
    check_escaped("/%61;x/b%20;y", servlet, Ok("/a/b%20"));
    let plain = escaped_path(b"/a/b;c", &NormalizeOptions::default());
    assert!(matches!(plain, Ok(Cow::Borrowed(_))), "{plain:?}");
}

#[test]
fn one_trailing_slash_is_cut_off() {
    let options = NormalizeOptions { delete_tail_slash: true, ..Default::default() };
    check("/a/", options, Ok("/a"));
    check("/", options, Ok("/"));
    check("/a", options, Ok("/a"));
    check("/a//", options, Ok("/a"));
    check("/a/..", options, Ok("/"));
}

#[test]
fn parameters_are_cut_off_like_a_servlet_does() {
    let options = NormalizeOptions { servlet_params: true, ..Default::default() };
    for (path, expected) in [
        ("/a;x=1/b;y", Ok("/a/b")),
        ("/a%3Bx/b", Ok("/a/b")),
        ("/a/;x", Ok("/a/")),
        ("/;x", Ok("/")),
        ("/a%20/b", Ok("/a /b")),
        ("/a/%2e%2e/b", Ok("/b")),
        ("/a%2541;x", Ok("/a%41")),
        ("/a/..;/b", Err(BadPath::HiddenSegment)),
        ("/a/.;x/b", Err(BadPath::HiddenSegment)),
        ("/a/%2e%2e;/b", Err(BadPath::HiddenSegment)),
        ("/a/%252e%252E;/b", Err(BadPath::HiddenSegment)),
        ("/a/.%252e;", Err(BadPath::HiddenSegment)),
        ("/a/x%252fy;z", Err(BadPath::HiddenSegment)),
        ("/a/x%255Cy;z", Err(BadPath::HiddenSegment)),
        ("/a/;x/b", Err(BadPath::HiddenSegment)),
    ] {
        check(path, options, expected);
    }
}

#[test]
fn a_path_in_order_is_left_where_it_is() {
    let mut out = Vec::new();
    let options = NormalizeOptions { servlet_params: true, ..Default::default() };
    for path in ["/", "/a/b.c/", "/a-long-path/of/several/segments/x.y/index.html"] {
        let found = normalize_path(path.as_bytes(), &options, &mut out);
        assert_eq!(found, Ok(Normalized::Borrowed), "{path}");
    }
    assert!(out.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn what_was_normalised_is_normal(
        path in "/([ab./;]|%2[eEfF]|%6[12]|%25){0,24}",
        delete_tail_slash: bool,
    ) {
        let options = NormalizeOptions { delete_tail_slash, ..Default::default() };
        if let Ok(once) = normalized(path.as_bytes(), options) {
            prop_assert!(once.starts_with(b"/"));
            prop_assert!(!once.windows(2).any(|pair| pair == b"//"));
            let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
            prop_assert!(!once.split(|&byte| byte == b'/').any(is_dots));
            // A decoded percent sign may begin another escape; all else is settled.
            if !once.contains(&b'%') {
                prop_assert_eq!(normalized(&once, options), Ok(once));
            }
        }
    }

    #[test]
    fn an_escaped_path_is_the_normalised_one_decoded_once(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        path in "/([ab./;\\\\ ]|%2[eEfF05]|%6[12]|%3[bB]|%5c){0,24}",
        encoded_slash: bool,
    ) {
        let options = NormalizeOptions { encoded_slash, ..Default::default() };
        for path in [path.into_bytes(), [b"/", &*bytes].concat()] {
            let escaped = escaped_path(&path, &options).map(Cow::into_owned);
            prop_assert_eq!(escaped.is_ok(), normalized(&path, options).is_ok());
            if let Ok(escaped) = escaped {
                prop_assert_eq!(normalized(&escaped, options), normalized(&path, options));
                prop_assert_eq!(escaped_path(&escaped, &options), Ok(Cow::Borrowed(&*escaped)));
            }
        }
    }

    #[test]
    fn any_bytes_are_normalised_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        servlet_params: bool,
        encoded_slash: bool,
        delete_tail_slash: bool,
    ) {
        let options = NormalizeOptions { servlet_params, encoded_slash, delete_tail_slash };
        let _ = normalized(&bytes, options);
        let _ = normalized(&[b"/", &*bytes].concat(), options);
    }
}
