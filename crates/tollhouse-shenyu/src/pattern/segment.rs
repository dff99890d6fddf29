//! One segment of a pattern: text, wildcards, or an expression.

use regex::Regex;

use super::PatternError;
use crate::expression;

/// A segment, compiled.
#[derive(Debug, Clone)]
pub(super) enum Segment {
    /// This text.
    Literal(Box<str>),
    /// Any text.
    Any,
    /// Text with `?` and `*`.
    Glob(Box<[Glob]>),
    /// Text with an expression in it.
    Expression(Regex),
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Glob {
    Character(char),
    One,
    Run,
}

/// A piece as it is written.
enum Piece<'a> {
    Glob(Glob),
    /// `{name:regex}`
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

    /// The text that a match begins with; all of it where the segment is literal.
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

/// Costs at most the length of the text times that of the pattern: what stands before the last run that was
/// begun never needs to be looked at again.
fn matches_glob(globs: &[Glob], text: &str) -> bool {
    let mut rest = text.chars();
    let mut at = 0;
    // Where to go on when what follows the last run does not match: behind the run, one character later.
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
                // Alone first: `a)(b` would close the group that is put around it.
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

/// Takes a segment apart; a brace without its partner is text.
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

/// Where the brace that `text` begins with is closed; expressions may hold braces of their own.
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
