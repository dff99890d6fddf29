//! What is known of a request on its way through the chain, and what plugins have made of its path.

use std::borrow::Cow;

use tollhouse_plugin::{Exchange, path_of};
use tollhouse_router::{NormalizeOptions, escaped_path};
use tollhouse_shenyu::filters::collapse;
use tollhouse_shenyu::matching::{Engine, RpcType};
use tollhouse_shenyu::model::Metadata;
use tollhouse_shenyu::paths::{ContextPathRule, RewriteRule};

use crate::cached::Keep;
use crate::counts::{Call, Permit};
use crate::fallback::OnFailure;
use crate::filter::CrossHeaders;
use crate::record::Record;
use crate::shape::AnswerEdit;
use crate::view::{View, text};

/// What conditions of the type `post` ask for.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) context_path: String,
    pub(crate) module: String,
    pub(crate) app_key: String,
    pub(crate) rpc_type: RpcType,
}

impl Facts {
    /// Of a request that no plugin has looked at.
    pub(crate) const fn new(rpc_type: RpcType) -> Self {
        Self {
            context_path: String::new(),
            module: String::new(),
            app_key: String::new(),
            rpc_type,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) facts: Facts,
    /// The path that was asked for.
    asked: String,
    /// The path that conditions see.
    seen: String,
    /// Path for nodes without a rewrite, if it is not the one that was asked for; may be empty. ShenYu's `realUrl`.
    real: Option<String>,
    /// Path for nodes that `rewrite` has made.
    rewritten: Option<String>,
    /// Context path that was taken off.
    context_path: String,
    /// Context path that conditions see in its place.
    rewrite_context_path: String,
    /// Path of the method that is called, if it is not the one that was asked for.
    metadata_path: Option<String>,
    /// Without its question mark.
    pub(crate) query: Option<Vec<u8>>,
    /// Whether nodes get another path or query than was sent.
    is_changed: bool,
    /// Whether the request has become a call, which goes to the path of its method.
    pub(crate) is_call: bool,
    /// What is left for later: held while the request is under way, and done to its answer.
    pub(crate) aftermath: Aftermath,
}

/// See [`Turn::aftermath`].
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    pub(crate) permits: Vec<Permit>,
    pub(crate) calls: Vec<Call>,
    pub(crate) answer_edits: Vec<AnswerEdit>,
    /// What is kept once all edits are done.
    pub(crate) keep: Option<Keep>,
    /// Lines that set cookies of who has logged in.
    pub(crate) cookies: Vec<String>,
    /// For the page that the request comes from.
    pub(crate) cross: Option<CrossHeaders>,
    /// What is written of it once it is over, by each logger that takes it down.
    pub(crate) records: Vec<Record>,
    /// The answer in the place of a node's that is missing.
    pub(crate) fallback: Option<OnFailure>,
}

impl Aftermath {
    pub(crate) fn is_empty(&self) -> bool {
        self.permits.is_empty()
            && self.calls.is_empty()
            && self.answer_edits.is_empty()
            && self.keep.is_none()
            && self.cookies.is_empty()
            && self.cross.is_none()
            && self.records.is_empty()
            && self.fallback.is_none()
    }
}

impl Turn {
    pub(crate) fn new(exchange: &dyn Exchange, rpc_type: RpcType) -> Self {
        let (asked, is_changed) = asked_path(exchange);
        let asked = asked.into_owned();
        Self {
            facts: Facts::new(rpc_type),
            seen: asked.clone(),
            asked,
            real: None,
            rewritten: None,
            context_path: String::new(),
            rewrite_context_path: String::new(),
            metadata_path: None,
            query: exchange.query().map(<[u8]>::to_vec),
            is_changed,
            is_call: false,
            aftermath: Aftermath::default(),
        }
    }

    /// The path that was asked for.
    pub(crate) fn asked(&self) -> &str {
        &self.asked
    }

    /// Whether `location` is the path and query of this request, on this gateway.
    pub(crate) fn is_asked(&self, location: &str) -> bool {
        let (path, query) = location.split_once('?').unwrap_or((location, ""));
        path == self.asked && query.as_bytes() == self.query.as_deref().unwrap_or_default()
    }

    /// The path that conditions see.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// The request as conditions see it.
    pub(crate) fn view<'a>(&'a self, exchange: &'a dyn Exchange) -> View<'a> {
        View::new(exchange, &self.seen, self.query.as_deref(), &self.facts)
    }

    /// The path that nodes are asked for.
    pub(crate) fn node_path(&self) -> Cow<'_, str> {
        let path = self.rewritten.as_ref().or(self.real.as_ref()).unwrap_or(&self.asked);
        // A path begins with a slash for nodes, whatever a rule says.
        let path = match path.starts_with('/') {
            true => Cow::Borrowed(path.as_str()),
            false => Cow::Owned(format!("/{path}")),
        };
        // What rules put together may have slashes side by side.
        collapse(&path).map_or(path, Cow::Owned)
    }

    /// Metadata of the method that the request calls.
    pub(crate) fn metadata<'a>(&self, engine: &'a Engine) -> Option<&'a Metadata> {
        engine.metadata(self.metadata_path.as_ref().unwrap_or(&self.asked))
    }

    /// Path and query for the node, where they differ from what was sent.
    pub(crate) fn node_uri(&self) -> Option<Vec<u8>> {
        (self.is_changed && !self.is_call).then(|| {
            let mut uri = self.node_path().as_bytes().to_vec();
            if let Some(query) = self.query.as_ref().filter(|query| !query.is_empty()) {
                uri.push(b'?');
                uri.extend_from_slice(query);
            }
            uri
        })
    }

    /// Gives nodes and conditions another path than the one that was sent.
    pub(crate) fn take_path(&mut self, path: String) {
        self.seen.clone_from(&path);
        self.asked = path;
        self.is_changed = true;
    }

    /// Gives nodes and conditions another query.
    pub(crate) fn set_query(&mut self, query: Vec<u8>) {
        self.query = Some(query);
        self.is_changed = true;
    }

    /// Begins anew inside of the gateway, with another path and the query that it brings.
    pub(crate) fn begin_anew(&mut self, uri: &str) {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(p, q)| (p, Some(q)));
        self.asked = path.to_owned();
        self.seen = path.to_owned();
        self.real = None;
        self.rewritten = None;
        self.context_path.clear();
        self.rewrite_context_path.clear();
        self.metadata_path = None;
        let records = std::mem::take(&mut self.aftermath.records);
        let cookies = std::mem::take(&mut self.aftermath.cookies);
        self.aftermath = Aftermath { records, cookies, ..Aftermath::default() };
        if let Some(query) = query {
            self.query = Some(query.as_bytes().to_vec());
        }
        self.is_changed = true;
    }

    /// Takes the context path off; `false` if the path does not begin with it. `draw` is a number below 100 that
    /// has been drawn for the rule's percentage.
    pub(crate) fn take_off_context(
        &mut self,
        rule: &ContextPathRule,
        draw: u64,
        engine: &Engine,
    ) -> bool {
        let Some(rest) = rule.rest(&self.asked) else { return false };
        self.facts.context_path.clone_from(&rule.context_path);
        self.facts.module.clone_from(&rule.context_path);
        self.context_path.clone_from(&rule.context_path);
        if !rule.rewrite_context_path.is_empty() && draw < rule.percentage.into() {
            self.rewrite_context_path.clone_from(&rule.rewrite_context_path);
            let called = format!("{}{rest}", rule.rewrite_context_path);
            if engine.metadata(&called).is_some() {
                self.metadata_path = Some(called);
            }
        }
        self.real = Some(rule.real_path(&self.asked, rest));
        self.is_changed = true;
        self.refresh_seen();
        true
    }

    /// Rewrites the path; `draw` as above. Nodes get the new path alone. Conditions see it behind a context path
    /// that has been replaced, and not otherwise.
    pub(crate) fn rewrite(&mut self, rule: &RewriteRule, draw: u64, engine: &Engine) {
        if draw >= rule.percentage.into() {
            return;
        }
        let base = match (&*self.rewrite_context_path, &self.real) {
            ("", _) => Cow::Borrowed(&*self.asked),
            (context, real) => {
                Cow::Owned(format!("{context}{}", real.as_ref().unwrap_or(&self.asked)))
            }
        };
        let Some(path) = rule.apply(&base) else { return };
        if rule.rewrites_metadata {
            let context = match &*self.rewrite_context_path {
                "" => &self.context_path,
                replaced => replaced,
            };
            let called = format!("{context}{path}");
            if let Ok(decision) = engine.rpc_type(None, None, &called) {
                self.facts.rpc_type = decision.rpc_type;
                self.metadata_path = decision.metadata.map(|_| called);
            }
        }
        // A blank one leaves nodes the path without it.
        self.rewritten = Some(path).filter(|path| !path.trim().is_empty());
        self.is_changed = true;
        self.refresh_seen();
    }

    fn refresh_seen(&mut self) {
        let real = self.real.as_ref().unwrap_or(&self.asked);
        self.seen = match (&*self.rewrite_context_path, &*self.context_path) {
            ("", "") => self.asked.clone(),
            ("", context) => format!("{context}{real}"),
            (replaced, _) => format!("{replaced}{}", self.rewritten.as_ref().unwrap_or(real)),
        };
    }
}

/// The path that conditions and nodes see, and whether it is another one than was sent: still escaped, in
/// one spelling (RFC 3986 §6.2.2), with what climbs resolved and slashes merged. Otherwise a condition would
/// judge another resource than the node serves.
#[inline]
pub(crate) fn asked_path(exchange: &dyn Exchange) -> (Cow<'_, str>, bool) {
    // Most paths are sent as they are matched, and have nothing in them that could be spelt otherwise.
    if let Some(path) = exchange.path_as_sent() {
        return (text(Cow::Borrowed(path)), false);
    }
    read_path(exchange)
}

fn read_path(exchange: &dyn Exchange) -> (Cow<'_, str>, bool) {
    let sent = path_of(exchange.real_request_uri());
    // Routes see no parameters where the operator says that nodes cut them off.
    let servlet_params = sent.contains(&b';') && !exchange.path().contains(&b';');
    let options =
        NormalizeOptions { servlet_params, encoded_slash: true, delete_tail_slash: false };
    match escaped_path(&sent, &options).map(Cow::into_owned) {
        Ok(path) if path != *sent => (text(Cow::Owned(path)), true),
        _ => (text(sent), false),
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::FakeExchange;

    use super::*;

    #[test]
    fn conditions_and_nodes_see_one_spelling_of_a_path() {
        for (sent, seen) in [
            ("/a/b.c?d=%61//", "/a/b.c"),
            ("/%61/%7e", "/a/~"),
            ("//a///b", "/a/b"),
            ("/a/../b/./c", "/b/c"),
            ("/a/%2e%2E/b", "/b"),
            ("/a%20b%c3%a9", "/a%20b%C3%A9"),
            ("/a%2fb%3b;c", "/a%2Fb%3B;c"),
        ] {
            let exchange = FakeExchange::parse(&format!("GET {sent} HTTP/1.1\n\n"), 0);
            let (path, is_changed) = asked_path(&exchange);
            assert_eq!((&*path, is_changed), (seen, !sent.starts_with(seen)), "{sent}");
        }
        let exchange = FakeExchange::parse("GET /a/b HTTP/1.1\n\n", 0).sent_as("/a;x=1/b;y");
        assert_eq!(asked_path(&exchange), (Cow::Borrowed("/a/b"), true), "a servlet's nodes");
    }
}
