//! Captures of the winning pattern; one reusable value per connection.

use std::sync::Arc;

use crate::pattern::Wildcards;

/// Name of the remainder after a trailing or unnamed `*`.
pub(crate) const REMAINDER: &str = ":ext";

/// Parts of the path that a pattern's parameters and wildcards matched.
///
/// The captures are ranges of the matched path, which must be passed again to [`Captures::get`].
/// The value is reused for every request, and allocates only if a request has more captures than
/// any before.
#[derive(Debug, Default, Clone)]
pub struct Captures {
    source: Source,
    /// Start and end of each capture, in the order of the pattern.
    ranges: Vec<(u32, u32)>,
}

/// Kinds of captures of a matched pattern.
#[derive(Debug, Default, Clone)]
enum Source {
    #[default]
    Nothing,
    /// Everything after a prefix of this length.
    Remainder(u32),
    /// Ranges whose names are those of this pattern.
    Ranges(Arc<Wildcards>),
}

impl Captures {
    #[inline]
    pub fn clear(&mut self) {
        self.source = Source::Nothing;
    }

    /// Returns the capture with this name; `path` is the path that was matched.
    pub fn get<'p>(&self, name: &str, path: &'p [u8]) -> Option<&'p [u8]> {
        match &self.source {
            Source::Nothing => None,
            Source::Remainder(start) => path.get(*start as usize..).filter(|_| name == REMAINDER),
            Source::Ranges(wildcards) => {
                let index = wildcards.names().iter().position(|known| **known == *name)?;
                let (start, end) = *self.ranges.get(index)?;
                path.get(start as usize..end as usize)
            }
        }
    }

    /// Sets the capture to the rest of the path after a prefix.
    #[inline]
    pub(crate) fn set_remainder(&mut self, start: u32) {
        self.source = Source::Remainder(start);
    }

    /// Matches `path` against `wildcards` and stores the captures; returns whether it matched.
    pub(crate) fn set_from(&mut self, wildcards: &Arc<Wildcards>, path: &[u8]) -> bool {
        let matched = wildcards.matches(path, &mut self.ranges);
        if matched {
            self.source = Source::Ranges(Arc::clone(wildcards));
        }
        matched
    }
}
