//! Origin server that follows a script and records the requests it receives.
//!
//! The script runs once per connection, on a separate thread. Ready-made scripts answer all
//! requests alike; `connection` has the HTTP functions for scripts.

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

/// Behaviour of an origin on one connection.
type Script = dyn Fn(&mut Connection) + Send + Sync;

/// Listening origin; stops listening when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// State shared by the threads of an origin.
#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Vec<Message>>,
    failures: Mutex<Vec<String>>,
    arrived: Condvar,
    connections: AtomicUsize,
    ended: AtomicBool,
}

impl Origin {
    /// Starts an origin that runs `script` for each connection.
    ///
    /// # Panics
    ///
    /// If loopback cannot be bound.
    pub fn script(script: impl Fn(&mut Connection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound");
        Self::on(listener, script)
    }

    /// Starts an origin on a listener that the test has prepared.
    ///
    /// # Panics
    ///
    /// If the listener is not bound.
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

    /// Starts an origin that answers every request with status 200 and its name.
    pub fn named(name: &str) -> Self {
        Self::answering(answer(200, name))
    }

    /// Starts an origin that answers every request with these bytes, and keeps connections open.
    pub fn answering(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::script(move |connection| {
            while connection.request().is_some() {
                connection.send(&bytes);
            }
        })
    }

    /// Starts an origin that answers one request per connection with these bytes, then closes it.
    pub fn closing_after(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::script(move |connection| {
            if connection.request().is_some() {
                connection.send(&bytes);
            }
        })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Returns all requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Message> {
        lock(&self.shared.requests).clone()
    }

    /// Returns the last request.
    ///
    /// # Panics
    ///
    /// If no request has arrived.
    pub fn last_request(&self) -> Message {
        lock(&self.shared.requests).last().cloned().expect("the origin was sent a request")
    }

    /// Waits until `count` requests have arrived, and returns them.
    ///
    /// # Panics
    ///
    /// If the deadline passes.
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

    /// Clears the record of received requests.
    pub fn forget(&self) {
        lock(&self.shared.requests).clear();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Wakes the accepting thread. An error means that it has ended.
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

/// Encodes a response with a body of known length.
pub fn answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}
