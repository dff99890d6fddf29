//! Logging plugin for tests, with a runtime of its own for deliveries.

use std::sync::Arc;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tollhouse_plugin::testing::{FakeExchange, Harness, configure_among};
use tollhouse_plugin::{Catalogue, Plugin, PluginType, Services, Transfer};

pub(crate) struct TestLogger {
    harness: Harness,
    pub services: Arc<Services>,
    pub runtime: Runtime,
}

impl TestLogger {
    /// Creates a plugin with this conf.
    pub(crate) fn new<P: Plugin>(conf: &Value, metadata: Option<&Value>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut services = Services::new("APISIX/3.18.0");
        services.background = Some(runtime.handle().clone());
        let services = Arc::new(services);
        let catalogue = Catalogue::new([PluginType::new::<P>()]);
        let handler = configure_among::<P>(conf, &services, &catalogue, metadata);
        let harness = Harness::with(handler.expect("the conf is good"), Arc::clone(&services));
        Self { harness, services, runtime }
    }

    /// Logs a request that was answered "hello world".
    pub(crate) fn log(&mut self, request: &str) {
        let mut exchange = FakeExchange::parse(request, 0);
        assert!(self.harness.run(&mut exchange).passes());
        let head = "200\nContent-Type: text/plain\nServer: node/1.0\nX-A: 1\nX-A: 2";
        self.harness.respond(&mut exchange, head, &["hello ", "world"]);
        self.harness.log(&mut exchange, transfer());
    }

    /// Drops the plugin, which then delivers what it has collected.
    pub(crate) fn end(self) -> Runtime {
        self.runtime
    }
}

fn transfer() -> Transfer<'static> {
    Transfer {
        status: 200,
        upstream_status: Some(200),
        is_upstream_answer: true,
        bytes_received: 90,
        bytes_sent: 190,
        body_bytes_sent: 11,
        started_unix_ms: 1_700_000_000_000,
        request_ms: 12,
        upstream_ms: Some(10),
        upstream: "127.0.0.1:1980",
        route_id: "r1",
        ..Transfer::default()
    }
}
