//! Time to split a JSON document of 10,000 routes into items and to find the one that changed.
//!
//! `cargo run --release -p tollhouse-config --example declarative_cost`

use std::fmt::Write;
use std::time::{Duration, Instant};

use tollhouse_config::{Fingerprints, Format, declarative, diff};

const ROUTES: usize = 10_000;
const ROUNDS: usize = 21;

fn main() {
    let before = document(0);
    let after = document(1);
    let parsed = |text: &str| {
        declarative::parse(text, Format::Json, &|_| None).expect("the document is well formed")
    };
    let fingerprints = Fingerprints::from_document(&parsed(&before));
    let (mut parse_times, mut diff_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let document = parsed(&after);
        parse_times.push(start.elapsed());
        let start = Instant::now();
        let changes = diff(&fingerprints, &document);
        let next = fingerprints.followed_by(&document);
        diff_times.push(start.elapsed());
        assert_eq!((changes.upserts.len(), next.len()), (1, ROUTES));
    }
    println!("document      {} KiB", after.len() / 1024);
    println!("take apart    {:?} (median of {ROUNDS})", median(parse_times));
    println!("find changes  {:?}", median(diff_times));
}

fn document(priority: u32) -> String {
    let mut text = String::from("{\"routes\":[");
    for number in 0..ROUTES {
        let comma = if number == 0 { "" } else { "," };
        let priority = if number == ROUTES / 2 { priority } else { 0 };
        write!(
            text,
            "{comma}{{\"id\":\"{number}\",\"uri\":\"/r/{number}\",\"priority\":{priority},\
             \"methods\":[\"GET\",\"POST\"],\"plugins\":{{\"limit-count\":{{\"count\":100,\
             \"time_window\":60}}}},\"upstream\":{{\"type\":\"roundrobin\",\
             \"nodes\":{{\"127.0.0.1:1980\":1}}}}}}"
        )
        .expect("writing to a string cannot fail");
    }
    text.push_str("]}");
    text
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
