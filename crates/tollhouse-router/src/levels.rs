//! Host levels: which sub-matchers a host leads to, most specific first.

use smallvec::SmallVec;
use tollhouse_stdx::CowMap;

use crate::entry::MatchRequest;

/// Levels kept for one request without allocating: exact, a few wildcards, none.
const LEVELS_INLINE: usize = 4;

/// Number of a sub-matcher.
pub(crate) type Level = u32;

/// The level of routes without a host.
pub(crate) const NO_HOST: Level = 0;

/// The index from hosts to levels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels {
    exact: CowMap<Box<[u8]>, Level>,
    /// By what stands after the `*`.
    wildcard: CowMap<Box<[u8]>, Level>,
    /// Lengths of those suffixes, longest first, with how many have it: only these are looked up.
    suffix_lengths: Vec<(usize, usize)>,
}

/// Key for looking up bytes among boxed ones.
#[derive(Hash)]
struct Bytes<'a>(&'a [u8]);

impl tollhouse_stdx::Equivalent<Box<[u8]>> for Bytes<'_> {
    fn equivalent(&self, key: &Box<[u8]>) -> bool {
        *self.0 == **key
    }
}

impl Levels {
    /// The level of the host pattern `host`, if it has one.
    pub(crate) fn get(&self, host: &str) -> Option<Level> {
        match host.strip_prefix('*') {
            Some(suffix) => self.wildcard.get(&Bytes(suffix.as_bytes())).copied(),
            None => self.exact.get(&Bytes(host.as_bytes())).copied(),
        }
    }

    /// Gives the host pattern `host` a level.
    pub(crate) fn insert(&mut self, host: &str, level: Level) {
        let Some(suffix) = host.strip_prefix('*') else {
            self.exact.insert(host.as_bytes().into(), level);
            return;
        };
        if self.wildcard.insert(suffix.as_bytes().into(), level).is_some() {
            return;
        }
        match self.position(suffix.len()) {
            Ok(index) => self.suffix_lengths[index].1 += 1,
            Err(index) => self.suffix_lengths.insert(index, (suffix.len(), 1)),
        }
    }

    /// Forgets the host pattern `host`.
    pub(crate) fn remove(&mut self, host: &str) {
        let Some(suffix) = host.strip_prefix('*') else {
            self.exact.remove(&Bytes(host.as_bytes()));
            return;
        };
        if self.wildcard.remove(&Bytes(suffix.as_bytes())).is_none() {
            return;
        }
        if let Ok(index) = self.position(suffix.len()) {
            self.suffix_lengths[index].1 -= 1;
            if self.suffix_lengths[index].1 == 0 {
                self.suffix_lengths.remove(index);
            }
        }
    }

    fn position(&self, length: usize) -> Result<usize, usize> {
        self.suffix_lengths.binary_search_by(|(known, _)| length.cmp(known))
    }

    /// The levels that the request's host leads to, most specific first.
    #[inline]
    pub(crate) fn of(&self, request: &MatchRequest<'_>) -> SmallVec<[Level; LEVELS_INLINE]> {
        let mut levels = SmallVec::new();
        if !self.exact.is_empty() {
            if request.host_with_port.len() != request.host.len() {
                levels.extend(self.exact.get(&Bytes(request.host_with_port)).copied());
            }
            levels.extend(self.exact.get(&Bytes(request.host)).copied());
        }
        for (length, _) in &self.suffix_lengths {
            let Some(start) = request.host.len().checked_sub(*length) else { continue };
            levels.extend(self.wildcard.get(&Bytes(&request.host[start..])).copied());
        }
        levels.push(NO_HOST);
        levels
    }
}
