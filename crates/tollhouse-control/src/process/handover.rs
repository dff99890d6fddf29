//! Hand-over of the listening sockets to a successor process.
//!
//! A separate thread serves successors, because the exchange over the Unix socket is short and
//! blocking.

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

/// Name of the Unix socket in the data folder.
const FILE: &str = "handover.sock";

/// Returns the path of the Unix socket on which a successor connects.
fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

/// Duplicates of the listening sockets, kept for a successor.
///
/// While a duplicate exists, the kernel keeps queueing connections. They are therefore closed when
/// draining begins, so that clients are refused rather than left in a queue.
#[derive(Debug, Clone)]
pub struct Spares {
    sockets: Arc<Mutex<Vec<Arc<OwnedFd>>>>,
    /// Sockets of the registry, once it was stopped for a successor.
    registry: Arc<Mutex<RegistrySockets>>,
    legacy: Legacy,
}

/// State that a process leaves to its successor beside the sockets.
#[derive(Debug, Clone)]
pub struct Legacy {
    /// Keys of the session tickets that clients hold.
    pub tickets: Option<Arc<TicketKeys>>,
    /// Has the revision of the configuration in service.
    pub metrics: Arc<Metrics>,
}

impl Legacy {
    /// Encodes the revision in eight bytes, followed by the ticket keys.
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

/// Returns the revision of the configuration that a predecessor serves; 0 without one.
pub fn revision(inheritance: Option<&handover::Inheritance>) -> u64 {
    inheritance.map_or(0, |from| parts_of(&from.legacy).0)
}

impl Spares {
    /// Duplicates all sockets.
    ///
    /// # Errors
    /// If the process has no free file descriptors.
    pub fn duplicate(sockets: &Sockets, legacy: Legacy) -> std::io::Result<Self> {
        let spares: std::io::Result<Vec<_>> =
            sockets.descriptors().map(|socket| socket.try_clone_to_owned().map(Arc::new)).collect();
        Ok(Self { sockets: Arc::new(Mutex::new(spares?)), registry: Arc::default(), legacy })
    }

    /// Closes all duplicates; a successor that has already received them keeps its own.
    pub fn release(&self) {
        lock(&self.sockets).clear();
        drop(self.take_registry());
    }

    pub fn keep(&self, registry: RegistrySockets) {
        *lock(&self.registry) = registry;
    }

    /// Takes the registry's listening sockets back.
    pub fn take_registry(&self) -> RegistrySockets {
        std::mem::take(&mut *lock(&self.registry))
    }

    /// Returns handles of all sockets, to be sent to one successor.
    fn all(&self) -> Vec<Arc<OwnedFd>> {
        let mut all = lock(&self.sockets).clone();
        all.extend(lock(&self.registry).duplicate().into_descriptors().map(Arc::new));
        all
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Relation to a process that holds the exclusive parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predecessor {
    /// The data folder has no predecessor: an exclusive part that is in use belongs to an unrelated
    /// process.
    None,
    /// A predecessor exists. It releases the exclusive parts when it learns that this process is
    /// starting.
    Leaving,
}

/// Receives the listening sockets from a predecessor with the same data folder.
///
/// # Errors
/// If a predecessor is expected but does not answer.
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

/// Returns the TLS session ticket keys: the predecessor's, so that clients can resume their
/// sessions, or new ones.
///
/// # Errors
/// If the system's random number generator is unavailable.
pub fn ticket_keys(inheritance: Option<&handover::Inheritance>) -> anyhow::Result<Arc<TicketKeys>> {
    let inherited = inheritance.and_then(|from| TicketKeys::import(parts_of(&from.legacy).1));
    let keys = inherited.map_or_else(TicketKeys::new, Ok);
    Ok(Arc::new(keys.context("no keys can be made for the tickets of TLS clients")?))
}

/// Offers the listening sockets to processes that start with the same data folder.
pub fn await_successors(data_dir: &Path, spares: &Spares) -> mpsc::Receiver<Succession> {
    let (events, successors) = mpsc::channel(1);
    if let Err(error) = offer(data_dir, spares.clone(), events) {
        tracing::warn!(%error, "no successor can take over: data_dir cannot hold a socket");
    }
    successors
}

/// Progress of a hand-over to a successor.
#[derive(Debug)]
pub enum Succession {
    /// A successor asks for the sockets. Answer once all exclusive parts have been released; then
    /// it gets them.
    Asked(oneshot::Sender<()>),
    /// The successor did not start; this process continues.
    Failed,
    /// The successor serves clients.
    Done,
}

/// Serves successors on a thread, until one has taken over.
///
/// # Errors
/// If the Unix socket or the thread cannot be created.
fn offer(data_dir: &Path, spares: Spares, events: mpsc::Sender<Succession>) -> std::io::Result<()> {
    let server = handover::listen(&path(data_dir))?;
    std::thread::Builder::new().name("handover".into()).spawn(move || {
        for stream in server.incoming() {
            let Ok(stream) = stream else { continue };
            match handover::Successor::greet(stream) {
                // The successor was rejected before anything was released.
                Err(error) => {
                    tracing::warn!(%error, "refused a process that asked for the listening sockets");
                }
                Ok(successor) => match hand_over(successor, &spares, &events) {
                    Continuation::Next => {}
                    Continuation::Over => return,
                },
            }
        }
    })?;
    Ok(())
}

/// Decision of the thread to serve further successors.
enum Continuation {
    Next,
    Over,
}

fn hand_over(
    mut successor: handover::Successor,
    spares: &Spares,
    events: &mpsc::Sender<Succession>,
) -> Continuation {
    let (ready, released) = oneshot::channel();
    if events.blocking_send(Succession::Asked(ready)).is_err() {
        return Continuation::Over;
    }
    // An error means that the control side is ending and releases all parts anyway.
    let _ = released.blocking_recv();
    let sockets = spares.all();
    let descriptors: Vec<_> = sockets.iter().map(|socket| socket.as_fd()).collect();
    let legacy = spares.legacy.export();
    let result = successor.give(&descriptors, &legacy).and_then(|()| successor.await_serving());
    let (event, turn) = match result {
        Ok(()) => (Succession::Done, Continuation::Over),
        Err(error) => {
            tracing::warn!(%error, "a successor asked for the sockets and did not start");
            (Succession::Failed, Continuation::Next)
        }
    };
    // Fails if the control side is ending.
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
