//! Pages, sort orders, and filters that several lists of the registry share.

use std::borrow::Cow;
use std::cmp::Reverse;

use fancy_regex::Regex;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tollhouse_registry::Metadata;

use super::request::Request;
use crate::arguments::Arguments;
use crate::paging;
use crate::reply::Reply;

/// Default number of objects per page.
const PAGE_SIZE_DEFAULT: usize = 500;

/// Maximum number of objects per page: some megabytes of text.
pub(super) const PAGE_SIZE_MAX: usize = 5_000;

/// Number and size of the requested page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    number: usize,
    size: usize,
}

impl Page {
    /// Parses `page`, which counts from 1, and `page_size`.
    pub(super) fn parse(arguments: &Arguments) -> Result<Self, Reply> {
        let number = |name: &str, default: usize| match arguments.get(name) {
            None | Some("") => Ok(default),
            Some(text) => text.trim().parse().map_err(|_| {
                Reply::bad(format!("invalid argument {name}: should be a whole number"))
            }),
        };
        let page =
            Self { number: number("page", 1)?, size: number("page_size", PAGE_SIZE_DEFAULT)? };
        if page.number == 0 {
            return Err(Reply::bad("invalid argument page: pages count from 1"));
        }
        if !(1..=PAGE_SIZE_MAX).contains(&page.size) {
            let text = format!("page_size must be between 1 and {PAGE_SIZE_MAX}");
            return Err(Reply::bad(text));
        }
        Ok(page)
    }

    /// Returns the objects of the page, sorted. Sorts only as much as the page requires.
    pub(super) fn sort_and_cut<T, K: Ord>(
        self,
        mut found: Vec<T>,
        key: impl Fn(&T) -> K,
    ) -> Vec<T> {
        let start = self.start().min(found.len());
        if start > 0 && start < found.len() {
            found.select_nth_unstable_by_key(start, &key);
        }
        let mut rest = found.split_off(start);
        if self.size < rest.len() {
            rest.select_nth_unstable_by_key(self.size, &key);
            rest.truncate(self.size);
        }
        rest.sort_unstable_by_key(key);
        rest
    }

    /// Returns the number of objects before the page.
    pub(super) fn start(self) -> usize {
        (self.number - 1).saturating_mul(self.size)
    }

    /// Whether the object at this position is on the page.
    pub(super) fn has(self, place: usize) -> bool {
        place >= self.start() && place - self.start() < self.size
    }

    /// Returns the maximum number of objects on the page.
    pub(super) fn size(self) -> usize {
        self.size
    }

    /// Returns the reply with one page of a list.
    pub(super) fn reply<T: Serialize>(
        self,
        request: &Request<'_>,
        list: Vec<T>,
        total: usize,
    ) -> Reply {
        let version = request.part.registry.state().version();
        reply(
            StatusCode::OK,
            &List { list, total, page: self.number, page_size: self.size, version },
        )
    }
}

#[derive(JsonSchema, Serialize)]
pub(super) struct List<T> {
    list: Vec<T>,
    total: usize,
    page: usize,
    page_size: usize,
    version: u64,
}

/// Returns a reply with an object as JSON.
pub(super) fn reply(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_string(value) {
        Ok(text) => Reply::json_text(status, text),
        Err(error) => Reply::refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Regular expression that a name must match; with `None`, all names match.
pub(super) struct Pattern(Option<Regex>);

impl Pattern {
    pub(super) fn parse(arguments: &Arguments) -> Result<Self, Reply> {
        let text = arguments.get("name").filter(|text| !text.is_empty());
        Ok(Self(text.map(paging::compile).transpose()?))
    }

    pub(super) fn admits(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|regex| regex.is_match(name).unwrap_or(false))
    }
}

/// Metadata that an object must have, from an argument of the form `key` or `key:value`.
pub(super) struct Label(Option<(String, Option<String>)>);

impl Label {
    pub(super) fn parse(arguments: &Arguments) -> Self {
        let text = arguments.get("label").filter(|text| !text.is_empty());
        Self(text.map(|text| match text.split_once(':') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (text.to_owned(), None),
        }))
    }

    /// Whether the metadata contains the label.
    pub(super) fn admits(&self, metadata: &Metadata) -> bool {
        let Some((key, value)) = &self.0 else { return true };
        let stored = metadata.get(key.as_str());
        stored.is_some_and(|stored| value.as_ref().is_none_or(|value| **stored == **value))
    }
}

/// Sort order of a list, from the argument `sort`; a leading `-` reverses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sort<'a> {
    pub(super) by: &'a str,
    is_descending: bool,
}

/// Sort key of an object. All keys of one list have the same variant.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SortKey<'a> {
    Text(Cow<'a, str>),
    Number(u64),
}

/// Sort key with a direction. All keys of one list have the same variant.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DirectedKey<'a> {
    Up(SortKey<'a>),
    Down(Reverse<SortKey<'a>>),
}

impl<'a> Sort<'a> {
    /// Parses the argument `sort`; the default is the first of the `keys`.
    pub(super) fn parse(arguments: &'a Arguments, keys: &[&'a str]) -> Result<Self, Reply> {
        let text = arguments.get("sort").filter(|text| !text.is_empty());
        let text = text.or(keys.first().copied()).unwrap_or_default();
        let (by, is_descending) = text.strip_prefix('-').map_or((text, false), |by| (by, true));
        if keys.contains(&by) {
            return Ok(Self { by, is_descending });
        }
        let keys = keys.join(", ");
        Err(Reply::bad(format!("sort is one of {keys}; a - before it turns it round")))
    }

    /// Returns the sort key in the requested direction.
    pub(super) fn directed<'k>(self, key: SortKey<'k>) -> DirectedKey<'k> {
        if self.is_descending { DirectedKey::Down(Reverse(key)) } else { DirectedKey::Up(key) }
    }
}

impl<'a> From<&'a str> for SortKey<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<u32> for SortKey<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// Parses a boolean argument; `None` if it is absent or empty.
pub(super) fn flag(arguments: &Arguments, name: &str) -> Result<Option<bool>, Reply> {
    match arguments.get(name) {
        None | Some("") => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(Reply::bad(format!("invalid argument {name}: should be true or false"))),
    }
}

/// Whether the argument equals `value`, or is absent or empty.
pub(super) fn is(arguments: &Arguments, name: &str, value: &str) -> bool {
    arguments.get(name).is_none_or(|wanted| wanted.is_empty() || wanted == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_of_a_bounded_size() {
        let table = [
            ("", Some((0, 500))),
            ("page=3&page_size=10", Some((20, 10))),
            ("page=&page_size=", Some((0, 500))),
            ("page_size=5000", Some((0, 5_000))),
            ("page=18446744073709551615&page_size=5000", Some((usize::MAX, 5_000))),
            ("page=0", None),
            ("page=-1", None),
            ("page_size=0", None),
            ("page_size=5001", None),
            ("page_size=x", None),
        ];
        for (query, expected) in table {
            let page = Page::parse(&Arguments::parse(query)).ok();
            assert_eq!(page.map(|page| (page.start(), page.size)), expected, "{query}");
        }
    }

    #[test]
    fn pages_follow_each_other_in_order() {
        let numbers: Vec<u32> = (0..100).map(|number| number * 37 % 101).collect();
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        for size in [1, 7, 100, 500] {
            let page =
                |number| Page { number, size }.sort_and_cut(numbers.clone(), |number| *number);
            let joined: Vec<u32> = (1..=100 / size + 1).flat_map(page).collect();
            assert_eq!(joined, sorted, "{size} a page");
        }
        assert!(Page { number: usize::MAX, size: 500 }.sort_and_cut(numbers, |n| *n).is_empty());
    }

    #[test]
    fn labels_are_keys_or_pairs() {
        let metadata: Metadata = [("zone".into(), "a:b".into())].into();
        for (query, expected) in [
            ("", true),
            ("label=zone", true),
            ("label=zone:a:b", true),
            ("label=zone:a", false),
            ("label=rack", false),
        ] {
            let label = Label::parse(&Arguments::parse(query));
            assert_eq!(label.admits(&metadata), expected, "{query}");
        }
    }
}
