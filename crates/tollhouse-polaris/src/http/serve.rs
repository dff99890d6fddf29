//! The listener in front of the API: bounded in connections and in how long each may be silent.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Most connections at a time; a further one waits to be accepted. Each costs a task and a buffer of
/// some 8 KiB.
const CONNECTIONS_MAX: usize = 4_096;

/// How long the head of a request may take, and how long a connection may idle between two.
const HEAD_TIME_MAX: Duration = Duration::from_secs(60);

/// How long the pause is after the listener failed, for want of descriptors usually.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long requests under way may take once the listener is told to stop.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(2);

/// Serves `router` until `stop` becomes true or has no sender left. At most `connections_max` are open
/// at a time, or [`CONNECTIONS_MAX`] if that is less.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    mut stop: watch::Receiver<bool>,
) {
    let connections_max = connections_max.min(CONNECTIONS_MAX);
    let mut connections = JoinSet::new();
    let stopping = stop.clone();
    let mut told = pin!(async move {
        let _ = stop.wait_for(|is_over| *is_over).await;
    });
    loop {
        tokio::select! {
            () = &mut told => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept(), if connections.len() < connections_max => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), stopping.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "the registry's HTTP listener cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN_TIME_MAX, drained).await;
}

async fn connection(stream: TcpStream, router: Router, mut stopping: watch::Receiver<bool>) {
    // Answers are short, and clients wait for each.
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let told = async move {
        let _ = stopping.wait_for(|is_over| *is_over).await;
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = told => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the registry's HTTP listener ended early");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn started() -> (std::net::SocketAddr, watch::Sender<bool>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback can be bound");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().route("/", axum::routing::get(async || "yes"));
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(serve(listener, router, usize::MAX, stopped));
        (address, stop)
    }

    #[tokio::test]
    async fn a_client_that_is_silent_holds_nobody_up_and_the_end_is_orderly() {
        let (address, stop) = started().await;
        let _silent = TcpStream::connect(address).await.expect("it listens");
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        client.write_all(request).await.expect("it reads");
        let mut head = [0; 15];
        client.read_exact(&mut head).await.expect("it answers");
        assert_eq!(&head, b"HTTP/1.1 200 OK");
        stop.send_replace(true);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("it closes");
        assert!(rest.ends_with(b"yes"));
    }
}
