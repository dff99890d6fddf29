//! The order of choice by table, sharing between versions, and a naive matcher to agree with.

mod naive;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use serde_json::json;
use tollhouse_model::expr::Expr;
use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_model::{MethodSet, Problems};

use super::*;
use crate::{FoundBy, HostLevel, Loss};
use naive::Naive;

/// What a request says of itself, in the words of these tests.
#[derive(Debug, Clone)]
struct Asked {
    host: &'static str,
    port: &'static str,
    path: String,
    method: &'static str,
    address: Ipv4Addr,
    version: Option<&'static str>,
}

impl Asked {
    fn path(path: &str) -> Self {
        Self {
            host: "a.com",
            port: "",
            path: path.to_owned(),
            method: "GET",
            address: Ipv4Addr::LOCALHOST,
            version: None,
        }
    }

    /// Runs `with` on the request that the matcher sees.
    fn request<R>(&self, with: impl FnOnce(&MatchRequest<'_>) -> R) -> R {
        let host_with_port = format!("{}{}", self.host, self.port);
        with(&MatchRequest {
            path: self.path.as_bytes(),
            host: self.host.as_bytes(),
            host_with_port: host_with_port.as_bytes(),
            method: self.method.as_bytes(),
            remote_addr: IpAddr::V4(self.address),
            variables: self,
        })
    }
}

impl Lookup for Asked {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::Arg(name) if name == "version" => {
                self.version.map(|version| Cow::Borrowed(version.as_bytes()))
            }
            _ => None,
        }
    }
}

fn spec(uris: &[&str]) -> RouteSpec {
    RouteSpec {
        uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        hosts: Vec::new(),
        methods: None,
        remote_addrs: Vec::new(),
        vars: None,
        filter: None,
        priority: 0,
    }
}

fn with_hosts(uri: &str, hosts: &[&str]) -> RouteSpec {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    RouteSpec { hosts, ..spec(&[uri]) }
}

fn version_is(version: &str) -> Option<Expr> {
    Expr::parse(&json!([["arg_version", "==", version]]), "vars", &mut Problems::new())
}

/// A matcher with these routes, whose ids are their letters.
fn router(mode: Mode, routes: &[(char, RouteSpec)]) -> Router<char> {
    let mut router = Router::new(mode);
    for (letter, spec) in routes {
        router.insert(&id(*letter), spec.clone(), *letter);
    }
    router
}

fn id(letter: char) -> Id {
    Id::new(letter.to_string())
}

fn find(router: &Router<char>, asked: &Asked) -> Option<char> {
    let mut captures = Captures::default();
    asked.request(|request| router.find(request, &mut captures).map(|found| *found.value))
}

fn check(router: &Router<char>, path: &str, expected: Option<char>) {
    assert_eq!(find(router, &Asked::path(path)), expected, "{path}");
}

#[test]
fn an_exact_path_beats_prefixes_whatever_their_priority() {
    let high = RouteSpec { priority: 100, ..spec(&["/api/*"]) };
    let router = router(Mode::HostUri, &[('p', high), ('e', spec(&["/api/users"]))]);
    check(&router, "/api/users", Some('e'));
    check(&router, "/api/other", Some('p'));
    check(&router, "/", None);
}

#[test]
fn an_exact_path_that_refuses_lets_prefixes_be_tried() {
    let posts = RouteSpec { methods: MethodSet::EMPTY.with("POST"), ..spec(&["/api/users"]) };
    let router = router(Mode::HostUri, &[('e', posts), ('p', spec(&["/api/*"]))]);
    check(&router, "/api/users", Some('p'));
    let post = Asked { method: "POST", ..Asked::path("/api/users") };
    assert_eq!(find(&router, &post), Some('e'));
}

#[test]
fn the_longest_prefix_wins_whatever_the_priority() {
    let high = RouteSpec { priority: 100, ..spec(&["/api/*"]) };
    let router = router(Mode::HostUri, &[('s', high), ('l', spec(&["/api/v1/*"]))]);
    check(&router, "/api/v1/x", Some('l'));
    check(&router, "/api/v1", Some('s'));
}

#[test]
fn routes_of_one_key_go_by_priority_then_length_then_age() {
    let high = RouteSpec { priority: 1, ..spec(&["/api/*"]) };
    let router = router(
        Mode::HostUri,
        &[
            ('a', spec(&["/api/*"])),
            ('b', spec(&["/api/*"])),
            ('l', spec(&["/api/*/end"])),
            ('h', RouteSpec { vars: version_is("2"), ..high }),
        ],
    );
    check(&router, "/api/x", Some('a'));
    check(&router, "/api/x/end", Some('l'));
    let asked = Asked { version: Some("2"), ..Asked::path("/api/x/end") };
    assert_eq!(find(&router, &asked), Some('h'));
}

#[test]
fn a_replaced_route_keeps_its_place() {
    let routes = [('a', spec(&["/x"])), ('b', spec(&["/x"]))];
    let mut router = router(Mode::HostUri, &routes);
    router.insert(&id('a'), spec(&["/y", "/x"]), 'A');
    check(&router, "/x", Some('A'));
    check(&router, "/y", Some('A'));
    assert!(router.remove(&id('a')));
    assert!(!router.remove(&id('a')));
    router.insert(&id('a'), spec(&["/x"]), 'a');
    check(&router, "/x", Some('b'));
    check(&router, "/y", None);
    assert_eq!((router.len(), router.get(&id('a'))), (2, Some(&'a')));
}

#[test]
fn host_levels_fall_through_when_nothing_in_them_matches() {
    let router = router(
        Mode::HostUri,
        &[
            ('n', spec(&["/*"])),
            ('w', with_hosts("/w/*", &["*.com"])),
            ('e', with_hosts("/e", &["a.com", "b.com"])),
            ('p', with_hosts("/e", &["a.com:8080"])),
        ],
    );
    check(&router, "/e", Some('e'));
    check(&router, "/w/x", Some('w'));
    check(&router, "/other", Some('n'));
    let asked = Asked { port: ":8080", ..Asked::path("/e") };
    assert_eq!(find(&router, &asked), Some('p'));
    let asked = Asked { port: ":81", ..Asked::path("/e") };
    assert_eq!(find(&router, &asked), Some('e'));
    let asked = Asked { host: "c.org", ..Asked::path("/e") };
    assert_eq!(find(&router, &asked), Some('n'));
}

#[test]
fn a_prefix_of_the_host_beats_an_exact_path_of_no_host() {
    let routes = [('n', spec(&["/x"])), ('h', with_hosts("/*", &["a.com"]))];
    check(&router(Mode::HostUri, &routes), "/x", Some('h'));
    check(&router(Mode::Uri, &routes), "/x", Some('n'));
}

#[test]
fn in_the_uri_modes_the_host_is_a_condition() {
    let routes = [('b', with_hosts("/x", &["b.com", "*.b.com"])), ('n', spec(&["/x"]))];
    let router = router(Mode::Uri, &routes);
    check(&router, "/x", Some('n'));
    let asked = Asked { host: "y.x.b.com", ..Asked::path("/x") };
    assert_eq!(find(&router, &asked), Some('b'));
}

#[test]
fn what_matched_is_told() {
    let mut router = Router::new(Mode::HostUri);
    router.insert(&id('a'), with_hosts("/a/*rest", &["x.org", "*.com"]), 'a');
    let asked = Asked::path("/a/b/c");
    let mut captures = Captures::default();
    asked.request(|request| {
        let found = router.find(request, &mut captures).expect("a route");
        assert_eq!((found.uri(), found.host(request)), ("/a/*rest", Some("*.com")));
    });
    assert_eq!(captures.get("rest", b"/a/b/c"), Some(&b"b/c"[..]));
    assert_eq!(captures.get("other", b"/a/b/c"), None);
    captures.clear();
    assert_eq!(captures.get("rest", b"/a/b/c"), None);
}

#[test]
fn captures_do_not_outlive_the_next_find() {
    let routes = [('p', spec(&["/:id/x"])), ('e', spec(&["/exact"]))];
    let router = router(Mode::UriWithParameter, &routes);
    let mut captures = Captures::default();
    Asked::path("/7/x").request(|request| router.find(request, &mut captures).is_some());
    assert_eq!(captures.get("id", b"/7/x"), Some(&b"7"[..]));
    Asked::path("/exact").request(|request| router.find(request, &mut captures).is_some());
    assert_eq!(captures.get("id", b"/exact"), None);
}

#[test]
fn explain_tells_why_each_candidate_lost() {
    let router = router(
        Mode::HostUri,
        &[
            ('v', RouteSpec { vars: version_is("2"), ..with_hosts("/a/b", &["a.com"]) }),
            ('m', RouteSpec { methods: MethodSet::EMPTY.with("PUT"), ..spec(&["/a/b"]) }),
            (
                'r',
                RouteSpec {
                    remote_addrs: vec!["10.0.0.0/8".parse().unwrap()],
                    ..with_hosts("/a/*", &["*.com"])
                },
            ),
            ('p', spec(&["/a/*/z"])),
            ('w', spec(&["/a*"])),
            ('l', spec(&["/*"])),
        ],
    );
    let asked = Asked::path("/a/b");
    let verdicts = asked.request(|request| router.explain(request));
    let told: Vec<_> = verdicts
        .iter()
        .map(|verdict| (verdict.id.as_str(), verdict.level, verdict.found_by, verdict.loss))
        .collect();
    assert_eq!(
        told,
        [
            ("v", HostLevel::Exact, FoundBy::ExactPath, Some(Loss::Vars)),
            ("r", HostLevel::Wildcard, FoundBy::Prefix, Some(Loss::RemoteAddr)),
            ("m", HostLevel::Any, FoundBy::ExactPath, Some(Loss::Method)),
            ("p", HostLevel::Any, FoundBy::Prefix, Some(Loss::Path)),
            ("w", HostLevel::Any, FoundBy::Prefix, None),
            ("l", HostLevel::Any, FoundBy::Prefix, Some(Loss::Later)),
        ]
    );
    assert_eq!(verdicts[1].host.as_deref(), Some("*.com"));
    assert_eq!(verdicts[4].uri, "/a*");
}

#[test]
fn a_clone_taken_before_a_change_is_unaffected() {
    let mut router = Router::new(Mode::HostUri);
    for number in 0..10_000_u32 {
        let uri = format!("/{}/{number}", if number % 2 == 0 { "even" } else { "odd*" });
        router.insert(&Id::new(number.to_string()), spec(&[&uri]), 'o');
    }
    let before = router.clone();
    for number in 0..10_000_u32 {
        router.remove(&Id::new(number.to_string()));
    }
    router.insert(&id('n'), with_hosts("/even/0", &["a.com"]), 'n');
    check(&before, "/even/0", Some('o'));
    check(&before, "/odd-one/9999", Some('o'));
    check(&before, "/odd/9998", None);
    assert_eq!((before.len(), router.len()), (10_000, 1));
    check(&router, "/even/0", Some('n'));
    check(&router, "/even/2", None);
}

#[test]
fn hosts_and_uris_given_twice_count_once() {
    let mut router = Router::new(Mode::HostUri);
    let twice = RouteSpec {
        uris: vec!["/x".to_owned(), "/x".to_owned(), "/y*".to_owned(), "/y*".to_owned()],
        ..with_hosts("", &["a.com", "a.com", "*.com", "*.com"])
    };
    router.insert(&id('a'), twice, 'a');
    check(&router, "/x", Some('a'));
    check(&router, "/yz", Some('a'));
    router.remove(&id('a'));
    check(&router, "/x", None);
    check(&router, "/yz", None);
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u8, RouteSpec),
    Remove(u8),
    Branch,
}

fn any_spec() -> impl Strategy<Value = RouteSpec> {
    let uri = "(/(a|b|ab|\\*|\\*n|a\\*|:p|)){1,4}";
    let host = prop::sample::select(vec![
        "a.com", "b.com", "*.a.com", "*.com", "*", "a.com:80", "*.com:80", "*a.com",
    ]);
    let network = prop::sample::select(vec!["10.0.0.0/8", "127.0.0.1/32", "::/0"]);
    let method = prop::sample::select(vec!["GET", "POST"]);
    (
        prop::collection::vec(uri, 1..3),
        prop::collection::vec(host, 0..3),
        prop::option::weighted(0.2, method),
        prop::collection::vec(network, 0..2),
        prop::option::weighted(0.2, prop::sample::select(vec!["1", "2"])),
        0..3_i64,
    )
        .prop_map(|(uris, hosts, method, networks, version, priority)| RouteSpec {
            uris,
            hosts: hosts.into_iter().map(str::to_owned).collect(),
            methods: method.and_then(|method| MethodSet::EMPTY.with(method)),
            remote_addrs: networks.into_iter().map(|text| text.parse().unwrap()).collect(),
            vars: version.and_then(version_is),
            filter: None,
            priority,
        })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..24_u8, any_spec()).prop_map(|(id, spec)| Step::Insert(id, spec)),
        2 => (0..24_u8).prop_map(Step::Remove),
        1 => Just(Step::Branch),
    ]
}

fn any_request() -> impl Strategy<Value = Asked> {
    (
        prop::sample::select(vec!["a.com", "x.a.com", "y.x.a.com", "b.com", "c.org", "xa.com"]),
        prop::sample::select(vec!["", ":80", ":81"]),
        "(/(a|b|ab|aab|)){1,4}",
        prop::sample::select(vec!["GET", "POST"]),
        prop::sample::select(vec![Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 1, 2, 3)]),
        prop::option::of(prop::sample::select(vec!["1", "2"])),
    )
        .prop_map(|(host, port, path, method, address, version)| Asked {
            host,
            port,
            path,
            method,
            address,
            version,
        })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn every_version_chooses_what_a_naive_matcher_chooses(
        mode in prop::sample::select(vec![Mode::HostUri, Mode::Uri, Mode::UriWithParameter]),
        steps in prop::collection::vec(any_step(), 1..60),
        requests in prop::collection::vec(any_request(), 16),
    ) {
        let mut router = Router::new(mode);
        let mut naive = Naive::new(mode);
        let mut versions = Vec::new();
        for step in steps {
            match step {
                Step::Insert(number, spec) => {
                    router.insert(&Id::new(number.to_string()), spec.clone(), number);
                    naive.insert(number, spec);
                }
                Step::Remove(number) => {
                    let removed = router.remove(&Id::new(number.to_string()));
                    prop_assert_eq!(removed, naive.remove(number));
                }
                Step::Branch => versions.push((router.clone(), naive.clone())),
            }
        }
        versions.push((router, naive));
        let mut captures = Captures::default();
        for (router, naive) in &versions {
            prop_assert_eq!(router.len(), naive.len());
            for asked in &requests {
                asked.request(|request| {
                    let expected = naive.find(request);
                    let found = router.find(request, &mut captures);
                    let found = found.map(|found| (*found.value, found.uri()));
                    prop_assert_eq!(found, expected, "{:?}", asked);
                    let verdicts = router.explain(request);
                    let tried: Vec<_> = verdicts
                        .iter()
                        .map(|verdict| (verdict.id.to_string(), verdict.uri.as_str()))
                        .collect();
                    prop_assert_eq!(tried, naive.candidates(request), "{:?}", asked);
                    let winner = verdicts.iter().find(|verdict| verdict.loss.is_none());
                    let winner = winner.map(|verdict| verdict.id.to_string());
                    prop_assert_eq!(winner, expected.map(|(number, _)| number.to_string()));
                    Ok(())
                })?;
            }
        }
    }
}
