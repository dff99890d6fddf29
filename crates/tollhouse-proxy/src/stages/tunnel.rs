//! Switch to another protocol: sends the node's 101 to the client, then relays bytes in both
//! directions until both have ended.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::Poll;
use std::time::Duration;

use tollhouse_telemetry::ErrorCode;

use crate::connection::after::After;
use crate::connection::buffer::Buffer;
use crate::exchange::Exchange;
use crate::transfer::Sides;
use crate::transfer::tunnel::Tunnel;
use crate::worker::pools::UpstreamConnection;

/// An accepted switch; the 101 response is written but not sent to the client.
#[derive(Debug)]
pub(crate) struct Switched {
    /// Connection to the node; its response head is consumed.
    pub connection: Box<UpstreamConnection>,
    /// Maximum time without a byte in either direction.
    pub idle_time: Duration,
}

/// Sends the 101 response and relays bytes in both directions.
pub(crate) async fn run(cx: &mut Exchange<'_>, switched: Switched) -> After {
    let Switched { mut connection, idle_time } = switched;
    let (worker, client) = (cx.worker, &mut *cx.client);
    // The request head stays at the front of the client's buffer, because the log shows it even if
    // the client has left.
    if client.write_all(worker, &cx.state.out_down).await.is_err() {
        cx.state.record.code = Some(ErrorCode::DownstreamGone);
        return After::Close;
    }
    // The head is copied for the log, because a tunnel may last for days and should not occupy a
    // buffer.
    let head_bytes = cx.state.head.head_bytes;
    let head = Buffer::holding(&client.request_bytes()[..head_bytes]);
    client.link.buffer.consume(head_bytes);
    let mut tunnel = Tunnel::default();
    let mut moved = None;
    let ended = poll_fn(|context| {
        let mut sides = Sides::new(&worker.buffers, &mut client.link, &mut connection.link);
        let flow = tunnel.poll(context, &mut sides);
        if flow.is_ready() {
            return flow;
        }
        if client.link.stream.withdrawn().is_some() {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        // Bytes in either direction count, so a client that only receives is not idle.
        if moved != Some(tunnel.bytes()) {
            moved = Some(tunnel.bytes());
            client.arm(worker, idle_time);
            return Poll::Pending;
        }
        if client.is_late(worker) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await;
    let (_, down) = tunnel.bytes();
    cx.state.record.body_bytes_sent = down;
    cx.state.record.bytes_sent = down + cx.state.out_down.len() as u64;
    if let Err(error) = ended {
        tracing::debug!(%error, "tunnel broke off");
    }
    connection.link.release_buffer(&worker.buffers);
    client.link.release_buffer(&worker.buffers);
    client.link.buffer = head;
    After::Close
}
