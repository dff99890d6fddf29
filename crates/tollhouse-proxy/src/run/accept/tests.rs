//! How many connections a core takes, and what it does with those beyond.

use std::io::Read;
use std::net::TcpStream as Far;

use tokio::net::TcpListener;
use tokio::task::yield_now;
use tollhouse_telemetry::StatusClass;

use super::*;
use crate::settings::Limits;
use crate::testing;

/// Longer than any test of sockets takes: a hang fails with a name.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes of the future that a function returns.
fn future_bytes<A, B, C, F>(_function: impl Fn(A, B, C) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn a_connection_that_waits_holds_nothing_of_a_request() {
    let bytes = future_bytes(super::connection);
    assert!(bytes <= 768, "{bytes} bytes");
}

/// Runs `test` with connections that the worker is given one by one.
fn run(test: impl AsyncFnOnce(Rc<Worker>, TcpListener)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let runtime = runtime.expect("a runtime");
    let limits = Limits { connections_per_worker: 1, ..Limits::default() };
    let worker = testing::worker(limits);
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let test = test(worker, listener);
        tokio::time::timeout(PATIENCE, test).await.expect("the test hangs");
    });
}

/// One more client, whose other end the worker has.
async fn connect(worker: &Rc<Worker>, listener: &TcpListener) -> Far {
    let far = Far::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (near, peer) = listener.accept().await.expect("a connection");
    start(worker, near, peer);
    far
}

#[test]
fn a_flood_holds_no_more_connections_than_are_answered() {
    run(async |worker, listener| {
        let mut clients = Vec::new();
        for _ in 0..1 + REFUSED_OPEN_MAX {
            clients.push(connect(&worker, &listener).await);
        }
        for _ in 0..8 {
            let mut bytes = Vec::new();
            let mut client = connect(&worker, &listener).await;
            client.read_to_end(&mut bytes).expect("it is closed at once");
            assert_eq!(bytes, b"", "without a word");
        }
        assert_eq!(worker.refused_open.get(), REFUSED_OPEN_MAX);
        assert_eq!(worker.open.len(), 1 + REFUSED_OPEN_MAX);
        let open = worker.metrics.downstream_connections_open.value();
        assert_eq!(open, 1 + REFUSED_OPEN_MAX as i64);

        // Those that go make room for others to be answered.
        clients.truncate(1);
        while worker.refused_open.get() > 0 {
            yield_now().await;
        }
        let mut client = connect(&worker, &listener).await;
        while worker.metrics.requests.get(StatusClass::from_status(503)).value()
            <= REFUSED_OPEN_MAX as u64
        {
            yield_now().await;
        }
        let mut answer = [0; 12];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 503");
    });
}
