//! A worker of the data plane, and the configurations that an input may choose.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_model::Kind;
use tollhouse_proxy::Snapshot;
use tollhouse_proxy::worker::{Transport, WorkerListener};
use tollhouse_telemetry::metrics::Downstream;

use super::super::worker::{Listeners, Making, RunningWorker, settings};

/// Mark that the gateway writes into every request for a node, unknown to clients.
pub const MARK: &str = "5f0c1d8e9b7a4632";

/// Checks whether a configuration uses HTTP/2 to the node. Configurations come in pairs with the
/// same plugins, and the second of each pair does.
pub fn speaks_http2(configuration: usize) -> bool {
    configuration % 2 == 1
}

pub struct Gateway {
    address: SocketAddr,
    worker: RunningWorker,
    configurations: Vec<Configuration>,
}

/// Plugins of the route, with a name.
struct Configuration {
    name: String,
    snapshot: Arc<Snapshot>,
}

impl Gateway {
    /// Starts the worker with every configuration compiled.
    ///
    /// # Panics
    /// If a configuration does not compile, or the machine has no free port.
    pub fn start(node: SocketAddr, side: SocketAddr) -> Self {
        let settings = settings();
        let making = Making::new(&settings);
        let of_both = plugins(side)
            .into_iter()
            .chain(super::paths::plugins())
            .flat_map(|plugins| [(plugins.clone(), "1.1"), (plugins, "2")]);
        let configurations: Vec<Configuration> = of_both
            .map(|(plugins, version)| Configuration {
                name: format!("{plugins}, HTTP/{version} to the node"),
                snapshot: compile(&making, &plugins, (node, version)),
            })
            .collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("an open socket");
        let address = listener.local_addr().expect("an address");
        let http = vec![WorkerListener { socket: listener, transport: Transport::Plain }];
        let first = Arc::clone(&configurations[0].snapshot);
        let listeners = Listeners { http, ..Listeners::default() };
        let worker = RunningWorker::start(settings, first, listeners);
        Self { address, worker, configurations }
    }

    /// Returns the number of configurations.
    pub fn configurations(&self) -> usize {
        self.configurations.len()
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the worker's counts of clients.
    pub fn downstream(&self) -> Downstream {
        self.worker.metrics.downstream()
    }

    /// Publishes a configuration, and returns its name for a report.
    pub fn choose(&self, index: usize) -> &str {
        let chosen = &self.configurations[index];
        self.worker.snapshots.publish(Arc::clone(&chosen.snapshot));
        &chosen.name
    }
}

/// Returns the plugin sets; the mark is added to each for requests to the node.
fn plugins(side: SocketAddr) -> Vec<Value> {
    let rewrite = |conf: Value| json!({"proxy-rewrite": conf});
    let side = format!("http://{side}");
    let owned = super::owners::plugins(&side);
    let mut all = vec![
        json!({}),
        rewrite(json!({"uri": "/new$uri"})),
        rewrite(json!({"uri": "/a?p=$arg_q&h=$http_x_h"})),
        rewrite(json!({"uri": "/$arg_q/$http_x_h"})),
        rewrite(json!({"regex_uri": ["^/(.*)", "/lookup?id=$1"]})),
        rewrite(json!({"regex_uri": ["^/([^/]*)(.*)", "/$2/$1"]})),
        rewrite(json!({"headers": {"set": {"Host": "$arg_q"}}})),
        rewrite(
            json!({"headers": {"set": {"X-A": "$arg_q", "X-B": "$http_x_h"}, "remove": ["Content-Length", "Transfer-Encoding", "Connection"]}}),
        ),
        rewrite(json!({"method": "GET"})),
        rewrite(json!({"method": "HEAD"})),
        rewrite(json!({"method": "POST"})),
        rewrite(json!({"use_real_request_uri_unsafe": true})),
        json!({"response-rewrite": {"status_code": 204}}),
        json!({"response-rewrite": {"status_code": 304}}),
        json!({"response-rewrite": {"body": "rewritten", "headers": {"set": {"X-A": "$arg_q", "Location": "$uri"}}}}),
        json!({"response-rewrite": {"filters": [{"regex": "h(.*)o", "replace": "$1$1$1", "scope": "global"}]}}),
        json!({"mocking": {"response_status": 204, "response_example": "x"}}),
        json!({"mocking": {"response_status": 200, "response_example": "mocked"}}),
        json!({"fault-injection": {"abort": {"http_status": 204, "body": "x"}}}),
        json!({"fault-injection": {"abort": {"http_status": 503, "body": "$arg_q", "headers": {"X-A": "$arg_q"}}}}),
        json!({"workflow": {"rules": [{"case": [["arg_q", "==", "1"]], "actions": [["return", {"code": 204}]]}]}}),
        json!({"redirect": {"uri": "/to$uri?$arg_q"}}),
        json!({"redirect": {"regex_uri": ["^/(.*)", "/$1"]}}),
        json!({"redirect": {"http_to_https": true}}),
        json!({"gzip": {"types": "*", "min_length": 1}}),
        json!({"brotli": {"types": "*", "min_length": 1}}),
        json!({"key-auth": {"hide_credentials": true}}),
        json!({"basic-auth": {}}),
        json!({"cors": {"allow_origins": "**", "allow_methods": "**", "allow_headers": "**", "expose_headers": "**", "allow_credential": true}}),
        json!({"echo": {"before_body": "before ", "after_body": " after"}}),
        json!({"request-validation": {"body_schema": {"type": "object", "required": ["a"]}}}),
        json!({"request-id": {}}),
        json!({"real-ip": {"source": "arg_q"}}),
        json!({"limit-count": {"count": 1_000_000_000, "time_window": 60, "key": "request_uri", "key_type": "var"}}),
        json!({"proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 1}}),
        json!({"proxy-mirror": {"host": side}}),
        json!({"forward-auth": {"uri": format!("{side}/auth"), "request_headers": ["X-H", "Cookie"], "upstream_headers": ["X-User"]}}),
        json!({"forward-auth": {"uri": format!("{side}/auth"), "request_method": "POST"}}),
        json!({"opa": {"host": side, "policy": "p", "with_body": true}}),
        json!({"grpc-web": {}}),
        json!({"limit-conn": {"conn": 3, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"}}),
    ];
    all.extend(owned);
    all
}

/// Compiles a catch-all route with `plugins` and the mark.
fn compile(
    making: &Making<'_>,
    plugins: &Value,
    (node, version): (SocketAddr, &str),
) -> Arc<Snapshot> {
    let mut plugins = plugins.clone();
    plugins["proxy-rewrite"]["headers"]["set"]["X-Mark"] = json!(MARK);
    let route = json!({
        "uri": "/*",
        "enable_websocket": true,
        "plugins": plugins,
        "upstream": {
            "type": "roundrobin",
            "nodes": {node.to_string(): 1},
            "http_version": version,
            "timeout": {"connect": 1, "send": 1, "read": 1},
        },
    });
    let consumer = json!({"username": "one", "plugins": {
        "key-auth": {"key": "key-one"},
        "basic-auth": {"username": "foo", "password": "bar"},
    }});
    let other = json!({"username": "two", "plugins": {
        "key-auth": {"key": "key-two"},
        "basic-auth": {"username": "bar", "password": "foo"},
    }});
    making.compile([
        (Kind::Consumer, "one", consumer),
        (Kind::Consumer, "two", other),
        (Kind::Route, "r", route),
    ])
}
