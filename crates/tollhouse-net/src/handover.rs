//! Hand-over of listening sockets from a running process to its successor, over a Unix socket.
//!
//! 1. The successor connects and sends a greeting. The old process checks the greeting and the
//!    peer's user before it gives anything away.
//! 2. The old process sends its file descriptors (`SCM_RIGHTS`, in several messages if needed) and
//!    a short opaque `legacy`.
//! 3. While the successor starts, it sends a sign of life every few seconds.
//! 4. Once the successor serves, it says so, and the old process confirms and stops accepting.
//!
//! Both processes hold the same sockets meanwhile, so connections in their accept queues are never
//! lost.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_type;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, getsockname, recvmsg, sendmsg,
};
use tollhouse_stdx::UnixPath;

/// File descriptors per message: the kernel's limit (`SCM_MAX_FD`).
const SOCKETS_PER_MESSAGE: usize = 253;

/// Maximum number of sockets in a handover. Each listen address has one socket per core, so that no
/// real machine reaches this number.
const SOCKETS_MAX: u32 = 65_536;

/// Maximum length of the legacy in bytes; it contains a few keys.
const LEGACY_BYTES_MAX: u32 = 4_096;

/// First bytes of a successor: the protocol with its version.
const GREETING: &[u8; 10] = b"tollhouse2";

/// Timeout of the greeting, which is sent together with the connection.
const GREETING_TIME: Duration = Duration::from_secs(2);

/// Maximum time for the old process to release resources that only one process may hold.
const RELEASE_TIME: Duration = Duration::from_secs(60);

/// Interval of the successor's signs of life.
const PULSE_INTERVAL: Duration = Duration::from_secs(2);

/// Silence after which a successor counts as dead or hanging.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Maximum time for the start of a successor; several times that of a million objects on a slow
/// disk.
const START_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// Timeout for the old process to confirm that it drains.
const LEAVE_TIME: Duration = Duration::from_secs(10);

/// From the old process: the greeting was accepted, sockets follow.
const ACCEPTED: u8 = b'A';
/// From the new process: still starting.
const ALIVE: u8 = b'L';
/// Byte from the new process: it serves.
const SERVING: u8 = b'S';
/// Byte from the old process: it drains its connections and will exit.
const LEAVING: u8 = b'G';
/// From the old process: gave up waiting and keeps serving.
const GIVEN_UP: u8 = b'X';

/// Maximum path length of a Unix socket in bytes: 108 with the final NUL (`unix(7)`).
const PATH_BYTES_MAX: usize = 107;

/// A path that fits into a socket address. A file in a deep folder is reached through an open
/// handle of that folder, which lives as long as this value.
struct ShortPath {
    path: PathBuf,
    _folder: Option<File>,
}

impl ShortPath {
    fn new(path: &Path) -> io::Result<Self> {
        let whole = Self { path: path.to_owned(), _folder: None };
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(whole);
        };
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(whole);
        }
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens the Unix socket for successors; a file left by a dead process is replaced.
///
/// # Errors
/// Errors of the operating system.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(ShortPath::new(path)?.path())?;
    // Restricted to the owner, because any process that connects is given the listening sockets.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connection to the new process, held by the old one during a hand-over; both run as one user.
#[derive(Debug)]
pub struct Successor(UnixStream);

impl Successor {
    /// Reads and checks the greeting of a connected process.
    ///
    /// # Errors
    /// If the process belongs to another user, speaks another protocol, or is silent. Nothing has
    /// been given away then.
    pub fn greet(mut stream: UnixStream) -> io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(&stream)?.uid;
        if peer != rustix::process::geteuid() {
            let reason = format!("it runs as user {}", peer.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        stream.set_read_timeout(Some(GREETING_TIME))?;
        stream.set_write_timeout(Some(GREETING_TIME))?;
        let mut greeting = [0; GREETING.len()];
        stream.read_exact(&mut greeting)?;
        if greeting != *GREETING {
            return Err(io::Error::other("it speaks another protocol, or another version of it"));
        }
        Ok(Self(stream))
    }

    /// Sends the sockets, and `legacy` after them.
    ///
    /// # Errors
    /// If `sockets` is empty or too long, `legacy` is too long, or the successor is gone. The
    /// caller keeps serving.
    pub fn give(&mut self, sockets: &[BorrowedFd<'_>], legacy: &[u8]) -> io::Result<()> {
        let count = u32::try_from(sockets.len()).unwrap_or(u32::MAX);
        if count == 0 || count > SOCKETS_MAX {
            return Err(io::Error::other("too many or no sockets to hand over"));
        }
        self.0.write_all(&[ACCEPTED])?;
        self.0.write_all(&count.to_be_bytes())?;
        for sockets in sockets.chunks(SOCKETS_PER_MESSAGE) {
            let rights = SendAncillaryMessage::ScmRights(sockets);
            let mut space = vec![MaybeUninit::uninit(); rights.size()];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(rights) {
                return Err(io::Error::other("the message of sockets does not fit"));
            }
            sendmsg(self.0.as_fd(), &[IoSlice::new(b"T")], &mut control, SendFlags::NOSIGNAL)?;
        }
        let length = u32::try_from(legacy.len()).unwrap_or(u32::MAX);
        if length > LEGACY_BYTES_MAX {
            return Err(io::Error::other("the data for the successor are too long"));
        }
        self.0.write_all(&length.to_be_bytes())?;
        self.0.write_all(legacy)
    }

    /// Waits until the successor serves, as long as it shows signs of life, and tells it that this
    /// process drains.
    ///
    /// # Errors
    /// If the successor died, hangs, or exceeds the longest start. The successor is told so, and
    /// the caller keeps serving.
    pub fn await_serving(mut self) -> io::Result<()> {
        let outcome = self.hear_until_it_serves();
        let verdict = if outcome.is_ok() { LEAVING } else { GIVEN_UP };
        // Fails if the successor is gone, which `outcome` reports already.
        let sent = self.0.write_all(&[verdict]);
        outcome.and(sent)
    }

    fn hear_until_it_serves(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIME_MAX;
        self.0.set_read_timeout(Some(SILENCE_MAX))?;
        while Instant::now() < deadline {
            let mut word = [0];
            self.0.read_exact(&mut word)?;
            match word[0] {
                ALIVE => {}
                SERVING => return Ok(()),
                _ => return Err(io::Error::other("it sent an unknown byte")),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long to start"))
    }
}

/// The successor's side of a hand-over. While this value exists, signs of life are sent to the
/// predecessor.
#[derive(Debug)]
pub struct Inheritance {
    predecessor: UnixStream,
    /// Received sockets, in non-blocking mode.
    pub sockets: Vec<OwnedFd>,
    /// Opaque state left by the predecessor.
    pub legacy: Vec<u8>,
    /// Stops the signs of life when dropped.
    pulse: Sender<()>,
}

impl Inheritance {
    /// Requests the sockets of the process that listens on `path`.
    ///
    /// # Errors
    /// If no process listens there, or the reply is invalid.
    pub fn receive(path: &Path) -> io::Result<Inheritance> {
        let mut predecessor = UnixStream::connect(ShortPath::new(path)?.path())?;
        predecessor.set_read_timeout(Some(RELEASE_TIME))?;
        predecessor.write_all(GREETING)?;
        let mut head = [0; 5];
        predecessor.read_exact(&mut head).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => io::Error::other(
                "the running process does not hand over to this one: it is another user's, or of a \
                 version that cannot",
            ),
            _ => error,
        })?;
        let [answer, count @ ..] = head;
        let count = u32::from_be_bytes(count);
        if answer != ACCEPTED || count == 0 || count > SOCKETS_MAX {
            return Err(io::Error::other("the running process speaks another protocol"));
        }
        // The kernel limits the number of descriptors per message.
        let mut sockets = Vec::new();
        while sockets.len() < count as usize {
            let more = receive_some(&predecessor)?;
            if more.is_empty() {
                return Err(io::Error::other("the running process handed over too few sockets"));
            }
            sockets.extend(more);
        }
        let mut length = [0; 4];
        predecessor.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > LEGACY_BYTES_MAX {
            return Err(io::Error::other("the running process speaks another protocol"));
        }
        let mut legacy = vec![0; length as usize];
        predecessor.read_exact(&mut legacy)?;
        let pulse = start_pulse(predecessor.try_clone()?)?;
        Ok(Inheritance { predecessor, sockets, legacy, pulse })
    }

    /// Removes and returns the received listening sockets that are bound to `address`.
    pub fn take(&mut self, address: SocketAddr) -> Vec<TcpListener> {
        self.take_kind(SocketType::STREAM, address).into_iter().map(TcpListener::from).collect()
    }

    /// Takes the listener bound to this path of a Unix socket. All received handles of that path
    /// refer to one socket, so further ones are closed.
    pub fn take_unix(&mut self, path: UnixPath) -> Option<UnixListener> {
        let is_meant = |socket: &OwnedFd| {
            let local: Option<SocketAddrUnix> =
                getsockname(socket).ok().and_then(|local| local.try_into().ok());
            local.is_some_and(|it| it.path_bytes() == Some(path.as_str().as_bytes()))
        };
        let (taken, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sockets).into_iter().partition(is_meant);
        self.sockets = kept;
        taken.into_iter().next().map(UnixListener::from)
    }

    /// Removes and returns the received UDP sockets that are bound to `address`.
    pub fn take_datagrams(&mut self, address: SocketAddr) -> Vec<UdpSocket> {
        self.take_kind(SocketType::DGRAM, address).into_iter().map(UdpSocket::from).collect()
    }

    fn take_kind(&mut self, kind: SocketType, address: SocketAddr) -> Vec<OwnedFd> {
        let is_meant = |socket: &OwnedFd| {
            let local = getsockname(socket).ok().and_then(|local| local.try_into().ok());
            socket_type(socket) == Ok(kind) && local == Some(address)
        };
        let (taken, kept) = std::mem::take(&mut self.sockets).into_iter().partition(is_meant);
        self.sockets = kept;
        taken
    }

    /// Tells the predecessor that this process serves, so that it drains and exits. A predecessor
    /// that has died meanwhile is not an error.
    ///
    /// # Errors
    /// If the predecessor has given up waiting and keeps serving. This process must then not serve.
    pub fn confirm(self) -> io::Result<()> {
        let Inheritance { mut predecessor, pulse, .. } = self;
        drop(pulse);
        // Fails if the other side has closed; its last byte can still be read.
        let _ = predecessor.write_all(&[SERVING]);
        predecessor.set_read_timeout(Some(LEAVE_TIME))?;
        let mut word = [0];
        match predecessor.read_exact(&mut word) {
            Ok(()) if word[0] == GIVEN_UP => Err(io::Error::other(
                "the running process has waited too long for this one and keeps serving",
            )),
            _ => Ok(()),
        }
    }
}

fn receive_some(predecessor: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_PER_MESSAGE))];
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
    sockets.into_iter().collect()
}

/// Starts a thread that sends signs of life until the returned sender is dropped.
fn start_pulse(mut predecessor: UnixStream) -> io::Result<Sender<()>> {
    let (pulse, over) = channel();
    predecessor.set_write_timeout(Some(PULSE_INTERVAL))?;
    std::thread::Builder::new().name("handover-pulse".into()).spawn(move || {
        while matches!(over.recv_timeout(PULSE_INTERVAL), Err(RecvTimeoutError::Timeout)) {
            // Errors are ignored; the hand-over detects a dead predecessor when it is confirmed.
            let _ = predecessor.write_all(&[ALIVE]);
        }
    })?;
    Ok(pulse)
}

fn adopt(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&descriptor, true)?;
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// A file, and a thread that acts as the old process for the first peer that connects.
    fn old_side<T: Send + 'static>(
        act: impl FnOnce(UnixStream) -> T + Send + 'static,
    ) -> (tempfile::TempDir, PathBuf, std::thread::JoinHandle<T>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("handover.sock");
        let (path, thread) = old_side_at(path, act);
        (directory, path, thread)
    }

    fn old_side_at<T: Send + 'static>(
        path: PathBuf,
        act: impl FnOnce(UnixStream) -> T + Send + 'static,
    ) -> (PathBuf, std::thread::JoinHandle<T>) {
        let server = listen(&path).expect("the file can be bound");
        let thread = std::thread::spawn(move || act(server.accept().expect("a successor").0));
        (path, thread)
    }

    #[test]
    fn a_folder_that_lies_deep_holds_the_socket_too() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let deep = directory.path().join("deep".repeat(20)).join("deeper".repeat(20));
        std::fs::create_dir_all(&deep).expect("a folder");
        let path = deep.join("handover.sock");
        assert!(path.as_os_str().len() > PATH_BYTES_MAX);
        let (sockets, address) = bound(1);
        let (path, old) =
            old_side_at(path, move |stream| give_all(stream, &sockets).await_serving());
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut inheritance = Inheritance::receive(&path).expect("sockets arrive");
        assert_eq!(inheritance.take(address).len(), 1);
        inheritance.confirm().expect("the old process leaves");
        old.join().expect("no panic").expect("the old side ends well");
    }

    fn bound(count: usize) -> (Vec<TcpListener>, SocketAddr) {
        let first = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
        let address = first.local_addr().expect("bound");
        let mut sockets: Vec<_> =
            (1..count).map(|_| first.try_clone().expect("a descriptor")).collect();
        sockets.push(first);
        (sockets, address)
    }

    fn give_all(stream: UnixStream, sockets: &[TcpListener]) -> Successor {
        let mut successor = Successor::greet(stream).expect("it says what it wants");
        let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        successor.give(&descriptors, b"legacy").expect("the successor takes them");
        successor
    }

    #[test]
    fn a_successor_accepts_what_waited_in_the_old_queue() {
        let (sockets, address) = bound(1);
        let waiting = TcpStream::connect(address).expect("the queue takes it");
        let (_directory, path, old) = old_side(move |stream| {
            give_all(stream, &sockets).await_serving().expect("the successor confirms");
        });
        let mut inheritance = Inheritance::receive(&path).expect("sockets arrive");
        let sockets = inheritance.take(address);
        assert_eq!(inheritance.legacy, b"legacy");
        inheritance.confirm().expect("the old process leaves");
        old.join().expect("the old side ends well");
        sockets[0].set_nonblocking(false).expect("a socket");
        let (_accepted, peer) = sockets[0].accept().expect("the waiting connection");
        assert_eq!(peer, waiting.local_addr().expect("connected"));
    }

    #[test]
    fn more_sockets_than_a_message_holds_arrive_in_several() {
        let (sockets, address) = bound(2 * SOCKETS_PER_MESSAGE + 1);
        let count = sockets.len();
        let (_directory, path, old) =
            old_side(move |stream| give_all(stream, &sockets).await_serving());
        let mut inheritance = Inheritance::receive(&path).expect("sockets arrive");
        assert_eq!(inheritance.take(address).len(), count);
        inheritance.confirm().expect("the old process leaves");
        old.join().expect("no panic").expect("the old side ends well");
    }

    #[test]
    fn whoever_does_not_say_what_it_wants_is_turned_away() {
        for greeting in ["", "tollhouse9", "GET / HTTP/1.1\r\n\r\n"] {
            let (_directory, path, old) =
                old_side(|stream| Successor::greet(stream).map(drop).map_err(|it| it.kind()));
            let mut stream = UnixStream::connect(&path).expect("it listens");
            stream.write_all(greeting.as_bytes()).expect("it reads");
            drop(stream);
            assert!(old.join().expect("no panic").is_err(), "{greeting:?}");
        }
    }

    #[test]
    fn a_successor_that_dies_is_noticed_and_one_that_was_given_up_is_told() {
        let (sockets, _) = bound(1);
        let (_directory, path, old) =
            old_side(move |stream| give_all(stream, &sockets).await_serving().is_err());
        drop(Inheritance::receive(&path).expect("sockets arrive"));
        assert!(old.join().expect("no panic"));

        let (sockets, _) = bound(1);
        let (_directory, path, old) = old_side(move |stream| {
            let mut successor = give_all(stream, &sockets);
            successor.0.write_all(&[GIVEN_UP]).expect("it lives");
        });
        let inheritance = Inheritance::receive(&path).expect("sockets arrive");
        old.join().expect("no panic");
        let error = inheritance.confirm().expect_err("the old process stays");
        assert!(error.to_string().contains("keeps serving"), "{error}");
    }

    #[test]
    fn without_a_running_process_the_error_says_so() {
        let error = Inheritance::receive(Path::new("/nonexistent/handover.sock"));
        assert_eq!(error.expect_err("nobody listens").kind(), io::ErrorKind::NotFound);
    }
}
