//! The task that keeps the stream of a watch running.

use super::Commits;
use crate::failure::Failure;
use crate::keys::{revision_of, to_number, to_revision};
use crate::listing::Reader;
use crate::member::{Conversation, PUT, WATCH};
use crate::messages::{
    DELETE, Event as EtcdEvent, PutRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::store::StoreState;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tollhouse_stdx::{Backoff, Random};
use tollhouse_store::{Changes, Event, Lost, Revision, WatchEvent};

/// Time without events after which a probe key is put, to check that the stream still delivers
/// changes. Up to half as long again is added at random, so that one of many gateways does it for
/// all. The probe also advances every watch. Otherwise, if other programs write to the same etcd,
/// the revision at which an idle watch would resume might be compacted. etcd's own progress
/// notifications are not reliable: before 3.4.25 and 3.5.8 they can overtake events.
pub(crate) const QUIET: Duration = Duration::from_secs(60);

/// Time within which the stream must deliver the probe.
const HEARING: Duration = Duration::from_secs(10);

pub(crate) struct Follower {
    shared: Arc<StoreState>,
    prefix: Box<str>,
    /// Revision up to which everything was delivered.
    after: Revision,
    /// Id of the cluster that the revision belongs to, once known.
    cluster: Option<u64>,
    commits: Commits,
    backoff: Backoff,
    random: Random,
    /// Events of a commit whose remaining fragments are still to come.
    unfinished: Vec<EtcdEvent>,
}

/// Reason why a watch stream has ended.
enum End {
    /// The stream broke and may be resumed.
    Broken(Failure),
    /// The next events are no longer available.
    Lost(Lost),
    /// The receiver was dropped.
    Unwanted,
}

impl From<tonic::Status> for End {
    fn from(status: tonic::Status) -> Self {
        Self::Broken(status.into())
    }
}

impl Follower {
    pub(crate) fn new(
        shared: Arc<StoreState>,
        prefix: &str,
        after: Revision,
        commits: Commits,
    ) -> Self {
        Self {
            shared,
            prefix: prefix.into(),
            after,
            cluster: None,
            commits,
            backoff: Backoff::default(),
            random: Random::from_process_entropy(),
            unfinished: Vec::new(),
        }
    }

    /// Keeps the stream running until the receiver is dropped or the watch is lost.
    pub(crate) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let (number, member) = shared.endpoints.current();
            self.unfinished.clear();
            match self.stream().await {
                End::Unwanted => return,
                End::Lost(lost) => {
                    let _ = self.commits.events.send(WatchEvent::Lost(lost)).await;
                    return;
                }
                End::Broken(failure) if failure.is_too_large() => {
                    // A new stream would send the same large message again, while a listing is read
                    // in pages.
                    let lost = self.compacted(self.after, self.after);
                    let _ = self.commits.events.send(WatchEvent::Lost(lost)).await;
                    return;
                }
                End::Broken(failure) => {
                    if let Failure::Declined { .. } = failure {
                        member.forget_token().await;
                    }
                    shared.endpoints.leave(number);
                    shared.endpoints.outages.begin(failure.reason());
                    tokio::time::sleep(self.backoff.next_wait()).await;
                }
            }
        }
    }

    /// Runs one stream from start to end.
    async fn stream(&mut self) -> End {
        let mut conversation = match self.begin().await {
            Ok(conversation) => conversation,
            Err(end) => return end,
        };
        self.shared.endpoints.outages.end();
        let hears_ticks = self.shared.keys.hears_ticks(&self.prefix);
        let mut look_at = Instant::now() + self.quiet();
        // Revision of a probe that the stream should deliver before `look_at`.
        let mut awaited: Option<Revision> = None;
        loop {
            tokio::select! {
                answer = conversation.answers.message() => {
                    let passed_on = match answer {
                        Ok(Some(answer)) => self.pass_on(answer).await,
                        Ok(None) => return broken("the watch was ended"),
                        Err(status) => return status.into(),
                    };
                    match passed_on {
                        Ok(false) => {}
                        Ok(true) => {
                            self.backoff.reset();
                            look_at = Instant::now() + self.quiet();
                            awaited = awaited.filter(|revision| self.after < *revision);
                        }
                        Err(end) => return end,
                    }
                }
                () = self.commits.events.closed() => return End::Unwanted,
                () = tokio::time::sleep_until(look_at), if hears_ticks => {
                    if awaited.is_some() {
                        return broken("the watch does not hear of changes");
                    }
                    match self.tick().await {
                        Ok(revision) => {
                            revision.into_iter().for_each(|it| self.commits.pending.note_commit(it));
                            awaited = revision;
                            look_at = Instant::now() + revision.map_or(self.quiet(), |_| HEARING);
                        }
                        Err(failure) => return End::Broken(failure),
                    }
                }
            }
        }
    }

    async fn begin(&mut self) -> Result<Conversation<WatchRequest, WatchResponse>, End> {
        let shared = Arc::clone(&self.shared);
        let (_, member) = shared.endpoints.current();
        let (key, range_end) = shared.keys.range(&self.prefix);
        let start_revision = to_number(self.after.next());
        let create = WatchCreateRequest { key, range_end, start_revision, fragment: true };
        let begun = async {
            let mut conversation =
                member.converse(&WATCH, WatchRequest { create: Some(create) }).await?;
            let first = conversation.answers.message().await?;
            Ok::<_, End>((conversation, first))
        };
        let begun = tokio::time::timeout(shared.endpoints.timeout(), begun).await;
        let (conversation, first) = begun.map_err(|_| End::Broken(Failure::timed_out()))??;
        let first = first.ok_or_else(|| broken("the watch was not started"))?;
        self.check_beginning(&first).await?;
        Ok(conversation)
    }

    /// Checks that the stream belongs to the cluster of earlier streams, and that this cluster is
    /// not at an earlier revision than the watch.
    async fn check_beginning(&mut self, first: &WatchResponse) -> Result<(), End> {
        if first.canceled {
            return Err(self.cancelled(first));
        }
        let cluster = first.header.as_ref().map(|header| header.cluster_id);
        let is_other = self.cluster.is_some() && cluster != self.cluster;
        self.cluster = cluster;
        let newest = revision_of(first.header.as_ref());
        if is_other {
            return Err(End::Lost(self.gone(newest)));
        }
        if newest >= self.after {
            return Ok(());
        }
        // A lagging member may report an earlier revision, so the majority is asked.
        let reader = Reader { endpoints: &self.shared.endpoints, keys: &self.shared.keys };
        let newest = reader.revision().await.map_err(End::Broken)?;
        if newest >= self.after {
            return Ok(());
        }
        Err(End::Lost(self.gone(newest)))
    }

    /// Delivers commits; returns whether there was any.
    async fn pass_on(&mut self, answer: WatchResponse) -> Result<bool, End> {
        if answer.canceled {
            return Err(self.cancelled(&answer));
        }
        self.unfinished.extend(answer.events);
        if answer.fragment || self.unfinished.is_empty() {
            return Ok(false);
        }
        let events = std::mem::take(&mut self.unfinished);
        for changes in self.grouped(events) {
            let revision = changes.revision;
            self.commits.pending.note_commit(revision);
            if self.commits.events.send(WatchEvent::Commit(changes)).await.is_err() {
                return Err(End::Unwanted);
            }
            self.after = revision;
        }
        Ok(true)
    }

    /// Groups events by commit. Versions before 3.4.38 repeat old events, which are dropped.
    fn grouped(&self, events: Vec<EtcdEvent>) -> Vec<Changes> {
        let mut commits: Vec<Changes> = Vec::new();
        for event in events {
            let Some(held) = event.kv else { continue };
            let revision = to_revision(held.mod_revision);
            let entry = self.shared.keys.entry_below(&self.prefix, &held);
            let Some(entry) = entry.filter(|_| revision > self.after) else { continue };
            let event = match event.kind {
                DELETE => Event::Delete { key: entry.key, revision },
                _ => Event::Put(entry),
            };
            match commits.last_mut().filter(|last| last.revision == revision) {
                Some(last) => last.events.push(event),
                None => commits.push(Changes { revision, events: vec![event] }),
            }
        }
        commits
    }

    fn cancelled(&self, answer: &WatchResponse) -> End {
        if answer.compact_revision > 0 {
            let newest = revision_of(answer.header.as_ref());
            return End::Lost(self.compacted(to_revision(answer.compact_revision), newest));
        }
        broken(&answer.cancel_reason)
    }

    /// Creates the reason for a lost watch if etcd was replaced or is at an earlier revision than
    /// before.
    fn gone(&self, newest: Revision) -> Lost {
        match newest < self.after {
            true => Lost::Rewound { after: self.after, newest },
            false => self.compacted(newest, newest),
        }
    }

    fn compacted(&self, oldest: Revision, newest: Revision) -> Lost {
        Lost::Compacted { after: self.after, oldest, newest }
    }

    /// Puts the probe key; returns `None` if the user may not write it.
    async fn tick(&self) -> Result<Option<Revision>, Failure> {
        let value = Bytes::from_static(b"{}");
        let put = PutRequest { key: self.shared.keys.tick(), value, lease: 0, prev_kv: false };
        match self.shared.endpoints.read(&PUT, &put).await {
            Ok(answer) => Ok(Some(revision_of(answer.header.as_ref()))),
            Err(Failure::Declined { .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn quiet(&mut self) -> Duration {
        let quiet = self.shared.quiet;
        let half_ms = u64::try_from(quiet.as_millis() / 2).unwrap_or(u64::MAX);
        quiet + Duration::from_millis(self.random.next_u64() % half_ms.max(1))
    }
}

fn broken(reason: &str) -> End {
    End::Broken(Failure::Unanswered(reason.to_owned()))
}
