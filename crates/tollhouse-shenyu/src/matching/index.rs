//! Index from a path to the objects that may match it.

use hashbrown::HashMap;

use super::collapse_slashes;
use super::condition::Slashes;
use crate::pattern::Anchor;

/// Ranks of objects (positions in the order of choice), by the anchors of their paths. Every list
/// is ascending.
#[derive(Debug, Default)]
pub(super) struct Index {
    counted: Paths,
    collapsed: Paths,
    /// Objects without a condition on the path.
    everywhere: Vec<u32>,
}

#[derive(Debug, Default)]
struct Paths {
    exact: HashMap<Box<str>, Vec<u32>, foldhash::fast::RandomState>,
    prefixes: Prefixes,
}

/// Path prefixes, sorted for binary search.
#[derive(Debug, Default)]
struct Prefixes {
    /// Start that all prefixes have in common.
    common: Box<str>,
    /// The eight bytes after the common start of each prefix, as a number. Comparing numbers costs
    /// a tenth of comparing texts, and a search among thousands takes a dozen comparisons.
    keys: Box<[u64]>,
    /// Prefixes in the order of their texts.
    list: Box<[Prefix]>,
}

#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    ranks: Vec<u32>,
    /// Index of the longest other prefix that this text begins with.
    parent: Option<u32>,
}

impl Index {
    /// Builds an index; `anchors` yields the anchors of each object, in the order of ranks.
    pub(super) fn build(anchors: impl Iterator<Item = Option<Vec<(Anchor, Slashes)>>>) -> Self {
        let mut index = Self::default();
        let (mut counted, mut collapsed) = (HashMap::new(), HashMap::new());
        for (rank, anchors) in (0_u32..).zip(anchors) {
            let Some(anchors) = anchors else {
                index.everywhere.push(rank);
                continue;
            };
            for (anchor, slashes) in anchors {
                let (paths, prefixes) = match slashes {
                    Slashes::Counted => (&mut index.counted, &mut counted),
                    Slashes::Collapsed => (&mut index.collapsed, &mut collapsed),
                };
                let ranks: &mut Vec<u32> = match anchor {
                    Anchor::Exact(text) => paths.exact.entry(text.into()).or_default(),
                    Anchor::Prefix(text) => prefixes.entry(Box::from(text)).or_default(),
                };
                // Two conditions of one object may have the same anchor.
                if ranks.last() != Some(&rank) {
                    ranks.push(rank);
                }
            }
        }
        index.counted.prefixes = Prefixes::new(counted);
        index.collapsed.prefixes = Prefixes::new(collapsed);
        index
    }

    /// Lists the literal paths in the index.
    pub(super) fn whole_paths(&self) -> impl Iterator<Item = &str> {
        self.counted.exact.keys().map(|path| &**path)
    }

    /// Calls `visit` with each list of ranks that may match `path`. Costs the path length times the
    /// number of matching prefixes, plus the logarithm of the number of all prefixes. Allocates
    /// only if the path has empty segments.
    pub(super) fn visit(&self, path: &str, mut visit: impl FnMut(&[u32])) {
        self.counted.visit(path, &mut visit);
        if !self.collapsed.is_empty() {
            self.collapsed.visit(&collapse_slashes(path), &mut visit);
        }
        visit(&self.everywhere);
    }
}

impl Paths {
    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.list.is_empty()
    }

    #[inline]
    fn visit(&self, path: &str, visit: &mut impl FnMut(&[u32])) {
        if let Some(ranks) = self.exact.get(path) {
            visit(ranks);
        }
        self.prefixes.visit(path, visit);
    }
}

impl Prefixes {
    fn new(ranks_by_text: HashMap<Box<str>, Vec<u32>>) -> Self {
        let list = linked(ranks_by_text);
        let common = match &*list {
            // In a sorted list, the common start of the first and the last text is common to all.
            [first, .., last] => common_start(&first.text, &last.text),
            [only] => &only.text,
            [] => "",
        };
        let keys = list.iter().map(|prefix| key(&prefix.text.as_bytes()[common.len()..])).collect();
        Self { common: common.into(), keys, list }
    }

    #[inline]
    fn visit(&self, path: &str, visit: &mut impl FnMut(&[u32])) {
        // Starts with the last text in order that is not after the path. Every prefix of the path
        // is that text or one of its parents.
        let mut next = self.behind(path).checked_sub(1);
        while let Some(prefix) = next.and_then(|at| self.list.get(at)) {
            if path.starts_with(&*prefix.text) {
                visit(&prefix.ranks);
            }
            next = prefix.parent.map(|at| at as usize);
        }
    }

    /// Returns the number of texts that sort at or before `path`; 0 if `path` lacks the common
    /// start.
    #[inline]
    fn behind(&self, path: &str) -> usize {
        let Some(rest) = path.as_bytes().strip_prefix(self.common.as_bytes()) else { return 0 };
        let key = key(rest);
        let behind = self.keys.partition_point(|other| *other <= key);
        // Texts with the same number are compared in full.
        if behind == 0 || self.keys[behind - 1] != key {
            return behind;
        }
        let same = self.keys[..behind].partition_point(|other| *other < key);
        same + self.list[same..behind].partition_point(|prefix| *prefix.text <= *path)
    }
}

/// Returns the first eight bytes as a big-endian number, which preserves the order of texts except
/// for ties.
#[inline]
fn key(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => text.iter().rev().fold(0, |key, byte| key >> 8 | u64::from(*byte) << 56),
    }
}

fn common_start<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    // The texts may differ inside a multi-byte character, so the length is rounded down to a
    // boundary.
    &one[..one.floor_char_boundary(same)]
}

fn linked(prefixes: HashMap<Box<str>, Vec<u32>>) -> Box<[Prefix]> {
    let mut sorted: Vec<(Box<str>, Vec<u32>)> = prefixes.into_iter().collect();
    sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut linked: Vec<Prefix> = Vec::with_capacity(sorted.len());
    for (text, ranks) in sorted {
        // Tries the preceding text, then its parents.
        let mut parent = linked.len().checked_sub(1);
        while let Some(at) = parent.filter(|at| !text.starts_with(&*linked[*at].text)) {
            parent = linked[at].parent.map(|at| at as usize);
        }
        linked.push(Prefix { text, ranks, parent: parent.and_then(|at| at.try_into().ok()) });
    }
    linked.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_beginnings_of_a_path_are_found(
            start in "[a\u{e9}/]{0,9}",
            texts in prop::collection::vec("[\0a\u{e9}/]{0,12}", 0..20),
            path in "[\0a\u{e9}/]{0,14}",
            has_start in any::<bool>(),
        ) {
            let texts: Vec<String> = texts.iter().map(|text| format!("{start}{text}")).collect();
            let path = if has_start { format!("{start}{path}") } else { path };
            let anchors = texts.iter().map(|text| {
                Some(vec![(Anchor::Prefix(text.clone()), Slashes::Counted)])
            });
            let index = Index::build(anchors);
            let mut found = Vec::new();
            index.visit(&path, |ranks| found.extend_from_slice(ranks));
            found.sort_unstable();
            let begins = |(_, text): &(u32, &String)| path.starts_with(&**text);
            let expected: Vec<u32> = (0..).zip(&texts).filter(begins).map(|(at, _)| at).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
