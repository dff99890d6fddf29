//! Idle connections, per core.
//!
//! Each connection is driven by a separate task. The task ends when the server closes the
//! connection, when the connection is idle for too long, or when the sending side is dropped.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use super::target::{Scheme, Target};
use super::written_names::{HeadCopy, StreamTap};
use crate::shared::dial::Verification;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::Instant;

/// Largest number of idle connections per core, whatever confs say. Each takes a descriptor and
/// buffers, and plugins use few services.
const KEPT_MAX: usize = 256;

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Properties that must be equal for two requests to share a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    scheme: Scheme,
    host: String,
    port: u16,
    verification: Verification,
    names: Names,
}

/// Form of the header names in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Names {
    LowerCase,
    /// As the server writes them, in [`super::Reply::written_names`].
    Spelled,
}

impl PoolKey {
    pub fn new(target: &Target, verification: Verification, names: Names) -> Self {
        let Target { scheme, host, port, .. } = target;
        Self { scheme: *scheme, host: host.clone(), port: *port, verification, names }
    }
}

pub(super) struct Live {
    /// Handle through which requests are sent on the connection.
    pub sender: SendRequest<Full<Bytes>>,
    /// Start of the present answer, if header names are kept as they are written.
    pub head: Option<HeadCopy>,
    /// Sends the idle deadline to the driving task.
    idle_until: watch::Sender<Option<Instant>>,
}

impl Live {
    /// Starts a task that drives `connection`.
    pub fn drive(
        sender: SendRequest<Full<Bytes>>,
        connection: Connection<TokioIo<StreamTap>, Full<Bytes>>,
        head: Option<HeadCopy>,
    ) -> Self {
        let (idle_until, mut idle) = watch::channel(None);
        tokio::spawn(async move {
            let mut connection = std::pin::pin!(connection);
            loop {
                let until = *idle.borrow_and_update();
                tokio::select! {
                    _ = &mut connection => return,
                    changed = idle.changed() => if changed.is_err() {
                        return;
                    },
                    () = sleep_until(until) => return,
                }
            }
        });
        Self { sender, head, idle_until }
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[derive(Default)]
struct Pool {
    idle: HashMap<PoolKey, Vec<Live>>,
    idle_count: usize,
}

/// Returns the most recently used idle connection.
pub(super) fn take(key: &PoolKey) -> Option<Live> {
    POOL.with_borrow_mut(|pool| {
        loop {
            let waiting = pool.idle.get_mut(key)?;
            let live = waiting.pop();
            if waiting.is_empty() {
                pool.idle.remove(key);
            }
            let live = live?;
            pool.idle_count -= 1;
            if !live.sender.is_closed() && live.idle_until.send(None).is_ok() {
                return Some(live);
            }
        }
    })
}

/// Keeps a connection for `idle`, or closes it if there are enough.
pub(super) fn keep(key: &PoolKey, live: Live, idle: Duration, connections_max: usize) {
    POOL.with_borrow_mut(|pool| {
        if pool.idle_count >= KEPT_MAX {
            pool.sweep();
        }
        let waiting = pool.idle.get(key).map_or(0, Vec::len);
        let is_welcome = waiting < connections_max && pool.idle_count < KEPT_MAX;
        if !is_welcome || live.idle_until.send(Some(Instant::now() + idle)).is_err() {
            return;
        }
        pool.idle.entry(key.clone()).or_default().push(live);
        pool.idle_count += 1;
    });
}

impl Pool {
    fn sweep(&mut self) {
        self.idle.retain(|_, waiting| {
            waiting.retain(|live| !live.sender.is_closed());
            !waiting.is_empty()
        });
        self.idle_count = self.idle.values().map(Vec::len).sum();
    }
}
