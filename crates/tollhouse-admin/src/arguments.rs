//! Parsing of query arguments. If a name occurs several times, the first value counts.

use percent_encoding::percent_decode_str;

use crate::limits::ARGUMENTS_MAX;

/// Query arguments, percent-decoded, in the order of the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments(Vec<(String, String)>);

impl Arguments {
    /// Parses a query string. Invalid escapes are replaced, never refused; arguments beyond
    /// `ARGUMENTS_MAX` are ignored.
    pub(crate) fn parse(query: &str) -> Self {
        let parts = query.split('&').filter(|part| !part.is_empty());
        let pairs = parts.take(ARGUMENTS_MAX).map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(name), decode(value))
        });
        Self(pairs.collect())
    }

    /// Returns the first value with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(candidate, _)| candidate == name);
        pair.map(|(_, value)| value.as_str())
    }

    pub(crate) fn to_pairs(&self) -> Vec<(String, String)> {
        self.0.clone()
    }

    /// Whether the first value with this name equals `value`.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_decoded_and_the_first_counts() {
        let table = [
            ("a=1&a=2", "a", Some("1")),
            ("a", "a", Some("")),
            (
                "filter=service_id%3D1%26upstream_id%3D2",
                "filter",
                Some("service_id=1&upstream_id=2"),
            ),
            ("a=b+c%20d", "a", Some("b c d")),
            ("&&=x&b=%zz", "b", Some("%zz")),
            ("", "a", None),
            ("a=%ff", "a", Some("\u{fffd}")),
        ];
        for (query, name, expected) in table {
            assert_eq!(Arguments::parse(query).get(name), expected, "{query}");
        }
    }
}
