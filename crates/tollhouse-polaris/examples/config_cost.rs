//! Costs of the configuration centre and of permission decisions, as tables: memory of many files,
//! reads of one core, the time from a publication to the last of many watchers, and the time of a
//! decision. Calls are made without sockets.
//!
//! `cargo run --release -p tollhouse-polaris --example config_cost`; with the argument `small`, a
//! hundredth of the work, to see whether it runs.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tollhouse_polaris::dialect::{Caller, Dialect};
use tollhouse_polaris::{Access, Account, Gate, v1};
use tollhouse_registry::config::{ConfigCommand, ConfigFileChange, ConfigFileKey, NewRelease};
use tollhouse_registry::identity::{
    AccessToken, Attempt, IdentityCommand, IdentityHead, IdentityWrite, Policy, PolicyAction,
    Principal, Resource, ResourceKind, ResourcePattern, User, UserGroup, Verdict,
};
use tollhouse_registry::{Command, Keeper, Registry};
use tollhouse_store::Location;

const GROUPS: usize = 100;
/// Files of one commit.
const BATCH: usize = 500;
/// Content of a usual file of Spring: some thirty lines.
const CONTENT_BYTES: usize = 1_024;
/// Users, each with a policy of its own and in one group with another.
const USERS: usize = 1_000;

/// Amount of work.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    files: usize,
    watchers: usize,
    reads: u32,
    publications: usize,
    decisions: u32,
}

const WHOLE: Sizes = Sizes {
    files: 100_000,
    watchers: 10_000,
    reads: 1_000_000,
    publications: 20,
    decisions: 1_000_000,
};

const SMALL: Sizes =
    Sizes { files: 1_000, watchers: 100, reads: 10_000, publications: 5, decisions: 10_000 };

fn main() {
    let is_small = std::env::args().nth(1).is_some_and(|argument| argument == "small");
    let sizes = if is_small { SMALL } else { WHOLE };
    let registry = keep();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async move {
        println!("{:<44} {:>16} {:>16}", "configuration centre", "figure", "per unit");
        let before = resident_bytes();
        fill(&registry, sizes.files).await;
        let grown = resident_bytes().saturating_sub(before);
        row(
            &format!("memory of {} files of {CONTENT_BYTES} B", sizes.files),
            &format!("{} MiB", grown >> 20),
            &format!("{} B a file", grown / sizes.files),
        );
        let account = Account { name: "a".into(), password: "b".into(), token: "c".into() };
        let access = Access::new(Gate::Locked, Gate::Open, account, "client".to_owned());
        let dialect = Rc::new(Dialect::new(registry, Arc::new(access)));
        read(&dialect, sizes);
        watch(&dialect, sizes).await;
        decide(dialect.registry(), sizes.decisions).await;
    });
}

fn row(what: &str, figure: &str, unit: &str) {
    println!("{what:<44} {figure:>16} {unit:>16}");
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

async fn fill(registry: &Registry, files: usize) {
    for batch in 0..files / BATCH {
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
fn read(dialect: &Dialect, Sizes { files, reads, .. }: Sizes) {
    let requests: Vec<Bytes> =
        (0..files.min(1_000)).map(|number| asked(number, 0).encode_to_vec().into()).collect();
    let started = Instant::now();
    for number in 0..reads as usize {
        let request = &requests[number % requests.len()];
        let reply = dialect.get_config_file(&Caller::default(), request).expect("a valid request");
        assert_eq!(reply.code.number(), 200_000);
    }
    let took = started.elapsed();
    let rate = f64::from(reads) / took.as_secs_f64();
    row("reads of one core", &format!("{rate:.0} a second"), &format!("{:?}", took / reads));
}

/// Publishes a file that all watchers await, several times.
async fn watch(dialect: &Rc<Dialect>, Sizes { watchers: count, publications, .. }: Sizes) {
    let mut times = Vec::new();
    for round in 1..=publications {
        let request = v1::ClientWatchConfigFileRequest {
            watch_files: vec![asked(0, round as u64)],
            ..Default::default()
        };
        let request: Bytes = request.encode_to_vec().into();
        let watchers: Vec<_> = (0..count)
            .map(|_| {
                let (dialect, request) = (Rc::clone(dialect), request.clone());
                spawn_local(async move {
                    let reply = dialect.watch_config_files(&Caller::default(), &request).await;
                    assert_eq!(reply.expect("a valid request").code.number(), 200_000);
                })
            })
            .collect();
        while dialect.registry().config_watch_count() < count {
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        publish(dialect.registry(), 0, round).await;
        for watcher in watchers {
            watcher.await.expect("answered");
        }
        times.push(started.elapsed());
    }
    times.sort();
    let slowest = times.last().copied().unwrap_or_default();
    let watchers = u32::try_from(count).unwrap_or(u32::MAX);
    for (name, time) in [("median", times[times.len() / 2]), ("slowest", slowest)] {
        row(
            &format!("publication to {count} watchers, {name} of {publications}"),
            &format!("{:.2} ms", time.as_secs_f64() * 1_000.0),
            &format!("{:?}", time / watchers),
        );
    }
}

/// Decides about calls of users who have a policy of their own, and those of a group.
async fn decide(registry: &Registry, decisions: u32) {
    let principals = fill_identities(registry).await;
    let state = registry.state_full();
    let name = |number: usize| format!("group-{number}");
    let names: Vec<String> = (0..GROUPS).map(name).collect();
    for (what, function, count) in [
        ("allowed, one object", "DescribeConfigFiles", 1),
        ("allowed, four objects", "DescribeConfigFiles", 4),
        ("refused, one object", "DeleteServices", 1),
    ] {
        let mut allowed = 0_u32;
        let started = Instant::now();
        for number in 0..decisions as usize {
            let resources: [Resource<'_>; 4] = std::array::from_fn(|at| Resource {
                kind: ResourceKind::ConfigGroup,
                id: "",
                namespace: "default",
                name: &names[(number + at) % GROUPS],
                labels: None,
            });
            let attempt = Attempt { function, resources: &resources[..count] };
            let verdict = state.decide(&principals[number % principals.len()], &attempt);
            allowed += u32::from(verdict == Verdict::Allowed);
        }
        let took: Duration = started.elapsed();
        let is_right = allowed == if what.starts_with("allowed") { decisions } else { 0 };
        assert!(is_right, "{what}: {allowed} of {decisions}");
        row(&format!("decision of {USERS} users: {what}"), &format!("{:?}", took / decisions), "");
    }
}

/// Creates users with policies. Each has one that allows nothing of what is attempted, and is in a
/// group of a hundred users, whose policy allows reads of all groups of files.
async fn fill_identities(registry: &Registry) -> Vec<Principal> {
    let head = |id: &str| IdentityHead { id: id.into(), name: id.into(), ..Default::default() };
    let policy = |principal: Principal, functions: &[&str], text: &str| Policy {
        head: head(&format!("policy of {}", principal.id)),
        action: PolicyAction::Allow,
        principals: [principal].into(),
        resources: [ResourcePattern { kind: ResourceKind::ConfigGroup, text: text.into() }].into(),
        functions: functions.iter().map(|it| (*it).into()).collect(),
        ..Policy::default()
    };
    let ids: Vec<String> = (0..USERS).map(|number| format!("user-{number}")).collect();
    let write = async |writes: Vec<IdentityWrite>| {
        let command = Command::Identity(Box::new(IdentityCommand::Write(writes)));
        registry.submit(command).await.expect("written");
    };
    for (at, members) in ids.chunks(100).enumerate() {
        let mut writes = Vec::new();
        for id in members {
            let token = AccessToken { text: format!("token of {id}").into(), is_enabled: true };
            let user = User { head: head(id), token, ..User::default() };
            let own = policy(Principal::user(id), &["UpdateUser"], &format!("other/{id}"));
            writes.extend([IdentityWrite::Create(user.into()), IdentityWrite::Create(own.into())]);
        }
        let id = format!("team-{at}");
        let users = members.iter().map(|id| id.as_str().into()).collect();
        let group = UserGroup { head: head(&id), users, ..UserGroup::default() };
        let functions = ["Describe*", "UpdateConfigFile"];
        let shared = policy(Principal::group(&id), &functions, "default/*");
        writes.extend([IdentityWrite::Create(group.into()), IdentityWrite::Create(shared.into())]);
        write(writes).await;
    }
    ids.iter().map(|id| Principal::user(id)).collect()
}

/// Memory of the process that is in use (`/proc/self/statm`, in pages of 4 KiB).
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("a process of Linux");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second number is the resident set") * 4_096
}
