//! What of an answer is hidden from who may only read it: secrets of applications, and those among the
//! settings of plugins, selectors and rules. Who may change them sees them, as in ShenYu's console; what was hidden
//! and comes back stands for what is there.

use serde_json::Value;
use tollhouse_shenyu::sealing::{COVER, cover, redirects, uncover};

use crate::answer::Refusal;
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

/// Members of rows that decide, beside the settings, where a secret in them is sent.
const SENT_TO: [&str; 4] = ["serverList", "type", "discoveryType", "pluginId"];

/// The body of a caller who writes back what was hidden from them, with the stored secrets in its place. `None` where
/// nothing of it is hidden.
///
/// # Errors
/// A secret would be sent elsewhere than before: it has to be written again.
pub(crate) fn restore(body: &Row, before: &Row) -> Result<Option<Row>, Refusal> {
    let mut restored = None;
    if body.get("appSecret").is_some_and(|secret| secret == COVER) {
        let body = restored.get_or_insert_with(|| body.clone());
        body.insert("appSecret".to_owned(), before.get("appSecret").cloned().unwrap_or_default());
    }
    for member in ["config", "handle", "props"] {
        let (written, known) = (row::document(body, member), row::document(before, member));
        let (written, known) = (written.unwrap_or_default(), known.unwrap_or_default());
        if let Some(uncovered) = uncover(&written, &known) {
            let differs =
                |name| row::text(body, name).is_some_and(|it| Some(it) != row::text(before, name));
            let mut beside = SENT_TO.into_iter().chain((member == "config").then_some("name"));
            if redirects(&written, &known) || beside.any(differs) {
                let text =
                    format!("{member} may send a hidden secret elsewhere: write the secret again");
                return Err(Refusal::error(text));
            }
            let body = restored.get_or_insert_with(|| body.clone());
            body.insert(member.to_owned(), uncovered.into());
        }
    }
    Ok(restored)
}

fn hide_settings(row: &mut Row, member: &str) {
    let covered = row::document(row, member).and_then(|settings| cover(&settings));
    if let Some(covered) = covered {
        row.insert(member.to_owned(), covered.into());
    }
}
