//! Idle connections to nodes, pooled per core; they outlive every snapshot.
//!
//! A connection is checked before reuse: one that the node has closed, or on which it has sent
//! unsolicited bytes, is dropped. Clients can influence the names in keys. Therefore all pools of a
//! core share one limit, in bytes, and the connections returned longest ago are closed first.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_stdx::Endpoint;
use tollhouse_stdx::duration::to_ms;
use tollhouse_telemetry::CoreHandle;
use tollhouse_telemetry::node_series::NodeCounts;

use crate::connection::link::Link;

/// Maximum memory of all idle connections of a core in bytes, as estimated by the constants below.
const IDLE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Estimated memory of a plain connection in the process and the kernel.
const PLAIN_BYTES: usize = 4 * 1024;
/// Estimated memory of a connection with a TLS session.
const TLS_BYTES: usize = 32 * 1024;
/// Maximum number of keys without connections that are kept until the next sweep, so that their
/// allocations are reused.
const KEYS_KEPT_MAX: usize = 4 * 1024;
/// Divisor: share of the connections that is closed when the limit is reached. Finding the oldest
/// costs a pass over all connections, which is amortised over as many returns.
const SHARE_CLOSED: usize = 8;

/// Key of interchangeable connections.
#[derive(Debug, Clone, Eq)]
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
    /// Returns a value that stands for all clients of an address, for any local address.
    pub(crate) fn address(client: SocketAddr) -> Self {
        let client = SocketAddr::new(client.ip(), 0);
        Self { client, local: client }
    }
}

impl PoolKey {
    /// Returns the estimated memory of an idle connection with this key.
    #[inline]
    fn bytes(&self) -> usize {
        let key = if self.comes_for.is_some() { size_of::<ComesFor>() } else { 0 };
        key + self.server_name.as_ref().map_or(PLAIN_BYTES, |name| TLS_BYTES + name.len())
    }
}

impl PartialEq for PoolKey {
    /// Compares inline, because every request to a node looks its key up.
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.pool == other.pool
            && self.address == other.address
            && self.server_name == other.server_name
            && self.comes_for == other.comes_for
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

/// Connection to a node, kept between requests.
#[derive(Debug)]
pub struct UpstreamConnection {
    pub link: Link,
    /// Number of requests sent over the connection.
    pub requests: u32,
    /// Whether the node has answered over the connection since it last failed; never known of a
    /// stream of a shared connection, where another stream may have failed meanwhile.
    pub is_proven: bool,
    /// Counts of the node; `None` if its answers are not counted here.
    pub node: Option<Arc<NodeCounts>>,
    /// Stack that the connection returns to; `None` while it is idle there, and if it is not pooled.
    stack: Option<Rc<Stack>>,
    /// Counters of the core; `None` for a stream of a shared connection, which is not counted.
    metrics: Option<Rc<CoreHandle>>,
}

impl UpstreamConnection {
    /// Wraps a new connection, which is counted until it is dropped. Boxed, because each request
    /// moves it several times.
    pub fn new(link: Link, metrics: &Rc<CoreHandle>) -> Box<Self> {
        metrics.upstream_connections_opened.increment();
        metrics.upstream_connections_open.increment();
        let metrics = Some(Rc::clone(metrics));
        Box::new(Self { link, requests: 0, is_proven: false, node: None, stack: None, metrics })
    }

    /// Returns the key of the connection in the pool.
    #[inline]
    pub(crate) fn key(&self) -> Option<&PoolKey> {
        self.stack.as_ref().map(|stack| &stack.key)
    }

    /// Wraps a stream of a shared connection to `node` over which `requests` were sent.
    pub(crate) fn shared(link: Link, requests: u32, node: &Arc<NodeCounts>) -> Box<Self> {
        let node = Some(Arc::clone(node));
        Box::new(Self { link, requests, is_proven: false, node, stack: None, metrics: None })
    }
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        if let Some(metrics) = &self.metrics {
            metrics.upstream_connections_open.decrement();
        }
    }
}

/// Idle connections of one key, the most recently used last. A connection in use holds its stack,
/// so that its return needs no look-up.
#[derive(Debug)]
struct Stack {
    key: PoolKey,
    /// Estimated memory of one connection in bytes.
    connection_bytes: usize,
    idle: RefCell<Vec<Idle>>,
    /// Whether the pools find the stack by its key. Empty stacks are removed from time to time.
    is_listed: Cell<bool>,
}

impl Stack {
    fn new(key: PoolKey) -> Rc<Self> {
        let connection_bytes = key.bytes();
        Rc::new(Self {
            key,
            connection_bytes,
            idle: RefCell::default(),
            is_listed: Cell::new(true),
        })
    }

    fn is_empty(&self) -> bool {
        self.idle.borrow().is_empty()
    }
}

#[derive(Debug)]
struct Idle {
    connection: Box<UpstreamConnection>,
    expires_ms: u64,
    /// Sequence number of its return to the pool.
    given: u64,
}

type Stacks = HashMap<PoolKey, Rc<Stack>, foldhash::fast::RandomState>;

#[derive(Debug)]
pub struct Pools {
    stacks: RefCell<Stacks>,
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
            stacks: RefCell::default(),
            bytes: Cell::new(0),
            bytes_max,
            gives: Cell::new(0),
            found_dead: Cell::new(0),
        }
    }

    /// Wraps a new connection that is pooled under `key` between requests.
    pub fn adopt(
        &self,
        key: PoolKey,
        link: Link,
        metrics: &Rc<CoreHandle>,
    ) -> Box<UpstreamConnection> {
        let mut connection = UpstreamConnection::new(link, metrics);
        connection.node = Some(metrics.nodes().counts(key.address));
        connection.stack = Some(self.listed(key));
        connection
    }

    /// Returns the stack of `key`; creates it if missing.
    #[cold]
    fn listed(&self, key: PoolKey) -> Rc<Stack> {
        let mut stacks = self.stacks.borrow_mut();
        if let Some(stack) = stacks.get(&key) {
            return Rc::clone(stack);
        }
        if stacks.len() >= KEYS_KEPT_MAX {
            remove_empty(&mut stacks);
        }
        let stack = Stack::new(key);
        stacks.insert(stack.key.clone(), Rc::clone(&stack));
        stack
    }

    /// Returns the most recently used connection of `key` that is still usable.
    #[inline]
    pub fn take(&self, key: &PoolKey) -> Option<Box<UpstreamConnection>> {
        let stacks = self.stacks.borrow();
        let stack = stacks.get(key)?;
        let mut idle = stack.idle.borrow_mut();
        while let Some(Idle { mut connection, .. }) = idle.pop() {
            self.bytes.set(self.bytes.get() - stack.connection_bytes);
            if connection.link.stream.is_quiet() {
                connection.stack = Some(Rc::clone(stack));
                return Some(connection);
            }
            self.found_dead.set(self.found_dead.get() + 1);
        }
        None
    }

    /// Has the idle connections of `key` prove themselves: the next answer on any of them is noticed
    /// as that on a new one is.
    #[cold]
    pub fn doubt(&self, key: &PoolKey) {
        if let Some(stack) = self.stacks.borrow().get(key) {
            stack.idle.borrow_mut().iter_mut().for_each(|idle| idle.connection.is_proven = false);
        }
    }

    /// Returns a connection to the pool, within the limits of its upstream.
    #[inline(always)]
    pub fn give(
        &self,
        mut connection: Box<UpstreamConnection>,
        bounds: &KeepalivePool,
        now_ms: u64,
    ) {
        let Some(mut stack) = connection.stack.take() else { return };
        if !stack.is_listed.get() {
            stack = self.listed(stack.key.clone());
        }
        let idle_ms = to_ms(bounds.idle_timeout);
        // An idle timeout of 0 disables the timeout, as in nginx.
        let expires_ms = if idle_ms == 0 { u64::MAX } else { now_ms.saturating_add(idle_ms) };
        let given = self.gives.get() + 1;
        self.gives.set(given);
        let mut idle = stack.idle.borrow_mut();
        if idle.len() >= bounds.size as usize && !idle.is_empty() {
            idle.remove(0);
            self.bytes.set(self.bytes.get() - stack.connection_bytes);
        }
        idle.push(Idle { connection, expires_ms, given });
        let bytes = self.bytes.get() + stack.connection_bytes;
        self.bytes.set(bytes);
        if bytes > self.bytes_max {
            drop(idle);
            self.close_oldest();
        }
    }

    #[cold]
    fn close_oldest(&self) {
        let mut gives = Vec::new();
        for stack in self.stacks.borrow().values() {
            gives.extend(stack.idle.borrow().iter().map(|idle| idle.given));
        }
        let last = gives.len() / SHARE_CLOSED;
        let (_, newest_closed, _) = gives.select_nth_unstable(last);
        let newest_closed = *newest_closed;
        self.retain(|idle| idle.given > newest_closed);
    }

    /// Closes all connections except those for which `keeps` holds.
    fn retain(&self, mut keeps: impl FnMut(&mut Idle) -> bool) {
        let mut stacks = self.stacks.borrow_mut();
        let mut bytes = 0;
        for stack in stacks.values() {
            let mut idle = stack.idle.borrow_mut();
            idle.retain_mut(&mut keeps);
            bytes += stack.connection_bytes * idle.len();
        }
        remove_empty(&mut stacks);
        self.bytes.set(bytes);
    }

    /// Closes the idle connections of `key`.
    #[cold]
    pub fn close(&self, key: &PoolKey) {
        if let Some(stack) = self.stacks.borrow_mut().remove(key) {
            stack.is_listed.set(false);
            let closed = stack.idle.take().len();
            self.bytes.set(self.bytes.get() - stack.connection_bytes * closed);
        }
    }

    /// Closes connections that have exceeded their idle timeout or that the node has closed.
    pub fn sweep(&self, now_ms: u64) {
        self.retain(|idle| idle.expires_ms > now_ms && idle.connection.link.stream.is_quiet());
    }

    /// Closes one idle connection to free its file descriptor; returns `false` if none exists.
    #[cold]
    pub fn drop_one(&self) -> bool {
        let stacks = self.stacks.borrow();
        let Some(stack) = stacks.values().find(|stack| !stack.is_empty()) else { return false };
        stack.idle.borrow_mut().pop();
        self.bytes.set(self.bytes.get() - stack.connection_bytes);
        true
    }

    pub fn clear(&self) {
        self.retain(|_| false);
    }

    /// Returns the number of connections dropped since the last call because the node had closed
    /// them.
    pub fn take_found_dead(&self) -> u64 {
        self.found_dead.take()
    }

    pub fn len(&self) -> usize {
        self.stacks.borrow().values().map(|stack| stack.idle.borrow().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn remove_empty(stacks: &mut Stacks) {
    stacks.retain(|_, stack| {
        stack.is_listed.set(!stack.is_empty());
        stack.is_listed.get()
    });
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
        test: impl AsyncFnOnce(&dyn Fn(&Pools, &str, TcpStream) -> Box<UpstreamConnection>, TcpListener),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(async {
            let metrics = Rc::new(Arc::new(Metrics::default()).for_core());
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let open = |pools: &Pools, name: &str, stream| {
                pools.adopt(key(name), Link::new(Stream::from(stream)), &metrics)
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
                pools.give(open(&pools, &format!("n{number}.test"), stream), &bounds, 0);
                assert!(pools.len() <= 16, "{number}: {}", pools.len());
                assert_eq!(pools.len(), pools.stacks.borrow().len());
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
                pools.give(open(&pools, "a", stream), &bounds, 0);
            }
            assert_eq!((pools.len(), pools.bytes.get()), (2, 2 * (TLS_BYTES + 1)));
            while pools.take(&key("a")).is_some() {}
            assert_eq!(pools.bytes.get(), 0);
        });
    }

    #[test]
    fn connections_in_use_return_to_the_stack_that_others_share() {
        with_connections(async |open, listener| {
            let pools = Pools::default();
            let address = listener.local_addr().expect("an address");
            let bounds = KeepalivePool::default();
            let mut others = Vec::new();
            let mut connect = async || {
                let stream = TcpStream::connect(address).await.expect("a connection");
                others.push(listener.accept().await.expect("its other end"));
                open(&pools, "a", stream)
            };
            let (first, second) = (connect().await, connect().await);
            // The stack is empty, so it is removed; another takes its place.
            pools.sweep(0);
            let third = connect().await;
            for connection in [first, second, third] {
                pools.give(connection, &bounds, 0);
            }
            assert_eq!((pools.len(), pools.stacks.borrow().len()), (3, 1));
            let taken: Vec<_> = std::iter::from_fn(|| pools.take(&key("a"))).collect();
            assert_eq!((taken.len(), pools.bytes.get()), (3, 0));
            pools.close(&key("a"));
            taken.into_iter().for_each(|connection| pools.give(connection, &bounds, 0));
            assert!(pools.drop_one());
            assert_eq!((pools.len(), pools.bytes.get()), (2, 2 * (TLS_BYTES + 1)));
        });
    }
}
