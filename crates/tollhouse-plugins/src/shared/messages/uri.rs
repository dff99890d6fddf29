//! Paths and queries for nodes and for `Location`. Every inserted value is encoded for its place.

use tollhouse_model::variable::Variable;
use tollhouse_plugin::RequestContext;

/// Returns the query for the node: the client's, or the one that plugins set. An empty query counts
/// as missing.
pub(crate) fn query_for_node(cx: &mut RequestContext<'_>) -> Option<Vec<u8>> {
    let query = match cx.edits().upstream_uri() {
        Some(uri) => {
            let at = uri.iter().position(|&byte| byte == b'?')?;
            uri[at + 1..].to_vec()
        }
        None => cx.query()?.to_vec(),
    };
    (!query.is_empty()).then_some(query)
}

/// Appends a query to a URI, which may already have one.
pub(crate) fn append_query(uri: &mut Vec<u8>, query: &[u8]) {
    uri.push(if uri.contains(&b'?') { b'&' } else { b'?' });
    uri.extend_from_slice(query);
}

/// Appends a text with characters escaped that browsers change: they read a backslash as a slash
/// and drop tabs and line ends, so that `/\evil.com` would lead to another site.
fn write_as_browsers_read(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte == b'\\' || byte.is_ascii_control() {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
}

/// Part of a URI at the current end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UriPart {
    /// Empty; the next text may be a whole URI.
    Start,
    Authority,
    Path,
    Query,
}

/// Treatment of the conf's literal text in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Literals {
    /// Written unchanged, because the operator has encoded it.
    AsWritten,
    /// Literal text is encoded like a path that was decoded.
    Encoded,
}

/// Builder of a URI from literal texts and values.
#[derive(Debug)]
pub(crate) struct AddressWriter {
    out: Vec<u8>,
    literals: Literals,
    /// Whether `%2F` stays escaped in the path that routes see, and therefore in its parts.
    keeps_slashes: bool,
}

impl AddressWriter {
    pub(crate) fn new(cx: &RequestContext<'_>, literals: Literals) -> Self {
        // The path contains an escaped slash only if the operator has configured that.
        let keeps_slashes = cx.escaped_path().windows(3).any(|part| part == b"%2F");
        Self { out: Vec::new(), literals, keeps_slashes }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    fn place(&self) -> UriPart {
        if self.out.is_empty() {
            return UriPart::Start;
        }
        if self.out.iter().any(|byte| matches!(byte, b'?' | b'#')) {
            return UriPart::Query;
        }
        let scheme = self.out.windows(3).position(|part| part == b"://");
        let authority = match scheme {
            Some(at) if !self.out[..at].contains(&b'/') => &self.out[at + 3..],
            _ if self.out.starts_with(b"//") => &self.out[2..],
            // Scheme, or the start of one.
            _ if !self.out.contains(&b'/') => return UriPart::Authority,
            _ => return UriPart::Path,
        };
        if authority.contains(&b'/') { UriPart::Path } else { UriPart::Authority }
    }

    /// Writes literal text of the conf, which may start the query.
    pub(crate) fn text(&mut self, text: &[u8]) {
        let is_encoded = self.literals == Literals::Encoded
            && matches!(self.place(), UriPart::Start | UriPart::Path);
        if !is_encoded {
            return self.out.extend_from_slice(text);
        }
        let at = text.iter().position(|&byte| byte == b'?').unwrap_or(text.len());
        tollhouse_router::escape_into(&text[..at], &mut self.out);
        self.out.extend_from_slice(&text[at..]);
    }

    /// Writes a decoded value, escaped so that it cannot end the current part of the URI.
    pub(crate) fn value(&mut self, value: &[u8]) {
        match self.place() {
            UriPart::Start | UriPart::Authority => write_as_browsers_read(value, &mut self.out),
            UriPart::Path => tollhouse_router::escape_into(value, &mut self.out),
            UriPart::Query => escape_query_into(value, &mut self.out),
        }
    }

    /// Writes a part of the path that routes see.
    pub(crate) fn path_part(&mut self, part: &[u8]) {
        if self.place() == UriPart::Query {
            return escape_query_into(part, &mut self.out);
        }
        let mut rest = part;
        while let Some(at) = rest.windows(3).position(|it| self.keeps_slashes && it == b"%2F") {
            tollhouse_router::escape_into(&rest[..at], &mut self.out);
            self.out.extend_from_slice(b"%2F");
            rest = &rest[at + 3..];
        }
        tollhouse_router::escape_into(rest, &mut self.out);
    }

    /// Writes the value of a variable, or `default` if it has none.
    pub(crate) fn variable(&mut self, cx: &RequestContext<'_>, variable: &Variable, default: &str) {
        let Some(value) = cx.variables().variable(variable) else {
            return self.value(default.as_bytes());
        };
        let in_query = self.place() == UriPart::Query;
        match variable {
            Variable::Uri if !in_query => self.out.extend_from_slice(&cx.escaped_path()),
            Variable::RequestUri if !in_query => {
                self.out.extend_from_slice(&cx.escaped_path());
                if let Some(query) = cx.query().filter(|query| !query.is_empty()) {
                    append_query(&mut self.out, query);
                }
            }
            // Already encoded for this place.
            Variable::Args if in_query => self.out.extend_from_slice(&value),
            Variable::Named(name) if name == "real_request_uri" && !in_query => {
                write_as_browsers_read(&value, &mut self.out);
            }
            Variable::Named(name) if name == "is_args" => self.out.extend_from_slice(&value),
            Variable::UriParam(_) => self.path_part(&value),
            _ => self.value(&value),
        }
    }
}

/// Whether a variable contains the client's query.
pub(crate) fn brings_query(variable: &Variable) -> bool {
    match variable {
        Variable::Args | Variable::RequestUri => true,
        Variable::Named(name) => name == "real_request_uri",
        _ => false,
    }
}

/// Appends a decoded value, encoded for a name or value of a query.
fn escape_query_into(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$'()*,/:;@".contains(&byte);
        if is_plain {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::testing::FakeExchange;
    use tollhouse_plugin::{Memory, NoConsumers};

    use super::*;

    fn write(literals: Literals, parts: &[(&str, &str)]) -> String {
        let mut exchange = FakeExchange::parse("GET /a HTTP/1.1\n\n", 0);
        let mut memory = Memory::default();
        let cx = RequestContext::new(&mut exchange, &NoConsumers, &mut memory);
        let mut writer = AddressWriter::new(&cx, literals);
        for (kind, part) in parts {
            match *kind {
                "text" => writer.text(part.as_bytes()),
                "value" => writer.value(part.as_bytes()),
                _ => writer.path_part(part.as_bytes()),
            }
        }
        String::from_utf8(writer.into_bytes()).expect("addresses of tests are text")
    }

    #[test]
    fn values_are_encoded_for_where_they_go() {
        for (parts, expected) in [
            (&[("text", "/a/"), ("value", "b/c?d#e%f é")][..], "/a/b/c%3Fd%23e%25f%20%C3%A9"),
            (&[("text", "/a?b="), ("value", "c&d=e+f%g?h /i")], "/a?b=c%26d%3De%2Bf%25g%3Fh%20/i"),
            (&[("text", "https://"), ("value", "a.com:8"), ("text", "/x?")], "https://a.com:8/x?"),
            (&[("value", "https"), ("text", "://a"), ("path", "/b?c")], "https://a/b%3Fc"),
            (&[("value", "https://b.com/?c=d")], "https://b.com/?c=d"),
            (&[("value", "/\\evil.com\t")], "/%5Cevil.com%09"),
            (&[("text", "//a.com/"), ("value", "?")], "//a.com/%3F"),
            (&[("text", "/a#"), ("value", "b?c")], "/a#b%3Fc"),
            (&[("text", "/"), ("path", "a%2Fb")], "/a%252Fb"),
        ] {
            assert_eq!(write(Literals::AsWritten, parts), expected);
        }
    }

    #[test]
    fn an_operators_text_is_encoded_where_asked_for() {
        let parts = [("text", "/a b%2F?c d"), ("text", "e f")];
        assert_eq!(write(Literals::Encoded, &parts), "/a%20b%252F?c de f");
        assert_eq!(write(Literals::AsWritten, &parts), "/a b%2F?c de f");
    }
}
