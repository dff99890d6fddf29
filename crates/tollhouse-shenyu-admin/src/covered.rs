//! Masking of secrets in answers to read-only callers: secrets of applications, and those in the
//! settings of plugins, selectors and rules. Callers who may change an object see its secrets, as
//! in ShenYu's console. A masked value that is written back stands for the stored secret.

use serde_json::Value;
use tollhouse_shenyu::sealing::{COVER, cover, redirects, uncover};

use crate::answer::Refusal;
use crate::rights::Rights;
use crate::row::{self, Row};

/// Masks every secret in an answer that belongs to an object the caller may not change.
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
    // Members decide, not the kind of the object: in ShenYu's answers these members always hold
    // secrets.
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

/// Members besides the settings that determine where a secret is sent.
const SENT_TO: [&str; 4] = ["serverList", "type", "discoveryType", "pluginId"];

/// Puts the stored secrets back into a body that contains masked ones. Returns `None` if the body
/// contains no masked secret.
///
/// # Errors
///
/// If the secret would be sent to another destination than before. The caller must then write the
/// secret again.
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
