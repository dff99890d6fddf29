//! Idle connections to nodes, kept per core and outliving every snapshot.
//!
//! A connection is looked at before it is used again: one that the node has closed, or on which
//! it has spoken unasked, is dropped here and never handed out.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use hashbrown::HashMap;
use tollhouse_model::upstream::KeepalivePool;
use tollhouse_telemetry::CoreHandle;

use crate::exchange::Link;

/// Which connections may stand for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolKey {
    /// The node.
    pub address: SocketAddr,
    /// Scheme, client certificate and isolation, as numbered by the compiler.
    pub pool: u32,
    /// The name the TLS session was opened for.
    pub server_name: Option<Box<str>>,
}

impl Hash for PoolKey {
    /// One word for the usual case; the rest is told apart by comparison.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits() as u64,
        };
        let rest = u64::from(self.pool) << 16 | u64::from(self.address.port());
        state.write_u64(ip << 32 ^ ip ^ rest << 8);
        if let Some(name) = &self.server_name {
            state.write(name.as_bytes());
        }
    }
}

/// A connection to a node.
#[derive(Debug)]
pub struct UpstreamConnection {
    /// Its bytes.
    pub link: Link,
    /// Requests sent over it.
    pub requests: u32,
    metrics: Rc<CoreHandle>,
}

impl UpstreamConnection {
    /// A connection just opened; counted until it is dropped.
    pub fn new(link: Link, metrics: &Rc<CoreHandle>) -> Self {
        metrics.upstream_connections_opened.increment();
        metrics.upstream_connections_open.increment();
        Self { link, requests: 0, metrics: Rc::clone(metrics) }
    }
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        self.metrics.upstream_connections_open.decrement();
    }
}

#[derive(Debug)]
struct Idle {
    connection: UpstreamConnection,
    expires_ms: u64,
}

/// The idle connections of one core.
#[derive(Debug, Default)]
pub struct Pools {
    idle: RefCell<HashMap<PoolKey, Vec<Idle>, foldhash::fast::RandomState>>,
    found_dead: Cell<u64>,
}

impl Pools {
    /// The connection used last under `key` that is still of use.
    #[inline]
    pub fn take(&self, key: &PoolKey) -> Option<UpstreamConnection> {
        let mut idle = self.idle.borrow_mut();
        let stack = idle.get_mut(key)?;
        while let Some(mut candidate) = stack.pop() {
            if candidate.connection.link.stream.is_quiet() {
                return Some(candidate.connection);
            }
            self.found_dead.set(self.found_dead.get() + 1);
        }
        None
    }

    /// Keeps a connection for the next request, within the bounds of its pool.
    #[inline]
    pub fn give(
        &self,
        key: &PoolKey,
        connection: UpstreamConnection,
        bounds: &KeepalivePool,
        now_ms: u64,
    ) {
        let idle_ms = u64::try_from(bounds.idle_timeout.as_millis()).unwrap_or(u64::MAX);
        // An idle time-out of 0 is no time-out, as in nginx.
        let expires_ms = if idle_ms == 0 { u64::MAX } else { now_ms.saturating_add(idle_ms) };
        let entry = Idle { connection, expires_ms };
        let mut idle = self.idle.borrow_mut();
        let Some(stack) = idle.get_mut(key) else {
            idle.insert(key.clone(), vec![entry]);
            return;
        };
        if stack.len() >= bounds.size as usize {
            stack.remove(0);
        }
        stack.push(entry);
    }

    /// Closes connections that have idled too long or that the node has closed.
    pub fn sweep(&self, now_ms: u64) {
        self.idle.borrow_mut().retain(|_, stack| {
            stack.retain_mut(|idle| {
                idle.expires_ms > now_ms && idle.connection.link.stream.is_quiet()
            });
            !stack.is_empty()
        });
    }

    /// Closes all of them.
    pub fn clear(&self) {
        self.idle.borrow_mut().clear();
    }

    /// How many were dropped because the node had closed them, since the last call.
    pub fn take_found_dead(&self) -> u64 {
        self.found_dead.take()
    }

    /// How many are idle.
    pub fn len(&self) -> usize {
        self.idle.borrow().values().map(Vec::len).sum()
    }

    /// Whether none is idle.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
