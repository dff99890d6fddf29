//! Validation of a whole document: each object by itself, and uniqueness of ids.
//!
//! `POST /configs/validate` returns all faults; a standalone gateway refuses a document at the
//! first. References are not checked, because documents may be split into parts.

use std::collections::HashSet;

use hyper::StatusCode;
use serde_json::{Value, json};
use tollhouse_config::declarative;
use tollhouse_model::schema;

use crate::body;
use crate::call::Call;
use crate::config_files;
use crate::console::validation;
use crate::context::Admin;
use crate::encrypt::{self, Author};
use crate::foreseen;
use crate::index::facts::Facts;
use crate::index::{Contents, Revisions};
use crate::limits::OBJECTS_PER_TURN;
use crate::object::{Fields, drop_revisions, id_of};
use crate::problems;
use crate::reply::Reply;
use crate::resource::{self, Candidate, Layout, ReferenceCheck, Resource};
use crate::transfer;
use crate::yaml;

/// Names of the lists that a document may contain; each is named after its resource.
pub(crate) const LISTS: [&str; 13] = [
    "routes",
    "services",
    "upstreams",
    "consumers",
    "ssls",
    "global_rules",
    "plugin_configs",
    "consumer_groups",
    "protos",
    "secrets",
    "plugin_metadata",
    "stream_routes",
    "plugins",
];

/// Separator of consumer and credential in a credential's id.
const CREDENTIALS: &str = "/credentials/";

/// Error in an object of a document, with the object's list and index.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    list: &'static str,
    id: Option<String>,
    index: usize,
    pub error: String,
    /// Suggestion for a misspelt word, such as `did you mean "uri"?`.
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    All,
    First,
}

pub(crate) async fn answer(admin: &Admin, call: &Call, body: &[u8]) -> Result<Reply, Reply> {
    let document = read_document(call, body)?;
    // Faults may quote the contents of files.
    let author = Author::new(admin, call, None);
    document.values().try_for_each(|list| config_files::check_document(list, &author))?;
    let faults = check(admin, &document, Extent::All).await;
    if faults.is_empty() {
        let warnings = warnings(admin, document).await?;
        return Ok(problems::with_problems(Reply::json(StatusCode::OK, &json!({})), warnings));
    }
    let errors: Vec<Value> = faults.iter().map(Fault::to_json).collect();
    let body = json!({"error_msg": "Configuration validation failed", "errors": errors});
    Err(Reply::json(StatusCode::BAD_REQUEST, &body))
}

/// Returns the problems that the data plane would have with a document without faults.
async fn warnings(admin: &Admin, document: Fields) -> Result<Vec<Value>, Reply> {
    let text = Value::Object(document).to_string();
    let mut document = declarative::parse_literal(&text)
        .map_err(|problems| Reply::bad(format!("the document cannot be read: {problems}")))?;
    transfer::open_document(&mut document, &admin.parts.catalogue, &admin.parts.keyring);
    foreseen::problems(admin, document, |_| true).await
}

/// Parses a document: YAML if the content type says so, otherwise JSON.
pub(crate) fn read_document(call: &Call, body: &[u8]) -> Result<Fields, Reply> {
    if body.is_empty() {
        return Err(body::invalid("empty request body"));
    }
    let kind = call.header("content-type").unwrap_or_default();
    let value = if kind.starts_with("application/yaml") {
        let text = std::str::from_utf8(body)
            .map_err(|_| body::undecodable("invalid yaml request body", body))?;
        yaml::parse(text).map_err(|error| body::undecodable(&error, body))?
    } else {
        body::decode(body)?.unwrap_or_default()
    };
    match value {
        Value::Object(fields) => Ok(fields),
        Value::Array(items) if items.is_empty() => Ok(Fields::new()),
        _ => Err(body::undecodable("the document is not an object", body)),
    }
}

/// Returns the faults of a document.
pub(crate) async fn check(admin: &Admin, document: &Fields, extent: Extent) -> Vec<Fault> {
    let mut faults = Vec::new();
    let contents = metadata_of(document);
    for list in LISTS {
        let Some(Value::Array(items)) = document.get(list) else {
            faults.extend(document.get(list).and_then(|value| not_a_list(list, value)));
            continue;
        };
        let mut seen = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let fault = |error, hint| Fault { list, id: item_id(list, item), index, error, hint };
            if let Err(Refusal { error, hint }) = check_item(admin, &contents, list, item) {
                faults.push(fault(format!("invalid {list} at index {index}, err: {error}"), hint));
            }
            if let Some(error) = repeated(list, item, &mut seen) {
                faults.push(fault(error, None));
            }
            if extent == Extent::First && !faults.is_empty() {
                return faults;
            }
            // The task yields regularly, because a document of a hundred thousand objects would
            // delay other calls.
            if index % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
    faults
}

/// Returns the fault of a value that is not a list. An empty object is accepted, because Lua and
/// PHP encode empty lists in this way.
fn not_a_list(list: &'static str, value: &Value) -> Option<Fault> {
    let is_empty = value.is_null() || value.as_object().is_some_and(Fields::is_empty);
    let got = crate::object::type_name(value);
    let error = format!("invalid {list}, err: wrong type: expected array, got {got}");
    (!is_empty).then_some(Fault { list, id: None, index: 0, error, hint: None })
}

fn item_id(list: &str, item: &Value) -> Option<String> {
    let username = || id_of(item, "username").filter(|_| list == "consumers");
    let name = || id_of(item, "name").filter(|_| list == "plugins");
    id_of(item, "id").or_else(username).or_else(name)
}

/// Returns an error text if the item's id occurred in the list before.
fn repeated(list: &str, item: &Value, seen: &mut HashSet<String>) -> Option<String> {
    if list == "plugins" {
        return None;
    }
    let credential = id_of(item, "id").filter(|id| id.contains(CREDENTIALS));
    let (noun, id) = match (list, credential) {
        ("consumers", Some(id)) => ("credential id", Some(id)),
        ("consumers", None) => ("username", id_of(item, "username")),
        _ => ("id", id_of(item, "id")),
    };
    let id = id?;
    let text = format!("found duplicate {noun} {id} in {list}");
    (!seen.insert(format!("{noun} {id}"))).then_some(text)
}

/// Returns an index of the plugin metadata in the document, because plugin configurations are
/// checked with it.
fn metadata_of(document: &Fields) -> Contents {
    let mut contents = Contents::default();
    let items = document.get("plugin_metadata").and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        if let Some(id) = id_of(item, "id") {
            let facts = Facts { metadata: Some(item.clone()), ..Facts::default() };
            contents.insert(&format!("plugin_metadata/{id}"), facts, Revisions::default());
        }
    }
    contents
}

/// Why an object of a document is refused.
struct Refusal {
    error: String,
    hint: Option<String>,
}

impl From<String> for Refusal {
    fn from(error: String) -> Self {
        Self { error, hint: None }
    }
}

fn check_item(admin: &Admin, contents: &Contents, list: &str, item: &Value) -> Result<(), Refusal> {
    let Value::Object(fields) = item else {
        let got = crate::object::type_name(item);
        let error = format!("invalid configuration: wrong type: expected object, got {got}");
        return Err(error.into());
    };
    let mut fields = fields.clone();
    drop_revisions(&mut fields);
    if list == "plugins" {
        return Ok(check_plugin_name(&Value::Object(fields))?);
    }
    let id = id_of(item, "id").unwrap_or_default();
    let (resource, path) = located(list, &id, item);
    let Some(resource) = resource else { return Ok(()) };
    adjust_id(resource, &id, &mut fields);
    let mut value = Value::Object(fields);
    encrypt::open_stored(&path, &mut value, &admin.parts)
        .map_err(|refusal| refusal.error_text())?;
    let references = ReferenceCheck::Off;
    let candidate =
        Candidate { path: &path, value: &value, contents, parts: &admin.parts, references };
    resource::validate(resource, &candidate).map_err(|refusal| {
        let error = refusal.error_text();
        Refusal { hint: validation::hint(resource, &candidate, &error), error }
    })
}

/// Returns the resource and the path of an item.
fn located(list: &str, id: &str, item: &Value) -> (Option<&'static Resource>, String) {
    let is_consumer = list == "consumers";
    if is_consumer && id.contains(CREDENTIALS) {
        return (resource::find("credentials"), format!("consumers/{id}"));
    }
    let username = id_of(item, "username").filter(|_| is_consumer);
    (resource::find(list), format!("{list}/{}", username.as_deref().unwrap_or(id)))
}

/// Converts an item's id to the form of its resource.
fn adjust_id(resource: &Resource, id: &str, fields: &mut Fields) {
    match resource.layout {
        // The name of the object is its id. An `id` in the document has no meaning.
        Layout::Username | Layout::PluginName => {
            fields.shift_remove("id");
        }
        Layout::Child(_) => {
            let own = id.rsplit('/').next().unwrap_or_default();
            fields.insert("id".into(), own.into());
        }
        Layout::Id | Layout::Manager => {}
    }
}

/// Validates one entry of the list of plugins.
fn check_plugin_name(item: &Value) -> Result<(), String> {
    let core = schema::core("plugins").ok_or("not found schema: plugins")?;
    let list = Value::Array(vec![item.clone()]);
    core.schema().validate(&list).map_err(|error| format!("invalid configuration: {error}"))
}

impl Fault {
    fn to_json(&self) -> Value {
        let mut shown = json!({"resource_type": self.list, "index": self.index});
        if let Some(fields) = shown.as_object_mut() {
            if let Some(id) = &self.id {
                fields.insert("resource_id".into(), id.as_str().into());
            }
            fields.insert("error".into(), self.error.as_str().into());
            if let Some(hint) = &self.hint {
                fields.insert("hint".into(), hint.as_str().into());
            }
        }
        shown
    }
}
