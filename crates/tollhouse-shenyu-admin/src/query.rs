//! Arguments of a query or of a form, decoded.

use percent_encoding::percent_decode_str;

/// Arguments that are looked at: forms of ShenYu's have a dozen.
const ARGUMENTS_MAX: usize = 256;

/// The arguments, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments(Vec<(String, String)>);

impl Arguments {
    /// Takes a query apart; nothing is too broken for it.
    pub(crate) fn parse(query: &str) -> Self {
        let parts = query.split('&').filter(|part| !part.is_empty()).take(ARGUMENTS_MAX);
        let pairs = parts.map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// Of arguments that were taken apart already.
    pub(crate) fn from_pairs(mut pairs: Vec<(String, String)>) -> Self {
        pairs.truncate(ARGUMENTS_MAX);
        Self(pairs)
    }

    /// The first value of a name that is not blank.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        found.find_map(|(_, value)| (!value.trim().is_empty()).then_some(value.as_str()))
    }

    /// All values of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
