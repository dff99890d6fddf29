//! Radix tree from path prefixes to candidates; a change copies the nodes above it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::bucket::{Bucket, Candidate};

#[cfg(test)]
mod tests;

/// Prefixes of one path that a look-up holds without allocation; more than sensible sets of routes
/// nest.
const PREFIXES_INLINE: usize = 16;

/// Number of children up to which a plain loop is cheaper than a vectorised search.
const SCANNED_CHILDREN_MAX: usize = 12;

/// Radix tree of the path patterns of one host level.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    root: Option<Arc<Node<T>>>,
}

/// Buckets whose prefix a path begins with, shortest first.
pub(crate) type Prefixes<'a, T> = SmallVec<[&'a Bucket<T>; PREFIXES_INLINE]>;

#[derive(Debug)]
struct Node<T> {
    /// Bytes between the parent and this node; empty only in the root.
    edge: Box<[u8]>,
    /// Candidates with the prefix that ends here.
    bucket: Option<Bucket<T>>,
    /// First byte of each child's edge, in ascending order. Stored separately, so that the search
    /// reads one cache line instead of every child.
    first_bytes: SmallVec<[u8; 16]>,
    children: Vec<Arc<Node<T>>>,
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<T: Clone> Clone for Node<T> {
    fn clone(&self) -> Self {
        Self {
            edge: self.edge.clone(),
            bucket: self.bucket.clone(),
            first_bytes: self.first_bytes.clone(),
            children: self.children.clone(),
        }
    }
}

impl<T> Tree<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Adds every bucket whose prefix `path` begins with. Costs the length of the path.
    #[inline]
    pub(crate) fn prefixes_of<'a>(&'a self, path: &[u8], found: &mut Prefixes<'a, T>) {
        let Some(mut node) = self.root.as_deref() else { return };
        let mut rest = path;
        loop {
            if let Some(bucket) = &node.bucket {
                found.push(bucket);
            }
            let Some(child) = rest.first().and_then(|first| node.child(*first)) else { return };
            let edge = &*child.edge;
            // The first byte has been compared already, and many edges have only one.
            if edge.len() > 1 && !rest.starts_with(edge) {
                return;
            }
            (node, rest) = (child, &rest[edge.len()..]);
        }
    }
}

impl<T: Clone> Tree<T> {
    pub(crate) fn insert(&mut self, prefix: &[u8], candidate: Candidate<T>) {
        let root = self.root.get_or_insert_with(|| Arc::new(Node::leaf(Box::default())));
        Arc::make_mut(root).bucket_at(prefix).insert(candidate);
    }

    /// Removes every candidate of a route from the bucket of one prefix.
    pub(crate) fn remove(&mut self, prefix: &[u8], sequence: u64) {
        let Some(root) = &mut self.root else { return };
        if Arc::make_mut(root).remove(prefix, sequence) == Remainder::Nothing {
            self.root = None;
        }
    }
}

/// State of a node after a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remainder {
    Something,
    Nothing,
}

impl<T> Node<T> {
    fn leaf(edge: Box<[u8]>) -> Self {
        Self { edge, bucket: None, first_bytes: SmallVec::new(), children: Vec::new() }
    }

    #[inline]
    fn child(&self, first: u8) -> Option<&Node<T>> {
        let bytes = &*self.first_bytes;
        let index = if bytes.len() <= SCANNED_CHILDREN_MAX {
            bytes.iter().position(|byte| *byte == first)
        } else {
            memchr::memchr(first, bytes)
        };
        self.children.get(index?).map(Arc::as_ref)
    }
}

impl<T: Clone> Node<T> {
    /// Bucket of `prefix`, created if needed; shared nodes above it are copied.
    fn bucket_at(&mut self, prefix: &[u8]) -> &mut Bucket<T> {
        let mut node = self;
        let mut rest = prefix;
        while let Some(&first) = rest.first() {
            let index = match node.first_bytes.binary_search(&first) {
                Ok(index) => index,
                Err(index) => {
                    node.first_bytes.insert(index, first);
                    node.children.insert(index, Arc::new(Node::leaf(rest.into())));
                    index
                }
            };
            let child = Arc::make_mut(&mut node.children[index]);
            let shared = common_bytes(&child.edge, rest);
            if shared < child.edge.len() {
                child.split(shared);
            }
            (node, rest) = (child, &rest[shared..]);
        }
        node.bucket.get_or_insert_with(Bucket::default)
    }

    /// Splits the edge after `at` bytes; the content of the node moves one level down.
    fn split(&mut self, at: usize) {
        let (upper, lower) = self.edge.split_at(at);
        let upper = Node::leaf(upper.into());
        let lower = Box::from(lower);
        let mut below = std::mem::replace(self, upper);
        below.edge = lower;
        self.first_bytes.push(below.edge[0]);
        self.children.push(Arc::new(below));
    }

    /// Removes candidates of a route. The recursion is bounded by the length of a pattern, because
    /// every level consumes a byte.
    fn remove(&mut self, prefix: &[u8], sequence: u64) -> Remainder {
        if let Some(first) = prefix.first() {
            self.remove_below(*first, prefix, sequence);
        } else if let Some(bucket) = &mut self.bucket {
            bucket.remove(sequence);
            if bucket.is_empty() {
                self.bucket = None;
            }
        }
        if self.bucket.is_none() && self.children.is_empty() {
            return Remainder::Nothing;
        }
        Remainder::Something
    }

    fn remove_below(&mut self, first: u8, prefix: &[u8], sequence: u64) {
        let Ok(index) = self.first_bytes.binary_search(&first) else { return };
        let Some(rest) = prefix.strip_prefix(&*self.children[index].edge) else { return };
        let child = Arc::make_mut(&mut self.children[index]);
        if child.remove(rest, sequence) == Remainder::Nothing {
            self.first_bytes.remove(index);
            self.children.remove(index);
        } else if child.bucket.is_none() && child.children.len() == 1 {
            child.join_only_child();
        }
    }

    /// Merges the node with its only child, because a node without bucket and siblings is
    /// redundant.
    fn join_only_child(&mut self) {
        let Some(child) = self.children.pop() else { return };
        let mut child = Arc::unwrap_or_clone(child);
        child.edge = [&*self.edge, &*child.edge].concat().into();
        *self = child;
    }
}

fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    std::iter::zip(one, other).take_while(|(a, b)| a == b).count()
}
