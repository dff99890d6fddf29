//! Takes a request to a node and its answer back: picking, retrying, and who may be tried again.
//!
//! One attempt is `attempt.rs`; here is what happens between attempts (apisix.md §5 retries).

use std::sync::Arc;
use std::time::Duration;

use tollhouse_http::BodyLength;
use tollhouse_telemetry::ErrorCode;
use tollhouse_upstream::{Outcome, Pick, PickRequest, Picked, Tried, WhenUnresolved};

use crate::attempt::{Attempt, AttemptError, Blame};
use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::RequestPump;
use crate::plugins::Chains;
use crate::request::{Request, Work};
use crate::serve::After;
use crate::snapshot::{RouteEntry, UpstreamEntry};
use crate::worker::Worker;

/// A request on its way through an upstream.
#[derive(Debug)]
pub(crate) struct Forward<'a> {
    /// The core it runs on.
    pub worker: &'a Worker,
    /// The route it took.
    pub route: &'a RouteEntry,
    /// The upstream it goes to.
    pub upstream: &'a Arc<UpstreamEntry>,
    /// The plugins that see the answer; `None` where there are none.
    pub chains: Option<&'a Chains<'a>>,
}

impl Forward<'_> {
    /// Forwards the request and relays the answer.
    ///
    /// # Errors
    /// When no node answered; nothing has been sent to the client then.
    pub(crate) async fn run(
        &self,
        client: &mut Client,
        work: &mut Work,
        body: &mut RequestPump,
    ) -> Result<After, GatewayError> {
        // Whose bytes the body's would be once the protocol has changed, nobody could tell.
        if self.asks_upgrade(work) && work.head.body != BodyLength::None {
            return Err(ErrorCode::BadFraming.into());
        }
        let started_ms = self.worker.clock.now_ms();
        let mut tried = Tried::default();
        let mut attempts_left = self.retries();
        loop {
            let picked = self.pick(client, work, &tried).await?;
            let attempt = Attempt { forward: self, picked: &picked };
            let error = match attempt.run(client, work, body).await {
                Ok(after) => return Ok(after),
                Err(error) => error,
            };
            // The node was not asked.
            if error.code == ErrorCode::RewriteInvalid {
                return Err(error.code.into());
            }
            tried.insert(&picked);
            self.report(&picked, &error);
            work.record.fail_attempt(picked.address(), error.code);
            if !error.may_retry || attempts_left == 0 || !body.is_replayable() {
                return Err(error.code.into());
            }
            self.check_budget(started_ms)?;
            attempts_left -= 1;
            body.replay();
            self.worker.metrics.upstream_retries.increment();
        }
    }

    /// Whether the node is asked to switch protocols.
    #[inline]
    pub(crate) fn asks_upgrade(&self, work: &Work) -> bool {
        work.head.upgrade && self.route.websocket
    }

    /// Further attempts allowed: as configured, else one for each other node.
    fn retries(&self) -> u32 {
        let others = self.upstream.state.node_count().saturating_sub(1);
        self.upstream.conf.retries.unwrap_or(u32::try_from(others).unwrap_or(u32::MAX))
    }

    fn check_budget(&self, started_ms: u64) -> Result<(), GatewayError> {
        let Some(budget) = self.upstream.conf.retry_timeout else { return Ok(()) };
        let spent = Duration::from_millis(self.worker.clock.refresh() - started_ms);
        if spent >= budget { Err(ErrorCode::RetryBudgetExceeded.into()) } else { Ok(()) }
    }

    #[inline]
    async fn pick(
        &self,
        client: &Client,
        work: &Work,
        tried: &Tried,
    ) -> Result<Picked<'_>, GatewayError> {
        match self.pick_now(client, work, tried, WhenUnresolved::Wait) {
            Pick::Node(picked) => Ok(picked),
            Pick::NoNodes => Err(self.no_nodes()),
            // The nodes are fewer than the attempts allowed; the last failure stands.
            Pick::AllTried => Err(work.record.last_code().into()),
            Pick::Unresolved => {
                Box::pin(self.upstream.state.ready(self.worker.settings.resolve_timeout)).await;
                self.worker.clock.refresh();
                match self.pick_now(client, work, tried, WhenUnresolved::Skip) {
                    Pick::Node(picked) => Ok(picked),
                    Pick::NoNodes | Pick::Unresolved => Err(self.no_nodes()),
                    Pick::AllTried => Err(work.record.last_code().into()),
                }
            }
        }
    }

    /// Whether there are no nodes at all, or only names without an address.
    #[cold]
    fn no_nodes(&self) -> GatewayError {
        let has_weight = self.upstream.conf.nodes.iter().any(|node| node.weight > 0);
        if has_weight || self.upstream.conf.discovery.is_some() {
            ErrorCode::UpstreamUnresolved.into()
        } else {
            ErrorCode::NoNodes.into()
        }
    }

    #[inline]
    fn pick_now(
        &self,
        client: &Client,
        work: &Work,
        tried: &Tried,
        when_unresolved: WhenUnresolved,
    ) -> Pick<'_> {
        let random = self.worker.random_u64();
        let now_ms = self.worker.clock.now_ms();
        let pick = PickRequest { hash_key: None, random, now_ms, when_unresolved };
        let Some(hash_key) = &self.upstream.hash_key else {
            return self.upstream.state.pick(&pick, tried);
        };
        let request = Request::new(self.worker, client, work, Some(self.route));
        let key = hash_key.of(&request);
        self.upstream.state.pick(&PickRequest { hash_key: Some(&key), ..pick }, tried)
    }

    fn report(&self, picked: &Picked<'_>, error: &AttemptError) {
        if error.blame == Blame::Nobody {
            return;
        }
        let outcome = match error.code {
            ErrorCode::UpstreamConnectTimeout
            | ErrorCode::UpstreamReadTimeout
            | ErrorCode::UpstreamSendTimeout => Outcome::TimedOut,
            ErrorCode::UpstreamConnectFailed
            | ErrorCode::UpstreamReset
            | ErrorCode::UpstreamBadResponse
            | ErrorCode::UpstreamResponseHeadTooLarge => Outcome::Failed,
            // The client's doing says nothing about the node.
            _ => return,
        };
        self.upstream.state.report(picked, outcome, self.worker.clock.now_ms());
    }
}
