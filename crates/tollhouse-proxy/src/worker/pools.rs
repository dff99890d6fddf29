//! Idle connections to nodes, pooled per core; they outlive every snapshot.
//!
//! A connection is checked before reuse: one that the node has closed, or on which it has sent
//! unsolicited bytes, is dropped. Clients can influence the names in keys. Therefore all pools of a
//! core share one limit, in bytes, and the connections returned longest ago are closed first.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::rc::Rc;

use hashbrown::HashMap;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_stdx::Endpoint;
use tollhouse_telemetry::CoreHandle;

use crate::connection::link::Link;

/// Estimated memory of all idle connections of a core, in bytes.
const IDLE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Estimated memory of a plain connection in the process and the kernel.
const PLAIN_BYTES: usize = 4 * 1024;
/// Estimated memory of a connection with a TLS session.
const TLS_BYTES: usize = 32 * 1024;
/// Keys without connections that are kept until the next sweep, so that their allocations are
/// reused.
const KEYS_KEPT_MAX: usize = 4 * 1024;
/// Divisor: share of the connections that is closed when the limit is reached. Finding the oldest
/// costs a pass over all connections, which is amortised over as many returns.
const SHARE_CLOSED: usize = 8;

/// Key of interchangeable connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolKey {
    pub address: Endpoint,
    /// Scheme, client certificate and isolation, as numbered by the compiler.
    pub pool: u32,
    /// Server name of the TLS session.
    pub server_name: Option<Box<str>>,
    /// Client that the connection is reserved for, because the node was told its address, or
    /// because it cancels so many requests that others would be affected.
    pub comes_for: Option<Box<ComesFor>>,
}

/// Addresses of a client for the PROXY protocol header, or to reserve a connection for that client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComesFor {
    pub client: SocketAddr,
    /// Address that the client connected to.
    pub local: SocketAddr,
}

impl ComesFor {
    /// All clients of an address, for any local address.
    pub(crate) fn address(client: SocketAddr) -> Self {
        let client = SocketAddr::new(client.ip(), 0);
        Self { client, local: client }
    }
}

impl PoolKey {
    /// Estimated memory of an idle connection with this key.
    #[inline]
    fn bytes(&self) -> usize {
        let key = if self.comes_for.is_some() { size_of::<ComesFor>() } else { 0 };
        key + self.server_name.as_ref().map_or(PLAIN_BYTES, |name| TLS_BYTES + name.len())
    }
}

impl Hash for PoolKey {
    /// Hashes one word in the usual case; equality distinguishes the rest.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (host, port) = match self.address {
            Endpoint::Ip(SocketAddr::V4(it)) => (u64::from(it.ip().to_bits()), it.port()),
            Endpoint::Ip(SocketAddr::V6(it)) => (it.ip().to_bits() as u64, it.port()),
            Endpoint::Unix(path) => (path.as_str().as_ptr().addr() as u64, 0),
        };
        let rest = u64::from(self.pool) << 16 | u64::from(port);
        state.write_u64(host << 32 ^ host ^ rest << 8);
        if let Some(name) = &self.server_name {
            state.write(name.as_bytes());
        }
        if let Some(ends) = &self.comes_for {
            ends.client.hash(state);
        }
    }
}

/// A connection to a node.
#[derive(Debug)]
pub struct UpstreamConnection {
    pub link: Link,
    /// Requests sent over the connection.
    pub requests: u32,
    /// Key under which it is pooled; `None` if it is not pooled.
    key: Option<PoolKey>,
    /// Counters of the core; `None` for a stream of a shared connection, which is not counted.
    metrics: Option<Rc<CoreHandle>>,
}

impl UpstreamConnection {
    /// Wraps a new connection, which is counted until it is dropped. Boxed, because each request
    /// moves it several times.
    pub fn new(link: Link, metrics: &Rc<CoreHandle>) -> Box<Self> {
        metrics.upstream_connections_opened.increment();
        metrics.upstream_connections_open.increment();
        Box::new(Self { link, requests: 0, key: None, metrics: Some(Rc::clone(metrics)) })
    }

    /// Wraps a new connection that is pooled under `key` between requests. The key is stored in the
    /// connection, so that responses need not carry it.
    pub fn kept_under(key: PoolKey, link: Link, metrics: &Rc<CoreHandle>) -> Box<Self> {
        let mut connection = Self::new(link, metrics);
        connection.key = Some(key);
        connection
    }

    /// Key of the connection in the pool.
    #[inline]
    pub(crate) fn key(&self) -> Option<&PoolKey> {
        self.key.as_ref()
    }

    /// Wraps a stream of a shared connection over which `requests` were sent.
    pub(crate) fn shared(link: Link, requests: u32) -> Box<Self> {
        Box::new(Self { link, requests, key: None, metrics: None })
    }
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.upstream_connections_open.decrement();
        }
    }
}

#[derive(Debug)]
struct Idle {
    connection: Box<UpstreamConnection>,
    expires_ms: u64,
    /// Sequence number of its return to the pool.
    given: u64,
}

type Stacks = HashMap<PoolKey, Vec<Idle>, foldhash::fast::RandomState>;

/// Idle connections of one core.
#[derive(Debug)]
pub struct Pools {
    idle: RefCell<Stacks>,
    /// Estimated memory of the connections, in bytes.
    bytes: Cell<usize>,
    bytes_max: usize,
    gives: Cell<u64>,
    found_dead: Cell<u64>,
}

impl Default for Pools {
    fn default() -> Self {
        Self::within(IDLE_BYTES_MAX)
    }
}

impl Pools {
    fn within(bytes_max: usize) -> Self {
        Self {
            idle: RefCell::default(),
            bytes: Cell::new(0),
            bytes_max,
            gives: Cell::new(0),
            found_dead: Cell::new(0),
        }
    }

    /// The most recently used connection of `key` that is still usable.
    #[inline]
    pub fn take(&self, key: &PoolKey) -> Option<Box<UpstreamConnection>> {
        let mut idle = self.idle.borrow_mut();
        let stack = idle.get_mut(key)?;
        while let Some(mut candidate) = stack.pop() {
            self.bytes.set(self.bytes.get() - key.bytes());
            if candidate.connection.link.stream.is_quiet() {
                return Some(candidate.connection);
            }
            self.found_dead.set(self.found_dead.get() + 1);
        }
        None
    }

    /// Returns a connection to the pool, within the limits of its upstream.
    #[inline]
    pub fn give(&self, connection: Box<UpstreamConnection>, bounds: &KeepalivePool, now_ms: u64) {
        let Some(key) = &connection.key else { return };
        let idle_ms = u64::try_from(bounds.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        // An idle timeout of 0 disables the timeout, as in nginx.
        let expires_ms = if idle_ms == 0 { u64::MAX } else { now_ms.saturating_add(idle_ms) };
        let given = self.gives.get() + 1;
        self.gives.set(given);
        let key_bytes = key.bytes();
        let mut idle = self.idle.borrow_mut();
        match idle.get_mut(key) {
            Some(stack) if stack.len() >= bounds.size as usize => {
                stack.remove(0);
                stack.push(Idle { connection, expires_ms, given });
                return;
            }
            Some(stack) => stack.push(Idle { connection, expires_ms, given }),
            None => {
                if idle.len() >= KEYS_KEPT_MAX {
                    idle.retain(|_, stack| !stack.is_empty());
                }
                let key = key.clone();
                idle.insert(key, vec![Idle { connection, expires_ms, given }]);
            }
        }
        let bytes = self.bytes.get() + key_bytes;
        self.bytes.set(bytes);
        if bytes > self.bytes_max {
            self.close_oldest(&mut idle);
        }
    }

    #[cold]
    fn close_oldest(&self, idle: &mut Stacks) {
        let mut gives: Vec<u64> = idle.values().flatten().map(|idle| idle.given).collect();
        let last = gives.len() / SHARE_CLOSED;
        let (_, newest_closed, _) = gives.select_nth_unstable(last);
        let newest_closed = *newest_closed;
        self.retain(idle, |idle| idle.given > newest_closed);
    }

    /// Closes all connections except those for which `keeps` holds.
    fn retain(&self, idle: &mut Stacks, mut keeps: impl FnMut(&mut Idle) -> bool) {
        let mut bytes = 0;
        idle.retain(|key, stack| {
            stack.retain_mut(&mut keeps);
            bytes += key.bytes() * stack.len();
            !stack.is_empty()
        });
        self.bytes.set(bytes);
    }

    /// Closes the idle connections of `key`.
    #[cold]
    pub fn close(&self, key: &PoolKey) {
        if let Some(stack) = self.idle.borrow_mut().remove(key) {
            self.bytes.set(self.bytes.get() - key.bytes() * stack.len());
        }
    }

    /// Closes connections that have exceeded their idle timeout or that the node has closed.
    pub fn sweep(&self, now_ms: u64) {
        self.retain(&mut self.idle.borrow_mut(), |idle| {
            idle.expires_ms > now_ms && idle.connection.link.stream.is_quiet()
        });
    }

    /// Closes one idle connection to free its file descriptor; returns `false` if none exists.
    #[cold]
    pub fn drop_one(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        let dropped = idle.values_mut().find_map(Vec::pop);
        idle.retain(|_, stack| !stack.is_empty());
        dropped.is_some()
    }

    /// Closes all idle connections.
    pub fn clear(&self) {
        self.idle.borrow_mut().clear();
        self.bytes.set(0);
    }

    /// Number of connections dropped since the last call because the node had closed them.
    pub fn take_found_dead(&self) -> u64 {
        self.found_dead.take()
    }

    /// Number of idle connections.
    pub fn len(&self) -> usize {
        self.idle.borrow().values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::{TcpListener, TcpStream};
    use tollhouse_net::Stream;
    use tollhouse_telemetry::Metrics;

    use super::*;

    const NODE: Endpoint =
        Endpoint::Ip(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 443));

    fn key(name: &str) -> PoolKey {
        PoolKey { address: NODE, pool: 1, server_name: Some(name.into()), comes_for: None }
    }

    /// Runs `test` with a function that opens connections whose other ends stay open.
    fn with_connections(
        test: impl AsyncFnOnce(&dyn Fn(&str, TcpStream) -> Box<UpstreamConnection>, TcpListener),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(async {
            let metrics = Rc::new(Arc::new(Metrics::default()).for_core());
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let open = |name: &str, stream| {
                let link = Link::new(Stream::from(stream));
                UpstreamConnection::kept_under(key(name), link, &metrics)
            };
            test(&open, listener).await;
        });
    }

    #[test]
    fn names_without_end_push_out_what_was_used_longest_ago() {
        with_connections(async |open, listener| {
            let pools = Pools::within(16 * (TLS_BYTES + 8));
            let address = listener.local_addr().expect("an address");
            let bounds = KeepalivePool::default();
            let mut others = Vec::new();
            for number in 0..100 {
                let stream = TcpStream::connect(address).await.expect("a connection");
                others.push(listener.accept().await.expect("its other end"));
                pools.give(open(&format!("n{number}.test"), stream), &bounds, 0);
                assert!(pools.len() <= 16, "{number}: {}", pools.len());
                assert_eq!(pools.len(), pools.idle.borrow().len());
            }
            assert!(pools.len() >= 12, "{}", pools.len());
            assert!(pools.take(&key("n0.test")).is_none());
            assert!(pools.take(&key("n99.test")).is_some());
            pools.sweep(0);
            pools.clear();
            assert_eq!((pools.len(), pools.bytes.get()), (0, 0));
        });
    }

    #[test]
    fn a_full_pool_lets_its_oldest_go() {
        with_connections(async |open, listener| {
            let pools = Pools::default();
            let address = listener.local_addr().expect("an address");
            let bounds = KeepalivePool { size: 2, ..KeepalivePool::default() };
            let mut others = Vec::new();
            for _ in 0..4 {
                let stream = TcpStream::connect(address).await.expect("a connection");
                others.push(listener.accept().await.expect("its other end"));
                pools.give(open("a", stream), &bounds, 0);
            }
            assert_eq!((pools.len(), pools.bytes.get()), (2, 2 * (TLS_BYTES + 1)));
            while pools.take(&key("a")).is_some() {}
            assert_eq!(pools.bytes.get(), 0);
        });
    }
}
