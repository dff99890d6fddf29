//! A switch to another protocol: the node's 101 goes to the client, then bytes both ways until both
//! sides have ended.

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

/// A node that has agreed; the client's 101 is written and not sent.
#[derive(Debug)]
pub(crate) struct Switched {
    /// The node's connection, of which the head has been taken.
    pub connection: Box<UpstreamConnection>,
    /// How long both sides may be silent.
    pub idle_time: Duration,
}

/// Sends the 101 and passes bytes both ways.
pub(crate) async fn run(cx: &mut Exchange<'_>, switched: Switched) -> After {
    let Switched { mut connection, idle_time } = switched;
    let (worker, client) = (cx.worker, &mut *cx.client);
    // While the head is still at the front of the client's buffer: the log shows it, whoever has
    // gone.
    if client.write_all(worker, &cx.state.out_down).await.is_err() {
        cx.state.record.code = Some(ErrorCode::DownstreamGone);
        return After::Close;
    }
    // The log will ask for the head; a tunnel may last for days and should not hold a buffer.
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
        // Either direction counts: a client that only listens is not idle.
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
