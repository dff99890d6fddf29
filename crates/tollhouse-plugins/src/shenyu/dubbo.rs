//! Connections to Dubbo servers: pooled per core, one call at a time on each.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tollhouse_dubbo::{Frames, Invocation, Message, REPLY_VALUES_MAX, read_reply, write_request};
use tollhouse_shenyu_gateway::{CallError, CallResult};
use tollhouse_stdx::{MemoryBudget, Reservation};

/// Largest number of open connections per core. Each call occupies one, and clients can make any
/// number of calls.
const OPEN_MAX: usize = 1024;

/// Largest number of idle connections per server and core.
const KEPT_MAX: usize = 64;

/// Maximum duration for which an idle connection is kept. Servers close it after three minutes.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Memory of a JSON value, in bytes.
const VALUE_BYTES: u64 = 80;

/// Size of one read, in bytes.
const READ_BYTES: usize = 16 << 10;

struct Connection {
    stream: TcpStream,
    frames: Frames,
    next_id: u64,
    since: Instant,
    _open: Open,
}

thread_local! {
    static KEPT: RefCell<HashMap<String, Vec<Connection>>> = RefCell::default();
    static OPEN: Cell<usize> = const { Cell::new(0) };
}

/// Slot among the open connections of a core; freed on drop.
struct Open;

impl Open {
    fn take() -> Option<Self> {
        let open = OPEN.get();
        (open < OPEN_MAX).then(|| {
            OPEN.set(open + 1);
            Self
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // At the end of a thread the counter may already be gone.
        let _ = OPEN.try_with(|open| open.set(open.get().saturating_sub(1)));
    }
}

/// Calls a method on a server (`host:port`). The answer's bytes are reserved from `memory`.
pub(super) async fn call(
    server: &str,
    call: &Invocation<'_>,
    memory: &Arc<MemoryBudget>,
) -> Result<CallResult, CallError> {
    let timeout = Duration::from_millis(call.timeout_ms);
    match tokio::time::timeout(timeout, attempt(server, call, memory)).await {
        Ok(result) => result,
        // The connection is dropped too, so that a late answer is not taken for that of another
        // call.
        Err(_) => Err(CallError::TimedOut),
    }
}

async fn attempt(
    server: &str,
    call: &Invocation<'_>,
    memory: &Arc<MemoryBudget>,
) -> Result<CallResult, CallError> {
    let mut reservation = memory.take(0).ok_or_else(no_memory)?;
    let mut connection = match take(server) {
        Some(kept) => kept,
        None => connect(server).await?,
    };
    let (status, body) = connection.exchange(call, &mut reservation).await?;
    keep(server, connection);
    let (bytes, values) = (body.len() as u64, body.len().min(REPLY_VALUES_MAX) as u64);
    if !reservation.resize(bytes * 2 + values * VALUE_BYTES) {
        return Err(no_memory());
    }
    let value = read_reply(status, &body);
    let value = value.map_err(|failure| CallError::Failed(failure.to_string()))?;
    Ok(CallResult { value, held: reservation })
}

fn no_memory() -> CallError {
    CallError::Failed("not enough memory for the server's answer".to_owned())
}

async fn connect(server: &str) -> Result<Connection, CallError> {
    let unreachable = |reason: String| CallError::Unreachable(reason);
    let open = Open::take().ok_or_else(|| unreachable("too many connections".to_owned()))?;
    let stream =
        TcpStream::connect(server).await.map_err(|error| unreachable(error.to_string()))?;
    // Requests are small, and each waits for its answer.
    let _ = stream.set_nodelay(true);
    let (frames, since) = (Frames::default(), Instant::now());
    Ok(Connection { stream, frames, next_id: 1, since, _open: open })
}

/// Returns an idle connection that the server has not closed.
fn take(server: &str) -> Option<Connection> {
    loop {
        let kept = KEPT.with_borrow_mut(|kept| kept.get_mut(server)?.pop());
        let mut connection = kept?;
        if connection.since.elapsed() < IDLE_MAX && connection.is_alive() {
            return Some(connection);
        }
    }
}

fn keep(server: &str, mut connection: Connection) {
    connection.since = Instant::now();
    KEPT.with_borrow_mut(|kept| {
        if !kept.contains_key(server) {
            // A new server is a good moment to drop connections that are idle for too long.
            kept.retain(|_, waiting| {
                waiting.retain(|it| it.since.elapsed() < IDLE_MAX);
                !waiting.is_empty()
            });
        }
        let waiting = kept.entry(server.to_owned()).or_default();
        if waiting.len() < KEPT_MAX {
            waiting.push(connection);
        }
    });
}

impl Connection {
    /// Whether the connection is still open. Reads pending messages, such as heartbeats, and
    /// answers them.
    fn is_alive(&mut self) -> bool {
        let mut piece = [0; READ_BYTES];
        loop {
            match self.stream.try_read(&mut piece) {
                Ok(0) => return false,
                Ok(count) => self.frames.push(&piece[..count]),
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
            loop {
                match self.frames.message() {
                    Ok(Some(Message::Heartbeat(answer))) => {
                        // If the answer cannot be sent at once, the connection counts as closed.
                        if self.stream.try_write(&answer).ok() != Some(answer.len()) {
                            return false;
                        }
                    }
                    // A server sends a notice before it closes.
                    Ok(Some(Message::Notice)) | Err(_) => return false,
                    Ok(Some(Message::Reply { .. })) => {}
                    Ok(None) => break,
                }
            }
        }
    }

    /// Sends a call and returns the status and body of its answer.
    async fn exchange(
        &mut self,
        call: &Invocation<'_>,
        reservation: &mut Reservation,
    ) -> Result<(u8, Vec<u8>), CallError> {
        let failed = |error: &dyn std::fmt::Display| CallError::Failed(error.to_string());
        let id = self.next_id;
        self.next_id += 1;
        let sent = self.stream.write_all(&write_request(id, call)).await;
        sent.map_err(|error| failed(&error))?;
        let mut piece = vec![0; READ_BYTES];
        loop {
            while let Some(message) = self.frames.message().map_err(|error| failed(&error))? {
                match message {
                    Message::Reply { id: other, status, body } if other == id => {
                        return Ok((status, body));
                    }
                    Message::Heartbeat(answer) => {
                        let sent = self.stream.write_all(&answer).await;
                        sent.map_err(|error| failed(&error))?;
                    }
                    // Answer to a call that timed out: its id differs, and it is ignored.
                    Message::Reply { .. } | Message::Notice => {}
                }
            }
            match self.stream.read(&mut piece).await {
                Ok(0) => return Err(failed(&"the server closed the connection")),
                // Counted twice: as received bytes and as a message.
                Ok(count) if reservation.resize(reservation.bytes() + 2 * count as u64) => {
                    self.frames.push(&piece[..count]);
                }
                Ok(_) => return Err(no_memory()),
                Err(error) => return Err(failed(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream as StdStream};
    use tollhouse_testkit::ClosedPort;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .expect("a runtime");
        runtime.block_on(future)
    }

    /// Calls a server with an unlimited memory budget.
    async fn call(server: &str, call: &Invocation<'_>) -> Result<serde_json::Value, CallError> {
        let result = super::call(server, call, &MemoryBudget::unlimited()).await;
        result.map(|result| result.value)
    }

    fn invocation(timeout_ms: u64) -> Invocation<'static> {
        Invocation {
            service: "shop.Orders",
            version: "",
            group: "",
            method: "find",
            types: &[],
            arguments: &[],
            timeout_ms,
            attachments: &[],
        }
    }

    /// Reads a frame, which may arrive in pieces.
    fn frame(stream: &mut StdStream) -> Option<(u8, [u8; 8])> {
        let mut head = [0; 16];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
        let mut body = vec![0; length as usize];
        stream.read_exact(&mut body).ok()?;
        let [_, _, flags, _, id @ .., _, _, _, _] = head;
        Some((flags, id))
    }

    fn reply(id: [u8; 8], body: &[u8]) -> Vec<u8> {
        let mut made = vec![0xda, 0xbb, 2, 20];
        made.extend_from_slice(&id);
        made.extend_from_slice(&(body.len() as u32).to_be_bytes());
        made.extend_from_slice(body);
        made
    }

    #[test]
    fn calls_share_a_connection_and_heartbeats_are_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound").to_string();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut flags = Vec::new();
            for number in [0x91, 0x92] {
                let (call, id) = frame(&mut stream).expect("a call");
                // The server sends a heartbeat first.
                let heartbeat = [0xda, 0xbb, 0xe2, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, b'N'];
                stream.write_all(&heartbeat).expect("it is sent");
                let (answer, answered) = frame(&mut stream).expect("an answer");
                assert_eq!(answered, 9_u64.to_be_bytes());
                flags.extend([call, answer]);
                let bytes = reply(id, &[0x91, number]);
                for byte in bytes {
                    stream.write_all(&[byte]).expect("it is sent");
                }
            }
            flags
        });
        wait(async {
            assert_eq!(call(&server, &invocation(8000)).await, Ok(json!(1)));
            assert_eq!(call(&server, &invocation(8000)).await, Ok(json!(2)));
        });
        assert_eq!(serving.join().expect("it served"), [0xc2, 0x22, 0xc2, 0x22]);
    }

    #[test]
    fn an_answer_takes_its_bytes_of_the_budget_and_fails_where_there_are_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound").to_string();
        // Long text in Hessian 2: `S` and its length.
        const LETTERS: u16 = 40_000;
        let serving = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().expect("a client");
                let (_, id) = frame(&mut stream).expect("a call");
                let mut body = vec![0x91, b'S'];
                body.extend(LETTERS.to_be_bytes());
                body.resize(body.len() + usize::from(LETTERS), b'x');
                // The client closes the connection if it has no memory.
                let _ = stream.write_all(&reply(id, &body));
            }
        });
        wait(async {
            let scarce = MemoryBudget::new(u64::from(LETTERS));
            let refused = super::call(&server, &invocation(8000), &scarce).await;
            assert!(
                matches!(&refused, Err(CallError::Failed(why)) if why.contains("not enough memory"))
            );
            drop(refused);
            assert_eq!(scarce.held(), 0);
            let ample = MemoryBudget::new(16 << 20);
            let result = super::call(&server, &invocation(8000), &ample).await.expect("a text");
            assert!(ample.held() >= u64::from(LETTERS), "for as long as it is there");
            assert_eq!(result.value.as_str().map(str::len), Some(usize::from(LETTERS)));
            drop(result);
            assert_eq!(ample.held(), 0);
        });
        serving.join().expect("it served");
    }

    #[test]
    fn servers_that_are_silent_gone_or_others_fail_as_what_they_are() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = silent.local_addr().expect("it is bound").to_string();
        assert_eq!(wait(call(&address, &invocation(20))), Err(CallError::TimedOut));
        drop(silent);
        let closed = ClosedPort::new();
        let gone = wait(call(&closed.address().to_string(), &invocation(8000)));
        assert!(matches!(gone, Err(CallError::Unreachable(_))), "{gone:?}");
        let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = other.local_addr().expect("it is bound").to_string();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = other.accept().expect("a client");
            frame(&mut stream).expect("a call");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it is sent");
        });
        let failed = wait(call(&address, &invocation(8000)));
        assert!(matches!(failed, Err(CallError::Failed(_))), "{failed:?}");
        serving.join().expect("it served");
    }
}
