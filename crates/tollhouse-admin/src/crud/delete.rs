//! DELETE: removes an object and those below it, unless another object refers to it.

use tollhouse_model::change_row::ChangeKind;
use tollhouse_store::{Committed, Operation, Transaction};

use super::guards::{Attempt, Attempts, Guards};
use super::precondition::Precondition;
use super::record::{Before, ChangeNote};
use super::request::Request;
use crate::auth;
use crate::context::Admin;
use crate::index;
use crate::reply::Reply;
use crate::resource::{self, Layout, Resource};
use crate::served;
use crate::shape;

pub(super) async fn run(admin: &Admin, request: &Request<'_>) -> Result<Reply, Reply> {
    let path = request.path()?;
    let key = admin.key_of(&path);
    let committed = delete(admin, request, &path).await?;
    if committed.previous.first().is_none_or(Option::is_none) {
        return Err(Reply::key_not_found());
    }
    let reply = shape::deleted(admin.parts.options.api_version, &key);
    Ok(served::made(reply, committed.revision))
}

async fn delete(admin: &Admin, request: &Request<'_>, path: &str) -> Result<Committed, Reply> {
    let precondition = Precondition::parse(&request.call.headers)?;
    let is_forced = request.call.arguments.is("force", "true");
    let key = admin.key_of(path);
    let mut attempts = Attempts::new(admin);
    loop {
        attempts.begin().await?;
        let before = Before::read(admin, &key).await?;
        precondition.check_entry(admin, request, before.object())?;
        let mut transaction = removal(admin, request, path);
        if request.is_guarded() && !is_forced {
            let contents = admin.index.contents();
            if let Some(reason) = (request.resource.guard)(path, &contents) {
                return Err(Reply::bad(reason));
            }
            transaction = Guards::for_deletion(admin, path, &contents).add_to(transaction);
        }
        // Deleting a missing object adds no change row, but still deletes entries that are left
        // below it.
        if before.object().is_some() {
            let below = below(admin, request, path).await?;
            let note = ChangeNote { below, ..ChangeNote::new(ChangeKind::Delete, None) };
            transaction = before.record(admin, request, path, note, transaction)?;
        } else {
            // An object that is written meanwhile is checked before it is deleted.
            transaction = transaction.when(before.condition());
        }
        let committed = match attempts.commit(transaction.clone()).await {
            // A deletion must also succeed on a full store. It is therefore repeated without the
            // change row.
            Err(error) if error.is_without_room() => {
                let actor = auth::caller(&admin.parts.options, request.call);
                let actor = actor.as_ref().map_or("", |key| key.name.as_str());
                tracing::warn!(
                    path,
                    actor,
                    "deleted without a row among the changes: the store has no room"
                );
                attempts.commit(without_puts(transaction)).await
            }
            committed => committed,
        };
        match committed? {
            Attempt::Committed(committed) => return Ok(committed),
            // The object itself has changed. If other objects can refer to it, the conflict counts
            // as an ordinary failed attempt, which `ATTEMPTS_MAX` limits.
            Attempt::Changed(changed) if *changed == *key && !request.is_guarded() => {
                attempts.overtaken()?;
            }
            Attempt::Changed(_) => {}
        }
    }
}

fn without_puts(mut transaction: Transaction) -> Transaction {
    transaction.operations.retain(|operation| !matches!(operation, Operation::Put { .. }));
    transaction
}

/// Returns the objects below an object, which are deleted with it, for the change row. Objects that
/// are written there before the commit may be missing.
async fn below(
    admin: &Admin,
    request: &Request<'_>,
    path: &str,
) -> Result<Vec<(String, String)>, Reply> {
    if !has_children(request.resource) {
        return Ok(Vec::new());
    }
    let listing = admin.parts.store.list(&format!("{}/", admin.key_of(path))).await?;
    let objects = listing.entries.into_iter();
    let objects = objects.filter(|entry| index::holds_object(&entry.key, &entry.value));
    let texts = objects.filter_map(|entry| {
        let below = entry.key.strip_prefix(&admin.key_of(path))?;
        Some((format!("{path}{below}"), String::from_utf8(entry.value.to_vec()).ok()?))
    });
    Ok(texts.collect())
}

/// Whether objects of a resource can have children.
pub(super) fn has_children(resource: &Resource) -> bool {
    resource::ALL.iter().any(|child| child.layout == Layout::Child(resource.name))
}

/// Returns the transaction that deletes an object, the objects below it, and their guards.
pub(super) fn removal(admin: &Admin, request: &Request<'_>, path: &str) -> Transaction {
    let (key, guard) = (admin.key_of(path), admin.guard_key(path));
    let mut transaction = Transaction::new().delete(key.as_str());
    if request.is_guarded() {
        transaction = transaction.delete(guard.as_str());
    }
    if has_children(request.resource) {
        transaction =
            transaction.delete_prefix(format!("{key}/")).delete_prefix(format!("{guard}/"));
    }
    transaction
}
