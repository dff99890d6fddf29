//! Access to one value of a document: its kind, text, number, items and members.

use std::borrow::Cow;

use serde_json::Value;

use super::outline::Document;
use super::scan;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    List,
    Object,
}

/// A value of a document. Cheap to copy; parses on each access.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'d> {
    document: &'d Document<'d>,
    at: u32,
}

impl<'d> Piece<'d> {
    pub(super) fn new(document: &'d Document<'d>, at: u32) -> Self {
        Self { document, at }
    }

    pub fn kind(&self) -> Kind {
        match self.bytes()[self.begin()] {
            b'{' => Kind::Object,
            b'[' => Kind::List,
            b'"' => Kind::Text,
            b't' | b'f' => Kind::Boolean,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Returns the offset at which the value begins; unique in its document.
    pub fn begin(&self) -> usize {
        self.at as usize
    }

    /// Returns the source text of the value.
    pub fn raw(&self) -> &'d str {
        let mut hint = self.document.hint(self.begin());
        &self.document.text[self.begin()..self.document.value_end(self.begin(), &mut hint)]
    }

    /// Returns the unescaped text of a string; `None` for other kinds.
    pub fn text(&self) -> Option<Cow<'d, str>> {
        (self.kind() == Kind::Text).then(|| {
            let end = scan::string_end(self.bytes(), self.begin());
            scan::unescaped(&self.document.text[self.begin() + 1..end - 1])
        })
    }

    /// Returns the value of a number; `None` for other kinds.
    pub fn number(&self) -> Option<f64> {
        (self.kind() == Kind::Number).then(|| {
            let end = scan::word_end(self.bytes(), self.begin());
            scan::number(&self.bytes()[self.begin()..end])
        })
    }

    /// Whether a list has no items, or an object no members.
    pub fn is_empty(&self) -> bool {
        let inside = scan::space(self.bytes(), self.begin() + 1);
        matches!(self.bytes().get(inside), Some(b'}' | b']'))
    }

    /// Returns the items of a list; empty for other kinds.
    pub fn items(&self) -> impl Iterator<Item = Piece<'d>> + use<'d> {
        Inside::new(*self, Kind::List)
    }

    /// Returns the members of an object without shadowed ones; empty for other kinds.
    pub fn members(&self) -> impl Iterator<Item = (Piece<'d>, Piece<'d>)> + use<'d> {
        let document = self.document;
        let mut inside = Inside::new(*self, Kind::Object);
        std::iter::from_fn(move || {
            loop {
                let name = inside.next()?;
                let value = inside.value_of_member()?;
                if !document.is_replaced(name.begin()) {
                    return Some((name, value));
                }
            }
        })
    }

    /// Returns the value of a member. Time is linear in the size of the object.
    pub fn member(&self, name: &str) -> Option<Piece<'d>> {
        let found = self.members().find(|(other, _)| other.is_text(name));
        found.map(|(_, value)| value)
    }

    /// Returns the item at `index`. Time is linear in the size of the list.
    pub fn item(&self, index: usize) -> Option<Piece<'d>> {
        self.items().nth(index)
    }

    /// Whether the value is a string equal to `text`.
    pub fn is_text(&self, text: &str) -> bool {
        self.text().is_some_and(|own| own == text)
    }

    /// Converts the value to a tree, which takes some forty times as much memory; for small values
    /// only.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.raw()).unwrap_or_default()
    }

    fn bytes(&self) -> &'d [u8] {
        self.document.text.as_bytes()
    }
}

/// Iterator over the tokens directly inside a list or object: items, or names and values in turn.
pub(super) struct Inside<'d> {
    document: &'d Document<'d>,
    /// Offset after the last token returned.
    pub(super) at: usize,
    hint: usize,
    ended: bool,
}

impl<'d> Inside<'d> {
    pub(super) fn new(piece: Piece<'d>, kind: Kind) -> Self {
        let at = piece.begin() + 1;
        let hint = piece.document.hint(at);
        Self { document: piece.document, at, hint, ended: piece.kind() != kind }
    }

    /// Returns the value that follows the last name.
    pub(super) fn value_of_member(&mut self) -> Option<Piece<'d>> {
        let colon = scan::space(self.document.text.as_bytes(), self.at);
        self.at = colon + 1;
        self.next()
    }
}

impl<'d> Iterator for Inside<'d> {
    type Item = Piece<'d>;

    fn next(&mut self) -> Option<Piece<'d>> {
        if self.ended {
            return None;
        }
        let text = self.document.text.as_bytes();
        let mut begin = scan::space(text, self.at);
        if text.get(begin) == Some(&b',') {
            begin = scan::space(text, begin + 1);
        }
        if matches!(text.get(begin), Some(b'}' | b']') | None) {
            self.ended = true;
            return None;
        }
        self.at = self.document.value_end(begin, &mut self.hint);
        // Documents are below 4 GiB.
        Some(Piece::new(self.document, begin as u32))
    }
}
