//! What plugins change about a message: an overlay over a head that stays as it was read.
//!
//! Kept in flat buffers that are reused from request to request, so that setting a header costs a
//! copy of its bytes.

use std::net::IpAddr;
use std::time::Duration;

use tollhouse_stdx::control_bytes::control_position;
use tollhouse_stdx::header_name::is_same_folded;
use tollhouse_stdx::word_bytes::word_bytes;

use crate::codings::Codings;
use crate::identity::Identities;

/// What a line has besides name and value.
const LINE_EXTRA_BYTES: usize = ": ".len() + "\r\n".len();

/// Changes to the header lines of a message. Whatever plugins give, the lines are well-formed: bytes
/// that no name or value may have are percent-encoded, as APISIX's servers do, so that none can end a
/// line or begin another.
#[derive(Debug, Default)]
pub struct HeaderEdits {
    /// Header lines as they are sent, those that have been taken back among them.
    bytes: Vec<u8>,
    lines: Vec<Line>,
    /// One bit for the length of each name among the lines: most names that are looked for are as long as
    /// none of them.
    lengths: u64,
    /// Names whose lines in the message itself do not count any more.
    hidden: Vec<Box<str>>,
    /// Whether `bytes` holds more than `lines`.
    has_gaps: bool,
    hiding: Hiding,
}

/// Which lines of the message itself a name hides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Hiding {
    /// Those of that name.
    #[default]
    Exact,
    /// Also those that a node may take for them: a client's `X_User` must not stand beside the
    /// `X-User` of a plugin.
    Folded,
}

/// A header line in `bytes`.
#[derive(Debug, Clone, Copy)]
struct Line {
    start: u32,
    name_bytes: u32,
    value_bytes: u32,
}

impl HeaderEdits {
    /// For a request on its way to a node: a name hides all spellings of it.
    pub fn for_request() -> Self {
        Self { hiding: Hiding::Folded, ..Self::default() }
    }

    /// Forgets everything, keeps the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lines.clear();
        self.lengths = 0;
        self.hidden.clear();
        self.has_gaps = false;
    }

    /// Whether nothing changes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.hidden.is_empty()
    }

    /// Whether lines of the message itself are hidden.
    #[inline]
    pub fn hides_any(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// One more line of that name.
    #[inline]
    pub fn add(&mut self, name: &str, value: &[u8]) {
        let line = self.keep(name, value);
        self.push(line);
    }

    /// The same of a name that is ready to be written.
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

    /// The only line of that name.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.add(name, value);
    }

    /// No line of that name.
    pub fn remove(&mut self, name: &str) {
        let (bytes, before) = (&self.bytes, self.lines.len());
        self.lines.retain(|line| !line.is_named(bytes, name.as_bytes()));
        self.has_gaps |= self.lines.len() < before;
        if !self.hides(name.as_bytes()) {
            self.hidden.push(name.into());
        }
    }

    /// Whether the message's own lines of that name are hidden.
    #[inline]
    pub fn hides(&self, name: &[u8]) -> bool {
        let is_meant = |hidden: &[u8]| match self.hiding {
            Hiding::Exact => hidden.eq_ignore_ascii_case(name),
            Hiding::Folded => is_same_folded(hidden, name),
        };
        self.hidden.iter().any(|hidden| is_meant(hidden.as_bytes()))
    }

    /// The first line of that name among those added.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&[u8]> {
        if self.lengths & length_bit(name.len()) == 0 {
            return None;
        }
        let line = self.lines.iter().find(|line| line.is_named(&self.bytes, name))?;
        Some(line.value(&self.bytes))
    }

    /// The lines added, in order.
    #[inline]
    pub fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (line.name(&self.bytes), line.value(&self.bytes)))
    }

    /// The names whose lines in the message itself do not count.
    pub fn hidden_names(&self) -> impl Iterator<Item = &[u8]> {
        self.hidden.iter().map(|name| name.as_bytes())
    }

    /// All lines added as they are sent, each with its line end; `None` where some have been taken
    /// back, and [`Self::lines`] tells which are left.
    #[inline]
    pub fn wire(&self) -> Option<&[u8]> {
        (!self.has_gaps).then_some(&self.bytes)
    }

    fn keep(&mut self, name: &str, value: &[u8]) -> Line {
        // Bounded by what a head may hold, far below 4 GiB.
        let start = self.bytes.len();
        self.bytes.reserve(name.len() + value.len() + LINE_EXTRA_BYTES);
        append_name(&mut self.bytes, name.as_bytes());
        let name_bytes = self.bytes.len() - start;
        self.bytes.extend_from_slice(b": ");
        self.keep_value(start, name_bytes, value)
    }

    /// Ends the line that begins at `start`, where its name stands.
    #[inline]
    fn keep_value(&mut self, start: usize, name_bytes: usize, value: &[u8]) -> Line {
        let value_start = self.bytes.len();
        append_value(&mut self.bytes, value);
        let value_bytes = self.bytes.len() - value_start;
        self.bytes.extend_from_slice(b"\r\n");
        Line { start: start as u32, name_bytes: name_bytes as u32, value_bytes: value_bytes as u32 }
    }
}

/// The bit of a length; lengths that are 64 apart share one.
#[inline]
pub const fn length_bit(bytes: usize) -> u64 {
    1 << (bytes % u64::BITS as usize)
}

/// A name under which lines are added to message after message: encoded once.
#[derive(Debug)]
pub struct PreparedName {
    text: Box<str>,
    /// What a line of that name begins with, up to its value.
    start: Box<[u8]>,
    is_own: bool,
}

impl PreparedName {
    /// The name, ready to be written.
    pub fn new(text: &str) -> Self {
        let mut start = Vec::with_capacity(text.len() + b": ".len());
        append_name(&mut start, text.as_bytes());
        start.extend_from_slice(b": ");
        Self { text: text.into(), start: start.into(), is_own: is_own(text) }
    }

    /// As it was given.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether lines of that name may be the gateway's own.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }
}

/// Whether the gateway writes lines of that name into answers itself: no head that it has read holds them.
pub(crate) fn is_own(name: &str) -> bool {
    let own = ["server", "date", "content-type", "content-length", "x-apisix-upstream-status"];
    own.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Where a byte may stand as it is, a bit for each place. One look-up a byte: names are checked for
/// every line that a plugin adds, and comparing costs five times as much.
type Places = u8;

/// In a name: a byte of a token (RFC 9110 §5.6.2).
const IN_NAME: Places = 1;
/// In a field value: no control byte but HTAB.
const IN_VALUE: Places = 2;
/// In path or query of a request line.
const IN_TARGET: Places = 4;

/// What a token may hold besides letters and digits.
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
    if control_position(value).is_none() {
        out.extend_from_slice(value);
    } else {
        append_encoded(out, value, IN_VALUE);
    }
}

/// Appends `text`, the bytes that may not stand there as `%XX`.
#[inline]
fn append_encoded(out: &mut Vec<u8>, text: &[u8], place: Places) {
    // All bytes are looked at, without a branch each: nearly every text is clean.
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
        // Names of one length that stand together often begin alike.
        let ends_alike =
            |own: &[u8]| own.last().zip(name.last()).is_none_or(|(a, b)| (a ^ b) & !0x20 == 0);
        self.name_bytes as usize == name.len() && {
            let own = self.name(bytes);
            ends_alike(own) && own.eq_ignore_ascii_case(name)
        }
    }
}

/// Changes to a request on its way to a node.
#[derive(Debug)]
pub struct RequestEdits {
    /// Header lines.
    pub headers: HeaderEdits,
    /// Path and query to ask the node for, instead of the client's.
    upstream_uri: Option<Vec<u8>>,
    /// `Host` for the node.
    pub host: Option<Vec<u8>>,
    /// The method for the node.
    pub method: Option<&'static str>,
    /// The client's address and port, as a plugin believes them.
    pub remote: Option<(IpAddr, Option<u16>)>,
    /// A body instead of the client's, which has been read to its end.
    pub body: Option<Vec<u8>>,
    /// Most bytes that the client's body may have.
    pub body_bytes_max: Option<u64>,
    /// Most time until the whole answer has come; what is under way then ends.
    pub time_max: Option<Duration>,
    /// The upstream chosen: index into what the plugin that chose it has.
    pub upstream: Option<usize>,
    /// Which limit has refused the request, for counters that know its name.
    pub refused_by: Option<&'static str>,
    /// Variables that plugins have found in a connection's first bytes.
    pub variables: Vec<(&'static str, Vec<u8>)>,
    /// Codings in which plugins can read the answer's body, where one of them has to.
    pub answer_codings: Option<Codings>,
    /// Identities that the request was let in under.
    pub identities: Identities,
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
            refused_by: None,
            variables: Vec::new(),
            answer_codings: None,
            identities: Identities::default(),
        }
    }
}

impl RequestEdits {
    /// Forgets everything, keeps the room of the headers.
    pub fn clear(&mut self) {
        // Taken apart, so that whoever adds a field is asked about it here.
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
            refused_by,
            variables,
            answer_codings,
            identities,
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
        *refused_by = None;
        variables.clear();
        *answer_codings = None;
        identities.clear();
    }

    /// Path and query to ask the node for, instead of the client's.
    #[inline]
    pub fn upstream_uri(&self) -> Option<&[u8]> {
        self.upstream_uri.as_deref()
    }

    /// Asks the node for another path and query. Bytes that cannot stand in a request line are
    /// percent-encoded, whoever put them there.
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
