//! Socket of a session towards its node.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tollhouse_stdx::Endpoint;
use tollhouse_upstream::Picked;

use crate::l4::node::{Open, Proof};
use crate::snapshot::UpstreamEntry;

/// Socket that receives datagrams only from its node.
pub(super) type ConnectedSocket = AsyncFd<OwnedFd>;

/// Opens a connected socket per session, which receives datagrams only from its node.
pub(super) struct OverUdp;

impl Open for OverUdp {
    type Opened = ConnectedSocket;
    const PROOF: Proof = Proof::None;

    async fn open(&self, _: &UpstreamEntry, picked: &Picked<'_>) -> io::Result<ConnectedSocket> {
        let Endpoint::Ip(address) = picked.address() else {
            let cause = "no datagrams are sent to a Unix socket";
            return Err(io::Error::new(io::ErrorKind::Unsupported, cause));
        };
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
        // Also chooses the local port.
        rustix::net::connect(&socket, &address)?;
        register_for_reading(socket)
    }
}

/// Registers a socket in non-blocking mode. Not for writing, because a datagram that the socket does
/// not take is dropped, and the kernel would report each one that a peer has received as room to
/// write.
pub(super) fn register_for_reading<T: AsRawFd + AsFd>(socket: T) -> io::Result<AsyncFd<T>> {
    #[expect(
        deprecated,
        reason = "its successor asks for an unsafe promise that types with AsFd already keep"
    )]
    AsyncFd::with_interest(socket, Interest::READABLE)
}
