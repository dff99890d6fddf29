//! The order in which host levels are tried.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use tollhouse_model::variable::{Lookup, Variable};

use super::*;

struct Nothing;

impl Lookup for Nothing {
    fn variable(&self, _variable: &Variable) -> Option<Cow<'_, [u8]>> {
        None
    }
}

/// The host patterns, of those in `levels`, that `host` leads to, in order; `-` is no host.
fn walked(levels: &Levels<()>, patterns: &[&str], host: &str) -> Vec<String> {
    let without_port = host.strip_suffix(":8080").unwrap_or(host);
    let request = MatchRequest {
        path: b"/",
        host: without_port.as_bytes(),
        host_with_port: host.as_bytes(),
        method: b"GET",
        remote_addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
        variables: &Nothing,
    };
    let mut names = Vec::new();
    levels.walk(&request, |level| {
        // Numbers are given in the order of insertion, from one on.
        let index = usize::try_from(level.number).ok().and_then(|number| number.checked_sub(1));
        names.push(index.map_or("-", |index| patterns[index]).to_owned());
        None::<()>
    });
    names
}

fn levels_of(patterns: &[&str]) -> Levels<()> {
    let mut levels = Levels::new();
    for pattern in patterns {
        levels.update(Some(pattern), |level| level.exact_paths += 1);
    }
    levels
}

#[test]
fn the_more_specific_host_comes_first() {
    let patterns =
        ["a.com", "*.a.com", "*.com", "*", "a.com:8080", "*.a.com:8080", "*a.com", "x.a.com"];
    let levels = levels_of(&patterns);
    let check = |host: &str, expected: &[&str]| {
        assert_eq!(walked(&levels, &patterns, host), expected, "{host}");
    };
    check("a.com", &["a.com", "*a.com", "*.com", "*", "-"]);
    check("a.com:8080", &["a.com:8080", "a.com", "*a.com", "*.com", "*", "-"]);
    check("x.a.com", &["x.a.com", "*.a.com", "*a.com", "*.com", "*", "-"]);
    check("y.x.a.com:8080", &["*.a.com:8080", "*.a.com", "*a.com", "*.com", "*", "-"]);
    check("xa.com", &["*a.com", "*.com", "*", "-"]);
    check("b.org", &["*", "-"]);
    check("", &["*", "-"]);
}

#[test]
fn a_pattern_without_port_is_not_compared_with_one() {
    let patterns = ["*80", "[::1]", "*::1]"];
    let levels = levels_of(&patterns);
    assert_eq!(walked(&levels, &patterns, "a.com:8080"), ["-"]);
    assert_eq!(walked(&levels, &patterns, "a80"), ["*80", "-"]);
    assert_eq!(walked(&levels, &patterns, "[::1]:8080"), ["[::1]", "*::1]", "-"]);
}

#[test]
fn a_level_goes_with_its_last_route() {
    let patterns = ["a.com", "*.a.com", "*.b.com"];
    let mut levels = levels_of(&patterns);
    let before = levels.clone();
    for pattern in patterns {
        levels.update(Some(pattern), |level| level.exact_paths -= 1);
    }
    assert!(levels.exact.is_empty() && levels.suffixes.is_empty() && levels.lengths.is_empty());
    assert_eq!(walked(&levels, &patterns, "x.a.com"), ["-"]);
    assert_eq!(walked(&before, &patterns, "x.a.com"), ["*.a.com", "-"]);
}
