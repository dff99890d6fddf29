//! Detection of clients that leave while their socket is not read. Uses the events that the reactor
//! has seen, without a system call and without reading pending bytes.

use std::future::pending;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::Stream;

/// Meaning of a client's FIN while its response is pending. A RST always means that the client has
/// left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HalfClose {
    /// A half-closed connection counts as closed: the client has left.
    #[default]
    Abort,
    /// The client has sent everything and still reads.
    Wait,
}

/// Detector of the client's departure while its request is processed.
#[derive(Debug)]
pub struct Departure {
    socket: Arc<TcpStream>,
    signals: Interest,
}

impl Departure {
    /// Watches the socket of `stream`; `None` for a TLS stream to an upstream.
    pub fn watch(stream: &Stream, half_close: HalfClose) -> Option<Self> {
        // The reactor reports `ERROR` after a RST, and `PRIORITY` also after a FIN. Neither depends
        // on unread bytes, such as those of a pipelined request.
        let signals = match half_close {
            HalfClose::Abort => Interest::ERROR | Interest::PRIORITY,
            HalfClose::Wait => Interest::ERROR,
        };
        Some(Self { socket: Arc::clone(stream.client_socket()?), signals })
    }

    /// Returns once the client has left.
    pub async fn noticed(&self) {
        if self.socket.ready(self.signals).await.is_err() {
            // The reactor is shutting down; the drain ends the request.
            pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream as Far};
    use std::task::{Context, Waker};
    use std::time::Duration;

    use tokio::net::TcpListener;

    use super::*;

    /// Maximum duration of a wait, so that a hang fails with the name of the test.
    const PATIENCE: Duration = Duration::from_secs(10);

    async fn pair() -> (Far, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let far = Far::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (near, _) = listener.accept().await.expect("a connection");
        (far, Stream::from(near))
    }

    fn reset(far: Far) {
        let far = socket2::Socket::from(far);
        far.set_linger(Some(Duration::ZERO)).expect("a socket");
    }

    async fn notices(departure: &Departure) -> bool {
        tokio::time::timeout(PATIENCE, departure.noticed()).await.is_ok()
    }

    /// Waits until the reactor has seen the last action of `far`, which makes `near` readable.
    async fn is_pending_behind_a_read(stream: &Stream, departure: &Departure) -> bool {
        let mut noticed = std::pin::pin!(departure.noticed());
        let mut context = Context::from_waker(Waker::noop());
        let is_pending = noticed.as_mut().poll(&mut context).is_pending();
        std::future::poll_fn(|context| stream.poll_readable(context)).await.expect("readable");
        is_pending && noticed.as_mut().poll(&mut context).is_pending()
    }

    #[tokio::test]
    async fn a_reset_is_noticed_in_either_mode() {
        for half_close in [HalfClose::Abort, HalfClose::Wait] {
            let (far, near) = pair().await;
            let departure = Departure::watch(&near, half_close).expect("a client's socket");
            reset(far);
            assert!(notices(&departure).await, "{half_close:?}");
        }
    }

    #[tokio::test]
    async fn a_half_close_is_a_departure_only_where_the_setting_says_so() {
        let (far, near) = pair().await;
        far.shutdown(Shutdown::Write).expect("open");
        let departure = Departure::watch(&near, HalfClose::Abort).expect("a client's socket");
        assert!(notices(&departure).await);
        let departure = Departure::watch(&near, HalfClose::Wait).expect("a client's socket");
        assert!(is_pending_behind_a_read(&near, &departure).await);
        // Only a RST ends the wait in this mode.
        reset(far);
        assert!(notices(&departure).await);
    }

    #[tokio::test]
    async fn unread_bytes_are_no_departure_and_stay_where_they_are() {
        let (mut far, mut near) = pair().await;
        far.write_all(b"GET /next").expect("open");
        let departure = Departure::watch(&near, HalfClose::Abort).expect("a client's socket");
        assert!(is_pending_behind_a_read(&near, &departure).await);
        let mut bytes = [0; 16];
        let read = std::future::poll_fn(|context| near.poll_read(context, &mut bytes)).await;
        assert_eq!(&bytes[..read.expect("open")], b"GET /next");
        drop((departure, near));
        assert_eq!(far.read(&mut bytes).expect("closed"), 0);
    }
}
