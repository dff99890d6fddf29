//! PATCH: parts of an object change, and the whole is judged anew. Who was faster wins.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;
use tollhouse_store::{Operation, StoreError, Transaction};

use super::{Request, answered, fields_of, judge, now_s, sealed, settle_id};
use crate::api::Admin;
use crate::encrypt;
use crate::patch;
use crate::reply::Reply;
use crate::shape::{self, Written};

pub(super) async fn run(
    admin: &Admin,
    request: &Request<'_>,
    change: Option<Value>,
    ttl: Option<Duration>,
) -> Result<Reply, Reply> {
    let path = request.path()?;
    let change = change.ok_or_else(|| Reply::bad("missing new configuration"))?;
    let is_whole = request.sub_path.is_empty();
    if is_whole && !change.is_object() && change != Value::Array(Vec::new()) {
        return Err(Reply::bad("invalid configuration"));
    }
    if let Some(field) = request.resource.parent_field()
        && (change.get(field).is_some() || request.sub_path.first().is_some_and(|at| at == field))
    {
        return Err(Reply::bad(format!("{field} can not be patched")));
    }
    admin.index.catch_up().await?;
    let key = admin.key_of(&path);
    let entry = admin.parts.store.get(&key).await?.ok_or_else(Reply::key_not_found)?;
    let mut value: Value = serde_json::from_slice(&entry.value)
        .map_err(|error| Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    encrypt::open_written(request.resource, &mut value, &admin.parts)?;
    let mut value = changed(request, value, change)?;
    // The change may say what an answer has shown.
    encrypt::open_written(request.resource, &mut value, &admin.parts)?;
    judge(admin, request.resource, &path, &value)?;
    let stored = sealed(admin, request.resource, value.clone());
    let put = Operation::Put { key: key.as_str().into(), value: stored.to_string().into(), ttl };
    let transaction = Transaction::new().when_modified_at(key.as_str(), entry.mod_revision);
    match admin.parts.store.commit(transaction.then(put)).await {
        Ok(_) => {}
        Err(StoreError::Conflict { .. }) => {
            let text = "value changed before overwritten";
            return Err(Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(shape::written(
        admin.parts.options.api_version,
        Written::Patched,
        &key,
        answered(request, value, stored),
    ))
}

/// The object with its change, id and times.
fn changed(request: &Request<'_>, mut value: Value, change: Value) -> Result<Value, Reply> {
    let sets_time = |name: &str| {
        request.sub_path.is_empty() && change.get(name).is_some_and(|time| !time.is_null())
    };
    let keeps_update_time = sets_time("update_time");
    if request.sub_path.is_empty() {
        patch::merge(&mut value, change);
    } else {
        patch::put_at(&mut value, &request.sub_path, change).map_err(Reply::bad)?;
    }
    if !patch::is_shallow(&value) {
        return Err(Reply::bad("invalid configuration: the object is nested too deep"));
    }
    let mut fields = fields_of(value)?;
    settle_id(request, &mut fields)?;
    let now = now_s();
    if !fields.contains_key("create_time") {
        fields.insert("create_time".into(), now.into());
    }
    if !keeps_update_time {
        fields.insert("update_time".into(), now.into());
    }
    Ok(Value::Object(fields))
}
