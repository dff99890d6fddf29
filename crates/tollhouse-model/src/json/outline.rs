//! Checks a text, and notes on the way where its long lists and objects end, and which members of
//! objects count for nothing since a later one has the same name.

use std::hash::{BuildHasher, RandomState};

use super::piece::Piece;
use super::{DEPTH_MAX, scan};

/// A list or object is noted where it has at least this many bytes that are not those of a noted
/// one inside of it: so an outline is an eighth of its text at most, and stepping over anything
/// costs a few of these.
const NOTED_BYTES: usize = 64;

/// Members of an object that are compared one by one.
const COMPARED_MAX: usize = 8;

/// What is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// The offset of the first byte that is wrong; the length of a text that ends too early.
    pub at: usize,
}

/// A text that is JSON.
#[derive(Debug)]
pub struct Document<'t> {
    pub(super) text: &'t str,
    /// Where the root begins.
    root: u32,
    /// Begin and end of long lists and objects, by their begin.
    pub(super) noted: Vec<(u32, u32)>,
    /// Where the names of members begin that a later member replaces, sorted.
    pub(super) replaced: Vec<u32>,
}

impl<'t> Document<'t> {
    /// Checks a text.
    ///
    /// # Errors
    /// One that is not JSON, is nested deeper than [`DEPTH_MAX`], or has 4 GiB or more.
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

    /// The whole value.
    pub fn root(&self) -> Piece<'_> {
        Piece::new(self, self.root)
    }

    /// Where the value that begins at `at` ends. `hint` is how many of the noted begin before it,
    /// or fewer; it grows along the way, so that one walk over the text looks at each but once.
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
                // At least one byte on, whatever stands there: a text that is no JSON must not hold the walk.
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

    /// How many of the noted begin before `at`.
    pub(super) fn hint(&self, at: usize) -> usize {
        self.noted.partition_point(|(begin, _)| (*begin as usize) < at)
    }

    /// Whether the member whose name begins at `at` is replaced by a later one.
    pub(super) fn is_replaced(&self, at: usize) -> bool {
        // Lengths are below 4 GiB.
        !self.replaced.is_empty() && self.replaced.binary_search(&(at as u32)).is_ok()
    }
}

/// A list or object that has begun and not ended.
struct Open {
    begin: usize,
    is_object: bool,
    /// Bytes of noted ones inside.
    covered: usize,
    /// How many names there were when it began.
    names: usize,
}

struct Checker<'t> {
    text: &'t [u8],
    open: Vec<Open>,
    /// Hash and place of the names in objects that are open.
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

    /// The error is the place of the first fault.
    fn run(mut self) -> Result<Self, usize> {
        let mut at = scan::space(self.text, 0);
        self.root = at as u32;
        loop {
            at = self.value(at)?;
            // Behind a value: the ends of what it stands in, up to what goes on.
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

    /// Steps over a scalar or an empty container, or into a container: up to its first value.
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
            self.open.push(Open { begin: at, is_object, covered: 0, names });
            at = if is_object { self.name(inside)? } else { inside };
        }
    }

    /// A member's name and its colon; returns where its value begins.
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
            // By a quarter: an object of a million members must not make room for two.
            self.names.reserve_exact(self.names.len() / 4 + 64);
        }
        self.names.push((hash, at as u32));
        Ok(scan::space(self.text, colon + 1))
    }

    /// The innermost container has ended before `end`.
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

    /// Of the names from `from` on, those that come again.
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
                // The last of a run of equal hashes is nearly always the only other one.
                if run[index + 1..].iter().rev().any(|later| is_same(name, later)) {
                    self.replaced.push(name.1);
                }
            }
        }
    }
}

/// The name that begins at `at`.
fn name_at(text: &[u8], at: usize) -> std::borrow::Cow<'_, str> {
    let inside = &text[at + 1..scan::string_end(text, at) - 1];
    // The text as a whole is UTF-8, and quotes are ASCII.
    scan::unescaped(std::str::from_utf8(inside).unwrap_or_default())
}
