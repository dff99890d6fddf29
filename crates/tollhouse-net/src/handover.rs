//! Hands listening sockets from a running process to its successor over a Unix socket.
//!
//! The successor connects to the file, receives one message of descriptors (`SCM_RIGHTS`), starts
//! to serve, and writes one byte; only then does the old process stop accepting. Since both hold
//! the same sockets, connections waiting in their queues are lost at no moment.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors in one message: the kernel's own bound (`SCM_MAX_FD`).
pub const SOCKETS_MAX: usize = 253;

/// How long the old process waits for its successor to serve before it goes on as before.
pub const CONFIRM_TIME: Duration = Duration::from_secs(60);

/// Written by the successor once it serves.
const SERVING: u8 = b'S';

/// Opens the file that a successor connects to, replacing one left by a dead process.
///
/// # Errors
/// What the operating system says.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

/// The old side: sends `sockets`, then waits until the successor serves.
///
/// # Errors
/// When the successor went away or took longer than [`CONFIRM_TIME`]; the caller keeps serving.
pub fn give(successor: &mut UnixStream, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    if sockets.is_empty() || sockets.len() > SOCKETS_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many or no sockets to hand over",
        ));
    }
    let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(sockets).size()];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::other("the message of sockets does not fit"));
    }
    let payload = [IoSlice::new(b"T")];
    sendmsg(successor.as_fd(), &payload, &mut control, SendFlags::empty())?;
    successor.set_read_timeout(Some(CONFIRM_TIME))?;
    let mut answer = [0];
    successor.read_exact(&mut answer)?;
    if answer[0] == SERVING { Ok(()) } else { Err(io::Error::other("unknown answer")) }
}

/// The successor's side of a hand-over that has begun.
#[derive(Debug)]
pub struct Inheritance {
    predecessor: UnixStream,
    /// The sockets received, listening and non-blocking.
    pub sockets: Vec<TcpListener>,
}

impl Inheritance {
    /// Asks the process behind `path` for its sockets.
    ///
    /// # Errors
    /// When nobody listens there, or the answer holds no sockets.
    pub fn receive(path: &Path) -> io::Result<Inheritance> {
        let predecessor = UnixStream::connect(path)?;
        predecessor.set_read_timeout(Some(CONFIRM_TIME))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut payload = [0];
        let mut parts = [IoSliceMut::new(&mut payload)];
        recvmsg(predecessor.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let mut sockets = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                sockets.extend(descriptors.map(adopt));
            }
        }
        let sockets: Vec<TcpListener> = sockets.into_iter().collect::<io::Result<_>>()?;
        if sockets.is_empty() {
            return Err(io::Error::other("the running process handed over no sockets"));
        }
        Ok(Inheritance { predecessor, sockets })
    }

    /// Takes the sockets that are bound to `address` out of the inheritance.
    pub fn take(&mut self, address: std::net::SocketAddr) -> Vec<TcpListener> {
        let (taken, kept) = std::mem::take(&mut self.sockets)
            .into_iter()
            .partition(|socket| socket.local_addr().is_ok_and(|local| local == address));
        self.sockets = kept;
        taken
    }

    /// Tells the predecessor that this process serves; it drains and exits.
    ///
    /// # Errors
    /// When the predecessor is gone already, which harms nobody.
    pub fn confirm(mut self) -> io::Result<()> {
        self.predecessor.write_all(&[SERVING])
    }
}

fn adopt(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let listener = TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_successor_accepts_what_waited_in_the_old_queue() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("handover.sock");
        let server = listen(&path).expect("the file can be bound");
        let old = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let address = old.local_addr().expect("bound");
        let waiting = TcpStream::connect(address).expect("the queue takes it");
        let giver = std::thread::spawn(move || {
            let (mut successor, _) = server.accept().expect("the successor connects");
            give(&mut successor, &[old.as_fd()]).expect("the successor confirms");
        });
        let mut inheritance = Inheritance::receive(&path).expect("sockets arrive");
        let sockets = inheritance.take(address);
        inheritance.confirm().expect("the old process listens");
        giver.join().expect("the old side ends well");
        sockets[0].set_nonblocking(false).expect("a socket");
        let (_accepted, peer) = sockets[0].accept().expect("the waiting connection");
        assert_eq!(peer, waiting.local_addr().expect("connected"));
    }

    #[test]
    fn without_a_running_process_the_error_says_so() {
        let error = Inheritance::receive(Path::new("/nonexistent/handover.sock"));
        assert_eq!(error.expect_err("nobody listens").kind(), io::ErrorKind::NotFound);
    }
}
