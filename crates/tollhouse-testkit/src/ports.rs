//! Addresses that fail predictably: one that refuses connections, one that never answers. Also
//! reserved ports for programs that cannot report a port chosen by the kernel.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::{Domain, Protocol, Socket, Type};

/// Bound port without a listener: connections are refused, and no other process gets the port by
/// chance. A program that is told the number and sets `SO_REUSEPORT` can listen on it.
#[derive(Debug)]
pub struct ClosedPort {
    socket: Socket,
}

impl ClosedPort {
    /// Binds a port.
    ///
    /// # Panics
    ///
    /// If loopback cannot be bound.
    pub fn new() -> Self {
        let socket = unbound();
        socket.set_reuse_port(true).expect("a fresh socket takes its options");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).expect("loopback can be bound");
        Self { socket }
    }

    /// Returns the address that refuses connections.
    pub fn address(&self) -> SocketAddr {
        address_of(&self.socket)
    }

    /// Starts listening on the port.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
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

/// Port with a full accept queue: connections hang until they time out.
#[derive(Debug)]
pub struct StuckPort {
    socket: Socket,
    _queued: Vec<TcpStream>,
}

impl StuckPort {
    /// Binds a port and fills its queue.
    ///
    /// # Panics
    ///
    /// If loopback cannot be bound.
    pub fn new() -> Self {
        let socket = unbound();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).expect("loopback can be bound");
        // The kernel queues one connection more than the backlog.
        socket.listen(0).expect("a bound socket can listen");
        let queued = TcpStream::connect(address_of(&socket)).expect("the queue takes one");
        Self { socket, _queued: vec![queued] }
    }

    /// Returns the address that never answers.
    pub fn address(&self) -> SocketAddr {
        address_of(&self.socket)
    }
}

impl Default for StuckPort {
    fn default() -> Self {
        Self::new()
    }
}

/// Range of reserved ports. These ports and those ten thousand above, which some programs use
/// between their own processes, are below the kernel's ephemeral range. So no other connection or
/// listener takes a free one by chance.
const RESERVED_FIRST: u32 = 12_000;
const RESERVED_COUNT: u32 = 10_000;

/// Distance between a port and the partner port that is reserved with it.
const PARTNER: u16 = 10_000;

/// Port reserved for one test, together with the port ten thousand above, until dropped.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    /// Abstract socket that marks the reservation. The kernel releases it when the process ends,
    /// even after a crash.
    _name: UnixListener,
}

impl ReservedPort {
    /// Reserves a port.
    ///
    /// # Panics
    ///
    /// If all are taken.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..RESERVED_COUNT {
            // Processes start at different positions, so that they rarely collide.
            let turn = std::process::id()
                .wrapping_mul(97)
                .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let number = u16::try_from(RESERVED_FIRST + turn % RESERVED_COUNT);
            if let Some(port) = number.ok().and_then(Self::take) {
                return port;
            }
        }
        panic!("all ports are taken");
    }

    fn take(number: u16) -> Option<Self> {
        let name = format!("tollhouse-test-port-{number}");
        let name = std::os::unix::net::SocketAddr::from_abstract_name(name).ok()?;
        let name = UnixListener::bind_addr(&name).ok()?;
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        (is_free(number) && is_free(number + PARTNER)).then_some(Self { number, _name: name })
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the loopback address with this port.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.number))
    }
}

impl Default for ReservedPort {
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
