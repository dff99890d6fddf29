//! A whole process within the test's: parts that die while requests are served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tollhouse_config::bootstrap::{Secret, Workers};
use tollhouse_testkit::{Database, Etcd, ReservedPort};

use super::*;
use crate::outages::{Outages, Part};

/// Ports of the parts that let go of theirs and take them again: in between, the kernel would give them to whoever asks.
#[derive(Default)]
struct Ports {
    admin: ReservedPort,
    grpc: ReservedPort,
    http: ReservedPort,
}

/// Of a gateway on ports that nobody else takes, in a folder of its own.
fn bootstrap(folder: &Path, ports: &Ports) -> Bootstrap {
    let any = || vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let mut bootstrap = Bootstrap { data_dir: folder.to_owned(), ..Bootstrap::default() };
    bootstrap.workers = Workers::Count(1);
    bootstrap.registry.workers = Workers::Count(1);
    let listen = &mut bootstrap.listen;
    (listen.http, listen.https) = (any(), any());
    (listen.admin, listen.control) = (vec![ports.admin.address()], any());
    (listen.metrics, listen.status) = (any(), any());
    listen.registry_grpc = vec![ports.grpc.address()];
    listen.registry_http = vec![ports.http.address()];
    bootstrap
}

async fn start(folder: &Path, ports: &Ports) -> Process {
    Process::start(&bootstrap(folder, ports), Predecessor::None).await.expect("it starts")
}

/// Status and text of an answer.
async fn get(address: SocketAddr, path: &'static str) -> (u16, String) {
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    });
    let answer = asked.await.expect("no panic");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status line"), answer)
}

impl Process {
    /// Looks after the parts once, as the running process does every second.
    async fn look(&mut self) {
        let event = exclusive::Event::Look;
        self.exclusive.handle(event, &mut self.resources, &self.snapshots).await;
    }

    fn outages(&self) -> &Outages {
        self.exclusive.outages()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_folder_of_keys_and_sockets_is_for_this_user_alone() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("var").join("data");
    let ports = Ports::default();
    let _process = start(&folder, &ports).await;
    let mut waiting = vec![folder.clone()];
    let mut names = Vec::new();
    while let Some(path) = waiting.pop() {
        let kind = std::fs::symlink_metadata(&path).expect("it was just listed");
        let mode = kind.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has the mode {mode:o}", path.display());
        if kind.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder of ours");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
        names.extend(path.file_name().and_then(|name| name.to_str()).map(str::to_owned));
    }
    for name in ["data", "keyring", "admin.key", "store.db", "handover.sock"] {
        assert!(names.iter().any(|found| found == name), "{name} is none of {names:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_death_of_the_registrys_keeper_is_reported_while_requests_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = Ports::default();
    let mut process = start(folder.path(), &ports).await;
    let (data_plane, status) = (process.start.data_plane[0], process.side.status);
    let status = status.expect("it is on").address;
    let metrics = process.side.metrics.expect("it is on").address;
    assert_eq!(get(status, "/status/ready").await.0, 200);
    let registry = process.exclusive.registry().expect("it runs");
    let grpc = *registry.grpc.first().expect("it listens");
    registry.kill_keeper();
    // It cannot come back while its folder is away.
    let (kept, away) = (folder.path().join("registry"), folder.path().join("away"));
    std::fs::rename(&kept, &away).expect("a folder");
    std::fs::write(&kept, "in the way").expect("a file");
    process.look().await;
    assert!(process.outages().list().contains_key(&Part::Registry), "{:?}", process.outages());
    let (code, text) = get(status, "/status/ready").await;
    assert_eq!(code, 503);
    assert!(text.contains("registry is down"), "{text}");
    let (_, page) = get(metrics, "/metrics").await;
    assert!(page.contains("\ntollhouse_registry_down 1\n"), "{page}");
    assert_eq!(get(data_plane.0, "/demo").await.0, 200, "what is in service serves");
    std::fs::remove_file(&kept).expect("a file");
    std::fs::rename(&away, &kept).expect("a folder");
    process.look().await;
    assert!(process.outages().list().is_empty(), "{:?}", process.outages());
    assert_eq!(get(status, "/status/ready").await.0, 200);
    assert!(TcpStream::connect(grpc).is_ok(), "at the address that it had");
    assert!(process.exclusive.registry().is_some());
}

/// How often parts are looked after until they are up again: a step of an engine may take too long on a busy machine.
const LOOKS_MAX: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn engines_that_are_away_at_the_start_are_waited_for_alive_and_unready() {
    let (Some(mut etcd), Some(mut database)) = (Etcd::prepare(), Database::prepare_mariadb())
    else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let ports = Ports::default();
    let mut bootstrap = bootstrap(folder.path(), &ports);
    bootstrap.store.etcd.endpoints = vec![etcd.url()];
    bootstrap.encryption.keyring = vec![Secret::new("0123456789abcdef")];
    let url = format!("mysql://tollhouse@{}/tollhouse", database.address());
    bootstrap.registry.store.mysql = Some(Secret::new(url));
    bootstrap.registry.store.tls = false;
    let mut process = Process::start(&bootstrap, Predecessor::None).await.expect("it starts");
    let (data_plane, status) = (process.start.data_plane[0], process.side.status);
    let status = status.expect("it is on").address;
    assert_eq!(get(status, "/status").await.0, 200);
    assert_eq!(get(status, "/status/ready").await.0, 503);
    assert_eq!(get(data_plane.0, "/").await.0, 404);
    let down = process.outages().list();
    for (part, place) in
        [(Part::Store, etcd.url()), (Part::Registry, database.address().to_string())]
    {
        assert!(
            down.get(&part).is_some_and(|reason| reason.contains(&place)),
            "{part:?}: {down:?}"
        );
    }
    tokio::task::block_in_place(|| {
        etcd.run();
        database.run();
    });
    for _ in 0..LOOKS_MAX {
        process.look().await;
        if process.outages().list().is_empty() {
            break;
        }
    }
    assert!(process.outages().list().is_empty(), "{:?}", process.outages());
    assert_eq!(get(status, "/status/ready").await.0, 200);
    assert!(process.exclusive.registry().is_some() && process.exclusive.admin().is_some());
    assert!(process.exclusive.feed().is_some_and(|feed| !feed.is_provisional()));
}
