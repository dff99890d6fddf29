//! DELETE: an object goes, unless another one still uses it. What lies below it goes with it.

use tollhouse_store::Transaction;

use super::Request;
use crate::api::Admin;
use crate::reply::Reply;
use crate::resource::{self, Layout};
use crate::shape;

pub(super) async fn run(admin: &Admin, request: &Request<'_>) -> Result<Reply, Reply> {
    let path = request.path()?;
    let key = admin.key_of(&path);
    admin.index.catch_up().await?;
    if !request.call.arguments.is("force", "true") {
        let kept = (request.resource.guard)(&path, &admin.index.known());
        if let Some(reason) = kept {
            return Err(Reply::bad(reason));
        }
    }
    let mut transaction = Transaction::new().delete(key.as_str());
    let has_children =
        resource::ALL.iter().any(|child| child.layout == Layout::Child(request.resource.name));
    if has_children {
        transaction = transaction.delete_prefix(format!("{key}/"));
    }
    let committed = admin.parts.store.commit(transaction).await?;
    if committed.previous.first().is_none_or(Option::is_none) {
        return Err(Reply::key_not_found());
    }
    Ok(shape::deleted(admin.parts.options.api_version, &key))
}
