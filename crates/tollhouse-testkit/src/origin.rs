//! An origin server that does what a test says, and remembers what it was sent.
//!
//! A script runs once for each connection, on a thread of its own. Ready-made scripts answer every
//! request alike; what they need of HTTP is in `connection`.

mod connection;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use connection::Connection;

use crate::message::Message;
use crate::patience::DEADLINE;
use crate::wire::Wire;

/// What an origin does with one connection.
type Script = dyn Fn(&mut Connection) + Send + Sync;

/// A listening origin; it stops listening when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What the threads of an origin share.
#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Vec<Message>>,
    failures: Mutex<Vec<String>>,
    arrived: Condvar,
    connections: AtomicUsize,
    ended: AtomicBool,
}

impl Origin {
    /// An origin that runs `script` for each connection.
    ///
    /// # Panics
    /// When loopback cannot be listened on.
    pub fn script(script: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
        Self::on(listener, script)
    }

    /// The same on a listener that a test has prepared.
    ///
    /// # Panics
    /// When the listener is not bound.
    pub fn on(
        listener: TcpListener,
        script: impl Fn(&mut Connection) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("the listener is bound");
        let shared = Arc::new(Shared::default());
        let script: Arc<Script> = Arc::new(script);
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &accepting, &script));
        Self { address, shared }
    }

    /// An origin that answers every request with 200 and its own name.
    pub fn named(name: &str) -> Self {
        Self::answering(answer(200, name))
    }

    /// An origin that answers every request with these bytes, and keeps its connections.
    pub fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::script(move |connection| {
            while connection.request().is_some() {
                connection.send(&bytes);
            }
        })
    }

    /// An origin that answers every request with these bytes and then closes the connection.
    pub fn closing_after(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::script(move |connection| {
            if connection.request().is_some() {
                connection.send(&bytes);
            }
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Every request read so far, in order of arrival.
    pub fn requests(&self) -> Vec<Message> {
        lock(&self.shared.requests).clone()
    }

    /// The last request read.
    ///
    /// # Panics
    /// When there was none.
    pub fn last_request(&self) -> Message {
        lock(&self.shared.requests).last().cloned().expect("the origin was sent a request")
    }

    /// Waits until `count` requests have been read, and gives all of them.
    ///
    /// # Panics
    /// When the deadline passes.
    pub fn wait_requests(&self, count: usize) -> Vec<Message> {
        let end = Instant::now() + DEADLINE;
        let mut requests = lock(&self.shared.requests);
        while requests.len() < count {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} requests instead of {count}", requests.len());
            let waited = self.shared.arrived.wait_timeout(requests, left);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        requests.clone()
    }

    /// Forgets all requests read so far.
    pub fn forget(&self) {
        lock(&self.shared.requests).clear();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the accepting thread; an error means that it has ended.
        let _ = TcpStream::connect(self.address);
        let failures = lock(&self.shared.failures);
        if !std::thread::panicking() {
            assert!(failures.is_empty(), "an origin's script failed: {failures:?}");
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, script: &Arc<Script>) {
    for stream in listener.incoming() {
        if shared.ended.load(Ordering::Acquire) {
            return;
        }
        let Ok(wire) = stream.and_then(Wire::new) else { continue };
        let number = shared.connections.fetch_add(1, Ordering::AcqRel);
        let (shared, script) = (Arc::clone(shared), Arc::clone(script));
        std::thread::spawn(move || {
            let mut connection = Connection::new(wire, number, Arc::clone(&shared));
            let run = catch_unwind(AssertUnwindSafe(|| script(&mut connection)));
            if run.is_err() {
                lock(&shared.failures).push(format!("connection {number}"));
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A plain answer with a body of known length.
pub fn answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
