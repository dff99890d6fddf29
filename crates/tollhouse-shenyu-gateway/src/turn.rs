//! State of a request on its way through the chain, and the paths that plugins have set.

use std::borrow::Cow;
use std::sync::Arc;

use tollhouse_plugin::{Exchange, path_of};
use tollhouse_router::{NormalizeOptions, escaped_path};
use tollhouse_shenyu::filters::collapse;
use tollhouse_shenyu::matching::{Engine, RpcType};
use tollhouse_shenyu::model::Metadata;

use crate::counts::{Call, Permit};
use crate::entrance::CrossHeaders;
use crate::plugins::cache::copy::PendingCopy;
use crate::query::{self, Encoding};
use crate::response_edit::ResponseEdit;
use crate::shared::fallback::OnFailure;
use crate::shared::record::Record;
use crate::view::{View, text};

/// Values that conditions of type `post` test.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) context_path: String,
    pub(crate) module: String,
    pub(crate) app_key: String,
    pub(crate) rpc_type: RpcType,
}

impl Facts {
    /// Creates the initial values of a request.
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
    /// Requested path.
    pub(crate) asked: String,
    /// Path that conditions see.
    seen: String,
    /// Path for nodes before `rewrite`, if it differs from the requested one; may be empty.
    /// ShenYu's `realUrl`.
    pub(crate) real: Option<String>,
    /// Path for nodes set by `rewrite`.
    pub(crate) rewritten: Option<String>,
    /// Context path that was removed.
    pub(crate) context_path: String,
    /// Context path that conditions see instead.
    pub(crate) rewrite_context_path: String,
    /// Path under which the called method is registered, if it differs from the requested one.
    pub(crate) metadata_path: Option<String>,
    /// Query as the client sent it, without the question mark. Signatures cover it.
    pub(crate) sent_query: Option<Vec<u8>>,
    /// Query in the form that conditions see and nodes get, if it differs; may be empty.
    written_query: Option<Vec<u8>>,
    /// Encoding of the query that the path demands.
    path_encoding: Encoding,
    /// Whether nodes get another path or query than the client sent.
    pub(crate) is_changed: bool,
    /// Whether the request has become an RPC call, whose path is that of the method.
    pub(crate) is_call: bool,
    /// State for later phases: held during the request, or applied to its response.
    pub(crate) aftermath: Aftermath,
}

/// State that later phases need; see [`Turn::aftermath`].
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    pub(crate) permits: Vec<Permit>,
    pub(crate) calls: Vec<Call>,
    pub(crate) answer_edits: Vec<Arc<dyn ResponseEdit>>,
    /// Response to store in the cache after all changes.
    pub(crate) copy: Option<PendingCopy>,
    /// `Set-Cookie` values for a user who has logged in.
    pub(crate) cookies: Vec<String>,
    /// CORS headers for the requesting page.
    pub(crate) cross: Option<CrossHeaders>,
    /// Records in progress, one for each logging plugin.
    pub(crate) records: Vec<Record>,
    /// Fallback if the node does not answer.
    pub(crate) fallback: Option<OnFailure>,
}

impl Aftermath {
    pub(crate) fn is_empty(&self) -> bool {
        self.permits.is_empty()
            && self.calls.is_empty()
            && self.answer_edits.is_empty()
            && self.copy.is_none()
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
        let path_encoding = Encoding::required_by(&path_of(exchange.real_request_uri()));
        let sent_query = exchange.query().map(<[u8]>::to_vec);
        let written_query = query::rewritten(sent_query.as_deref(), path_encoding);
        Self {
            facts: Facts::new(rpc_type),
            seen: asked.clone(),
            asked,
            real: None,
            rewritten: None,
            context_path: String::new(),
            rewrite_context_path: String::new(),
            metadata_path: None,
            is_changed: is_changed || written_query.is_some(),
            sent_query,
            written_query,
            path_encoding,
            is_call: false,
            aftermath: Aftermath::default(),
        }
    }

    pub(crate) fn asked(&self) -> &str {
        &self.asked
    }

    /// Whether `location` is the path and query of this request.
    pub(crate) fn is_asked(&self, location: &str) -> bool {
        let (path, query) = location.split_once('?').unwrap_or((location, ""));
        path == self.asked && query.as_bytes() == self.sent_query.as_deref().unwrap_or_default()
    }

    /// Returns the query that conditions see and nodes get.
    pub(crate) fn query(&self) -> Option<&[u8]> {
        self.written_query.as_deref().or(self.sent_query.as_deref())
    }

    /// Returns the path that conditions see.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Returns the request as conditions see it.
    pub(crate) fn view<'a>(&'a self, exchange: &'a dyn Exchange) -> View<'a> {
        View::new(exchange, &self.seen, self.query(), &self.facts)
    }

    /// Returns the path that nodes receive.
    pub(crate) fn node_path(&self) -> Cow<'_, str> {
        let path = self.rewritten.as_ref().or(self.real.as_ref()).unwrap_or(&self.asked);
        // Paths for nodes must begin with a slash, even if a rule omits it.
        let path = match path.starts_with('/') {
            true => Cow::Borrowed(path.as_str()),
            false => Cow::Owned(format!("/{path}")),
        };
        // A path that rules assemble may have consecutive slashes.
        collapse(&path).map_or(path, Cow::Owned)
    }

    /// Returns the metadata of the called method.
    pub(crate) fn metadata<'a>(&self, engine: &'a Engine) -> Option<&'a Metadata> {
        engine.metadata(self.metadata_path.as_ref().unwrap_or(&self.asked))
    }

    /// Returns path and query for the node, if they differ from what the client sent.
    pub(crate) fn node_uri(&self) -> Option<Vec<u8>> {
        (self.is_changed && !self.is_call).then(|| {
            let query = self.query().unwrap_or_default();
            let path = self.node_path();
            // ShenYu takes escapes in a rule's path as plain text, unless the request has escapes
            // itself.
            let is_text = path.contains('%') && !self.has_escape();
            let path = if is_text { Cow::Owned(path.replace('%', "%25")) } else { path };
            let mut uri = path.as_bytes().to_vec();
            // A rule's path may contain a query. For a request with escapes, ShenYu then always
            // appends a question mark and the request's query, even if that is empty.
            if !query.is_empty() || (self.has_escape() && uri.contains(&b'?')) {
                uri.push(b'?');
                uri.extend_from_slice(query);
            }
            uri
        })
    }

    /// Whether path or query of the client have an escape.
    fn has_escape(&self) -> bool {
        let query = self.sent_query.as_deref().unwrap_or_default();
        self.path_encoding == Encoding::Anew || query.contains(&b'%')
    }

    /// Replaces the path for nodes and conditions.
    pub(crate) fn take_path(&mut self, path: String) {
        self.seen.clone_from(&path);
        self.asked = path;
        self.is_changed = true;
    }

    /// Replaces the query for nodes and conditions.
    pub(crate) fn set_query(&mut self, query: Vec<u8>) {
        self.written_query = query::rewritten(Some(&query), self.path_encoding);
        self.sent_query = Some(query);
        self.is_changed = true;
    }

    /// Restarts the chain with another path, and with the query in `uri` if it has one.
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
        self.path_encoding = Encoding::required_by(path.as_bytes());
        let query = query.map_or_else(|| self.sent_query.take(), |it| Some(it.as_bytes().to_vec()));
        self.written_query = query::rewritten(query.as_deref(), self.path_encoding);
        self.sent_query = query;
        self.is_changed = true;
    }

    /// Updates the path that conditions see after the other paths have changed.
    pub(crate) fn refresh_seen(&mut self) {
        let real = self.real.as_ref().unwrap_or(&self.asked);
        self.seen = match (&*self.rewrite_context_path, &*self.context_path) {
            ("", "") => self.asked.clone(),
            ("", context) => format!("{context}{real}"),
            (replaced, _) => format!("{replaced}{}", self.rewritten.as_ref().unwrap_or(real)),
        };
    }
}

/// Returns the path for conditions and nodes, and whether it differs from what the client sent. It
/// is still percent-encoded, but normalised (RFC 3986 §6.2.2) and without dot segments or repeated
/// slashes. Otherwise a condition might judge another resource than the node serves.
#[inline]
pub(crate) fn asked_path(exchange: &dyn Exchange) -> (Cow<'_, str>, bool) {
    // Most paths are already normalised.
    if let Some(path) = exchange.path_as_sent() {
        return (text(Cow::Borrowed(path)), false);
    }
    read_path(exchange)
}

fn read_path(exchange: &dyn Exchange) -> (Cow<'_, str>, bool) {
    let sent = path_of(exchange.real_request_uri());
    // The path without parameters is used where the operator has declared that nodes cut them off.
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
