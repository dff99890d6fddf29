//! What the winning pattern captured out of the path: one reusable value a connection.

use std::sync::Arc;

use crate::pattern::Wildcards;

/// The name under which the remainder after a trailing or unnamed `*` is known.
pub(crate) const REMAINDER: &str = ":ext";

/// Parts of the path that a pattern's parameters and wildcards stand for.
///
/// They are ranges of the path that was matched, which [`Captures::get`] is given again. Reused
/// from request to request, it allocates only while the most captures so far grow.
#[derive(Debug, Default, Clone)]
pub struct Captures {
    source: Source,
    /// Start and end of each capture, in the order of the pattern.
    ranges: Vec<(u32, u32)>,
}

/// What was captured.
#[derive(Debug, Default, Clone)]
enum Source {
    #[default]
    Nothing,
    /// What follows a prefix of so many bytes.
    Remainder(u32),
    /// Ranges by the names of this pattern.
    Ranges(Arc<Wildcards>),
}

impl Captures {
    /// Forgets what was captured.
    #[inline]
    pub fn clear(&mut self) {
        self.source = Source::Nothing;
    }

    /// What was captured as `name`, out of the path that was matched.
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

    /// Keeps what follows a prefix.
    #[inline]
    pub(crate) fn set_remainder(&mut self, start: u32) {
        self.source = Source::Remainder(start);
    }

    /// Matches `path` against `wildcards` and keeps what they stand for.
    pub(crate) fn set_from(&mut self, wildcards: &Arc<Wildcards>, path: &[u8]) -> bool {
        let matched = wildcards.matches(path, &mut self.ranges);
        if matched {
            self.source = Source::Ranges(Arc::clone(wildcards));
        }
        matched
    }
}
