//! Arguments in the body of a request that is asked about: forms and JSON.
//!
//! Multipart bodies are looked into by the data plane only; they cannot be said on a command line.

use serde_json::Value;
use tollhouse_model::variable::query_argument;

/// A body's arguments.
#[derive(Debug)]
pub(super) enum BodyArguments {
    /// `application/x-www-form-urlencoded`, as sent.
    Form(Vec<u8>),
    /// `application/json`.
    Json(Value),
}

impl BodyArguments {
    /// Takes a body apart; `None` for types without arguments, and past the limit.
    pub(super) fn read(body: &str, content_type: Option<&[u8]>, bytes_max: usize) -> Option<Self> {
        if body.is_empty() || body.len() > bytes_max {
            return None;
        }
        let essence = content_type?.split(|&byte| byte == b';').next()?.trim_ascii();
        match essence.to_ascii_lowercase().as_slice() {
            b"application/x-www-form-urlencoded" => Some(Self::Form(body.as_bytes().to_vec())),
            b"application/json" => serde_json::from_str(body).ok().map(Self::Json),
            _ => None,
        }
    }

    /// `post_arg_<name>`.
    pub(super) fn argument(&self, name: &str) -> Option<Vec<u8>> {
        match self {
            Self::Form(text) => query_argument(text, name).map(|value| value.into_owned()),
            Self::Json(_) => None,
        }
    }

    /// `post_arg.<path>`: members and `[index]`es.
    pub(super) fn path(&self, path: &str) -> Option<Vec<u8>> {
        let Self::Json(root) = self else { return self.argument(path) };
        match path.split('.').try_fold(root, step)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone().into_bytes()),
            other => Some(other.to_string().into_bytes()),
        }
    }
}

/// One part of a path: a member, then any number of indexes.
fn step<'v>(value: &'v Value, part: &str) -> Option<&'v Value> {
    let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
    let value = if name.is_empty() { value } else { value.get(name)? };
    indexes
        .split('[')
        .filter(|index| !index.is_empty())
        .try_fold(value, |value, index| value.get(index.strip_suffix(']')?.parse::<usize>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_json_are_looked_into() {
        let form = Some(&b"application/x-www-form-urlencoded"[..]);
        let json = Some(&b"Application/JSON; charset=utf-8"[..]);
        let document = r#"{"a":{"b":[10,{"c":"x"}]},"n":null}"#;
        let table = [
            ("a=1&b=two+words", form, "b", Some("two words")),
            ("a=1", form, "c", None),
            (document, json, "a.b[1].c", Some("x")),
            (document, json, "a.b[0]", Some("10")),
            (document, json, "a.b[9]", None),
            (document, json, "n", None),
            ("a=1", None, "a", None),
            ("{", json, "a", None),
        ];
        for (body, content_type, path, expected) in table {
            let arguments = BodyArguments::read(body, content_type, 100);
            let found = arguments.and_then(|arguments| arguments.path(path));
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{body} {path}");
        }
    }
}
