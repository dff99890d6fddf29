//! What the registry acknowledged survives `kill -9` at any instant: registrations are there again,
//! deregistrations stay done.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;

use crate::support::{discover, gateway, registry_request};

/// Kills; the hundred of the store's own test are elsewhere.
const ROUNDS: usize = 3;
/// Clients that register at the same time, so that a group is under way when the end comes.
const CLIENTS: usize = 8;
/// Acknowledgements of a round before the kill.
const ACKNOWLEDGED_MIN: usize = 300;

const SERVICE: &str = "durable";

/// What clients were told.
#[derive(Debug, Default)]
struct Told {
    registered: BTreeSet<String>,
    deregistered: BTreeSet<String>,
    /// Asked for, never answered: either way is right.
    open: BTreeSet<String>,
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    let told = Mutex::new(Told::default());
    let mut builder = gateway().resources(&json!({}));
    for round in 0..ROUNDS {
        let registry = builder.registry().start();
        let (_, http) = registry.registry_addresses();
        check(http, &told.lock().expect("no client panics"));
        let acknowledged = AtomicUsize::new(0);
        builder = std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (told, acknowledged) = (&told, &acknowledged);
                scope.spawn(move || work(http, &format!("{round}-{client}"), told, acknowledged));
            }
            wait_for("acknowledgements", || {
                (acknowledged.load(Ordering::Relaxed) >= ACKNOWLEDGED_MIN).then_some(())
            });
            registry.kill()
        });
    }
    let registry = builder.registry().start();
    check(registry.registry_addresses().1, &told.lock().expect("no client panics"));
}

/// Registers, and takes every third back, until the registry is gone.
fn work(address: SocketAddr, name: &str, told: &Mutex<Told>, acknowledged: &AtomicUsize) {
    let mut stream = TcpStream::connect(address).expect("the registry listens");
    for number in 0_u32.. {
        let id = format!("{name}-{number}");
        let instance = json!({
            "id": id, "service": SERVICE, "namespace": "default", "host": id, "port": 80,
        });
        told.lock().expect("no client panics").open.insert(id.clone());
        if ask(&mut stream, "RegisterInstance", &instance).is_none() {
            return;
        }
        acknowledged.fetch_add(1, Ordering::Relaxed);
        let mut known = told.lock().expect("no client panics");
        if !number.is_multiple_of(3) {
            known.open.remove(&id);
            known.registered.insert(id);
            continue;
        }
        drop(known);
        if ask(&mut stream, "DeregisterInstance", &json!({ "id": id })).is_none() {
            return;
        }
        let mut known = told.lock().expect("no client panics");
        known.open.remove(&id);
        known.deregistered.insert(id);
    }
}

/// One call; `None` when the answer did not come whole.
fn ask(stream: &mut TcpStream, method: &str, body: &Value) -> Option<()> {
    let request = registry_request(method, body);
    stream.write_all(request.as_bytes()).ok()?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    while !is_whole(&answer) {
        match stream.read(&mut part).ok()? {
            0 => return None,
            read => answer.extend_from_slice(&part[..read]),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    Some(())
}

/// Whether all of the body is there, as long as its head says.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()).is_some_and(|length: usize| body.len() >= length)
}

/// What is registered is what was acknowledged, apart from what nobody was told about.
fn check(address: SocketAddr, told: &Told) {
    let answer = discover(address, SERVICE);
    let list = answer["instances"].as_array().cloned().unwrap_or_default();
    let found: BTreeSet<String> =
        list.iter().filter_map(|instance| instance["id"].as_str().map(str::to_owned)).collect();
    let lost: Vec<&String> = told.registered.difference(&found).collect();
    assert!(lost.is_empty(), "{} registrations were lost: {lost:?}", lost.len());
    let back: Vec<&String> = told.deregistered.intersection(&found).collect();
    assert!(back.is_empty(), "{} deregistrations were lost: {back:?}", back.len());
    let invented =
        found.iter().filter(|id| !told.registered.contains(*id) && !told.open.contains(*id));
    assert_eq!(invented.count(), 0, "nothing appears that nobody asked for");
}
