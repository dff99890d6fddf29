//! A server of gRPC on a thread of its own, for one test.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tollhouse_polaris::grpc::{Counts, Options, Services, serve};

/// A running server. Stops when it is dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it counted.
    pub counts: Arc<Counts>,
    stop: watch::Sender<bool>,
    leap: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// How the clock of a server goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// As on the wall.
    Real,
    /// The same until [`Server::leap`]; then, whenever there is nothing to do, to the next timer. Until
    /// what clients sent has arrived there is nothing to do either, so that they say when.
    LeapsWhenAsked,
}

impl Server {
    /// Starts a server with the methods that `services` makes on its thread.
    pub fn start(services: impl FnOnce() -> Services + Send + 'static) -> Self {
        Self::start_with(services, Options::default(), listener(), Clock::Real)
    }

    /// The same with all that can be chosen.
    pub fn start_with(
        services: impl FnOnce() -> Services + Send + 'static,
        options: Options,
        listener: TcpListener,
        clock: Clock,
    ) -> Self {
        let address = listener.local_addr().expect("bound");
        let counts = Arc::clone(&options.counts);
        let (stop, stopped) = watch::channel(false);
        let (leap, mut leaps) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build_local(Default::default())
                .expect("a runtime");
            let serving = async {
                if clock == Clock::LeapsWhenAsked {
                    tokio::task::spawn_local(async move {
                        if leaps.wait_for(|leaps| *leaps).await.is_ok() {
                            tokio::time::pause();
                        }
                    });
                }
                serve(vec![listener], services(), options, stopped).await
            };
            runtime.block_on(serving).expect("served");
        });
        Self { address, counts, stop, leap, thread: Some(thread) }
    }

    /// Lets its time leap from here on.
    pub fn leap(&self) {
        self.leap.send(true).expect("it runs");
    }

    /// Tells it to stop and does not wait.
    pub fn stop(&self) {
        // Fails when it has ended already.
        let _ = self.stop.send(true);
    }

    /// Waits until it has ended.
    pub fn join(mut self) {
        let thread = self.thread.take().expect("joined once");
        thread.join().expect("the server did not panic");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

/// A listener on a port of the kernel's choice.
pub fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).expect("loopback can be bound")
}
