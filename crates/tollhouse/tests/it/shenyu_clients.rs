//! ShenYu's own client for Spring MVC, unmodified, in two versions: a service registers itself, is routed,
//! leaves and comes back.
//!
//! `cargo x install` builds it (source in `tests/interop`); a machine without one skips its test.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tollhouse_testkit::Gateway;
use tollhouse_testkit::program::{self, Running};

use crate::support::{gateway, listener_named};

/// A service in Java takes seconds to start and to leave, and on a machine that compiles beside it a minute was
/// seen: this bounds a hang and measures nothing.
const PATIENCE: Duration = Duration::from_secs(180);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(20);

struct Service {
    running: Running,
}

impl Service {
    fn start(program: &std::path::Path, admin: SocketAddr) -> Self {
        let running = Running::start(Command::new(program).arg(admin.to_string()));
        let is_serving = |line: &str| (line == "serving").then_some(());
        running.output().wait_line_within(PATIENCE, "serving", is_serving);
        Self { running }
    }
}

/// Waits until a request gets an answer that has this in it.
fn wait_answer(gateway: &Gateway, path: &str, text: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = gateway.client().get(path).text();
        if answer.contains(text) {
            return;
        }
        assert!(Instant::now() < end, "waited in vain for {text} from {path}: {answer}");
        std::thread::park_timeout(PAUSE);
    }
}

fn serve_with_client(version: &str) {
    let Some(program) = program::find(&format!("shenyu-springmvc-{version}")) else { return };
    let gateway = gateway().without_resources().set("listen.shenyu", "127.0.0.1:0").start();
    let admin = listener_named(&gateway, "shenyu");
    for round in ["at first", "again, on another port"] {
        let service = Service::start(&program, admin);
        wait_answer(&gateway, "/shop/orders/find?id=7", "{\"found\":\"7\"}");
        wait_answer(&gateway, "/shop/orders/of/me/all", "{\"customer\":\"me\"}");
        let order = "{\"number\":1}";
        let saved = gateway.client().ask(format!(
            "POST /shop/orders/save HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{order}",
            order.len()
        ));
        assert_eq!(saved.text(), "{\"saved\":{\"number\":1}}", "{round}");
        let unknown = gateway.client().get("/shop/orders/other");
        assert!(unknown.text().contains("Rule not found!"), "{round}: {}", unknown.text());
        service.running.interrupt();
        wait_answer(&gateway, "/shop/orders/find?id=7", "\"code\":-119");
    }
}

#[test]
fn a_service_with_shenyus_client_2_5_0_is_routed_leaves_and_comes_back() {
    serve_with_client("2.5.0");
}

#[test]
fn a_service_with_shenyus_client_2_6_1_is_routed_leaves_and_comes_back() {
    serve_with_client("2.6.1");
}
