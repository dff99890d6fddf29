//! Forms of ShenYu's objects: JSON Schemas of the objects as its admin accepts them, and of each
//! plugin's configuration and handles. Their descriptions are meant for people.

use std::sync::LazyLock;

use serde_json::Value;

static FORMS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("forms.json")).expect("the file beside this one is JSON")
});

/// Returns all schemas: `kinds` by the first path segment of an object, and `plugins` by name, each
/// with `config`, `selector` and `rule` if it reads one.
pub fn forms() -> &'static Value {
    &FORMS
}

#[cfg(test)]
mod tests;
