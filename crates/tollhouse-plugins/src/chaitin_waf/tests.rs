//! Requests, and the verdicts of a played detection service on them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};
use tollhouse_plugin::testing::{Harness, Outcome, configure_among};
use tollhouse_plugin::{Catalogue, Services};
use tollhouse_testkit::ClosedPort;

use super::*;

const PASS: &[u8] = b"\x41\x01\0\0\0.\xa5\x02\0\0\0{}";
const BLOCK: &[u8] = b"\x41\x01\0\0\0?\x02\x03\0\0\0403\x25\x02\0\0\0{}\x23\x10\0\0\0\
    Set-Cookie:a=b\n\n\xa4\x16\0\0\0<!-- event_id: b3c -->";

/// Detection service that sends the same reply to every message.
struct Service {
    port: u16,
    messages: Receiver<Vec<u8>>,
}

impl Service {
    fn start(reply: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    while let Some(message) = read_message(&mut stream) {
                        let _ = sender.send(message);
                        // In two pieces, because networks split messages.
                        let (start, end) = reply.split_at(reply.len().min(7));
                        let _ = stream.write_all(start).and_then(|()| stream.write_all(end));
                    }
                });
            }
        });
        Self { port, messages }
    }

    fn message(&self) -> Vec<u8> {
        self.messages.recv_timeout(Duration::from_secs(10)).unwrap()
    }
}

fn read_message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let mut start = [0; 5];
        stream.read_exact(&mut start).ok()?;
        let length = u32::from_le_bytes([start[1], start[2], start[3], start[4]]);
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data).ok()?;
        message.extend_from_slice(&start);
        message.extend(data);
        if start[0] & 0x80 != 0 {
            return Some(message);
        }
    }
}

fn harness(port: u16, conf: Value) -> Harness {
    let mut conf = conf;
    conf["append_waf_debug_header"] = json!(true);
    let nodes = json!([{"host": "127.0.0.1", "port": port}]);
    let metadata = json!({"nodes": nodes, "config": {"read_timeout": 10_000}});
    let services = Arc::new(Services::new("test"));
    let catalogue = Catalogue::empty();
    let handler =
        configure_among::<ChaitinWaf>(&conf, &services, &catalogue, Some(&metadata)).unwrap();
    Harness::with(handler, services)
}

fn ask(port: u16, conf: Value) -> Outcome {
    harness(port, conf).request("POST /a?x=1 HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello")
}

#[test]
fn the_service_gets_head_body_and_connection() {
    let service = Service::start(PASS);
    assert!(ask(service.port, json!({"mode": "block"})).passes());
    let message = service.message();
    let text = String::from_utf8_lossy(&message);
    assert!(text.contains("POST /a?x=1 HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("\x02\x05\0\0\0hello"), "{text}");
    assert!(text.contains("\x13127.0.0.1\n"), "{text}");
    assert!(text.ends_with("\x08\0\0\0Proto:3\n"), "{text}");
}

#[test]
fn only_the_start_of_a_body_is_sent() {
    let service = Service::start(PASS);
    assert!(ask(service.port, json!({"mode": "block", "config": {"req_body_size": 0}})).passes());
    let text = String::from_utf8_lossy(&service.message()).into_owned();
    assert!(!text.contains("hello"), "{text}");
}

#[test]
fn blocked_requests_get_status_event_and_headers() {
    let service = Service::start(BLOCK);
    let outcome = ask(service.port, json!({"mode": "block"}));
    assert_eq!(outcome.status(), 403);
    assert_eq!(
        outcome.body(),
        "{\"code\": 403, \"success\":false, \"message\": \"blocked by Chaitin SafeLine Web \
         Application Firewall\", \"event_id\": \"b3c\"}\n"
    );
    // In the other modes they pass.
    assert!(ask(service.port, json!({"mode": "monitor"})).passes());
    assert!(ask(service.port, json!({})).passes());
    assert!(ask(service.port, json!({"mode": "off"})).passes());
}

#[test]
fn conditions_choose_the_requests() {
    let service = Service::start(BLOCK);
    let conf = |value: &str| json!({"mode": "block", "match": [{"vars": [["arg_x", "==", value]]}]});
    assert_eq!(ask(service.port, conf("1")).status(), 403);
    assert!(ask(service.port, conf("2")).passes());
    let refusal = Harness::refusal::<ChaitinWaf>(&json!({"match": [{"vars": [["arg_x", "=", "1"]]}]}));
    assert!(refusal.contains("failed to validate the 'vars' expression: "), "{refusal}");
}

#[test]
fn without_a_verdict_only_monitored_requests_pass() {
    let closed = ClosedPort::new().address().port();
    let broken = Service::start(b"\x01\x01\0\0\0.").port;
    let endless = Service::start(b"\x41\xff\xff\xff\xff").port;
    let strange = Service::start(b"\xc1\x01\0\0\0!").port;
    for port in [closed, broken, endless, strange] {
        assert_eq!(ask(port, json!({"mode": "block"})).status(), 500);
        assert!(ask(port, json!({"mode": "monitor"})).passes());
    }
    let mut harness = Harness::new::<ChaitinWaf>(&json!({"mode": "monitor"}));
    assert_eq!(harness.request("GET / HTTP/1.1\n\n").status(), 500, "no metadata");
}
