//! Paths to values in JSON, such as `$.order.items[0].price` and `$['order']['items'][*]` (RFC 9535
//! §2: child segments with names, indices and wildcards; no filters, slices or descendants).

use serde_json::Value;

/// Maximum number of segments of a path; far more than real paths have.
const SEGMENTS_MAX: usize = 64;

/// Path into a JSON document, as ShenYu's rules write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Name(String),
    Index(usize),
    All,
}

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// The path has too many segments.
    #[error("more than {SEGMENTS_MAX} segments")]
    TooLong,
    /// A dot is not followed by a name.
    #[error("a name is missing")]
    NoName,
    #[error("a bracket is not closed")]
    Unclosed,
    /// The text in brackets is neither quoted, nor `*`, nor an index.
    #[error("`{0}` is not an index")]
    Index(String),
}

impl JsonPath {
    /// Parses a path. `$` alone and the empty text denote the whole value.
    ///
    /// # Errors
    ///
    /// If the text is not a path, or has too many segments.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        let text = text.trim();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut segments = Vec::new();
        while !rest.is_empty() {
            if segments.len() == SEGMENTS_MAX {
                return Err(PathError::TooLong);
            }
            let (segment, behind) = match rest.strip_prefix('[') {
                Some(inside) => bracketed(inside)?,
                None => dotted(rest.strip_prefix('.').unwrap_or(rest))?,
            };
            segments.push(segment);
            rest = behind;
        }
        Ok(Self(segments))
    }

    /// Calls `edit` for every value that the path matches.
    pub(crate) fn each(&self, value: &mut Value, edit: &mut dyn FnMut(&mut Value)) {
        each(&self.0, value, edit);
    }

    /// Removes every value that the path matches. A path to the whole value removes nothing.
    pub(crate) fn remove(&self, value: &mut Value) {
        let Some((last, way)) = self.0.split_last() else { return };
        each(way, value, &mut |found| match (last, found) {
            (Segment::Name(name), Value::Object(members)) => drop(members.shift_remove(name)),
            (Segment::All, Value::Object(members)) => members.clear(),
            (Segment::All, Value::Array(items)) => items.clear(),
            (Segment::Index(index), Value::Array(items)) if *index < items.len() => {
                items.remove(*index);
            }
            _ => {}
        });
    }
}

fn each(segments: &[Segment], value: &mut Value, edit: &mut dyn FnMut(&mut Value)) {
    let Some((first, rest)) = segments.split_first() else { return edit(value) };
    match (first, value) {
        (Segment::Name(name), Value::Object(members)) => {
            if let Some(member) = members.get_mut(name) {
                each(rest, member, edit);
            }
        }
        (Segment::Index(index), Value::Array(items)) => {
            if let Some(item) = items.get_mut(*index) {
                each(rest, item, edit);
            }
        }
        (Segment::All, Value::Object(members)) => {
            members.values_mut().for_each(|member| each(rest, member, edit));
        }
        (Segment::All, Value::Array(items)) => {
            items.iter_mut().for_each(|item| each(rest, item, edit));
        }
        _ => {}
    }
}

fn dotted(text: &str) -> Result<(Segment, &str), PathError> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    match name {
        "" => Err(PathError::NoName),
        "*" => Ok((Segment::All, behind)),
        name => Ok((Segment::Name(name.to_owned()), behind)),
    }
}

fn bracketed(text: &str) -> Result<(Segment, &str), PathError> {
    let (inside, behind) = text.split_once(']').ok_or(PathError::Unclosed)?;
    let inside = inside.trim();
    let quoted = ['\'', '"']
        .into_iter()
        .find_map(|quote| inside.strip_prefix(quote).and_then(|inside| inside.strip_suffix(quote)));
    let segment = match quoted {
        Some(name) => Segment::Name(name.to_owned()),
        None if inside == "*" => Segment::All,
        None => {
            let index = inside.parse().map_err(|_| PathError::Index(inside.to_owned()))?;
            Segment::Index(index)
        }
    };
    Ok((segment, behind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let value = json!({"a": {"b": [1, {"c.d": 2}]}, "x": 3});
        let cases = [
            ("$", json!([value])),
            ("", json!([value])),
            ("$.a.b[0]", json!([1])),
            ("a.b[1]['c.d']", json!([2])),
            ("$['a'][\"b\"][*]", json!([1, {"c.d": 2}])),
            ("$.*", json!([{"b": [1, {"c.d": 2}]}, 3])),
            ("$.a.b[9]", json!([])),
            ("$.x.y", json!([])),
        ];
        for (text, expected) in cases {
            let path = JsonPath::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let mut found = Vec::new();
            path.each(&mut value.clone(), &mut |value| found.push(value.clone()));
            assert_eq!(Value::from(found), expected, "{text}");
        }
        for broken in ["$.", "$..a", "$[", "$[a]", "$['a'", "$.a[-1]", &"a.".repeat(100)] {
            assert!(JsonPath::parse(broken).is_err(), "{broken}");
        }
    }
}
