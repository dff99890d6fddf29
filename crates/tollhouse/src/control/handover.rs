//! Waits for a successor and hands it the listening sockets.
//!
//! Runs on a thread of its own, since the exchange over the Unix socket is short and blocking.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tollhouse_net::{Listeners, handover};

/// The file in the data directory that a successor connects to.
pub const FILE: &str = "handover.sock";

/// Path of that file.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Second handles on all sockets, to be handed over later.
///
/// # Errors
/// When the process is out of descriptors.
pub fn duplicates(listeners: &[Listeners]) -> std::io::Result<Vec<TcpListener>> {
    listeners.iter().flat_map(|listeners| &listeners.sockets).map(TcpListener::try_clone).collect()
}

/// Serves successors until one has taken over; then sends one message and ends.
///
/// # Errors
/// When the file cannot be made or the thread not be started.
pub fn offer(
    data_dir: &Path,
    sockets: Vec<TcpListener>,
    taken_over: mpsc::Sender<()>,
) -> std::io::Result<()> {
    let server = handover::listen(&path(data_dir))?;
    std::thread::Builder::new().name("handover".into()).spawn(move || {
        for successor in server.incoming() {
            let Ok(mut successor) = successor else { continue };
            let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            match handover::give(&mut successor, &descriptors) {
                Ok(()) => {
                    let _ = taken_over.blocking_send(());
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "a successor asked for the sockets and did not start");
                }
            }
        }
    })?;
    Ok(())
}
