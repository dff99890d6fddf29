//! View of an answer for plugins before the client gets its head, with all changes that they may
//! make.

use std::borrow::Cow;

use tollhouse_model::variable::Lookup;

use crate::codings::Codings;
use crate::edits::{HeaderEdits, PreparedName, is_own, length_bit};
use crate::exchange::{Moment, join_line};
use crate::held::HeldBody;
use crate::memory::Memory;

/// Head of an answer, without the changes of plugins.
pub trait ResponseHead {
    /// Returns the first line of a header.
    fn find(&self, name: &[u8]) -> Option<&[u8]>;
    /// Calls `visit` with every header line.
    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    /// Returns the bit set of the lengths of all names ([`length_bit`]), so that most searches can
    /// be skipped. All bits are set if the lengths are unknown.
    fn name_lengths(&self) -> u64 {
        u64::MAX
    }
}

/// Position of a piece in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A piece that is followed by others.
    Middle,
    /// The body is complete with this piece.
    Last,
}

impl Piece {
    /// Whether no piece follows.
    #[must_use]
    pub fn is_last(self) -> bool {
        self == Self::Last
    }
}

/// Filter that sees every byte of a body. Successive calls may come from different threads.
pub trait BodyFilter: Send {
    /// Processes `input`, the next piece of the body, and appends the output to `out`. The last
    /// piece may be empty. The next filter or the client gets only what is appended to `out`.
    ///
    /// A filter installed as [`Effect::Observes`] appends nothing, and the body passes unchanged.
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>);

    /// Returns the number of bytes that [`Self::filter`] will process for a piece together with
    /// earlier ones: the whole body if it was held until now, or a message that is now complete.
    /// Long work is moved to a thread where it delays no other request.
    fn work_bytes(&self, _input_bytes: usize, _piece: Piece) -> usize {
        0
    }

    /// Whether the filter must run on the thread of its request. Long bodies then stay there too.
    fn is_bound_to_thread(&self) -> bool {
        false
    }

    /// Changes the trailers of a node in `section`: header lines, each with its line end, followed
    /// by an empty line. Called right before the last piece, if trailers exist or may exist. The
    /// lines that are left in `section` go to the next filter, and to a client that has asked for
    /// trailers.
    fn trailers(&mut self, _section: &mut Vec<u8>) {}

    /// Returns the reason if the filter cannot pass the body on. The client then gets an error
    /// instead of the answer. If part of the answer was already sent, the connection is aborted.
    /// The client never gets data that the filter could not check.
    fn failure(&self) -> Option<FilterFailure> {
        None
    }

    /// Whether the filter needs the whole body even if the client receives none, because a plugin
    /// has set a status without a body (204, 304).
    fn reads_unsent_body(&self) -> bool {
        false
    }

    /// Whether the filter appends no output before the body is complete. The head of the answer is
    /// then held back too, so that a failure can still be answered with an error.
    fn holds_body(&self) -> bool {
        false
    }

    /// Returns changes of the head that depend on the body. Asked after the last piece, and only if
    /// a filter holds the body, because the head is sent before otherwise.
    fn late_head_edits(&self) -> Option<HeaderEdits> {
        None
    }
}

/// Why a filter cannot pass a body on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterFailure {
    /// The memory budget has no room for the bytes that the filter must keep.
    NoMemory,
    /// The body is not in the coding that its head names, or is longer than the filter accepts.
    Unreadable,
}

/// Effect of a filter on the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The filter only reads the body, whose bytes and length stay the same.
    Observes,
    /// The filter rewrites the body; its new length is unknown.
    Rewrites,
}

/// Origin of an answer: a node, or the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A node of the upstream answered.
    Upstream,
    /// The gateway answered itself: a plugin, or an error of the gateway.
    Gateway,
}

/// Answer whose head has not been sent yet.
pub struct ResponseContext<'r> {
    request: &'r dyn Lookup,
    head: &'r dyn ResponseHead,
    /// Bit set of the lengths of the header names in the head, as [`ResponseHead::name_lengths`]
    /// returns it.
    head_lengths: u64,
    client: &'r dyn crate::exchange::Exchange,
    edits: &'r mut HeaderEdits,
    filters: &'r mut Vec<(Effect, Box<dyn BodyFilter>)>,
    memory: &'r mut Memory,
    facts: ResponseFacts,
    instance: usize,
    /// Number of filters at the end of the list that run after all others.
    filters_kept_last: usize,
    is_refused: bool,
}

/// Properties of an answer besides its headers.
#[derive(Debug, Clone, Copy)]
pub struct ResponseFacts {
    /// Status that the client receives; plugins may change it.
    pub status: u16,
    /// Origin of the answer: a node, or the gateway.
    pub source: Source,
    /// Whether the client gets a body: false for HEAD, 204 and 304.
    pub has_body: bool,
    /// Length of the body in bytes, if the head contains it.
    pub content_length: Option<u64>,
    /// Whether the client uses HTTP/1.1 or later.
    pub client_is_http11: bool,
}

impl<'r> ResponseContext<'r> {
    /// Returns the context of an answer to the request behind `client`.
    pub fn new(
        client: &'r dyn crate::exchange::Exchange,
        head: &'r dyn ResponseHead,
        edits: &'r mut HeaderEdits,
        filters: &'r mut Vec<(Effect, Box<dyn BodyFilter>)>,
        memory: &'r mut Memory,
        facts: ResponseFacts,
    ) -> Self {
        Self {
            request: client.as_lookup(),
            head_lengths: head.name_lengths(),
            head,
            client,
            edits,
            filters,
            memory,
            facts,
            instance: 0,
            filters_kept_last: 0,
            is_refused: false,
        }
    }

    /// Sets the plugin instance that runs next. Each instance has separate memory for
    /// [`Self::remember`].
    #[inline]
    pub fn enter(&mut self, instance: usize) {
        self.instance = instance;
    }

    /// Returns the answer's properties, with the changes of plugins.
    pub fn facts(&self) -> ResponseFacts {
        self.facts
    }

    /// Returns the status, with the changes of plugins.
    pub fn status(&self) -> u16 {
        self.facts.status
    }

    /// Changes the status. With a status that allows no body (204, 304), the client gets no body.
    pub fn set_status(&mut self, status: u16) {
        self.facts.status = status;
        self.facts.has_body &= !matches!(status, 204 | 304);
    }

    /// Returns the origin of the answer.
    pub fn source(&self) -> Source {
        self.facts.source
    }

    /// Returns the first line of a header, with the changes of plugins.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        if let Some(value) = self.edits.find(name.as_bytes()) {
            return Some(value);
        }
        if self.head_lengths & length_bit(name.len()) == 0 || self.edits.hides(name.as_bytes()) {
            return None;
        }
        self.head.find(name.as_bytes())
    }

    /// Returns all lines of a list-valued header, joined to one (RFC 9110 §5.3).
    pub fn header_list(&self, name: &str) -> Option<Vec<u8>> {
        let mut joined: Option<Vec<u8>> = None;
        self.each_header(&mut |other, value| {
            if other.eq_ignore_ascii_case(name.as_bytes()) {
                match &mut joined {
                    Some(joined) => join_line(joined, name.as_bytes(), value),
                    None => joined = Some(value.to_vec()),
                }
            }
        });
        joined
    }

    /// Calls `visit` with every header line, with the changes of plugins.
    pub fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.head.each(&mut |name, value| {
            if !self.edits.hides(name) {
                visit(name, value);
            }
        });
        self.edits.lines().for_each(|(name, value)| visit(name, value));
    }

    /// Whether a plugin has added or removed lines of this header.
    pub fn is_edited(&self, name: &str) -> bool {
        self.edits.hides(name.as_bytes()) || self.edits.find(name.as_bytes()).is_some()
    }

    /// Sets a header to a single line. An empty value removes the header, as in APISIX.
    pub fn set_header(&mut self, name: &str, value: &[u8]) {
        if value.is_empty() {
            return self.remove_header(name);
        }
        // Hiding lines of the head costs a pass over it, so that it is skipped if the header is
        // absent.
        if self.header(name).is_some() || is_own(name) {
            self.edits.set(name, value);
        } else {
            self.edits.add(name, value);
        }
    }

    /// Sets a header to a single line as [`Self::set_header`] does, with a name that was encoded in
    /// advance.
    pub fn set_prepared(&mut self, name: &PreparedName, value: &[u8]) {
        let is_alone = !name.is_own() && self.header(name.as_str()).is_none();
        if is_alone && !value.is_empty() {
            self.edits.add_prepared(name, value);
        } else {
            self.set_header(name.as_str(), value);
        }
    }

    /// Appends a header line to the answer; existing lines with this name stay.
    pub fn add_header(&mut self, name: &str, value: &[u8]) {
        self.edits.add(name, value);
    }

    /// Removes all lines of a header.
    pub fn remove_header(&mut self, name: &str) {
        if self.header(name).is_some() || is_own(name) {
            self.edits.remove(name);
        }
    }

    /// Installs a body filter. Filters run in the order in which they are installed.
    pub fn filter_body(&mut self, effect: Effect, filter: Box<dyn BodyFilter>) {
        let at = self.filters.len().saturating_sub(self.filters_kept_last);
        self.filters.insert(at, (effect, filter));
    }

    /// Checks that the body is in one of these codings and that its length in the head, if any, is
    /// at most `bytes_max`. Otherwise returns false, and the client receives the error
    /// `answer_unreadable` in place of the answer.
    pub fn require_readable(&mut self, codings: Codings, bytes_max: u64) -> bool {
        let is_short = self.facts.content_length.is_none_or(|bytes| bytes <= bytes_max);
        let is_read = self.is_encoded_last()
            || self.header_list("content-encoding").is_none_or(|coding| codings.read(&coding));
        self.is_refused |= self.facts.has_body && !(is_short && is_read);
        !self.is_refused
    }

    /// Whether a plugin has refused the answer with [`Self::require_readable`].
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns a buffer for the whole body, within the memory budget of the process.
    pub fn hold_body(&self) -> HeldBody {
        HeldBody::new(self.client.memory())
    }

    /// Installs an encoder that runs after all other filters, even those installed later.
    pub fn encode_body_last(&mut self, filter: Box<dyn BodyFilter>) {
        self.filters.push((Effect::Rewrites, filter));
        self.filters_kept_last += 1;
    }

    /// Whether an encoder runs after all filters. `Content-Encoding` then describes the output of
    /// the encoder, not the body that filters see.
    pub fn is_encoded_last(&self) -> bool {
        self.filters_kept_last > 0
    }

    /// Returns the variables of the request and of the answer, such as `status`.
    pub fn variables(&self) -> ResponseVariables<'_> {
        ResponseVariables { request: self.request, status: self.facts.status, response: self }
    }

    /// Returns the exchange with the request as the client sent it.
    pub fn request(&self) -> &'r dyn crate::exchange::Exchange {
        self.client
    }

    /// Returns all lines of a request header, like
    /// [`RequestContext::header`](crate::RequestContext::header).
    pub fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.client.header(name.as_bytes())
    }

    /// Returns the time of the monotonic and of the wall clock.
    pub fn now(&self) -> Moment {
        self.client.now()
    }

    /// Stores `value` for a later phase of this plugin instance. The value is dropped at the end of
    /// the request.
    pub fn remember<T: 'static>(&mut self, value: T) {
        self.memory.put(self.instance, value);
    }

    /// Stores `value` for all plugin instances of this request. The value is dropped at its end.
    pub fn share<T: 'static>(&mut self, value: T) {
        self.memory.put(Memory::SHARED, value);
    }

    /// Returns the value of type `T` that a plugin instance shared in an earlier phase.
    pub fn shared<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(Memory::SHARED)
    }

    /// Returns the value of type `T` that this plugin instance stored.
    pub fn recall<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(self.instance)
    }
}

/// Variables of request and answer: `status`, `sent_http_<name>`, `upstream_http_<name>`, and all
/// of the request.
pub struct ResponseVariables<'a> {
    request: &'a dyn Lookup,
    status: u16,
    response: &'a ResponseContext<'a>,
}

impl Lookup for ResponseVariables<'_> {
    fn variable(&self, variable: &tollhouse_model::variable::Variable) -> Option<Cow<'_, [u8]>> {
        if let tollhouse_model::variable::Variable::Named(name) = variable {
            if name == "status" {
                return Some(Cow::Owned(self.status.to_string().into_bytes()));
            }
            let header = name.strip_prefix("sent_http_").or(name.strip_prefix("upstream_http_"));
            if let Some(header) = header {
                return self.response.header(&header.replace('_', "-")).map(Cow::Borrowed);
            }
        }
        self.request.variable(variable)
    }
}
