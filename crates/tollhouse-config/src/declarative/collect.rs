//! Parts shared by both formats: the meaning of top-level keys, and the detection of duplicates.

use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::Value;
use tollhouse_model::{Id, Problem, Problems};
use tollhouse_stdx::nearest;

use super::key::{self, Head};
use super::{Document, Item, Kind, NOT_SERVED, Withheld, shenyu};

/// Space reserved for the index of an item in its path, in characters.
const INDEX_CHARS: usize = 6;

/// Meaning of a top-level key of the document.
pub(super) enum Key {
    /// List of objects of this kind.
    Items(Kind),
    /// Section with ShenYu's objects.
    Shenyu,
    /// Key without objects; an unknown one has been reported already.
    Ignored,
}

pub(super) struct Collector {
    document: Document,
    /// Index into the items by kind and id.
    seen: HashMap<(Kind, Id), usize>,
    lists_seen: Vec<Kind>,
}

impl Default for Collector {
    fn default() -> Self {
        let document = Document { shenyu: Some(Vec::new()), ..Document::default() };
        Self { document, seen: HashMap::new(), lists_seen: Vec::new() }
    }
}

impl Collector {
    /// Classifies a top-level key and reports unknown ones.
    pub(super) fn key(&mut self, name: &str) -> Key {
        if let Some(kind) = Kind::from_list_name(name) {
            if self.lists_seen.contains(&kind) {
                let problem = Problem::error(name, "duplicate key in the document");
                self.problem(problem.with_hint("the first list is used; join the two"));
                return Key::Ignored;
            }
            self.lists_seen.push(kind);
            return Key::Items(kind);
        }
        if name == shenyu::SECTION {
            return Key::Shenyu;
        }
        // Version numbers of lists belong to documents of the Admin API and are ignored in a file.
        if !name.ends_with("_conf_version") {
            self.problem(unserved_key(name));
        }
        Key::Ignored
    }

    pub(super) fn problem(&mut self, problem: Problem) {
        self.document.problems.push(problem);
    }

    pub(super) fn problems(&mut self, problems: Problems) {
        self.document.problems.extend(problems);
    }

    /// Adds the section of ShenYu's objects.
    pub(super) fn shenyu(&mut self, section: &Value) {
        self.document.shenyu = shenyu::read(section, &mut self.document.problems);
    }

    /// Marks the section of ShenYu's objects as withheld.
    pub(super) fn withhold_shenyu(&mut self) {
        self.document.shenyu = None;
    }

    /// Reports a section that is not an array, and withholds its kinds, so that their objects stay
    /// in service.
    pub(super) fn no_list(&mut self, list: Kind) {
        self.document.withheld_kinds.extend(key::kinds_in(list));
        let problem = Problem::error(list.plural(), "wrong type: expected array");
        self.problem(problem.with_hint("write one item a dash, or [] for none"));
    }

    /// Adds an item. An invalid or duplicate id is reported, and the item withheld.
    pub(super) fn item(&mut self, list: Kind, index: usize, head: &Head, text: &str) {
        let path = path_of(list, index);
        let found = key::parse(list, index, head, &path, &mut self.document.problems);
        let Some((kind, id)) = found else {
            self.withhold_unnamed(list, index, text);
            return;
        };
        let next = self.document.items.len();
        let first = *self.seen.entry((kind, id.clone())).or_insert(next);
        if first != next {
            let first = &self.document.items[first].path;
            let what = key::called(kind);
            let reason = format!("found duplicate {what} {id} in {list}: already used by {first}");
            let problem = Problem::error(path, reason);
            let hint = format!("the first one is used; give this one a different {what}");
            self.problem(problem.with_hint(hint));
            self.withhold_unnamed(list, index, text);
            return;
        }
        self.document.items.push(Item { kind, id, path, text: Arc::from(text) });
    }

    /// Reports an item that is not an object, and withholds it.
    pub(super) fn no_object(&mut self, list: Kind, index: usize) {
        let problem = Problem::error(path_of(list, index), "wrong type: expected object");
        self.problem(problem.with_hint("an item is a map of its fields"));
        self.withhold(list, index, &Head::default(), "null");
    }

    /// Withholds an item whose problems were reported; `rest` is the JSON text of its readable
    /// part.
    pub(super) fn withhold(&mut self, list: Kind, index: usize, head: &Head, rest: &str) {
        match key::parse(list, index, head, "", &mut Problems::new()) {
            Some((kind, id)) => self.push_withheld(kind, id, path_of(list, index), rest),
            None => self.withhold_unnamed(list, index, rest),
        }
    }

    /// Withholds an item whose id is invalid or taken, under an id from its index.
    fn withhold_unnamed(&mut self, list: Kind, index: usize, rest: &str) {
        // Plugin metadata is identified by the plugin's name alone.
        if list != Kind::PluginMetadata {
            self.push_withheld(list, key::id_from_place(index), path_of(list, index), rest);
        }
    }

    fn push_withheld(&mut self, kind: Kind, id: Id, path: String, rest: &str) {
        let position = self.document.items.len();
        self.document.withheld.push(Withheld { kind, id, position, path, rest: Arc::from(rest) });
    }

    pub(super) fn finish(self) -> Document {
        self.document
    }
}

/// Returns the path of an item, such as `routes[3]`.
pub(super) fn path_of(kind: Kind, index: usize) -> String {
    // Built for every item of every document; `format!` would take as long as finding the item.
    let mut path = String::with_capacity(kind.plural().len() + INDEX_CHARS + 2);
    path.push_str(kind.plural());
    path.push('[');
    path.push_str(&index.to_string());
    path.push(']');
    path
}

fn unserved_key(name: &str) -> Problem {
    if NOT_SERVED.contains(&name) {
        let problem = Problem::warning(name, format!("\"{name}\" is not served yet"));
        return problem.with_hint("it has no effect");
    }
    let known = Kind::lists().map(Kind::plural).chain([shenyu::SECTION]).chain(NOT_SERVED);
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!("it has no effect; did you mean \"{near}\"?"),
        None => {
            format!("it has no effect; known keys: {}", known.collect::<Vec<_>>().join(", "))
        }
    };
    Problem::warning(name, format!("unknown key \"{name}\"")).with_hint(hint)
}
