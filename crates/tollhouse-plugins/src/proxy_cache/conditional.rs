//! Conditions of requests (RFC 9110 §13): those of clients, evaluated against stored answers, and
//! those that revalidate a stale answer.

use tollhouse_plugin::RequestContext;

use super::item::CachedResponse;
use super::ranges::{self, Selection};
use crate::shared::messages::http_date::parse_http_date;

/// Request headers that a cache evaluates itself. They are removed from a request for a whole
/// answer.
pub(super) const NAMES: [&str; 4] = ["if-none-match", "if-modified-since", "range", "if-range"];

/// Conditions and range of a client's request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub none_match: Option<Box<[u8]>>,
    pub modified_since: Option<Box<[u8]>>,
    pub range: Option<Box<[u8]>>,
    pub if_range: Option<Box<[u8]>>,
}

/// Header fields that identify a version of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Validators<'a> {
    pub etag: Option<&'a [u8]>,
    pub last_modified: Option<&'a [u8]>,
    /// `Date`, used in place of a missing `Last-Modified` (RFC 9111 §4.3.2).
    pub date: Option<&'a [u8]>,
}

impl Conditions {
    /// Reads the conditions of a GET or HEAD; other methods have none. Ranges are defined for GET
    /// alone. Takes one pass over the header; without conditions nothing is allocated.
    pub fn from_request(cx: &RequestContext<'_>) -> Self {
        let mut found = Self::default();
        let is_get = cx.method() == b"GET";
        if !is_get && cx.method() != b"HEAD" {
            return found;
        }
        cx.each_header(&mut |name, value| {
            let place = match name.len() {
                5 if is_get && name.eq_ignore_ascii_case(b"range") => &mut found.range,
                8 if is_get && name.eq_ignore_ascii_case(b"if-range") => &mut found.if_range,
                13 if name.eq_ignore_ascii_case(b"if-none-match") => &mut found.none_match,
                17 if name.eq_ignore_ascii_case(b"if-modified-since") => &mut found.modified_since,
                _ => return,
            };
            *place = Some(match place.take() {
                None => value.into(),
                Some(first) => [&*first, b", ", value].concat().into(),
            });
        });
        found
    }

    pub fn is_empty(&self) -> bool {
        let Self { none_match, modified_since, range, if_range } = self;
        [none_match, modified_since, range, if_range].into_iter().all(Option::is_none)
    }

    /// Whether the client's copy is still valid, so that it gets a 304. `If-None-Match` takes
    /// precedence over `If-Modified-Since` (RFC 9110 §13.2.2).
    pub fn is_not_modified(&self, validators: Validators<'_>) -> bool {
        if let Some(tags) = &self.none_match {
            return match validators.etag {
                _ if tags.trim_ascii() == b"*" => true,
                Some(etag) => entity_tags(tags).any(|tag| is_weakly_equal(tag, etag)),
                None => false,
            };
        }
        let Some(since) = self.modified_since.as_deref().and_then(parse_http_date) else {
            return false;
        };
        let changed = validators.last_modified.or(validators.date).and_then(parse_http_date);
        changed.is_some_and(|changed| changed <= since)
    }

    /// Returns the part of a body of `length` bytes that the client gets: the whole body if
    /// `If-Range` fails.
    pub fn selection(&self, validators: Validators<'_>, length: u64) -> Selection {
        let Some(range) = &self.range else { return Selection::Whole };
        let holds = match self.if_range.as_deref().map(<[u8]>::trim_ascii) {
            None => true,
            Some(tag) if tag.ends_with(b"\"") => {
                !is_weak(tag) && validators.etag.is_some_and(|etag| etag.trim_ascii() == tag)
            }
            Some(date) => {
                parse_http_date(date).is_some()
                    && validators.last_modified.is_some_and(|known| known.trim_ascii() == date)
            }
        };
        if holds { ranges::select(range, length) } else { Selection::Whole }
    }
}

impl<'a> Validators<'a> {
    pub fn from_stored(stored: &'a CachedResponse) -> Self {
        Self {
            etag: stored.header("etag"),
            last_modified: stored.header("last-modified"),
            date: stored.header("date"),
        }
    }

    /// Whether a node can be asked if the version is still valid.
    pub fn are_usable(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

/// Iterates over the entity tags of a list; a comma within a tag does not end it. A tag without
/// quotes is accepted unchanged.
fn entity_tags(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let mut is_quoted = false;
        let text = rest.trim_ascii_start();
        if text.is_empty() {
            return None;
        }
        let end = text.iter().position(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == b',' && !is_quoted
        });
        rest = end.map_or(&[], |end| &text[end + 1..]);
        Some(text[..end.unwrap_or(text.len())].trim_ascii())
    })
}

/// Whether two entity tags are equal by weak comparison (RFC 9110 §8.8.3.2).
pub(super) fn is_weakly_equal(one: &[u8], other: &[u8]) -> bool {
    !one.is_empty() && opaque_tag(one) == opaque_tag(other.trim_ascii())
}

fn opaque_tag(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGGED: Validators<'_> = Validators {
        etag: Some(b"\"a\""),
        last_modified: Some(b"Sun, 06 Nov 1994 08:49:37 GMT"),
        date: None,
    };

    fn text(value: &str) -> Option<Box<[u8]>> {
        (!value.is_empty()).then(|| value.as_bytes().into())
    }

    #[test]
    fn a_client_whose_copy_is_good_is_told_so() {
        let weak = Validators { etag: Some(b"W/\"a\""), ..Validators::default() };
        let none = Validators::default();
        let dated = Validators { date: TAGGED.last_modified, ..none };
        let (now, before) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:36 GMT");
        for (none_match, modified_since, validators, expected) in [
            ("\"a\"", "", TAGGED, true),
            ("W/\"a\"", "", TAGGED, true),
            ("\"a\"", "", weak, true),
            ("\"b\", \"a\", \"c\"", "", TAGGED, true),
            ("\"b,\", \"a\"", "", TAGGED, true),
            ("\"b\"", "", TAGGED, false),
            ("*", "", none, true),
            ("a", "", TAGGED, false),
            ("\"a\"", "", none, false),
            ("", now, TAGGED, true),
            ("", "Sunday, 06-Nov-94 08:49:38 GMT", TAGGED, true),
            ("", before, TAGGED, false),
            ("", "yesterday", TAGGED, false),
            ("", now, none, false),
            ("", now, dated, true),
            // The entity tag decides alone.
            ("\"a\"", before, TAGGED, true),
            ("\"b\"", now, TAGGED, false),
            ("", "", TAGGED, false),
        ] {
            let conditions = Conditions {
                none_match: text(none_match),
                modified_since: text(modified_since),
                ..Conditions::default()
            };
            let found = conditions.is_not_modified(validators);
            assert_eq!(found, expected, "{none_match} {modified_since} {validators:?}");
        }
    }

    #[test]
    fn a_part_is_sent_only_of_the_version_that_the_client_has() {
        let weak = Validators { etag: Some(b"W/\"a\""), ..Validators::default() };
        for (if_range, validators, holds) in [
            ("", TAGGED, true),
            ("\"a\"", TAGGED, true),
            ("\"b\"", TAGGED, false),
            ("W/\"a\"", TAGGED, false),
            ("W/\"a\"", weak, false),
            ("\"a\"", weak, false),
            ("Sun, 06 Nov 1994 08:49:37 GMT", TAGGED, true),
            ("Sun, 06 Nov 1994 08:49:38 GMT", TAGGED, false),
            ("nonsense", TAGGED, false),
        ] {
            let conditions = Conditions {
                range: text("bytes=0-1"),
                if_range: text(if_range),
                ..Conditions::default()
            };
            let expected = if holds { Selection::Part(0..2) } else { Selection::Whole };
            assert_eq!(conditions.selection(validators, 10), expected, "{if_range}");
        }
    }
}
