//! Segments of patterns: text, wildcards and expressions.

use regex::Regex;

use super::PatternError;
use crate::expression;

/// Pattern of one path segment.
#[derive(Debug, Clone)]
pub(super) enum Segment {
    Literal(Box<str>),
    Any,
    /// Text with the wildcards `?` and `*`.
    Glob(Box<[Glob]>),
    /// Text with at least one regular expression.
    Expression(Regex),
}

/// Element of a segment with wildcards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Glob {
    Character(char),
    One,
    Run,
}

/// Element of a segment as written.
enum Piece<'a> {
    Glob(Glob),
    /// Variable with a regular expression: `{name:regex}`.
    Expression(&'a str),
}

impl Segment {
    pub(super) fn compile(text: &str) -> Result<Self, PatternError> {
        let pieces = pieces(text);
        let globs: Option<Vec<Glob>> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Glob(glob) => Some(*glob),
                Piece::Expression(_) => None,
            })
            .collect();
        let Some(globs) = globs else { return compile_expression(&pieces) };
        if globs.iter().all(|glob| matches!(glob, Glob::Character(_))) {
            return Ok(Self::Literal(text.into()));
        }
        Ok(match globs[..] {
            [Glob::Run] => Self::Any,
            _ => Self::Glob(globs.into()),
        })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => &**literal == text,
            Self::Any => true,
            Self::Glob(globs) => matches_glob(globs, text),
            Self::Expression(regex) => regex.is_match(text),
        }
    }

    /// Returns the literal text before the first wildcard.
    pub(super) fn literal_start(&self) -> String {
        match self {
            Self::Literal(literal) => literal.to_string(),
            Self::Any | Self::Expression(_) => String::new(),
            Self::Glob(globs) => globs
                .iter()
                .map_while(|glob| match glob {
                    Glob::Character(character) => Some(*character),
                    Glob::One | Glob::Run => None,
                })
                .collect(),
        }
    }
}

/// Matches text with wildcards. Costs at most text length times pattern length, because only the
/// last `*` is ever retried.
fn matches_glob(globs: &[Glob], text: &str) -> bool {
    let mut rest = text.chars();
    let mut at = 0;
    // Resume point after a mismatch: the position after the last `*`, and the text one character
    // later.
    let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let before = rest.clone();
        let advanced = match (globs.get(at), rest.next()) {
            (None, None) => return true,
            (Some(Glob::Run), _) => {
                at += 1;
                retry = Some((at, before.clone()));
                rest = before;
                continue;
            }
            (Some(Glob::One), Some(_)) => true,
            (Some(Glob::Character(wanted)), Some(character)) => *wanted == character,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if advanced {
            at += 1;
            continue;
        }
        let Some((behind_run, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        (at, rest) = (*behind_run, from.clone());
    }
}

fn compile_expression(pieces: &[Piece<'_>]) -> Result<Segment, PatternError> {
    let mut source = String::new();
    let error = |expression: &str, reason| {
        Err(PatternError::Expression { expression: expression.to_owned(), reason })
    };
    for piece in pieces {
        match piece {
            Piece::Glob(Glob::Character(character)) => {
                source.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
            }
            Piece::Glob(Glob::One) => source.push_str("(?s:.)"),
            Piece::Glob(Glob::Run) => source.push_str("(?s:.*)"),
            Piece::Expression(text) => {
                // Compiled alone first, because `a)(b` would close the group that is added below.
                if let Err(reason) = expression::compile_whole(text) {
                    return error(text, reason.to_string());
                }
                source.push_str("(?:");
                source.push_str(text);
                source.push(')');
            }
        }
    }
    match expression::compile_whole(&source) {
        Ok(regex) => Ok(Segment::Expression(regex)),
        Err(reason) => error(&source, reason.to_string()),
    }
}

/// Splits a segment into elements; an unbalanced brace is literal text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let variable = (character == '{').then(|| variable_end(&text[at..])).flatten();
        if let Some(end) = variable {
            let inside = &text[at + 1..at + end];
            pieces.push(match inside.split_once(':') {
                Some((_, expression)) => Piece::Expression(expression),
                None => Piece::Glob(Glob::Run),
            });
            at += end + 1;
            continue;
        }
        pieces.push(Piece::Glob(match character {
            '?' => Glob::One,
            '*' => Glob::Run,
            character => Glob::Character(character),
        }));
        at += character.len_utf8();
    }
    pieces
}

/// Returns the position of the brace that closes the first one. Expressions may contain nested
/// braces.
fn variable_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' if depth == 1 => return (at > 1).then_some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}
