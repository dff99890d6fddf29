//! Path patterns: a literal prefix that finds them, and the rest that is matched after it.
//!
//! `/a` is exact; `/a*` and `/a/*` match every path with that prefix. A `*` elsewhere matches any
//! text, slashes included, as long as possible. `:name`, if parameters are enabled, matches one
//! segment. Texts between stars are searched from the right, which is equivalent to greedy stars
//! and needs no backtracking.

use std::sync::Arc;

use crate::captures::REMAINDER;

#[cfg(test)]
mod tests;

/// Path pattern, split into the key of its bucket and the rest.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) key: Key,
    pub(crate) rest: Rest,
}

/// Literal beginning of a pattern, by which the pattern is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Exact(Arc<[u8]>),
    Prefix(Box<[u8]>),
}

/// Part of a pattern after its literal beginning (the [`Key`]), to be matched against the rest of
/// the path.
#[derive(Debug, Clone)]
pub(crate) enum Rest {
    /// The key is the whole path, so nothing is left.
    Nothing,
    /// Any text; the key has this length.
    Anything(u32),
    Wildcards(Arc<Wildcards>),
}

/// Support for `:name` parameters, each of which matches a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameters {
    On,
    Off,
}

impl Pattern {
    pub(crate) fn parse(text: &str, parameters: Parameters) -> Self {
        let is_special =
            |letter: char| letter == '*' || (letter == ':' && parameters == Parameters::On);
        let Some(special) = text.find(is_special) else {
            return Self { key: Key::Exact(text.as_bytes().into()), rest: Rest::Nothing };
        };
        let (prefix, after) = text.split_at(special);
        let rest = match after {
            "*" => Rest::Anything(offset(special)),
            _ => Rest::Wildcards(Arc::new(Wildcards::parse(text, special, parameters))),
        };
        Self { key: Key::Prefix(prefix.as_bytes().into()), rest }
    }
}

/// Part of a pattern from its first wildcard or parameter on: blocks of text and parameters,
/// separated by stars.
#[derive(Debug)]
pub(crate) struct Wildcards {
    /// Length of the literal prefix, which is the key in the tree.
    key_bytes: usize,
    first: Block,
    /// Blocks that are each preceded by a star.
    after_stars: Box<[Block]>,
    /// Names of all captures, in the order of the pattern.
    names: Box<[Box<str>]>,
}

/// Text and parameters without a star in between; its start determines its end.
#[derive(Debug, Default)]
struct Block {
    pieces: Vec<Piece>,
    /// Index of the capture of the preceding star; unused in the first block.
    star: usize,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    /// A whole segment, with the index of its capture.
    Segment(usize),
}

impl Wildcards {
    fn parse(text: &str, special: usize, parameters: Parameters) -> Self {
        let mut blocks = vec![Block::default()];
        let mut names: Vec<Box<str>> = Vec::new();
        let mut at = special;
        while let Some(letter) = text[at..].chars().next() {
            let starts_segment = text[..at].ends_with('/');
            let word = text[at + letter.len_utf8()..].split('/').next().unwrap_or_default();
            let block = blocks.last_mut().expect("there is always a block");
            at += letter.len_utf8();
            if letter == '*' {
                blocks.push(Block { pieces: Vec::new(), star: names.len() });
                // Only after a slash is the text behind a star its name; `/a*b` means any text
                // followed by `b`.
                let is_named = starts_segment && is_name(word);
                names.push(if is_named { word } else { REMAINDER }.into());
                at += if is_named { word.len() } else { 0 };
            } else if letter == ':' && starts_segment && parameters == Parameters::On {
                block.pieces.push(Piece::Segment(names.len()));
                names.push(word.into());
                at += word.len();
            } else {
                block.push_text(letter);
            }
        }
        let mut blocks = blocks.into_iter();
        let first = blocks.next().unwrap_or_default();
        Self { key_bytes: special, first, after_stars: blocks.collect(), names: names.into() }
    }

    /// Names of all captures, in the order of the pattern.
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Whether `path`, which begins with the key, matches; stores the range of each capture in
    /// `ranges`.
    pub(crate) fn matches(&self, path: &[u8], ranges: &mut Vec<(u32, u32)>) -> bool {
        ranges.clear();
        ranges.resize(self.names.len(), (0, 0));
        let Some(first_end) = self.first.end_from(self.key_bytes, path, ranges) else {
            return false;
        };
        let Some((last, between)) = self.after_stars.split_last() else {
            return first_end == path.len();
        };
        let Some((mut start, _)) = last.find_last(path, first_end, End::At(path.len()), ranges)
        else {
            return false;
        };
        let mut star = last.star;
        for block in between.iter().rev() {
            let found = block.find_last(path, first_end, End::Within(start), ranges);
            let Some((block_start, block_end)) = found else { return false };
            ranges[star] = (offset(block_end), offset(start));
            (start, star) = (block_start, block.star);
        }
        ranges[star] = (offset(first_end), offset(start));
        true
    }
}

/// Position at which, or before which, the text between two wildcards (a block) must end.
#[derive(Debug, Clone, Copy)]
enum End {
    At(usize),
    Within(usize),
}

impl Block {
    fn push_text(&mut self, letter: char) {
        let mut buffer = [0; 4];
        let bytes = letter.encode_utf8(&mut buffer).as_bytes();
        match self.pieces.last_mut() {
            Some(Piece::Text(text)) => text.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Text(bytes.to_vec())),
        }
    }

    /// End of the block if it begins at `start`; `None` if it does not match there.
    #[inline]
    fn end_from(&self, start: usize, path: &[u8], ranges: &mut [(u32, u32)]) -> Option<usize> {
        let mut at = start;
        for piece in &self.pieces {
            let rest = path.get(at..)?;
            let length = match piece {
                Piece::Text(text) => rest.starts_with(text).then_some(text.len())?,
                Piece::Segment(capture) => {
                    let length = memchr::memchr(b'/', rest).unwrap_or(rest.len());
                    ranges[*capture] = (offset(at), offset(at + length));
                    (length > 0).then_some(length)?
                }
            };
            at += length;
        }
        Some(at)
    }

    /// Start and end of the block's last match in `path` that begins at or after `from` and ends as
    /// `end` requires. Costs at most the length of the path times that of the block.
    fn find_last(
        &self,
        path: &[u8],
        from: usize,
        end: End,
        ranges: &mut [(u32, u32)],
    ) -> Option<(usize, usize)> {
        let (End::At(limit) | End::Within(limit)) = end;
        // An empty block is followed only by a star or the end of the pattern.
        let Some(Piece::Text(text)) = self.pieces.first() else {
            return (from <= limit).then_some((limit, limit));
        };
        let mut before = limit;
        while let Some(hit) = memchr::memrchr(text[0], path.get(from..before)?) {
            let start = from + hit;
            let ends_well = |block_end: &usize| match end {
                End::At(limit) => *block_end == limit,
                End::Within(limit) => *block_end <= limit,
            };
            if let Some(block_end) = self.end_from(start, path, ranges).filter(ends_well) {
                return Some((start, block_end));
            }
            before = start;
        }
        None
    }
}

/// Whether the rest of a segment after `*` is a name and not text to be matched.
fn is_name(word: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !word.is_empty() && word.bytes().all(is_name_byte)
}

/// Offset as stored in a capture. Paths and patterns have a few kilobytes; a greater offset would
/// only shorten a capture.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
