//! A node's session with the others: renews its membership, sends rounds of heartbeats, and
//! receives those of the channel. The session is a task apart from the keeper, because the keeper
//! may be waiting for a commit.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tollhouse_stdx::Backoff;
use tollhouse_store::{Store, StoreError, Transaction};

use crate::cluster::digest::{CALL, DIGESTS, Digest};
use crate::cluster::member::{self, BEATS};
use crate::cluster::rounds::{self, Round, RoundHead};
use crate::cluster::{BeatChannel, Cluster, ClusterOptions, Identity, NodeId};
use crate::limits::{DIGEST_INTERVAL, MEMBER_LEASE, MEMBER_RENEWAL, ROUND_INTERVAL, ROUND_WAIT};
use crate::registry::Shared;

/// Maximum wait between retries, because the other nodes wait for this node's rounds.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Duration for which a failed channel is not used.
const CHANNEL_REST: Duration = Duration::from_secs(5);

/// Current membership of this node; `None` while it is not a member.
pub(super) type OwnIdentity = Arc<watch::Sender<Option<Identity>>>;

/// Newest checksum of this node's state.
pub(super) type OwnDigest = Arc<watch::Sender<Option<Digest>>>;

/// This node as a member of its cluster.
#[derive(Clone)]
pub(super) struct LocalMember {
    pub(super) cluster: Arc<Cluster>,
    pub(super) identity: OwnIdentity,
    pub(super) digest: OwnDigest,
}

pub(super) struct Session {
    cluster: Arc<Cluster>,
    identity: OwnIdentity,
    digest: OwnDigest,
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    /// Number of the last round sent.
    number: AtomicU64,
    /// Parts that were cut but not sent yet.
    pending: Mutex<VecDeque<Part>>,
}

/// Part of a round, as it is sent in one message.
struct Part {
    bytes: Vec<u8>,
    is_whole: bool,
    is_last: bool,
}

impl Session {
    pub(super) fn new(member: LocalMember, shared: Arc<Shared>, store: Arc<dyn Store>) -> Self {
        let LocalMember { cluster, identity, digest } = member;
        let (number, pending) = (AtomicU64::new(0), Mutex::default());
        Self { cluster, identity, digest, shared, store, number, pending }
    }

    /// Runs until `stop` completes, then leaves the cluster.
    pub(super) async fn run(self, stop: oneshot::Receiver<()>) {
        let (renewals, rounds, receipts) =
            (pin!(self.renew()), pin!(self.send_rounds()), pin!(self.receive_rounds()));
        let (questions, answers) = (pin!(self.call_for_digests()), pin!(self.report_digests()));
        tokio::select! {
            () = questions => {}
            () = answers => {}
            () = renewals => {}
            () = rounds => {}
            () = receipts => {}
            _ = stop => {}
        }
        if timeout(ROUND_WAIT, self.leave()).await.is_err() {
            tracing::warn!("the other nodes learn in {MEMBER_LEASE:?} only that this one has left");
        }
    }

    /// Renews the lease periodically; joins again if the membership has ended.
    async fn renew(&self) {
        let mut identity = self.identity.subscribe();
        let mut backoff = Backoff::default();
        loop {
            let current = *identity.borrow_and_update();
            let Some(Identity { lease, .. }) = current else {
                if let Err(error) = self.join_again().await {
                    tracing::warn!(%error, "this node cannot join the registry again");
                    sleep(backoff.next_wait().min(RETRY_MAX)).await;
                }
                continue;
            };
            backoff.reset();
            // A writer may notice the end of the membership first; waiting for the next renewal
            // would be useless then.
            if timeout(MEMBER_RENEWAL, identity.changed()).await.is_ok() {
                continue;
            }
            match self.store.keep_alive(lease).await {
                Ok(()) => {}
                Err(StoreError::Fenced { .. }) => {
                    tracing::warn!(
                        "the others have counted this node out: its database or it itself did not answer \
                         for {MEMBER_LEASE:?}"
                    );
                    // The next turn joins under a new lease, because other nodes may have taken
                    // over this node's services.
                    self.identity.send_replace(None);
                }
                Err(error) => tracing::warn!(%error, "this node's membership could not be renewed"),
            }
        }
    }

    async fn join_again(&self) -> Result<(), StoreError> {
        // A member of the same name may be another process by now, so it is not removed.
        let options = ClusterOptions { has_predecessor: true, ..self.cluster.options.clone() };
        join(&*self.store, &self.cluster, &options, &self.identity).await
    }

    async fn send_rounds(&self) {
        let channel = self.cluster.options.channel.as_deref();
        let interval = channel.map_or(ROUND_INTERVAL, BeatChannel::interval);
        let mut backoff = Backoff::default();
        // While a failed channel rests, heartbeats go over the database, which is slower but always
        // available.
        let mut rests_until = Instant::now();
        loop {
            let cut_at = Instant::now();
            if self.cluster.is_awaited() || !self.cluster.heard.is_empty() {
                self.cut();
            }
            // One at a time and in order, because other nodes take a gap in the numbers for a lost
            // round.
            while !self.pending().is_empty() {
                let is_resting = cut_at < rests_until;
                let channel = channel.filter(|_| !is_resting);
                match self.send_first(channel).await {
                    Ok(()) => {
                        backoff.reset();
                        if channel.is_some() {
                            self.note_channel(None);
                        }
                    }
                    // The loop then sends the same round over the store.
                    Err(reason) if channel.is_some() => {
                        self.note_channel(Some(&reason));
                        rests_until = Instant::now() + CHANNEL_REST;
                    }
                    Err(reason) => {
                        tracing::warn!(%reason, "a round of heartbeats could not be sent");
                        sleep(backoff.next_wait().min(RETRY_MAX)).await;
                    }
                }
            }
            let interval = if cut_at < rests_until { ROUND_INTERVAL } else { interval };
            sleep_until(cut_at + interval).await;
        }
    }

    /// Notes whether the channel accepts rounds, and logs each change once.
    fn note_channel(&self, failure: Option<&str>) {
        let is_down = &self.shared.statistics.is_channel_down;
        match (failure, is_down.swap(failure.is_some(), Ordering::Relaxed)) {
            (Some(reason), false) => tracing::warn!(
                %reason,
                "heartbeats go over the database, which takes longer: the Redis between the nodes does not take them"
            ),
            (None, true) => tracing::info!("heartbeats go over Redis again"),
            _ => {}
        }
    }

    /// Cuts a round, unless earlier parts are still pending.
    fn cut(&self) {
        let mut pending = self.pending();
        // While nothing can be sent, heartbeats are collected in `heard`.
        if pending.is_empty() {
            pending.extend(self.parts());
        }
    }

    /// Cuts the last round, behind the pending parts.
    fn cut_last(&self) {
        let mut pending = self.pending();
        pending.extend(self.parts());
        if let Some(part) = pending.back_mut() {
            part.is_last = true;
        }
    }

    /// Takes out the heartbeats heard of until now; at least one part.
    fn parts(&self) -> impl Iterator<Item = Part> {
        let parts = rounds::encode(&self.cluster.heard.cut());
        let count = parts.len();
        parts.into_iter().enumerate().map(move |(index, bytes)| Part {
            bytes,
            is_whole: index + 1 == count,
            is_last: false,
        })
    }

    /// Sends the first pending part. A repeated part keeps its number.
    async fn send_first(&self, channel: Option<&dyn BeatChannel>) -> Result<(), String> {
        let number = self.number.load(Ordering::Relaxed) + 1;
        let round = {
            let mut pending = self.pending();
            let Some(Part { bytes, is_whole, is_last }) = pending.front_mut() else {
                return Ok(());
            };
            let head = RoundHead { number, is_whole: *is_whole, is_last: *is_last };
            rounds::mark(bytes, head);
            bytes.clone()
        };
        let Some(Identity { node, lease }) = *self.identity.borrow() else {
            return Err("this node is not a member".to_owned());
        };
        match channel {
            Some(channel) => {
                let sent = timeout(ROUND_WAIT, channel.send(node, &round)).await;
                sent.unwrap_or_else(|_| Err(format!("no answer for {ROUND_WAIT:?}")))?;
            }
            None => {
                let put = Transaction::new().put_under(lease, format!("{BEATS}{node}"), round);
                self.store.commit(put).await.map_err(|error| error.to_string())?;
            }
        }
        // The number advances only after success, so that nodes that did receive the round
        // recognise the repetition.
        self.number.store(number, Ordering::Relaxed);
        self.pending().pop_front();
        Ok(())
    }

    /// Requests a comparison of all nodes periodically; only the first member does.
    async fn call_for_digests(&self) {
        loop {
            sleep(DIGEST_INTERVAL).await;
            let members = self.cluster.members();
            if members.len() < 2 || !members.first().is_some_and(|first| first.is_self) {
                continue;
            }
            if let Err(error) = self.store.commit(Transaction::new().put(CALL, "{}")).await {
                tracing::debug!(%error, "nodes are not compared this time");
            }
        }
    }

    /// Publishes the checksum of this node's state.
    async fn report_digests(&self) {
        let mut digest = self.digest.subscribe();
        while digest.changed().await.is_ok() {
            let Some(digest) = *digest.borrow_and_update() else { continue };
            let Some(Identity { node, lease }) = *self.identity.borrow() else { continue };
            let Ok(row) = serde_json::to_vec(&digest) else { continue };
            let put = Transaction::new().put_under(lease, format!("{DIGESTS}{node}"), row);
            // A lost checksum is harmless: the next comparison is soon.
            if let Err(error) = self.store.commit(put).await {
                tracing::debug!(%error, "this node cannot be compared with the others");
            }
        }
    }

    async fn receive_rounds(&self) {
        let Some(channel) = self.cluster.options.channel.as_deref() else {
            return std::future::pending().await;
        };
        let mut backoff = Backoff::default();
        loop {
            let members = self.cluster.evidence.members();
            if members.is_empty() {
                sleep(channel.interval()).await;
                continue;
            }
            match channel.receive(&members).await {
                Ok(received) => {
                    backoff.reset();
                    for (node, round) in received {
                        take_in(&self.shared, &self.cluster, node, &round);
                    }
                }
                // The channel has logged the failure where rounds are sent.
                Err(_) => sleep(backoff.next_wait().min(RETRY_MAX)).await,
            }
        }
    }

    /// Sends a last round, then ends the membership.
    async fn leave(&self) {
        self.cut_last();
        while !self.pending().is_empty() {
            if let Err(reason) = self.send_first(None).await {
                tracing::warn!(%reason, "the last round of heartbeats could not be sent");
                break;
            }
        }
        let identity = self.identity.send_replace(None);
        if let Some(Identity { lease, .. }) = identity
            && let Err(error) = self.store.revoke(lease).await
        {
            tracing::warn!(%error, "this node's membership could not be ended");
        }
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<Part>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes this node a member under a new id.
pub(super) async fn join(
    store: &dyn Store,
    cluster: &Cluster,
    options: &ClusterOptions,
    identity: &watch::Sender<Option<Identity>>,
) -> Result<(), StoreError> {
    let node = cluster.next_node();
    // Set first, so that this node does not take its own row for another node's.
    cluster.evidence.set_own(Some(node));
    identity.send_replace(Some(member::join(store, options, node).await?));
    Ok(())
}

/// Applies a round of another node: its heartbeats, then its number.
pub(super) fn take_in(shared: &Shared, cluster: &Cluster, node: NodeId, bytes: &[u8]) {
    if cluster.node() == Some(node) {
        return;
    }
    let Some(round) = Round::parse(bytes) else {
        tracing::error!(%node, "a round of heartbeats cannot be read; is it of another version?");
        return;
    };
    let (state, now_ms) = (shared.state.load(), shared.clock.now_ms());
    for id in round.ids() {
        shared.heartbeats.record_relayed(&state, id, now_ms);
    }
    if !cluster.evidence.receive(node, &round, now_ms) {
        shared.statistics.round_losses.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            %node,
            "rounds of heartbeats are missing, lost with a Redis or late: who may have been in them has its full time \
             again"
        );
    }
}
