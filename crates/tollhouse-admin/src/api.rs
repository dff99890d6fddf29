//! The Admin API: created once from its parts, then called with each request.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Body;

use crate::auth;
use crate::call::Call;
use crate::chronicle;
use crate::context::{Admin, Parts};
use crate::dispatch;
use crate::reply::{Reply, WireResponse};
use crate::sign_in::ended;

/// The Admin API. Cheap to clone; all clones share one state.
#[derive(Clone)]
pub struct AdminApi(Arc<Admin>);

impl AdminApi {
    /// Creates the API. The first call reads all objects of the store.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Admin::new(parts)))
    }

    /// Whether the allow list contains this peer.
    pub(crate) fn admits(&self, peer: SocketAddr) -> bool {
        auth::is_allowed(&self.0.parts.options, peer)
    }

    /// Ends all open watches of the registry, because only their clients would end them otherwise.
    pub(crate) fn end_watches(&self) {
        if let Some(registry) = &self.0.parts.registry {
            registry.end_watches();
        }
    }

    /// Stores the change rows of the registry's own doors as they arrive; never returns.
    pub(crate) async fn keep_registry_changes(&self) {
        let changes = self.0.parts.registry.as_ref().map(|registry| registry.changes.clone());
        while let Some(changes) = &changes
            && let Some(row) = changes.next().await
        {
            chronicle::keep(&self.0, row).await;
        }
        std::future::pending().await
    }

    /// Returns a response that refuses a request before it is processed.
    pub(crate) fn reject(&self, reply: Reply) -> WireResponse {
        self.0.wire(reply)
    }

    /// Reads all objects, unless an earlier call has. The reading is a task of its own, so that it
    /// ends even if its caller does not wait for it.
    async fn open_index(&self) -> Result<(), Reply> {
        if self.0.index.is_open() {
            return Ok(());
        }
        let admin = Arc::clone(&self.0);
        let reading = tokio::spawn(async move { admin.index.open().await });
        match reading.await {
            Ok(opened) => Ok(opened?),
            Err(error) => Err(Reply::unavailable(format!("cannot read the objects: {error}"))),
        }
    }

    /// Handles a request. A write is answered only after it is durable.
    pub async fn handle<B>(&self, request: hyper::Request<B>, peer: SocketAddr) -> WireResponse
    where
        B: Body,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let (head, body) = request.into_parts();
        let mut call = Call::new(head.method, &head.uri, head.headers, peer);
        // Sign-outs and all checks are in the index, so that no call is answered without it.
        if self.admits(peer)
            && let Err(refusal) = self.open_index().await
        {
            return self.reject(refusal);
        }
        ended::drop_cookie(&self.0, &mut call).await;
        dispatch::answer(&self.0, &call, body).await
    }
}
