//! Relays in front of the members of an etcd cluster, through which they reach each other: a network that can be cut.
//! A relay knows who connects by what members say first (`X-Server-From`, etcd's own header between members).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wire::Wire;

/// The header in which a member says which one it is.
const SENDER: &str = "x-server-from:";

/// The network that all relays of a cluster make.
#[derive(Debug, Clone, Default)]
pub struct Network(Arc<Mutex<Links>>);

#[derive(Debug, Default)]
struct Links {
    /// Members by what etcd calls them.
    members: BTreeMap<String, usize>,
    /// The one that is cut off.
    cut: Option<usize>,
    open: Vec<Link>,
}

/// A connection of one member to another.
#[derive(Debug)]
struct Link {
    sender: Option<String>,
    receiver: usize,
    ends: [TcpStream; 2],
}

/// The way to one member.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
}

impl Network {
    /// Opens the way to a member who listens at an address; it stays open until the process ends.
    ///
    /// # Panics
    /// When loopback cannot be bound.
    pub fn relay(&self, member: usize, to: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let address = listener.local_addr().expect("it is bound");
        let network = self.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let network = network.clone();
                // What cannot be opened or ends is tried again by who wants it.
                std::thread::spawn(move || drop(network.pass_on(from, member, to)));
            }
        });
        Relay { address }
    }

    /// Learns what etcd calls a member.
    pub fn learn(&self, name: &str, member: usize) {
        self.lock().members.insert(name.to_owned(), member);
    }

    /// Cuts a member off: nothing of it comes through any more, and nothing to it.
    pub fn cut_off(&self, member: usize) {
        let mut links = self.lock();
        links.cut = Some(member);
        let open = std::mem::take(&mut links.open);
        let (cut, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|link| links.is_cut(link));
        links.open = open;
        for end in cut.iter().flat_map(|link| &link.ends) {
            // Fails where it has ended already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Lets everything through again.
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
    /// Where the others connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Passes on what comes, and the end of it.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
