//! Waits for a successor and hands it the listening sockets.
//!
//! Runs on a thread of its own, since the exchange over the Unix socket is short and blocking.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tokio::sync::{mpsc, oneshot};
use tollhouse_net::handover;
use tollhouse_net::server_tls::tickets::TicketKeys;
use tollhouse_telemetry::Metrics;

use super::sockets::Sockets;
use crate::registry::RegistrySockets;

/// The file in the data directory that a successor connects to.
const FILE: &str = "handover.sock";

/// Path of that file.
fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Second handles on the listening sockets, kept for a successor.
///
/// While one exists, the kernel goes on to queue connections; so they are let go of when a drain
/// begins, and clients are refused instead of queued for nobody.
#[derive(Debug, Clone)]
pub struct Spares {
    sockets: Arc<Mutex<Vec<Arc<OwnedFd>>>>,
    /// The registry's, once that has been let go of for a successor.
    registry: Arc<Mutex<RegistrySockets>>,
    legacy: Legacy,
}

/// What a process leaves to its successor beside the sockets.
#[derive(Debug, Clone)]
pub struct Legacy {
    /// The keys of clients' tickets.
    pub tickets: Option<Arc<TicketKeys>>,
    /// Has the revision of the configuration in service.
    pub metrics: Arc<Metrics>,
}

impl Legacy {
    /// The revision in eight bytes, the keys behind them.
    fn export(&self) -> Vec<u8> {
        let revision = self.metrics.process().config_revision.value();
        let mut bytes = u64::try_from(revision).unwrap_or(0).to_be_bytes().to_vec();
        bytes.extend(self.tickets.as_deref().map(TicketKeys::export).unwrap_or_default());
        bytes
    }
}

/// Takes a legacy apart. Versions before this one left the keys alone.
fn parts_of(legacy: &[u8]) -> (u64, &[u8]) {
    match legacy.split_first_chunk() {
        Some((revision, keys)) if keys.is_empty() || TicketKeys::import(keys).is_some() => {
            (u64::from_be_bytes(*revision), keys)
        }
        _ => (0, legacy),
    }
}

/// Revision of the configuration that a predecessor serves; 0 without one.
pub fn revision(inheritance: Option<&handover::Inheritance>) -> u64 {
    inheritance.map_or(0, |from| parts_of(&from.legacy).0)
}

impl Spares {
    /// Duplicates all sockets.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn duplicate(sockets: &Sockets, legacy: Legacy) -> std::io::Result<Self> {
        let spares: std::io::Result<Vec<_>> =
            sockets.descriptors().map(|socket| socket.try_clone_to_owned().map(Arc::new)).collect();
        Ok(Self { sockets: Arc::new(Mutex::new(spares?)), registry: Arc::default(), legacy })
    }

    /// Lets go of all of them; a successor that is being served keeps its own.
    pub fn release(&self) {
        lock(&self.sockets).clear();
        drop(self.take_registry());
    }

    /// Keeps what the registry listened on.
    pub fn keep(&self, registry: RegistrySockets) {
        *lock(&self.registry) = registry;
    }

    /// Gives that back.
    pub fn take_registry(&self) -> RegistrySockets {
        std::mem::take(&mut *lock(&self.registry))
    }

    /// Handles on all of them, for one successor.
    fn all(&self) -> Vec<Arc<OwnedFd>> {
        let mut all = lock(&self.sockets).clone();
        all.extend(lock(&self.registry).duplicate().into_descriptors().map(Arc::new));
        all
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another process is about to leave what only one may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predecessor {
    /// What is in use is in somebody else's.
    None,
    /// It lets go of everything once it knows that this process starts.
    Leaving,
}

/// Takes the listening sockets over from a predecessor that runs with the same folder.
///
/// # Errors
/// There is a predecessor by what was asked for, and none answers.
pub fn inherit(
    data_dir: &Path,
    predecessor: Predecessor,
) -> anyhow::Result<Option<handover::Inheritance>> {
    if predecessor == Predecessor::None {
        return Ok(None);
    }
    handover::Inheritance::receive(&path(data_dir)).map(Some).with_context(|| {
        format!("no running tollhouse answers in {}; start without --upgrade", data_dir.display())
    })
}

/// The keys of clients' tickets: those of a predecessor, so that clients come back to this process as
/// they would have come back to that one, or fresh ones.
///
/// # Errors
/// The system has no randomness to give.
pub fn ticket_keys(inheritance: Option<&handover::Inheritance>) -> anyhow::Result<Arc<TicketKeys>> {
    let inherited = inheritance.and_then(|from| TicketKeys::import(parts_of(&from.legacy).1));
    let keys = inherited.map_or_else(TicketKeys::new, Ok);
    Ok(Arc::new(keys.context("no keys can be made for the tickets of TLS clients")?))
}

/// Offers the listening sockets to whoever is started with the same folder.
pub fn await_successors(data_dir: &Path, spares: &Spares) -> mpsc::Receiver<Succession> {
    let (events, successors) = mpsc::channel(1);
    if let Err(error) = offer(data_dir, spares.clone(), events) {
        tracing::warn!(%error, "no successor can take over: data_dir cannot hold a socket");
    }
    successors
}

/// What a successor does.
#[derive(Debug)]
pub enum Succession {
    /// One asks for the sockets; it gets them once this has been answered, when everything that
    /// only one process may hold has been let go of.
    Asked(oneshot::Sender<()>),
    /// It did not start: this process goes on.
    Failed,
    /// It serves.
    Done,
}

/// Serves successors until one has taken over; then ends.
///
/// # Errors
/// When the file cannot be made or the thread not be started.
fn offer(data_dir: &Path, spares: Spares, events: mpsc::Sender<Succession>) -> std::io::Result<()> {
    let server = handover::listen(&path(data_dir))?;
    std::thread::Builder::new().name("handover".into()).spawn(move || {
        for stream in server.incoming() {
            let Ok(stream) = stream else { continue };
            match handover::Successor::greet(stream) {
                // Nothing has been let go of for it.
                Err(error) => {
                    tracing::warn!(%error, "somebody asked for the sockets who may not have them");
                }
                Ok(successor) => match hand_over(successor, &spares, &events) {
                    Turn::Next => {}
                    Turn::Over => return,
                },
            }
        }
    })?;
    Ok(())
}

/// Whether a further successor may come.
enum Turn {
    Next,
    Over,
}

fn hand_over(
    mut successor: handover::Successor,
    spares: &Spares,
    events: &mpsc::Sender<Succession>,
) -> Turn {
    let (ready, released) = oneshot::channel();
    if events.blocking_send(Succession::Asked(ready)).is_err() {
        return Turn::Over;
    }
    // An error means that the control side is ending, and everything is let go of anyway.
    let _ = released.blocking_recv();
    let sockets = spares.all();
    let descriptors: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
    let legacy = spares.legacy.export();
    let given = successor.give(&descriptors, &legacy).and_then(|()| successor.await_serving());
    let (event, turn) = match given {
        Ok(()) => (Succession::Done, Turn::Over),
        Err(error) => {
            tracing::warn!(%error, "a successor asked for the sockets and did not start");
            (Succession::Failed, Turn::Next)
        }
    };
    // Fails where the control side is ending.
    let _ = events.blocking_send(event);
    turn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legacy_has_the_revision_before_the_keys() {
        let metrics = Arc::new(Metrics::new());
        metrics.process().config_revision.set(41);
        let keys = Arc::new(TicketKeys::new().expect("randomness"));
        for tickets in [None, Some(Arc::clone(&keys))] {
            let exported = tickets.as_deref().map(TicketKeys::export).unwrap_or_default();
            let legacy = Legacy { tickets, metrics: Arc::clone(&metrics) }.export();
            assert_eq!(parts_of(&legacy), (41, &*exported));
        }
        let older = keys.export();
        assert_eq!(parts_of(&older), (0, &*older), "keys alone, as versions before left them");
        assert_eq!(parts_of(&[]), (0, &[][..]));
    }
}
