//! Detection of references to missing objects in a store, and of objects without references in a store
//! or document. The Admin API refuses to create the former, but external writers of the store have no
//! such check. The data plane decides how it answers requests for such an object.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::{HashMap, HashSet};
use tollhouse_admin::named_objects;
use tollhouse_model::{Id, Kind, Problem};
use tollhouse_proxy::Change;

/// Path of an object, as `routes/1`.
type Path = Box<str>;

/// Kinds whose objects have an effect only through others.
const USED_BY_OTHERS: [&str; 4] =
    ["upstreams/", "services/", "plugin_configs/", "consumer_groups/"];

/// Limit of unused objects that are listed.
const UNUSED_LISTED_MAX: usize = 5;

/// Objects that no other refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unused {
    pub count: usize,
    /// First of them, such as `upstreams/1`.
    pub first: Vec<String>,
}

/// References between objects, with the dangling ones.
#[derive(Debug, Default)]
pub struct Dangling {
    objects: HashSet<Path>,
    /// Objects that each object refers to.
    named: HashMap<Path, Vec<Path>>,
    /// Objects that refer to each object, whether it exists or not.
    naming: HashMap<Path, HashSet<Path>>,
    /// Problems by referring object and missing object.
    problems: BTreeMap<(Path, Path), Problem>,
    /// Objects that no other refers to, of kinds that are used by others.
    unused: BTreeSet<Path>,
    missing: Missing,
    version: u64,
}

/// Treatment of references to missing objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    Reported,
    /// The reader of documents has reported them.
    AlreadyReported,
}

impl Dangling {
    /// Records changes. Each costs as much as the references from and to its object.
    pub fn note(&mut self, changes: &[Change]) {
        changes.iter().for_each(|change| self.note_one(change));
    }

    /// Records a change of a document, whose missing objects were reported when it was read.
    pub fn note_of_document(&mut self, change: &Change) {
        self.missing = Missing::AlreadyReported;
        self.note_one(change);
    }

    /// Records one change.
    pub fn note_one(&mut self, change: &Change) {
        match change {
            Change::Upsert { kind, id, value, .. } => {
                let path = path_of(*kind, id);
                let named = value.as_ref().map(named_objects).unwrap_or_default();
                self.put(path, named);
            }
            Change::Withheld { kind, id, rest, .. } => {
                self.put(path_of(*kind, id), named_objects(rest));
            }
            Change::Delete { kind, id } => self.remove(&path_of(*kind, id)),
            Change::Move { .. } | Change::Shenyu(_) => {}
        }
    }

    /// Returns the problem of each dangling reference.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.values()
    }

    /// Objects that have no effect, because no other refers to them.
    pub fn unused(&self) -> Unused {
        let first = self.unused.iter().take(UNUSED_LISTED_MAX);
        Unused { count: self.unused.len(), first: first.map(|path| path.to_string()).collect() }
    }

    /// Number that changes whenever the problems change.
    pub fn version(&self) -> u64 {
        self.version
    }

    fn put(&mut self, path: Path, named: Vec<String>) {
        self.forget_named(&path);
        if self.objects.insert(path.clone()) {
            self.note_use(&path);
            let naming = self.naming.get(&path).into_iter().flatten().cloned().collect::<Vec<_>>();
            for from in naming {
                self.found(from, path.clone());
            }
        }
        let mut targets: Vec<Path> = named.into_iter().map(String::into_boxed_str).collect();
        targets.sort_unstable();
        targets.dedup();
        for target in &targets {
            self.naming.entry(target.clone()).or_default().insert(path.clone());
            self.note_use(target);
            if !self.objects.contains(target) {
                self.missed(path.clone(), target.clone());
            }
        }
        if !targets.is_empty() {
            self.named.insert(path, targets);
        }
    }

    fn remove(&mut self, path: &str) {
        self.forget_named(path);
        if !self.objects.remove(path) {
            return;
        }
        self.unused.remove(path);
        let naming = self.naming.get(path).into_iter().flatten().cloned().collect::<Vec<_>>();
        for from in naming {
            self.missed(from, path.into());
        }
    }

    fn forget_named(&mut self, path: &str) {
        for target in self.named.remove(path).unwrap_or_default() {
            if let Some(naming) = self.naming.get_mut(&target) {
                naming.remove(path);
                if naming.is_empty() {
                    self.naming.remove(&target);
                }
            }
            self.note_use(&target);
            self.found(path.into(), target);
        }
    }

    /// Notes whether an object is used by others.
    fn note_use(&mut self, path: &str) {
        let is_unused = self.objects.contains(path)
            && !self.naming.contains_key(path)
            && USED_BY_OTHERS.iter().any(|kind| path.starts_with(kind));
        match is_unused {
            true => drop(self.unused.insert(path.into())),
            false => drop(self.unused.remove(path)),
        }
    }

    fn missed(&mut self, from: Path, target: Path) {
        if self.missing == Missing::AlreadyReported {
            return;
        }
        let problem = Problem::error(&*from, format!("refers to {target}, which does not exist"))
            .with_hint("create that object, or refer to another one");
        self.problems.insert((from, target), problem);
        self.version += 1;
    }

    fn found(&mut self, from: Path, target: Path) {
        if self.problems.remove(&(from, target)).is_some() {
            self.version += 1;
        }
    }
}

fn path_of(kind: Kind, id: &Id) -> Path {
    format!("{kind}/{id}").into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn put(kind: Kind, id: &str, value: Value) -> Change {
        Change::Upsert { kind, id: Id::new(id), value: Ok(value), path: String::new() }
    }

    fn delete(kind: Kind, id: &str) -> Change {
        Change::Delete { kind, id: Id::new(id) }
    }

    #[test]
    fn objects_that_no_other_names_are_unused() {
        let mut dangling = Dangling::default();
        for (change, expected) in [
            (put(Kind::Upstream, "7", json!({})), "upstreams/7"),
            (put(Kind::Service, "s", json!({"upstream_id": "7"})), "services/s"),
            (put(Kind::Route, "1", json!({"service_id": "s"})), ""),
            (put(Kind::Service, "s", json!({})), "upstreams/7"),
            (delete(Kind::Route, "1"), "services/s, upstreams/7"),
            (delete(Kind::Upstream, "7"), "services/s"),
            (delete(Kind::Service, "s"), ""),
        ] {
            dangling.note(&[change]);
            let unused = dangling.unused();
            assert_eq!(unused.first.join(", "), expected);
            assert_eq!(unused.count, unused.first.len());
        }
    }

    #[test]
    fn documents_are_asked_for_unused_objects_only() {
        let mut dangling = Dangling::default();
        dangling.note_of_document(&put(Kind::Upstream, "7", json!({})));
        dangling.note_of_document(&put(Kind::Route, "1", json!({"upstream_id": "missing"})));
        assert_eq!((dangling.problems().count(), dangling.unused().count), (0, 1));
        // An object that cannot be read still refers to others.
        let rest = json!({"uri": null, "upstream_id": "7"});
        let id = Id::new("2");
        dangling.note_of_document(&Change::Withheld {
            kind: Kind::Route,
            id,
            rest,
            path: String::new(),
        });
        assert_eq!(dangling.unused().count, 0);
    }

    #[test]
    fn what_leads_nowhere_is_named_for_as_long_as_it_does() {
        let mut dangling = Dangling::default();
        let steps = [
            (put(Kind::Route, "1", json!({"upstream_id": 7})), "routes/1 upstreams/7"),
            (put(Kind::Upstream, "7", json!({})), ""),
            (
                put(Kind::Route, "2", json!({"upstream_id": "7", "service_id": "s"})),
                "routes/2 services/s",
            ),
            (
                delete(Kind::Upstream, "7"),
                "routes/1 upstreams/7, routes/2 services/s, routes/2 upstreams/7",
            ),
            (
                put(Kind::Route, "1", json!({"uri": "/"})),
                "routes/2 services/s, routes/2 upstreams/7",
            ),
            (
                put(Kind::Service, "s", json!({"upstream_id": "u"})),
                "routes/2 upstreams/7, services/s upstreams/u",
            ),
            (delete(Kind::Route, "2"), "services/s upstreams/u"),
            (delete(Kind::Service, "s"), ""),
        ];
        let mut version = dangling.version();
        for (change, expected) in steps {
            dangling.note(&[change]);
            let found: Vec<_> =
                dangling.problems.keys().map(|(from, target)| format!("{from} {target}")).collect();
            assert_eq!(found.join(", "), expected);
            assert_ne!(std::mem::replace(&mut version, dangling.version()), dangling.version());
        }
        assert!(dangling.naming.is_empty() && dangling.named.is_empty());
    }
}
