//! `?watch=true`: the instances of a service as JSON lines, first the whole set, then one line for
//! every change, until the client goes.
//!
//! ```text
//! {"type":"added","instance":{…}}     every instance there is, then:
//! {"type":"synced","exists":true,"revision":"…","total":2}
//! {"type":"changed","instance":{…}}   changes as they are published, each group ended by `synced`
//! {"type":"alive"}                    after a while without changes
//! ```
//!
//! Changes that follow each other faster than the client reads are sent as one: what it is sent always
//! leads to the newest version, and memory is bounded by one version of the service.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tollhouse_registry::{Instance, Registry, Revision, ServiceKey, ServiceView};

use super::outgoing::InstanceOut;
use super::request::Request;
use crate::reply::Reply;

/// Text sent at once, in bytes; what the socket takes in one go.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks that wait for the client; it is waited for then.
const CHUNKS_WAITING_MAX: usize = 2;

/// Time between two looks at a service that changes all the time: what changes faster is sent together.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// How long a client may take to read what waits for it: one that stalls would keep its place from others.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Lines after which others get their turn.
const LINES_AT_ONCE: usize = 256;

/// Silence after which a line is sent all the same, so that a client that is gone without a word is
/// noticed, and nothing in between takes the connection for dead.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Opens a watch.
pub(super) fn start(request: &Request<'_>, name: ServiceKey) -> Result<Reply, Reply> {
    let watches = &request.part.watches;
    let permit = Arc::clone(&watches.free).try_acquire_owned().map_err(|_| {
        let text = format!("{} watches are open; close one first", watches.most);
        Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, text)
    })?;
    let (lines, chunks) = mpsc::channel(CHUNKS_WAITING_MAX);
    let follower = Follower {
        registry: request.part.registry.clone(),
        name,
        out: Out { lines, pending: Vec::new(), sent: 0 },
        _permit: permit,
    };
    let mut ended = watches.ended.subscribe();
    // Owned by the connection: it ends when the body is dropped.
    tokio::spawn(async move {
        tokio::select! {
            _ = follower.run() => {}
            _ = ended.changed() => {}
        }
    });
    Ok(Reply::lines(chunks))
}

/// The client is gone, or does not read.
struct Gone;

/// What follows one service for one client.
struct Follower {
    registry: Registry,
    name: ServiceKey,
    out: Out,
    _permit: OwnedSemaphorePermit,
}

/// A line of a watch.
#[derive(JsonSchema, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Line<'a> {
    Added { instance: InstanceOut<'a> },
    Changed { instance: InstanceOut<'a> },
    Removed { instance: InstanceOut<'a> },
    Synced { exists: bool, revision: String, total: usize },
    Alive,
}

impl Follower {
    async fn run(mut self) -> Result<(), Gone> {
        let mut versions = self.registry.subscribe();
        let mut before = None;
        let mut is_first = true;
        loop {
            versions.mark_unchanged();
            let view = self.look();
            if is_first || revision_of(&before) != revision_of(&view) {
                self.out.send_difference(before.as_deref(), view.as_deref()).await?;
                (before, is_first) = (view, false);
                tokio::time::sleep(LOOK_PAUSE).await;
            }
            tokio::select! {
                changed = versions.changed() => changed.map_err(|_| Gone)?,
                () = tokio::time::sleep(ALIVE_INTERVAL) => {
                    self.out.send(&Line::Alive).await?;
                    self.out.flush().await?;
                }
                () = self.out.lines.closed() => return Err(Gone),
            }
        }
    }

    /// The service as it stands, under its own name or an alias.
    fn look(&self) -> Option<Arc<ServiceView>> {
        let state = self.registry.state();
        state.resolve(self.name.borrowed()).map(|resolved| Arc::clone(resolved.view))
    }
}

fn revision_of(view: &Option<Arc<ServiceView>>) -> Option<Revision> {
    view.as_ref().map(|view| view.revision)
}

/// Lines on their way to the client.
struct Out {
    lines: mpsc::Sender<Bytes>,
    pending: Vec<u8>,
    /// Lines so far.
    sent: usize,
}

impl Out {
    /// Sends what leads from one version to another; costs what has changed.
    async fn send_difference(
        &mut self,
        before: Option<&ServiceView>,
        after: Option<&ServiceView>,
    ) -> Result<(), Gone> {
        let (old, new) = difference(before, after);
        let mut known: HashMap<&str, &Arc<Instance>> = HashMap::with_capacity(old.len());
        known.extend(old.into_iter().map(|instance| (&*instance.id, instance)));
        for instance in new {
            let instance_out = || InstanceOut::from_instance(instance);
            match known.remove(&*instance.id) {
                None => self.send(&Line::Added { instance: instance_out() }).await?,
                Some(before) if before.revision != instance.revision => {
                    self.send(&Line::Changed { instance: instance_out() }).await?;
                }
                Some(_) => {}
            }
        }
        for removed in known.into_values() {
            self.send(&Line::Removed { instance: InstanceOut::from_instance(removed) }).await?;
        }
        let total = after.map_or(0, |view| view.members.len() as usize);
        let revision = after.map(|view| view.revision.to_string()).unwrap_or_default();
        self.send(&Line::Synced { exists: after.is_some(), revision, total }).await?;
        self.flush().await
    }

    async fn send(&mut self, line: &Line<'_>) -> Result<(), Gone> {
        // Writing to memory does not fail, and these have no maps with keys that are no text.
        serde_json::to_writer(&mut self.pending, line).map_err(|_| Gone)?;
        self.pending.push(b'\n');
        self.sent += 1;
        if self.sent.is_multiple_of(LINES_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        if self.pending.len() >= CHUNK_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Gone> {
        let chunk = Bytes::from(std::mem::take(&mut self.pending));
        let sent = tokio::time::timeout(STALL_MAX, self.lines.send(chunk)).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }
}

/// The instances that may differ between two versions, before and after.
fn difference<'a>(
    before: Option<&'a ServiceView>,
    after: Option<&'a ServiceView>,
) -> (Vec<&'a Arc<Instance>>, Vec<&'a Arc<Instance>>) {
    match (before, after) {
        (Some(before), Some(after)) => after.members.difference(&before.members),
        (before, after) => {
            let all = |view: Option<&'a ServiceView>| {
                view.into_iter().flat_map(ServiceView::instances).collect()
            };
            (all(before), all(after))
        }
    }
}
