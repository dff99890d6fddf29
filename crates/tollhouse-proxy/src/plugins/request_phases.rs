//! Runs the request phases of plugins: rewrite, the consumer's plugins, access, before_proxy.

use std::mem::ManuallyDrop;

use tollhouse_plugin::{Answer, Flow, Memory, Phases, RefusalKind, RequestContext, Step};
use tollhouse_telemetry::ErrorCode;

use super::chain::{PluginStep, StepUpstream};
use super::chains::Chains;
use super::prepared::PreparedResponse;
use super::timing::Timing;
use crate::error::GatewayError;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;
use crate::worker::Worker;

/// Maximum length in bytes of a body that is read for the filters of plugins.
const FILTERED_BODY_BYTES_MAX: u64 = 64 << 20;

pub(crate) enum Verdict<'s> {
    /// The request goes to a node: of the upstream that a plugin chose, or of the route's.
    Forward(Option<&'s StepUpstream>),
    /// A plugin answered the request; its response is prepared.
    Answered,
}

/// Runs all phases before a node is selected.
///
/// # Errors
/// If the consumer's group does not exist, a plugin that may protect cannot run, or a body that a
/// plugin needs cannot be read.
pub(crate) async fn run<'s>(
    exchange: &mut Exchange<'_>,
    snapshot: &'s Snapshot,
    chains: &mut Chains<'s>,
) -> Result<Verdict<'s>, GatewayError> {
    let verdict = {
        let (worker, timing) = (exchange.worker, Timing::new(exchange));
        let is_lost = exchange.route.is_none() && !exchange.asks_server();
        let mut loan = Loan::new(exchange);
        let cx = RequestContext::new(loan.exchange, &snapshot.consumers, &mut loan.memory);
        let prepared = &mut loan.prepared;
        Phasing { cx, prepared, upstream: None, worker, timing, is_lost }
            .run(snapshot, chains)
            .await
    };
    // An unreadable body ends the request, whatever the plugins answered.
    match exchange.state.plugins.refused {
        Some(code) => Err(code.into()),
        None => verdict,
    }
}

/// Plugin state moved out of the exchange. Drop puts it back, even if the client leaves while a
/// plugin waits, because the log phase needs it.
struct Loan<'x, 'e> {
    exchange: &'x mut Exchange<'e>,
    memory: ManuallyDrop<Memory>,
    prepared: ManuallyDrop<PreparedResponse>,
}

impl<'x, 'e> Loan<'x, 'e> {
    #[inline]
    fn new(exchange: &'x mut Exchange<'e>) -> Self {
        let plugins = &mut exchange.state.plugins;
        let memory = ManuallyDrop::new(std::mem::take(&mut plugins.memory));
        let prepared = ManuallyDrop::new(std::mem::take(&mut plugins.prepared));
        Self { exchange, memory, prepared }
    }
}

impl Drop for Loan<'_, '_> {
    /// Puts the state back. The replaced values are empty and need no drop.
    #[inline]
    fn drop(&mut self) {
        let plugins = &mut self.exchange.state.plugins;
        std::mem::swap(&mut plugins.memory, &mut self.memory);
        std::mem::swap(&mut plugins.prepared, &mut self.prepared);
    }
}

/// A request that runs through the phases.
struct Phasing<'r, 's> {
    cx: RequestContext<'r>,
    prepared: &'r mut PreparedResponse,
    upstream: Option<&'s StepUpstream>,
    worker: &'r Worker,
    timing: Timing,
    /// True for a request without a matching route, which is answered 404.
    is_lost: bool,
}

impl<'r, 's: 'r> Phasing<'r, 's> {
    async fn run(
        mut self,
        snapshot: &'s Snapshot,
        chains: &mut Chains<'s>,
    ) -> Result<Verdict<'s>, GatewayError> {
        if may_run(chains, Phases::REWRITE) && self.phase(chains, Phases::REWRITE, Who::All).await?
        {
            return Ok(Verdict::Answered);
        }
        if self.join_consumer(snapshot, chains)?
            && self.phase(chains, Phases::REWRITE, Who::New).await?
        {
            return Ok(Verdict::Answered);
        }
        for phase in [Phases::ACCESS, Phases::BEFORE_PROXY] {
            if may_run(chains, phase) && self.phase(chains, phase, Who::All).await? {
                return Ok(Verdict::Answered);
            }
        }
        if let Some(answer) = self.cx.edits().answer.take() {
            self.prepared.fill(&answer, None);
            return Ok(Verdict::Answered);
        }
        if self.is_lost && chains.has(Phases::EXIT) {
            let answer = Answer::error_msg(404, "404 Route Not Found");
            self.prepared.fill(&answer.refused(RefusalKind::NotFound), None);
            self.rewrite_answer(chains, None);
            return Ok(Verdict::Answered);
        }
        Ok(Verdict::Forward(self.upstream))
    }

    /// Adds the plugins of the consumer; returns whether it has any.
    fn join_consumer(
        &self,
        snapshot: &'s Snapshot,
        chains: &mut Chains<'s>,
    ) -> Result<bool, GatewayError> {
        let Some(consumer) = self.cx.consumer().filter(|consumer| consumer.has_plugins) else {
            return Ok(false);
        };
        let group = match &consumer.group_id {
            Some(id) => {
                let found = snapshot.consumers.group(id);
                Some(found.ok_or(ErrorCode::ConsumerGroupNotFound)?)
            }
            None => None,
        };
        chains.join(snapshot.consumers.chain(&consumer.username), group);
        Ok(true)
    }

    /// Runs one phase; returns whether a plugin answered.
    async fn phase(
        &mut self,
        chains: &Chains<'s>,
        phase: Phases,
        who: Who,
    ) -> Result<bool, GatewayError> {
        let asks_for_body = chains.filters_read_body();
        let mut index = 0;
        while let Some(step) = chains.step(index) {
            // Read also for plugins of later phases, because the body may be gone by then.
            if asks_for_body && step.filter_reads_body() {
                // A body that is too long leaves the variables without values; any other error ends
                // the request.
                let _ = self.cx.read_body(FILTERED_BODY_BYTES_MAX).await;
                if self.cx.is_refused() {
                    return Ok(true);
                }
            }
            let is_due = step.phases.intersects(phase)
                && chains.runs(step, index, self.cx.variables())
                && (who == Who::All || (chains.is_new(step) && !step.is_auth));
            if is_due && let Some(code) = step.refuses_with {
                return Err(code.into());
            }
            if is_due {
                let timed = self.timing.begin(phase);
                let has_answered = self.step(chains, step, phase).await;
                if let Some(timed) = timed {
                    timed.end(self.worker, step, self.cx.trace());
                }
                if has_answered {
                    return Ok(true);
                }
            }
            index += 1;
        }
        Ok(false)
    }

    #[inline]
    async fn step(&mut self, chains: &Chains<'s>, step: &'s PluginStep, phase: Phases) -> bool {
        self.cx.enter(step.instance());
        let handler = &*step.handler;
        let answered = {
            let said = match phase {
                Phases::REWRITE => handler.rewrite(&mut self.cx),
                Phases::ACCESS => handler.access(&mut self.cx),
                _ => handler.before_proxy(&mut self.cx),
            };
            match said {
                Step::Continue => None,
                Step::Answer(answer) => Some(answer),
                Step::Wait(future) => match future.await {
                    Flow::Continue => None,
                    Flow::Answer(answer) => Some(answer),
                },
            }
            .map(|answer| self.prepared.fill_by(step, &answer))
            .is_some()
        };
        if answered && chains.has(Phases::EXIT) {
            self.rewrite_answer(chains, Some(step));
        }
        if answered || self.cx.is_refused() {
            return true;
        }
        // Read at once, because the index refers to the upstreams of this plugin.
        if let Some(index) = self.cx.edits().upstream.take() {
            self.upstream = step.upstreams.get(index);
        }
        false
    }

    /// Lets plugins rewrite the prepared answer, which is that of the plugin of `by` or, without
    /// one, that of the gateway.
    #[cold]
    fn rewrite_answer(&mut self, chains: &Chains<'s>, by: Option<&PluginStep>) {
        let mut index = 0;
        while let Some(step) = chains.step(index) {
            let takes_part = step.phases.intersects(Phases::EXIT);
            if takes_part && chains.runs(step, index, self.cx.variables()) {
                self.cx.enter(step.instance());
                let answer = self.prepared.to_answer();
                if let Some(other) = step.handler.exit(&mut self.cx, &answer) {
                    self.prepared.fill(&other, None);
                    if let Some(by) = by {
                        self.prepared.blame(by, &other);
                    }
                }
            }
            index += 1;
        }
    }
}

/// Whether a phase has anything to do. Asked before the future of the phase is made, because most
/// requests have plugins in one phase only.
#[inline]
fn may_run(chains: &Chains<'_>, phase: Phases) -> bool {
    chains.has(phase) || chains.filters_read_body()
}

/// Choice of the plugins that a phase runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    All,
    /// Plugins that were added with the consumer.
    New,
}
