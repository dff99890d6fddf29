//! View of a request for plugins before a node is asked, with all changes that they may make.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tollhouse_model::variable::{Lookup, cookie_value, query_argument};
use tollhouse_router::{NormalizeOptions, Normalized, escaped_path, is_ambiguous, normalize_path};
use tollhouse_trace::{RequestTrace, TraceStart};

use crate::codings::Codings;
use crate::consumer::{Consumer, ConsumerIndex, Credential};
use crate::edits::{PreparedName, RequestEdits, RewrittenTarget};
use crate::exchange::{BodyError, Exchange, MatchedObject, Moment, each_header};
use crate::memory::Memory;

/// Headers that tell nodes the consumer, with APISIX's names.
static CONSUMER_HEADERS: LazyLock<ConsumerHeaders> = LazyLock::new(|| ConsumerHeaders {
    username: PreparedName::new("X-Consumer-Username"),
    credential: PreparedName::new("X-Credential-Identifier"),
    custom_id: PreparedName::new("X-Consumer-Custom-ID"),
});

struct ConsumerHeaders {
    username: PreparedName,
    credential: PreparedName,
    custom_id: PreparedName,
}

impl ConsumerHeaders {
    fn all(&self) -> [&PreparedName; 3] {
        [&self.username, &self.credential, &self.custom_id]
    }
}

/// Error: a target that a plugin has set is invalid, or servers read it in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadTarget;

/// Request in its rewrite, access or before_proxy phase.
pub struct RequestContext<'r> {
    exchange: &'r mut (dyn Exchange + 'r),
    consumers: &'r (dyn ConsumerIndex + 'r),
    memory: &'r mut Memory,
    consumer: Option<&'r Arc<Consumer>>,
    instance: usize,
}

impl<'r> RequestContext<'r> {
    /// Returns the context of the request behind `exchange`.
    pub fn new(
        exchange: &'r mut (dyn Exchange + 'r),
        consumers: &'r (dyn ConsumerIndex + 'r),
        memory: &'r mut Memory,
    ) -> Self {
        Self { exchange, consumers, memory, consumer: None, instance: 0 }
    }

    /// Sets the plugin instance that runs next. Each instance has separate memory for
    /// [`Self::remember`].
    #[inline]
    pub fn enter(&mut self, instance: usize) {
        self.instance = instance;
    }

    /// Returns the exchange behind this context.
    pub fn exchange(&self) -> &dyn Exchange {
        &*self.exchange
    }

    /// Returns the request method as the client sent it.
    pub fn method(&self) -> &[u8] {
        self.exchange.method()
    }

    /// Returns the normalised path of the request, without the query.
    pub fn path(&self) -> &[u8] {
        match self.rewritten() {
            Some(target) => &target.path,
            None => self.exchange.path(),
        }
    }

    fn rewritten(&self) -> Option<&RewrittenTarget> {
        self.exchange.edits().rewritten.as_deref()
    }

    /// Returns the normalised path for a request line: reserved characters are escaped if the
    /// client has escaped them.
    pub fn escaped_path(&self) -> Cow<'_, [u8]> {
        match self.rewritten() {
            Some(target) => Cow::Borrowed(&target.escaped_path),
            None => self.exchange.escaped_path(),
        }
    }

    /// Returns the query string without `?`.
    pub fn query(&self) -> Option<&[u8]> {
        match self.rewritten() {
            Some(target) => target.query.as_deref(),
            None => self.exchange.query(),
        }
    }

    /// Returns normalised path and query, on which decisions must be based. A `?`, `#` or `%`
    /// within the path and control bytes stay escaped.
    pub fn request_uri(&self) -> Cow<'_, [u8]> {
        match self.rewritten() {
            Some(target) => Cow::Owned(target.request_uri()),
            None => self.exchange.request_uri(),
        }
    }

    /// Sends the request to another path and query. Plugins that run later judge these instead of
    /// the client's, so that a rewritten request cannot pass by a rule. `path` has escapes as in a
    /// request line.
    ///
    /// # Errors
    /// If the path is invalid, or if servers read it in different ways.
    pub fn rewrite_target(&mut self, path: &[u8], query: Option<&[u8]>) -> Result<(), BadTarget> {
        let options = NormalizeOptions::default();
        if is_ambiguous(path, &options) {
            return Err(BadTarget);
        }
        let mut normalized = Vec::new();
        let path_only = match normalize_path(path, &options, &mut normalized) {
            Ok(Normalized::Borrowed) => path.to_vec(),
            Ok(Normalized::InOut) => normalized,
            Err(_) => return Err(BadTarget),
        };
        let escaped_path = escaped_path(path, &options).map_err(|_| BadTarget)?.into_owned();
        let mut uri = escaped_path.clone();
        if let Some(query) = query {
            uri.push(b'?');
            uri.extend_from_slice(query);
        }
        let edits = self.exchange.edits_mut();
        edits.set_upstream_uri(&uri);
        let query = query.map(<[u8]>::to_vec);
        let target = RewrittenTarget { path: path_only, escaped_path, query };
        edits.rewritten = Some(Box::new(target));
        Ok(())
    }

    /// Returns path and query as sent.
    pub fn real_request_uri(&self) -> Cow<'_, [u8]> {
        self.exchange.real_request_uri()
    }

    /// Returns path and query for the node, after the plugins that have run.
    pub fn node_uri(&self) -> Cow<'_, [u8]> {
        match self.exchange.edits().upstream_uri() {
            Some(uri) => Cow::Borrowed(uri),
            None => self.exchange.real_request_uri(),
        }
    }

    /// Returns all lines of a header, joined to one, with the changes of plugins, so that a
    /// decision covers every line. [`Self::headers_named`] returns them one by one.
    pub fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.exchange.header(name.as_bytes())
    }

    /// Returns the values of all lines of a header, in order.
    pub fn headers_named(&self, name: &str) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        self.each_header(&mut |other, value| {
            if other.eq_ignore_ascii_case(name.as_bytes()) {
                values.push(value.to_vec());
            }
        });
        values
    }

    /// Calls `visit` with every header line, with the changes of plugins.
    pub fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        each_header(&*self.exchange, visit);
    }

    /// Calls `visit` with every header line as a node would get it now. `Host` and framing headers
    /// may still change.
    pub fn each_node_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.exchange.each_node_header(visit);
    }

    /// Returns the first value of a query argument, decoded. Names are case-sensitive.
    pub fn argument(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        query_argument(self.query()?, name)
    }

    /// Returns the value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<Vec<u8>> {
        let mut found = None;
        self.each_header(&mut |other, value| {
            if found.is_none() && other.eq_ignore_ascii_case(b"cookie") {
                found = cookie_value(value, name).map(<[u8]>::to_vec);
            }
        });
        found
    }

    /// Returns the client's address after real-ip processing.
    pub fn remote_address(&self) -> IpAddr {
        match self.exchange.edits().remote {
            Some((address, _)) => address,
            None => self.exchange.remote_address(),
        }
    }

    /// Returns the address of the other end of the connection.
    pub fn peer_address(&self) -> IpAddr {
        self.exchange.peer_address()
    }

    /// Whether the client's connection to the gateway uses TLS.
    pub fn is_tls(&self) -> bool {
        self.exchange.is_tls()
    }

    /// Returns the variables of the request, for templates and expressions.
    pub fn variables(&self) -> &dyn Lookup {
        self.exchange.as_lookup()
    }

    /// Returns the document of an object that the request has matched.
    pub fn matched_object(&self, kind: MatchedObject) -> Option<serde_json::Value> {
        self.exchange.matched_object(kind)
    }

    /// Returns the changes to the request.
    pub fn edits(&mut self) -> &mut RequestEdits {
        self.exchange.edits_mut()
    }

    /// Sets a header for the node and for later plugins. An empty value removes the header, as in
    /// APISIX.
    pub fn set_header(&mut self, name: &str, value: &[u8]) {
        if value.is_empty() {
            return self.remove_header(name);
        }
        self.exchange.edits_mut().headers.set(name, value);
    }

    /// Removes all lines of a request header, so that nodes do not receive them.
    pub fn remove_header(&mut self, name: &str) {
        self.exchange.edits_mut().headers.remove(name);
    }

    /// Restricts the codings of the node's answer to these, because a plugin must read the body.
    pub fn read_answer_in(&mut self, codings: Codings) {
        let edits = self.exchange.edits_mut();
        let others = edits.answer_codings.unwrap_or(codings);
        edits.answer_codings = Some(others.intersection(codings));
    }

    /// Sends the request to one of the plugin's own upstreams
    /// ([`Plugin::upstreams`](crate::Plugin::upstreams)).
    pub fn choose_upstream(&mut self, index: usize) {
        self.exchange.edits_mut().upstream = Some(index);
    }

    /// Reads the whole request body, of at most `bytes_max` bytes. The node still gets the body.
    ///
    /// # Errors
    /// If the body is longer, or the client fails to send it.
    pub async fn read_body(&mut self, bytes_max: u64) -> Result<&[u8], BodyError> {
        self.exchange.read_body(bytes_max).await?;
        Ok(self.body())
    }

    /// Returns the request body that was read before, or a plugin's replacement. Empty if the body
    /// has not been read.
    pub fn body(&self) -> &[u8] {
        match &self.exchange.edits().body {
            Some(body) => body,
            None => self.exchange.body().unwrap_or_default(),
        }
    }

    /// Runs `look` on the body ([`Self::body`]). A long body is examined on another thread, so that
    /// other requests do not wait.
    ///
    /// # Errors
    /// If the memory budget is exhausted.
    pub async fn examine_body<T: Send + 'static>(
        &mut self,
        look: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<T, BodyError> {
        let found = self.exchange.examine_body(Box::new(|body| Box::new(look(body)))).await?;
        // The box holds the result of `look`.
        found.downcast().map(|found| *found).map_err(|_| BodyError::Broken)
    }

    /// Reads the first bytes of a connection below HTTP until `is_enough` returns true.
    ///
    /// # Errors
    /// If the client closes the connection, takes too long, or sends more than can be held. HTTP
    /// requests always return an error, because they have no such bytes.
    pub async fn read_first_bytes(
        &mut self,
        is_enough: fn(&[u8]) -> bool,
    ) -> Result<&[u8], BodyError> {
        self.exchange.read_first_bytes(is_enough).await?;
        Ok(self.exchange.first_bytes())
    }

    /// Returns the trace that the request belongs to; `None` without one.
    pub fn trace(&self) -> Option<&RequestTrace> {
        self.exchange.trace()
    }

    /// Begins a trace of the request, in the place of one that was begun before. Nodes receive its
    /// context, and its spans are exported when the request has ended.
    pub fn begin_trace(&mut self, start: TraceStart) {
        self.exchange.begin_trace(start);
    }

    /// Sets a variable for later plugins and for logs.
    pub fn set_variable(&mut self, name: &'static str, value: Vec<u8>) {
        self.exchange.edits_mut().variables.push((Cow::Borrowed(name), value));
    }

    /// Whether the request has failed and plugins cannot change that: the memory for its body is
    /// exhausted, or the client has closed the connection.
    pub fn is_refused(&self) -> bool {
        self.exchange.is_refused()
    }

    /// Returns the time of the monotonic and of the wall clock.
    pub fn now(&self) -> Moment {
        self.exchange.now()
    }

    /// Returns a random number; not suitable for secrets.
    pub fn random(&self) -> u64 {
        self.exchange.random()
    }

    /// Suspends the request for `time` without blocking the thread.
    pub async fn sleep(&mut self, time: Duration) {
        self.exchange.sleep(time).await;
    }

    /// Finds the credential whose look-up field has the value `key` for the auth plugin `plugin`.
    pub fn find_credential(&self, plugin: &str, key: &[u8]) -> Option<&'r Credential> {
        self.consumers.credential(plugin, key)
    }

    /// Finds a consumer by name, such as the anonymous one.
    pub fn find_consumer(&self, username: &str) -> Option<&'r Arc<Consumer>> {
        self.consumers.consumer(username)
    }

    /// Returns the consumer, if an auth plugin has identified it.
    pub fn consumer(&self) -> Option<&'r Arc<Consumer>> {
        self.consumer
    }

    /// Attributes the request to the consumer that owns `credential`. Nodes get headers with the
    /// consumer's names, and the consumer's plugins run too.
    pub fn authenticate(&mut self, credential: &'r Credential) {
        self.admit(&credential.consumer, credential.credential_id.as_deref());
    }

    /// Attributes the request to a consumer without a credential, such as the anonymous one.
    pub fn authenticate_as(&mut self, consumer: &'r Arc<Consumer>) {
        self.admit(consumer, None);
    }

    fn admit(&mut self, consumer: &'r Arc<Consumer>, credential_id: Option<&str>) {
        let known_before = self.consumer.replace(consumer).is_some();
        self.exchange.note_consumer(consumer);
        let headers = &mut self.exchange.edits_mut().headers;
        let names = &*CONSUMER_HEADERS;
        if known_before {
            names.all().iter().for_each(|name| headers.remove(name.as_str()));
        }
        // The client's own headers of these names are never passed on, in any spelling, so nothing
        // has to be hidden.
        headers.add_prepared(&names.username, consumer.username.as_bytes());
        if let Some(id) = credential_id {
            headers.add_prepared(&names.credential, id.as_bytes());
        }
        if let Some(id) = &consumer.custom_id {
            headers.add_prepared(&names.custom_id, id.as_bytes());
        }
    }

    /// Stores `value` for all plugin instances of this request. The value is dropped at its end.
    pub fn share<T: 'static>(&mut self, value: T) {
        self.memory.put(Memory::SHARED, value);
    }

    /// Returns the value of type `T` that a plugin instance shared.
    pub fn shared<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(Memory::SHARED)
    }

    /// Stores `value` for a later phase of this plugin instance. The value is dropped at the end of
    /// the request.
    pub fn remember<T: 'static>(&mut self, value: T) {
        self.memory.put(self.instance, value);
    }

    /// Returns the value of type `T` that this plugin instance stored.
    pub fn recall<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(self.instance)
    }
}
