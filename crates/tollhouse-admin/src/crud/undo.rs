//! Undo of a change: the previous object is restored byte for byte, after all checks of a write.
//! The object must be as the change left it, or as the caller has seen it according to `If-Match`.

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_model::change_row::{ChangeKind, ChangeRow, IMPORTED};
use tollhouse_store::{Entry, Operation, Revision, Transaction};

use super::checks::{author, validate};
use super::delete;
use super::guards::{Attempt, Attempts, Guards};
use super::precondition::{self, Precondition};
use super::record::{Before, ChangeNote};
use super::request::Request;
use super::undo_import;
use crate::call::Call;
use crate::context::Admin;
use crate::encrypt::{self, Author};
use crate::reply::Reply;
use crate::resource::{self, Layout, Resource};

/// Choice between undoing a change and only checking whether that is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undoing {
    Write,
    /// Only checks whether the change can be undone.
    Try,
}

/// Change to undo: its change row, with the name and the revision of the row.
pub(crate) struct Change<'a> {
    pub(crate) row: &'a ChangeRow,
    pub(crate) name: &'a str,
    pub(crate) revision: Revision,
}

/// Undoes a change, and returns the new revision.
///
/// # Errors
/// Returns 412 if the object has changed since, 409 if its previous state is unknown, or any error
/// of a write.
pub(crate) async fn run(
    admin: &Admin,
    call: &Call,
    change: &Change<'_>,
    undoing: Undoing,
) -> Result<Reply, Reply> {
    let (row, path) = (change.row, change.row.path.as_str());
    if let Some(reason) = reason_against(row) {
        return Err(Reply::refusal(StatusCode::CONFLICT, reason));
    }
    if path == IMPORTED {
        return undo_import::run(admin, call, change, undoing).await;
    }
    let request = request_about(call, path)
        .ok_or_else(|| Reply::bad(format!("no objects exist at {path}")))?;
    let key = admin.key_of(path);
    let precondition = Precondition::parse(&call.headers)?;
    let mut attempts = Attempts::new(admin);
    loop {
        attempts.begin().await?;
        // The object is read again at each attempt, so that the check sees writes of other calls.
        let before = Before::read(admin, &key).await?;
        check_unchanged(admin, &request, change, &precondition, before.object())?;
        let transaction = match &row.before {
            Some(value) => {
                let author = author(admin, &request, before.object());
                restored(admin, &request, &Restored { path, stored: value, author })?
            }
            None => removed(admin, &request, path)?,
        };
        if undoing == Undoing::Try {
            return Ok(Reply::json(StatusCode::OK, &json!({ "valid": true })));
        }
        let mut transaction = transaction;
        for (path, value) in &row.below {
            transaction = transaction.put(admin.key_of(path), value.clone());
        }
        let note = ChangeNote {
            undoes: Some(change.name.to_owned()),
            ..ChangeNote::new(ChangeKind::Undo, row.before.clone())
        };
        let transaction = before.record(admin, &request, path, note, transaction)?;
        if let Attempt::Committed(committed) = attempts.commit(transaction).await? {
            let reply = Reply::json(StatusCode::OK, &json!({ "revision": committed.revision.0 }));
            return Ok(precondition::with_tag(reply, committed.revision));
        }
    }
}

/// Returns the reason why a change of this kind can never be undone; `None` if it can be.
pub(crate) fn reason_against(row: &ChangeRow) -> Option<&'static str> {
    if place_of(&row.path).is_none() && row.path != IMPORTED {
        return Some(
            "this was not a change of one object of the gateway; write it back where it was made",
        );
    }
    if row.is_cut {
        return Some(match row.path == IMPORTED {
            true => {
                "these were too many objects, or too large ones, to be undone in a single commit"
            }
            false => "the previous object was too large to be stored",
        });
    }
    if row.was_to_end {
        return Some("the previous object had a ttl; write it again with its ttl");
    }
    None
}

/// Refuses the undo if the object has changed since, unless the caller has seen its current state.
fn check_unchanged(
    admin: &Admin,
    request: &Request<'_>,
    change: &Change<'_>,
    precondition: &Precondition,
    entry: Option<&Entry>,
) -> Result<(), Reply> {
    if *precondition != Precondition::Unconditional {
        return precondition.check_entry(admin, request, entry);
    }
    let is_as_left = match (entry, &change.row.after) {
        (Some(entry), Some(_)) => entry.mod_revision == change.revision,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    if is_as_left { Ok(()) } else { Err(precondition::failed(admin, request, entry)) }
}

/// A previous object, as it was stored, and who restores it.
struct Restored<'a> {
    path: &'a str,
    stored: &'a str,
    author: Author<'a>,
}

/// Returns the transaction that restores the previous object.
fn restored(
    admin: &Admin,
    request: &Request<'_>,
    previous: &Restored<'_>,
) -> Result<Transaction, Reply> {
    let Restored { path, stored, author } = previous;
    let mut value: Value =
        serde_json::from_str(stored).map_err(|error| Reply::unavailable(error.to_string()))?;
    encrypt::check_author(path, &value, author)?;
    encrypt::open_stored(path, &mut value, &admin.parts)?;
    super::checks::check_parent(admin, request)?;
    let guards = validate(admin, request.resource, path, &value)?;
    let put = Operation::put(admin.key_of(path), Bytes::from((*stored).to_owned()));
    Ok(guards.add_to(Transaction::new().then(put)))
}

/// Returns the transaction that deletes the object which the change created.
fn removed(admin: &Admin, request: &Request<'_>, path: &str) -> Result<Transaction, Reply> {
    let transaction = delete::removal(admin, request, path);
    if !request.is_guarded() {
        return Ok(transaction);
    }
    let contents = admin.index.contents();
    if let Some(reason) = (request.resource.guard)(path, &contents) {
        return Err(Reply::bad(reason));
    }
    Ok(Guards::for_deletion(admin, path, &contents).add_to(transaction))
}

/// Returns a request about the object at `path`, as part of the current call.
pub(crate) fn request_about<'c>(call: &'c Call, path: &str) -> Option<Request<'c>> {
    let (resource, parent, id) = place_of(path)?;
    let id = Some(id.to_owned());
    let parent = parent.map(str::to_owned);
    Some(Request { resource, parent, id, sub_path: Vec::new(), call, body: Bytes::new() })
}

/// Splits an object path into resource, parent and id.
pub(crate) fn place_of(path: &str) -> Option<(&'static Resource, Option<&str>, &str)> {
    let segments: Vec<&str> = path.split('/').collect();
    match segments.as_slice() {
        [collection, id] => Some((resource::find(collection)?, None, id)),
        [collection @ "secrets", manager, id] => {
            Some((resource::find(collection)?, Some(manager), id))
        }
        [above, parent, child, id] => {
            let is_below =
                |it: &&Resource| matches!(it.layout, Layout::Child(name) if name == *above);
            let resource = resource::find(child).filter(is_below)?;
            Some((resource, Some(parent), id))
        }
        _ => None,
    }
}
