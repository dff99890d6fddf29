//! Costs of the configuration centre: memory of many files, reads of one core, and the time from a
//! publication to the last of many watchers. Calls are made without sockets.
//!
//! `cargo run --release -p tollhouse-polaris --example config_cost`

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tollhouse_polaris::dialect::{Caller, Dialect};
use tollhouse_polaris::{Access, Account, Gate, v1};
use tollhouse_registry::config::{ConfigCommand, ConfigFileChange, ConfigFileKey, NewRelease};
use tollhouse_registry::{Command, Keeper, Registry};
use tollhouse_store::Location;

const FILES: usize = 100_000;
const GROUPS: usize = 100;
/// Files of one commit.
const BATCH: usize = 500;
/// Content of a usual file of Spring: some thirty lines.
const CONTENT_BYTES: usize = 1_024;
const WATCHERS: usize = 10_000;
const READS: u32 = 1_000_000;
const PUBLICATIONS: usize = 20;

fn main() {
    let registry = keep();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async move {
        let before = resident_bytes();
        fill(&registry).await;
        let grown = resident_bytes().saturating_sub(before);
        println!("{FILES} released files of {CONTENT_BYTES} bytes: {} MiB", grown >> 20);
        let account = Account { name: "a".into(), password: "b".into(), token: "c".into() };
        let access = Access::new(Gate::Locked, Gate::Open, account, "client".to_owned());
        let dialect = Rc::new(Dialect::new(registry, Arc::new(access)));
        read(&dialect);
        watch(&dialect).await;
    });
}

/// A registry in memory, kept by a thread.
fn keep() -> Registry {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let store = tollhouse_store::open(&Location::Memory).expect("memory opens");
            let (keeper, registry) =
                Keeper::open(store, Default::default()).await.expect("it is empty");
            sender.send(registry).expect("the main thread waits");
            keeper.run(std::future::pending()).await;
        });
    });
    receiver.recv().expect("the keeper starts")
}

fn key(number: usize) -> ConfigFileKey {
    let group = format!("group-{}", number % GROUPS);
    ConfigFileKey::new("default", &group, &format!("service-{number}/application.yaml"))
}

async fn publish(registry: &Registry, number: usize, round: usize) {
    let mut content = format!("round: {round}\nnumber: {number}\n");
    while content.len() < CONTENT_BYTES {
        content.push_str("# a line of a file\n");
    }
    content.truncate(CONTENT_BYTES);
    let file = ConfigFileChange { content: Some(content.into()), ..Default::default() };
    let (key, release) = (key(number), NewRelease::default());
    let command = ConfigCommand::WriteAndPublish { key, file, release, expected: None };
    let command = Command::Config("bench".into(), Box::new(command));
    registry.submit(command).await.expect("published");
}

async fn fill(registry: &Registry) {
    for batch in 0..FILES / BATCH {
        let writes = (0..BATCH).map(|number| {
            let registry = registry.clone();
            spawn_local(async move { publish(&registry, batch * BATCH + number, 0).await })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.expect("published");
        }
    }
}

fn asked(number: usize, version: u64) -> v1::ClientConfigFileInfo {
    let key = key(number);
    v1::ClientConfigFileInfo {
        namespace: Some(key.namespace.to_string()),
        group: Some(key.group.to_string()),
        file_name: Some(key.name.to_string()),
        version: Some(version),
        ..Default::default()
    }
}

/// Reads files round about.
fn read(dialect: &Dialect) {
    let requests: Vec<Bytes> =
        (0..1_000).map(|number| asked(number, 0).encode_to_vec().into()).collect();
    let started = Instant::now();
    for number in 0..READS as usize {
        let request = &requests[number % requests.len()];
        let reply = dialect.get_config_file(&Caller::default(), request).expect("a valid request");
        assert_eq!(reply.code.number(), 200_000);
    }
    let rate = f64::from(READS) / started.elapsed().as_secs_f64();
    println!("reads without sockets: {rate:.0} a second on one core");
}

/// Publishes a file that all watchers await, several times.
async fn watch(dialect: &Rc<Dialect>) {
    let mut slowest = std::time::Duration::ZERO;
    for round in 1..=PUBLICATIONS {
        let request = v1::ClientWatchConfigFileRequest {
            watch_files: vec![asked(0, round as u64)],
            ..Default::default()
        };
        let request: Bytes = request.encode_to_vec().into();
        let watchers: Vec<_> = (0..WATCHERS)
            .map(|_| {
                let (dialect, request) = (Rc::clone(dialect), request.clone());
                spawn_local(async move {
                    let reply = dialect.watch_config_files(&Caller::default(), &request).await;
                    assert_eq!(reply.expect("a valid request").code.number(), 200_000);
                })
            })
            .collect();
        while dialect.registry().config_watch_count() < WATCHERS {
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        publish(dialect.registry(), 0, round).await;
        for watcher in watchers {
            watcher.await.expect("answered");
        }
        slowest = slowest.max(started.elapsed());
    }
    println!("publication to {WATCHERS} watchers: at most {slowest:?} in {PUBLICATIONS} rounds");
}

/// Memory of the process that is in use (`/proc/self/statm`, in pages of 4 KiB).
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a process of Linux");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second number is the resident set") * 4_096
}
