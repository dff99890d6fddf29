//! Shared by the tests of this folder: loopback socket pairs on a separate runtime.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollhouse_net::Stream;

use crate::connection::buffer::BufferPool;
use crate::connection::link::Link;

/// Maximum duration of a socket test; far beyond the time needed, so that a hang fails with the
/// name of the test.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a test on a separate runtime.
pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("the test hangs") });
}

/// A gateway between a client and a node; holds one socket of each of the two pairs.
pub(super) struct Bench {
    pub(super) buffers: BufferPool,
    pub(super) downstream: Link,
    pub(super) upstream: Link,
    pub(super) client: Far,
    pub(super) node: Far,
}

impl Bench {
    pub(super) async fn new() -> Self {
        let (downstream, client) = pair().await;
        let (upstream, node) = pair().await;
        Self { buffers: BufferPool::default(), downstream, upstream, client, node }
    }
}

/// Puts `bytes` into the link's buffer, as if they had been read.
pub(super) fn fill(link: &mut Link, buffers: &BufferPool, bytes: &[u8]) {
    if link.buffer.is_absent() {
        link.buffer = buffers.take();
    }
    link.buffer.room()[..bytes.len()].copy_from_slice(bytes);
    link.buffer.add(bytes.len());
}

/// The far end of a connection, as a client or node holds it.
pub(super) struct Far(TcpStream);

impl Far {
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the gateway takes bytes");
    }

    /// Like [`Self::send`], but the gateway may break off; keeps the connection open forever.
    pub(super) async fn send_and_wait(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
        std::future::pending().await
    }

    /// Reads as many bytes as `expected` has and compares them.
    pub(super) async fn expect(&mut self, expected: &[u8]) {
        let mut found = vec![0; expected.len()];
        self.0.read_exact(&mut found).await.expect("the gateway sends enough");
        assert_same(&found, expected);
    }

    pub(super) async fn take_one(&mut self) -> [u8; 1] {
        let mut byte = [0];
        self.0.read_exact(&mut byte).await.expect("the gateway sends enough");
        byte
    }

    /// Reads to the end of the stream and compares.
    pub(super) async fn expect_end(&mut self, expected: &[u8]) {
        let mut found = Vec::new();
        self.0.read_to_end(&mut found).await.expect("the gateway ends the stream");
        assert_same(&found, expected);
    }

    /// Whether no unread bytes have arrived.
    pub(super) async fn is_quiet(&self) -> bool {
        // Lets the reactor poll first.
        tokio::task::yield_now().await;
        let read = self.0.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    pub(super) async fn finish(&mut self) {
        self.0.shutdown().await.expect("the connection is open");
    }

    /// Closes at once; unread bytes turn the close into a reset.
    pub(super) fn close(self) {}
}

/// Compares whole texts, but shows at most their first 200 bytes.
fn assert_same(found: &[u8], expected: &[u8]) {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    if found != expected {
        assert_eq!((found.len(), shown(found)), (expected.len(), shown(expected)));
        panic!("{} bytes differ behind the first 200", found.len());
    }
}

/// Bytes in which losses, repetitions and swaps are detectable.
pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    let words = (0_u32..).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(bytes).collect()
}

async fn pair() -> (Link, Far) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (far, _) = far.expect("a connection");
    (Link::new(Stream::from(near.expect("a connection"))), Far(far))
}
