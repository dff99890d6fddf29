//! A radix tree from path prefixes to candidates, changed by copying the path from the root.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::entry::Candidate;

/// Depth of a look-up kept without allocating; deeper trees spill.
const DEPTH_INLINE: usize = 16;

/// Candidates under one key, in the order they are tried.
pub(crate) type Candidates<T> = Arc<[Candidate<T>]>;

/// A node: the bytes on the edge to it, what ends here, what goes on.
#[derive(Debug)]
pub(crate) struct Node<T> {
    edge: Box<[u8]>,
    candidates: Option<Candidates<T>>,
    /// Sorted by the first byte of their edges, which are all different.
    children: Vec<Arc<Node<T>>>,
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Self {
            edge: self.edge.clone(),
            candidates: self.candidates.clone(),
            children: self.children.clone(),
        }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { edge: Box::default(), candidates: None, children: Vec::new() }
    }
}

impl<T> Node<T> {
    /// Everything whose prefix starts `path`, longest prefix first.
    #[inline]
    pub(crate) fn find<'a>(&'a self, path: &[u8]) -> SmallVec<[&'a [Candidate<T>]; DEPTH_INLINE]> {
        let mut found = SmallVec::new();
        let mut node = self;
        let mut rest = path;
        loop {
            if let Some(candidates) = &node.candidates {
                found.push(&**candidates);
            }
            let Some(child) = node.child(rest) else { break };
            let Some(after) = rest.strip_prefix(&*child.edge) else { break };
            node = child;
            rest = after;
        }
        found.reverse();
        found
    }

    #[inline]
    fn child(&self, rest: &[u8]) -> Option<&Node<T>> {
        let first = rest.first()?;
        let index = self.position(*first).ok()?;
        Some(&self.children[index])
    }

    fn position(&self, first: u8) -> Result<usize, usize> {
        self.children.binary_search_by_key(&first, |child| child.edge[0])
    }

    /// Replaces the candidates at `prefix` by what `change` makes of them.
    pub(crate) fn update(
        &mut self,
        prefix: &[u8],
        change: impl FnOnce(Option<&Candidates<T>>) -> Option<Candidates<T>>,
    ) {
        let Some(first) = prefix.first() else {
            self.candidates = change(self.candidates.as_ref());
            return;
        };
        let index = match self.position(*first) {
            Ok(index) => index,
            Err(index) => {
                if let Some(candidates) = change(None) {
                    let leaf = Node {
                        edge: prefix.into(),
                        candidates: Some(candidates),
                        children: Vec::new(),
                    };
                    self.children.insert(index, Arc::new(leaf));
                }
                return;
            }
        };
        let child = Arc::make_mut(&mut self.children[index]);
        let shared = common_bytes(&child.edge, prefix);
        if shared < child.edge.len() {
            child.split(shared);
        }
        child.update(&prefix[shared..], change);
        if child.candidates.is_none() {
            self.tidy_child(index);
        }
    }

    /// Cuts the edge after `at` bytes; what was here moves one level down.
    fn split(&mut self, at: usize) {
        let lower = Node {
            edge: self.edge[at..].into(),
            candidates: self.candidates.take(),
            children: std::mem::take(&mut self.children),
        };
        self.edge = self.edge[..at].into();
        self.children.push(Arc::new(lower));
    }

    /// Drops a child that holds nothing, or joins it with its only child.
    fn tidy_child(&mut self, index: usize) {
        match self.children[index].children.as_slice() {
            [] => {
                self.children.remove(index);
            }
            [only] => {
                let mut joined = Node::clone(only);
                joined.edge = [&*self.children[index].edge, &*joined.edge].concat().into();
                self.children[index] = Arc::new(joined);
            }
            _ => {}
        }
    }
}

fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}
