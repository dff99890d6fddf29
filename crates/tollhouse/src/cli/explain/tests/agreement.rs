//! The same requests put to `explain` and to a running data plane must take the same routes.
//!
//! Every route rewrites `Host` to its own id, and the echo upstream returns the `Host` that it got.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollhouse_net::Listeners;
use tollhouse_proxy::SnapshotCell;
use tollhouse_proxy::worker::Transport;
use tollhouse_telemetry::Metrics;
use tollhouse_testkit::RawClient;

use super::*;
use tollhouse_control::feed::echo;
use tollhouse_control::process::cores::{CoreParts, Cores, Entrance};

const ROUTES: &str = r#"[
    {"id": "exact", "uri": "/a"},
    {"id": "prefix", "uri": "/a/*"},
    {"id": "middle", "uri": "/a/*/end", "methods": ["GET"]},
    {"id": "post", "uri": "/post", "methods": ["POST"], "vars": [["post_arg_n", "==", "1"]]},
    {"id": "json", "uri": "/post", "vars": [["post_arg.a.b[1]", "==", "x"]]},
    {"id": "host", "uri": "/a", "host": "*.b.com"},
    {"id": "port", "uri": "/p", "host": "b.com:8080"},
    {"id": "vars", "uri": "/v", "vars": [["arg_q", "~~", "^[a-c]+$"], ["http_x_y", "==", "z"]]},
    {"id": "cookie", "uri": "/v", "vars": [["cookie_c", "in", ["1", "2"]]]},
    {"id": "method", "uri": "/v", "vars": [["request_method", "==", "PUT"]]},
    {"id": "args", "uri": "/v", "vars": [["args", "==", "a=b&c"], ["is_args", "==", "?"]]},
    {"id": "target", "uri": "/v", "vars": [["real_request_uri", "==", "//v?z"],
        ["request_uri", "==", "/v?z"], ["uri", "==", "/v"]]},
    {"id": "client", "uri": "/c", "remote_addr": "127.0.0.1/32"},
    {"id": "line", "uri": "/l", "vars": [["request", "==", "GET /l HTTP/1.1"],
        ["server_protocol", "==", "HTTP/1.1"], ["scheme", "==", "http"], ["host", "==", "h.com"]]},
    {"id": "off", "uri": "/off", "status": 0},
    {"id": "space", "uri": "/s p/é"}
]"#;

/// Host and target of the request, and further options of `explain`.
type Case = (&'static str, &'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    ("h.com", "/a", &[]),
    ("h.com", "/a/", &[]),
    ("h.com", "//a", &[]),
    ("h.com", "/x/../a", &[]),
    ("h.com", "/%61", &[]),
    ("h.com", "/a/b/c/end", &[]),
    ("h.com", "/a/b/c/end", &["-X", "DELETE"]),
    ("h.com", "/..", &[]),
    ("h.com", "/A", &[]),
    ("x.b.com", "/a", &[]),
    ("X.B.COM:99", "/a", &[]),
    ("b.com", "/a", &[]),
    ("b.com:8080", "/p", &[]),
    ("b.com", "/p", &[]),
    ("h.com", "/post", &["-d", "m=2&n=1"]),
    ("h.com", "/post", &["-d", "n=2"]),
    (
        "h.com",
        "/post",
        &["-d", "{\"a\":{\"b\":[0,\"x\"]}}", "-H", "Content-Type: application/json"],
    ),
    ("h.com", "/post", &["-d", "n=1", "-H", "Content-Type: text/plain"]),
    ("h.com", "/v?q=abc", &["-H", "X-Y: z"]),
    ("h.com", "/v?q=abcd", &["-H", "X-Y: z"]),
    ("h.com", "/v", &["-H", "Cookie: a=1; c=2"]),
    ("h.com", "/v", &["-X", "PUT"]),
    ("h.com", "/v?a=b&c", &[]),
    ("h.com", "//v?z", &[]),
    ("h.com", "/c", &[]),
    ("h.com", "/l", &[]),
    ("h.com", "/off", &[]),
    ("h.com", "/s%20p/%C3%A9", &[]),
    ("h.com", "/none", &[]),
];

/// Data plane with one core and the routes above.
struct Plane {
    cores: Cores,
    address: SocketAddr,
    loaded: ExplainInput,
    runtime: Runtime,
}

impl Plane {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let echo = runtime.block_on(echo::start()).expect("the echo upstream starts");
        let routes = json!({ "routes": routes(echo) }).to_string();
        let loaded = loaded(&routes, settings(&[("drain_time", "1s")]));
        let served = Offline::compile(&loaded, runtime.handle(), View::AsServed);
        let listeners = Listeners::bind(([127, 0, 0, 1], 0).into(), 1).expect("a free port");
        let address = listeners.address;
        let entrance = Entrance { listeners, transport: Transport::Plain };
        let parts = CoreParts {
            settings: Arc::new(loaded.settings.clone()),
            snapshots: Arc::new(SnapshotCell::new(served.snapshot)),
            metrics: Arc::new(Metrics::new()),
            log: None,
            tracer: None,
        };
        let cores = Cores::start(1, vec![entrance].into(), &parts).expect("a core starts");
        Self { cores, address, loaded, runtime }
    }

    /// Returns the id of the route that the request takes in the data plane.
    fn served_by(&self, arguments: &ExplainArguments) -> Option<String> {
        let mut client = RawClient::connect(self.address);
        let body = arguments.body.as_deref().unwrap_or_default();
        let head = tollhouse_control::explain::head_text(&arguments.asked());
        let response = client.ask(format!("{head}{body}"));
        if response.status() != 200 {
            return None;
        }
        let seen: Value = serde_json::from_str(&response.text()).expect("the echo's JSON");
        let host = seen["headers"]["host"].as_str().expect("a host");
        Some(host.trim_end_matches(".route").to_owned())
    }

    /// Returns the id of the route that `explain` reports.
    fn explained(&self, arguments: &ExplainArguments) -> Option<String> {
        let handle = self.runtime.handle();
        let offline = Offline::compile(&self.loaded, handle, View::AsServed);
        let question = Question::ask(&arguments.asked(), &self.loaded.settings).ok()?;
        let winner = Decision::make(&offline.snapshot, &question).winner?;
        Some(winner.entry.route.id.to_string())
    }
}

fn routes(echo: SocketAddr) -> Vec<Value> {
    let mut routes: Vec<Value> = serde_json::from_str(ROUTES).expect("valid JSON");
    for route in &mut routes {
        let host = format!("{}.route", route["id"].as_str().expect("an id"));
        route["upstream"] = json!({
            "nodes": { (echo.to_string()): 1 }, "pass_host": "rewrite", "upstream_host": host,
        });
    }
    routes
}

#[test]
fn explain_and_the_data_plane_choose_the_same_route() {
    let plane = Plane::start();
    let mut matched = std::collections::BTreeSet::new();
    for (host, target, options) in CASES {
        let url = format!("http://{host}{target}");
        let mut line = vec!["--url", url.as_str()];
        line.extend_from_slice(options);
        let arguments = arguments(&line);
        let served = plane.served_by(&arguments);
        assert_eq!(plane.explained(&arguments), served, "{line:?}");
        matched.extend(served);
    }
    // Every route except the disabled one is matched by a case.
    assert_eq!(matched.len(), routes(plane.address).len() - 1, "{matched:?}");
    plane.cores.begin_drain();
    plane.cores.join();
}
