//! Addresses that fail in a known way: one that refuses, one that never answers.

use std::net::{SocketAddr, TcpListener, TcpStream};

use socket2::{Domain, Protocol, Socket, Type};

/// A port that is taken but not listened on: connections to it are refused, and nobody gets it by
/// chance. A program that is told its number and shares ports (`SO_REUSEPORT`) can listen on it.
#[derive(Debug)]
pub struct ClosedPort {
    socket: Socket,
}

impl ClosedPort {
    /// Takes a port.
    ///
    /// # Panics
    /// When loopback cannot be bound.
    pub fn new() -> Self {
        let socket = unbound();
        socket.set_reuse_port(true).expect("a fresh socket takes its options");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).expect("loopback can be bound");
        Self { socket }
    }

    /// The address that refuses.
    pub fn address(&self) -> SocketAddr {
        address_of(&self.socket)
    }

    /// Begins to listen there.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn open(self) -> TcpListener {
        self.socket.listen(128).expect("a bound socket can listen");
        self.socket.into()
    }
}

impl Default for ClosedPort {
    fn default() -> Self {
        Self::new()
    }
}

/// A port whose accept queue is full: connections to it hang until they time out.
#[derive(Debug)]
pub struct StuckPort {
    socket: Socket,
    _queued: Vec<TcpStream>,
}

impl StuckPort {
    /// Takes a port and fills its queue.
    ///
    /// # Panics
    /// When loopback cannot be bound.
    pub fn new() -> Self {
        let socket = unbound();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).expect("loopback can be bound");
        // The kernel queues one connection more than the backlog says.
        socket.listen(0).expect("a bound socket can listen");
        let queued = TcpStream::connect(address_of(&socket)).expect("the queue takes one");
        Self { socket, _queued: vec![queued] }
    }

    /// The address that never answers.
    pub fn address(&self) -> SocketAddr {
        address_of(&self.socket)
    }
}

impl Default for StuckPort {
    fn default() -> Self {
        Self::new()
    }
}

fn unbound() -> Socket {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("sockets can be made")
}

fn address_of(socket: &Socket) -> SocketAddr {
    let address = socket.local_addr().ok().and_then(|address| address.as_socket());
    address.expect("a bound socket has an address")
}
