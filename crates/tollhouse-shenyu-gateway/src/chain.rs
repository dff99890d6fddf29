//! Chain of plugins: runs each in order, with the selector and rule that match the request.

use std::borrow::Cow;
use std::sync::Arc;

use tollhouse_plugin as plugin;
use tollhouse_plugin::handler::Handler;
use tollhouse_plugin::response::{ResponseContext, Source};
use tollhouse_plugin::{
    Exchange, Flow, LogContext, Phases, RefusalKind, RequestContext, Step, UpstreamRef,
};
use tollhouse_router::may_be_ambiguous;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::{Engine, RpcType, UnknownRpcType};

use crate::by_path::ByPath;
use crate::entrance::{CrossHeaders, Entrance, add_cross_headers, built_in_page};
use crate::links::{Choice, Link, Slot, Unmatched};
use crate::plugin::{Needs, Run, Verdict};
use crate::plugins::sign::signature::Applications;
use crate::query;
use crate::reply::{CHAIN, reply};
use crate::target::Target;
use crate::tcp::TcpTarget;
use crate::terms::Terms;
use crate::turn::{Aftermath, Facts, Turn, asked_path};
use crate::view::View;

/// Maximum number of times that a request runs through the chain. It ends loops of `redirect` rules
/// that point at each other.
pub(crate) const BEGINNINGS_MAX: u32 = 5;

/// HTTP status of the answer to a request whose target is not a URI.
pub(crate) const BAD_URI_STATUS: u16 = 400;

/// ShenYu's plugins, compiled for requests of one namespace.
#[derive(Debug)]
pub struct Chain {
    pub(crate) engine: Engine,
    pub(crate) links: Box<[Link]>,
    /// Plugins that change responses of nodes.
    pub(crate) answer_links: Box<[Link]>,
    pub(crate) targets: Box<[Arc<Target>]>,
    pub(crate) tcp_targets: Box<[TcpTarget]>,
    pub(crate) applications: Arc<Applications>,
    pub(crate) terms: Terms,
    /// Filters that run before any plugin; `None` if all are off.
    pub(crate) entrance: Option<Box<Entrance>>,
    /// Whether no object needs to see requests. The chain then takes only those that a filter
    /// answers.
    pub(crate) is_bare: bool,
    pub(crate) by_path: ByPath,
    pub(crate) judges_paths: bool,
}

impl Chain {
    /// Returns the upstreams to which the chain's proxy rules (`divide` and others) send requests.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Returns the ports whose connections are proxied.
    pub fn tcp_targets(&self) -> &[TcpTarget] {
        &self.tcp_targets
    }

    /// Returns the settings for all requests.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Whether a plugin protects nodes, so that ambiguous paths must be refused.
    pub fn judges_paths(&self) -> bool {
        self.judges_paths
    }

    /// Returns the target of a request that only a proxy acts on; `None` if the whole chain must
    /// run. Allocates nothing.
    pub fn plain_target(&self, exchange: &dyn Exchange) -> Option<usize> {
        // The path alone decides most requests, and their targets are precomputed.
        if self.entrance.is_none()
            && let Some(target) = exchange.path_as_sent().and_then(|path| self.by_path.get(path))
            && exchange.client_header(b"rpc_type").is_none()
            && !exchange.asks_websocket()
            && exchange.query().is_none_or(query::is_plain)
        {
            return Some(target);
        }
        self.search_plain_target(exchange)
    }

    /// As [`Self::plain_target`], but evaluates all conditions.
    pub(crate) fn search_plain_target(&self, exchange: &dyn Exchange) -> Option<usize> {
        let (Cow::Borrowed(path), false) = asked_path(exchange) else { return None };
        if (self.judges_paths && may_be_ambiguous(path.as_bytes())) || !is_sent_on(exchange, path) {
            return None;
        }
        if let Some(entrance) = &self.entrance
            && (entrance.filters.taken(path).is_some()
                || (entrance.filters.collapse_slashes && path.contains("//"))
                || entrance.concerns(exchange))
        {
            return None;
        }
        let facts = Facts::new(self.rpc_type(exchange, path).ok()?);
        let view = View::new(exchange, path, exchange.query(), &facts);
        for link in self.links.iter().filter(|link| link.takes_part(facts.rpc_type)) {
            let slot = match link.select(&self.engine, &view) {
                Choice::Unmatched if link.unmatched == Unmatched::Pass => continue,
                Choice::Slot(slot) => slot,
                Choice::Unmatched | Choice::NoRule | Choice::Unclear => return None,
            };
            match slot.action.needs() {
                Needs::Nothing => {}
                Needs::Path(rule) => {
                    // Plugins that change responses are later in the chain, and are matched against
                    // the same view. A body of unknown length must be counted, which needs the
                    // chain.
                    let is_counted = rule.bytes_max().is_some()
                        && exchange.client_header(b"transfer-encoding").is_some();
                    let is_plain = !is_counted
                        && rule.refuse_size(exchange).is_none()
                        && self.answer_links.iter().all(|link| {
                            matches!(link.select(&self.engine, &view), Choice::Unmatched)
                        });
                    return slot.target.filter(|_| is_plain);
                }
                Needs::Exchange => return None,
            }
        }
        None
    }

    /// Whether a request that no route matches belongs to this chain.
    pub fn takes(&self, exchange: &dyn Exchange) -> bool {
        !self.is_bare || self.is_filtered(&asked_path(exchange).0)
    }

    fn is_filtered(&self, path: &str) -> bool {
        self.entrance.as_ref().is_some_and(|entrance| entrance.is_taken(path))
    }

    /// Whether a filter or a selector matches the original request.
    pub fn knows(&self, exchange: &dyn Exchange) -> bool {
        let (path, _) = asked_path(exchange);
        if self.is_filtered(&path) {
            return true;
        }
        let Ok(rpc_type) = self.rpc_type(exchange, &path) else { return true };
        let facts = Facts::new(rpc_type);
        let query = query::sent_to_nodes(exchange);
        let view = View::new(exchange, &path, query.as_deref(), &facts);
        let mut links = self.links.iter().filter(|link| link.takes_part(rpc_type));
        links.any(|link| !matches!(link.select(&self.engine, &view), Choice::Unmatched))
    }

    /// Runs the chain on a request until a node is chosen or a plugin answers.
    async fn run<'o>(&self, cx: &mut RequestContext<'_>) -> Flow<'o> {
        // As in ShenYu, this is checked before any filter, and the answer has no body.
        if !query::is_uri(&cx.exchange().real_request_uri()) {
            let body = plugin::AnswerBody::Empty;
            let answer = plugin::Answer { body, ..plugin::Answer::status(BAD_URI_STATUS) };
            return Flow::from(answer.refused(RefusalKind::RequestInvalid).by(CHAIN));
        }
        let Some(entrance) = &self.entrance else { return self.run_plugins(cx, None, None).await };
        let path = asked_path(cx.exchange()).0.into_owned();
        // Slashes are collapsed before the other filters, so that these see the same path as
        // plugins.
        let collapsed = entrance.collapse(&path);
        let cross = entrance.cross_headers(cx.exchange());
        let seen = collapsed.as_deref().unwrap_or(&path);
        match entrance.filter(seen, cx).await {
            Some(answer) => {
                remember_cross(cx, cross);
                Flow::from(answer)
            }
            None => self.run_plugins(cx, collapsed, cross).await,
        }
    }

    /// Runs the plugins. `path` is the path if filters have changed it, and `cross` the headers
    /// that they add to the response.
    async fn run_plugins<'o>(
        &self,
        cx: &mut RequestContext<'_>,
        path: Option<String>,
        cross: Option<CrossHeaders>,
    ) -> Flow<'o> {
        let mut turn = match self.turn(cx, path) {
            Ok(turn) => turn,
            Err(UnknownRpcType) => {
                remember_cross(cx, cross);
                return Flow::from(self.refusal(Answer::InternalServerError));
            }
        };
        let flow = self.run_turns(cx, &mut turn).await;
        match &flow {
            Flow::Continue => {
                turn.aftermath.cross = cross;
                if !turn.aftermath.is_empty() {
                    cx.remember(turn.aftermath);
                }
            }
            // The request goes to no node, so its permits and calls are released.
            _ => {
                let records = std::mem::take(&mut turn.aftermath.records);
                let cookies = std::mem::take(&mut turn.aftermath.cookies);
                let aftermath = Aftermath { cross, records, cookies, ..Aftermath::default() };
                if !aftermath.is_empty() {
                    cx.remember(aftermath);
                }
            }
        }
        flow
    }

    fn turn(&self, cx: &RequestContext<'_>, path: Option<String>) -> Result<Turn, UnknownRpcType> {
        let asked = asked_path(cx.exchange()).0;
        let rpc_type = self.rpc_type(cx.exchange(), path.as_deref().unwrap_or(&asked))?;
        let mut turn = Turn::new(cx.exchange(), rpc_type);
        if let Some(path) = path {
            turn.take_path(path);
        }
        Ok(turn)
    }

    async fn run_turns<'o>(&self, cx: &mut RequestContext<'_>, turn: &mut Turn) -> Flow<'o> {
        for _ in 0..BEGINNINGS_MAX {
            let (verdict, target) = self.pass(cx, turn).await;
            match verdict {
                Verdict::Answered(answer) => return Flow::Answer(answer),
                Verdict::Refused(answer) | Verdict::Unauthenticated(answer) => {
                    return Flow::from(self.refusal(answer));
                }
                // No proxy accepted the request.
                Verdict::Next => {
                    let answer = self.refusal(Answer::InvocationFailed);
                    return Flow::from(answer.refused(RefusalKind::NotFound));
                }
                Verdict::Anew(path) => match self.own_page(&path, cx).await {
                    Some(answer) => return Flow::from(answer),
                    None => turn.begin_anew(&path),
                },
                Verdict::Node => {
                    let Some(target) = target else {
                        return Flow::from(self.refusal(Answer::NoHealthyUpstream));
                    };
                    if let Err(refusal) = self.prepare_answer(cx, turn).await {
                        return Flow::Answer(refusal);
                    }
                    if let Some(uri) = turn.node_uri() {
                        cx.edits().set_upstream_uri(&uri);
                    }
                    cx.choose_upstream(target);
                    return Flow::Continue;
                }
            }
        }
        Flow::from(self.refusal(Answer::InternalServerError))
    }

    /// Returns the gateway's own page at a path that a rule redirects to; `None` if the path has
    /// none.
    async fn own_page<'o>(
        &self,
        uri: &str,
        cx: &mut RequestContext<'_>,
    ) -> Option<plugin::Answer<'o>> {
        let page = match &self.entrance {
            Some(entrance) => entrance.own_page(uri, cx).await,
            None => None,
        };
        page.or_else(|| built_in_page(uri))
    }

    /// Runs the plugins in order until one decides about the request. With `Verdict::Node`, the
    /// returned number is the index of the node's target in `targets`.
    async fn pass<'o>(
        &self,
        cx: &mut RequestContext<'_>,
        turn: &mut Turn,
    ) -> (Verdict<'o>, Option<usize>) {
        for link in &self.links {
            // A rewrite may have changed the RPC type.
            if !link.takes_part(turn.facts.rpc_type) {
                continue;
            }
            let choice = link.select(&self.engine, &turn.view(cx.exchange()));
            let named =
                |answer| Verdict::answered(reply(answer, Some(&link.name), self.terms.statuses));
            let (verdict, target) = match (choice, link.unmatched) {
                (Choice::Slot(slot), _) => (self.act(slot, cx, turn).await, slot.target),
                (Choice::Unclear, _) => (Verdict::Refused(Answer::InternalException), None),
                (Choice::Unmatched | Choice::NoRule, Unmatched::Pass) => (Verdict::Next, None),
                (Choice::Unmatched | Choice::NoRule, Unmatched::Refuse(answer)) => {
                    (Verdict::Refused(answer), None)
                }
                (Choice::Unmatched, Unmatched::Named) => (named(Answer::SelectorNotFound), None),
                (Choice::NoRule, Unmatched::Named) => (named(Answer::RuleNotFound), None),
            };
            match verdict {
                Verdict::Next => {}
                Verdict::Refused(answer) => {
                    return (Verdict::answered(self.refusal_by(&link.name, answer)), target);
                }
                Verdict::Unauthenticated(answer) => {
                    let answer = self.refusal_by(&link.name, answer);
                    return (Verdict::answered(answer.refused(RefusalKind::AuthMissing)), target);
                }
                Verdict::Answered(answer) if answer.refusal.is_some() => {
                    return (Verdict::answered(answer.by(&link.name)), target);
                }
                other => return (other, target),
            }
        }
        (Verdict::Next, None)
    }

    /// Executes an action.
    async fn act<'o>(
        &self,
        slot: &Slot,
        cx: &mut RequestContext<'_>,
        turn: &mut Turn,
    ) -> Verdict<'o> {
        if slot.action.creates_response()
            && let Err(refusal) = self.prepare_answer(cx, turn).await
        {
            return Verdict::Answered(refusal);
        }
        slot.action.act(&mut self.context(cx, turn)).await
    }

    fn context<'r, 'c>(
        &'r self,
        cx: &'r mut RequestContext<'c>,
        turn: &'r mut Turn,
    ) -> Run<'r, 'c> {
        let Self { engine, applications, terms, .. } = self;
        Run { cx, turn, engine, applications, terms }
    }

    /// Prepares changes of the node's response, according to the request in its final form.
    ///
    /// # Errors
    ///
    /// The answer to send instead, if a protecting rule cannot be used.
    async fn prepare_answer<'o>(
        &self,
        cx: &mut RequestContext<'_>,
        turn: &mut Turn,
    ) -> Result<(), Box<plugin::Answer<'o>>> {
        for link in &self.answer_links {
            let verdict = match link.select(&self.engine, &turn.view(cx.exchange())) {
                Choice::Slot(slot) => slot.action.act(&mut self.context(cx, turn)).await,
                Choice::Unclear => Verdict::Refused(Answer::InternalException),
                Choice::Unmatched | Choice::NoRule => continue,
            };
            match verdict {
                Verdict::Answered(refusal) => return Err(refusal),
                Verdict::Refused(answer) | Verdict::Unauthenticated(answer) => {
                    return Err(Box::new(self.refusal_by(&link.name, answer)));
                }
                Verdict::Next | Verdict::Node | Verdict::Anew(_) => {}
            }
        }
        Ok(())
    }

    fn refusal<'o>(&self, answer: Answer) -> plugin::Answer<'o> {
        self.refusal_by(CHAIN, answer)
    }

    /// Returns the answer of a plugin that refuses a request.
    fn refusal_by<'o>(&self, name: &str, answer: Answer) -> plugin::Answer<'o> {
        reply(answer, None, self.terms.statuses).by(name)
    }

    pub(crate) fn rpc_type(
        &self,
        exchange: &dyn Exchange,
        path: &str,
    ) -> Result<RpcType, UnknownRpcType> {
        let header = exchange.client_header(b"rpc_type");
        let header = header.map(String::from_utf8_lossy);
        let upgrade = exchange.asks_websocket().then_some("websocket");
        let decision = self.engine.rpc_type(header.as_deref(), upgrade, path)?;
        Ok(decision.rpc_type)
    }
}

/// Whether ShenYu would send path and query to nodes as they came, if no plugin acts on them.
fn is_sent_on(exchange: &dyn Exchange, path: &str) -> bool {
    let is_kept = |query| query::is_plain(query) && !path.contains('%');
    query::is_uri(path.as_bytes()) && exchange.query().is_none_or(is_kept)
}

fn remember_cross(cx: &mut RequestContext<'_>, cross: Option<CrossHeaders>) {
    if cross.is_some() {
        cx.remember(Aftermath { cross, ..Aftermath::default() });
    }
}

impl Handler for Chain {
    fn name(&self) -> &'static str {
        CHAIN
    }

    fn phases(&self) -> Phases {
        Phases::REWRITE.union(Phases::RESPONSE).union(Phases::LOG)
    }

    fn upstreams(&self) -> Vec<UpstreamRef<'_>> {
        // The data plane gets them from `targets`.
        Vec::new()
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move { self.run(cx).await })
    }

    fn access<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    fn before_proxy<'a>(&'a self, _cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::Continue
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(left) = cx.recall::<Aftermath>() else { return };
        let (edits, copy) = (std::mem::take(&mut left.answer_edits), left.copy.take());
        let (cross, mut records) = (left.cross.take(), std::mem::take(&mut left.records));
        let cookies = std::mem::take(&mut left.cookies);
        if let Some(fallback) = left.fallback.take() {
            fallback.answer(self.terms.statuses, cx);
        }
        if let Some(cross) = cross {
            add_cross_headers(&cross, cx);
        }
        if cx.source() == Source::Upstream {
            edits.into_iter().for_each(|edit| edit.edit(self.terms.statuses, cx));
        }
        if let Some(copy) = copy {
            copy.watch(cx);
        }
        // After the cache has its copy, because these cookies belong to a single user.
        cookies.iter().for_each(|line| cx.add_header("Set-Cookie", line.as_bytes()));
        // Recorded last, so that the record shows what clients receive.
        records.iter_mut().for_each(|record| record.see_answer(cx));
        if let Some(left) = cx.recall::<Aftermath>() {
            left.records = records;
        }
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        let (status, now_ms) = (cx.transfer().upstream_status, cx.now().unix_ms);
        let left = cx.recall::<Aftermath>();
        let Some(left) = left else { return };
        let (calls, records) = (std::mem::take(&mut left.calls), std::mem::take(&mut left.records));
        calls.into_iter().for_each(|call| call.end(status, now_ms));
        records.into_iter().for_each(|record| record.write(cx));
    }
}
