//! Undo of an import, in one commit and after all checks of a write: restores replaced and deleted
//! objects byte for byte, and deletes created ones. All objects must be as the import left them.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_model::change_row::ChangeRow;

use super::many::{self, NewObject, Step};
use super::undo::{Change, Undoing};
use crate::call::Call;
use crate::context::Admin;
use crate::encrypt::{self, Author};
use crate::index::Contents;
use crate::reply::Reply;
use crate::resource;

/// Maximum number of objects that a refusal names; it also contains the number of the others.
const NAMED_MAX: usize = 5;

/// Undoes an import, or only checks whether that is possible.
///
/// # Errors
/// Returns 412 if an object has changed since, or any error of a write.
pub(super) async fn run(
    admin: &Admin,
    call: &Call,
    change: &Change<'_>,
    undoing: Undoing,
) -> Result<Reply, Reply> {
    admin.index.catch_up().await?;
    let steps = steps(admin, call, change).await?;
    let prospect = many::prospect(admin, &steps).await;
    check(admin, &steps, &prospect)?;
    let row = many::row(admin, call, &steps, Some(change.name));
    let transaction = many::transaction(admin, call, &steps, &row)?;
    if undoing == Undoing::Try {
        return Ok(Reply::json(StatusCode::OK, &json!({ "valid": true })));
    }
    let revision = many::commit(admin, transaction).await?;
    Ok(Reply::json(StatusCode::OK, &json!({ "revision": revision.0 })))
}

async fn steps(admin: &Admin, call: &Call, change: &Change<'_>) -> Result<Vec<Step>, Reply> {
    let row: &ChangeRow = change.row;
    let before: BTreeMap<&str, &str> =
        row.below.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let written: Value = serde_json::from_str(row.after.as_deref().unwrap_or("{}"))
        .map_err(|error| Reply::unavailable(error.to_string()))?;
    let mut steps = Vec::new();
    let mut changed = Vec::new();
    for path in row.imported() {
        let entry = admin.parts.store.get(&admin.key_of(&path)).await?;
        let was_written = written.get(&path).is_some();
        let is_as_left = match &entry {
            Some(entry) => was_written && entry.mod_revision == change.revision,
            None => !was_written,
        };
        if !is_as_left {
            changed.push(path.clone());
        }
        let author = Author::new(admin, call, entry.as_ref());
        let after = before.get(&*path).map(|stored| restored(admin, &path, stored, &author));
        let after = after.transpose()?;
        steps.extend(Step::new(&path, entry, after));
    }
    if changed.is_empty() {
        return Ok(steps);
    }
    let more = changed.len().saturating_sub(NAMED_MAX);
    let mut named: Vec<&str> = changed.iter().take(NAMED_MAX).map(String::as_str).collect();
    let others = format!("{more} more");
    if more > 0 {
        named.push(&others);
    }
    Err(many::changed(&named))
}

fn restored(
    admin: &Admin,
    path: &str,
    stored: &str,
    author: &Author<'_>,
) -> Result<NewObject, Reply> {
    let mut plain: Value =
        serde_json::from_str(stored).map_err(|error| Reply::unavailable(error.to_string()))?;
    encrypt::check_author(path, &plain, author)?;
    encrypt::open_stored(path, &mut plain, &admin.parts)?;
    Ok(NewObject { plain, stored: stored.to_owned() })
}

/// Checks all steps as individual writes would.
fn check(admin: &Admin, steps: &[Step], prospect: &Contents) -> Result<(), Reply> {
    for step in steps {
        if let Some(reason) = many::kept_by(step, prospect) {
            return Err(Reply::bad(reason));
        }
        if let Some(written) = &step.after {
            let candidate = many::candidate(admin, prospect, &step.path, &written.plain);
            resource::validate(step.resource, &candidate)?;
            if step.resource.holds_identities() {
                resource::consumers::check_unique(&candidate)?;
            }
        }
    }
    Ok(())
}
