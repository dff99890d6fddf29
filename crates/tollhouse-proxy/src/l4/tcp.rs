//! Life of a TCP connection: accept, admission, first bytes, routing, connecting to a node,
//! relaying and accounting.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::TcpStream;
use tollhouse_net::{Stream, proxy_protocol};
use tollhouse_telemetry::ErrorCode;

use super::connection::{Connection, Ends, FirstBytes, Transport};
use super::listener::{HeaderIn, StreamOptions};
use super::node::{self, OverTcp};
use super::plugins::{self, Refusal};
use super::relay::{self, Times};
use super::{finish, preamble};
use crate::connection::link::Link;
use crate::run::accept::Entry;
use crate::snapshot::UpstreamEntry;
use crate::stages::attempt::header_version;
use crate::worker::Worker;
use crate::worker::pools::UpstreamConnection;

/// Status of a connection that reached a node.
const SERVED_STATUS: u16 = 200;

/// Starts serving a connection. A connection beyond the limits is closed at once, because the
/// response format is unknown.
pub(crate) fn start(
    worker: &Rc<Worker>,
    options: StreamOptions,
    stream: TcpStream,
    peer: SocketAddr,
) {
    worker.metrics.stream_connections.increment();
    let mut entry = Entry::begin(worker);
    // A proxy is not a client; its clients are counted once the PROXY header is read.
    let client = (options.header_in == HeaderIn::Absent).then(|| peer.ip());
    if let Err(code) = entry.admit(client) {
        return worker.metrics.stream_failed.increment(code);
    }
    tokio::task::spawn_local(serve(entry, options, stream, peer));
}

/// Counts an open connection until its task ends.
struct OpenCount<'w>(&'w Worker);

impl<'w> OpenCount<'w> {
    fn new(worker: &'w Worker) -> Self {
        worker.metrics.stream_connections_open.increment();
        Self(worker)
    }
}

impl Drop for OpenCount<'_> {
    fn drop(&mut self) {
        self.0.metrics.stream_connections_open.decrement();
    }
}

async fn serve(mut entry: Entry, options: StreamOptions, stream: TcpStream, peer: SocketAddr) {
    entry.enter().await;
    let worker = Rc::clone(entry.worker());
    let _open = OpenCount::new(&worker);
    let local = stream.local_addr().unwrap_or(peer);
    let ends = Ends { client: peer, peer, local, listener: local };
    let first = FirstBytes::Link(Link::new(Stream::from(stream)));
    let mut connection = Connection::new(&worker, Transport::Tcp, ends, first);
    connection.attach().await;
    let refusal = run(&mut connection, &mut entry, options).await.err();
    finish::run(&mut connection, refusal);
}

async fn run(
    connection: &mut Connection<'_>,
    entry: &mut Entry,
    options: StreamOptions,
) -> Result<(), Refusal> {
    preamble::read_header(connection, options.header_in).await?;
    if options.header_in == HeaderIn::Required {
        entry.admit(Some(connection.ends.client.ip()))?;
    }
    preamble::meet_tls(connection, options.tls).await?;
    let worker = connection.worker;
    let snapshot = worker.snapshot.take();
    let route = snapshot.streams.find(&connection.arrival()).cloned();
    let route = route.ok_or(ErrorCode::RouteNotFound)?;
    connection.entry = Some(Arc::clone(&route));
    let chosen = plugins::access(connection, &route, &snapshot).await?;
    let upstream = node::upstream(&snapshot, &route, &chosen)?;
    // Released before relaying, because a connection may last for days and would keep the whole
    // configuration alive.
    drop(snapshot);
    let header = header(connection.ends, &upstream, options);
    let open = OverTcp { server_name: connection.server_name.clone(), header };
    // `_picked` counts the connection as active on the node until the end.
    let (stream, _picked) = node::connect(connection, &upstream, &open).await?;
    let mut node = UpstreamConnection::new(Link::new(stream), &worker.metrics);
    connection.record.status = SERVED_STATUS;
    relay_all(connection, &mut node.link, &upstream).await?;
    Ok(())
}

/// Returns the PROXY protocol header for a node, sent before TLS and all other bytes: in the
/// version of the upstream, or else of the listener.
fn header(ends: Ends, upstream: &UpstreamEntry, options: StreamOptions) -> Vec<u8> {
    let own = upstream.terms.proxy_protocol.map(header_version);
    let mut header = Vec::new();
    if let Some(version) = own.or_else(|| options.header_out.for_stream()) {
        proxy_protocol::write(version, ends.client, ends.local, &mut header);
    }
    header
}

async fn relay_all(
    connection: &mut Connection<'_>,
    node: &mut Link,
    upstream: &UpstreamEntry,
) -> Result<(), ErrorCode> {
    let Some(mut client) = connection.take_link() else { return Ok(()) };
    let times = times(connection.worker, upstream);
    let relayed = relay::run(connection, &mut client, node, times).await;
    client.release_buffer(&connection.worker.buffers);
    node.release_buffer(&connection.worker.buffers);
    relayed
}

/// Returns the relay timeouts; the upstream's `timeout` takes precedence over the settings.
fn times(worker: &Worker, upstream: &UpstreamEntry) -> Times {
    let settings = &worker.settings.streams;
    let configured = upstream.conf.timeout.as_ref();
    Times {
        idle: configured.map_or(settings.idle_time, |times| times.read.max(times.send)),
        half_closed: settings.half_closed_time,
    }
}
