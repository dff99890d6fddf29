//! PATCH: changes parts of an object, and checks the whole object again. If two calls patch an
//! object concurrently, the second applies its change to the result of the first.

use serde_json::Value;
use tollhouse_model::change_row::ChangeKind;
use tollhouse_store::{Entry, Operation, Transaction};

use super::checks::{author, now_s, seal, validate, value_of_answer};
use super::guards::{Attempt, Attempts, turn_key};
use super::precondition::{self, Precondition};
use super::record::{Before, ChangeNote};
use super::request::{Request, fields_of, resolve_id};
use crate::context::Admin;
use crate::encrypt;
use crate::patch;
use crate::reply::Reply;
use crate::served;
use crate::shape::{self, WriteKind};

pub(super) async fn run(
    admin: &Admin,
    request: &Request<'_>,
    change: Option<Value>,
) -> Result<Reply, Reply> {
    let path = request.path()?;
    let change = change.ok_or_else(|| Reply::bad("missing new configuration"))?;
    check_change(request, &change)?;
    let key = admin.key_of(&path);
    let precondition = Precondition::parse(&request.call.headers)?;
    let mut lease = None;
    let mut attempts = Attempts::new(admin);
    attempts.wait_in_queue(&turn_key(admin, request.resource, &path)).await;
    let (committed, stored) = loop {
        attempts.begin().await?;
        let entry = admin.parts.store.get(&key).await?.ok_or_else(Reply::key_not_found)?;
        precondition.check_entry(admin, request, Some(&entry))?;
        let (value, stored) = patched(admin, request, &entry, change.clone())?;
        let guards = validate(admin, request.resource, &path, &value)?;
        if attempts.is_first() {
            lease = request.lease(admin).await?;
        }
        let text = stored.to_string();
        let put = Operation::Put { key: key.as_str().into(), value: text.clone().into(), lease };
        let note = ChangeNote::new(ChangeKind::Patch, Some(text));
        let transaction = guards.add_to(Transaction::new().then(put));
        let before = Before::known(entry);
        let transaction = before.record(admin, request, &path, note, transaction)?;
        match attempts.commit(transaction).await? {
            Attempt::Committed(committed) => break (committed, stored),
            Attempt::Changed(changed) if *changed == *key => attempts.overtaken()?,
            Attempt::Changed(_) => {}
        }
    };
    let value = value_of_answer(admin, request, &path, stored);
    let reply = shape::written(admin.parts.options.api_version, WriteKind::Patched, &key, value);
    let tagged = precondition::with_tag(reply, committed.revision);
    Ok(served::made(tagged, committed.revision))
}

/// Returns the patched object twice: with secrets in plain text, and as it will be stored.
fn patched(
    admin: &Admin,
    request: &Request<'_>,
    entry: &Entry,
    change: Value,
) -> Result<(Value, Value), Reply> {
    let value: Value = serde_json::from_slice(&entry.value)
        .map_err(|error| Reply::unavailable(error.to_string()))?;
    // The patched object is checked as a whole, because changing another field, such as an address,
    // could send an unchanged secret elsewhere.
    let mut value = changed(request, value, change)?;
    let author = author(admin, request, Some(entry));
    let path = request.path()?;
    encrypt::open_written(&path, &mut value, &author, &admin.parts)?;
    let stored = seal(admin, &path, &value, Some(entry));
    Ok((value, stored))
}

fn check_change(request: &Request<'_>, change: &Value) -> Result<(), Reply> {
    let is_whole = request.sub_path.is_empty();
    if is_whole && !change.is_object() && *change != Value::Array(Vec::new()) {
        return Err(Reply::bad("invalid configuration"));
    }
    if let Some(field) = request.resource.parent_field()
        && (change.get(field).is_some() || request.sub_path.first().is_some_and(|at| at == field))
    {
        return Err(Reply::bad(format!("{field} can not be patched")));
    }
    Ok(())
}

/// Returns the object with the change applied, and with its id and timestamps.
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
    resolve_id(request, &mut fields)?;
    let now = now_s();
    if !fields.contains_key("create_time") {
        fields.insert("create_time".into(), now.into());
    }
    if !keeps_update_time {
        fields.insert("update_time".into(), now.into());
    }
    Ok(Value::Object(fields))
}
