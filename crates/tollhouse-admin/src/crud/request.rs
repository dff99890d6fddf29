//! A call about objects of one resource: where its object lies, and which id it has.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tollhouse_store::LeaseId;

use crate::call::Call;
use crate::context::Admin;
use crate::object::{Fields, drop_revisions, id_text, type_name};
use crate::references;
use crate::reply::Reply;
use crate::resource::{Layout, Resource};

/// A call about objects of one resource.
pub(crate) struct Request<'a> {
    pub resource: &'static Resource,
    /// The object above, of resources that have one; the manager, of secrets.
    pub parent: Option<String>,
    /// The object, if the path names one.
    pub id: Option<String>,
    /// What follows in the path.
    pub sub_path: Vec<String>,
    /// The rest of the call.
    pub call: &'a Call,
    pub body: Bytes,
}

impl Request<'_> {
    /// The collection that the object lies in: `routes`, `consumers/jack/credentials`.
    pub(crate) fn collection(&self) -> String {
        let name = self.resource.name;
        match (self.resource.layout, &self.parent) {
            (Layout::Child(above), Some(parent)) => format!("{above}/{parent}/{name}"),
            (Layout::Manager, Some(manager)) => format!("{name}/{manager}"),
            _ => name.to_owned(),
        }
    }

    /// The path of the object of that id: `routes/1`.
    pub(crate) fn path_of(&self, id: &str) -> String {
        format!("{}/{id}", self.collection())
    }

    /// The path of the object that the call names.
    pub(crate) fn path(&self) -> Result<String, Reply> {
        match &self.id {
            Some(id) => Ok(self.path_of(id)),
            None => Err(self.missing_id()),
        }
    }

    pub(crate) fn missing_id(&self) -> Reply {
        Reply::bad(match self.resource.layout {
            Layout::Manager => "no secret id".to_owned(),
            Layout::PluginName => "missing plugin name".to_owned(),
            _ => format!("missing {} id", self.resource.kind),
        })
    }

    /// `?ttl=`, in seconds; one of zero or less means none.
    pub(super) fn ttl(&self) -> Result<Option<Duration>, Reply> {
        let Some(text) = self.call.arguments.get("ttl") else { return Ok(None) };
        let seconds: f64 = text
            .trim()
            .parse()
            .ok()
            .filter(|seconds: &f64| seconds.is_finite())
            .ok_or_else(|| Reply::bad("invalid argument ttl: should be a number"))?;
        let ttl = Duration::try_from_secs_f64(seconds).ok();
        Ok(ttl.filter(|ttl| !ttl.is_zero()))
    }

    /// A lease that ends when the object is to end, if it is.
    pub(super) async fn lease(&self, admin: &Admin) -> Result<Option<LeaseId>, Reply> {
        match self.ttl()? {
            Some(ttl) => Ok(Some(admin.parts.store.grant(ttl).await?)),
            None => Ok(None),
        }
    }

    /// Whether others can name objects of this resource, and so keep them from being deleted.
    pub(super) fn is_guarded(&self) -> bool {
        references::COLLECTIONS.contains(&self.resource.name)
    }

    /// What an object of that id says its id is.
    fn id_value(&self, id: &str) -> String {
        match (self.resource.layout, &self.parent) {
            (Layout::Manager, Some(manager)) => format!("{manager}/{id}"),
            _ => id.to_owned(),
        }
    }
}

/// The fields of a body, which must be an object, without revisions. An empty list is one too: clients whose language
/// has one type for both send it.
pub(super) fn fields_of(value: Value) -> Result<Fields, Reply> {
    match value {
        Value::Object(mut fields) => {
            drop_revisions(&mut fields);
            Ok(fields)
        }
        Value::Array(items) if items.is_empty() => Ok(Fields::new()),
        other => {
            let got = type_name(&other);
            let text = format!("invalid configuration: wrong type: expected object, got {got}");
            Err(Reply::bad(text))
        }
    }
}

/// Finds the id of an object in path and body, and writes it into the object. It stays as the body
/// has it where the path has none.
pub(super) fn resolve_id(request: &Request<'_>, fields: &mut Fields) -> Result<String, Reply> {
    if !request.resource.has_id_field() {
        return match request.resource.layout {
            Layout::Username => {
                // Tools for APISIX repeat the name, or number consumers; it names nothing.
                fields.shift_remove("id");
                resolve_username(request, fields)
            }
            _ => resolve_plugin_name(request, fields),
        };
    }
    let wrong = || Reply::bad(format!("wrong {} id", request.resource.kind));
    let written = fields.get("id").filter(|id| !id.is_null()).cloned();
    match (&request.id, written) {
        (Some(id), written) => {
            let expected = request.id_value(id);
            let agrees = |written: &Value| {
                id_text(written).is_some_and(|written| written == *id || written == expected)
            };
            if written.is_some_and(|written| !agrees(&written)) {
                return Err(wrong());
            }
            fields.insert("id".into(), expected.into());
            Ok(id.clone())
        }
        // A child's and a secret's path ends where its id would stand.
        (None, Some(written)) if request.resource.layout != Layout::Manager => {
            match id_text(&written) {
                Some(id) if leads_elsewhere(&id) => Err(Reply::bad(UNREACHABLE_ID)),
                Some(id) if !id.is_empty() && !id.contains('/') => Ok(id),
                // The schema says what an id is.
                _ => Ok("-".to_owned()),
            }
        }
        (None, _) => Err(request.missing_id()),
    }
}

/// What an id that no path leads to is refused with: the words for one that does not match its schema.
const UNREACHABLE_ID: &str = "invalid configuration: property \"id\" validation failed: object matches none \
                              of the required";

/// Whether a path that ends with this id means another place (RFC 3986 §5.2.4): the object could be written
/// and listed, and never be read or deleted.
fn leads_elsewhere(id: &str) -> bool {
    matches!(id, "." | "..")
}

/// The plugin's name, which the object may repeat as its id.
fn resolve_plugin_name(request: &Request<'_>, fields: &mut Fields) -> Result<String, Reply> {
    let name = request.id.clone().ok_or_else(|| request.missing_id())?;
    let written = fields.shift_remove("id").filter(|id| !id.is_null());
    if written.is_some_and(|id| id_text(&id).as_ref() != Some(&name)) {
        return Err(Reply::bad(format!("wrong {} id", request.resource.kind)));
    }
    Ok(name)
}

fn resolve_username(request: &Request<'_>, fields: &Fields) -> Result<String, Reply> {
    let written = fields.get("username").and_then(Value::as_str);
    match (&request.id, written) {
        (Some(id), Some(written)) if id != written => Err(Reply::bad("wrong username")),
        (_, Some(written)) => Ok(written.to_owned()),
        // The schema refuses what has no username, or one that is not text.
        (_, None) => Ok(request.id.clone().unwrap_or_default()),
    }
}

/// Refuses an object that says it lies below another one than the path says; writes the right one
/// into those that say it.
pub(super) fn resolve_parent(request: &Request<'_>, fields: &mut Fields) -> Result<(), Reply> {
    let (Some(field), Some(parent)) = (request.resource.parent_field(), &request.parent) else {
        return Ok(());
    };
    let written = fields.get(field).filter(|written| !written.is_null());
    if written.is_some_and(|written| id_text(written).as_ref() != Some(parent)) {
        return Err(Reply::bad(format!("wrong {field}, it is taken from the path")));
    }
    fields.insert(field.into(), parent.as_str().into());
    Ok(())
}
