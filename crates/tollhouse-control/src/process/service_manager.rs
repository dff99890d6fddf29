//! Notifications to a service manager such as systemd, if it requests them: ready, and stopping
//! (`sd_notify(3)`: datagrams to the socket in `NOTIFY_SOCKET`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Reports that the process serves. The process id is included, because after an upgrade it differs
/// from the process that was started.
pub(crate) fn note_ready() {
    send(&format!("READY=1\nMAINPID={}\nSTATUS=serving", std::process::id()));
}

/// Reports that the process drains and ends.
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

/// Returns the socket address: a path, or after `@` an abstract name.
fn address(name: &str) -> std::io::Result<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}
