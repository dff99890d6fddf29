//! Channel for heartbeats in memory, which can be unavailable and lose its contents.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tollhouse_store::BoxFuture;

use super::*;
use crate::cluster::{BeatChannel, NodeId};

/// Server that all nodes reach.
#[derive(Default)]
pub(super) struct Server {
    rounds: Mutex<BTreeMap<NodeId, Vec<Bytes>>>,
    pub(super) is_away: AtomicBool,
    /// Number of rounds received.
    pub(super) taken: std::sync::atomic::AtomicU64,
}

/// Connection of a node to the server.
pub(super) struct Channel {
    pub(super) server: Arc<Server>,
    /// Number of rounds read from each node.
    read: Mutex<BTreeMap<NodeId, usize>>,
}

impl Server {
    /// Loses all stored rounds.
    pub(super) fn lose(&self) {
        self.lock().values_mut().for_each(|rounds| rounds.fill(Bytes::new()));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Vec<Bytes>>> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self) -> Result<(), String> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err("away".to_owned()),
            false => Ok(()),
        }
    }
}

impl Channel {
    pub(super) fn open(server: &Arc<Server>) -> Arc<dyn BeatChannel> {
        Arc::new(Self { server: Arc::clone(server), read: Mutex::default() })
    }
}

impl BeatChannel for Channel {
    fn interval(&self) -> Duration {
        2 * HEALTH_TICK
    }

    fn send<'a>(&'a self, node: NodeId, round: &'a [u8]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            self.server.pass()?;
            self.server.taken.fetch_add(1, Ordering::Relaxed);
            self.server.lock().entry(node).or_default().push(Bytes::copy_from_slice(round));
            Ok(())
        })
    }

    fn receive<'a>(
        &'a self,
        nodes: &'a [NodeId],
    ) -> BoxFuture<'a, Result<Vec<(NodeId, Bytes)>, String>> {
        Box::pin(async move {
            tokio::time::sleep_until(Instant::now() + HEALTH_TICK).await;
            self.server.pass()?;
            let (rounds, mut read) =
                (self.server.lock(), self.read.lock().unwrap_or_else(PoisonError::into_inner));
            let mut received = Vec::new();
            for node in nodes {
                let sent = rounds.get(node).map(Vec::as_slice).unwrap_or_default();
                let read = read.entry(*node).or_default();
                let new = sent[*read..].iter().filter(|round| !round.is_empty());
                received.extend(new.map(|round| (*node, round.clone())));
                *read = sent.len();
            }
            Ok(received)
        })
    }
}
