//! Headers and arguments of a request as JSON, for policies and logs. Repeated ones become lists.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tollhouse_model::variable::query_argument;

/// Maximum number of arguments read from a query; equals APISIX's.
const ARGUMENTS_MAX: usize = 100;

/// Callback for each header line: name and value.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]);

/// Returns the header lines by lower-case name.
pub(crate) fn headers_document(each: impl FnOnce(Visit<'_>)) -> Value {
    let mut document = Map::new();
    each(&mut |name, value| {
        add(&mut document, text(name).to_ascii_lowercase(), Value::String(text(value).into()));
    });
    Value::Object(document)
}

/// Returns the decoded arguments of a query; an argument without `=` is `true`.
pub(crate) fn query_document(query: Option<&[u8]>) -> Value {
    document_of(query.unwrap_or_default(), ARGUMENTS_MAX)
}

/// Returns the decoded fields of a form; a field without `=` is `true`. The caller bounds the form.
pub(crate) fn form_document(form: &[u8]) -> Value {
    document_of(form, usize::MAX)
}

/// Returns the first pairs of names and values, at most `pairs_max`.
fn document_of(text: &[u8], pairs_max: usize) -> Value {
    let mut document = Map::new();
    let pairs = text.split(|&byte| byte == b'&');
    for pair in pairs.filter(|pair| !pair.is_empty()).take(pairs_max) {
        let mut parts = pair.splitn(2, |&byte| byte == b'=');
        let name = decoded(parts.next().unwrap_or_default());
        if name.is_empty() {
            continue;
        }
        let value = parts.next().map_or(Value::Bool(true), |value| Value::String(decoded(value)));
        add(&mut document, name, value);
    }
    Value::Object(document)
}

/// Returns a JSON value as text for a header line.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Converts bytes to text. Invalid UTF-8 is replaced, because JSON cannot represent it.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn add(document: &mut Map<String, Value>, name: String, value: Value) {
    match document.get_mut(&name) {
        None => {
            document.insert(name, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

/// Decodes `%XX` escapes, and `+` as a space.
fn decoded(encoded: &[u8]) -> String {
    if !encoded.iter().any(|&byte| byte == b'%' || byte == b'+') {
        return text(encoded).into();
    }
    let argument = [b"a=", encoded].concat();
    query_argument(&argument, "a").map_or(String::new(), |value| text(&value).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_decoded_and_repeated_ones_are_lists() {
        for (query, expected) in [
            (None, json!({})),
            (Some("a=1&b=&c&a=2&a=3"), json!({"a": ["1", "2", "3"], "b": "", "c": true})),
            (Some("a%20b=c+d&=x&&e=f=g"), json!({"a b": "c d", "e": "f=g"})),
        ] {
            assert_eq!(query_document(query.map(str::as_bytes)), expected);
        }
        let many = vec!["a=1"; ARGUMENTS_MAX + 1].join("&");
        let document = query_document(Some(many.as_bytes()));
        assert_eq!(document["a"].as_array().map(Vec::len), Some(ARGUMENTS_MAX));
        let document = form_document(many.as_bytes());
        assert_eq!(document["a"].as_array().map(Vec::len), Some(ARGUMENTS_MAX + 1));
    }

    #[test]
    fn header_names_are_lower_case() {
        let document = headers_document(|visit| {
            visit(b"X-A", b"1");
            visit(b"x-a", b"2");
            visit(b"Host", b"a.com");
        });
        assert_eq!(document, json!({"x-a": ["1", "2"], "host": "a.com"}));
    }
}
