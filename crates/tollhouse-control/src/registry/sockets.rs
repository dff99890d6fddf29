//! Duplicates of the registry's listening sockets. While one exists, the kernel keeps queueing
//! connections, so that none is refused between the release of the registry and the start of a
//! successor.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use tollhouse_config::Bootstrap;
use tollhouse_net::Listeners;
use tollhouse_net::handover::Inheritance;
use tollhouse_net::listen::ListenError;

use crate::process::handover::Predecessor;

#[derive(Debug, Default)]
pub struct RegistrySockets(Vec<TcpListener>);

/// State that a registry inherits from an earlier process.
#[derive(Debug)]
pub struct Takeover {
    /// Process that is about to release the registry's store, if any.
    pub predecessor: Predecessor,
    /// Listening sockets inherited for its addresses.
    pub sockets: RegistrySockets,
}

impl Takeover {
    /// Returns a takeover without a predecessor, so that sockets must be opened.
    pub fn none() -> Self {
        Self { predecessor: Predecessor::None, sockets: RegistrySockets::default() }
    }
}

impl RegistrySockets {
    /// Takes the sockets of the registry's addresses out of an inheritance.
    pub fn inherit(bootstrap: &Bootstrap, inheritance: &mut Inheritance) -> Self {
        let listen = &bootstrap.listen;
        let addresses = listen.registry_grpc.iter().chain(&listen.registry_http);
        Self(addresses.flat_map(|address| inheritance.take(*address)).collect())
    }

    /// Returns the listeners for an address: existing sockets if there are any, else newly bound
    /// ones.
    pub(super) fn listen(
        &mut self,
        address: SocketAddr,
        workers: usize,
    ) -> Result<Listeners, ListenError> {
        let is_meant = |socket: &TcpListener| socket.local_addr().is_ok_and(|it| it == address);
        let (meant, others) = std::mem::take(&mut self.0).into_iter().partition(is_meant);
        self.0 = others;
        let meant: Vec<TcpListener> = meant;
        match meant.is_empty() {
            true => Listeners::bind(address, workers),
            false => Listeners::adopt(address, meant, workers),
        }
    }

    pub(super) fn add(&mut self, sockets: &[TcpListener]) -> io::Result<()> {
        for socket in sockets {
            self.0.push(socket.try_clone()?);
        }
        Ok(())
    }

    /// Duplicates all sockets, as far as free file descriptors allow.
    pub fn duplicate(&self) -> Self {
        Self(self.0.iter().filter_map(|socket| socket.try_clone().ok()).collect())
    }

    pub fn into_descriptors(self) -> impl Iterator<Item = OwnedFd> {
        self.0.into_iter().map(OwnedFd::from)
    }
}
