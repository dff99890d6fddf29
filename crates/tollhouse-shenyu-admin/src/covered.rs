//! What of an answer is hidden from who may only read it: secrets of applications, and those among the
//! settings of plugins, selectors and rules. Who may change them sees them, as in ShenYu's console.

use serde_json::Value;
use tollhouse_shenyu::sealing::{COVER, cover};

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

fn hide_settings(row: &mut Row, member: &str) {
    let covered = row::document(row, member).and_then(|settings| cover(&settings));
    if let Some(covered) = covered {
        row.insert(member.to_owned(), covered.into());
    }
}
