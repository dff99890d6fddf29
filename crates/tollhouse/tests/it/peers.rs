//! Other servers' opinions: each raw request of the codec's corpus is sent to nginx, HAProxy and h11,
//! and what they do must be what the corpus says of them.
//!
//! Where a peer differs from us, the corpus names the reason. `UPDATE_EXPECT=1` writes what the peers
//! say into the corpus; the reasons are for people to give. Verdicts belong to a version of a peer:
//! with another one installed, it is not asked.

mod corpus;
mod servers;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use corpus::{Case, Corpus, WAVERS};
use servers::{SEEN, haproxy, nginx, recorder, version};
use tollhouse_testkit::message::{Message, Side};
use tollhouse_testkit::{RawClient, program};

use crate::support::gateway_to;

/// Threads that ask; the cases that a peer waits on take it a second each.
const ASKERS: usize = 24;

/// Cases whose head is in order and whose path is refused when it is normalised for matching.
const JUDGED_LATER: [&str; 3] = ["target/encoded-nul", "target/bad-percent", "target/dot-segments"];

/// The case that is refused by the codec of HTTP/1.1 alone: the gateway goes on in HTTP/2.
const HTTP2_PREFACE: &str = "request-line/http2-preface";

/// Sends a case and tells what became of it.
fn ask(address: SocketAddr, case: &Case) -> String {
    let mut client = RawClient::connect(address);
    // A peer may refuse before it has read everything.
    let _ = client.wire.send(&case.bytes);
    let answer = loop {
        match Message::read(&mut client.wire, Side::Answer) {
            Ok(Some(answer)) if answer.status() < 200 => {}
            Ok(answer) => break answer,
            Err(_) => break None,
        }
    };
    // An end without an answer only says no.
    let Some(answer) = answer else { return "refuse 400".to_owned() };
    match answer.field(SEEN) {
        Some(seen) => seen.to_owned(),
        None => format!("refuse {}", answer.status()),
    }
}

/// What a server says to every case.
fn ask_all(address: SocketAddr, cases: &[Case]) -> BTreeMap<String, String> {
    let shares: Vec<Vec<&Case>> =
        (0..ASKERS).map(|n| cases.iter().skip(n).step_by(ASKERS).collect()).collect();
    std::thread::scope(|scope| {
        let ask_share = |share: Vec<&Case>| {
            let answers = share.into_iter().map(|case| (case.name.clone(), ask(address, case)));
            answers.collect::<Vec<_>>()
        };
        let askers: Vec<_> =
            shares.into_iter().map(|share| scope.spawn(move || ask_share(share))).collect();
        askers.into_iter().flat_map(|asker| asker.join().expect("asking does not fail")).collect()
    })
}

/// Held while the corpus is read and written; the peers are asked side by side.
static CORPUS: Mutex<()> = Mutex::new(());

/// Compares what a peer says with what the corpus says of it, or writes it there.
fn compare(judge: &str, found: &BTreeMap<String, String>) {
    let _held = CORPUS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut corpus = Corpus::read();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        corpus.update(judge, found);
    }
    let (mut wrong, known) = (String::new(), corpus.known_reasons());
    for case in &corpus.cases {
        let (listed, now) = (case.verdict(judge), &found[&case.name]);
        if case.reason(judge) == Some(WAVERS) {
            continue;
        }
        if listed != now {
            wrong += &format!("\n{}: listed {listed}, found {now}", case.name);
        } else if case.is_unexplained(judge) {
            wrong +=
                &format!("\n{}: {now} instead of {}: why?", case.name, case.verdict("tollhouse"));
        } else if case.is_overexplained(judge) {
            wrong += &format!("\n{}: a reason without a difference", case.name);
        } else if let Some(reason) = case.reason(judge).filter(|name| !known.contains(name)) {
            wrong += &format!("\n{}: the reason {reason} is not explained at the top", case.name);
        }
    }
    assert!(wrong.is_empty(), "{judge}:{wrong}");
}

/// Whether the installed version is the one that the corpus knows.
fn is_known(judge: &str, installed: &str) -> bool {
    let corpus = Corpus::read();
    let asked = corpus.version_of(judge).unwrap_or_default();
    if asked != installed {
        println!("skipped: the corpus knows {judge} {asked}, installed is {installed}");
    }
    asked == installed
}

#[test]
fn nginx_says_what_the_corpus_says_of_it() {
    let origin = recorder();
    if let Some(peer) =
        nginx(origin.address()).filter(|_| is_known("nginx", &version("nginx", "-v")))
    {
        compare("nginx", &ask_all(peer.address, &Corpus::read().cases));
    }
}

#[test]
fn haproxy_says_what_the_corpus_says_of_it() {
    let origin = recorder();
    if let Some(peer) =
        haproxy(origin.address()).filter(|_| is_known("haproxy", &version("haproxy", "-v")))
    {
        compare("haproxy", &ask_all(peer.address, &Corpus::read().cases));
    }
}

#[test]
fn h11_says_what_the_corpus_says_of_it() {
    let Some(python) = program::python() else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/h11_verdicts.py");
    let corpus = Corpus::read();
    let hexadecimal =
        |case: &Case| case.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let cases: Vec<String> = corpus.cases.iter().map(hexadecimal).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("cases");
    std::fs::write(&input, cases.join("\n")).expect("the folder takes files");
    let text = program::run_well(Command::new(python).arg(script).arg(&input));
    let mut lines = text.lines();
    if !is_known("h11", lines.next().unwrap_or_default()) {
        return;
    }
    let names = corpus.cases.iter().map(|case| case.name.clone());
    compare("h11", &names.zip(lines.map(str::to_owned)).collect());
}

#[test]
fn the_gateway_does_what_the_corpus_says_of_its_codec() {
    let origin = recorder();
    let gateway = gateway_to(&origin);
    let corpus = Corpus::read();
    let found = ask_all(gateway.address(), &corpus.cases);
    let mut wrong = String::new();
    for case in corpus.cases.iter().filter(|case| case.name != HTTP2_PREFACE) {
        let (listed, now) = (case.verdict("tollhouse"), &found[&case.name]);
        let is_judged_later = JUDGED_LATER.contains(&case.name.as_str());
        let listed = if is_judged_later { "refuse 400" } else { listed };
        if !is_carried_out(listed, now) {
            wrong += &format!("\n{}: listed {listed}, done {now}", case.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whether a verdict on the head alone is what the whole gateway did. It forwards a target in origin
/// form and answers `OPTIONS *` itself.
fn is_carried_out(verdict: &str, done: &str) -> bool {
    let words: Vec<&str> = verdict.split(' ').collect();
    match words[..] {
        ["accept", "OPTIONS", "*", _] => done == "refuse 200",
        ["accept", method, target, body] if !target.starts_with('/') => {
            done.starts_with(&format!("accept {method} /")) && done.ends_with(&format!(" {body}"))
        }
        _ => verdict == done,
    }
}
