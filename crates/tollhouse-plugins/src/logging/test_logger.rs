//! Logging plugin for tests, with a runtime of its own for deliveries.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tollhouse_net::listener_tls::ListenerTls;
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

/// Connection that a log server over TLS received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TlsDelivery {
    /// Server name in the handshake.
    pub server_name: Option<String>,
    pub text: String,
    /// Whether the client closed the connection in order.
    pub is_ended: bool,
}

/// Log server over TLS that accepts one connection. Its certificate is for `other.test`, signed by
/// itself.
pub(crate) struct TlsServer {
    pub address: SocketAddr,
    listener: TcpListener,
    tls: ListenerTls,
}

impl TlsServer {
    pub(crate) fn new() -> Self {
        let made =
            rcgen::generate_simple_self_signed(["other.test".to_owned()]).expect("a certificate");
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let tls = ListenerTls::from_pem(cert.as_bytes(), key.as_bytes(), None).expect("a pair");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        Self { address, listener, tls }
    }

    /// Accepts a connection and reads it to its end.
    pub(crate) fn serve(self, runtime: &Runtime) -> Receiver<TlsDelivery> {
        let (sender, received) = mpsc::channel();
        let Self { listener, tls, .. } = self;
        runtime.spawn(async move {
            listener.set_nonblocking(true).expect("a socket");
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let (stream, _) = listener.accept().await.expect("a connection");
            // A client that does not trust the certificate ends the handshake.
            let Ok(mut stream) = tls.accept(stream).await else { return };
            let server_name = stream.get_ref().1.server_name().map(str::to_owned);
            let mut text = String::new();
            let end = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut text).await;
            // The receiver is gone after a failure.
            let _ = sender.send(TlsDelivery { server_name, text, is_ended: end.is_ok() });
        });
        received
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
