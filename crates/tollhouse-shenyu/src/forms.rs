//! What forms of ShenYu's objects ask for: JSON Schemas of the objects as its admin takes them, and of what each plugin
//! reads in its configuration and in the handles of selectors and rules. Descriptions are for people.

use std::sync::LazyLock;

use serde_json::Value;

static FORMS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("forms.json")).expect("the file beside this one is JSON")
});

/// All of them: `kinds` by the first segment of an object's paths, and `plugins` by name, each with its `config`,
/// `selector` and `rule`, where it reads one.
pub fn forms() -> &'static Value {
    &FORMS
}

#[cfg(test)]
mod tests;
