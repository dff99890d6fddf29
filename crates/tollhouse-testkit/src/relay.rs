//! Relays between the members of an etcd cluster, which form a network that can be cut. A relay
//! identifies the connecting member by the header `X-Server-From`, which etcd sends between
//! members.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wire::Wire;

/// Header with the id of the sending member.
const SENDER: &str = "x-server-from:";

/// Network of all relays of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Network(Arc<Mutex<Links>>);

#[derive(Debug, Default)]
struct Links {
    /// Indices of members by their ids in etcd.
    members: BTreeMap<String, usize>,
    /// Index of the member that is cut off, if any.
    cut: Option<usize>,
    open: Vec<Link>,
}

/// Open connection from one member to another.
#[derive(Debug)]
struct Link {
    sender: Option<String>,
    receiver: usize,
    ends: [TcpStream; 2],
}

/// Relay in front of one member.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
}

impl Network {
    /// Starts a relay to a member at an address. It runs until the process ends.
    ///
    /// # Panics
    ///
    /// If loopback cannot be bound.
    pub fn relay(&self, member: usize, to: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let address = listener.local_addr().expect("it is bound");
        let network = self.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let network = network.clone();
                // Errors are ignored, because the connecting member tries again.
                std::thread::spawn(move || drop(network.pass_on(from, member, to)));
            }
        });
        Relay { address }
    }

    /// Records the id that etcd gives a member.
    pub fn learn(&self, name: &str, member: usize) {
        self.lock().members.insert(name.to_owned(), member);
    }

    /// Disconnects a member: closes its connections in both directions and refuses new ones.
    pub fn cut_off(&self, member: usize) {
        let mut links = self.lock();
        links.cut = Some(member);
        let open = std::mem::take(&mut links.open);
        let (cut, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|link| links.is_cut(link));
        links.open = open;
        for end in cut.iter().flat_map(|link| &link.ends) {
            // Fails only if the connection has ended already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Ends a partition: all members can reach each other again.
    pub fn heal(&self) {
        self.lock().cut = None;
    }

    fn pass_on(&self, from: TcpStream, receiver: usize, to: SocketAddr) -> io::Result<()> {
        let mut first = Wire::new(from)?;
        let Some(head) = first.take_through(b"\r\n\r\n")? else { return Ok(()) };
        let from = first.stream().try_clone()?;
        from.set_read_timeout(None)?;
        let text = String::from_utf8_lossy(&head).to_lowercase();
        let sender = text.lines().find_map(|line| line.strip_prefix(SENDER));
        let mut to = TcpStream::connect(to)?;
        let link = Link {
            sender: sender.map(|name| name.trim().to_owned()),
            receiver,
            ends: [from.try_clone()?, to.try_clone()?],
        };
        {
            let mut links = self.lock();
            if links.is_cut(&link) {
                return Ok(());
            }
            links.open.push(link);
        }
        to.write_all(&head)?;
        to.write_all(first.pending())?;
        let (back_from, back_to) = (to.try_clone()?, from.try_clone()?);
        let back = std::thread::spawn(move || copy(back_from, back_to));
        copy(from, to);
        drop(back.join());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Links> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Links {
    fn is_cut(&self, link: &Link) -> bool {
        let sender = link.sender.as_ref().and_then(|name| self.members.get(name));
        self.cut.is_some_and(|cut| link.receiver == cut || sender == Some(&cut))
    }
}

impl Relay {
    /// Returns the address for other members.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Copies a stream to its end, then closes both.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
