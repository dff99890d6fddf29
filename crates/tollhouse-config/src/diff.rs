//! Differences between two documents, found by comparing the text of their items without parsing
//! it.
//!
//! Costs one lookup and one comparison of bytes per item, regardless of its content.

use std::sync::Arc;

use hashbrown::HashMap;
use tollhouse_model::Id;

use crate::declarative::{Document, Item, Kind, Withheld};

/// State of a document for comparison: the text of each item, shared with the document, and its
/// position.
#[derive(Debug, Clone, Default)]
pub struct Fingerprints {
    items: HashMap<(Kind, Id), Fingerprint>,
    /// Items that the document withholds because they are invalid, if no earlier document had a
    /// valid version of them. The value is the readable part of the item.
    withheld: HashMap<(Kind, Id), Arc<str>>,
    /// Number of documents compared so far.
    documents: u64,
}

#[derive(Debug, Clone)]
struct Fingerprint {
    text: Arc<str>,
    position: usize,
    /// Numbers of the documents that added the item and that last changed it.
    created: u64,
    modified: u64,
}

/// Item as last accepted, with the numbers of the documents that created and changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRecord {
    pub id: Id,
    /// JSON text of the item.
    pub text: Arc<str>,
    /// Number of the document that added the item, from 1.
    pub created: u64,
    /// Number of the document in which the item last changed.
    pub modified: u64,
}

impl Fingerprints {
    /// Returns the state before any document; everything in the next one is new.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the state after a single document, the first.
    pub fn from_document(document: &Document) -> Self {
        Self::new().followed_by(document)
    }

    /// Returns the state after a further document. Items that the document withholds keep their
    /// former state.
    pub fn followed_by(&self, document: &Document) -> Self {
        let number = self.documents + 1;
        let print = |(position, item): (usize, &Item)| {
            let key = (item.kind, item.id.clone());
            let before = self.items.get(&key);
            let same = before.filter(|before| before.text == item.text);
            let print = Fingerprint {
                text: Arc::clone(&item.text),
                position,
                created: before.map_or(number, |before| before.created),
                modified: same.map_or(number, |before| before.modified),
            };
            (key, print)
        };
        let mut items: HashMap<_, _> = document.items.iter().enumerate().map(print).collect();
        let mut all_withheld = HashMap::new();
        for withheld in &document.withheld {
            let key = (withheld.kind, withheld.id.clone());
            if let Some(before) = self.items.get(&key) {
                let kept = Fingerprint { position: withheld.position, ..before.clone() };
                items.entry(key).or_insert(kept);
            } else if !items.contains_key(&key) {
                all_withheld.insert(key, Arc::clone(&withheld.rest));
            }
        }
        // If the list of a kind is unreadable, all of its objects keep their former state.
        for (key, before) in &self.items {
            if document.withheld_kinds.contains(&key.0) {
                items.insert(key.clone(), before.clone());
            }
        }
        for (key, rest) in &self.withheld {
            if document.withheld_kinds.contains(&key.0) {
                all_withheld.insert(key.clone(), Arc::clone(rest));
            }
        }
        Self { items, withheld: all_withheld, documents: number }
    }

    /// Returns the items of one kind, in the order of the document.
    pub fn items_by_kind(&self, kind: Kind) -> Vec<ItemRecord> {
        let mut items: Vec<_> = self.items.iter().filter(|((of, _), _)| *of == kind).collect();
        items.sort_by_key(|(_, print)| print.position);
        items.into_iter().map(|((_, id), print)| print.known(id)).collect()
    }

    pub fn get(&self, kind: Kind, id: &Id) -> Option<ItemRecord> {
        self.items.get(&(kind, id.clone())).map(|print| print.known(id))
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the document had no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Fingerprint {
    fn known(&self, id: &Id) -> ItemRecord {
        ItemRecord {
            id: id.clone(),
            text: Arc::clone(&self.text),
            created: self.created,
            modified: self.modified,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// New and changed items, in the order of the new document.
    pub upserts: Vec<Item>,
    /// Withheld items without a valid earlier version, unless the previous document withheld them
    /// with the same readable part; in the order of the new document.
    pub withheld: Vec<Withheld>,
    /// Removed items, in the order of the old document.
    pub deletes: Vec<(Kind, Id)>,
    /// Kinds that must be rebuilt in the order of the new document if order matters, as among
    /// routes of one path and priority. Applying `deletes` and `upserts` in place (a known id keeps
    /// its position, a new one goes last) would lead to another order. Kinds with items in
    /// `withheld` are included.
    pub rearranged: Vec<Kind>,
}

impl Changes {
    /// Whether the two documents are equivalent.
    pub fn is_empty(&self) -> bool {
        let Self { upserts, withheld, deletes, rearranged } = self;
        upserts.is_empty() && withheld.is_empty() && deletes.is_empty() && rearranged.is_empty()
    }
}

/// Compares a document with the state of an earlier one. A known item that the document withholds
/// counts as unchanged.
pub fn diff(old: &Fingerprints, new: &Document) -> Changes {
    let mut changes = Changes::default();
    let mut orders: HashMap<Kind, Order> = HashMap::new();
    let mut kept = 0;
    for item in &new.items {
        let order = orders.entry(item.kind).or_default();
        let before = old.items.get(&(item.kind, item.id.clone()));
        kept += usize::from(before.is_some());
        order.follow(before.map(|print| print.position));
        // If both share the same allocation, the comparison is immediate.
        let same = before.is_some_and(|print| print.text == item.text);
        if !same {
            changes.upserts.push(item.clone());
        }
    }
    let is_news = |it: &&Withheld| {
        let key = (it.kind, it.id.clone());
        !old.items.contains_key(&key) && old.withheld.get(&key) != Some(&it.rest)
    };
    changes.withheld = new.withheld.iter().filter(is_news).cloned().collect();
    if kept < old.items.len() || !old.withheld.is_empty() {
        changes.deletes = deletes(old, new);
    }
    let is_rearranged = |kind: &Kind| {
        let is_broken = orders.get(kind).is_some_and(|order| order.broken);
        is_broken || changes.withheld.iter().any(|withheld| withheld.kind == *kind)
    };
    changes.rearranged = Kind::ALL.into_iter().filter(is_rearranged).collect();
    changes
}

fn deletes(old: &Fingerprints, new: &Document) -> Vec<(Kind, Id)> {
    let present = old.followed_by(new);
    let gone = |key: &&(Kind, Id)| {
        !present.items.contains_key(*key) && !present.withheld.contains_key(*key)
    };
    let mut keys: Vec<&(Kind, Id)> =
        old.items.keys().chain(old.withheld.keys()).filter(gone).collect();
    // A withheld item has the position of the item after it; ties are ordered by key.
    keys.sort_by_key(|key| (old.items.get(*key).map(|print| print.position), *key));
    keys.into_iter().cloned().collect()
}

/// Tracks whether items of one kind are in the order that edits in place would produce.
#[derive(Default)]
struct Order {
    last_position: Option<usize>,
    new_seen: bool,
    broken: bool,
}

impl Order {
    fn follow(&mut self, position: Option<usize>) {
        let Some(position) = position else {
            self.new_seen = true;
            return;
        };
        self.broken |= self.new_seen || self.last_position.is_some_and(|last| position < last);
        self.last_position = Some(position);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::declarative::{Format, parse};

    fn document(routes: &[(&str, u32)]) -> Document {
        let items: Vec<_> =
            routes.iter().map(|(id, number)| json!({"id": id, "priority": number})).collect();
        let text = json!({"upstreams": [{"id": "a"}], "routes": items}).to_string();
        parse(&text, Format::Json, &|_| None).expect("it is a document")
    }

    fn described(changes: &Changes) -> String {
        let upserts: Vec<&str> = changes.upserts.iter().map(|item| item.id.as_str()).collect();
        let deletes: Vec<&str> = changes.deletes.iter().map(|(_, id)| id.as_str()).collect();
        format!("+{} -{} {:?}", upserts.join(","), deletes.join(","), changes.rearranged)
    }

    #[test]
    fn only_what_changed_is_named() {
        let base = [("a", 1), ("b", 1), ("c", 1)];
        let table = [
            (vec![("a", 1), ("b", 1), ("c", 1)], "+ - []"),
            (vec![("a", 1), ("b", 2), ("c", 1)], "+b - []"),
            (vec![("a", 1), ("b", 1), ("c", 1), ("d", 1)], "+d - []"),
            (vec![("c", 1)], "+ -a,b []"),
            (vec![], "+ -a,b,c []"),
            (vec![("d", 1), ("a", 1), ("b", 1), ("c", 1)], "+d - [Route]"),
            (vec![("b", 1), ("a", 1), ("c", 1)], "+ - [Route]"),
            (vec![("a", 1), ("d", 1), ("e", 2)], "+d,e -b,c []"),
        ];
        let old = Fingerprints::from_document(&document(&base));
        for (routes, expected) in table {
            assert_eq!(described(&diff(&old, &document(&routes))), expected, "{routes:?}");
        }
    }

    #[test]
    fn what_cannot_be_told_keeps_serving_until_it_is_deleted() {
        let parsed = |text: &str| parse(text, Format::Json, &|_| None).expect("it is a document");
        let good = r#"{"routes":[{"id":"a"},{"id":"b"}],"upstreams":[{"id":"u"}]}"#;
        let bad = r#"{"routes":[{"id":"a","uri":"${{NOT_SET}}"},{"id":"b"}],"upstreams":1}"#;
        let first = Fingerprints::from_document(&parsed(good));
        assert!(diff(&first, &parsed(bad)).is_empty());
        let second = first.followed_by(&parsed(bad));
        assert_eq!(second.len(), 3);
        assert!(diff(&second, &parsed(good)).is_empty());
        assert_eq!(described(&diff(&second, &parsed("{}"))), "+ -a,b,u []");
    }

    #[test]
    fn what_cannot_be_told_from_the_start_is_withheld_until_it_can_or_is_gone() {
        let lookup = |name: &str| (name == "SET").then(|| "/set".to_owned());
        let parsed = |text: &str| parse(text, Format::Json, &lookup).expect("it is a document");
        let told = |changes: &Changes| {
            let withheld = changes.withheld.iter();
            let withheld: Vec<_> =
                withheld.map(|it| format!("{}@{}: {}", it.id, it.position, it.rest)).collect();
            format!("{} !{}", described(changes), withheld.join(" "))
        };
        let route = |uri: &str| {
            format!(
                r#"{{"routes":[{{"id":"a"}},{{"id":"b","uri":"{uri}","host":"h"}},{{"id":"c"}}]}}"#
            )
        };
        let bad = parsed(&route("${{NOT_SET}}"));
        let first = diff(&Fingerprints::new(), &bad);
        let rest = r#"{"id":"b","uri":null,"host":"h"}"#;
        assert_eq!(told(&first), format!("+a,c - [Route] !b@1: {rest}"));
        let prints = Fingerprints::from_document(&bad);
        assert_eq!(prints.len(), 2, "it is nobody's object");
        assert!(diff(&prints, &bad).is_empty());
        assert_eq!(told(&diff(&prints, &parsed(&route("${{SET}}")))), "+b - [Route] !");
        let without = parsed(r#"{"routes":[{"id":"a"},{"id":"c"}]}"#);
        assert_eq!(told(&diff(&prints, &without)), "+ -b [] !");
        assert!(diff(&prints, &parsed(r#"{"routes":1}"#)).is_empty());
    }

    #[test]
    fn what_has_no_id_of_its_own_goes_by_its_place() {
        let parsed = |text: &str| parse(text, Format::Json, &|_| None).expect("it is a document");
        for (text, expected) in [
            (r#"{"routes":[{"id":"a"},{"id":"a","uri":"/b"}]}"#, r#"arr_2 {"id":"a","uri":"/b"}"#),
            (r#"{"routes":[{"id":"a/b","uri":"/"}]}"#, r#"arr_1 {"id":"a/b","uri":"/"}"#),
            (r#"{"routes":[{"id":"${{X}}"}]}"#, r#"arr_1 {"id":null}"#),
            (r#"{"routes":[7]}"#, "arr_1 null"),
            (r#"{"plugin_metadata":[{"uri":"/"}]}"#, ""),
        ] {
            let document = parsed(text);
            let withheld = document.withheld.iter().map(|it| format!("{} {}", it.id, it.rest));
            assert_eq!(withheld.collect::<Vec<_>>().join("; "), expected, "{text}");
        }
    }

    #[test]
    fn a_list_of_consumers_that_cannot_be_told_keeps_their_credentials_too() {
        let parsed = |text: &str| parse(text, Format::Json, &|_| None).expect("it is a document");
        let good = r#"{"consumers":[{"username":"a"},{"id":"a/credentials/c","plugins":{}}]}"#;
        let first = Fingerprints::from_document(&parsed(good));
        assert_eq!(first.len(), 2);
        assert!(diff(&first, &parsed(r#"{"consumers":1}"#)).is_empty());
        assert_eq!(described(&diff(&first, &parsed("{}"))), "+ -a,a/credentials/c []");
        let without = parsed(r#"{"consumers":[{"username":"a"}]}"#);
        assert_eq!(described(&diff(&first, &without)), "+ -a/credentials/c []");
    }

    #[test]
    fn what_is_remembered_tells_which_document_brought_and_changed_it() {
        let mut prints = Fingerprints::new();
        for routes in [vec![("a", 1), ("b", 1)], vec![("b", 2), ("a", 1)], vec![("c", 1), ("b", 2)]]
        {
            prints = prints.followed_by(&document(&routes));
        }
        let known = prints.items_by_kind(Kind::Route).into_iter();
        let told: Vec<_> =
            known.map(|it| (it.id.as_str().to_owned(), it.created, it.modified)).collect();
        assert_eq!(told, [("c".to_owned(), 3, 3), ("b".to_owned(), 1, 2)]);
        assert_eq!(prints.get(Kind::Route, &Id::new("a")), None);
        let upstream = prints.get(Kind::Upstream, &Id::new("a")).expect("it is in all documents");
        assert_eq!((&*upstream.text, upstream.modified), (r#"{"id":"a"}"#, 1));
    }

    #[test]
    fn against_nothing_everything_is_new() {
        let changes = diff(&Fingerprints::new(), &document(&[("a", 1)]));
        assert_eq!(described(&changes), "+a,a - []");
        assert!(!changes.is_empty());
    }

    /// Applies deletes first, then upserts; an upsert of a known id keeps its position.
    fn apply(mut routes: Vec<(Id, Arc<str>)>, changes: &Changes) -> Vec<(Id, Arc<str>)> {
        routes.retain(|(id, _)| !changes.deletes.contains(&(Kind::Route, id.clone())));
        for item in changes.upserts.iter().filter(|item| item.kind == Kind::Route) {
            match routes.iter_mut().find(|(id, _)| *id == item.id) {
                Some(place) => place.1 = Arc::clone(&item.text),
                None => routes.push((item.id.clone(), Arc::clone(&item.text))),
            }
        }
        routes
    }

    fn routes_of(document: &Document) -> Vec<(Id, Arc<str>)> {
        let routes = document.items.iter().filter(|item| item.kind == Kind::Route);
        routes.map(|item| (item.id.clone(), Arc::clone(&item.text))).collect()
    }

    proptest! {
        #[test]
        fn changes_lead_from_one_document_to_the_other(
            old in prop::collection::vec(("[a-f]", 0u32..3), 0..6),
            new in prop::collection::vec(("[a-f]", 0u32..3), 0..6),
        ) {
            // Of two items with one id the second would be withheld, which this test does not
            // cover.
            let borrowed = |routes: &[(String, u32)]| -> Document {
                let mut seen = hashbrown::HashSet::new();
                let new = routes.iter().filter(|(id, _)| seen.insert(id.clone()));
                let routes: Vec<(&str, u32)> =
                    new.map(|(id, number)| (id.as_str(), *number)).collect();
                document(&routes)
            };
            let (old, new) = (borrowed(&old), borrowed(&new));
            let changes = diff(&Fingerprints::from_document(&old), &new);
            let (mut found, mut expected) = (apply(routes_of(&old), &changes), routes_of(&new));
            let in_order = found == expected;
            prop_assert_eq!(in_order, changes.rearranged.is_empty());
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
