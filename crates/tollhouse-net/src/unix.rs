//! Unix sockets: connections to them, and listeners on them.
//!
//! A connection over a Unix socket has the type of a TCP connection, because the kernel's calls for
//! reading, writing, waiting and closing are the same. Only TCP's addresses and options return an
//! error.

use std::fs::Permissions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tollhouse_stdx::UnixPath;

use crate::listen::BACKLOG;

/// Address of a client that comes over a Unix socket and has none: no client over TCP can have it.
pub const UNIX_PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Reason why a Unix socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {path}: {reason}; {hint}")]
pub struct UnixListenError {
    path: UnixPath,
    reason: io::Error,
    hint: &'static str,
}

/// A listening Unix socket, with a handle for each worker.
#[derive(Debug)]
pub struct UnixListeners {
    pub path: UnixPath,
    /// Handles of the socket, one per worker.
    pub sockets: Vec<StdUnixListener>,
}

impl UnixListeners {
    /// Binds a socket that clients may use as `mode` allows, and replaces one that a dead process has left.
    ///
    /// # Errors
    /// Another process listens there, or the path is not a socket's.
    pub fn bind(path: UnixPath, mode: u32, workers: usize) -> Result<Self, UnixListenError> {
        let explained = |reason: io::Error| explain(path, reason);
        remove_stale(Path::new(path.as_str())).map_err(explained)?;
        let first = bind_with_mode(path, mode).map_err(explained)?;
        Self::adopt(path, first, workers).map_err(explained)
    }

    /// Takes over a socket that a predecessor handed down.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn adopt(path: UnixPath, first: StdUnixListener, workers: usize) -> io::Result<Self> {
        let mut sockets = vec![first];
        while sockets.len() < workers {
            sockets.push(sockets[0].try_clone()?);
        }
        Ok(Self { path, sockets })
    }
}

/// Removes the file of a socket behind which no process listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(_) => {}
    }
    match StdUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        // Whether it answers or is only busy: a process has it.
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

/// Binds a Unix socket with `mode`. The kernel creates the file with the rights of the unbound
/// socket, which are removed first, so that no client connects before `mode` applies.
fn bind_with_mode(path: UnixPath, mode: u32) -> io::Result<StdUnixListener> {
    let flags = SocketFlags::CLOEXEC;
    let descriptor = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&descriptor, Mode::from_raw_mode(0))?;
    bind(&descriptor, &SocketAddrUnix::new(path.as_str())?)?;
    std::fs::set_permissions(path.as_str(), Permissions::from_mode(mode))?;
    listen(&descriptor, BACKLOG)?;
    let listener = StdUnixListener::from(descriptor);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn explain(path: UnixPath, reason: io::Error) -> UnixListenError {
    let hint = match reason.kind() {
        io::ErrorKind::AddrInUse => {
            "another process listens there: stop it, or choose another path; to replace a running tollhouse, start with \
             --upgrade"
        }
        io::ErrorKind::AlreadyExists => {
            "there is a file that is not a socket: remove it, or choose another path"
        }
        io::ErrorKind::NotFound => "make the folder first",
        io::ErrorKind::PermissionDenied => {
            "let this user write to the folder, or choose another path"
        }
        _ => "check the path",
    };
    UnixListenError { path, reason, hint }
}

/// A listener of either kind, whose connections are of one type.
#[derive(Debug)]
pub enum Acceptor {
    /// Listener on a TCP port.
    Tcp(TcpListener),
    /// Listener on a Unix socket; the address of its clients is [`UNIX_PEER`].
    Unix(UnixListener),
}

impl Acceptor {
    /// Returns the next connection, and its client.
    ///
    /// # Errors
    /// What the operating system says.
    #[inline]
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Self::Tcp(listener) => listener.accept().await,
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((as_stream(stream)?, UNIX_PEER))
            }
        }
    }

    /// Stops waiting for connections and gives those that the kernel has queued. It is asked itself: the reactor knows
    /// only of those that came before its last look.
    pub fn into_queue(self) -> impl Iterator<Item = (TcpStream, SocketAddr)> {
        let queue = match self {
            Self::Tcp(listener) => listener.into_std().ok().map(Queue::Tcp),
            Self::Unix(listener) => listener.into_std().ok().map(Queue::Unix),
        };
        std::iter::from_fn(move || queue.as_ref()?.next()).flatten()
    }
}

enum Queue {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

impl Queue {
    /// `None` at its end; nothing for a connection that cannot be served.
    fn next(&self) -> Option<Option<(TcpStream, SocketAddr)>> {
        let (stream, peer) = match self {
            Self::Tcp(listener) => listener.accept().ok()?,
            Self::Unix(listener) => (over(listener.accept().ok()?.0), UNIX_PEER),
        };
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        Some(stream.ok().map(|stream| (stream, peer)))
    }
}

/// Returns the connection as the type that streams are made of.
///
/// # Errors
/// The reactor cannot take it.
pub(crate) fn as_stream(stream: UnixStream) -> io::Result<TcpStream> {
    TcpStream::from_std(over(stream.into_std()?))
}

fn over(stream: StdUnixStream) -> std::net::TcpStream {
    std::net::TcpStream::from(OwnedFd::from(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_in(folder: &tempfile::TempDir, name: &str) -> UnixPath {
        let path = folder.path().join(name);
        UnixPath::parse(&format!("unix:{}", path.display())).expect("a short path")
    }

    #[test]
    fn a_socket_has_the_mode_that_was_asked_for_and_a_handle_for_each_worker() {
        let folder = tempfile::tempdir().expect("a folder");
        for mode in [0o600, 0o660, 0o666] {
            let path = path_in(&folder, &format!("{mode:o}.sock"));
            let listeners = UnixListeners::bind(path, mode, 3).expect("it can be bound");
            assert_eq!(listeners.sockets.len(), 3);
            let found = std::fs::metadata(path.as_str()).expect("a file").permissions().mode();
            assert_eq!(found & 0o777, mode);
        }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = path_in(&folder, "a.sock");
        drop(UnixListeners::bind(path, 0o600, 1).expect("it can be bound"));
        assert!(Path::new(path.as_str()).exists(), "it stays behind");
        let listening = UnixListeners::bind(path, 0o600, 1).expect("it is stale");
        let error = UnixListeners::bind(path, 0o600, 1).expect_err("a process listens");
        assert!(error.to_string().contains("--upgrade"), "{error}");
        drop(listening);
        let file = path_in(&folder, "file");
        std::fs::write(file.as_str(), "text").expect("it can be written");
        let error = UnixListeners::bind(file, 0o600, 1).expect_err("a file");
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(std::fs::read(file.as_str()).expect("it is there"), b"text");
        let error = UnixListeners::bind(path_in(&folder, "none/a.sock"), 0o600, 1);
        assert!(error.expect_err("no folder").to_string().contains("make the folder"));
    }
}
