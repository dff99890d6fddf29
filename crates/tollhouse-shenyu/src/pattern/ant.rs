//! Ant patterns as in Spring's `AntPathMatcher`: `**` matches any number of segments, at any
//! position.

use super::segment::Segment;
use super::{Anchor, PATTERN_BYTES_MAX, PatternError};

/// Compiled Ant pattern. Empty segments are ignored in pattern and path, so that `/a//b` equals
/// `/a/b`. A slash at the start or end is significant. `/a/**` also matches `/a`.
#[derive(Debug, Clone)]
pub struct AntPattern {
    starts_with_slash: bool,
    ends_with_slash: bool,
    tokens: Box<[Token]>,
}

#[derive(Debug, Clone)]
enum Token {
    Segment(Segment),
    /// Segment written as `*`. Only this token matches the empty end of `/a/`.
    Star,
    /// Wildcard `**`: any number of segments.
    Segments,
}

impl Token {
    fn compile(text: &str) -> Result<Self, PatternError> {
        Ok(match text {
            "**" => Self::Segments,
            "*" => Self::Star,
            text => Self::Segment(Segment::compile(text)?),
        })
    }

    fn matches(&self, segment: &str) -> bool {
        match self {
            Self::Segment(token) => token.matches(segment),
            Self::Star => true,
            Self::Segments => false,
        }
    }

    const fn is_segments(&self) -> bool {
        matches!(self, Self::Segments)
    }
}

impl AntPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// If the pattern is too long, or an expression in it is invalid.
    pub fn compile(text: &str) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        Ok(Self {
            starts_with_slash: text.starts_with('/'),
            ends_with_slash: text.ends_with('/'),
            tokens: segments(text).map(Token::compile).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the pattern matches the whole path. Costs at most path length times pattern length.
    pub fn matches(&self, path: &str) -> bool {
        if path.starts_with('/') != self.starts_with_slash {
            return false;
        }
        let mut path_rest = segments(path);
        let mut tokens = &*self.tokens;
        // Matches the tokens before the first `**` from the left, then those after the last one
        // from the right.
        while let [token, rest @ ..] = tokens {
            if token.is_segments() {
                break;
            }
            let Some(segment) = path_rest.next() else {
                return matches!(tokens, [Token::Star]) && path.ends_with('/');
            };
            if !token.matches(segment) {
                return false;
            }
            tokens = rest;
        }
        if tokens.is_empty() {
            return path_rest.next().is_none() && self.ends_with_slash == path.ends_with('/');
        }
        // As in Spring, the final slash is ignored after a trailing `**`.
        let ends_open = tokens.last().is_some_and(Token::is_segments);
        if !ends_open && self.ends_with_slash != path.ends_with('/') {
            return false;
        }
        while let [rest @ .., token] = tokens {
            if token.is_segments() {
                break;
            }
            if !path_rest.next_back().is_some_and(|segment| token.matches(segment)) {
                return false;
            }
            tokens = rest;
        }
        matches_between(tokens, path_rest)
    }

    /// Returns the necessary start of matching paths, without empty segments; `None` if every path
    /// may match.
    pub(crate) fn anchor(&self) -> Option<Anchor> {
        let mut text = String::from(if self.starts_with_slash { "/" } else { "" });
        for (index, token) in self.tokens.iter().enumerate() {
            let separator = if index == 0 { "" } else { "/" };
            match token {
                Token::Segment(Segment::Literal(literal)) => {
                    text.push_str(separator);
                    text.push_str(literal);
                }
                // Without the slash, because `/a/**` also matches `/a`.
                Token::Segments => return prefix(text),
                Token::Star => {
                    text.push_str(separator);
                    return prefix(text);
                }
                Token::Segment(token) => {
                    text.push_str(separator);
                    text.push_str(&token.literal_start());
                    return prefix(text);
                }
            }
        }
        if self.ends_with_slash && !self.tokens.is_empty() {
            text.push('/');
        }
        Some(Anchor::Exact(text))
    }
}

fn prefix(text: String) -> Option<Anchor> {
    (!text.is_empty()).then_some(Anchor::Prefix(text))
}

/// Matches the tokens between the first and the last `**`. Each run of segments takes the first
/// position where it fits, which leaves the longest rest for later runs.
fn matches_between<'p>(
    mut tokens: &[Token],
    mut path: impl DoubleEndedIterator<Item = &'p str> + Clone,
) -> bool {
    loop {
        let start = tokens.iter().position(|token| !token.is_segments());
        let Some(run) = start.map(|start| &tokens[start..]) else { return true };
        let length = run.iter().position(Token::is_segments).unwrap_or(run.len());
        let (run, behind) = run.split_at(length);
        loop {
            let mut here = path.clone();
            if run.iter().all(|token| here.next().is_some_and(|segment| token.matches(segment))) {
                path = here;
                break;
            }
            if path.next().is_none() {
                return false;
            }
        }
        tokens = behind;
    }
}

fn segments(text: &str) -> impl DoubleEndedIterator<Item = &str> + Clone {
    text.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests;
