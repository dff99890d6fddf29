//! What a plugin sees of a request, and may change about it, before a node is asked.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tollhouse_model::variable::{Lookup, cookie_value, query_argument};

use crate::codings::Codings;
use crate::consumer::{Consumer, ConsumerIndex, Credential};
use crate::edits::{PreparedName, RequestEdits};
use crate::exchange::{BodyError, Exchange, MatchedObject, Moment, each_header};
use crate::memory::Memory;

/// What nodes are told about who asks, under the names that APISIX gives them.
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

/// A request in its rewrite, access or before_proxy phase.
pub struct RequestContext<'r> {
    exchange: &'r mut (dyn Exchange + 'r),
    consumers: &'r (dyn ConsumerIndex + 'r),
    memory: &'r mut Memory,
    consumer: Option<&'r Arc<Consumer>>,
    instance: usize,
}

impl<'r> RequestContext<'r> {
    /// For the request behind `exchange`.
    pub fn new(
        exchange: &'r mut (dyn Exchange + 'r),
        consumers: &'r (dyn ConsumerIndex + 'r),
        memory: &'r mut Memory,
    ) -> Self {
        Self { exchange, consumers, memory, consumer: None, instance: 0 }
    }

    /// Names the instance that runs next, for what it remembers.
    #[inline]
    pub fn enter(&mut self, instance: usize) {
        self.instance = instance;
    }

    /// The request itself.
    pub fn exchange(&self) -> &dyn Exchange {
        &*self.exchange
    }

    /// The method as sent.
    pub fn method(&self) -> &[u8] {
        self.exchange.method()
    }

    /// The normalised path.
    pub fn path(&self) -> &[u8] {
        self.exchange.path()
    }

    /// The normalised path as it can travel in a request line: reserved characters are escaped where
    /// the client has escaped them.
    pub fn escaped_path(&self) -> Cow<'_, [u8]> {
        self.exchange.escaped_path()
    }

    /// The query string without `?`.
    pub fn query(&self) -> Option<&[u8]> {
        self.exchange.query()
    }

    /// Normalised path and query: what to decide by. A `?`, `#` or `%` that is part of the path, and
    /// control bytes, stay escaped.
    pub fn request_uri(&self) -> Cow<'_, [u8]> {
        self.exchange.request_uri()
    }

    /// Path and query as sent.
    pub fn real_request_uri(&self) -> Cow<'_, [u8]> {
        self.exchange.real_request_uri()
    }

    /// Path and query for the node as they are now, after the plugins that have run.
    pub fn node_uri(&self) -> Cow<'_, [u8]> {
        match self.exchange.edits().upstream_uri() {
            Some(uri) => Cow::Borrowed(uri),
            None => self.exchange.real_request_uri(),
        }
    }

    /// All header lines of that name, with what plugins have changed, as one line would have them: a second line is
    /// judged, too. [`Self::headers_named`] gives them one by one.
    pub fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.exchange.header(name.as_bytes())
    }

    /// Every header line of that name, in order.
    pub fn headers_named(&self, name: &str) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        self.each_header(&mut |other, value| {
            if other.eq_ignore_ascii_case(name.as_bytes()) {
                values.push(value.to_vec());
            }
        });
        values
    }

    /// Calls `visit` with every header line, with what plugins have changed.
    pub fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        each_header(&*self.exchange, visit);
    }

    /// Calls `visit` with every header line as a node would get it now; of `Host` and framing, what
    /// is visited does not count.
    pub fn each_node_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.exchange.each_node_header(visit);
    }

    /// The first value of a query argument, decoded; the name's case counts.
    pub fn argument(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        query_argument(self.query()?, name)
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<Vec<u8>> {
        let mut found = None;
        self.each_header(&mut |other, value| {
            if found.is_none() && other.eq_ignore_ascii_case(b"cookie") {
                found = cookie_value(value, name).map(<[u8]>::to_vec);
            }
        });
        found
    }

    /// The client's address after real-ip processing.
    pub fn remote_address(&self) -> IpAddr {
        match self.exchange.edits().remote {
            Some((address, _)) => address,
            None => self.exchange.remote_address(),
        }
    }

    /// The other end of the connection.
    pub fn peer_address(&self) -> IpAddr {
        self.exchange.peer_address()
    }

    /// Whether the client came over TLS.
    pub fn is_tls(&self) -> bool {
        self.exchange.is_tls()
    }

    /// The request as the source of variables, for templates and expressions.
    pub fn variables(&self) -> &dyn Lookup {
        self.exchange.as_lookup()
    }

    /// The document of an object that the request has reached.
    pub fn matched_object(&self, kind: MatchedObject) -> Option<serde_json::Value> {
        self.exchange.matched_object(kind)
    }

    /// What plugins change about the request.
    pub fn edits(&mut self) -> &mut RequestEdits {
        self.exchange.edits_mut()
    }

    /// Sets a header line for the node, and for plugins that follow. An empty value leaves none, as
    /// APISIX's servers have it.
    pub fn set_header(&mut self, name: &str, value: &[u8]) {
        if value.is_empty() {
            return self.remove_header(name);
        }
        self.exchange.edits_mut().headers.set(name, value);
    }

    /// Removes a header.
    pub fn remove_header(&mut self, name: &str) {
        self.exchange.edits_mut().headers.remove(name);
    }

    /// Has nodes answer in none but these codings: the body of the answer is to be read.
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

    /// Reads the whole body, of at most `bytes_max` bytes; it still reaches the node.
    ///
    /// # Errors
    /// A longer one, or a client that fails to send it.
    pub async fn read_body(&mut self, bytes_max: u64) -> Result<&[u8], BodyError> {
        self.exchange.read_body(bytes_max).await?;
        Ok(self.body())
    }

    /// The body as read before; empty when it has not been read. A plugin's replacement counts.
    pub fn body(&self) -> &[u8] {
        match &self.exchange.edits().body {
            Some(body) => body,
            None => self.exchange.body().unwrap_or_default(),
        }
    }

    /// Lets `look` see the body as [`Self::body`] has it, on another thread where it is long, so that
    /// no other request waits for it.
    ///
    /// # Errors
    /// When there is no memory for the work.
    pub async fn examine_body<T: Send + 'static>(
        &mut self,
        look: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<T, BodyError> {
        let found = self.exchange.examine_body(Box::new(|body| Box::new(look(body)))).await?;
        // What comes back is what `look` has returned.
        found.downcast().map(|found| *found).map_err(|_| BodyError::Broken)
    }

    /// Reads the first bytes of a connection below HTTP until `is_enough` says so of them.
    ///
    /// # Errors
    /// The client goes, takes too long, or has sent more than is held; requests have no such bytes.
    pub async fn read_first_bytes(
        &mut self,
        is_enough: fn(&[u8]) -> bool,
    ) -> Result<&[u8], BodyError> {
        self.exchange.read_first_bytes(is_enough).await?;
        Ok(self.exchange.first_bytes())
    }

    /// Sets a variable of a connection, for whoever asks later.
    pub fn set_variable(&mut self, name: &'static str, value: Vec<u8>) {
        self.exchange.edits_mut().variables.push((name, value));
    }

    /// Whether the request cannot go on, whatever plugins answer: its body found no memory, or its
    /// client is gone.
    pub fn is_refused(&self) -> bool {
        self.exchange.is_refused()
    }

    /// Now.
    pub fn now(&self) -> Moment {
        self.exchange.now()
    }

    /// A random number; not for secrets.
    pub fn random(&self) -> u64 {
        self.exchange.random()
    }

    /// Waits.
    pub async fn sleep(&mut self, time: Duration) {
        self.exchange.sleep(time).await;
    }

    /// Finds who has `key` with the auth plugin `plugin`.
    pub fn find_credential(&self, plugin: &str, key: &[u8]) -> Option<&'r Credential> {
        self.consumers.credential(plugin, key)
    }

    /// Finds a consumer by name, such as the anonymous one.
    pub fn find_consumer(&self, username: &str) -> Option<&'r Arc<Consumer>> {
        self.consumers.consumer(username)
    }

    /// Who asks, once an auth plugin knows.
    pub fn consumer(&self) -> Option<&'r Arc<Consumer>> {
        self.consumer
    }

    /// The request comes from whom `credential` identifies: nodes are told, and that consumer's
    /// plugins join in.
    pub fn authenticate(&mut self, credential: &'r Credential) {
        self.admit(&credential.consumer, credential.credential_id.as_deref());
    }

    /// The request counts as the consumer's, without a credential.
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
        // The client's own copies are for nobody, in any spelling, so there is nothing to hide.
        headers.add_prepared(&names.username, consumer.username.as_bytes());
        if let Some(id) = credential_id {
            headers.add_prepared(&names.credential, id.as_bytes());
        }
        if let Some(id) = &consumer.custom_id {
            headers.add_prepared(&names.custom_id, id.as_bytes());
        }
    }

    /// Leaves `value` for a later phase of this instance; dropped when the request ends.
    pub fn remember<T: 'static>(&mut self, value: T) {
        self.memory.put(self.instance, value);
    }

    /// What this instance left.
    pub fn recall<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(self.instance)
    }
}
