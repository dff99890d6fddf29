//! From a path to the objects that may take it, without looking at the others.

use hashbrown::HashMap;

use super::collapse_slashes;
use super::condition::Slashes;
use crate::pattern::Anchor;

/// Ranks of objects by what their paths begin with. Every list is rising.
#[derive(Debug, Default)]
pub(super) struct Index {
    counted: Paths,
    collapsed: Paths,
    /// Objects of which the path says nothing.
    everywhere: Vec<u32>,
}

#[derive(Debug, Default)]
struct Paths {
    exact: HashMap<Box<str>, Vec<u32>, foldhash::fast::RandomState>,
    /// In the order of their texts.
    prefixes: Box<[Prefix]>,
}

#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    ranks: Vec<u32>,
    /// The longest other prefix that this one begins with.
    parent: Option<u32>,
}

impl Index {
    /// `anchors` are those of each rank in turn.
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
                // Two conditions of one object may lead to the same place.
                if ranks.last() != Some(&rank) {
                    ranks.push(rank);
                }
            }
        }
        index.counted.prefixes = linked(counted);
        index.collapsed.prefixes = linked(collapsed);
        index
    }

    /// Gives each list of ranks that may take `path` to `visit`. Costs the length of the path times the
    /// prefixes of it, and the logarithm of the number of prefixes. Allocates only where the path has empty
    /// segments.
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
        self.exact.is_empty() && self.prefixes.is_empty()
    }

    fn visit(&self, path: &str, visit: &mut impl FnMut(&[u32])) {
        if let Some(ranks) = self.exact.get(path) {
            visit(ranks);
        }
        // Whatever the path begins with, the last text not behind the path begins with too.
        let behind = self.prefixes.partition_point(|prefix| *prefix.text <= *path);
        let mut next = behind.checked_sub(1);
        while let Some(prefix) = next.and_then(|at| self.prefixes.get(at)) {
            if path.starts_with(&*prefix.text) {
                visit(&prefix.ranks);
            }
            next = prefix.parent.map(|at| at as usize);
        }
    }
}

fn linked(prefixes: HashMap<Box<str>, Vec<u32>>) -> Box<[Prefix]> {
    let mut sorted: Vec<(Box<str>, Vec<u32>)> = prefixes.into_iter().collect();
    sorted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut linked: Vec<Prefix> = Vec::with_capacity(sorted.len());
    for (text, ranks) in sorted {
        // The text before this one, or what that begins with.
        let mut parent = linked.len().checked_sub(1);
        while let Some(at) = parent.filter(|at| !text.starts_with(&*linked[*at].text)) {
            parent = linked[at].parent.map(|at| at as usize);
        }
        linked.push(Prefix { text, ranks, parent: parent.and_then(|at| at.try_into().ok()) });
    }
    linked.into()
}
