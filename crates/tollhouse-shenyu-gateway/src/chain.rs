//! Chain of plugins: runs each in order, with the selector and rule that match the request.

use std::borrow::Cow;
use std::sync::Arc;

use tollhouse_plugin as plugin;
use tollhouse_plugin::handler::Handler;
use tollhouse_plugin::response::ResponseContext;
use tollhouse_plugin::{Exchange, Flow, LogContext, Phases, RequestContext, Step, UpstreamRef};
use tollhouse_router::may_be_ambiguous;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::filters::{Filters, HEALTHY, Taken, collapse, fallback_answer};
use tollhouse_shenyu::matching::{Engine, Outcome, Request, RpcType, UnknownRpcType};

use crate::action::{Action, Done, refuse_size};
use crate::actions::Actions;
use crate::actuator::Actuator;
use crate::by_path::ByPath;
use crate::filter::{self, CrossHeaders, Filtered};
use crate::local::LocalInterface;
use crate::reply::reply;
use crate::shape::edit_answer;
use crate::sources::Terms;
use crate::target::Target;
use crate::tcp::TcpTarget;
use crate::turn::{Aftermath, Facts, Turn, asked_path};
use crate::view::View;
use tollhouse_shenyu::model::Selector;
use tollhouse_shenyu::sign::Applications;

/// Maximum number of passes of a request through the chain, because `redirect` rules may point at
/// each other.
pub(crate) const BEGINNINGS_MAX: u32 = 5;

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
    pub(crate) filters: Option<Box<Filters>>,
    /// Whether no object needs to see requests. The chain then takes only those that a filter
    /// answers.
    pub(crate) is_bare: bool,
    pub(crate) local: Option<Arc<dyn LocalInterface>>,
    /// Pages that show the objects of the chain, if enabled.
    pub(crate) actuator: Option<Box<Actuator>>,
    pub(crate) by_path: ByPath,
    pub(crate) judges_paths: bool,
}

/// Plugin of the chain that may affect requests.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// Position of the plugin in the engine.
    pub(crate) place: usize,
    /// RPC type that a proxy serves; requests of other types skip it. `None` for plugins that are
    /// not proxies.
    pub(crate) carries: Option<RpcType>,
    pub(crate) unmatched: Unmatched,
    pub(crate) actions: Actions,
}

/// Treatment of requests that no selector or rule of a plugin matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmatched {
    Pass,
    /// Refused with an answer that names the plugin.
    Named,
    Refuse(Answer),
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

    pub(crate) fn applications(&self) -> &Applications {
        &self.applications
    }

    /// Whether a plugin protects nodes, so that ambiguous paths must be refused.
    pub fn judges_paths(&self) -> bool {
        self.judges_paths
    }

    /// Returns the target of a request that only a proxy acts on; `None` if the whole chain must
    /// run. Allocates nothing.
    pub fn plain_target(&self, exchange: &dyn Exchange) -> Option<usize> {
        // The path alone decides most requests, and their targets are precomputed.
        if self.filters.is_none()
            && let Some(target) = exchange.path_as_sent().and_then(|path| self.by_path.get(path))
            && exchange.client_header(b"rpc_type").is_none()
            && !exchange.asks_websocket()
        {
            return Some(target);
        }
        self.search_plain_target(exchange)
    }

    /// As [`Self::plain_target`], but evaluates all conditions.
    pub(crate) fn search_plain_target(&self, exchange: &dyn Exchange) -> Option<usize> {
        let (Cow::Borrowed(path), false) = asked_path(exchange) else { return None };
        if self.judges_paths && may_be_ambiguous(path.as_bytes()) {
            return None;
        }
        if let Some(filters) = &self.filters
            && (filters.taken(path).is_some()
                || (filters.collapse_slashes && path.contains("//"))
                || filter::concerns(filters, exchange))
        {
            return None;
        }
        let facts = Facts::new(self.rpc_type(exchange, path).ok()?);
        let view = View::new(exchange, path, exchange.query(), &facts);
        for link in self.links.iter().filter(|link| link.takes_part(facts.rpc_type)) {
            match self.select(link, &view) {
                Selected::Unmatched if link.unmatched == Unmatched::Pass => {}
                Selected::Action(Action::Proxy { rule, target }) => {
                    // Plugins that change responses are later in the chain, and are matched against
                    // the same view. A body of unknown length must be counted, which needs the
                    // chain.
                    let is_counted = rule.bytes_max().is_some()
                        && exchange.client_header(b"transfer-encoding").is_some();
                    let is_plain = !is_counted
                        && refuse_size(rule, exchange).is_none()
                        && self
                            .answer_links
                            .iter()
                            .all(|link| matches!(self.select(link, &view), Selected::Unmatched));
                    return is_plain.then_some(*target);
                }
                Selected::Unmatched
                | Selected::NoRule
                | Selected::Action(_)
                | Selected::Unclear => {
                    return None;
                }
            }
        }
        None
    }

    /// Whether a request that no route matches belongs to this chain.
    pub fn takes(&self, exchange: &dyn Exchange) -> bool {
        !self.is_bare || self.is_filtered(&asked_path(exchange).0)
    }

    fn is_filtered(&self, path: &str) -> bool {
        self.filters.as_ref().is_some_and(|filters| {
            let collapsed = filters.collapse_slashes.then(|| collapse(path)).flatten();
            filters.taken(collapsed.as_deref().unwrap_or(path)).is_some()
        })
    }

    /// Whether a filter or a selector matches the original request.
    pub fn knows(&self, exchange: &dyn Exchange) -> bool {
        let (path, _) = asked_path(exchange);
        if self.is_filtered(&path) {
            return true;
        }
        let Ok(rpc_type) = self.rpc_type(exchange, &path) else { return true };
        let facts = Facts::new(rpc_type);
        let view = View::new(exchange, &path, exchange.query(), &facts);
        let mut links = self.links.iter().filter(|link| link.takes_part(rpc_type));
        links.any(|link| !matches!(self.select(link, &view), Selected::Unmatched))
    }

    /// Runs the chain on a request until a node is chosen or a plugin answers.
    async fn run<'o>(&self, cx: &mut RequestContext<'_>) -> Flow<'o> {
        let Some(filters) = &self.filters else { return self.run_plugins(cx, None).await };
        let path = asked_path(cx.exchange()).0.into_owned();
        // Before the other filters, so that they see the same path as plugins.
        let collapsed = filters.collapse_slashes.then(|| collapse(&path)).flatten();
        let cross = filter::cross_headers(filters, cx.exchange());
        let seen = collapsed.as_deref().unwrap_or(&path);
        let flow = match self.filter(filters, seen, cx).await {
            Filtered::Answered(answer) => Flow::Answer(answer),
            Filtered::Passes => return self.run_plugins(cx, Some((collapsed, cross))).await,
        };
        remember_cross(cx, cross);
        flow
    }

    /// Runs the plugins. `filtered` contains the path changed by filters and the headers that they
    /// add to the response.
    async fn run_plugins<'o>(
        &self,
        cx: &mut RequestContext<'_>,
        filtered: Option<(Option<String>, Option<CrossHeaders>)>,
    ) -> Flow<'o> {
        let (path, cross) = filtered.unwrap_or_default();
        let mut turn = match self.turn(cx, path) {
            Ok(turn) => turn,
            Err(UnknownRpcType) => {
                remember_cross(cx, cross);
                return Flow::from(reply(Answer::InternalServerError, None, self.terms.statuses));
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
        let refused = |answer| Flow::from(reply(answer, None, self.terms.statuses));
        for _ in 0..BEGINNINGS_MAX {
            match self.pass(cx, turn).await {
                Done::Answered(answer) => return Flow::Answer(answer),
                // No proxy accepted the request.
                Done::Next => return refused(Answer::InvocationFailed),
                Done::Anew(path) => match self.own_page(&path, cx).await {
                    Some(answer) => return Flow::from(answer),
                    None => turn.begin_anew(&path),
                },
                Done::Node(target) => {
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
        refused(Answer::InternalServerError)
    }

    /// Returns the gateway's own page at a path that a rule redirects to.
    async fn own_page<'o>(
        &self,
        uri: &str,
        cx: &mut RequestContext<'_>,
    ) -> Option<plugin::Answer<'o>> {
        let path = uri.split('?').next().unwrap_or_default();
        if let Some(filters) =
            self.filters.as_ref().filter(|it| it.taken(path) == Some(Taken::Local))
        {
            return Some(self.call_local(filters, uri, cx).await);
        }
        if let Some(page) = self.actuator.as_ref().and_then(|actuator| actuator.answer(path)) {
            return Some(page);
        }
        let is_health = path == "/actuator/health";
        let body = if is_health { Some(HEALTHY.to_owned()) } else { fallback_answer(path) }?;
        let answer = plugin::Answer::text(200, body.into_bytes());
        Some(answer.with_header("Content-Type", &b"application/json"[..]))
    }

    async fn pass<'o>(&self, cx: &mut RequestContext<'_>, turn: &mut Turn) -> Done<'o> {
        for link in &self.links {
            // A rewrite may have changed the RPC type.
            if !link.takes_part(turn.facts.rpc_type) {
                continue;
            }
            let selected = self.select(link, &turn.view(cx.exchange()));
            let named = |answer| {
                Done::Answered(Box::new(reply(answer, Some(&link.name), self.terms.statuses)))
            };
            let done = match (selected, link.unmatched) {
                (Selected::Action(action), _) => self.act(action, cx, turn).await,
                (Selected::Unclear, _) => {
                    self.act(&Action::Refuse(Answer::InternalException), cx, turn).await
                }
                (Selected::Unmatched | Selected::NoRule, Unmatched::Pass) => Done::Next,
                (Selected::Unmatched | Selected::NoRule, Unmatched::Refuse(answer)) => {
                    self.act(&Action::Refuse(answer), cx, turn).await
                }
                (Selected::Unmatched, Unmatched::Named) => named(Answer::SelectorNotFound),
                (Selected::NoRule, Unmatched::Named) => named(Answer::RuleNotFound),
            };
            if !matches!(done, Done::Next) {
                return done;
            }
        }
        Done::Next
    }

    /// Prepares changes of the node's response, according to the request in its final form.
    ///
    /// # Errors
    ///
    /// The answer to send instead, if a protecting rule cannot be used.
    pub(crate) async fn prepare_answer<'o>(
        &self,
        cx: &mut RequestContext<'_>,
        turn: &mut Turn,
    ) -> Result<(), Box<plugin::Answer<'o>>> {
        for link in &self.answer_links {
            let done = match self.select(link, &turn.view(cx.exchange())) {
                Selected::Action(action) => self.act(action, cx, turn).await,
                Selected::Unclear => {
                    self.act(&Action::Refuse(Answer::InternalException), cx, turn).await
                }
                Selected::Unmatched | Selected::NoRule => continue,
            };
            if let Done::Answered(refusal) = done {
                return Err(refusal);
            }
        }
        Ok(())
    }

    #[inline]
    fn select<'a>(&'a self, link: &'a Link, request: &dyn Request) -> Selected<'a> {
        let (selector, selected) = self.choose(link, request);
        if let Some(selector) = selector.filter(|selector| selector.logged) {
            tracing::info!(plugin = link.name, selector = selector.name, "selector success match");
        }
        selected
    }

    /// Matches a plugin and returns its action with the matching selector, without logging the
    /// match.
    #[inline]
    pub(crate) fn choose<'a>(
        &'a self,
        link: &'a Link,
        request: &dyn Request,
    ) -> (Option<&'a Selector>, Selected<'a>) {
        match self.engine.select_at(link.place, request) {
            Outcome::Off | Outcome::NoSelector => (None, Selected::Unmatched),
            Outcome::NoRule(_) => (None, Selected::NoRule),
            Outcome::Unavailable { .. } => (None, Selected::Unclear),
            Outcome::Serves { selector, ranks, .. } => {
                let action = link.actions.get(ranks);
                (Some(selector), action.map_or(Selected::Unmatched, Selected::Action))
            }
        }
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

fn remember_cross(cx: &mut RequestContext<'_>, cross: Option<CrossHeaders>) {
    if cross.is_some() {
        cx.remember(Aftermath { cross, ..Aftermath::default() });
    }
}

impl Link {
    pub(crate) fn takes_part(&self, rpc_type: RpcType) -> bool {
        self.carries.is_none_or(|carries| carries == rpc_type)
    }
}

/// Outcome of matching a plugin's objects.
pub(crate) enum Selected<'a> {
    Unmatched,
    NoRule,
    Action(&'a Action),
    /// A protecting object might match, but cannot be evaluated.
    Unclear,
}

impl Handler for Chain {
    fn name(&self) -> &'static str {
        "shenyu"
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
        let (edits, keep) = (std::mem::take(&mut left.answer_edits), left.keep.take());
        let (cross, mut records) = (left.cross.take(), std::mem::take(&mut left.records));
        let cookies = std::mem::take(&mut left.cookies);
        if let Some(fallback) = left.fallback.take() {
            fallback.answer(self.terms.statuses, cx);
        }
        if let Some(cross) = cross {
            filter::add_cross_headers(&cross, cx);
        }
        edits.iter().for_each(|edit| edit_answer(edit, self.terms.statuses, cx));
        if let Some(keep) = keep {
            keep.watch(cx);
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
