//! Openings that lose their requests; no connection is made.

use std::net::{Ipv4Addr, SocketAddr};

use super::*;
use crate::settings::Limits;
use crate::testing::worker;

fn key(port: u16) -> PoolKey {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    PoolKey { address: address.into(), pool: 1, server_name: None, comes_for: None }
}

/// An opening for one request, and the place of that request.
fn begun(worker: &Rc<Worker>, port: u16) -> (Rc<Opening>, OpeningPermit) {
    let opening = Opening::for_one(key(port), KeepalivePool::default(), 5000);
    let opening = worker.node_connections.begin(opening);
    let place = OpeningPermit::new(Rc::clone(worker), Rc::clone(&opening));
    (opening, place)
}

#[test]
fn a_request_takes_over_a_young_opening_that_another_has_left() {
    let worker = worker(Limits::default());
    let connections = &worker.node_connections;
    let (opening, place) = begun(&worker, 1);
    let found = |now_ms| connections.abandoned_opening(&key(1), now_ms).is_some();
    assert!(!found(5000), "its request waits");
    drop(place);
    assert!(found(5000) && found(6000));
    assert!(!found(6001), "it is older than the first retransmission");
    assert!(connections.abandoned_opening(&key(2), 5000).is_none());
    let other = OpeningPermit::new(Rc::clone(&worker), Rc::clone(&opening));
    assert!(!found(5000), "it has a request again");
    assert!(!connections.end_abandoned());
    drop(other);
    connections.end(&opening);
    assert!(!found(5000) && !connections.end_abandoned());
    assert_eq!(connections.openings(), 0);
}

#[test]
fn openings_that_no_request_waits_for_have_a_bound() {
    let worker = worker(Limits::default());
    let connections = &worker.node_connections;
    let ports: Vec<u16> = (1..=3 * ABANDONED_MAX as u16).collect();
    let waiting = begun(&worker, 999);
    for port in &ports {
        drop(begun(&worker, *port));
        assert!(connections.openings() <= ABANDONED_MAX + 1, "{port}");
    }
    let left = |port: &&u16| connections.abandoned_opening(&key(**port), 5000).is_some();
    let left: Vec<_> = ports.iter().filter(left).copied().collect();
    assert_eq!(left, ports[2 * ABANDONED_MAX..], "the newest of them");
    while connections.end_abandoned() {}
    assert_eq!(connections.openings(), 1, "one has a request");
    drop(waiting);
    connections.close(&key(999));
    assert_eq!((connections.openings(), connections.by_key.borrow().len()), (0, 0));
}

#[test]
fn openings_count_against_the_descriptors_of_a_core() {
    let limits = Limits { descriptors_per_worker: 2, ..Limits::default() };
    let worker = worker(limits);
    let (_, first) = begun(&worker, 1);
    assert!(worker.may_connect());
    let (_, _second) = begun(&worker, 2);
    assert!(!worker.may_connect());
    drop(first);
    assert!(worker.may_connect(), "one that no request waits for makes room");
    assert_eq!(worker.node_connections.openings(), 1);
}

#[test]
fn an_opening_that_fails_is_one_failure_of_the_node() {
    use tollhouse_telemetry::ErrorCode;

    use crate::stages::attempt::error::Blame;

    let worker = worker(Limits::default());
    let opening = Opening::for_many(key(1), KeepalivePool::default(), 5000);
    let opening = worker.node_connections.begin(opening);
    let place = || OpeningPermit::new(Rc::clone(&worker), Rc::clone(&opening));
    let requests = [place(), place(), place()];
    let failure = AttemptError::by_node(ErrorCode::UpstreamConnectFailed, true);
    let blames = requests.map(|request| request.blame_once(failure).blame);
    assert_eq!(blames, [Blame::Node, Blame::Nobody, Blame::Nobody]);
}
