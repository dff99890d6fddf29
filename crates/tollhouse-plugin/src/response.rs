//! What a plugin sees of an answer, and may change about it, before the client gets its head.

use std::borrow::Cow;

use tollhouse_model::variable::Lookup;

use crate::codings::Codings;
use crate::edits::{HeaderEdits, PreparedName, is_own, length_bit};
use crate::exchange::{Moment, join_line};
use crate::held::HeldBody;
use crate::memory::Memory;

/// The head of an answer as it arrived or was made up.
pub trait ResponseHead {
    /// The first line of that name.
    fn find(&self, name: &[u8]) -> Option<&[u8]>;
    /// Calls `visit` with every header line.
    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    /// One bit for the length of each name, as [`length_bit`] has it: most names that are looked for are as long
    /// as none of them. All bits where it is not known.
    fn name_lengths(&self) -> u64 {
        u64::MAX
    }
}

/// Sees every byte of a body on its way to the client. It may be called on another thread than before.
pub trait BodyFilter: Send {
    /// Takes `input`, the next piece of the body, and appends to `out` what goes on; `is_last` with
    /// the last piece, which may be empty. What is not appended is gone.
    ///
    /// A filter installed as [`Effect::Observes`] appends nothing: the body passes unchanged.
    fn filter(&mut self, input: &[u8], is_last: bool, out: &mut Vec<u8>);

    /// How many bytes [`Self::filter`] will work through for such a piece that it was given with earlier
    /// ones: all of a body that was held until now, a message that is whole at last. Long work is done where
    /// it keeps no other request of the core waiting.
    fn work_bytes(&self, _input_bytes: usize, _is_last: bool) -> usize {
        0
    }

    /// Takes the lines that a node has sent behind the body, each with its line end, and an empty one
    /// behind them; right before the last piece, and only where there are any or could be. What is left
    /// of them goes on to the next filter, and to a client that has asked for trailers.
    fn trailers(&mut self, _section: &mut Vec<u8>) {}

    /// Why the body cannot go on: the client then gets an error in the place of the answer, or where some of that has
    /// been sent, an answer that breaks off; never what the filter could not look at.
    fn failure(&self) -> Option<FilterFailure> {
        None
    }

    /// Whether the filter needs the body also where the client gets none of it, since a plugin has made the status
    /// one without a body.
    fn reads_unsent_body(&self) -> bool {
        false
    }

    /// Whether the filter returns nothing before the body is complete. The head is then held back too, so that a
    /// failure can still be answered.
    fn holds_body(&self) -> bool {
        false
    }
}

/// Why a filter cannot pass a body on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterFailure {
    /// No memory is left to hold it.
    NoMemory,
    /// Body not in the coding that its head names, or longer than the filter accepts.
    Unreadable,
}

/// What a filter does to the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It looks; length and bytes stay.
    Observes,
    /// It rewrites; the length is not known beforehand.
    Rewrites,
}

/// Where an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A node.
    Upstream,
    /// A plugin, or the gateway itself.
    Gateway,
}

/// An answer whose head is about to be sent.
pub struct ResponseContext<'r> {
    request: &'r dyn Lookup,
    head: &'r dyn ResponseHead,
    /// See [`ResponseHead::name_lengths`].
    head_lengths: u64,
    client: &'r dyn crate::exchange::Exchange,
    edits: &'r mut HeaderEdits,
    filters: &'r mut Vec<(Effect, Box<dyn BodyFilter>)>,
    memory: &'r mut Memory,
    facts: ResponseFacts,
    instance: usize,
    /// How many of the filters stay behind all others.
    filters_kept_last: usize,
    is_refused: bool,
}

/// What is known about an answer besides its headers.
#[derive(Debug, Clone, Copy)]
pub struct ResponseFacts {
    /// The status; plugins may change it.
    pub status: u16,
    /// Where it comes from.
    pub source: Source,
    /// Whether a body follows: not for HEAD, 204, 304.
    pub has_body: bool,
    /// The body's length, where the head tells it.
    pub content_length: Option<u64>,
    /// Whether the client speaks HTTP/1.1 or later.
    pub client_is_http11: bool,
}

impl<'r> ResponseContext<'r> {
    /// For an answer to the request behind `client`.
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

    /// Names the instance that runs next, for what it remembers.
    #[inline]
    pub fn enter(&mut self, instance: usize) {
        self.instance = instance;
    }

    /// What is known besides the headers, with what plugins have changed.
    pub fn facts(&self) -> ResponseFacts {
        self.facts
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.facts.status
    }

    /// Changes the status. One that has no body takes it from the client.
    pub fn set_status(&mut self, status: u16) {
        self.facts.status = status;
        self.facts.has_body &= !matches!(status, 204 | 304);
    }

    /// Where the answer comes from.
    pub fn source(&self) -> Source {
        self.facts.source
    }

    /// The first header line of that name, with what plugins have changed.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        if let Some(value) = self.edits.find(name.as_bytes()) {
            return Some(value);
        }
        if self.head_lengths & length_bit(name.len()) == 0 || self.edits.hides(name.as_bytes()) {
            return None;
        }
        self.head.find(name.as_bytes())
    }

    /// The whole value of a list-valued field: all of its lines, joined (RFC 9110 §5.3).
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

    /// Calls `visit` with every header line, with what plugins have changed.
    pub fn each_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.head.each(&mut |name, value| {
            if !self.edits.hides(name) {
                visit(name, value);
            }
        });
        self.edits.lines().for_each(|(name, value)| visit(name, value));
    }

    /// Whether a plugin has put lines of that name into the answer, or has taken them out.
    pub fn is_edited(&self, name: &str) -> bool {
        self.edits.hides(name.as_bytes()) || self.edits.find(name.as_bytes()).is_some()
    }

    /// The only line of that name. An empty value leaves none, as APISIX's servers have it.
    pub fn set_header(&mut self, name: &str, value: &[u8]) {
        if value.is_empty() {
            return self.remove_header(name);
        }
        // Hiding costs a pass over the head, so it is done only where there is something to hide.
        if self.header(name).is_some() || is_own(name) {
            self.edits.set(name, value);
        } else {
            self.edits.add(name, value);
        }
    }

    /// The same as [`Self::set_header`] with a name that is ready to be written.
    pub fn set_prepared(&mut self, name: &PreparedName, value: &[u8]) {
        let is_alone = !name.is_own() && self.header(name.as_str()).is_none();
        if is_alone && !value.is_empty() {
            self.edits.add_prepared(name, value);
        } else {
            self.set_header(name.as_str(), value);
        }
    }

    /// One more line of that name.
    pub fn add_header(&mut self, name: &str, value: &[u8]) {
        self.edits.add(name, value);
    }

    /// No line of that name.
    pub fn remove_header(&mut self, name: &str) {
        if self.header(name).is_some() || is_own(name) {
            self.edits.remove(name);
        }
    }

    /// Looks at the body, or rewrites it; filters run in the order they are installed.
    pub fn filter_body(&mut self, effect: Effect, filter: Box<dyn BodyFilter>) {
        let at = self.filters.len().saturating_sub(self.filters_kept_last);
        self.filters.insert(at, (effect, filter));
    }

    /// Whether the body of this answer can be read in these codings, and has no more than `bytes_max` bytes as far as
    /// its head tells. One that cannot is refused: the client gets an error (`answer_unreadable`) in its place.
    pub fn require_readable(&mut self, codings: Codings, bytes_max: u64) -> bool {
        let is_short = self.facts.content_length.is_none_or(|bytes| bytes <= bytes_max);
        let is_read = self.is_encoded_last()
            || self.header_list("content-encoding").is_none_or(|coding| codings.read(&coding));
        self.is_refused |= self.facts.has_body && !(is_short && is_read);
        !self.is_refused
    }

    /// Whether a plugin has refused the body.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Holds a body until it is whole, within the memory of the process.
    pub fn hold_body(&self) -> HeldBody {
        HeldBody::new(self.client.memory())
    }

    /// Encodes what all other filters have made of the body, also those installed later.
    pub fn encode_body_last(&mut self, filter: Box<dyn BodyFilter>) {
        self.filters.push((Effect::Rewrites, filter));
        self.filters_kept_last += 1;
    }

    /// Whether the body is to be encoded behind all filters: `Content-Encoding` then tells how, and
    /// is not about what filters see.
    pub fn is_encoded_last(&self) -> bool {
        self.filters_kept_last > 0
    }

    /// The request as the source of variables; those of the answer, such as `status`, included.
    pub fn variables(&self) -> ResponseVariables<'_> {
        ResponseVariables { request: self.request, status: self.facts.status, response: self }
    }

    /// The request.
    pub fn request(&self) -> &'r dyn crate::exchange::Exchange {
        self.client
    }

    /// All lines of a header of the request, as [`RequestContext::header`](crate::RequestContext::header) has them.
    pub fn request_header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.client.header(name.as_bytes())
    }

    /// Now.
    pub fn now(&self) -> Moment {
        self.client.now()
    }

    /// Leaves `value` for a later phase of this instance.
    pub fn remember<T: 'static>(&mut self, value: T) {
        self.memory.put(self.instance, value);
    }

    /// What this instance left.
    pub fn recall<T: 'static>(&mut self) -> Option<&mut T> {
        self.memory.get(self.instance)
    }
}

/// Variables once the answer is known: `status`, `sent_http_<name>`, `upstream_http_<name>`, and all
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
