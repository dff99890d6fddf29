//! JSONPath of masked fields, in the part that names fields: `$.users[*].card`, `$.items[0,2]`,
//! `$..password`. A path without `$` begins at the top.

use serde_json::Value;
use tollhouse_plugin::ConfError;

/// Largest number of places that a path may reach in one document.
const PLACES_MAX: usize = 100_000;

/// Parsed path.
#[derive(Debug)]
pub(super) struct FieldPath(Box<[Step]>);

#[derive(Debug)]
struct Step {
    /// Whether the step also looks below its value (`..`).
    is_deep: bool,
    selector: Selector,
}

#[derive(Debug)]
enum Selector {
    All,
    Names(Box<[String]>),
    Items(Box<[i64]>),
}

/// Key of one level: name of a field, or position of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Name(String),
    Item(usize),
}

impl FieldPath {
    /// Parses a path.
    ///
    /// # Errors
    /// If the path has a part that is not supported, such as a filter.
    pub(super) fn parse(text: &str) -> Result<Self, ConfError> {
        let refused = || ConfError::from(format!("invalid or unsupported JSONPath {text:?}"));
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        let mut is_first = !text.starts_with('$');
        while !rest.is_empty() {
            let is_deep = rest.starts_with("..");
            let behind = rest.strip_prefix("..").or_else(|| rest.strip_prefix('.'));
            let is_bracket = behind.unwrap_or(rest).starts_with('[');
            if behind.is_none() && !is_bracket && !is_first {
                return Err(refused());
            }
            is_first = false;
            rest = behind.unwrap_or(rest);
            let (selector, left) = Selector::parse(rest).ok_or_else(refused)?;
            steps.push(Step { is_deep, selector });
            rest = left;
        }
        if steps.is_empty() { Err(refused()) } else { Ok(Self(steps.into())) }
    }

    /// Returns the places that the path reaches, in the order of the document. `None` if there are
    /// too many.
    pub(super) fn places(&self, document: &Value) -> Option<Vec<Vec<Key>>> {
        let mut places = vec![(Vec::new(), document)];
        for step in &self.0 {
            let mut next = Vec::new();
            for (place, value) in places {
                step.select(&place, value, &mut next);
                if next.len() > PLACES_MAX {
                    return None;
                }
            }
            places = next;
        }
        Some(places.into_iter().map(|(place, _)| place).collect())
    }
}

impl Step {
    fn select<'v>(&self, place: &[Key], value: &'v Value, found: &mut Vec<(Vec<Key>, &'v Value)>) {
        let at = |key: Key| [place, &[key]].concat();
        each_child(value, &mut |key, child| {
            if self.selector.selects(&key, value) && found.len() <= PLACES_MAX {
                found.push((at(key.clone()), child));
            }
            if self.is_deep && found.len() <= PLACES_MAX {
                self.select(&at(key), child, found);
            }
        });
    }
}

fn each_child<'v>(value: &'v Value, visit: &mut dyn FnMut(Key, &'v Value)) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, child)| visit(Key::Name(name.clone()), child));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, child)| visit(Key::Item(index), child));
        }
        _ => {}
    }
}

impl Selector {
    /// Parses `name`, `*` or `[…]` at the start of a text, and returns the rest.
    fn parse(text: &str) -> Option<(Self, &str)> {
        let Some(inside) = text.strip_prefix('[') else {
            let end = text.find(['.', '[']).unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            let selector = match name {
                "" => return None,
                "*" => Selector::All,
                name => Selector::Names(Box::new([name.to_owned()])),
            };
            return Some((selector, rest));
        };
        let (inside, rest) = inside.split_once(']')?;
        if inside.trim() == "*" {
            return Some((Selector::All, rest));
        }
        let parts = || inside.split(',').map(str::trim);
        let numbers: Option<Box<[i64]>> = parts().map(|part| part.parse().ok()).collect();
        let selector = match numbers {
            Some(numbers) => Selector::Items(numbers),
            None => Selector::Names(parts().map(unquoted).collect::<Option<_>>()?),
        };
        Some((selector, rest))
    }

    fn selects(&self, key: &Key, parent: &Value) -> bool {
        match (self, key) {
            (Selector::All, _) => true,
            (Selector::Names(names), Key::Name(name)) => names.contains(name),
            (Selector::Items(numbers), Key::Item(index)) => {
                let count = parent.as_array().map_or(0, Vec::len) as i64;
                let position = |number: i64| if number < 0 { count + number } else { number };
                numbers.iter().any(|number| position(*number) == *index as i64)
            }
            _ => false,
        }
    }
}

fn unquoted(text: &str) -> Option<String> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '\'' | '"'))?;
    let inside = text.strip_prefix(mark)?.strip_suffix(mark)?;
    (!inside.contains(mark)).then(|| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(path: &str) -> String {
        let document = json!({
            "a": "1",
            "users": [{"card": "2", "b c": "3"}, {"card": "4", "x": {"card": "5"}}],
        });
        let places = FieldPath::parse(path).unwrap().places(&document).unwrap();
        let text = |key: &Key| match key {
            Key::Name(name) => format!("/{name}"),
            Key::Item(index) => format!("/{index}"),
        };
        let places = places.iter().map(|place| place.iter().map(text).collect::<String>());
        places.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn paths_reach_fields_and_items() {
        for (path, expected) in [
            ("$.a", "/a"),
            ("a", "/a"),
            ("$['a']", "/a"),
            ("$.users[*].card", "/users/0/card /users/1/card"),
            ("users[*].card", "/users/0/card /users/1/card"),
            ("$.users[1,0].card", "/users/0/card /users/1/card"),
            ("$.users[-1].card", "/users/1/card"),
            ("$.users[0]['b c', \"card\"]", "/users/0/card /users/0/b c"),
            ("$..card", "/users/0/card /users/1/card /users/1/x/card"),
            ("$.users.*", "/users/0 /users/1"),
            ("$.none.x", ""),
            ("$.a.b", ""),
        ] {
            assert_eq!(places(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_to_fields_is_refused() {
        for path in ["", "$", "$.", "$a", "$.a[", "$.a[?(@.b>1)]", "$.a[0]b", "$['a"] {
            assert!(FieldPath::parse(path).is_err(), "{path}");
        }
    }
}
