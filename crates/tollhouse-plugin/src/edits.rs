//! What plugins change about a message: an overlay over a head that stays as it was read.
//!
//! Kept in flat buffers that are reused from request to request, so that setting a header costs a
//! copy of its bytes.

use std::net::IpAddr;

use tollhouse_stdx::header_name::is_same_folded;

/// What a line has besides name and value.
const LINE_EXTRA_BYTES: usize = ": ".len() + "\r\n".len();

/// Changes to the header lines of a message.
#[derive(Debug, Default)]
pub struct HeaderEdits {
    /// Header lines as they are sent, those that have been taken back among them.
    bytes: Vec<u8>,
    lines: Vec<Line>,
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
    pub fn add(&mut self, name: &str, value: &[u8]) {
        let line = self.keep(name, value);
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
    pub fn hides(&self, name: &[u8]) -> bool {
        let is_meant = |hidden: &[u8]| match self.hiding {
            Hiding::Exact => hidden.eq_ignore_ascii_case(name),
            Hiding::Folded => is_same_folded(hidden, name),
        };
        self.hidden.iter().any(|hidden| is_meant(hidden.as_bytes()))
    }

    /// The first line of that name among those added.
    pub fn find(&self, name: &[u8]) -> Option<&[u8]> {
        let line = self.lines.iter().find(|line| line.is_named(&self.bytes, name))?;
        Some(line.value(&self.bytes))
    }

    /// The lines added, in order.
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
        let start = self.bytes.len() as u32;
        self.bytes.reserve(name.len() + value.len() + LINE_EXTRA_BYTES);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b": ");
        let value_start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let kept = &mut self.bytes[value_start..];
        // A line end inside of a value would make two lines of one.
        if kept.iter().any(|byte| is_line_breaking(*byte)) {
            let breaking = kept.iter_mut().filter(|byte| is_line_breaking(**byte));
            breaking.for_each(|byte| *byte = b' ');
        }
        self.bytes.extend_from_slice(b"\r\n");
        Line { start, name_bytes: name.len() as u32, value_bytes: value.len() as u32 }
    }
}

#[inline]
fn is_line_breaking(byte: u8) -> bool {
    // One comparison for nearly every byte there is.
    byte <= b'\r' && matches!(byte, b'\r' | b'\n' | 0)
}

impl Line {
    fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.start as usize..][..self.name_bytes as usize]
    }

    fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = self.start as usize + self.name_bytes as usize + b": ".len();
        &bytes[start..][..self.value_bytes as usize]
    }

    fn is_named(&self, bytes: &[u8], name: &[u8]) -> bool {
        self.name_bytes as usize == name.len() && self.name(bytes).eq_ignore_ascii_case(name)
    }
}

/// Changes to a request on its way to a node.
#[derive(Debug)]
pub struct RequestEdits {
    /// Header lines.
    pub headers: HeaderEdits,
    /// Path and query to ask the node for, instead of the client's.
    pub upstream_uri: Option<Vec<u8>>,
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
    /// The upstream chosen: index into what the plugin that chose it has.
    pub upstream: Option<usize>,
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
            upstream: None,
        }
    }
}

impl RequestEdits {
    /// Forgets everything, keeps the room of the headers.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = Self { headers, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(edits: &HeaderEdits) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        edits.lines().map(|(name, value)| format!("{}={};", text(name), text(value))).collect()
    }

    #[test]
    fn lines_are_added_replaced_and_removed_by_name_whatever_its_case() {
        let mut edits = HeaderEdits::default();
        edits.add("X-A", b"1");
        edits.add("x-a", b"2");
        edits.set("X-B", b"3");
        assert_eq!(shown(&edits), "X-A=1;x-a=2;X-B=3;");
        assert!(!edits.hides(b"x-a") && edits.hides(b"x-b"));
        edits.set("X-a", b"4");
        assert_eq!(shown(&edits), "X-B=3;X-a=4;");
        edits.remove("x-b");
        assert_eq!(shown(&edits), "X-a=4;");
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
    fn a_value_cannot_begin_a_line_of_its_own() {
        let mut edits = HeaderEdits::default();
        edits.set("X-A", b"1\r\nX-B: 2\0");
        assert_eq!(shown(&edits), "X-A=1  X-B: 2 ;");
    }
}
