//! Serialisation of a document without white space and without shadowed members, and with added
//! members. Nothing is copied until the output first differs from the input.

use std::collections::HashMap;

use serde_json::Value;

use super::outline::Document;
use super::piece::{Inside, Kind, Piece};

/// Members to add to objects, keyed by the offset at which the object begins. An empty list that
/// receives members becomes an object.
pub type Additions = HashMap<usize, Vec<(Box<str>, Value)>>;

/// Writes the document; returns `None` if the output equals the input.
pub fn write_compact(document: &Document<'_>, additions: &Additions) -> Option<Vec<u8>> {
    let mut writer =
        Writer { document, out: Output { read: document.text.as_bytes(), same: 0, text: None } };
    let mut open = Vec::new();
    let root = document.root();
    let end = document.value_end(root.begin(), &mut 0);
    open.extend(writer.value(root, end, additions));
    while let Some(frame) = open.last_mut() {
        match writer.next_part(frame) {
            Some((part, end)) => open.extend(writer.value(part, end, additions)),
            None => {
                writer.add(frame, additions);
                writer.out.push(frame.close);
                open.pop();
            }
        }
    }
    writer.out.finish()
}

/// A list or object that is being written.
struct Frame<'d> {
    begin: usize,
    inside: Inside<'d>,
    kind: Kind,
    close: &'static [u8],
    is_first: bool,
}

struct Writer<'d> {
    document: &'d Document<'d>,
    out: Output<'d>,
}

impl<'d> Writer<'d> {
    /// Writes a scalar, or begins a list or object.
    fn value(&mut self, piece: Piece<'d>, end: usize, additions: &Additions) -> Option<Frame<'d>> {
        let begin = piece.begin();
        let kind = piece.kind();
        let (open, close): (&[u8], &'static [u8]) = match kind {
            // Members are only ever added to empty lists.
            Kind::List if additions.contains_key(&begin) => (b"{", b"}"),
            Kind::List => (b"[", b"]"),
            Kind::Object => (b"{", b"}"),
            _ => {
                self.out.push(&self.document.text.as_bytes()[begin..end]);
                return None;
            }
        };
        self.out.push(open);
        Some(Frame { begin, inside: Inside::new(piece, kind), kind, close, is_first: true })
    }

    /// Returns the next item, or the value of the next member after writing its name, together with
    /// its end.
    fn next_part(&mut self, frame: &mut Frame<'d>) -> Option<(Piece<'d>, usize)> {
        if frame.kind == Kind::List {
            let item = frame.inside.next()?;
            self.comma(frame);
            return Some((item, frame.inside.at));
        }
        loop {
            let name = frame.inside.next()?;
            let name_end = frame.inside.at;
            let value = frame.inside.value_of_member()?;
            if self.document.is_replaced(name.begin()) {
                continue;
            }
            self.comma(frame);
            self.out.push(&self.document.text.as_bytes()[name.begin()..name_end]);
            self.out.push(b":");
            return Some((value, frame.inside.at));
        }
    }

    /// Writes the members added to an object.
    fn add(&mut self, frame: &mut Frame<'d>, additions: &Additions) {
        for (name, value) in additions.get(&frame.begin).into_iter().flatten() {
            self.comma(frame);
            // Conversion to a `Value` quotes and escapes the name.
            self.out.push(Value::from(&**name).to_string().as_bytes());
            self.out.push(b":");
            self.out.push(value.to_string().as_bytes());
        }
    }

    fn comma(&mut self, frame: &mut Frame<'d>) {
        if !std::mem::take(&mut frame.is_first) {
            self.out.push(b",");
        }
    }
}

/// The output; stays a byte count (`same`) until it first differs from the input (copy on write).
struct Output<'d> {
    read: &'d [u8],
    same: usize,
    text: Option<Vec<u8>>,
}

impl Output<'_> {
    #[inline]
    fn push(&mut self, piece: &[u8]) {
        match &mut self.text {
            Some(text) => text.extend_from_slice(piece),
            None if self.read[self.same..].starts_with(piece) => self.same += piece.len(),
            None => self.copied().extend_from_slice(piece),
        }
    }

    /// Returns the output as bytes; copies the part that equals the input on first use.
    fn copied(&mut self) -> &mut Vec<u8> {
        let (read, same) = (self.read, self.same);
        self.text.get_or_insert_with(|| {
            let mut text = Vec::with_capacity(read.len());
            text.extend_from_slice(&read[..same]);
            text
        })
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        if self.same < self.read.len() {
            self.copied();
        }
        self.text
    }
}
