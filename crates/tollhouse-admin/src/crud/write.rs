//! PUT and POST: write a whole object.

use aws_lc_rs::rand;
use serde_json::Value;
use tollhouse_model::change_row::ChangeKind;
use tollhouse_store::{Entry, LeaseId, Operation, Revision, Transaction};

use super::checks::{author, check_parent, now_s, seal, validate, value_of_answer};
use super::guards::{Attempt, Attempts, Guards};
use super::precondition::{self, Precondition};
use super::record::{Before, ChangeNote};
use super::request::{Request, fields_of, resolve_id, resolve_parent};
use crate::context::Admin;
use crate::encrypt;
use crate::object::Fields;
use crate::reply::Reply;
use crate::served;
use crate::shape::{self, WriteKind};

/// Key of an entry whose revisions become the ids of objects that POST creates.
const COUNTER: &str = "gen_id";

/// Timestamp fields, which only the gateway sets; a body must not contain them.
const FORBIDDEN: [&str; 2] = ["create_time", "update_time"];

/// Fields that contain further objects, which must not have timestamps either.
const CARRIED: [&str; 2] = ["upstream", "plugins"];

/// Write of one object, from its check to its commit.
struct PendingWrite<'a> {
    admin: &'a Admin,
    request: &'a Request<'a>,
    id: String,
    path: String,
    /// Store key of the path.
    key: String,
    /// The object in plain text and without timestamps.
    value: Value,
    lease: Option<LeaseId>,
}

impl<'a> PendingWrite<'a> {
    fn new(admin: &'a Admin, request: &'a Request<'a>, id: String, fields: Fields) -> Self {
        let path = request.path_of(&id);
        let key = admin.key_of(&path);
        Self { admin, request, id, path, key, value: Value::Object(fields), lease: None }
    }

    fn set_id(&mut self, id: String) {
        self.path = self.request.path_of(&id);
        self.key = self.admin.key_of(&self.path);
        self.id = id;
    }

    /// Opens the sealed values in the object. Must be called only once, because an opened value may
    /// look sealed.
    fn open_secrets(&mut self, before: Option<&Entry>) -> Result<(), Reply> {
        let author = author(self.admin, self.request, before);
        encrypt::open_written(&self.path, &mut self.value, &author, &self.admin.parts)
    }

    fn check(&self) -> Result<Guards, Reply> {
        validate(self.admin, self.request.resource, &self.path, &self.value)
    }

    /// Completes the transaction with the object, its guards and its change row. Also returns the
    /// object as it is stored.
    fn complete(
        &self,
        transaction: Transaction,
        before: &Before,
        guards: Guards,
    ) -> Result<(Transaction, Value), Reply> {
        let stored = seal(self.admin, &self.path, &self.stamped(), before.object());
        let text = stored.to_string();
        let (key, value) = (self.key.as_str().into(), text.clone().into());
        let put = Operation::Put { key, value, lease: self.lease };
        let transaction = guards.add_to(transaction.then(put));
        let deed = if before.object().is_some() { ChangeKind::Replace } else { ChangeKind::Create };
        let note = ChangeNote::new(deed, Some(text));
        let transaction = before.record(self.admin, self.request, &self.path, note, transaction)?;
        Ok((transaction, stored))
    }

    /// Returns the object with its timestamps, or with its id if the resource has no timestamps.
    fn stamped(&self) -> Value {
        let mut value = self.value.clone();
        let Some(fields) = value.as_object_mut() else { return value };
        if self.request.resource.has_times() {
            let now = now_s();
            let contents = self.admin.index.contents();
            let created = contents.facts(&self.path).and_then(|facts| facts.create_time);
            fields.insert("create_time".into(), created.unwrap_or(now).into());
            fields.insert("update_time".into(), now.into());
        } else {
            fields.insert("id".into(), self.id.as_str().into());
        }
        value
    }

    /// Returns the reply to the write, with the revision of the write.
    fn reply(&self, kind: WriteKind, stored: Value, revision: Revision) -> Reply {
        let value = value_of_answer(self.admin, self.request, &self.path, stored);
        let version = self.admin.parts.options.api_version;
        let reply = shape::written(version, kind, &self.key, value);
        served::made(precondition::with_tag(reply, revision), revision)
    }
}

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
    let mut write = PendingWrite::new(admin, request, id, fields);
    let precondition = Precondition::parse(&request.call.headers)?;
    let mut attempts = Attempts::new(admin);
    // An object that the check depends on may change before the commit. The guards then refuse the
    // commit, and everything is checked again.
    let (committed, stored) = loop {
        attempts.begin().await?;
        check_parent(admin, request)?;
        let before = Before::read(admin, &write.key).await?;
        precondition.check_entry(admin, request, before.object())?;
        if attempts.is_first() {
            write.open_secrets(before.object())?;
        }
        let guards = write.check()?;
        if attempts.is_first() {
            write.lease = request.lease(admin).await?;
        }
        let (transaction, stored) = write.complete(Transaction::new(), &before, guards)?;
        match attempts.commit(transaction).await? {
            Attempt::Committed(committed) => break (committed, stored),
            Attempt::Changed(changed) if *changed == *write.key => {
                attempts.overtaken()?;
            }
            Attempt::Changed(_) => {}
        }
    };
    let was_there = committed.previous.first().is_some_and(Option::is_some);
    let kind = if was_there { WriteKind::Replaced } else { WriteKind::Created };
    Ok(write.reply(kind, stored, committed.revision))
}

/// Returns the error reply for a missing body; for plugin metadata, that for a missing plugin name
/// takes precedence.
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
    // The id is not known yet, so that no sealed value can belong to this object.
    let mut write = PendingWrite::new(admin, request, "-".to_owned(), fields);
    let mut number: Option<String> = None;
    let mut attempts = Attempts::new(admin);
    loop {
        attempts.begin().await?;
        check_parent(admin, request)?;
        if attempts.is_first() {
            write.open_secrets(None)?;
        }
        write.set_id(number.clone().unwrap_or_default());
        let guards = write.check()?;
        // The number is taken after the check, so that a refused object consumes none. An object
        // that is checked again keeps its number.
        let id = match number.take() {
            Some(id) => id,
            None => {
                let id = next_id(admin).await?;
                write.lease = request.lease(admin).await?;
                id
            }
        };
        if let Some(fields) = write.value.as_object_mut() {
            fields.insert("id".into(), id.as_str().into());
        }
        write.set_id(id);
        let before = Before::read(admin, &write.key).await?;
        let transaction = Transaction::new().when_absent(write.key.as_str());
        let (transaction, stored) = write.complete(transaction, &before, guards)?;
        match attempts.commit(transaction).await? {
            Attempt::Committed(committed) => {
                return Ok(write.reply(WriteKind::Posted, stored, committed.revision));
            }
            // An object whose id a caller chose already has this number; the next one is tried.
            Attempt::Changed(changed) if *changed == *write.key => {}
            Attempt::Changed(_) => number = Some(write.id.clone()),
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

/// Makes a commit, and returns its revision as an id. The written value is random. If the answer to
/// a commit is lost, the store looks for the value to find out whether the commit was made, and
/// would mistake an older equal value for it.
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
    let mut names: Vec<String> = Vec::new();
    let own = FORBIDDEN.into_iter().filter(|name| is_set(fields.get(*name)));
    names.extend(own.map(str::to_owned));
    for carried in CARRIED {
        let Some(part) = fields.get(carried) else { continue };
        let inside = FORBIDDEN.into_iter().filter(|name| is_set(part.get(name)));
        names.extend(inside.map(|name| format!("{carried}.{name}")));
    }
    if names.is_empty() {
        return Ok(());
    }
    Err(Reply::bad(format!("the property is forbidden:  {}", names.join(" "))))
}
