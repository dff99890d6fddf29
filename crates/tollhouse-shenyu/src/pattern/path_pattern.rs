//! Spring's PathPattern: like Ant patterns, but `**` and `{*name}` may only occur at the end, and
//! every slash counts.

use super::segment::Segment;
use super::{Anchor, PATTERN_BYTES_MAX, PatternError};

/// Compiled PathPattern. A final slash is significant, as since Spring 6 (ShenYu 2.7). `/a/**` also
/// matches `/a`.
#[derive(Debug, Clone)]
pub struct PathPattern {
    elements: Box<[Element]>,
    /// Whether paths may have further segments after the pattern.
    takes_rest: bool,
    /// Whether the last segment is `*`, which also matches an empty segment.
    ends_in_star: bool,
}

#[derive(Debug, Clone)]
enum Element {
    Slash,
    Segment(Segment),
}

impl PathPattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// If the pattern is too long, an expression in it is invalid, or something follows `**`.
    pub fn compile(text: &str) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        let mut elements = Vec::new();
        let mut segments = text.split('/').enumerate().peekable();
        while let Some((index, segment)) = segments.next() {
            if is_rest(segment) && index > 0 {
                return match segments.peek() {
                    None => Ok(Self {
                        elements: elements.into(),
                        takes_rest: true,
                        ends_in_star: false,
                    }),
                    Some(_) => Err(PatternError::DataAfterRest),
                };
            }
            if index > 0 {
                elements.push(Element::Slash);
            }
            if !segment.is_empty() {
                elements.push(Element::Segment(Segment::compile(segment)?));
            }
        }
        let ends_in_star = text.ends_with("/*");
        Ok(Self { elements: elements.into(), takes_rest: false, ends_in_star })
    }

    /// Whether the pattern matches the whole path. Costs at most path length times segment length.
    pub fn matches(&self, path: &str) -> bool {
        let mut rest = path;
        let last = self.elements.len().saturating_sub(1);
        for (at, element) in self.elements.iter().enumerate() {
            rest = match element {
                Element::Slash => match rest.strip_prefix('/') {
                    Some(rest) => rest,
                    None => return false,
                },
                Element::Segment(segment) => {
                    let (text, behind) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                    let may_be_empty = self.ends_in_star && at == last;
                    if (text.is_empty() && !may_be_empty) || !segment.matches(text) {
                        return false;
                    }
                    behind
                }
            };
        }
        rest.is_empty() || (self.takes_rest && rest.starts_with('/'))
    }

    /// Returns the necessary start of matching paths; `None` if every path may match.
    pub(crate) fn anchor(&self) -> Option<Anchor> {
        let mut text = String::new();
        for element in &self.elements {
            match element {
                Element::Slash => text.push('/'),
                Element::Segment(Segment::Literal(literal)) => text.push_str(literal),
                Element::Segment(segment) => {
                    text.push_str(&segment.literal_start());
                    return (!text.is_empty()).then_some(Anchor::Prefix(text));
                }
            }
        }
        match self.takes_rest {
            false => Some(Anchor::Exact(text)),
            true => (!text.is_empty()).then_some(Anchor::Prefix(text)),
        }
    }
}

/// Whether a segment is `**` or `{*name}`.
fn is_rest(segment: &str) -> bool {
    segment == "**" || (segment.starts_with("{*") && segment.ends_with('}'))
}

#[cfg(test)]
mod tests;
