//! Changes of ShenYu's objects in the list of changes. Their rows come from the emulated ShenYu
//! admin, which records them itself.

use serde_json::{Value, json};
use tollhouse_model::change_row::{ChangeKind, Way};

use super::{changes, differences};
use crate::context::Admin;
use crate::index::changes::{ChangeFacts, Summary};
use crate::shenyu::ShenyuChange;

/// Reason why these changes cannot be undone.
pub(super) const NO_UNDO: &str = "changes of ShenYu's objects cannot be undone here; write the previous object, which is shown beside";

/// Prefix of the names of rows about ShenYu's objects.
const PREFIX: &str = "shenyu-";

/// Collection name of ShenYu changes in the list of changes.
const KIND: &str = "shenyu";

pub(super) fn all(admin: &Admin) -> Vec<ShenyuChange> {
    admin.parts.shenyu.as_ref().map(|source| source.changes()).unwrap_or_default()
}

/// Returns a name for the change that is unique among all rows.
pub(super) fn name(change: &ShenyuChange) -> String {
    format!("{PREFIX}{}", change.id)
}

/// Returns the summary by which rows are filtered; `None` if the kind of change is unknown.
pub(super) fn summary(change: &ShenyuChange) -> Option<Summary> {
    let deed = [ChangeKind::Create, ChangeKind::Replace, ChangeKind::Delete].into_iter();
    let deed = deed.into_iter().find(|deed| deed.name() == change.deed)?;
    let way = if change.way == Way::Console.name() { Way::Console } else { Way::Api };
    let path = format!("{KIND}/{}", change.object);
    let (at_ms, actor) = (change.at_ms, change.actor.as_str());
    Some(Summary::without_row(ChangeFacts { at_ms, actor, way, deed, path: &path }))
}

/// Returns the change with this name as JSON, with at most `differences_max` differences.
pub(super) fn row(admin: &Admin, name: &str, differences_max: usize) -> Option<Value> {
    let source = admin.parts.shenyu.as_ref()?;
    let (change, changes) = source.change(name.strip_prefix(PREFIX)?)?;
    let rows = changes["rows"].as_array().cloned().unwrap_or_default();
    let first = rows.first().cloned().unwrap_or_default();
    let both = first["before"].is_object() && first["after"].is_object();
    let mut found = match both {
        true => differences::between(&first["before"], &first["after"], differences_max + 1),
        false => Vec::new(),
    };
    // Masked secrets look equal even if they have changed.
    if first["has_other_secrets"] == true {
        found.push(json!({"pointer": "/handle", "before": "******", "after": "******"}));
    }
    let has_more = found.len() > differences_max;
    found.truncate(differences_max);
    let below = rows.iter().skip(1).filter_map(|row| row["object"].as_str());
    Some(json!({
        "name": name,
        "revision": change.revision,
        "at_ms": change.at_ms,
        "actor": Some(&change.actor).filter(|actor| !actor.is_empty()),
        "way": change.way,
        "deed": change.deed,
        "kind": KIND,
        "id": change.object,
        "title": changes::title(if first["after"].is_object() { &first["after"] } else { &first["before"] }),
        "context": change.context,
        "differences": found,
        "has_more": has_more,
        "is_cut": changes["is_cut"] == true,
        "undoes": Value::Null,
        "before": first["before"],
        "after": first["after"],
        "below": below.collect::<Vec<_>>(),
        "more": changes["more"],
        "current_revision": Value::Null,
        "is_newest": true,
        "undo_refused": NO_UNDO,
    }))
}
