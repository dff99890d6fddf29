//! A call about objects of one resource, with the path and id of its object.

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
    /// Id of the parent object; for secrets, the name of the manager.
    pub parent: Option<String>,
    /// Id of the object, if the path contains one.
    pub id: Option<String>,
    /// Path segments after the id.
    pub sub_path: Vec<String>,
    pub call: &'a Call,
    pub body: Bytes,
}

impl Request<'_> {
    /// Returns the collection of the object, such as `routes` or `consumers/jack/credentials`.
    pub(crate) fn collection(&self) -> String {
        let name = self.resource.name;
        match (self.resource.layout, &self.parent) {
            (Layout::Child(above), Some(parent)) => format!("{above}/{parent}/{name}"),
            (Layout::Manager, Some(manager)) => format!("{name}/{manager}"),
            _ => name.to_owned(),
        }
    }

    /// Returns the path of the object with this id, such as `routes/1`.
    pub(crate) fn path_of(&self, id: &str) -> String {
        format!("{}/{id}", self.collection())
    }

    /// Returns the path of the object that the call names; an error reply if the call names no
    /// object.
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

    /// Returns the value of the argument `ttl`, which is in seconds; `None` if it is absent or not
    /// positive.
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

    /// Creates a lease for an object with a `ttl`.
    pub(super) async fn lease(&self, admin: &Admin) -> Result<Option<LeaseId>, Reply> {
        match self.ttl()? {
            Some(ttl) => Ok(Some(admin.parts.store.grant(ttl).await?)),
            None => Ok(None),
        }
    }

    /// Whether objects of this resource can be referred to, which prevents their deletion.
    pub(super) fn is_guarded(&self) -> bool {
        references::COLLECTIONS.contains(&self.resource.name)
    }

    /// Returns the value of the field `id` for an object with this id.
    fn id_value(&self, id: &str) -> String {
        match (self.resource.layout, &self.parent) {
            (Layout::Manager, Some(manager)) => format!("{manager}/{id}"),
            _ => id.to_owned(),
        }
    }
}

/// Returns the fields of a body, except for revisions. An empty list counts as an empty object,
/// because languages such as Lua and PHP have one type for both.
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

/// Determines the id from the path and the body, and writes it into the object. Without an id in
/// the path, the field is left as it is.
pub(super) fn resolve_id(request: &Request<'_>, fields: &mut Fields) -> Result<String, Reply> {
    if !request.resource.has_id_field() {
        return match request.resource.layout {
            Layout::Username => {
                // The `id` of a consumer has no meaning. Tools for APISIX put the name or a number
                // there.
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
        // The path of secrets never ends before the id.
        (None, Some(written)) if request.resource.layout != Layout::Manager => {
            match id_text(&written) {
                Some(id) if leads_elsewhere(&id) => Err(Reply::bad(UNREACHABLE_ID)),
                Some(id) if !id.is_empty() && !id.contains('/') => Ok(id),
                // The schema reports the invalid id.
                _ => Ok("-".to_owned()),
            }
        }
        (None, _) => Err(request.missing_id()),
    }
}

/// Error text for an id that a path cannot contain. The text is that of a schema violation, as in
/// APISIX.
const UNREACHABLE_ID: &str = "invalid configuration: property \"id\" validation failed: object matches none \
                              of the required";

/// Whether the id has a special meaning in a path (RFC 3986 §5.2.4). An object with such an id
/// could be written but never read or deleted.
fn leads_elsewhere(id: &str) -> bool {
    matches!(id, "." | "..")
}

/// Returns the name of the plugin in the path; the body may repeat it as its id.
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
        // The schema reports the missing or invalid username.
        (_, None) => Ok(request.id.clone().unwrap_or_default()),
    }
}

/// Checks that the parent in the body equals the one in the path, and writes it into the object.
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
