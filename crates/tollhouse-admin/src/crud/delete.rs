//! DELETE: an object goes, unless another one still uses it. What lies below it goes with it.

use tollhouse_store::{Committed, Transaction};

use super::guards::{Attempt, Attempts, Guards};
use super::precondition::Precondition;
use super::request::Request;
use crate::context::Admin;
use crate::reply::Reply;
use crate::resource::{self, Layout};
use crate::shape;

pub(super) async fn run(admin: &Admin, request: &Request<'_>) -> Result<Reply, Reply> {
    let path = request.path()?;
    let key = admin.key_of(&path);
    let committed = delete(admin, request, &path).await?;
    if committed.previous.first().is_none_or(Option::is_none) {
        return Err(Reply::key_not_found());
    }
    Ok(shape::deleted(admin.parts.options.api_version, &key))
}

async fn delete(admin: &Admin, request: &Request<'_>, path: &str) -> Result<Committed, Reply> {
    let precondition = Precondition::parse(&request.call.headers)?;
    let is_forced = request.call.arguments.is("force", "true");
    let mut attempts = Attempts::default();
    loop {
        attempts.begin(admin).await?;
        let unchanged = precondition.check(admin, request, &admin.key_of(path)).await?;
        let mut transaction = removal(admin, request, path);
        transaction.conditions.extend(unchanged);
        if request.is_guarded() && !is_forced {
            let known = admin.index.known();
            if let Some(reason) = (request.resource.guard)(path, &known) {
                return Err(Reply::bad(reason));
            }
            transaction = Guards::for_deletion(admin, path, &known).add_to(transaction);
        }
        if let Attempt::Committed(committed) = attempts.commit(admin, transaction).await? {
            return Ok(committed);
        }
    }
}

/// The object and what lies below it, with their guards.
fn removal(admin: &Admin, request: &Request<'_>, path: &str) -> Transaction {
    let (key, guard) = (admin.key_of(path), admin.guard_key(path));
    let mut transaction = Transaction::new().delete(key.as_str());
    if request.is_guarded() {
        transaction = transaction.delete(guard.as_str());
    }
    let is_child =
        |child: &resource::Resource| child.layout == Layout::Child(request.resource.name);
    if resource::ALL.iter().any(is_child) {
        transaction =
            transaction.delete_prefix(format!("{key}/")).delete_prefix(format!("{guard}/"));
    }
    transaction
}
