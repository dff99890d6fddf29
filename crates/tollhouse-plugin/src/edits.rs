//! Changes of plugins to a message: an overlay over its unchanged head.
//!
//! The buffers are flat and reused between requests, so that setting a header costs only a copy of
//! its bytes.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollhouse_stdx::control_bytes::control_position;
use tollhouse_stdx::header_name::is_same_folded;
use tollhouse_stdx::word_bytes::word_bytes;

use crate::answer::Answer;
use crate::codings::Codings;
use crate::identity::Identities;

/// Maximum length in bytes of a value that is checked byte by byte; a longer value is first
/// searched for control bytes as a whole, and copied at once if it has none.
const SHORT_BYTES_MAX: usize = 10;

/// Number of bytes of a header line besides name and value.
const LINE_EXTRA_BYTES: usize = ": ".len() + "\r\n".len();

/// Changes to the headers of a message. The resulting lines are always well-formed: bytes that are
/// invalid in a name or value are percent-encoded, as in APISIX, so that they cannot end a line or
/// start another.
#[derive(Debug, Default)]
pub struct HeaderEdits {
    /// Added lines in wire form, including those that were removed again.
    bytes: Vec<u8>,
    lines: Vec<Line>,
    /// Bit set of the lengths of added names. Most searched names have another length, so the
    /// search can be skipped.
    lengths: u64,
    /// Names whose lines in the message itself are hidden.
    hidden: Vec<Box<str>>,
    /// Whether `bytes` contains lines that were removed or replaced since.
    has_gaps: bool,
    hiding: Hiding,
}

/// Rule for the names whose lines in the message a hidden name hides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Hiding {
    /// Lines of exactly this name, ignoring case.
    #[default]
    Exact,
    /// The lines with the hidden name, and lines whose name a node may confuse with it: a client's
    /// `X_User` must not appear beside the `X-User` of a plugin.
    Folded,
}

/// Position of one header line within `HeaderEdits::bytes`.
#[derive(Debug, Clone, Copy)]
struct Line {
    start: u32,
    name_bytes: u32,
    value_bytes: u32,
}

impl HeaderEdits {
    /// Returns an empty set of changes for a request to a node, in which a name also hides names
    /// that nodes may confuse with it, such as `X_User` for `X-User`.
    pub fn for_request() -> Self {
        Self { hiding: Hiding::Folded, ..Self::default() }
    }

    /// Removes all changes; keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.lengths = 0;
        self.hidden.clear();
        self.has_gaps = false;
    }

    /// Whether the set of changes is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.hidden.is_empty()
    }

    /// Whether lines of the message itself are hidden.
    #[inline]
    pub fn hides_any(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Appends a header line; existing lines with this name stay.
    #[inline]
    pub fn add(&mut self, name: &str, value: &[u8]) {
        let line = self.keep(name, value);
        self.push(line);
    }

    /// Appends a header line whose name was encoded in advance; existing lines with this name stay.
    #[inline]
    pub fn add_prepared(&mut self, name: &PreparedName, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.reserve(name.start.len() + value.len() + b"\r\n".len());
        self.bytes.extend_from_slice(&name.start);
        let line = self.keep_value(start, name.start.len() - b": ".len(), value);
        self.push(line);
    }

    #[inline]
    fn push(&mut self, line: Line) {
        self.lengths |= length_bit(line.name_bytes as usize);
        self.lines.push(line);
    }

    /// Sets a header to a single line.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.add(name, value);
    }

    /// Removes all lines of a header.
    pub fn remove(&mut self, name: &str) {
        let (bytes, before) = (&self.bytes, self.lines.len());
        self.lines.retain(|line| !line.is_named(bytes, name.as_bytes()));
        self.has_gaps |= self.lines.len() < before;
        if !self.hides(name.as_bytes()) {
            self.hidden.push(name.into());
        }
    }

    /// Whether the message's own lines of a header are hidden.
    #[inline]
    pub fn hides(&self, name: &[u8]) -> bool {
        let is_meant = |hidden: &[u8]| match self.hiding {
            Hiding::Exact => hidden.eq_ignore_ascii_case(name),
            Hiding::Folded => is_same_folded(hidden, name),
        };
        self.hidden.iter().any(|hidden| is_meant(hidden.as_bytes()))
    }

    /// Returns the first added line of a header.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&[u8]> {
        if self.lengths & length_bit(name.len()) == 0 {
            return None;
        }
        let line = self.lines.iter().find(|line| line.is_named(&self.bytes, name))?;
        Some(line.value(&self.bytes))
    }

    /// Returns the added lines, in order.
    #[inline]
    pub fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (line.name(&self.bytes), line.value(&self.bytes)))
    }

    /// Returns the names whose lines in the message itself are hidden.
    pub fn hidden_names(&self) -> impl Iterator<Item = &[u8]> {
        self.hidden.iter().map(|name| name.as_bytes())
    }

    /// Returns all added lines in wire form, each with its line end. Returns `None` if some of them
    /// were removed; use [`Self::lines`] then.
    #[inline]
    pub fn wire(&self) -> Option<&[u8]> {
        (!self.has_gaps).then_some(&self.bytes)
    }

    fn keep(&mut self, name: &str, value: &[u8]) -> Line {
        // Positions fit into 32 bits, because a head is far smaller than 4 GiB.
        let start = self.bytes.len();
        self.bytes.reserve(name.len() + value.len() + LINE_EXTRA_BYTES);
        append_name(&mut self.bytes, name.as_bytes());
        let name_bytes = self.bytes.len() - start;
        self.bytes.extend_from_slice(b": ");
        self.keep_value(start, name_bytes, value)
    }

    /// Appends the value and the line end to the line that begins at `start` and already has its
    /// name.
    #[inline(always)]
    fn keep_value(&mut self, start: usize, name_bytes: usize, value: &[u8]) -> Line {
        let value_start = self.bytes.len();
        append_value(&mut self.bytes, value);
        let value_bytes = self.bytes.len() - value_start;
        self.bytes.extend_from_slice(b"\r\n");
        Line { start: start as u32, name_bytes: name_bytes as u32, value_bytes: value_bytes as u32 }
    }
}

/// Returns the bit that stands for a length in a bit set; lengths that differ by a multiple of 64
/// share a bit.
#[inline]
pub const fn length_bit(bytes: usize) -> u64 {
    1 << (bytes % u64::BITS as usize)
}

/// Header name that is encoded once and used for many messages.
#[derive(Debug)]
pub struct PreparedName {
    text: Box<str>,
    /// Start of a header line: the encoded name, followed by colon and space.
    start: Box<[u8]>,
    is_own: bool,
}

impl PreparedName {
    /// Encodes a header name once, so that later writes only copy it.
    pub fn new(text: &str) -> Self {
        let mut start = Vec::with_capacity(text.len() + b": ".len());
        append_name(&mut start, text.as_bytes());
        start.extend_from_slice(b": ");
        Self { text: text.into(), start: start.into(), is_own: is_own(text) }
    }

    /// Returns the name as it was given.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the gateway itself writes this header into answers, see [`is_own`].
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }
}

/// Whether the gateway itself writes this header into answers. Such a header is missing in the head
/// that plugins see, but must still be hidden.
pub(crate) fn is_own(name: &str) -> bool {
    let own = ["server", "date", "content-type", "content-length", "x-apisix-upstream-status"];
    own.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Bit set of the parts of a head in which a byte may appear unescaped. A table of these sets is
/// used because names are checked for every added line, and comparisons take five times as long.
type Places = u8;

/// Bit for header names: bytes of a token (RFC 9110 §5.6.2).
const IN_NAME: Places = 1;
/// Bit for field values: all bytes except control bytes other than HTAB.
const IN_VALUE: Places = 2;
/// Bit for the path and query of a request line.
const IN_TARGET: Places = 4;

/// Bytes of a token besides letters and digits.
const NAME_MARKS: &[u8] = b"-_!#$%&'*+.^`|~";

static PLACES: [Places; 256] = {
    let mut places = [0; 256];
    let mut index = 0;
    while index < places.len() {
        let byte = index as u8;
        if byte.is_ascii_alphanumeric() {
            places[index] |= IN_NAME;
        }
        if (byte >= b' ' && byte != 0x7f) || byte == b'\t' {
            places[index] |= IN_VALUE;
        }
        if byte.is_ascii_graphic() && byte != b'#' {
            places[index] |= IN_TARGET;
        }
        index += 1;
    }
    let mut mark = 0;
    while mark < NAME_MARKS.len() {
        places[NAME_MARKS[mark] as usize] |= IN_NAME;
        mark += 1;
    }
    places
};

#[inline]
fn append_name(out: &mut Vec<u8>, name: &[u8]) {
    if word_bytes(name) == name.len() {
        out.extend_from_slice(name);
    } else {
        append_encoded(out, name, IN_NAME);
    }
}

#[inline]
fn append_value(out: &mut Vec<u8>, value: &[u8]) {
    // For short values such as numbers, which plugins write most often, the table is cheaper.
    if value.len() > SHORT_BYTES_MAX && control_position(value).is_none() {
        out.extend_from_slice(value);
    } else {
        append_encoded(out, value, IN_VALUE);
    }
}

/// Appends `text`; bytes that are invalid in this place become `%XX`.
#[inline]
fn append_encoded(out: &mut Vec<u8>, text: &[u8], place: Places) {
    // All bytes are examined without a branch for each, because almost no text needs escapes.
    let common = text.iter().fold(place, |common, &byte| common & PLACES[usize::from(byte)]);
    if common != 0 {
        out.extend_from_slice(text);
    } else {
        text.iter().for_each(|&byte| append_byte(out, byte, place));
    }
}

#[cold]
fn append_byte(out: &mut Vec<u8>, byte: u8, place: Places) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if PLACES[usize::from(byte)] & place != 0 {
        out.push(byte);
    } else {
        out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

impl Line {
    #[inline]
    fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start as usize..][..self.name_bytes as usize]
    }

    #[inline]
    fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = self.start as usize + self.name_bytes as usize + b": ".len();
        &bytes[start..][..self.value_bytes as usize]
    }

    #[inline]
    fn is_named(&self, bytes: &[u8], name: &[u8]) -> bool {
        // Compares the last byte first: names of equal length often begin alike.
        let ends_alike =
            |own: &[u8]| own.last().zip(name.last()).is_none_or(|(a, b)| (a ^ b) & !0x20 == 0);
        self.name_bytes as usize == name.len() && {
            let own = self.name(bytes);
            ends_alike(own) && own.eq_ignore_ascii_case(name)
        }
    }
}

/// Target of a request that a plugin has set: in normalised form, and as nodes receive it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenTarget {
    /// Normalised path.
    pub path: Vec<u8>,
    /// Path with its escapes, as in a request line.
    pub escaped_path: Vec<u8>,
    /// Query string without `?`.
    pub query: Option<Vec<u8>>,
}

impl RewrittenTarget {
    /// Returns normalised path and query, on which decisions are based.
    pub fn request_uri(&self) -> Vec<u8> {
        tollhouse_router::request_uri(&self.path, self.query.as_deref())
    }
}

/// Statuses of nodes after which a request is sent to another node, and the methods for which this
/// holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetriedStatuses {
    /// Statuses in ascending order.
    pub statuses: Box<[u16]>,
    /// Methods of requests that may be repeated.
    pub methods: Box<[Box<[u8]>]>,
}

impl RetriedStatuses {
    /// Whether a request with this method is repeated after an answer with this status.
    pub fn apply_to(&self, method: &[u8], status: u16) -> bool {
        self.statuses.binary_search(&status).is_ok()
            && self.methods.iter().any(|other| **other == *method)
    }
}

/// Changes to a request before it is sent to a node.
#[derive(Debug)]
pub struct RequestEdits {
    /// Changes to the request headers that nodes receive.
    pub headers: HeaderEdits,
    /// Path and query for the node; `None` for those of the client.
    upstream_uri: Option<Vec<u8>>,
    /// Value of `Host` for the node; `None` for that of the client or upstream.
    pub host: Option<Vec<u8>>,
    /// Method sent to nodes, if it differs from the client's.
    pub method: Option<&'static str>,
    /// Client's address and port that a plugin has set; the port is optional.
    pub remote: Option<(IpAddr, Option<u16>)>,
    /// Body for the node, in place of the client's body, which was read to its end.
    pub body: Option<Vec<u8>>,
    /// Maximum length in bytes of the body that the client may send.
    pub body_bytes_max: Option<u64>,
    /// Maximum time until the end of the answer; the exchange is aborted after that.
    pub time_max: Option<Duration>,
    /// Index of the chosen upstream in the list of the plugin that chose it.
    pub upstream: Option<usize>,
    /// Statuses of nodes after which the request is sent to another node.
    pub retried_statuses: Option<Arc<RetriedStatuses>>,
    /// Name of the limit that refused the request, for metrics.
    pub refused_by: Option<&'static str>,
    /// Variables that plugins have set, for later plugins and for logs.
    pub variables: Vec<(Cow<'static, str>, Vec<u8>)>,
    /// Target that a plugin has set, which later plugins judge instead of the client's.
    pub rewritten: Option<Box<RewrittenTarget>>,
    /// Content codings of the answer's body that plugins can read; `None` if no plugin must read
    /// the body.
    pub answer_codings: Option<Codings>,
    /// Identities under which the request was admitted.
    pub identities: Identities,
    /// Answer that is sent after the request phases, unless a plugin has answered. The plugins
    /// after the one that has set it run, as after a body that nginx has begun to send.
    pub answer: Option<Box<Answer<'static>>>,
}

impl Default for RequestEdits {
    fn default() -> Self {
        Self {
            headers: HeaderEdits::for_request(),
            upstream_uri: None,
            host: None,
            method: None,
            remote: None,
            body: None,
            body_bytes_max: None,
            time_max: None,
            upstream: None,
            retried_statuses: None,
            refused_by: None,
            variables: Vec::new(),
            rewritten: None,
            answer_codings: None,
            identities: Identities::default(),
            answer: None,
        }
    }
}

impl RequestEdits {
    /// Removes all changes; keeps the allocated memory of headers.
    pub fn clear(&mut self) {
        // Destructured, so that the compiler reports a new field that is not cleared here.
        let Self {
            headers,
            upstream_uri,
            host,
            method,
            remote,
            body,
            body_bytes_max,
            time_max,
            upstream,
            retried_statuses,
            refused_by,
            variables,
            rewritten,
            answer_codings,
            identities,
            answer,
        } = self;
        headers.clear();
        *upstream_uri = None;
        *host = None;
        *method = None;
        *remote = None;
        *body = None;
        *body_bytes_max = None;
        *time_max = None;
        *upstream = None;
        *retried_statuses = None;
        *refused_by = None;
        variables.clear();
        *rewritten = None;
        *answer_codings = None;
        identities.clear();
        *answer = None;
    }

    /// Returns path and query for the node, if they differ from the client's.
    #[inline]
    pub fn upstream_uri(&self) -> Option<&[u8]> {
        self.upstream_uri.as_deref()
    }

    /// Sets path and query for the node. Bytes that are invalid in a request line are
    /// percent-encoded.
    pub fn set_upstream_uri(&mut self, uri: &[u8]) {
        let mut encoded = Vec::with_capacity(uri.len());
        append_encoded(&mut encoded, uri, IN_TARGET);
        self.upstream_uri = Some(encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_lines(edits: &HeaderEdits) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        edits.lines().map(|(name, value)| format!("{}={};", text(name), text(value))).collect()
    }

    #[test]
    fn lines_are_added_replaced_and_removed_by_name_whatever_its_case() {
        let mut edits = HeaderEdits::default();
        edits.add("X-A", b"1");
        edits.add("x-a", b"2");
        edits.set("X-B", b"3");
        assert_eq!(list_lines(&edits), "X-A=1;x-a=2;X-B=3;");
        assert!(!edits.hides(b"x-a") && edits.hides(b"x-b"));
        edits.set("X-a", b"4");
        assert_eq!(list_lines(&edits), "X-B=3;X-a=4;");
        edits.remove("x-b");
        assert_eq!(list_lines(&edits), "X-a=4;");
        assert_eq!(edits.find(b"X-A"), Some(&b"4"[..]));
        edits.clear();
        assert!(edits.is_empty());
    }

    #[test]
    fn on_the_way_to_a_node_a_name_hides_all_its_spellings() {
        let mut edits = HeaderEdits::for_request();
        edits.set("X-User-ID", b"1");
        edits.clear();
        edits.set("X-User-ID", b"1");
        for (name, expected) in
            [("x-user-id", true), ("X_User_Id", true), ("X.USER-id", true), ("X-User-IDs", false)]
        {
            assert_eq!(edits.hides(name.as_bytes()), expected, "{name}");
        }
        let mut of_response = HeaderEdits::default();
        of_response.set("X-User-ID", b"1");
        assert!(!of_response.hides(b"X_User_ID"));
    }

    #[test]
    fn neither_name_nor_value_can_begin_a_line_of_its_own() {
        let mut edits = HeaderEdits::default();
        edits.set("X-A", b"1\r\nX-B:\t2\0\x7f\xc3\xa9");
        edits.add("X C:\r\nX-D", b"3");
        assert_eq!(list_lines(&edits), "X-A=1%0D%0AX-B:\t2%00%7F\u{e9};X%20C%3A%0D%0AX-D=3;");
        let wire = edits.wire().expect("nothing was taken back");
        assert_eq!(wire.iter().filter(|&&byte| byte == b'\n').count(), 2);
    }

    #[test]
    fn a_prepared_name_makes_the_same_line() {
        for name in ["X-A", "X B:\r\nX-C", "server"] {
            let [mut as_text, mut prepared] = [HeaderEdits::default(), HeaderEdits::default()];
            let ready = PreparedName::new(name);
            for value in [&b"1"[..], b"", b"2\r\nX-D: 3"] {
                as_text.add(name, value);
                prepared.add_prepared(&ready, value);
            }
            assert_eq!(list_lines(&prepared), list_lines(&as_text));
            assert_eq!(prepared.wire(), as_text.wire());
            assert_eq!((ready.as_str(), ready.is_own()), (name, name == "server"));
        }
    }

    #[test]
    fn a_uri_for_the_node_stays_within_the_request_line() {
        let mut edits = RequestEdits::default();
        edits.set_upstream_uri(b"/a%2Fb?c=d e\r\n\t#f\xc3\xa9\"<{");
        assert_eq!(edits.upstream_uri(), Some(&b"/a%2Fb?c=d%20e%0D%0A%09%23f%C3%A9\"<{"[..]));
    }
}
