//! Listener for few clients, such as operators and probes, with a bounded number of connections and
//! an orderly stop.
//!
//! The caller defines the protocol. Clients that the caller does not expect get a few separate
//! places, in which they can be refused, so that they never take the places of expected clients.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollhouse_stdx::LogLimit;

/// Pause after an accept failure, which usually means a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Minimum time between log lines about accept failures.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of connections from addresses where no clients are expected (at the Admin API:
/// outside its allow list); a further one is closed at once.
pub const STRANGERS_MAX: usize = 32;

/// Name, connection limit and drain time of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Name of the listener in the log.
    pub name: &'static str,
    /// Maximum number of concurrent connections; further ones wait in the accept queue.
    pub connections_max: usize,
    /// Maximum time for open connections to end after the listener was asked to stop.
    pub drain_time: Duration,
}

/// Signal that becomes true when connections must end.
pub type Stopping = watch::Receiver<bool>;

/// Serves until `stop` is ready, then waits up to the drain time for open connections.
/// `is_expected` decides by the peer's address which connections count towards `connections_max`.
pub async fn serve<F>(
    listener: TcpListener,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
    is_expected: impl Fn(SocketAddr) -> bool,
    connection: impl Fn(TcpStream, SocketAddr, Stopping) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (stopped, stopping) = watch::channel(false);
    let (mut expected, mut strangers) = (JoinSet::new(), JoinSet::new());
    let failures = LogLimit::new(WARN_INTERVAL);
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = expected.join_next(), if !expected.is_empty() => {}
            Some(_) = strangers.join_next(), if !strangers.is_empty() => {}
            accepted = listener.accept(), if expected.len() < bounds.connections_max => match accepted {
                Ok((stream, peer)) => {
                    let is_expected = is_expected(peer);
                    if !is_expected && strangers.len() >= STRANGERS_MAX {
                        continue;
                    }
                    // Responses are short, and clients wait for each of them.
                    let _ = stream.set_nodelay(true);
                    let places = if is_expected { &mut expected } else { &mut strangers };
                    places.spawn(connection(stream, peer, stopping.clone()));
                }
                Err(error) => {
                    if let Some(suppressed) = failures.admit(Instant::now()) {
                        let listener = bounds.name;
                        tracing::warn!(%error, listener, suppressed, "connections cannot be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _ = stopped.send(true);
    let drained = async {
        while expected.join_next().await.is_some() {}
        while strangers.join_next().await.is_some() {}
    };
    let _ = tokio::time::timeout(bounds.drain_time, drained).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Sends a greeting, then waits for the end of either side.
    async fn greet(mut stream: TcpStream, _peer: SocketAddr, mut stopping: Stopping) {
        let _ = stream.write_all(b"!").await;
        let mut rest = Vec::new();
        tokio::select! {
            _ = stream.read_to_end(&mut rest) => {}
            _ = stopping.wait_for(|it| *it) => {}
        }
    }

    async fn greeting(address: SocketAddr) -> (TcpStream, usize) {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let count = stream.read(&mut [0]).await.unwrap_or(0);
        (stream, count)
    }

    async fn started(is_expected: bool) -> (SocketAddr, watch::Sender<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback can be bound");
        let address = listener.local_addr().expect("bound");
        let (stop, mut stopped) = watch::channel(());
        let bounds =
            Bounds { name: "test", connections_max: 2, drain_time: Duration::from_secs(9) };
        let stop_told = async move { while stopped.changed().await.is_ok() {} };
        tokio::spawn(serve(listener, bounds, stop_told, move |_| is_expected, greet));
        (address, stop)
    }

    #[tokio::test]
    async fn a_connection_beyond_the_bound_waits_for_a_place_and_the_end_ends_all() {
        let (address, stop) = started(true).await;
        let (first, second) = (greeting(address).await, greeting(address).await);
        let mut third = TcpStream::connect(address).await.expect("the kernel queues it");
        let mut byte = [0];
        let waiting = tokio::time::timeout(Duration::from_millis(50), third.read(&mut byte)).await;
        assert!(waiting.is_err(), "all places are taken");
        drop(first);
        assert_eq!(third.read(&mut byte).await.expect("its turn"), 1);
        drop(stop);
        assert_eq!(third.read(&mut byte).await.unwrap_or(0), 0);
        drop(second);
    }

    #[tokio::test]
    async fn strangers_have_few_places_and_are_closed_beyond_them() {
        let (address, _stop) = started(false).await;
        let mut held = Vec::new();
        for _ in 0..STRANGERS_MAX {
            let (stream, greeted) = greeting(address).await;
            assert_eq!(greeted, 1);
            held.push(stream);
        }
        assert_eq!(greeting(address).await.1, 0, "closed at once");
    }
}
