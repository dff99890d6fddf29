//! Addresses that fail in a known way: one that refuses, one that never answers. And ports for programs that cannot
//! say which one the kernel gave them.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Where reserved ports begin, and how many there are. Below the range from which the kernel hands out ports, also
/// ten thousand above, where some programs talk among themselves: what is free stays free, whoever connects or listens
/// meanwhile.
const RESERVED_FIRST: u32 = 12_000;
const RESERVED_COUNT: u32 = 10_000;

/// What a port and the one above it that goes with it differ by.
const PARTNER: u16 = 10_000;

/// A port that no other test gets for as long as this lives, nor the one ten thousand above.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    /// Its name is taken, which the kernel gives back when this process ends, however it does.
    _name: UnixListener,
}

impl ReservedPort {
    /// Takes one.
    ///
    /// # Panics
    /// When none is left.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..RESERVED_COUNT {
            // Processes begin at different places, so that they seldom meet.
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

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// It on loopback.
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
