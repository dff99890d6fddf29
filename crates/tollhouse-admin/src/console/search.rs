//! Search syntax of the console, and its evaluation over a collection. Only the index is consulted;
//! no object is read from the store.

use std::collections::HashMap;
use std::ops::Range;

use crate::call::Call;
use crate::context::Admin;
use crate::index::Contents;
use crate::index::collections::Creation;
use crate::index::facts::{Facts, ListFields};
use crate::index::orders::{Direction, OrderKey, SortBy};
use crate::limits::OBJECTS_PER_TURN;
use crate::reply::Reply;

/// Maximum length of a search text in bytes, and maximum number of its words.
const SEARCH_BYTES_MAX: usize = 256;
const WORDS_MAX: usize = 16;

/// Search words; an object must match all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Search(Vec<Word>);

/// Query arguments that stand for a search word, each with the prefix of that word.
const ARGUMENTS: [(&str, &str); 5] = [
    ("host", "host:"),
    ("label", "label:"),
    ("plugin", "plugin:"),
    ("upstream", "uses:upstreams/"),
    ("status", "status:"),
];

/// Parsed arguments of a list, without the page.
#[derive(Default)]
pub(super) struct ListQuery {
    search: Search,
    /// Sort key and direction; with `None`, objects are in order of creation.
    order: Option<(SortBy, Direction)>,
    /// Objects with problems by path, and whether to list only these (`true`) or only the others.
    problems: Option<(HashMap<String, String>, bool)>,
}

impl ListQuery {
    /// Parses the arguments `q`, `sort` and `problem`, and the short forms of search words.
    pub(super) fn parse(call: &Call, problems: &HashMap<String, String>) -> Result<Self, Reply> {
        let argument = |name: &str| call.arguments.get(name).filter(|value| !value.is_empty());
        let mut search = Search::parse(argument("q").unwrap_or_default())?;
        for (name, start) in ARGUMENTS {
            if let Some(value) = argument(name) {
                search.0.push(word(&format!("{start}{value}"))?);
            }
        }
        let problems = match argument("problem") {
            None => None,
            Some("true") => Some((problems.clone(), true)),
            Some("false") => Some((problems.clone(), false)),
            Some(_) => return Err(Reply::bad("problem is true or false")),
        };
        Ok(Self { search, order: argument("sort").map(order).transpose()?, problems })
    }

    fn finds_all(&self) -> bool {
        self.search.0.is_empty() && self.problems.is_none()
    }

    fn finds(&self, contents: &Contents, path: &str) -> bool {
        let is_wanted = match &self.problems {
            Some((problems, wanted)) => problems.contains_key(path) == *wanted,
            None => true,
        };
        is_wanted
            && (self.search.0.is_empty()
                || contents.facts(path).is_some_and(|facts| self.search.finds(path, facts)))
    }
}

fn order(text: &str) -> Result<(SortBy, Direction), Reply> {
    let (name, direction) = match text.strip_prefix('-') {
        Some(name) => (name, Direction::Descending),
        None => (text, Direction::Ascending),
    };
    let by = SortBy::parse(name).ok_or_else(|| {
        Reply::bad(format!("sort is one of {}; a - before it turns it round", SortBy::names()))
    })?;
    Ok((by, direction))
}

/// Paths of the objects on one page, and the total number of matching objects.
pub(super) struct PathPage {
    pub(super) total: usize,
    pub(super) paths: Vec<String>,
}

/// Returns one page of a list. Yields regularly to other tasks.
pub(super) async fn page(
    admin: &Admin,
    collection: &str,
    query: &ListQuery,
    rows: Range<usize>,
) -> PathPage {
    if let Some((by, _)) = query.order {
        let key = OrderKey { collection, by };
        while !admin.index.contents().make_order(key, OBJECTS_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
    let mut page = PathPage { total: 0, paths: Vec::new() };
    if query.finds_all() {
        let contents = admin.index.contents();
        page.total = contents.count(collection);
        let paths =
            walk(&contents, collection, query, &Cursor::Start).map(|(path, _)| path.to_owned());
        page.paths = paths.skip(rows.start).take(rows.len()).collect();
        return page;
    }
    let mut cursor = Cursor::Start;
    loop {
        {
            let contents = admin.index.contents();
            let mut next = Cursor::End;
            for (seen, (path, at)) in walk(&contents, collection, query, &cursor).enumerate() {
                if query.finds(&contents, path) {
                    if rows.contains(&page.total) {
                        page.paths.push(path.to_owned());
                    }
                    page.total += 1;
                }
                if seen + 1 == OBJECTS_PER_TURN {
                    next = at.to_owned();
                    break;
                }
            }
            cursor = next;
        }
        if matches!(cursor, Cursor::End) {
            return page;
        }
        tokio::task::yield_now().await;
    }
}

/// Position in a list, after which the next page begins.
enum Cursor {
    Start,
    /// Position after an object, in order of creation.
    Created(Creation),
    /// Position in a sort order.
    Ordered(String),
    End,
}

/// Borrowed form of [`Cursor`]: the position of the current object.
enum CursorRef<'a> {
    Created(&'a Creation),
    Ordered(&'a str),
}

impl CursorRef<'_> {
    fn to_owned(&self) -> Cursor {
        match self {
            Self::Created(creation) => Cursor::Created((*creation).clone()),
            Self::Ordered(entry) => Cursor::Ordered((*entry).to_owned()),
        }
    }
}

/// Iterates over the objects of a collection after a position, each with its own position.
fn walk<'k>(
    contents: &'k Contents,
    collection: &'k str,
    query: &ListQuery,
    cursor: &'k Cursor,
) -> Box<dyn Iterator<Item = (&'k str, CursorRef<'k>)> + 'k> {
    if let Some((by, direction)) = query.order {
        let last = match cursor {
            Cursor::Ordered(last) => Some(last.as_str()),
            _ => None,
        };
        let entries = contents.in_order(OrderKey { collection, by }, direction, last);
        return Box::new(entries.map(|(entry, path)| (path, CursorRef::Ordered(entry))));
    }
    let last = match cursor {
        Cursor::Created(last) => Some(last),
        _ => None,
    };
    let creations = contents.created_after(collection, last);
    Box::new(creations.map(|creation| (&*creation.1, CursorRef::Created(creation))))
}

/// A search word, in lower case where comparisons ignore case.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// Text in the id, name, hosts, paths or labels of the object.
    Anywhere(String),
    Host(String),
    Label(String),
    /// Full name of a plugin that the object uses.
    Plugin(String),
    /// Path of a referenced object, such as `upstreams/1`.
    Uses(String),
    /// State of the object: disabled (`true`) or enabled.
    Off(bool),
}

impl Search {
    /// Parses a search text into its words.
    pub(super) fn parse(text: &str) -> Result<Self, Reply> {
        if text.len() > SEARCH_BYTES_MAX || text.split_whitespace().count() > WORDS_MAX {
            let text = format!("q is longer than {SEARCH_BYTES_MAX} bytes or {WORDS_MAX} words");
            return Err(Reply::bad(text));
        }
        text.split_whitespace().map(word).collect::<Result<_, _>>().map(Self)
    }

    fn finds(&self, path: &str, facts: &Facts) -> bool {
        self.0.iter().all(|word| word.finds(path, facts))
    }
}

fn word(text: &str) -> Result<Word, Reply> {
    let value = |value: &str| value.to_ascii_lowercase();
    Ok(match text.split_once(':') {
        Some(("host", rest)) => Word::Host(value(rest)),
        Some(("label", rest)) => Word::Label(value(rest)),
        Some(("plugin", rest)) => Word::Plugin(rest.to_owned()),
        Some(("uses", rest)) => Word::Uses(rest.to_owned()),
        Some(("status", "off")) => Word::Off(true),
        Some(("status", "on")) => Word::Off(false),
        Some(("status", _)) => return Err(Reply::bad("status: is on or off")),
        // Other words with a colon, such as addresses, are searched for as they are.
        Some(_) | None => Word::Anywhere(value(text)),
    })
}

impl Word {
    fn finds(&self, path: &str, facts: &Facts) -> bool {
        let ListFields { name, uris, hosts, labels, plugins, is_off } = &facts.list_fields;
        match self {
            Self::Anywhere(text) => {
                let id = path.split_once('/').map_or(path, |(_, id)| id);
                let texts = name.iter().chain(uris).chain(hosts).chain(labels);
                contains(id, text) || texts.into_iter().any(|it| contains(it, text))
            }
            Self::Host(text) => hosts.iter().any(|host| contains(host, text)),
            Self::Label(text) => labels.iter().any(|label| label.eq_ignore_ascii_case(text)),
            Self::Plugin(text) => plugins.iter().any(|plugin| **plugin == **text),
            Self::Uses(text) => facts.references.iter().any(|(target, _)| **target == **text),
            Self::Off(wanted) => is_off == wanted,
        }
    }
}

/// Returns the paths of all matching objects of a collection, in order of creation. Yields
/// regularly to other tasks.
pub(super) async fn matching(admin: &Admin, collection: &str, search: &Search) -> Vec<String> {
    let mut paths = Vec::new();
    let mut last = None;
    loop {
        let mut seen = 0;
        let after = last.take();
        // The lock on the index is released before the task yields.
        {
            let contents = admin.index.contents();
            for creation in
                contents.created_after(collection, after.as_ref()).take(OBJECTS_PER_TURN)
            {
                seen += 1;
                let path = &*creation.1;
                let is_found = search.0.is_empty()
                    || contents.facts(path).is_some_and(|facts| search.finds(path, facts));
                if is_found {
                    paths.push(path.to_owned());
                }
                if seen == OBJECTS_PER_TURN {
                    last = Some(creation.clone());
                    break;
                }
            }
        }
        if seen < OBJECTS_PER_TURN {
            return paths;
        }
        tokio::task::yield_now().await;
    }
}

/// Whether `text` contains `search`, which is in lower case; ASCII case is ignored. Does not
/// allocate, because a search compares hundreds of thousands of texts.
fn contains(text: &str, search: &str) -> bool {
    let (text, search) = (text.as_bytes(), search.as_bytes());
    search.is_empty() || text.windows(search.len()).any(|part| part.eq_ignore_ascii_case(search))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_in_any_case() {
        assert!(contains("Orders-API", "ders-a"));
        assert!(contains("x", ""));
        assert!(!contains("or", "orders"));
    }

    #[test]
    fn words_are_bounded_and_unknown_states_refused() {
        assert!(Search::parse(&"x".repeat(SEARCH_BYTES_MAX + 1)).is_err());
        assert!(Search::parse(&"x ".repeat(WORDS_MAX + 1)).is_err());
        assert!(Search::parse("status:maybe").is_err());
        assert_eq!(Search::parse("  ").ok(), Some(Search::default()));
    }
}
