//! Starting, stopping, replacing and crashing.

use std::net::{TcpListener, TcpStream};
use std::process::Command;

use serde_json::json;
use tollhouse_testkit::load::Reuse;
use tollhouse_testkit::origin::answer;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::run;
use tollhouse_testkit::{ClosedPort, Load, Origin};

use crate::support::{everything_to, gateway, gateway_to, routes};

#[test]
fn a_first_start_without_resources_shows_something() {
    let gateway = gateway().without_resources().start();
    let answer = gateway.client().get("/demo");
    assert_eq!(answer.status(), 200);
    assert!(answer.text().contains("\"uri\":\"/demo\""), "{}", answer.text());
    gateway.output().wait_line("a command to try", |line| line.contains("curl").then_some(()));
}

#[test]
fn the_start_after_a_failed_first_one_names_the_console_and_the_place_of_its_key() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
    let address = taken.local_addr().expect("a bound address").to_string();
    let builder = gateway().without_resources().set("listen.http", &address);
    let failure = builder.fail();
    assert_eq!(failure.code, Some(1), "{}", failure.text);
    assert!(!failure.text.contains("serving"), "nothing is in service: {}", failure.text);
    drop(taken);
    let gateway = builder.start();
    let line = gateway
        .output()
        .wait_line("the console", |line| line.strip_prefix("Console: ").map(str::to_owned));
    let (admin, folder) = (gateway.admin_address(), gateway.folder().display());
    assert_eq!(line, format!("http://{admin}/ (key in {folder}/admin.key)"));
    let text = gateway.output().text();
    assert!(!text.contains(&gateway.admin_key()), "keys are not printed: {text}");
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
    let address = taken.local_addr().expect("a bound address").to_string();
    let origin = Origin::named("a");
    for key in ["listen.http", "listen.control", "listen.metrics"] {
        let resources = everything_to(origin.address());
        let failure = gateway().set(key, &address).resources(&resources).fail();
        assert_eq!(failure.code, Some(1), "{key}: {}", failure.text);
        let port = address.rsplit(':').next().expect("a port");
        assert!(failure.text.contains(port), "{key}: {}", failure.text);
    }
    let failure = gateway().set("listen.http", &address).resources(&json!({})).fail();
    assert!(failure.text.contains("--upgrade"), "{}", failure.text);
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_place() {
    let cases = [
        ("routes:\n  - id: 1\n   uri: /\n#END\n", "3"),
        ("routes: []\n", "#END"),
        ("- 1\n#END\n", "expected object"),
    ];
    for (text, place) in cases {
        let failure = gateway().yaml(text).fail();
        assert_eq!(failure.code, Some(2), "{text:?}: {}", failure.text);
        assert!(failure.text.contains("resources.yaml"), "{text:?}: {}", failure.text);
        assert!(failure.text.contains(place), "{text:?}: {}", failure.text);
    }
}

#[test]
fn a_bootstrap_file_that_cannot_be_used_is_explained() {
    let cases = [
        ("workers: many\n", "workers"),
        ("wrokers: 1\n", "workers"),
        ("listen:\n  http: [nowhere]\n", "listen.http"),
        ("workers: [\n", "line"),
    ];
    for (text, place) in cases {
        let failure = gateway().bootstrap_text(text).fail();
        assert_eq!(failure.code, Some(2), "{text:?}: {}", failure.text);
        assert!(failure.text.contains("bootstrap.yaml"), "{text:?}: {}", failure.text);
        assert!(failure.text.contains(place), "{text:?}: {}", failure.text);
    }
}

#[test]
fn a_missing_file_is_no_reason_to_guess() {
    let failure = gateway().set("resources", "/nonexistent/routes.yaml").fail();
    assert_ne!(failure.code, Some(0));
    assert!(failure.text.contains("/nonexistent/routes.yaml"), "{}", failure.text);
}

#[test]
fn stopping_under_load_loses_no_request() {
    let origin = Origin::named("a");
    for reuse in [Reuse::KeepAlive, Reuse::Never] {
        let mut gateway = gateway_to(&origin);
        let load = Load::start(gateway.address(), 8, reuse, "/");
        load.wait_answers(500);
        gateway.terminate();
        assert_eq!(gateway.wait_exit().code(), Some(0));
        let report = load.join();
        assert_eq!(report.answers.keys().collect::<Vec<_>>(), ["200 a"]);
        assert_eq!(report.refused, 8, "every client was told");
        // A connection that the kernel has taken and the process has not is one that was refused.
        let is_accepted = |lost: &&String| !lost.ends_with("answers: 0 on this connection");
        assert_eq!(report.lost.iter().find(is_accepted), None, "{reuse:?}");
    }
}

#[test]
fn what_is_under_way_is_finished_before_the_end() {
    let origin = Origin::script(|connection| {
        if connection.head().is_some() && connection.wire.take(5).is_ok() {
            connection.send(answer(200, "finished"));
        }
    });
    let mut gateway = gateway_to(&origin);
    let mut busy = gateway.client();
    busy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    origin.wait_requests(1);
    let mut idle = gateway.client();
    gateway.terminate();
    // New connections are refused once the drain has begun.
    wait_for("a refusal", || TcpStream::connect(gateway.address()).err());
    let answer = busy.ask("hello");
    assert_eq!((answer.text().as_str(), answer.field("connection")), ("finished", Some("close")));
    busy.expect_end();
    idle.expect_end();
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn the_data_plane_drains_beside_the_registry_and_metrics_answer_until_it_has() {
    let origin = Origin::script(|connection| {
        if connection.head().is_some() && connection.wire.take(5).is_ok() {
            connection.send(answer(200, "finished"));
        }
    });
    let resources = everything_to(origin.address());
    let gateway = gateway().set("drain_time", "1h").registry();
    let mut gateway = gateway.resources(&resources).start();
    let (_, registry) = gateway.registry_addresses();
    let mut busy = gateway.client();
    busy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    origin.wait_requests(1);
    gateway.terminate();
    wait_for("a refusal", || TcpStream::connect(gateway.address()).err());
    wait_for("the registry's refusal", || TcpStream::connect(registry).err());
    // What operators look at is there for as long as a request is under way.
    assert_eq!(gateway.metric("tollhouse_requests_open"), 1.0);
    assert_eq!(busy.ask("hello").text(), "finished");
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn a_drain_has_an_end() {
    let origin = Origin::script(|connection| {
        connection.request();
        let _ = connection.wait_end();
    });
    let resources = everything_to(origin.address());
    let mut gateway = gateway().set("drain_time", "200ms").resources(&resources).start();
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_requests(1);
    gateway.terminate();
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn a_second_signal_cuts_what_is_under_way() {
    let origin = Origin::script(|connection| {
        connection.request();
        let _ = connection.wait_end();
    });
    let resources = everything_to(origin.address());
    let gateway = gateway().set("drain_time", "1h").registry();
    let mut gateway = gateway.resources(&resources).start();
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_requests(1);
    gateway.terminate();
    wait_for("a refusal", || TcpStream::connect(gateway.address()).err());
    gateway.terminate();
    client.expect_end();
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn a_successor_takes_over_under_load_and_nothing_is_lost() {
    let origin = Origin::named("a");
    let mut gateway = gateway_to(&origin);
    let kept = Load::start(gateway.address(), 4, Reuse::KeepAlive, "/kept");
    let fresh = Load::start(gateway.address(), 4, Reuse::Never, "/fresh");
    for workers in ["1", "3", "2"] {
        fresh.wait_answers(200);
        let successor = gateway.successor().flag("--upgrade").set("workers", workers).start();
        assert_eq!(gateway.wait_exit().code(), Some(0), "the predecessor ends");
        gateway = successor;
    }
    fresh.wait_answers(200);
    kept.wait_answers(200);
    for report in [kept.stop(), fresh.stop()] {
        assert_eq!((report.lost.as_slice(), report.refused), ([].as_slice(), 0));
        assert_eq!(report.answers.keys().collect::<Vec<_>>(), ["200 a"]);
    }
}

#[test]
fn a_successor_gets_the_side_ports_while_its_predecessor_still_drains() {
    let origin = Origin::script(|connection| {
        if connection.head().is_some() && connection.wire.take(5).is_ok() {
            connection.send(answer(200, "finished"));
        }
    });
    let ports = [ClosedPort::new(), ClosedPort::new()];
    let [control, metrics] = ports.map(|port| port.address().to_string());
    let resources = everything_to(origin.address());
    let gateway = gateway().set("listen.control", &control).set("listen.metrics", &metrics);
    let mut gateway = gateway.resources(&resources).start();
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    origin.wait_requests(1);
    let successor = gateway.successor().flag("--upgrade");
    let successor = successor.set("listen.control", &control).set("listen.metrics", &metrics);
    let successor = successor.start();
    assert_eq!(successor.revision(), 2, "the revision goes on");
    assert_eq!(client.ask("hello").text(), "finished");
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn a_successor_without_a_predecessor_says_so() {
    let failure = gateway().flag("--upgrade").resources(&json!({})).fail();
    assert_eq!(failure.code, Some(1));
    assert!(failure.text.contains("without --upgrade"), "{}", failure.text);
}

#[test]
fn a_successor_that_cannot_start_leaves_the_predecessor_serving() {
    let origin = Origin::named("a");
    let gateway = gateway_to(&origin);
    let broken = gateway.successor().flag("--upgrade").set("resources", "/nonexistent").fail();
    assert_ne!(broken.code, Some(0));
    assert_eq!(gateway.client().get("/").text(), "a");
    // And the next one can.
    let successor = gateway.successor().flag("--upgrade").start();
    assert_eq!(successor.client().get("/").text(), "a");
}

#[test]
fn a_crash_leaves_nothing_behind_that_hinders_a_new_start() {
    let origin = Origin::named("a");
    let mut gateway = gateway_to(&origin);
    for _ in 0..3 {
        let mut client = gateway.client();
        assert_eq!(client.get("/").text(), "a");
        gateway = gateway.kill().start();
    }
    assert_eq!(gateway.client().get("/").text(), "a");
}

#[test]
fn workers_share_one_port() {
    let origin = Origin::named("a");
    let resources = everything_to(origin.address());
    let mut gateway = gateway().set("workers", "4").resources(&resources).start();
    let load = Load::start(gateway.address(), 16, Reuse::Never, "/");
    load.wait_answers(500);
    let report = load.stop();
    assert_eq!((report.lost.len(), report.refused), (0, 0));
    gateway.terminate();
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn a_service_manager_is_told_when_it_serves_and_when_it_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a bound");
    let read = || {
        let mut buffer = [0; 256];
        let count = manager.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let mut gateway = gateway()
        .resources(&routes([]))
        .variable("NOTIFY_SOCKET", path.to_str().expect("text"))
        .start();
    let ready = read();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    assert!(ready.contains(&format!("MAINPID={}", gateway.process())), "{ready}");
    gateway.terminate();
    assert!(read().starts_with("STOPPING=1\n"));
    assert!(gateway.wait_exit().success());
}

#[test]
fn status_says_how_a_running_gateway_is() {
    let gateway = gateway().resources(&routes([json!({"id": "1", "uri": 7})])).start();
    let ask = |arguments: &[&str]| {
        let url = format!("http://{}", gateway.control_address());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollhouse"));
        run(command.arg("status").args(["--control", &url]).args(arguments))
    };
    let ran = ask(&[]);
    assert!(ran.status.success() && ran.text.contains(": ready, "), "{}", ran.text);
    assert!(ran.text.contains("set aside: "), "{}", ran.text);
    let ran = ask(&["--ready"]);
    assert!(ran.status.success() && ran.text.is_empty(), "{}", ran.text);
    let gone = gateway.control_address();
    drop(gateway);
    let url = format!("http://{gone}");
    let ran =
        run(Command::new(env!("CARGO_BIN_EXE_tollhouse")).args(["status", "--control", &url]));
    assert_eq!(ran.status.code(), Some(1), "{}", ran.text);
}
