//! Decoded arguments of a query or a URL-encoded form.

use percent_encoding::percent_decode_str;

/// Maximum number of arguments that are read; ShenYu's forms have a dozen.
const ARGUMENTS_MAX: usize = 256;

/// Names and values in their original order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments(Vec<(String, String)>);

impl Arguments {
    /// Parses a query. Malformed parts are decoded as far as possible, never refused.
    pub(crate) fn parse(query: &str) -> Self {
        let parts = query.split('&').filter(|part| !part.is_empty()).take(ARGUMENTS_MAX);
        let pairs = parts.map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// Wraps arguments that are decoded already.
    pub(crate) fn from_pairs(mut pairs: Vec<(String, String)>) -> Self {
        pairs.truncate(ARGUMENTS_MAX);
        Self(pairs)
    }

    /// Returns the first value of the argument `name` that is not blank.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.0.iter().filter(|(known, _)| known == name);
        values.find_map(|(_, value)| (!value.trim().is_empty()).then_some(value.as_str()))
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
