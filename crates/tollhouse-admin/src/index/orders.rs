//! Sorted views of collections, by name, host, change and so on. A view is built in parts when it
//! is first requested, then kept up to date, so that a page needs no sorting. Only a few are kept;
//! the least recently used is dropped.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::Revisions;
use super::collections::Creation;
use super::facts::ListFields;

/// Maximum number of views: enough for the lists that a team has open. Each view needs about 100
/// bytes per object.
const ORDERS_MAX: usize = 4;

/// Maximum length in bytes of the text in a sort key: the part that a list shows.
const KEY_BYTES_MAX: usize = 48;

/// Separator between sort key and path in an entry of a view; neither contains this character.
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
    views: Vec<Order>,
    /// Number of requests for views so far, which orders the views by their last use.
    requests: u64,
}

struct Order {
    collection: Box<str>,
    by: SortBy,
    /// Sort key and path of each object.
    entries: BTreeSet<Box<str>>,
    /// Last object of the collection that was added; `None` before the first.
    last_added: Option<Creation>,
    is_whole: bool,
    /// Number of the last request for this view; the view with the smallest number is dropped
    /// first.
    last_request: u64,
}

/// Collection and sort key, which identify a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderKey<'a> {
    pub(crate) collection: &'a str,
    pub(crate) by: SortBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

/// Object with all data that sort keys need.
#[derive(Clone, Copy)]
pub(super) struct Sortable<'a> {
    pub(super) path: &'a str,
    pub(super) fields: &'a ListFields,
    pub(super) revisions: Revisions,
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

    /// Returns the sort key with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, text)| *text == name).map(|(by, _)| *by)
    }

    /// Returns the names of all sort keys, separated by commas.
    pub(crate) fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }

    fn key_of(self, object: Sortable<'_>) -> Box<str> {
        let Sortable { path, fields, revisions } = object;
        let id = path.split_once('/').map_or(path, |(_, id)| id);
        let first = |texts: &[Box<str>]| text_key(texts.first().map_or("", |text| &**text));
        let key = match self {
            Self::Id => String::new(),
            Self::Name => text_key(fields.name.as_deref().unwrap_or(id)),
            Self::Host => first(&fields.hosts),
            Self::Uri => first(&fields.uris),
            Self::Status => u8::from(fields.is_off).to_string(),
            Self::Plugins => format!("{:05}", fields.plugins.len()),
            Self::Created => format!("{:020}", revisions.created.0),
            Self::Changed => format!("{:020}", revisions.changed.0),
        };
        format!("{key}{SEPARATOR}{path}").into()
    }
}

/// Returns the sort key of a text: in lower case, and truncated to `KEY_BYTES_MAX`.
fn text_key(text: &str) -> String {
    let mut key = text.to_lowercase().replace(SEPARATOR, " ");
    let end = (0..=KEY_BYTES_MAX.min(key.len())).rev().find(|at| key.is_char_boundary(*at));
    key.truncate(end.unwrap_or_default());
    key
}

impl Order {
    fn has(&self, key: OrderKey<'_>) -> bool {
        self.by == key.by && *self.collection == *key.collection
    }
}

impl Orders {
    pub(super) fn insert(&mut self, collections: &[&str], object: Sortable<'_>) {
        for order in self.views.iter_mut().filter(|it| collections.contains(&&*it.collection)) {
            order.entries.insert(order.by.key_of(object));
        }
    }

    pub(super) fn remove(&mut self, collections: &[&str], object: Sortable<'_>) {
        for order in self.views.iter_mut().filter(|it| collections.contains(&&*it.collection)) {
            order.entries.remove(&order.by.key_of(object));
        }
    }

    fn find(&self, key: OrderKey<'_>) -> Option<&Order> {
        self.views.iter().find(|it| it.has(key))
    }

    /// Creates the view if it is missing. Returns `Ok` if the view is complete, otherwise the last
    /// object that was added to it.
    pub(super) fn progress(&mut self, key: OrderKey<'_>) -> Result<(), Option<Creation>> {
        self.requests += 1;
        if let Some(order) = self.views.iter_mut().find(|it| it.has(key)) {
            order.last_request = self.requests;
            return if order.is_whole { Ok(()) } else { Err(order.last_added.clone()) };
        }
        if self.views.len() == ORDERS_MAX {
            let oldest = self.views.iter().enumerate().min_by_key(|(_, order)| order.last_request);
            if let Some((at, _)) = oldest {
                self.views.swap_remove(at);
            }
        }
        self.views.push(Order {
            collection: key.collection.into(),
            by: key.by,
            entries: BTreeSet::new(),
            last_added: None,
            is_whole: false,
            last_request: self.requests,
        });
        Err(None)
    }

    /// Adds a part of a collection to a view, up to `last`; without `last` the view is complete.
    pub(super) fn extend<'o>(
        &mut self,
        key: OrderKey<'_>,
        objects: impl Iterator<Item = Sortable<'o>>,
        last: Option<Creation>,
    ) {
        let Some(order) = self.views.iter_mut().find(|it| it.has(key)) else { return };
        order.entries.extend(objects.map(|object| key.by.key_of(object)));
        match last {
            Some(last) => order.last_added = Some(last),
            None => order.is_whole = true,
        }
    }

    /// Iterates over the paths of a collection in the order of a view, optionally only those after
    /// `last`. Each comes with its position.
    pub(super) fn after<'o>(
        &'o self,
        key: OrderKey<'_>,
        direction: Direction,
        last: Option<&'o str>,
    ) -> Box<dyn Iterator<Item = (&'o str, &'o str)> + 'o> {
        let entries = self.find(key).map(|order| &order.entries);
        let path = |entry: &'o Box<str>| {
            (&**entry, entry.rsplit_once(SEPARATOR).map_or("", |(_, path)| path))
        };
        let Some(entries) = entries else { return Box::new(std::iter::empty()) };
        let bound = last.map_or(Bound::Unbounded, Bound::Excluded);
        match direction {
            Direction::Ascending => {
                Box::new(entries.range::<str, _>((bound, Bound::Unbounded)).map(path))
            }
            Direction::Descending => {
                Box::new(entries.range::<str, _>((Bound::Unbounded, bound)).rev().map(path))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_store::Revision;

    use super::*;

    fn named(name: &str) -> ListFields {
        ListFields { name: Some(name.into()), ..ListFields::default() }
    }

    fn object<'a>(path: &'a str, fields: &'a ListFields) -> Sortable<'a> {
        let revisions = Revisions { created: Revision(1), changed: Revision(1) };
        Sortable { path, fields, revisions }
    }

    fn routes(by: SortBy) -> OrderKey<'static> {
        OrderKey { collection: "routes", by }
    }

    fn paths(orders: &Orders, by: SortBy, direction: Direction) -> Vec<&str> {
        orders.after(routes(by), direction, None).map(|(_, path)| path).collect()
    }

    #[test]
    fn an_order_follows_what_comes_while_it_is_made_and_after() {
        let mut orders = Orders::default();
        let (a, b, c) = (named("Beta"), named("alpha"), named("gamma"));
        assert_eq!(orders.progress(routes(SortBy::Name)), Err(None));
        let creation: Creation = (Revision(1), "routes/1".into());
        let part = std::iter::once(object("routes/1", &a));
        orders.extend(routes(SortBy::Name), part, Some(creation.clone()));
        orders.insert(&["routes"], object("routes/3", &c));
        orders.insert(&["services"], object("services/3", &c));
        assert_eq!(orders.progress(routes(SortBy::Name)), Err(Some(creation)));
        let part = [object("routes/2", &b), object("routes/3", &c)].into_iter();
        orders.extend(routes(SortBy::Name), part, None);
        assert_eq!(orders.progress(routes(SortBy::Name)), Ok(()));
        assert_eq!(
            paths(&orders, SortBy::Name, Direction::Ascending),
            ["routes/2", "routes/1", "routes/3"]
        );
        assert_eq!(
            paths(&orders, SortBy::Name, Direction::Descending),
            ["routes/3", "routes/1", "routes/2"]
        );
        orders.remove(&["routes"], object("routes/1", &a));
        assert_eq!(paths(&orders, SortBy::Name, Direction::Ascending), ["routes/2", "routes/3"]);
        let second =
            orders.after(routes(SortBy::Name), Direction::Ascending, None).next().map(|it| it.0);
        let rest =
            orders.after(routes(SortBy::Name), Direction::Ascending, second).map(|(_, path)| path);
        assert_eq!(rest.collect::<Vec<_>>(), ["routes/3"]);
    }

    #[test]
    fn few_orders_are_kept_and_the_least_asked_for_goes() {
        let mut orders = Orders::default();
        let by = [SortBy::Id, SortBy::Name, SortBy::Host, SortBy::Uri, SortBy::Changed];
        for by in by {
            let _ = orders.progress(routes(by));
            orders.extend(routes(by), std::iter::empty(), None);
            assert_eq!(orders.progress(routes(SortBy::Id)), Ok(()));
        }
        assert_eq!(orders.views.len(), ORDERS_MAX);
        assert_eq!(orders.progress(routes(SortBy::Name)), Err(None), "it has made room");
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(text_key("Ab\0c"), "ab c");
        assert_eq!(text_key(&"路".repeat(40)), "路".repeat(16));
    }
}
