//! An exchange that may become a tunnel and last for days: it keeps the parts of the configuration
//! that it needs, its route, upstream and plugins, and lets go of the snapshot that they are from.

use std::sync::Arc;

use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::RequestPump;
use crate::pipeline::{self, Way};
use crate::plugins::{Chains, KeptChains};
use crate::request::Work;
use crate::serve::After;
use crate::snapshot::{RouteEntry, UpstreamEntry};
use crate::worker::Worker;

/// What the exchange needs of a configuration.
#[derive(Debug)]
pub(crate) struct Kept {
    route: Arc<RouteEntry>,
    upstream: Arc<UpstreamEntry>,
    chains: Option<KeptChains>,
}

impl Kept {
    /// Of a request that took `route`, goes to `upstream` and meets the plugins of `chains`.
    pub(crate) fn new(
        route: &Arc<RouteEntry>,
        upstream: &Arc<UpstreamEntry>,
        chains: Option<Chains<'_>>,
    ) -> Self {
        let chains = chains.map(Chains::keep);
        Self { route: Arc::clone(route), upstream: Arc::clone(upstream), chains }
    }

    /// Forwards the request, which has come so far that only a node is left to be asked.
    ///
    /// # Errors
    /// When no node answered; nothing has been sent to the client then.
    pub(crate) async fn forward(
        self,
        worker: &Worker,
        client: &mut Client,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Result<After, GatewayError> {
        let way = Way { route: &self.route, upstream: &self.upstream };
        let chains = self.chains.as_ref().map(|chains| chains.lend(&self.route));
        pipeline::forward(worker, client, work, body, way, chains.as_ref()).await
    }
}
