//! `POST /console/v1/validate/{kind}/{id}`: checks an object as a write would, without writing.
//! Each fault has the JSON pointer of its place, so that a form can show it beside the field.

use serde_json::{Value, json};
use tollhouse_model::schema::{self, Fault, Schema};

use crate::body;
use crate::call::Call;
use crate::context::Admin;
use crate::encrypt::{self, Author};
use crate::object::drop_revisions;
use crate::plugin_confs;
use crate::reply::Reply;
use crate::resource::definition::Owner;
use crate::resource::{self, Candidate, Layout, ReferenceCheck, Resource, consumers, secrets};

/// Reference fields, by the start of the error text about them.
const REFERENCES: [(&str, &str); 5] = [
    ("failed to fetch upstream info", "/upstream_id"),
    ("failed to fetch service info", "/service_id"),
    ("failed to fetch plugin config info", "/plugin_config_id"),
    ("failed to fetch consumer group info", "/group_id"),
    ("failed to fetch ssl info", "/upstream/tls/client_cert_id"),
];

/// Returns `{"valid": …, "problems": [{"pointer", "text", "hint"}]}`; `hint` only where there is one.
///
/// # Errors
/// If the kind is unknown, the body is not a JSON object, or the store cannot be read.
pub(super) async fn answer(
    admin: &Admin,
    call: &Call,
    place: &str,
    body: &[u8],
) -> Result<Value, Reply> {
    let (kind, id) = place.split_once('/').unwrap_or((place, ""));
    let resource = resource::find(kind)
        .filter(|resource| !matches!(resource.layout, Layout::Child(_)))
        .ok_or_else(|| Reply::bad(format!("objects of the kind {kind} are not validated here")))?;
    let Some(Value::Object(mut fields)) = body::decode(body)? else {
        return Err(Reply::bad("the body must be the object as JSON"));
    };
    drop_revisions(&mut fields);
    let mut value = Value::Object(fields);
    admin.index.catch_up().await?;
    let own = resource.layout == Layout::Username;
    let username = value.get("username").and_then(Value::as_str).filter(|_| own);
    let path = format!("{}/{}", resource.name, username.unwrap_or(id));
    let before = admin.parts.store.get(&admin.key_of(&path)).await?;
    let author = Author::new(admin, call, before.as_ref());
    encrypt::open_written(&path, &mut value, &author, &admin.parts)?;
    let contents = admin.index.contents();
    let references = ReferenceCheck::On;
    let parts = &admin.parts;
    let candidate =
        Candidate { path: &path, value: &value, contents: &contents, parts, references };
    let faults = faults(resource, &candidate);
    let problems: Vec<Value> = faults.into_iter().map(to_json).collect();
    Ok(json!({"valid": problems.is_empty(), "problems": problems}))
}

fn to_json(fault: Fault) -> Value {
    let mut problem = json!({"pointer": fault.pointer, "text": fault.text});
    if let (Some(hint), Value::Object(fields)) = (fault.hint, &mut problem) {
        fields.insert("hint".to_owned(), hint.into());
    }
    problem
}

/// Returns the hint of the fault that an error text is about.
pub(crate) fn hint(resource: &Resource, candidate: &Candidate<'_>, error: &str) -> Option<String> {
    let faults = faults(resource, candidate);
    faults.into_iter().find(|fault| error.contains(&fault.text)).and_then(|fault| fault.hint)
}

/// Returns the faults of an object: those against its schema, or without such faults all others.
pub(super) fn faults(resource: &Resource, candidate: &Candidate<'_>) -> Vec<Fault> {
    let mut found = faults_of_schema(resource, candidate);
    if found.is_empty() {
        found.extend(beyond_schema(resource, candidate));
    }
    let confs = candidate.value.get("plugins").and_then(Value::as_object);
    if let (Some(confs), Some(owner)) = (confs, resource.plugins) {
        for (name, conf) in confs {
            found.extend(faults_of_conf(name, conf, owner, candidate));
        }
    }
    found
}

/// Returns the faults of an object against its schema, which is that of its kind, its secret
/// manager, or the metadata of its plugin.
fn faults_of_schema(resource: &Resource, candidate: &Candidate<'_>) -> Vec<Fault> {
    let below = candidate.path.split('/').nth(1).unwrap_or_default();
    let of_core = |name: &str, value: &Value| {
        schema::core(name).map_or_else(Vec::new, |core| core.schema().faults(value))
    };
    match resource.layout {
        Layout::Manager => {
            of_core(&format!("secret_{below}"), &secrets::without_id(candidate.value))
        }
        Layout::PluginName => {
            let plugin = candidate.parts.catalogue.get(below);
            let document = plugin.and_then(|plugin| plugin.metadata_schema());
            let schema = document.and_then(|document| Schema::compile(document).ok());
            schema.map_or_else(Vec::new, |schema| schema.faults(candidate.value))
        }
        Layout::Id | Layout::Username | Layout::Child(_) => {
            of_core(resource.schema, candidate.value)
        }
    }
}

/// Returns the first violation of a rule that a schema cannot express. The value must satisfy the
/// schema.
fn beyond_schema(resource: &Resource, candidate: &Candidate<'_>) -> Option<Fault> {
    let core = match resource.has_one_schema() {
        true => schema::check_core(resource.schema, candidate.value).map_err(Reply::bad),
        false => Ok(()),
    };
    let checked = core.and_then(|()| (resource.check)(candidate)).and_then(|()| {
        match resource.holds_identities() {
            true => consumers::check_unique(candidate),
            false => Ok(()),
        }
    });
    let text = checked.err()?.error_text();
    let named = REFERENCES.iter().find(|(start, _)| text.starts_with(start));
    let pointer = named.map_or("", |(_, pointer)| *pointer).to_owned();
    Some(Fault { pointer, text, hint: None })
}

fn faults_of_conf(name: &str, conf: &Value, owner: Owner, candidate: &Candidate<'_>) -> Vec<Fault> {
    let Err(text) = plugin_confs::check_one(name, conf, owner, candidate) else {
        return Vec::new();
    };
    let place = format!("/plugins/{}", name.replace('~', "~0").replace('/', "~1"));
    let plugin = candidate.parts.catalogue.get(name);
    let document = plugin.and_then(|plugin| match owner {
        Owner::Consumer => plugin.consumer_schema().or(Some(plugin.schema())),
        Owner::Route | Owner::Stream => Some(plugin.schema()),
    });
    // The check of the plugin stops at the first fault and returns no place. The schema of the
    // plugin is therefore checked too, which returns all faults with their places.
    let located = document
        .and_then(|document| Schema::compile(document).ok())
        .map_or_else(Vec::new, |schema| schema.faults(&plugin_confs::without_common(conf)));
    if located.is_empty() {
        let hint = match plugin {
            Some(_) => None,
            None => plugin_confs::similar(&candidate.parts.catalogue, name, owner),
        };
        return vec![Fault { pointer: place, text, hint }];
    }
    let whole = |fault: Fault| Fault { pointer: format!("{place}{}", fault.pointer), ..fault };
    located.into_iter().map(whole).collect()
}
