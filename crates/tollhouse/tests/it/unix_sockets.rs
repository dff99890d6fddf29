//! Unix sockets: clients that come over one, and nodes that listen on one.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::{Gateway, Origin, RawClient};

use crate::stream_routes::stream_addresses;
use crate::support::{everything_to, everything_with, gateway, routes, with};

/// A node on a Unix socket: each connection is passed on to an origin.
struct Door {
    folder: tempfile::TempDir,
}

impl Door {
    fn to(origin: &Origin) -> Self {
        let door = Self { folder: tempfile::tempdir().expect("a folder") };
        door.open(origin.address());
        door
    }

    fn open(&self, address: SocketAddr) {
        let listener = UnixListener::bind(self.path()).expect("a short path");
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(origin) = TcpStream::connect(address) else { continue };
                pass_on(client, origin);
            }
        });
    }

    /// Takes the file away, so that nothing can connect any more.
    fn close(&self) {
        fs::remove_file(self.path()).expect("it is open");
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("app.sock")
    }

    fn address(&self) -> String {
        format!("unix:{}", self.path().display())
    }

    fn upstream(&self) -> Value {
        json!({ "type": "roundrobin", "nodes": { self.address(): 1 } })
    }
}

fn pass_on(client: UnixStream, origin: TcpStream) {
    let (mut back, mut forth) = (
        client.try_clone().expect("a descriptor is left"),
        origin.try_clone().expect("a descriptor is left"),
    );
    let (mut client, mut origin) = (client, origin);
    std::thread::spawn(move || {
        copy(&mut client, &mut forth);
        let _ = forth.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        copy(&mut origin, &mut back);
        let _ = back.shutdown(Shutdown::Write);
    });
}

fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

/// A gateway that also listens on a Unix socket, the path of which comes with it.
fn listening(mode: &str) -> (tollhouse_testkit::GatewayBuilder, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gateway.sock");
    let listen = json!([{ "address": format!("unix:{}", path.display()), "mode": mode }]);
    (gateway().set("listen.unix", &listen.to_string()), folder, path)
}

fn client_of(path: &Path) -> RawClient {
    let stream = UnixStream::connect(path).expect("the gateway listens");
    RawClient::over_unix(TcpStream::from(OwnedFd::from(stream)))
}

#[test]
fn a_node_on_a_unix_socket_is_asked_over_kept_connections() {
    let origin = Origin::named("app");
    let door = Door::to(&origin);
    let resources = everything_with(door.upstream(), json!({ "pass_host": "node" }));
    let gateway = gateway().log_requests().resources(&resources).start();
    assert_eq!(gateway.configuration()["problems"], json!([]));
    let mut client = gateway.client();
    for path in ["/one", "/two"] {
        assert_eq!(client.get(path).text(), "app");
    }
    assert_eq!(origin.last_request().field("host"), Some("localhost"));
    assert_eq!(origin.connections(), 1, "the connection is kept");
    let line = gateway.log_line("/two");
    assert_eq!(line["upstream_addr"], json!(door.address()));
}

#[test]
fn both_forms_of_nodes_take_unix_sockets_and_the_admin_api_refuses_what_is_none() {
    let origin = Origin::named("app");
    let door = Door::to(&origin);
    let gateway = gateway().without_resources().start();
    let list = json!([{ "host": door.address(), "weight": 1 }]);
    for (path, nodes) in [("/map", door.upstream()["nodes"].clone()), ("/list", list)] {
        let route = json!({ "uri": path, "upstream": { "type": "roundrobin", "nodes": nodes } });
        let answer = gateway.admin("PUT", &format!("/routes{path}"), &route);
        assert_eq!((answer.status(), answer.field("x-tollhouse-warning")), (201, None));
        assert_eq!(gateway.client().get(path).text(), "app");
    }
    let long = format!("unix:/{}", "a".repeat(200));
    for host in ["unix:app.sock", "unix:", "unix:/a b", &long] {
        for nodes in [json!({ host: 1 }), json!([{ "host": host, "weight": 1 }])] {
            let upstream = json!({ "type": "roundrobin", "nodes": nodes });
            let answer = gateway.admin("PUT", "/upstreams/1", &upstream);
            assert_eq!(answer.status(), 400, "{nodes}: {}", answer.text());
        }
    }
    let datagrams = with(door.upstream(), json!({ "scheme": "udp" }));
    let answer = gateway.admin("PUT", "/upstreams/1", &datagrams);
    let warning = answer.field("x-tollhouse-warning").unwrap_or_default().to_owned();
    assert!(warning.contains("no datagrams are sent to a Unix socket"), "{warning}");
}

#[test]
fn health_checks_take_a_unix_socket_out_and_bring_it_back() {
    let (origin, other) = (Origin::named("app"), Origin::named("other"));
    let door = Door::to(&origin);
    let nodes = json!({ door.address(): 1, other.address().to_string(): 1 });
    let checks = json!({ "active": {
        "type": "http", "http_path": "/health",
        "healthy": { "interval": 1, "successes": 1 },
        "unhealthy": { "interval": 1, "tcp_failures": 1 },
    } });
    let upstream = json!({ "type": "roundrobin", "nodes": nodes });
    let resources = everything_with(upstream, json!({ "checks": checks }));
    let gateway = gateway().resources(&resources).start();
    assert_eq!(gateway.client().get("/").status(), 200);
    let status = |gateway: &Gateway| {
        let report = gateway.control("/v1/healthcheck/routes/all");
        let nodes = report["nodes"].as_array().cloned().unwrap_or_default();
        let node = nodes.iter().find(|node| node["hostname"] == json!(door.address()));
        node.map(|node| node["status"].as_str().unwrap_or_default().to_owned())
    };
    let wait = |wanted: &str| {
        wait_for(wanted, || (status(&gateway).as_deref() == Some(wanted)).then_some(()));
    };
    door.close();
    wait("unhealthy");
    let mut client = gateway.client();
    assert!((0..4).all(|_| client.get("/").text() == "other"));
    door.open(origin.address());
    wait("healthy");
    let probe = origin.requests().into_iter().find(|it| it.start_line.contains("/health"));
    assert_eq!(probe.expect("a probe").field("host"), Some("localhost"));
}

#[test]
fn an_absent_unix_socket_is_a_node_that_cannot_be_reached() {
    let door = Door { folder: tempfile::tempdir().expect("a folder") };
    let resources = everything_with(door.upstream(), json!({ "retries": 0 }));
    let gateway = gateway().log_requests().resources(&resources).start();
    assert_eq!(gateway.client().get("/a").status(), 502);
    assert_eq!(gateway.log_line("/a")["error_code"], json!("upstream_connect_failed"));
}

#[test]
fn a_stream_route_leads_to_a_unix_socket() {
    let origin = Origin::named("app");
    let door = Door::to(&origin);
    let route =
        json!({ "id": "st", "upstream": with(door.upstream(), json!({ "scheme": "tcp" })) });
    let gateway = gateway()
        .set("listen.stream", r#"[{"address":"127.0.0.1:0"}]"#)
        .resources(&json!({ "stream_routes": [route] }))
        .start();
    let address = stream_addresses(&gateway)[0];
    assert_eq!(RawClient::connect(address).get("/").text(), "app");
}

#[test]
fn clients_of_a_unix_socket_are_served_and_have_no_address() {
    let origin = Origin::named("app");
    let (builder, _folder, path) = listening("0600");
    let gateway = builder.log_requests().resources(&everything_to(origin.address())).start();
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = client_of(&path);
    assert_eq!(client.get("/one").text(), "app");
    assert_eq!(client.get("/two").text(), "app");
    let seen = origin.last_request();
    assert_eq!(seen.field("x-real-ip"), Some("unix:"));
    assert_eq!(seen.field("x-forwarded-for"), Some("unix:"));
    assert_eq!(gateway.log_line("/two")["remote_addr"], json!("unix:"));
    let mut client = client_of(&path);
    let request = "GET /three HTTP/1.1\r\nHost: a\r\nX-Real-IP: 192.0.2.7\r\n\r\n";
    assert_eq!(client.ask(request).status(), 200);
    let line = gateway.log_line("/three");
    assert_eq!(line["remote_addr"], json!("192.0.2.7"), "real_ip.from names unix: by default");
}

#[test]
fn no_list_of_networks_lets_clients_of_a_unix_socket_in() {
    let origin = Origin::named("app");
    let (builder, _folder, path) = listening("0660");
    let route = |uri: &str, list: Value| {
        json!({
            "id": uri.trim_start_matches('/'), "uri": uri,
            "plugins": { "ip-restriction": { "whitelist": list } },
            "upstream": { "type": "roundrobin", "nodes": { origin.address().to_string(): 1 } },
        })
    };
    let routes = routes([
        route("/local", json!(["127.0.0.0/8", "::1", "10.0.0.0/8"])),
        route("/all", json!(["0.0.0.0/0"])),
    ]);
    let _gateway = builder.resources(&routes).start();
    assert_eq!(client_of(&path).get("/local").status(), 403);
    assert_eq!(client_of(&path).get("/all").status(), 200);
}

#[test]
fn a_socket_that_a_dead_gateway_left_is_replaced_and_a_live_one_is_not() {
    let origin = Origin::named("app");
    let (builder, _folder, path) = listening("0660");
    let resources = everything_to(origin.address());
    let gateway = builder.resources(&resources).start();
    let address = format!("unix:{}", path.display());
    let failure = gateway_at(&address).resources(&resources).fail();
    assert!(failure.text.contains("another process listens there"), "{}", failure.text);
    let again = gateway.kill();
    assert!(path.exists(), "it stays behind");
    let _gateway = again.set("listen.unix", &address).start();
    assert_eq!(client_of(&path).get("/").text(), "app");
}

fn gateway_at(address: &str) -> tollhouse_testkit::GatewayBuilder {
    gateway().set("listen.unix", address)
}

#[test]
fn a_successor_takes_the_socket_over() {
    let origin = Origin::named("app");
    let (builder, _folder, path) = listening("0660");
    let mut gateway = builder.resources(&everything_to(origin.address())).start();
    let mut before = client_of(&path);
    assert_eq!(before.get("/").text(), "app");
    let address = format!("unix:{}", path.display());
    let successor = gateway.successor().flag("--upgrade").set("listen.unix", &address).start();
    assert_eq!(client_of(&path).get("/").text(), "app");
    drop(before);
    assert!(gateway.wait_exit().success());
    assert_eq!(client_of(&path).get("/").text(), "app");
    drop(successor);
}
