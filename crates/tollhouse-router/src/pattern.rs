//! Path patterns: the literal start that finds them, and what is matched after it.
//!
//! `/a` is exact; `/a*` and `/a/*` take everything that begins so; a `*` elsewhere takes anything,
//! slashes too, as much as it can; `:name`, where parameters are on, takes one segment. Matching
//! is deterministic but for the place of the texts between stars, which are laid from the right:
//! that is what greedy stars mean, and it needs no backtracking.

use std::sync::Arc;

use crate::captures::REMAINDER;

#[cfg(test)]
mod tests;

/// A path pattern, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(crate) key: Key,
    pub(crate) rest: Rest,
}

/// How a pattern is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// By the whole path.
    Exact(Arc<[u8]>),
    /// By the start of the path.
    Prefix(Box<[u8]>),
}

/// What is left to match once the key has.
#[derive(Debug, Clone)]
pub(crate) enum Rest {
    /// Nothing: the path was the key.
    Nothing,
    /// Anything; the key was so many bytes.
    Anything(u32),
    /// Wildcards and parameters.
    Wildcards(Arc<Wildcards>),
}

/// Whether `:name` stands for a segment.
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

/// The part of a pattern from its first wildcard or parameter on: blocks of text and parameters,
/// with a star between each two.
#[derive(Debug)]
pub(crate) struct Wildcards {
    /// How many bytes of the path the key has settled.
    key_bytes: usize,
    first: Block,
    /// Each stands after a star.
    after_stars: Box<[Block]>,
    /// Names of all captures, in the order of the pattern.
    names: Box<[Box<str>]>,
}

/// Text and parameters without a star in between: where it begins decides where it ends.
#[derive(Debug, Default)]
struct Block {
    pieces: Vec<Piece>,
    /// Index of the capture of the star before it; meaningless in the first block.
    star: usize,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    /// A whole segment, and the index of its capture.
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
                // Only behind a slash is what follows a star its name; `/a*b` means any text, then
                // `b`.
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

    /// Whether `path`, which begins with the key, matches; leaves each capture's range in `ranges`.
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

/// Where a block has to end.
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

    /// Where the block ends when it begins at `start`; `None` when it does not match there.
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

    /// Start and end of the block's last place in `path` that begins at `from` or later and ends
    /// as `end` says. Costs at most the length of the path times that of the block.
    fn find_last(
        &self,
        path: &[u8],
        from: usize,
        end: End,
        ranges: &mut [(u32, u32)],
    ) -> Option<(usize, usize)> {
        let (End::At(limit) | End::Within(limit)) = end;
        // Only a star or the end of the pattern follows an empty block.
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

/// Whether the rest of a segment after `*` is a name, rather than text to be matched.
fn is_name(word: &str) -> bool {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !word.is_empty() && word.bytes().all(is_name_byte)
}

/// Paths and patterns are kilobytes; an offset that did not fit would only cut a capture short.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
