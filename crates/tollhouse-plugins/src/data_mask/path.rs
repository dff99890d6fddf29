//! JSONPath of masked fields, in the part that names fields: `$.users[*].card`, `$.items[0,2]`,
//! `$..password`. A path without `$` begins at the top.

use serde_json::Value;
use tollhouse_plugin::ConfError;

use super::Masked;

/// Largest number of values that a path may visit, for each byte of the document. A path with one
/// `..` visits each value once, which takes two bytes.
const VISITS_PER_BYTE: usize = 2;

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

/// Bounds on the masks of one document.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Largest number of visits of each path.
    visits_max: usize,
    /// Bytes that new values may still have.
    bytes_left: usize,
}

impl Bounds {
    /// Returns the bounds for a document of `document_bytes`.
    pub(super) fn new(document_bytes: usize, bytes_left: usize) -> Self {
        Self { visits_max: document_bytes.saturating_mul(VISITS_PER_BYTE), bytes_left }
    }
}

/// Key of one level: name of a field, or position of an item.
#[derive(Debug, Clone, Copy)]
enum Key<'v> {
    Name(&'v str),
    /// Position, and the number of items.
    Item(usize, usize),
}

/// Mask of a path for one document.
struct Masking<'m> {
    mask: &'m dyn Fn(&Value) -> Masked,
    visits_left: usize,
    bytes_left: &'m mut usize,
    has_masked: bool,
    /// Whether a bound is reached, or a value could not be searched.
    has_failed: bool,
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

    /// Masks the values that the path reaches, in place. Returns whether something has changed;
    /// `None` if that takes too much work, or a value could not be searched.
    pub(super) fn mask(
        &self,
        document: &mut Value,
        bounds: &mut Bounds,
        mask: &dyn Fn(&Value) -> Masked,
    ) -> Option<bool> {
        let (visits_left, bytes_left) = (bounds.visits_max, &mut bounds.bytes_left);
        let mut masking =
            Masking { mask, visits_left, bytes_left, has_masked: false, has_failed: false };
        masking.descend(&self.0, document);
        (!masking.has_failed).then_some(masking.has_masked)
    }
}

impl Masking<'_> {
    /// Masks below `value`. Recursion is as deep as the document, which the parser bounds.
    fn descend(&mut self, steps: &[Step], value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, child| self.keeps(steps, Key::Name(name), child));
            }
            Value::Array(items) => {
                let (mut index, count) = (0, items.len());
                items.retain_mut(|child| {
                    index += 1;
                    self.keeps(steps, Key::Item(index - 1, count), child)
                });
            }
            _ => {}
        }
    }

    /// Masks one child, below it first; returns false if it is removed.
    fn keeps(&mut self, steps: &[Step], key: Key<'_>, child: &mut Value) -> bool {
        let Some((step, rest)) = steps.split_first() else { return true };
        if self.has_failed || self.visits_left == 0 {
            self.has_failed = true;
            return true;
        }
        self.visits_left -= 1;
        if step.is_deep {
            self.descend(steps, child);
        }
        if !step.selector.selects(key) {
            return true;
        }
        if rest.is_empty() {
            return self.keeps_masked(child);
        }
        self.descend(rest, child);
        true
    }

    fn keeps_masked(&mut self, child: &mut Value) -> bool {
        match (self.mask)(child) {
            Masked::Unchanged => return true,
            Masked::Unknown => {
                self.has_failed = true;
                return true;
            }
            Masked::Removed => {
                self.has_masked = true;
                return false;
            }
            Masked::Text(text) => match self.bytes_left.checked_sub(text.len()) {
                Some(left) => {
                    *self.bytes_left = left;
                    *child = String::from_utf8_lossy(&text).into();
                }
                None => self.has_failed = true,
            },
        }
        self.has_masked = true;
        true
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

    fn selects(&self, key: Key<'_>) -> bool {
        match (self, key) {
            (Selector::All, _) => true,
            (Selector::Names(names), Key::Name(name)) => names.iter().any(|other| other == name),
            (Selector::Items(numbers), Key::Item(index, count)) => {
                let position = |number: i64| if number < 0 { count as i64 + number } else { number };
                numbers.iter().any(|number| position(*number) == index as i64)
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

    fn document() -> Value {
        json!({
            "a": "1",
            "users": [{"card": "2", "b c": "3"}, {"card": "4", "x": {"card": "5"}}],
        })
    }

    /// Returns the texts that a path reaches, and the document without what it reaches.
    fn reached(path: &str) -> (String, Value) {
        let (mut document, path) = (document(), FieldPath::parse(path).unwrap());
        let texts = std::cell::RefCell::new(Vec::new());
        let note = |value: &Value| {
            texts.borrow_mut().push(value.as_str().unwrap_or("-").to_owned());
            Masked::Unchanged
        };
        assert_eq!(path.mask(&mut document, &mut Bounds::new(99, 0), &note), Some(false));
        path.mask(&mut document, &mut Bounds::new(99, 0), &|_| Masked::Removed);
        (texts.into_inner().join(" "), document)
    }

    #[test]
    fn paths_reach_fields_and_items() {
        for (path, expected) in [
            ("$.a", "1"),
            ("a", "1"),
            ("$['a']", "1"),
            ("$.users[*].card", "2 4"),
            ("users[*].card", "2 4"),
            ("$.users[1,0].card", "2 4"),
            ("$.users[-1].card", "4"),
            ("$.users[0]['b c', \"card\"]", "2 3"),
            ("$..card", "2 5 4"),
            ("$.users.*", "- -"),
            ("$.none.x", ""),
            ("$.a.b", ""),
        ] {
            let mut texts: Vec<_> = expected.split(' ').collect();
            let (found, left) = reached(path);
            let mut found: Vec<_> = found.split(' ').collect();
            texts.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, texts, "{path}");
            assert_eq!(left == document(), expected.is_empty(), "{path}");
        }
        assert_eq!(reached("$.users[0,1]").1, json!({"a": "1", "users": []}));
    }

    #[test]
    fn work_and_new_values_are_bounded() {
        let wide: Value = vec![json!({"a": [1]}); 30].into();
        let mut document = (0..60).fold(wide, |inner, _| json!([inner]));
        let path = FieldPath::parse("$..*..*..*..*..a").unwrap();
        assert_eq!(path.mask(&mut document, &mut Bounds::new(500, 9), &|_| Masked::Removed), None);
        let path = FieldPath::parse("$.*").unwrap();
        let text = |_: &Value| Masked::Text(b"long".to_vec());
        assert_eq!(path.mask(&mut json!([1, 2]), &mut Bounds::new(9, 8), &text), Some(true));
        assert_eq!(path.mask(&mut json!([1, 2]), &mut Bounds::new(9, 7), &text), None);
    }

    #[test]
    fn what_is_no_path_to_fields_is_refused() {
        for path in ["", "$", "$.", "$a", "$.a[", "$.a[?(@.b>1)]", "$.a[0]b", "$['a"] {
            assert!(FieldPath::parse(path).is_err(), "{path}");
        }
    }
}
