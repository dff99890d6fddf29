//! What a service manager is told, where one started the process and asks for it: that it serves, and that it
//! ends (`sd_notify(3)`: datagrams to the socket that `NOTIFY_SOCKET` names).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// It serves. The process is named, since an upgrade's is not the one that was started.
pub(crate) fn note_ready() {
    send(&format!("READY=1\nMAINPID={}\nSTATUS=serving", std::process::id()));
}

/// It finishes what is under way, and ends.
pub(crate) fn note_stopping() {
    send("STOPPING=1\nSTATUS=finishing requests under way");
}

fn send(text: &str) {
    let Some(name) = std::env::var_os(SOCKET_VARIABLE) else { return };
    let sent = address(&name.to_string_lossy())
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager at {SOCKET_VARIABLE} is not reached");
    }
}

/// The address of a socket: a path, or behind an `@` a name of the kernel's.
fn address(name: &str) -> std::io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}
