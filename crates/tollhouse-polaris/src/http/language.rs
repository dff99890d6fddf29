//! Language of texts in answers: that of the `lang` parameter, else the first supported one of
//! `Accept-Language`, else English.

use super::query::language_of;
use axum::http::Uri;
use axum::http::header::{ACCEPT_LANGUAGE, HeaderMap};
use axum::http::request::Parts;

/// Maximum number of languages examined in one header.
const ACCEPTED_MAX: usize = 32;

/// Language of the texts in answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
}

impl Language {
    /// Returns the language for a request.
    pub(super) fn from_request(head: &Parts) -> Self {
        Self::wanted(&head.uri, &head.headers)
    }

    /// Returns the language for a URI and headers.
    pub(super) fn wanted(uri: &Uri, headers: &HeaderMap) -> Self {
        let named = language_of(uri.query());
        let named = named.as_deref().and_then(Self::from_header);
        let accepted = || headers.get(ACCEPT_LANGUAGE)?.to_str().ok().and_then(Self::from_header);
        named.or_else(accepted).unwrap_or(Self::English)
    }

    /// Returns the preferred supported language of a list in the form of `Accept-Language`.
    fn from_header(text: &str) -> Option<Self> {
        let mut best = None;
        for item in text.split(',').take(ACCEPTED_MAX) {
            let (tag, weight) = item.split_once(';').unwrap_or((item, "q=1"));
            let weight: Option<f32> =
                weight.trim().strip_prefix("q=").and_then(|text| text.parse().ok());
            let (Some(language), Some(weight)) = (Self::from_tag(tag.trim()), weight) else {
                continue;
            };
            // The first of equal weights wins.
            if weight > 0.0 && best.is_none_or(|(_, highest)| weight > highest) {
                best = Some((language, weight));
            }
        }
        best.map(|(language, _)| language)
    }

    fn from_tag(tag: &str) -> Option<Self> {
        match tag.split(['-', '_']).next().unwrap_or_default() {
            language if language.eq_ignore_ascii_case("zh") => Some(Self::Chinese),
            language if language.eq_ignore_ascii_case("en") => Some(Self::English),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_goes_before_the_header_and_strangers_are_passed_over() {
        use Language::{Chinese, English};
        for (query, header, expected) in [
            ("", None, English),
            ("lang=zh", None, Chinese),
            ("name=a&lang=zh-CN", Some("en"), Chinese),
            ("lang=en", Some("zh"), English),
            ("lang=fr", Some("zh"), Chinese),
            ("lang=", Some("zh"), Chinese),
            ("", Some("fr, zh-TW;q=0.8, en;q=0.7"), Chinese),
            ("", Some("zh;q=0.1, en;q=0.7"), English),
            ("", Some("zh;q=0"), English),
            ("", Some(";;,=;q=x"), English),
        ] {
            let uri = format!("/a?{query}").parse().expect("a path");
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(ACCEPT_LANGUAGE, header.parse().expect("a value"));
            }
            assert_eq!(Language::wanted(&uri, &headers), expected, "{query} {header:?}");
        }
    }
}
