//! Sorted views of collections, by name, host, change and so on. A view is built in parts when it
//! is first requested, then kept up to date, so that a page needs no sorting. Only a few are kept;
//! the least recently used is dropped.

use std::collections::BTreeSet;
use std::ops::Bound;

use tollhouse_store::Revision;

use super::collections::Creation;
use super::facts::Listed;

/// Limit of views, enough for the lists that a team has open. Each needs about 100 bytes per
/// object.
const ORDERS_MAX: usize = 4;

/// Limit of the sort key's text in bytes: the part that a list shows.
const KEY_BYTES_MAX: usize = 48;

/// Separator of sort key and path; neither contains it.
const SEPARATOR: char = '\0';

/// Field by which a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortBy {
    Id,
    Name,
    Host,
    Uri,
    /// Disabled or not; enabled objects come first.
    Status,
    /// Number of plugins of the object.
    Plugins,
    Created,
    Changed,
}

/// Views of collections, sorted by other fields than the id.
#[derive(Default)]
pub(super) struct Orders {
    kept: Vec<Order>,
    asked: u64,
}

struct Order {
    collection: Box<str>,
    by: SortBy,
    /// Sort key and path of each object.
    entries: BTreeSet<Box<str>>,
    /// Last object of the collection that was added; `None` before the first.
    made_to: Option<Creation>,
    is_whole: bool,
    /// Number of the last request for this view; the view with the smallest number is dropped
    /// first.
    asked: u64,
}

/// An object with all data for sorting.
#[derive(Clone, Copy)]
pub(super) struct Ordered<'a> {
    pub(super) path: &'a str,
    pub(super) listed: &'a Listed,
    pub(super) created: Revision,
    pub(super) changed: Revision,
}

impl SortBy {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Id, "id"),
        (Self::Name, "name"),
        (Self::Host, "host"),
        (Self::Uri, "uri"),
        (Self::Status, "status"),
        (Self::Plugins, "plugins"),
        (Self::Created, "created"),
        (Self::Changed, "changed"),
    ];

    /// The sort key with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(by, _)| *by)
    }

    /// Names of all sort keys, separated by commas.
    pub(crate) fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }

    fn key_of(self, object: Ordered<'_>) -> Box<str> {
        let Ordered { path, listed, created, changed } = object;
        let id = path.split_once('/').map_or(path, |(_, id)| id);
        let first = |texts: &[Box<str>]| text_key(texts.first().map_or("", |text| &**text));
        let key = match self {
            Self::Id => String::new(),
            Self::Name => text_key(listed.name.as_deref().unwrap_or(id)),
            Self::Host => first(&listed.hosts),
            Self::Uri => first(&listed.uris),
            Self::Status => u8::from(listed.is_off).to_string(),
            Self::Plugins => format!("{:05}", listed.plugins.len()),
            Self::Created => format!("{:020}", created.0),
            Self::Changed => format!("{:020}", changed.0),
        };
        format!("{key}{SEPARATOR}{path}").into()
    }
}

/// Sort key of a text: in lower case, and cut to `KEY_BYTES_MAX`.
fn text_key(text: &str) -> String {
    let mut key = text.to_lowercase().replace(SEPARATOR, " ");
    let end = (0..=KEY_BYTES_MAX.min(key.len())).rev().find(|at| key.is_char_boundary(*at));
    key.truncate(end.unwrap_or_default());
    key
}

impl Orders {
    pub(super) fn insert(&mut self, collections: &[&str], object: Ordered<'_>) {
        for order in self.kept.iter_mut().filter(|it| collections.contains(&&*it.collection)) {
            order.entries.insert(order.by.key_of(object));
        }
    }

    pub(super) fn remove(&mut self, collections: &[&str], object: Ordered<'_>) {
        for order in self.kept.iter_mut().filter(|it| collections.contains(&&*it.collection)) {
            order.entries.remove(&order.by.key_of(object));
        }
    }

    fn find(&self, collection: &str, by: SortBy) -> Option<&Order> {
        self.kept.iter().find(|it| it.by == by && *it.collection == *collection)
    }

    /// Creates a view if it is missing. Returns `Ok` if it is complete, else the last object that
    /// was added.
    pub(super) fn progress(
        &mut self,
        collection: &str,
        by: SortBy,
    ) -> Result<(), Option<Creation>> {
        self.asked += 1;
        let is_it = |it: &Order| it.by == by && *it.collection == *collection;
        if let Some(order) = self.kept.iter_mut().find(|it| is_it(it)) {
            order.asked = self.asked;
            return if order.is_whole { Ok(()) } else { Err(order.made_to.clone()) };
        }
        if self.kept.len() == ORDERS_MAX {
            let oldest = self.kept.iter().enumerate().min_by_key(|(_, order)| order.asked);
            if let Some((at, _)) = oldest {
                self.kept.swap_remove(at);
            }
        }
        self.kept.push(Order {
            collection: collection.into(),
            by,
            entries: BTreeSet::new(),
            made_to: None,
            is_whole: false,
            asked: self.asked,
        });
        Err(None)
    }

    /// Adds a part of a collection, up to `last`; without `last` the view is complete.
    pub(super) fn extend<'o>(
        &mut self,
        (collection, by): (&str, SortBy),
        objects: impl Iterator<Item = Ordered<'o>>,
        last: Option<Creation>,
    ) {
        let is_it = |it: &&mut Order| it.by == by && *it.collection == *collection;
        let Some(order) = self.kept.iter_mut().find(is_it) else { return };
        order.entries.extend(objects.map(|object| by.key_of(object)));
        match last {
            Some(last) => order.made_to = Some(last),
            None => order.is_whole = true,
        }
    }

    /// Paths of a collection in sort order, optionally only those after `last`, each with its
    /// position.
    pub(super) fn after<'o>(
        &'o self,
        (collection, by): (&str, SortBy),
        last: Option<&'o str>,
        is_descending: bool,
    ) -> Box<dyn Iterator<Item = (&'o str, &'o str)> + 'o> {
        let entries = self.find(collection, by).map(|order| &order.entries);
        let path =
            |entry: &'o str| (entry, entry.rsplit_once(SEPARATOR).map_or("", |(_, path)| path));
        let Some(entries) = entries else { return Box::new(std::iter::empty()) };
        if is_descending {
            let end = last.map_or(Bound::Unbounded, Bound::Excluded);
            return Box::new(
                entries.range::<str, _>((Bound::Unbounded, end)).rev().map(move |it| path(it)),
            );
        }
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        Box::new(entries.range::<str, _>((start, Bound::Unbounded)).map(move |it| path(it)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str) -> Listed {
        Listed { name: Some(name.into()), ..Listed::default() }
    }

    fn object<'a>(path: &'a str, listed: &'a Listed) -> Ordered<'a> {
        Ordered { path, listed, created: Revision(1), changed: Revision(1) }
    }

    fn paths(orders: &Orders, by: SortBy, is_descending: bool) -> Vec<&str> {
        orders.after(("routes", by), None, is_descending).map(|(_, path)| path).collect()
    }

    #[test]
    fn an_order_follows_what_comes_while_it_is_made_and_after() {
        let mut orders = Orders::default();
        let (a, b, c) = (listed("Beta"), listed("alpha"), listed("gamma"));
        assert_eq!(orders.progress("routes", SortBy::Name), Err(None));
        let creation: Creation = (Revision(1), "routes/1".into());
        let part = std::iter::once(object("routes/1", &a));
        orders.extend(("routes", SortBy::Name), part, Some(creation.clone()));
        orders.insert(&["routes"], object("routes/3", &c));
        orders.insert(&["services"], object("services/3", &c));
        assert_eq!(orders.progress("routes", SortBy::Name), Err(Some(creation)));
        let part = [object("routes/2", &b), object("routes/3", &c)].into_iter();
        orders.extend(("routes", SortBy::Name), part, None);
        assert_eq!(orders.progress("routes", SortBy::Name), Ok(()));
        assert_eq!(paths(&orders, SortBy::Name, false), ["routes/2", "routes/1", "routes/3"]);
        assert_eq!(paths(&orders, SortBy::Name, true), ["routes/3", "routes/1", "routes/2"]);
        orders.remove(&["routes"], object("routes/1", &a));
        assert_eq!(paths(&orders, SortBy::Name, false), ["routes/2", "routes/3"]);
        let second = orders.after(("routes", SortBy::Name), None, false).next().map(|it| it.0);
        let rest = orders.after(("routes", SortBy::Name), second, false).map(|(_, path)| path);
        assert_eq!(rest.collect::<Vec<_>>(), ["routes/3"]);
    }

    #[test]
    fn few_orders_are_kept_and_the_least_asked_for_goes() {
        let mut orders = Orders::default();
        let by = [SortBy::Id, SortBy::Name, SortBy::Host, SortBy::Uri, SortBy::Changed];
        for by in by {
            let _ = orders.progress("routes", by);
            orders.extend(("routes", by), std::iter::empty(), None);
            assert_eq!(orders.progress("routes", SortBy::Id), Ok(()));
        }
        assert_eq!(orders.kept.len(), ORDERS_MAX);
        assert_eq!(orders.progress("routes", SortBy::Name), Err(None), "it has made room");
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(text_key("Ab\0c"), "ab c");
        assert_eq!(text_key(&"路".repeat(40)), "路".repeat(16));
    }
}
