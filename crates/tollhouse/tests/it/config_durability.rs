//! Publications of configuration files that were acknowledged survive `kill -9` at any instant, a
//! full disk, and the loss of the database that nodes share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Database, Gateway, RawClient, SmallDisk};

use crate::registry_shared::{address, on};
use crate::support::{gateway, json_request};

/// Number of kills.
const ROUNDS: usize = 3;
/// Publishers that work at the same time, so that a group is under way when the end comes.
const PUBLISHERS: usize = 8;
/// Acknowledgements of a round before the kill.
const ACKNOWLEDGED_MIN: usize = 200;
/// Publications that a full disk takes at most, in pages that were free.
const LAST_PUBLICATIONS_MAX: usize = 2_000;

/// Result of one publication.
#[derive(Debug, PartialEq, Eq)]
enum Published {
    Acknowledged,
    Refused(String),
    /// The answer did not come: either way is right.
    Unknown,
}

/// Writes and publishes a file with this number as its content.
fn publish(address: SocketAddr, file: &str, number: u64, padding: usize) -> Published {
    let body = json!({
        "namespace": "default", "group": "durable", "file_name": file, "format": "text",
        "content": format!("{number} {}", "x".repeat(padding)),
    });
    let request = json_request("/config/v1/configfiles/createandpub", &body);
    let Some(answer) = try_ask(address, &request) else { return Published::Unknown };
    match answer["code"].as_u64() {
        Some(200_000) => Published::Acknowledged,
        _ => Published::Refused(answer.to_string()),
    }
}

/// Sends a request on a connection of its own; `None` if no whole answer comes back.
fn try_ask(address: SocketAddr, request: &str) -> Option<Value> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

/// Returns the number in the released file, if the file is released.
fn released(address: SocketAddr, file: &str) -> Option<u64> {
    let path = format!(
        "/config/v1/GetConfigFile?namespace=default&group=durable&fileName={file}&version=0"
    );
    let request = format!("GET {path} HTTP/1.1\r\nHost: registry\r\n\r\n");
    let answer = RawClient::connect(address).ask(request);
    let answer: Value = serde_json::from_slice(&answer.body).expect("the answer is JSON");
    let content = answer["configFile"]["content"].as_str()?;
    content.split(' ').next()?.parse().ok()
}

#[test]
fn a_kill_loses_no_acknowledged_publication() {
    // Last number that was acknowledged, and the last that was sent.
    let told: Mutex<BTreeMap<String, (u64, u64)>> = Mutex::default();
    let mut builder = gateway().resources(&json!({}));
    let check = |address: SocketAddr| {
        for (file, (acknowledged, sent)) in &*told.lock().expect("no publisher panics") {
            let found = released(address, file).unwrap_or_default();
            assert!(
                (*acknowledged..=*sent).contains(&found),
                "{file}: {acknowledged} {found} {sent}"
            );
        }
    };
    for _ in 0..ROUNDS {
        let registry = builder.registry().set("registry.console_auth", "false").start();
        let (_, http) = registry.registry_addresses();
        check(http);
        let acknowledged = AtomicUsize::new(0);
        builder = std::thread::scope(|scope| {
            for publisher in 0..PUBLISHERS {
                let (told, acknowledged) = (&told, &acknowledged);
                scope.spawn(move || {
                    let file = format!("file-{publisher}");
                    let set = |entry: &dyn Fn(&mut (u64, u64))| {
                        let mut told = told.lock().expect("no publisher panics");
                        let numbers = told.entry(file.clone()).or_default();
                        entry(numbers);
                        numbers.1
                    };
                    loop {
                        let number = set(&|numbers| numbers.1 += 1);
                        match publish(http, &file, number, 100) {
                            Published::Acknowledged => set(&|numbers| numbers.0 = number),
                            Published::Unknown => return,
                            refused @ Published::Refused(_) => panic!("{refused:?}"),
                        };
                        acknowledged.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            wait_for("acknowledgements", || {
                (acknowledged.load(Ordering::Relaxed) >= ACKNOWLEDGED_MIN).then_some(())
            });
            registry.kill()
        });
    }
    let registry = builder.registry().start();
    check(registry.registry_addresses().1);
}

#[test]
fn a_full_disk_refuses_publications_and_keeps_the_acknowledged_ones() {
    const PROGRAM: &str = env!("CARGO_BIN_EXE_tollhouse");
    let Some(disk) = SmallDisk::mount("24m") else { return };
    let data_dir = disk.path().join("data").display().to_string();
    let mut gateway = Gateway::builder(disk.program(PROGRAM.as_ref()))
        .without_resources()
        .set("data_dir", &data_dir)
        .set("registry.console_auth", "false")
        .registry()
        .start();
    let (_, http) = gateway.registry_addresses();
    disk.fill();
    let mut last = 0;
    let refused = (1..LAST_PUBLICATIONS_MAX as u64).find_map(|number| {
        match publish(http, "file", number, 2_000) {
            Published::Acknowledged => {
                last = number;
                None
            }
            other => Some(other),
        }
    });
    let Some(Published::Refused(text)) = refused else { panic!("{refused:?} after {last}") };
    assert!(text.contains("500001"), "{text}");
    let current = |address| released(address, "file").unwrap_or_default();
    assert_eq!(current(http), last, "clients are given what was acknowledged");
    gateway.terminate();
    gateway.wait_exit();
    disk.make_room();
    let next = gateway.successor().without_resources().set("data_dir", &data_dir);
    let again = next.set("registry.console_auth", "false").registry().start();
    let (_, http) = again.registry_addresses();
    assert_eq!(current(http), last);
    assert_eq!(publish(http, "file", last + 1, 10), Published::Acknowledged);
    assert_eq!(current(http), last + 1);
}

#[test]
fn the_loss_of_the_database_costs_no_acknowledged_publication() {
    let Some(mut database) = Database::mariadb() else { return };
    let node = |database: &Database| {
        let node = gateway().resources(&json!({})).set("registry.console_auth", "false");
        on("mysql", database, node).start()
    };
    let [first, second] = [node(&database), node(&database)];
    let [one, other] = [address(&first), address(&second)];
    assert_eq!(publish(one, "file", 1, 10), Published::Acknowledged);
    wait_for("the release at the other node", || {
        (released(other, "file") == Some(1)).then_some(())
    });
    database.kill();
    for address in [one, other] {
        assert_eq!(released(address, "file"), Some(1), "files are read from memory");
        assert!(matches!(publish(address, "file", 2, 10), Published::Refused(_)));
        assert_eq!(released(address, "file"), Some(1), "what was refused is not served");
    }
    database.run();
    wait_for("a publication", || {
        (publish(one, "file", 3, 10) == Published::Acknowledged).then_some(())
    });
    wait_for("the release at the other node", || {
        (released(other, "file") == Some(3)).then_some(())
    });
}
