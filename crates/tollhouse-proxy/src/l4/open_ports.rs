//! Ports that ShenYu's objects open and close while the gateway runs. The cores share one socket a port: it is
//! bound by whoever comes first, and by nobody where somebody listens already, the gateway's own listeners
//! among them, since sharing a port would split its connections silently.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::sync::{Mutex, PoisonError};

/// The sockets, for all cores. Cores alone use it, once a second.
#[derive(Debug)]
pub struct OpenPorts {
    address: IpAddr,
    open: Mutex<BTreeMap<u16, StdListener>>,
}

impl OpenPorts {
    /// At this address, none yet.
    pub fn new(address: IpAddr) -> Self {
        Self { address, open: Mutex::default() }
    }

    /// A handle of the socket of a port, which is bound where it is not yet.
    pub(super) fn listen(&self, port: u16) -> io::Result<StdListener> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open.get(&port) {
            return known.try_clone();
        }
        let listener = StdListener::bind(SocketAddr::new(self.address, port))?;
        listener.set_nonblocking(true)?;
        let handle = listener.try_clone()?;
        tracing::info!(port, "a port of ShenYu's tcp is open");
        open.insert(port, listener);
        Ok(handle)
    }

    /// Lets go of ports that nobody wants any more; each core lets go of its handles.
    pub(super) fn keep(&self, wanted: &[u16]) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|port, _| wanted.contains(port));
    }
}
