//! Places in a value of JSON, as `$.order.items[0].price` and `$['order']['items'][*]` name them (RFC 9535
//! §2: child segments of names, indices and wildcards; no filters, slices or descendants).

use serde_json::Value;

/// Segments of one path: nobody writes deeper ones.
const SEGMENTS_MAX: usize = 64;

/// A path, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Name(String),
    Index(usize),
    All,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// It is longer than any that makes sense.
    #[error("more than {SEGMENTS_MAX} segments")]
    TooLong,
    /// A dot that nothing follows.
    #[error("a name is missing")]
    NoName,
    /// A bracket without its partner.
    #[error("a bracket is not closed")]
    Unclosed,
    /// What stands in brackets.
    #[error("`{0}` is no index")]
    Index(String),
}

impl JsonPath {
    /// Reads a path; `$` alone, and nothing, are the whole value.
    ///
    /// # Errors
    /// What cannot be read.
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

    /// Calls `edit` with every value that the path leads to.
    pub(crate) fn each(&self, value: &mut Value, edit: &mut dyn FnMut(&mut Value)) {
        each(&self.0, value, edit);
    }

    /// Takes every value out that the path leads to; the whole value stays.
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
