//! Errors in a plan, with position, path and remedy.

use std::fmt;

use serde::de;

use super::node::{Node, Place};

/// Error in a plan. Position and path are added as it passes outwards.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    pub(super) at: Option<Place>,
    /// Path of keys, such as `cases[1].load.connections`.
    pub(super) path: String,
    pub(super) why: String,
}

impl Problem {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self { at: None, path: String::new(), why: why.into() }
    }

    /// Sets the position, unless a more specific one is known.
    pub(super) fn at(mut self, place: Place) -> Self {
        self.at.get_or_insert(place);
        self
    }

    /// Prepends a key or `[index]` to the path.
    pub(super) fn within(mut self, key: &str) -> Self {
        self.path = match self.path.chars().next() {
            None => key.to_owned(),
            Some('[') => format!("{key}{}", self.path),
            Some(_) => format!("{key}.{}", self.path),
        };
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(out, "line {}, column {}: ", at.line, at.column)?;
        }
        if !self.path.is_empty() {
            write!(out, "{}: ", self.path)?;
        }
        out.write_str(&self.why)
    }
}

impl std::error::Error for Problem {}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format!("{unexpected} is not what belongs here; write {}", wanted(expected)))
    }

    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format!("{unexpected} is not allowed; write {}", wanted(expected)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("`{variant}` is not known; write {}", one_of(variant, expected)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("there is no such key; write {}", one_of(field, expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing"))
    }
}

/// Describes the type that serde expected in words for authors of YAML.
fn wanted(expected: &dyn de::Expected) -> String {
    let name = expected.to_string();
    match name.as_str() {
        "u16" => "a whole number from 0 to 65535".into(),
        "u32" | "u64" | "usize" => "a whole number of 0 or more".into(),
        "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "string" | "path string" => "text".into(),
        "a sequence" => "a list".into(),
        _ if name.starts_with("struct ") => "a map of keys".into(),
        _ => name,
    }
}

/// Returns the closest known word, or all known words if none is close.
fn one_of(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().min_by_key(|other| distance(word, other));
    match nearest.filter(|other| distance(word, other) <= 2) {
        Some(nearest) => format!("`{nearest}`?"),
        None => {
            let known: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
            format!("one of {}", known.join(", "))
        }
    }
}

/// Returns the edit distance: number of letters to change, insert or remove.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, wanted) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *wanted);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

/// Creates an error for a node of the wrong kind.
pub(super) fn unfit(node: &Node, wanted: &str) -> Problem {
    Problem::new(format!("is {}; write {wanted}", node.described())).at(node.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered() {
        assert_eq!(distance("conections", "connections"), 1);
        assert_eq!(one_of("conections", &["connections", "streams"]), "`connections`?");
        assert_eq!(
            one_of("xyz", &["a", "b"]),
            "`a`?".to_owned().replace("`a`?", "one of `a`, `b`")
        );
    }

    #[test]
    fn a_path_grows_from_the_inside() {
        let problem = Problem::new("is 0").within("connections").within("load").within("[1]");
        assert_eq!(problem.within("cases").path, "cases[1].load.connections");
    }
}
