//! Query of a URL: filters and the page.

use super::failure::Failure;
use crate::code::Code;
use crate::dialect::rights::Viewer;
use percent_encoding::percent_decode_str;

/// Default and maximum number of items on a page, as in Polaris.
pub(super) const PAGE_ITEMS_MAX: usize = 100;
/// Query parameters that select the page.
const PAGE_KEYS: [&str; 2] = ["offset", "limit"];
/// Keys of label lists; repeated keys extend the list.
const LABEL_KEYS: [&str; 2] = ["keys", "values"];
/// Key of the language for error texts.
const LANGUAGE_KEY: &str = "lang";
/// Maximum number of pairs in a query: several for each key of a list.
const PAIRS_MAX: usize = 256;
/// Separator of list members within one value.
const LIST_SEPARATOR: char = ',';

/// Filters, in the order of the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
    /// Whether the URL has a pair at all, even one of the page or without a value.
    has_pairs: bool,
    /// Reader of the list, who may see a part of it.
    pub(super) viewer: Viewer,
}

/// Offset and maximum size of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) offset: usize,
    pub(super) limit: usize,
}

impl Query {
    /// Parses a query with these keys and those of a page.
    pub(super) fn parse(text: Option<&str>, keys: &[&str]) -> Result<Self, Failure> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut has_pairs = false;
        for (key, value) in pieces(text) {
            let (key, value) = (decode(key)?, decode(value)?);
            has_pairs = true;
            if key == LANGUAGE_KEY {
                continue;
            }
            if !keys.contains(&&*key) && !PAGE_KEYS.contains(&&*key) {
                return Err(Failure::with(Code::InvalidParameter, format!("{key:?}")));
            }
            // An empty filter is ignored.
            if value.is_empty() {
                continue;
            }
            let is_full = pairs.len() == PAIRS_MAX;
            let known = pairs.iter_mut().find(|(known, _)| *known == key);
            match known.filter(|_| LABEL_KEYS.contains(&&*key)) {
                Some((_, list)) => *list = [&**list, &*value].join(","),
                None if is_full => return Err(Code::InvalidParameter.into()),
                None => pairs.push((key, value)),
            }
        }
        Ok(Self { pairs, has_pairs, viewer: Viewer::default() })
    }

    /// Returns the query with its reader.
    pub(super) fn read_by(self, viewer: Viewer) -> Self {
        Self { viewer, ..self }
    }

    /// Returns the first value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// Iterates over all values of a key.
    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// Whether a text matches at least one value of a key; true if the key is absent.
    pub(super) fn allows_any(&self, key: &str, text: &str) -> bool {
        let mut patterns = self.all(key).peekable();
        patterns.peek().is_none() || patterns.any(|pattern| matches(pattern, text))
    }

    /// Returns the value of a required key; `code` is the error if it is absent.
    pub(super) fn required(&self, key: &str, code: Code) -> Result<&str, Failure> {
        self.get(key).ok_or_else(|| code.into())
    }

    /// Whether the URL has no pair at all.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_pairs
    }

    /// Whether the query has keys other than those of the page.
    pub(super) fn has_filters(&self) -> bool {
        self.pairs.iter().any(|(key, _)| !PAGE_KEYS.contains(&&**key))
    }

    /// Parses the value of a key as a boolean.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Failure> {
        self.get(key)
            .map(|value| match value {
                "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(Failure::with(Code::InvalidParameter, key.to_owned())),
            })
            .transpose()
    }

    /// Parses the value of a key as a number.
    pub(super) fn number(&self, key: &str) -> Result<Option<u32>, Failure> {
        let failure = |_| Failure::with(Code::InvalidParameter, key.to_owned());
        self.get(key).map(|value| value.parse().map_err(failure)).transpose()
    }

    /// Returns two lists of equal length as pairs.
    pub(super) fn labels(&self, keys: &str, values: &str) -> Result<Vec<(&str, &str)>, Failure> {
        let list = |key| self.get(key).map(|text| text.split(LIST_SEPARATOR).collect::<Vec<_>>());
        let (keys, values) = (list(keys).unwrap_or_default(), list(values).unwrap_or_default());
        if keys.len() != values.len() {
            return Err(Code::InvalidQueryInsParameter.into());
        }
        Ok(keys.into_iter().zip(values).collect())
    }

    /// Returns the offset and size of the requested page.
    pub(super) fn page(&self) -> Result<Page, Failure> {
        let [offset, limit] = PAGE_KEYS.map(|key| self.number(key));
        let limit = limit?.map_or(PAGE_ITEMS_MAX, |limit| limit as usize);
        Ok(Page { offset: offset?.unwrap_or(0) as usize, limit: limit.min(PAGE_ITEMS_MAX) })
    }
}

impl Page {
    /// Returns the part of `items` on this page.
    pub(super) fn slice<T>(self, items: &[T]) -> &[T] {
        let from = self.offset.min(items.len());
        let to = from.saturating_add(self.limit).min(items.len());
        &items[from..to]
    }
}

/// Returns the language that a query names.
pub(super) fn language_of(text: Option<&str>) -> Option<String> {
    let mut found = pieces(text).filter(|(key, _)| *key == LANGUAGE_KEY);
    found.next().and_then(|(_, value)| decode(value).ok())
}

/// Iterates over the undecoded keys and values of a query.
fn pieces(text: Option<&str>) -> impl Iterator<Item = (&str, &str)> {
    let pieces = text.unwrap_or_default().split('&').filter(|piece| !piece.is_empty());
    pieces.map(|piece| piece.split_once('=').unwrap_or((piece, "")))
}

fn decode(text: &str) -> Result<String, Failure> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    decoded.map(Into::into).map_err(|_| Code::InvalidParameter.into())
}

/// Whether a text matches a filter; a `*` at the beginning or end matches anything.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (open_start, rest) = match pattern.strip_prefix('*') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let (open_end, middle) = match rest.strip_suffix('*') {
        Some(middle) => (true, middle),
        None => (false, rest),
    };
    match (open_start, open_end) {
        (false, false) => text == middle,
        (false, true) => text.starts_with(middle),
        (true, false) => text.ends_with(middle),
        (true, true) => text.contains(middle),
    }
}

/// Whether a text matches a filter; true without a filter.
pub(super) fn allows(filter: Option<&str>, text: &str) -> bool {
    filter.is_none_or(|pattern| matches(pattern, text))
}

/// Whether a text contains a filter, or matches one that begins or ends with `*`; true without a
/// filter.
pub(super) fn finds(filter: Option<&str>, text: &str) -> bool {
    filter.is_none_or(|pattern| {
        let is_open = pattern.starts_with('*') || pattern.ends_with('*');
        if is_open { matches(pattern, text) } else { text.contains(pattern) }
    })
}

/// Whether a text matches one of a list of filters; true without a list.
pub(super) fn lists(filter: Option<&str>, text: &str) -> bool {
    filter.is_none_or(|list| list.split(LIST_SEPARATOR).any(|pattern| matches(pattern, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &["name", "keys", "values", "healthy"];

    #[test]
    fn filters_are_decoded_and_strangers_refused() {
        let query = Query::parse(Some("name=a%20b+c&name=x&healthy=&limit=5"), KEYS).expect("good");
        assert_eq!((query.get("name"), query.get("healthy")), (Some("a b c"), None));
        assert!(query.has_filters());
        for text in ["nam=x", "=x", "name=%ff"] {
            let code = Query::parse(Some(text), KEYS).map_err(|failure| failure.code);
            assert_eq!(code, Err(Code::InvalidParameter), "{text}");
        }
        assert!(!Query::parse(Some("limit=5&offset=1"), KEYS).expect("good").has_filters());
        assert!(!Query::parse(None, KEYS).expect("good").has_filters());
        for (text, is_empty) in [(None, true), (Some("limit=5"), false), (Some("name="), false)] {
            assert_eq!(Query::parse(text, KEYS).expect("good").is_empty(), is_empty, "{text:?}");
        }
    }

    #[test]
    fn a_repeated_key_has_several_values() {
        let text = "name=a&name=b*&keys=x&values=1&keys=y&values=2";
        let query = Query::parse(Some(text), KEYS).expect("good");
        assert_eq!(query.all("name").collect::<Vec<_>>(), ["a", "b*"]);
        assert_eq!(query.labels("keys", "values").ok(), Some(vec![("x", "1"), ("y", "2")]));
        for (text, expected) in [("a", true), ("bc", true), ("c", false)] {
            assert_eq!(query.allows_any("name", text), expected, "{text}");
        }
        assert!(query.allows_any("healthy", "whatever nobody filters by"));
        let long = "name=a&".repeat(PAIRS_MAX + 1);
        assert!(Query::parse(Some(&long), KEYS).is_err());
    }

    #[test]
    fn pages_are_bounded() {
        let cases = [
            ("", Ok((0, 100))),
            ("offset=3&limit=7", Ok((3, 7))),
            ("limit=101", Ok((0, 100))),
            ("limit=0", Ok((0, 0))),
            ("offset=-1", Err(Code::InvalidParameter)),
            ("limit=x", Err(Code::InvalidParameter)),
        ];
        for (text, expected) in cases {
            let page = Query::parse(Some(text), KEYS).expect("good").page();
            let page = page.map(|page| (page.offset, page.limit)).map_err(|failure| failure.code);
            assert_eq!(page, expected, "{text}");
        }
        let items = [1, 2, 3];
        assert_eq!(Page { offset: 1, limit: 1 }.slice(&items), [2]);
        assert_eq!(Page { offset: 2, limit: usize::MAX }.slice(&items), [3]);
        assert!(Page { offset: 9, limit: 1 }.slice(&items).is_empty());
    }

    #[test]
    fn labels_come_in_two_lists_of_equal_length() {
        let labels = |text| {
            let query = Query::parse(Some(text), KEYS).expect("good");
            query.labels("keys", "values").map(|pairs| pairs.len()).map_err(|failure| failure.code)
        };
        assert_eq!(labels(""), Ok(0));
        assert_eq!(labels("keys=a,b&values=1,2"), Ok(2));
        assert_eq!(labels("keys=a,b&values=1"), Err(Code::InvalidQueryInsParameter));
        assert_eq!(labels("keys=a"), Err(Code::InvalidQueryInsParameter));
    }

    #[test]
    fn patterns_are_open_at_their_ends() {
        let cases = [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*b", "ba", false),
            ("*b*", "abc", true),
            ("*", "", true),
            ("**", "x", true),
            ("a*c", "abc", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(allows(None, "x") && lists(Some("a,b*"), "bc") && !lists(Some("a,b"), "c"));
        assert!(finds(None, "x") && finds(Some("b"), "abc") && !finds(Some("b*"), "abc"));
    }
}
