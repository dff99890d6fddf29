//! The tree against a list of prefixes, and what a change copies.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollhouse_model::Id;

use super::*;
use crate::bucket::Origin;
use crate::pattern::Rest;
use crate::spec::RouteSpec;

fn candidate(prefix: &str, number: u64) -> Candidate<u64> {
    let spec = RouteSpec {
        uris: vec![format!("{prefix}*")],
        hosts: Vec::new(),
        methods: None,
        remote_addrs: Vec::new(),
        vars: None,
        filter: None,
        priority: 0,
    };
    let id = Id::new(number.to_string());
    let origin = Arc::new(Origin { id, spec, value: number, sequence: number });
    let rest = Rest::Anything(0);
    Candidate { value: number, conditions: None, rest, origin, uri: 0, host: None }
}

/// Numbers of all candidates, longest prefix first.
fn found(tree: &Tree<u64>, path: &str) -> Vec<u64> {
    let mut prefixes = Prefixes::new();
    tree.prefixes_of(path.as_bytes(), &mut prefixes);
    let buckets = prefixes.into_iter().rev();
    buckets.flat_map(|bucket| bucket.candidates().iter().map(|held| held.value)).collect()
}

/// How many nodes of `tree` are not those of `before`.
fn copied_nodes(tree: &Tree<u64>, before: &Tree<u64>) -> usize {
    fn all(node: &Arc<Node<u64>>, into: &mut Vec<*const Node<u64>>) {
        into.push(Arc::as_ptr(node));
        node.children.iter().for_each(|child| all(child, into));
    }
    let (mut now, mut then) = (Vec::new(), Vec::new());
    tree.root.iter().for_each(|root| all(root, &mut now));
    before.root.iter().for_each(|root| all(root, &mut then));
    then.sort_unstable();
    now.iter().filter(|node| then.binary_search(node).is_err()).count()
}

#[test]
fn prefixes_come_longest_first() {
    let mut tree = Tree::default();
    for (number, prefix) in ["/", "/api/", "/api", "/api/v1/", ""].into_iter().enumerate() {
        tree.insert(prefix.as_bytes(), candidate(prefix, number as u64));
    }
    assert_eq!(found(&tree, "/api/v1/users"), [3, 1, 2, 0, 4]);
    assert_eq!(found(&tree, "/api/v"), [1, 2, 0, 4]);
    assert_eq!(found(&tree, "/apx"), [0, 4]);
    assert_eq!(found(&tree, "x"), [4]);
    assert_eq!(found(&tree, ""), [4]);
}

#[test]
fn a_change_among_many_copies_only_the_nodes_above_it() {
    let mut tree = Tree::default();
    for number in 0..100_000 {
        let prefix = format!("/api/v1/users/{number}/");
        tree.insert(prefix.as_bytes(), candidate(&prefix, number));
    }
    let before = tree.clone();
    let mut after = tree.clone();
    after.insert(b"/api/v1/users/54321/orders/", candidate("x", 1_000_000));
    assert!(copied_nodes(&after, &before) <= 10, "{}", copied_nodes(&after, &before));
    let mut after = tree.clone();
    after.remove(b"/api/v1/users/54321/", 54_321);
    assert!(copied_nodes(&after, &before) <= 10, "{}", copied_nodes(&after, &before));
    assert_eq!(found(&after, "/api/v1/users/54321/"), [] as [u64; 0]);
    assert_eq!(found(&before, "/api/v1/users/54321/"), [54_321]);
    assert_eq!(copied_nodes(&tree, &before), 0);
}

#[test]
fn an_unrelated_bucket_stays_shared() {
    let mut tree = Tree::default();
    tree.insert(b"/a/", candidate("/a/", 1));
    tree.insert(b"/b/", candidate("/b/", 2));
    let mut after = tree.clone();
    after.insert(b"/a/", candidate("/a/", 3));
    let bucket = |tree: &Tree<u64>, path: &[u8]| {
        let mut prefixes = Prefixes::new();
        tree.prefixes_of(path, &mut prefixes);
        prefixes.pop().cloned().expect("a bucket of this prefix")
    };
    assert!(bucket(&tree, b"/b/").is_shared_with(&bucket(&after, b"/b/")));
    assert!(!bucket(&tree, b"/a/").is_shared_with(&bucket(&after, b"/a/")));
}

#[test]
fn prefixes_nested_as_deep_as_patterns_are_long_fit_the_stack() {
    let long = "a".repeat(tollhouse_model::limits::ROUTE_URI_CHARS_MAX);
    let mut tree = Tree::default();
    for length in 1..=long.len() {
        tree.insert(&long.as_bytes()[..length], candidate("", length as u64));
    }
    assert_eq!(found(&tree, &long).len(), long.len());
    let shared = tree.clone();
    for length in (1..=long.len()).rev() {
        tree.remove(&long.as_bytes()[..length], length as u64);
    }
    assert!(tree.is_empty());
    drop(shared);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_version_finds_what_a_list_finds(
        steps in prop::collection::vec((any::<bool>(), "[ab/]{0,5}"), 1..80),
        paths in prop::collection::vec("[ab/]{0,8}", 8),
    ) {
        let mut tree = Tree::default();
        let mut list: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut versions = Vec::new();
        for (number, (is_insertion, prefix)) in steps.into_iter().enumerate() {
            let number = number as u64;
            if is_insertion {
                tree.insert(prefix.as_bytes(), candidate(&prefix, number));
                list.entry(prefix).or_default().push(number);
            } else if let Some(held) = list.remove(&prefix) {
                held.iter().for_each(|number| tree.remove(prefix.as_bytes(), *number));
            } else {
                tree.remove(prefix.as_bytes(), number);
            }
            if number.is_multiple_of(16) {
                versions.push((tree.clone(), list.clone()));
            }
        }
        versions.push((tree, list));
        for (tree, list) in &versions {
            prop_assert_eq!(tree.is_empty(), list.is_empty());
            for path in &paths {
                let prefixes = (0..=path.len()).rev().filter_map(|length| list.get(&path[..length]));
                let expected: Vec<u64> = prefixes.flatten().copied().collect();
                prop_assert_eq!(found(tree, path), expected, "{}", path);
            }
        }
    }
}
