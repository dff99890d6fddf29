//! `?watch=true`: the instances of a service as JSON lines. First all instances are sent, then one
//! line per change, until the client disconnects.
//!
//! ```text
//! {"type":"added","instance":{…}}     every instance there is, then:
//! {"type":"synced","exists":true,"revision":"…","total":2}
//! {"type":"changed","instance":{…}}   changes as they are published, each group ended by `synced`
//! {"type":"alive"}                    after a while without changes
//! ```
//!
//! Changes that are faster than the client reads are combined. The lines always lead to the newest
//! version, and memory is bounded by one version of the service.

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

/// Number of bytes from which pending lines are sent as a chunk; about the number that the socket
/// accepts at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Maximum number of chunks that wait for the client; beyond it, the follower of the service waits.
const CHUNKS_WAITING_MAX: usize = 2;

/// Minimum time between two comparisons of a constantly changing service; changes within this time
/// are sent together.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Maximum time to wait until the client reads pending data, because a stalled client would occupy
/// one of the limited number of watches.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Number of lines after which the task yields to others.
const LINES_AT_ONCE: usize = 256;

/// Time without changes after which an `alive` line is sent, so that a dead client is detected and
/// proxies do not close the connection.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Starts a stream of changes to one service; one line per change.
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
    // Ends when the connection drops the body.
    tokio::spawn(async move {
        tokio::select! {
            _ = follower.run() => {}
            _ = ended.changed() => {}
        }
    });
    Ok(Reply::lines(chunks))
}

/// Error: the client has disconnected, or does not read.
struct Disconnect;

/// Task that compares the versions of one service and sends the differences to one client.
struct Follower {
    registry: Registry,
    name: ServiceKey,
    out: Out,
    _permit: OwnedSemaphorePermit,
}

/// Line of the stream, for one change.
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
    async fn run(mut self) -> Result<(), Disconnect> {
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
                changed = versions.changed() => changed.map_err(|_| Disconnect)?,
                () = tokio::time::sleep(ALIVE_INTERVAL) => {
                    self.out.send(&Line::Alive).await?;
                    self.out.flush().await?;
                }
                () = self.out.lines.closed() => return Err(Disconnect),
            }
        }
    }

    /// Returns the current state of the service, found by its name or an alias.
    fn look(&self) -> Option<Arc<ServiceView>> {
        let state = self.registry.state();
        state.resolve(self.name.borrowed()).map(|resolved| Arc::clone(resolved.view))
    }
}

fn revision_of(view: &Option<Arc<ServiceView>>) -> Option<Revision> {
    view.as_ref().map(|view| view.revision)
}

/// Buffered writer of lines to the client.
struct Out {
    lines: mpsc::Sender<Bytes>,
    pending: Vec<u8>,
    /// Number of lines sent so far.
    sent: usize,
}

impl Out {
    /// Sends the differences between two versions of the service. The cost is proportional to the
    /// number of changes.
    async fn send_difference(
        &mut self,
        before: Option<&ServiceView>,
        after: Option<&ServiceView>,
    ) -> Result<(), Disconnect> {
        let (old, new) = difference(before, after);
        let mut previous: HashMap<&str, &Arc<Instance>> = HashMap::with_capacity(old.len());
        previous.extend(old.into_iter().map(|instance| (&*instance.id, instance)));
        for instance in new {
            let instance_out = || InstanceOut::from_instance(instance);
            match previous.remove(&*instance.id) {
                None => self.send(&Line::Added { instance: instance_out() }).await?,
                Some(before) if before.revision != instance.revision => {
                    self.send(&Line::Changed { instance: instance_out() }).await?;
                }
                Some(_) => {}
            }
        }
        for removed in previous.into_values() {
            self.send(&Line::Removed { instance: InstanceOut::from_instance(removed) }).await?;
        }
        let total = after.map_or(0, |view| view.members.len() as usize);
        let revision = after.map(|view| view.revision.to_string()).unwrap_or_default();
        self.send(&Line::Synced { exists: after.is_some(), revision, total }).await?;
        self.flush().await
    }

    async fn send(&mut self, line: &Line<'_>) -> Result<(), Disconnect> {
        // Writing to memory cannot fail, and all map keys are strings.
        serde_json::to_writer(&mut self.pending, line).map_err(|_| Disconnect)?;
        self.pending.push(b'\n');
        self.sent += 1;
        if self.sent.is_multiple_of(LINES_AT_ONCE) {
            tokio::task::yield_now().await;
        }
        if self.pending.len() >= CHUNK_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Disconnect> {
        let chunk = Bytes::from(std::mem::take(&mut self.pending));
        let sent = tokio::time::timeout(STALL_MAX, self.lines.send(chunk)).await;
        sent.map_err(|_| Disconnect)?.map_err(|_| Disconnect)
    }
}

/// Iterates over the instances that may differ between two versions, each before and after.
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
