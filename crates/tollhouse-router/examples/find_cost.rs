//! Repeated route look-ups, for counting instructions: `find_cost <case> <times>`. Cases whose
//! names begin with `change-` publish a changed route among 100,000 instead.
//!
//! Run it under `valgrind --tool=callgrind` with two values of `times`. The difference of the
//! instruction totals divided by the difference of the values is the cost of one look-up, without
//! start-up.

use std::borrow::Cow;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use tollhouse_model::Id;
use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_router::{
    Captures, MatchRequest, Mode, NormalizeOptions, RouteSpec, Router, normalize_path,
};

/// A request with nothing but host, path and method.
struct Bare;

impl Lookup for Bare {
    fn variable(&self, _variable: &Variable) -> Option<Cow<'_, [u8]>> {
        None
    }
}

fn spec(uri: &str, hosts: &[&str]) -> RouteSpec {
    RouteSpec {
        uris: vec![uri.to_owned()],
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        methods: None,
        remote_addrs: Vec::new(),
        vars: None,
        filter: None,
        priority: 0,
    }
}

/// A matcher, and the path and host to look up.
fn case(name: &str) -> (Router<u32>, String, &'static str) {
    let mut router = Router::new(match name {
        "parameter" => Mode::UriWithParameter,
        _ => Mode::HostUri,
    });
    let mut insert = |uri: String, hosts: &[&str]| {
        let number = u32::try_from(router.len()).unwrap_or(u32::MAX);
        router.insert(&Id::new(number.to_string()), spec(&uri, hosts), number);
    };
    let hundred_thousand = 0..100_000;
    let path = match name {
        "one" => {
            insert("/hello".to_owned(), &[]);
            "/hello".to_owned()
        }
        "exact" | "change-exact" => {
            hundred_thousand.for_each(|n| insert(format!("/api/v1/users/{n}"), &[]));
            "/api/v1/users/77777".to_owned()
        }
        "prefix" | "change-prefix" => {
            hundred_thousand.for_each(|n| insert(format!("/api/v1/users/{n}/*"), &[]));
            "/api/v1/users/77777/orders".to_owned()
        }
        "host" => {
            hundred_thousand.for_each(|n| insert(format!("/api/{n}"), &["api.example.com"]));
            "/api/77777".to_owned()
        }
        "wildcard-host" => {
            hundred_thousand.for_each(|n| insert(format!("/api/{n}"), &["*.example.com"]));
            "/api/77777".to_owned()
        }
        "parameter" => {
            insert("/users/:id/orders/:order".to_owned(), &[]);
            "/users/77777/orders/12".to_owned()
        }
        "everything" => {
            insert("/*".to_owned(), &[]);
            "/hello".to_owned()
        }
        _ => "/hello".to_owned(),
    };
    (router, path, "api.example.com")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "one".to_owned());
    let times: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let (mut router, path, host) = case(&name);
    let mut captures = Captures::default();
    let mut out = Vec::new();
    let mut found = 0;
    for _ in 0..times {
        if name == "normalize" {
            let options = NormalizeOptions::default();
            found +=
                u64::from(normalize_path(black_box(path.as_bytes()), &options, &mut out).is_ok());
            continue;
        }
        if name.starts_with("change-") {
            // As for a snapshot: the next version is changed while readers hold this one.
            let mut next = router.clone();
            let number = 77_777;
            let uri = path.replace("/orders", "/*");
            next.insert(&Id::new(number.to_string()), spec(&uri, &[]), number);
            router = next;
            found += 1;
            continue;
        }
        let request = MatchRequest {
            path: black_box(path.as_bytes()),
            host: black_box(host.as_bytes()),
            host_with_port: black_box(host.as_bytes()),
            method: b"GET",
            remote_addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
            variables: &Bare,
        };
        found += u64::from(router.find(&request, &mut captures).is_some());
    }
    println!("{name}: {found} of {times} found");
}
