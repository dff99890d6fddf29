//! Syntax check of a JSON text. The check also records where long lists and objects end, and which
//! members are shadowed by a later member with an equal name.

use std::hash::{BuildHasher, RandomState};

use super::piece::Piece;
use super::{DEPTH_MAX, scan};

/// Minimum size in bytes of a list or object whose end is recorded, not counting recorded ones
/// inside it. This bounds an outline to an eighth of its text, and a skip over any value to a few
/// times this size.
const NOTED_BYTES: usize = 64;

/// Maximum number of members of an object whose names are compared pairwise; the names of larger
/// objects are sorted by hash.
const COMPARED_MAX: usize = 8;

/// A text that is not valid JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Offset of the first wrong byte; the length of the text if it ends too early.
    pub at: usize,
}

/// A text that was checked to be JSON.
#[derive(Debug)]
pub struct Document<'t> {
    pub(super) text: &'t str,
    /// Offset of the root value in the text.
    root: u32,
    /// Begin and end of long lists and objects, sorted by begin.
    pub(super) noted: Vec<(u32, u32)>,
    /// Offsets of the names of members that a later member replaces, sorted.
    pub(super) replaced: Vec<u32>,
}

impl<'t> Document<'t> {
    /// Checks a text.
    ///
    /// # Errors
    /// If the text is not valid JSON, is nested deeper than [`DEPTH_MAX`], or has 4 GiB or more.
    pub fn parse(text: &'t [u8]) -> Result<Self, Malformed> {
        let text =
            std::str::from_utf8(text).map_err(|error| Malformed { at: error.valid_up_to() })?;
        if u32::try_from(text.len()).is_err() {
            return Err(Malformed { at: u32::MAX as usize });
        }
        Checker::new(text.as_bytes()).run().map_err(|at| Malformed { at }).map(|checker| {
            let Checker { root, mut noted, mut replaced, .. } = checker;
            noted.sort_unstable();
            replaced.sort_unstable();
            Document { text, root, noted, replaced }
        })
    }

    pub fn root(&self) -> Piece<'_> {
        Piece::new(self, self.root)
    }

    /// Returns the end of the value that begins at `at`. `hint` is an index into `noted`, at most
    /// the number of entries that begin before `at`. It only grows, so that a walk over the text
    /// looks at each entry once.
    pub(super) fn value_end(&self, at: usize, hint: &mut usize) -> usize {
        let text = self.text.as_bytes();
        let mut at = at;
        let mut depth = 0_usize;
        loop {
            match text.get(at) {
                Some(b'{' | b'[') => match self.noted_end(at, hint) {
                    Some(end) => at = end,
                    None => {
                        depth += 1;
                        at += 1;
                    }
                },
                Some(b'}' | b']') => {
                    depth = depth.saturating_sub(1);
                    at += 1;
                }
                Some(b'"') => at = scan::string_end(text, at),
                Some(b',' | b':' | b' ' | b'\n' | b'\r' | b'\t') => at += 1,
                // Always advances by at least one byte, so that invalid text cannot stall the walk.
                Some(_) => at = scan::word_end(text, at).max(at + 1),
                None => return text.len(),
            }
            if depth == 0 {
                return at;
            }
        }
    }

    fn noted_end(&self, at: usize, hint: &mut usize) -> Option<usize> {
        while self.noted.get(*hint).is_some_and(|(begin, _)| (*begin as usize) < at) {
            *hint += 1;
        }
        let (begin, end) = self.noted.get(*hint)?;
        (*begin as usize == at).then_some(*end as usize)
    }

    /// Returns the number of recorded lists and objects that begin before `at`.
    pub(super) fn hint(&self, at: usize) -> usize {
        self.noted.partition_point(|(begin, _)| (*begin as usize) < at)
    }

    /// Whether a later member replaces the member whose name begins at `at`.
    pub(super) fn is_replaced(&self, at: usize) -> bool {
        // Lengths are below 4 GiB.
        !self.replaced.is_empty() && self.replaced.binary_search(&(at as u32)).is_ok()
    }
}

/// A list or object whose end has not been reached.
struct OpenContainer {
    begin: usize,
    is_object: bool,
    /// Number of bytes of this list or object that are in nested ones whose ends are recorded.
    covered: usize,
    /// Length of `Checker::names` when the list or object began.
    names: usize,
}

struct Checker<'t> {
    text: &'t [u8],
    open: Vec<OpenContainer>,
    /// Hash and offset of the names of members in open objects.
    names: Vec<(u32, u32)>,
    hasher: RandomState,
    root: u32,
    noted: Vec<(u32, u32)>,
    replaced: Vec<u32>,
}

impl<'t> Checker<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            open: Vec::new(),
            names: Vec::new(),
            hasher: RandomState::new(),
            root: 0,
            noted: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Checks the text. The error is the offset of the first fault.
    fn run(mut self) -> Result<Self, usize> {
        let mut at = scan::space(self.text, 0);
        self.root = at as u32;
        loop {
            at = self.value(at)?;
            // After a value: closes the lists and objects that end here, until another value
            // follows.
            loop {
                at = scan::space(self.text, at);
                let Some(inner) = self.open.last() else {
                    return if at == self.text.len() { Ok(self) } else { Err(at) };
                };
                match (self.text.get(at), inner.is_object) {
                    (Some(b','), true) => {
                        at = self.name(scan::space(self.text, at + 1))?;
                        break;
                    }
                    (Some(b','), false) => {
                        at = scan::space(self.text, at + 1);
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        at += 1;
                        self.close(at);
                    }
                    _ => return Err(at),
                }
            }
        }
    }

    /// Skips a scalar or an empty list or object; enters any other list or object, up to its first
    /// scalar or empty value.
    fn value(&mut self, mut at: usize) -> Result<usize, usize> {
        loop {
            let is_object = match self.text.get(at) {
                Some(b'{') => true,
                Some(b'[') => false,
                Some(b'"') => return scan::checked_string(self.text, at),
                Some(_) => return scan::checked_word(self.text, at),
                None => return Err(at),
            };
            if self.open.len() == DEPTH_MAX {
                return Err(at);
            }
            let inside = scan::space(self.text, at + 1);
            let close = if is_object { b'}' } else { b']' };
            if self.text.get(inside) == Some(&close) {
                return Ok(inside + 1);
            }
            let names = self.names.len();
            self.open.push(OpenContainer { begin: at, is_object, covered: 0, names });
            at = if is_object { self.name(inside)? } else { inside };
        }
    }

    /// Checks the name of a member and its colon; returns the offset of its value.
    fn name(&mut self, at: usize) -> Result<usize, usize> {
        if self.text.get(at) != Some(&b'"') {
            return Err(at);
        }
        let end = scan::checked_string(self.text, at)?;
        let colon = scan::space(self.text, end);
        if self.text.get(colon) != Some(&b':') {
            return Err(colon);
        }
        let hash = self.hasher.hash_one(&*name_at(self.text, at)) as u32;
        if self.names.len() == self.names.capacity() {
            // Grows by a quarter, because doubling would waste too much memory on an object of a
            // million members.
            self.names.reserve_exact(self.names.len() / 4 + 64);
        }
        self.names.push((hash, at as u32));
        Ok(scan::space(self.text, colon + 1))
    }

    /// Closes the innermost list or object, which ends before `end`.
    fn close(&mut self, end: usize) {
        let Some(inner) = self.open.pop() else { return };
        if inner.is_object {
            self.note_replaced(inner.names);
            self.names.truncate(inner.names);
        }
        let bytes = end - inner.begin;
        let covered = if bytes - inner.covered >= NOTED_BYTES {
            self.noted.push((inner.begin as u32, end as u32));
            bytes
        } else {
            inner.covered
        };
        if let Some(outer) = self.open.last_mut() {
            outer.covered += covered;
        }
    }

    /// Records, of the member names from index `from` on, those that a later member repeats.
    fn note_replaced(&mut self, from: usize) {
        let names = &mut self.names[from..];
        let is_same = |one: &(u32, u32), other: &(u32, u32)| {
            one.0 == other.0
                && name_at(self.text, one.1 as usize) == name_at(self.text, other.1 as usize)
        };
        if names.len() <= COMPARED_MAX {
            for (index, name) in names.iter().enumerate() {
                if names[index + 1..].iter().any(|later| is_same(name, later)) {
                    self.replaced.push(name.1);
                }
            }
            return;
        }
        names.sort_unstable();
        for run in names.chunk_by(|one, other| one.0 == other.0) {
            for (index, name) in run.iter().enumerate() {
                // Hashes rarely collide, so the last name of a run of equal hashes is nearly always
                // equal to this one.
                if run[index + 1..].iter().rev().any(|later| is_same(name, later)) {
                    self.replaced.push(name.1);
                }
            }
        }
    }
}

/// Returns the unescaped name that begins at `at`.
fn name_at(text: &[u8], at: usize) -> std::borrow::Cow<'_, str> {
    let inside = &text[at + 1..scan::string_end(text, at) - 1];
    // The text as a whole is UTF-8, and quotes are ASCII.
    scan::unescaped(std::str::from_utf8(inside).unwrap_or_default())
}
