//! Listening sockets: one per worker and address, so that the kernel distributes connections.
//!
//! Errors of binding explain the cause and a remedy; accepting is left to the workers.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use socket2::{Domain, Protocol, Socket, Type};

/// Length of the accept queue; the kernel limits it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// Receive buffer of a UDP socket in bytes; the kernel allocates twice as much for its bookkeeping.
/// Holds about ten thousand small datagrams, so that as many clients may send at once. Unused as
/// long as a core reads as fast as datagrams arrive.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;

/// Why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}; {hint}")]
pub struct ListenError {
    pub address: SocketAddr,
    /// Error that the operating system reported.
    pub reason: io::Error,
    /// Suggested remedy, for the operator.
    pub hint: String,
}

/// TCP sockets of one address, one per worker.
#[derive(Debug)]
pub struct Listeners {
    /// Bound address, with the port chosen by the kernel if port 0 was requested.
    pub address: SocketAddr,
    /// Sockets, one per worker.
    pub sockets: Vec<TcpListener>,
}

impl Listeners {
    /// Binds `workers` sockets to `address`. With port 0, the kernel chooses one port for all.
    ///
    /// # Errors
    /// [`ListenError`] if the port is in use, even by a process that shares it.
    pub fn bind(address: SocketAddr, workers: usize) -> Result<Listeners, ListenError> {
        refuse_if_taken(address).map_err(|reason| explain(address, reason))?;
        let first = bind_shared(address).map_err(|reason| explain(address, reason))?;
        let bound = first.local_addr().map_err(|reason| explain(address, reason))?;
        let mut sockets = vec![first];
        for _ in 1..workers {
            sockets.push(bind_shared(bound).map_err(|reason| explain(bound, reason))?);
        }
        Ok(Listeners { address: bound, sockets })
    }

    /// Takes over sockets of a predecessor, and binds more until each worker has one.
    ///
    /// # Errors
    /// [`ListenError`] if a further socket cannot be bound.
    pub fn adopt(
        address: SocketAddr,
        mut sockets: Vec<TcpListener>,
        workers: usize,
    ) -> Result<Listeners, ListenError> {
        while sockets.len() < workers {
            sockets.push(bind_shared(address).map_err(|reason| explain(address, reason))?);
        }
        Ok(Listeners { address, sockets })
    }
}

/// UDP sockets of one address, one per worker. The kernel assigns a client to a socket by their
/// number and order, which a hand-over preserves.
#[derive(Debug)]
pub struct DatagramSockets {
    /// Bound address, with the port chosen by the kernel if port 0 was requested.
    pub address: SocketAddr,
    /// Sockets, one per worker.
    pub sockets: Vec<UdpSocket>,
}

impl DatagramSockets {
    /// Binds `workers` sockets to `address`. With port 0, the kernel chooses one port for all.
    ///
    /// # Errors
    /// [`ListenError`] if the port is in use, even by a process that shares it.
    pub fn bind(address: SocketAddr, workers: usize) -> Result<Self, ListenError> {
        let explained = |reason| explain(address, reason);
        // Bound exclusively first, because sharing the port with another process would silently
        // split the traffic.
        let alone = datagram_socket(address).map_err(explained)?;
        alone.bind(&address.into()).map_err(explained)?;
        drop(alone);
        let first = bind_shared_datagrams(address).map_err(explained)?;
        let bound = first.local_addr().map_err(explained)?;
        Self::adopt(bound, vec![first], workers)
    }

    /// Takes over sockets of a predecessor, and binds more until each worker has one.
    ///
    /// # Errors
    /// [`ListenError`] if a further socket cannot be bound.
    pub fn adopt(
        address: SocketAddr,
        mut sockets: Vec<UdpSocket>,
        workers: usize,
    ) -> Result<Self, ListenError> {
        while sockets.len() < workers {
            let socket = bind_shared_datagrams(address);
            sockets.push(socket.map_err(|reason| explain(address, reason))?);
        }
        Ok(Self { address, sockets })
    }
}

fn datagram_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    only_v6(&socket, address)?;
    Ok(socket)
}

fn bind_shared_datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = datagram_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    // A burst of many clients arrives faster than a busy core reads. Without CAP_NET_ADMIN, the
    // size is limited to `net.core.rmem_max`; a smaller buffer works too.
    if set_socket_recv_buffer_size_force(&socket, DATAGRAM_BUFFER_BYTES).is_err() {
        let _ = socket.set_recv_buffer_size(DATAGRAM_BUFFER_BYTES);
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Fails if another process listens on the address, because sharing the port would silently split
/// the traffic.
fn refuse_if_taken(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    only_v6(&socket, address)?;
    socket.bind(&address.into())?;
    socket.listen(1)
}

fn bind_shared(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    only_v6(&socket, address)?;
    socket.set_nonblocking(true)?;
    // Inherited by accepted sockets, which saves one system call per connection.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Restricts `[::]` to IPv6, so that `0.0.0.0` can be configured beside it.
fn only_v6(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() { socket.set_only_v6(true) } else { Ok(()) }
}

fn explain(address: SocketAddr, reason: io::Error) -> ListenError {
    let hint = match reason.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another process has port {port}: see `ss -ltunp 'sport = :{port}'`, stop it or choose \
             another port; to replace a running tollhouse, start with --upgrade",
            port = address.port()
        ),
        io::ErrorKind::PermissionDenied => format!(
            "port {} needs the right to bind low ports: run `setcap cap_net_bind_service=+ep` on \
             the binary, or choose a port above 1023",
            address.port()
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("{} is not an address of this machine: see `ip address`", address.ip())
        }
        _ => "check the address".to_owned(),
    };
    ListenError { address, reason, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn workers_share_one_port() {
        let listeners = Listeners::bind(any(), 3).expect("loopback can be bound");
        let ports: Vec<u16> =
            listeners.sockets.iter().map(|s| s.local_addr().expect("bound").port()).collect();
        assert_eq!(ports, vec![listeners.address.port(); 3]);
    }

    #[test]
    fn a_taken_port_is_refused_with_the_remedy() {
        let taken = Listeners::bind(any(), 1).expect("loopback can be bound");
        let error = Listeners::bind(taken.address, 1).expect_err("the port is taken");
        assert_eq!(error.reason.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains("--upgrade"), "{error}");
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        let address = SocketAddr::from(([192, 0, 2, 1], 0));
        let error = Listeners::bind(address, 1).expect_err("a documentation address");
        assert!(error.to_string().contains("not an address of this machine"), "{error}");
    }
}
