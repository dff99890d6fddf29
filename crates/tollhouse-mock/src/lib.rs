//! Mock upstream: answers HTTP/1, HTTP/2, gRPC and WebSocket requests with a configured delay and
//! configured bytes.
//!
//! [`Mock::start`] runs a [`Behaviour`] until the mock is dropped: one thread and runtime per core,
//! each with its own listening sockets. The crate shares only the codec with the gateway and
//! measures nothing; its counters serve to check those of the generator.

#![forbid(unsafe_code)]

mod answers;
mod behaviour;
mod choice;
mod counts;
mod deadlines;
mod error;
mod grpc;
mod http1;
mod http2;
mod latency;
mod replayed;
mod tls;
mod websocket;
mod wire;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::watch;
use tollhouse_net::{ListenError, Listeners};

pub use behaviour::{BODY_BYTES_MAX, Behaviour, Body, Grpc, GrpcAnswer, Tls};
pub use choice::{Share, Statuses};
pub use counts::Totals;
pub use error::MockError;
pub use latency::{Latency, Shape, Stall};

use worker::Shared;

/// A running mock upstream; stops when dropped.
#[derive(Debug)]
pub struct Mock {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Mock {
    /// Starts listening and serving on separate threads.
    ///
    /// # Errors
    /// If the behaviour is contradictory, an address cannot be listened on, or a certificate cannot
    /// be used.
    pub fn start(behaviour: Behaviour) -> Result<Self, MockError> {
        behaviour.check()?;
        let workers = match behaviour.workers {
            0 => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            workers => workers,
        };
        let tls = tls::acceptor(&behaviour)?;
        let (addresses, sockets) = bind(&behaviour.listen, workers)?;
        let shared = Arc::new(Shared::new(&behaviour, workers, tls));
        let (stop, stopped) = watch::channel(false);
        let (begun, beginning) = mpsc::sync_channel(workers);
        let mut mock = Self { addresses, shared, stop, threads: Vec::with_capacity(workers) };
        for (index, listeners) in sockets.into_iter().enumerate() {
            let (shared, stopped) = (Arc::clone(&mock.shared), stopped.clone());
            let begun = begun.clone();
            let thread = std::thread::Builder::new()
                .name(format!("mock-{index}"))
                .spawn(move || worker::run(shared, index, listeners, stopped, &begun));
            mock.threads.push(thread.map_err(cannot_start)?);
        }
        drop(begun);
        // Waits until every thread listens, because the caller connects at once.
        for _ in 0..workers {
            let begun = beginning.recv();
            begun.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(cannot_start)?;
        }
        Ok(mock)
    }

    /// Returns the first listening address, with the port chosen by the kernel.
    ///
    /// # Panics
    /// Never: a behaviour without an address is rejected.
    pub fn address(&self) -> SocketAddr {
        *self.addresses.first().expect("a mock listens on an address at least")
    }

    /// Returns all listening addresses, in the configured order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> u64 {
        self.totals().connections
    }

    /// Returns the number of received requests, gRPC calls and WebSocket messages.
    pub fn requests(&self) -> u64 {
        self.totals().requests
    }

    /// Returns the counters, summed over all workers.
    pub fn totals(&self) -> Totals {
        Totals::sum(self.shared.counts.iter())
    }

    /// Returns the number of worker threads.
    pub fn workers(&self) -> usize {
        self.shared.counts.len()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // Fails only if no thread is left.
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it on standard error.
            let _ = thread.join();
        }
    }
}

/// Listens on all addresses; returns one list of sockets per worker.
fn bind(
    asked: &[SocketAddr],
    workers: usize,
) -> Result<(Vec<SocketAddr>, Vec<Vec<TcpListener>>), MockError> {
    let mut addresses = Vec::with_capacity(asked.len());
    let mut sockets: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
    for address in asked {
        let listeners = Listeners::bind(*address, workers).map_err(explain)?;
        addresses.push(listeners.address);
        for (of_worker, socket) in sockets.iter_mut().zip(listeners.sockets) {
            of_worker.push(socket);
        }
    }
    Ok((addresses, sockets))
}

fn explain(error: ListenError) -> MockError {
    if error.reason.kind() != io::ErrorKind::AddrInUse {
        return MockError::Machine(error.to_string());
    }
    MockError::Machine(format!(
        "cannot listen on {address}: port {port} is in use; see `ss -ltnp 'sport = :{port}'`, or choose \
         another with --listen",
        address = error.address,
        port = error.address.port()
    ))
}

fn cannot_start(error: io::Error) -> MockError {
    MockError::System { doing: "starting a worker of the mock".into(), error }
}
