//! Ant's patterns, as Spring's `AntPathMatcher` takes them: `**` is any number of segments, anywhere.

use super::segment::Segment;
use super::{Anchor, PATTERN_BYTES_MAX, PatternError};

/// A pattern. Empty segments count neither in it nor in paths, so that `/a//b` is as good as `/a/b`; whether
/// a path begins and ends with a slash does count. `/a/**` takes `/a` too.
#[derive(Debug, Clone)]
pub struct AntPattern {
    starts_with_slash: bool,
    ends_with_slash: bool,
    tokens: Box<[Token]>,
}

#[derive(Debug, Clone)]
enum Token {
    Segment(Segment),
    /// A segment that is `*` as written, which alone takes the empty end of `/a/`.
    Star,
    /// `**`
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
    /// When it is too long or an expression in it cannot be compiled.
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

    /// Whether the whole path is taken. Costs at most the length of the path times that of the pattern.
    pub fn matches(&self, path: &str) -> bool {
        if path.starts_with('/') != self.starts_with_slash {
            return false;
        }
        let mut path_rest = segments(path);
        let mut tokens = &*self.tokens;
        // Up to the first `**` from the left, then up to the last from the right.
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
        // Behind a `**` at the end Spring does not look at the last slash.
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

    /// What every path that it takes begins with, once empty segments are left out; `None` for nothing.
    pub(crate) fn anchor(&self) -> Option<Anchor> {
        let mut text = String::from(if self.starts_with_slash { "/" } else { "" });
        for (index, token) in self.tokens.iter().enumerate() {
            let separator = if index == 0 { "" } else { "/" };
            match token {
                Token::Segment(Segment::Literal(literal)) => {
                    text.push_str(separator);
                    text.push_str(literal);
                }
                // Without its slash: `/a/**` takes `/a`.
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

/// What stands between the first `**` and the last: each run of segments at the first place where it fits,
/// which leaves the most to those behind it.
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
