//! Cost of request metrics: of counting one request, and of rendering the page of many routes.
//!
//! `cargo run --release -p tollhouse-telemetry --example page_cost -- [routes] [requests]`. Under
//! `valgrind --tool=callgrind`, the difference of two totals over the difference of two numbers of
//! requests and cores is the cost of one request.

use std::sync::Arc;
use std::time::Instant;

use tollhouse_telemetry::apisix::{
    Hidden, ProcessFacts, ResponseSource, Served, Settings, Traffic, Values,
};
use tollhouse_telemetry::exposition::{Exposition, Format};

/// Number of routes, if no argument is given.
const ROUTES: usize = 10_000;
/// Number of cores whose counters are summed.
const CORES: usize = 2;
/// Requests counted by each core, to determine the cost of one.
const REQUESTS: usize = 5_000_000;

fn main() {
    let argument = |place: usize| std::env::args().nth(place)?.parse().ok();
    let routes: usize = argument(1).unwrap_or(ROUTES);
    let requests: usize = argument(2).unwrap_or(REQUESTS);
    let names: Arc<Vec<String>> =
        Arc::new((0..routes).map(|index| format!("route-{index}")).collect());
    let traffic = Arc::new(Traffic::new(Settings::default()));
    let cores: Vec<_> = (0..CORES)
        .map(|_| {
            let (traffic, names) = (Arc::clone(&traffic), Arc::clone(&names));
            std::thread::spawn(move || count(&traffic, &names, requests))
        })
        .collect();
    cores.into_iter().for_each(|core| core.join().expect("a core counts and ends"));
    for scrape in ["first page", "next page", "next page"] {
        read(scrape, &traffic, routes);
    }
    println!("counted under `other`: {}", traffic.folded());
}

/// Reads the page as a scrape does, piece by piece.
fn read(scrape: &str, traffic: &Arc<Traffic>, routes: usize) {
    let before = Instant::now();
    let (mut bytes, mut pieces, mut longest_ms) = (0, 0, 0.0_f64);
    let mut page = traffic.page(&ProcessFacts::default(), 1_000);
    let mut text = Exposition::new(Format::Text);
    loop {
        let started = Instant::now();
        let has_more = page.write(&mut text);
        longest_ms = longest_ms.max(started.elapsed().as_secs_f64() * 1_000.0);
        bytes += text.take().len();
        pieces += 1;
        if !has_more {
            break;
        }
    }
    let page_ms = before.elapsed().as_secs_f64() * 1_000.0;
    println!(
        "{scrape} of {routes} routes: {page_ms:.1} ms, {bytes} bytes in {pieces} pieces, \
         the longest {longest_ms:.2} ms"
    );
}

/// Counts requests of every route, then many of a few, as a core does.
fn count(traffic: &Arc<Traffic>, names: &[String], requests: usize) {
    let hidden = Hidden::default();
    let before = Instant::now();
    names.iter().for_each(|name| traffic.count(&hidden, &served(name, 0)));
    let met_us = before.elapsed().as_secs_f64() * 1e6 / names.len() as f64;
    let before = Instant::now();
    for index in 0..requests {
        traffic.count(&hidden, &served(&names[index % names.len().min(100)], index));
    }
    let counted_ns = before.elapsed().as_secs_f64() * 1e9 / requests.max(1) as f64;
    println!("a new label set takes {met_us:.1} us, a request {counted_ns:.0} ns");
}

fn served(route: &str, index: usize) -> Served<'_> {
    let latency_ms = (index % 40) as u64;
    Served {
        code: 200,
        source: ResponseSource::Upstream,
        values: Values {
            route: route.as_bytes(),
            matched_uri: b"/some/path/*",
            matched_host: b"example.com",
            service: b"",
            consumer: b"jack",
            node: b"10.0.0.1",
            extra: &[],
        },
        request_ms: latency_ms,
        upstream_ms: Some(latency_ms.saturating_sub(1)),
        ingress_bytes: 300,
        egress_bytes: 2_400,
        now_s: 1_000,
    }
}
