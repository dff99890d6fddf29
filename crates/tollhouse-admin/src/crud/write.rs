//! PUT and POST: an object is written whole.

use std::time::Duration;

use serde_json::Value;
use tollhouse_store::{Committed, Operation, Transaction};

use super::{
    Request, answered, check_parent, fields_of, judge, now_s, sealed, settle_id, settle_parent,
};
use crate::api::Admin;
use crate::encrypt;
use crate::object::Fields;
use crate::reply::Reply;
use crate::shape::{self, Written};

/// The key whose revision numbers what POST creates.
const COUNTER: &str = "gen_id";

/// Times are the gateway's: a replacement has none of its own, nor what it carries.
const FORBIDDEN: [&str; 2] = ["create_time", "update_time"];

/// What an object carries that is looked at too.
const CARRIED: [&str; 2] = ["upstream", "plugins"];

pub(super) async fn put(
    admin: &Admin,
    request: &Request<'_>,
    value: Option<Value>,
    ttl: Option<Duration>,
) -> Result<Reply, Reply> {
    admin.index.catch_up().await?;
    if request.id.is_none() && !request.resource.has_id_field() && value.is_none() {
        return Err(missing_configurations(request));
    }
    let mut fields = match value {
        Some(value) if !value.is_null() => fields_of(value)?,
        _ => return Err(missing_configurations(request)),
    };
    check_times(&fields)?;
    let id = settle_id(request, &mut fields)?;
    settle_parent(request, &mut fields)?;
    check_parent(admin, request)?;
    let path = request.path_of(&id);
    let mut value = Value::Object(fields);
    encrypt::open_written(request.resource, &mut value, &admin.parts)?;
    judge(admin, request.resource, &path, &value)?;
    let created = admin.index.known().facts(&path).and_then(|facts| facts.create_time);
    stamp(&mut value, created);
    let stored = sealed(admin, request.resource, value.clone());
    let committed = commit(admin, &path, &stored, ttl).await?;
    let was_there = committed.previous.first().is_some_and(Option::is_some);
    let written = if was_there { Written::Replaced } else { Written::Created };
    Ok(shape::written(
        admin.parts.options.api_version,
        written,
        &admin.key_of(&path),
        answered(request, value, stored),
    ))
}

/// What is missing first where there is no body: a plugin's name goes before what it is told.
fn missing_configurations(request: &Request<'_>) -> Reply {
    let names_plugin = request.resource.layout == crate::resource::Layout::PluginName;
    if names_plugin && request.id.is_none() {
        return request.missing_id();
    }
    Reply::bad("missing configurations")
}

pub(super) async fn post(
    admin: &Admin,
    request: &Request<'_>,
    value: Option<Value>,
    ttl: Option<Duration>,
) -> Result<Reply, Reply> {
    admin.index.catch_up().await?;
    let mut fields = match value {
        Some(value) if !value.is_null() => fields_of(value)?,
        _ => return Err(Reply::bad("missing configurations")),
    };
    check_times(&fields)?;
    if request.id.is_some() || fields.get("id").is_some_and(|id| !id.is_null()) {
        let kind = request.resource.kind;
        return Err(Reply::bad(format!("wrong {kind} id, do not need it")));
    }
    fields.shift_remove("id");
    settle_parent(request, &mut fields)?;
    check_parent(admin, request)?;
    let mut value = Value::Object(fields);
    encrypt::open_written(request.resource, &mut value, &admin.parts)?;
    judge(admin, request.resource, &request.path_of(""), &value)?;
    let counted = Transaction::new().put(admin.key_of(COUNTER), "1");
    let number = admin.parts.store.commit(counted).await?.revision.0;
    let id = format!("{number:020}");
    if let Some(fields) = value.as_object_mut() {
        fields.insert("id".into(), id.as_str().into());
    }
    stamp(&mut value, None);
    let stored = sealed(admin, request.resource, value.clone());
    let path = request.path_of(&id);
    commit(admin, &path, &stored, ttl).await?;
    let key = admin.key_of(&path);
    Ok(shape::written(
        admin.parts.options.api_version,
        Written::Posted,
        &key,
        answered(request, value, stored),
    ))
}

async fn commit(
    admin: &Admin,
    path: &str,
    value: &Value,
    ttl: Option<Duration>,
) -> Result<Committed, Reply> {
    let put =
        Operation::Put { key: admin.key_of(path).into(), value: value.to_string().into(), ttl };
    Ok(admin.parts.store.commit(Transaction::new().then(put)).await?)
}

fn check_times(fields: &Fields) -> Result<(), Reply> {
    let is_set = |value: Option<&Value>| {
        value.is_some_and(|value| !value.is_null() && value != &Value::Bool(false))
    };
    let mut found: Vec<String> = Vec::new();
    let own = FORBIDDEN.into_iter().filter(|name| is_set(fields.get(*name)));
    found.extend(own.map(str::to_owned));
    for carried in CARRIED {
        let Some(part) = fields.get(carried) else { continue };
        let inside = FORBIDDEN.into_iter().filter(|name| is_set(part.get(name)));
        found.extend(inside.map(|name| format!("{carried}.{name}")));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Reply::bad(format!("the property is forbidden:  {}", found.join(" "))))
}

fn stamp(value: &mut Value, created: Option<i64>) {
    if let Some(fields) = value.as_object_mut() {
        let now = now_s();
        fields.insert("create_time".into(), created.unwrap_or(now).into());
        fields.insert("update_time".into(), now.into());
    }
}
