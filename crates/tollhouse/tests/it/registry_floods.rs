//! Floods of clients of the registry: they take places and descriptors from each other, and from nobody else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin, RawClient};

use crate::support::{everything_to, gateway, registry_request};

/// Connections of a flood: more than the hard limit of open files.
const FLOOD: usize = 800;

/// Registers an instance over a connection to the registry's HTTP.
fn register(client: &mut RawClient, port: u16) {
    let instance =
        json!({ "service": "flooded", "namespace": "default", "host": "10.0.0.1", "port": port });
    let answer = client.ask(registry_request("RegisterInstance", &instance));
    let answer: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    assert_eq!(answer["code"], 200_000, "{answer}");
}

/// Whether the server has closed a connection.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a live socket");
    match stream.peek(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

fn check_flood(gateway: &Gateway, address: SocketAddr) {
    let (_, http) = gateway.registry_addresses();
    let mut inside = RawClient::connect(http);
    register(&mut inside, 1);
    let flood: Vec<_> =
        (0..FLOOD).map(|_| TcpStream::connect(address).expect("the kernel queues it")).collect();
    // The last have had their turn when one of the last is closed.
    wait_for("a refusal", || flood.iter().rev().take(8).any(is_closed).then_some(()));
    assert_eq!(gateway.client().get("/").text(), "a", "the data plane has its own descriptors");
    assert!(gateway.metric("tollhouse_registry_commits_total") > 0.0, "so have the side listeners");
    register(&mut inside, 2);
    drop(flood);
    wait_for("a place after the flood", || is_served(http).then_some(()));
}

/// Whether a new client gets an answer; a flood that has just ended may still hold its places.
fn is_served(http: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(http).expect("the kernel queues it");
    let mut answer = [0; 15];
    let asked = stream.write_all(b"GET / HTTP/1.1\r\nHost: registry\r\n\r\n");
    asked.and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer.starts_with(b"HTTP/1.1 ")
}

#[test]
fn a_flood_of_connections_to_the_registry_takes_nothing_from_the_gateway() {
    let origin = Origin::named("a");
    let gateway = gateway().registry().resources(&everything_to(origin.address()));
    let gateway = gateway.open_files(256, 768).start();
    let (grpc, http) = gateway.registry_addresses();
    check_flood(&gateway, grpc);
    check_flood(&gateway, http);
}
