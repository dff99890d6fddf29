//! PUT and POST: write a whole object.

use aws_lc_rs::rand;
use serde_json::Value;
use tollhouse_model::change_row::ChangeKind;
use tollhouse_store::{LeaseId, Operation, Revision, Transaction};

use super::checks::{author, check_parent, now_s, seal, validate, value_of_answer};
use super::guards::{Attempt, Attempts};
use super::precondition::{self, Precondition};
use super::record::{Before, ChangeNote};
use super::request::{Request, fields_of, resolve_id, resolve_parent};
use crate::context::Admin;
use crate::encrypt;
use crate::object::Fields;
use crate::reply::Reply;
use crate::resource::Resource;
use crate::served;
use crate::shape::{self, Written};

/// Key whose revision numbers the objects that POST creates.
const COUNTER: &str = "gen_id";

/// Timestamp fields, which only the gateway sets; a body must not contain them.
const FORBIDDEN: [&str; 2] = ["create_time", "update_time"];

/// Fields whose contents are checked for timestamps too.
const CARRIED: [&str; 2] = ["upstream", "plugins"];

pub(super) async fn put(
    admin: &Admin,
    request: &Request<'_>,
    value: Option<Value>,
) -> Result<Reply, Reply> {
    if request.id.is_none() && !request.resource.has_id_field() && value.is_none() {
        return Err(missing_configurations(request));
    }
    let mut fields = match value {
        Some(value) if !value.is_null() => fields_of(value)?,
        _ => return Err(missing_configurations(request)),
    };
    check_times(&fields)?;
    let id = resolve_id(request, &mut fields)?;
    resolve_parent(request, &mut fields)?;
    let path = request.path_of(&id);
    let key = admin.key_of(&path);
    let mut value = Value::Object(fields);
    let precondition = Precondition::parse(&request.call.headers)?;
    let mut lease = None;
    let mut attempts = Attempts::new(admin);
    // An object that the check depends on may change before the commit. The guards then refuse the
    // commit, and everything is checked again.
    let (committed, stored) = loop {
        attempts.begin().await?;
        check_parent(admin, request)?;
        let before = Before::read(admin, &key).await?;
        precondition.check_entry(admin, request, before.object())?;
        // Only once, because the opened value replaces the sealed one.
        if attempts.is_first() {
            let author = author(admin, request, before.object());
            encrypt::open_written(&path, &mut value, &author, &admin.parts)?;
        }
        let guards = validate(admin, request.resource, &path, &value)?;
        let created = admin.index.known().facts(&path).and_then(|facts| facts.create_time);
        let stamped = stamped(request.resource, &id, &value, created);
        let stored = seal(admin, &path, &stamped, before.object());
        if attempts.is_first() {
            lease = request.lease(admin).await?;
        }
        let text = stored.to_string();
        let put = Operation::Put { key: key.as_str().into(), value: text.clone().into(), lease };
        let transaction = guards.add_to(Transaction::new().then(put));
        let deed = if before.object().is_some() { ChangeKind::Replace } else { ChangeKind::Create };
        let note = ChangeNote::new(deed, Some(text));
        let transaction = before.record(admin, request, &path, note, transaction)?;
        match attempts.commit(transaction).await? {
            Attempt::Committed(committed) => break (committed, stored),
            Attempt::Changed(changed) if *changed == *key => attempts.overtaken(&key).await?,
            Attempt::Changed(_) => {}
        }
    };
    let was_there = committed.previous.first().is_some_and(Option::is_some);
    let written = if was_there { Written::Replaced } else { Written::Created };
    let value = value_of_answer(admin, request, &path, stored);
    Ok(self::written(admin, written, (&key, value), committed.revision))
}

/// Error reply for a missing body; for plugin metadata, a missing plugin name takes precedence.
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
) -> Result<Reply, Reply> {
    let mut fields = match value {
        Some(value) if !value.is_null() => fields_of(value)?,
        _ => return Err(Reply::bad("missing configurations")),
    };
    check_times(&fields)?;
    check_new(request, &fields)?;
    fields.shift_remove("id");
    resolve_parent(request, &mut fields)?;
    let mut value = Value::Object(fields);
    // The id is not known yet, so that no sealed value can belong to this object.
    let unnumbered = request.path_of("-");
    let mut numbered: Option<(String, Option<LeaseId>)> = None;
    let mut attempts = Attempts::new(admin);
    loop {
        attempts.begin().await?;
        check_parent(admin, request)?;
        if attempts.is_first() {
            let author = author(admin, request, None);
            encrypt::open_written(&unnumbered, &mut value, &author, &admin.parts)?;
        }
        let checked_id = numbered.as_ref().map_or("", |(id, _)| id);
        let guards = validate(admin, request.resource, &request.path_of(checked_id), &value)?;
        // A refused object consumes no number; an object that is checked again keeps its number.
        let (id, lease) = match numbered.take() {
            Some(numbered) => numbered,
            None => (next_id(admin).await?, request.lease(admin).await?),
        };
        let key = admin.key_of(&request.path_of(&id));
        if let Some(fields) = value.as_object_mut() {
            fields.insert("id".into(), id.as_str().into());
        }
        let path = request.path_of(&id);
        let stamped = stamped(request.resource, &id, &value, None);
        let stored = seal(admin, &path, &stamped, None);
        let text = stored.to_string();
        let put = Operation::Put { key: key.as_str().into(), value: text.clone().into(), lease };
        let transaction = Transaction::new().when_absent(key.as_str()).then(put);
        let transaction = guards.add_to(transaction);
        let before = Before::read(admin, &key).await?;
        let note = ChangeNote::new(ChangeKind::Create, Some(text));
        let transaction = before.record(admin, request, &path, note, transaction)?;
        match attempts.commit(transaction).await? {
            Attempt::Committed(committed) => {
                let value = value_of_answer(admin, request, &path, stored);
                return Ok(written(admin, Written::Posted, (&key, value), committed.revision));
            }
            // The number is taken by an object whose id a caller chose.
            Attempt::Changed(changed) if *changed == *key => {}
            Attempt::Changed(_) => numbered = Some((id, lease)),
        }
    }
}

/// Refuses an id and preconditions that make no sense for a new object.
fn check_new(request: &Request<'_>, fields: &Fields) -> Result<(), Reply> {
    if request.id.is_some() || fields.get("id").is_some_and(|id| !id.is_null()) {
        let kind = request.resource.kind;
        return Err(Reply::bad(format!("wrong {kind} id, do not need it")));
    }
    let precondition = Precondition::parse(&request.call.headers)?;
    if !matches!(precondition, Precondition::Unconditional | Precondition::Absent) {
        return Err(Reply::bad("If-Match is for PUT, PATCH and DELETE; POST makes a new object"));
    }
    Ok(())
}

/// Reply to a write, with its revision.
fn written(
    admin: &Admin,
    written: Written,
    (key, value): (&str, Value),
    revision: Revision,
) -> Reply {
    let reply = shape::written(admin.parts.options.api_version, written, key, value);
    served::made(precondition::with_tag(reply, revision), revision)
}

/// Makes a commit and returns its revision as an id. The written value is random, because after a
/// commit without an answer the store is searched for the value, and an older equal value would be
/// mistaken for it.
async fn next_id(admin: &Admin) -> Result<String, Reply> {
    let mut unique = [0; 8];
    rand::fill(&mut unique).map_err(|_| Reply::unavailable("no random numbers are available"))?;
    let unique = u64::from_ne_bytes(unique).to_string();
    let counted = Transaction::new().put(admin.key_of(COUNTER), unique);
    let number = admin.parts.store.commit(counted).await?.revision.0;
    Ok(format!("{number:020}"))
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

/// The object with its timestamps, or with its id if the resource has no timestamps.
fn stamped(resource: &Resource, id: &str, value: &Value, created: Option<i64>) -> Value {
    let mut value = value.clone();
    let Some(fields) = value.as_object_mut() else { return value };
    if resource.has_times() {
        let now = now_s();
        fields.insert("create_time".into(), created.unwrap_or(now).into());
        fields.insert("update_time".into(), now.into());
    } else {
        fields.insert("id".into(), id.into());
    }
    value
}
