//! Host levels: which sets of routes a host leads to, most specific first.

use std::sync::Arc;

use tollhouse_stdx::CowMap;

use crate::host::{HostPattern, Port, Shape};
use crate::spec::MatchRequest;
use crate::tree::Tree;

#[cfg(test)]
mod tests;

/// The number of the level of routes without a host.
const NO_HOST: u64 = 0;

/// The routes of one host pattern.
#[derive(Debug)]
pub(crate) struct Level<T> {
    /// Its part of the key in the table of exact paths; never used again for another.
    pub(crate) number: u64,
    /// How many exact paths it has: most look-ups in levels without any are spared.
    pub(crate) exact_paths: usize,
    pub(crate) tree: Tree<T>,
}

/// All levels. A clone is a few reference counts.
#[derive(Debug)]
pub(crate) struct Levels<T> {
    no_host: Level<T>,
    exact: CowMap<Arc<[u8]>, Level<T>>,
    /// By what stands after the `*`.
    suffixes: CowMap<Arc<[u8]>, Level<T>>,
    /// Which of those can be found: only these lengths are looked up.
    lengths: Arc<[SuffixLength]>,
    next_number: u64,
}

/// How many suffixes have one length; in an order of falling length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SuffixLength {
    bytes: usize,
    suffixes: usize,
    /// How many of them do not begin with a dot, or are compared with the port.
    unusual: usize,
}

impl<T> Clone for Level<T> {
    fn clone(&self) -> Self {
        Self { number: self.number, exact_paths: self.exact_paths, tree: self.tree.clone() }
    }
}

impl<T> Clone for Levels<T> {
    fn clone(&self) -> Self {
        Self {
            no_host: self.no_host.clone(),
            exact: self.exact.clone(),
            suffixes: self.suffixes.clone(),
            lengths: Arc::clone(&self.lengths),
            next_number: self.next_number,
        }
    }
}

impl<T> Level<T> {
    fn new(number: u64) -> Self {
        Self { number, exact_paths: 0, tree: Tree::default() }
    }

    fn is_empty(&self) -> bool {
        self.exact_paths == 0 && self.tree.is_empty()
    }
}

impl<T> Levels<T> {
    pub(crate) fn new() -> Self {
        Self {
            no_host: Level::new(NO_HOST),
            exact: CowMap::new(),
            suffixes: CowMap::new(),
            lengths: Arc::new([]),
            next_number: NO_HOST + 1,
        }
    }

    /// Shows the levels that the request's host leads to until `visit` returns something.
    #[inline]
    pub(crate) fn walk<'a, R>(
        &'a self,
        request: &MatchRequest<'_>,
        mut visit: impl FnMut(&'a Level<T>) -> Option<R>,
    ) -> Option<R> {
        if !self.exact.is_empty() {
            let has_port = request.host_with_port.len() != request.host.len();
            let with_port = has_port.then(|| self.exact.get(request.host_with_port)).flatten();
            let found = with_port.and_then(&mut visit);
            let found = found.or_else(|| self.exact.get(request.host).and_then(&mut visit));
            if found.is_some() {
                return found;
            }
        }
        if !self.lengths.is_empty() {
            let found = self.walk_suffixes(request, &mut visit);
            if found.is_some() {
                return found;
            }
        }
        visit(&self.no_host)
    }

    fn walk_suffixes<'a, R>(
        &'a self,
        request: &MatchRequest<'_>,
        visit: &mut impl FnMut(&'a Level<T>) -> Option<R>,
    ) -> Option<R> {
        let has_port = request.host_with_port.len() != request.host.len();
        self.lengths.iter().find_map(|length| {
            let with_port = (has_port && length.unusual > 0)
                .then(|| self.suffix_level(request.host_with_port, length, Port::Compared))
                .flatten();
            let found = with_port.and_then(&mut *visit);
            let without_port = || self.suffix_level(request.host, length, Port::Ignored);
            found.or_else(|| without_port().and_then(&mut *visit))
        })
    }

    fn suffix_level(&self, host: &[u8], length: &SuffixLength, port: Port) -> Option<&Level<T>> {
        let start = host.len().checked_sub(length.bytes)?;
        let suffix = &host[start..];
        // Nearly all suffixes begin with a dot, and few hosts have one at the right place.
        let is_possible = length.unusual > 0 || suffix.first() == Some(&b'.');
        // A suffix that names no port is not compared with one.
        let is_meant = || port == Port::Ignored || Port::in_pattern(suffix) == port;
        (is_possible && is_meant()).then(|| self.suffixes.get(suffix)).flatten()
    }
}

impl<T: Clone> Levels<T> {
    /// Changes the level of `host`, which is made where there is none and goes when it is left
    /// without routes.
    pub(crate) fn update(&mut self, host: Option<&str>, change: impl FnOnce(&mut Level<T>)) {
        let Some(host) = host else { return change(&mut self.no_host) };
        let pattern = HostPattern::parse(host);
        let map = match pattern.shape {
            Shape::Exact => &mut self.exact,
            Shape::Suffix => &mut self.suffixes,
        };
        if !map.contains_key(pattern.text) {
            map.insert(pattern.text.into(), Level::new(self.next_number));
            self.next_number += 1;
            self.count_suffix(&pattern, Counting::Up);
        }
        let map = match pattern.shape {
            Shape::Exact => &mut self.exact,
            Shape::Suffix => &mut self.suffixes,
        };
        let is_left_empty = map.update(pattern.text, |level| {
            change(level);
            level.is_empty()
        });
        if is_left_empty == Some(true) {
            map.remove(pattern.text);
            self.count_suffix(&pattern, Counting::Down);
        }
    }

    fn count_suffix(&mut self, pattern: &HostPattern<'_>, counting: Counting) {
        if pattern.shape == Shape::Exact {
            return;
        }
        let bytes = pattern.text.len();
        // The others begin at a dot and name no port, so that one byte rules most hosts out. While
        // there is an unusual one of that length, every host is looked up, with its port and
        // without.
        let is_unusual = pattern.port == Port::Compared || pattern.text.first() != Some(&b'.');
        let mut lengths = self.lengths.to_vec();
        let found = lengths.binary_search_by(|held| bytes.cmp(&held.bytes));
        let index = found.unwrap_or_else(|index| {
            lengths.insert(index, SuffixLength { bytes, suffixes: 0, unusual: 0 });
            index
        });
        let length = &mut lengths[index];
        match counting {
            Counting::Up => {
                length.suffixes += 1;
                length.unusual += usize::from(is_unusual);
            }
            Counting::Down => {
                length.suffixes -= 1;
                length.unusual -= usize::from(is_unusual);
            }
        }
        lengths.retain(|length| length.suffixes > 0);
        self.lengths = lengths.into();
    }
}

#[derive(Debug, Clone, Copy)]
enum Counting {
    Up,
    Down,
}
