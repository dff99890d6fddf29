//! The mock upstream over real sockets: exchanges as tables of bytes, and what it counts.

mod grpc;
mod http1;
mod http2;
mod websocket;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollhouse_mock::{Behaviour, Mock, Tls};

/// How long a test waits before it fails; far beyond anything that is measured here.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(behaviour: Behaviour) -> Mock {
    let behaviour = Behaviour { workers: 1, seed: Some(5), ..behaviour };
    Mock::start(behaviour).expect("loopback can be bound")
}

fn connect(mock: &Mock) -> TcpStream {
    let stream = TcpStream::connect(mock.address()).expect("the mock listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out above zero");
    stream
}

/// Sends all of `request` on a new connection, and takes what comes until the mock closes it.
fn exchange(mock: &Mock, request: &[u8]) -> String {
    let mut stream = connect(mock);
    stream.write_all(request).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the mock closes");
    answer
}

/// A runtime for one client.
fn runtime() -> tokio::runtime::LocalRuntime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime")
}

#[test]
fn a_port_in_use_is_named() {
    let first = start(Behaviour::default());
    let again = Behaviour { listen: vec![first.address()], ..Behaviour::default() };
    let error = Mock::start(again).expect_err("taken").to_string();
    let port = format!("port {} is in use", first.address().port());
    assert!(error.contains(&port) && error.contains("--listen"), "{error}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_named() {
    let nowhere = Tls::Files { certificate: "/nowhere/c.pem".into(), key: "/nowhere/k.pem".into() };
    let behaviour = Behaviour { tls: nowhere, ..Behaviour::default() };
    let error = Mock::start(behaviour).expect_err("no file");
    assert!(matches!(error, tollhouse_mock::MockError::File { .. }), "{error:?}");
}

#[test]
fn every_address_is_served_and_all_are_free_again_afterwards() {
    let any = Behaviour::default().listen[0];
    let mock =
        Mock::start(Behaviour { listen: vec![any, any], workers: 2, ..Behaviour::default() })
            .expect("loopback can be bound");
    let addresses = mock.addresses().to_vec();
    assert_eq!((addresses.len(), mock.workers()), (2, 2));
    for address in &addresses {
        let mut stream = TcpStream::connect(address).expect("the mock listens");
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
    assert_eq!((mock.requests(), mock.connections()), (2, 2));
    drop(mock);
    for address in addresses {
        Mock::start(Behaviour { listen: vec![address], ..Behaviour::default() })
            .expect("free again");
    }
}
