//! Ports that ShenYu objects open and close at runtime. All cores share one socket per port; the
//! first core binds it. A port that is already in use, even by a listener of the gateway, is not
//! bound, because sharing it would silently split its connections.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::sync::{Mutex, PoisonError};

/// Shared sockets by port. The lock is taken only by the cores, once a second.
#[derive(Debug)]
pub struct OpenPorts {
    address: IpAddr,
    open: Mutex<BTreeMap<u16, StdListener>>,
}

impl OpenPorts {
    /// Creates an empty set for ports at `address`.
    pub fn new(address: IpAddr) -> Self {
        Self { address, open: Mutex::default() }
    }

    /// Returns a handle of the port's socket, which is bound on first use.
    pub(super) fn listen(&self, port: u16) -> io::Result<StdListener> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port_state) = open.get(&port) {
            return port_state.try_clone();
        }
        let listener = StdListener::bind(SocketAddr::new(self.address, port))?;
        listener.set_nonblocking(true)?;
        let handle = listener.try_clone()?;
        tracing::info!(port, "a port of ShenYu's tcp is open");
        open.insert(port, listener);
        Ok(handle)
    }

    /// Closes the sockets of ports that are not in `wanted`; each core closes the handles it holds.
    pub(super) fn keep(&self, wanted: &[u16]) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|port, _| wanted.contains(port));
    }
}
