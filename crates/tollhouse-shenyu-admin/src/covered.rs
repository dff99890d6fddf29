//! What of an answer is hidden from who may only read it: secrets of applications, and those among the
//! settings of plugins, selectors and rules. Who may change them sees them, as in ShenYu's console; what was hidden
//! and comes back stands for what is there.

use serde_json::Value;
use tollhouse_shenyu::sealing::{COVER, cover, uncover};

use crate::rights::Rights;
use crate::row::{self, Row};

/// Hides in everything that is answered what the caller may not change.
pub(crate) fn hide(rights: &Rights, answered: &mut Value) {
    if rights.may_everything() {
        return;
    }
    match answered {
        Value::Array(values) => values.iter_mut().for_each(|value| hide(rights, value)),
        Value::Object(row) => {
            hide_in_row(rights, row);
            row.values_mut().for_each(|value| hide(rights, value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn hide_in_row(rights: &Rights, row: &mut Row) {
    let of_plugin = |row: &Row, noun: &str| {
        let plugin = row::text(row, "pluginName").unwrap_or_default();
        rights.may(&format!("plugin:{plugin}{noun}:edit"))
    };
    // Whatever the object is: what has these members is treated as what has them in ShenYu's answers.
    if row.contains_key("appSecret") && !rights.may("system:authen:edit") {
        row.insert("appSecret".to_owned(), COVER.into());
    }
    for member in ["config", "props"] {
        if row.contains_key(member) && !rights.may("system:plugin:edit") {
            hide_settings(row, member);
        }
    }
    if row.contains_key("handle") {
        let noun = if row.contains_key("selectorConditions") { "Selector" } else { "Rule" };
        if !of_plugin(row, noun) {
            hide_settings(row, "handle");
        }
    }
}

/// The body of who writes back what was hidden from him: with what is there in its place. `None` where nothing of it is
/// hidden.
pub(crate) fn restore(body: &Row, before: &Row) -> Option<Row> {
    let mut restored = None;
    if body.get("appSecret").is_some_and(|secret| secret == COVER) {
        let body = restored.get_or_insert_with(|| body.clone());
        body.insert("appSecret".to_owned(), before.get("appSecret").cloned().unwrap_or_default());
    }
    for member in ["config", "handle", "props"] {
        let (written, known) = (row::document(body, member), row::document(before, member));
        let uncovered = written.and_then(|written| uncover(&written, &known.unwrap_or_default()));
        if let Some(uncovered) = uncovered {
            let body = restored.get_or_insert_with(|| body.clone());
            body.insert(member.to_owned(), uncovered.into());
        }
    }
    restored
}

fn hide_settings(row: &mut Row, member: &str) {
    let covered = row::document(row, member).and_then(|settings| cover(&settings));
    if let Some(covered) = covered {
        row.insert(member.to_owned(), covered.into());
    }
}
