//! Limit on how long one exchange occupies its core. All exchanges of a core are tasks of one
//! thread and are not preempted.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

/// Bytes that a task may move before it yields to others; takes a fraction of a millisecond.
pub(crate) const TURN_BYTES: usize = 256 * 1024;

/// Yields although the task could continue. The task is polled again after everything that is ready
/// now, including what has just arrived at a socket. The caller returns this result.
///
/// Waking the task directly would only place it behind other ready tasks, and the runtime polls its
/// sockets just once in 61 tasks: a single long body would then occupy the core for 61 turns.
#[inline]
pub(crate) fn give_way<T>(context: &mut Context<'_>) -> Poll<T> {
    // A single poll registers the task's waker with the runtime's deferred list, which is woken
    // after the sockets are polled.
    let _ = pin!(tokio::task::yield_now()).poll(context);
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::io::Write;
    use std::net::Ipv4Addr;
    use tokio::net::{TcpListener, TcpStream};

    #[test]
    fn who_gives_way_is_behind_what_has_arrived_at_a_socket() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let turns = Cell::new(0);
            let has_arrived = Cell::new(false);
            let busy = poll_fn(|context| {
                turns.set(turns.get() + 1);
                // By now the other task waits for its socket.
                if turns.get() == 10 {
                    client.write_all(b"x").unwrap();
                }
                if has_arrived.get() { Poll::Ready(()) } else { give_way(context) }
            });
            tokio::join!(busy, wait_for_a_byte(&server, &has_arrived));
            assert!(turns.get() < 15, "{} turns until a byte was seen", turns.get());
        });
    }

    async fn wait_for_a_byte(server: &TcpStream, has_arrived: &Cell<bool>) {
        server.readable().await.unwrap();
        has_arrived.set(true);
    }
}
