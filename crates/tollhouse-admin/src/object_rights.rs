//! Rights of users and groups to single objects, by their paths and labels. A call is admitted by the
//! labels of the stored object. The object that is returned or replaced is checked again, and so is
//! the one that is written: the commit requires that the replaced object is the one that was checked.

use hyper::{Method, StatusCode};
use serde_json::Value;
use tollhouse_registry::Metadata;
use tollhouse_registry::Registry;
use tollhouse_registry::identity::{Attempt, Principal, Verdict};
use tollhouse_store::Entry;

use crate::auth;
use crate::call::{Call, ObjectLabels};
use crate::context::Admin;
use crate::crud;
use crate::index;
use crate::options::Role;
use crate::people::{self, READ, WRITE};
use crate::reply::Reply;
use crate::session::KeyHolder;

/// Rights of a caller who may not do everything.
pub(crate) struct ObjectRights<'a> {
    principal: Principal,
    registry: &'a Registry,
}

/// Versions of an object that a write concerns.
pub(crate) struct Versions<'a> {
    pub before: Option<&'a Entry>,
    pub after: Option<&'a str>,
    /// Paths and texts of objects that are deleted with this one.
    pub below: &'a [(String, String)],
}

/// Reads the labels of the object that a call names, if its caller has policies.
pub(crate) async fn note_labels(admin: &Admin, request: &crud::Request<'_>) -> Result<(), Reply> {
    let call = request.call;
    let holder = auth::holder(&admin.parts.options, call);
    if !matches!(holder, Ok(Some(KeyHolder::Person(_)))) {
        return Ok(());
    }
    let stored = match &request.id {
        Some(id) => {
            let key = admin.key_of(&request.path_of(id));
            let entry = admin.parts.store.get(&key).await?;
            entry.filter(|entry| index::holds_object(&key, &entry.value))
        }
        None => None,
    };
    let makes_object = matches!(call.method, Method::PUT | Method::POST);
    let is_list = call.method == Method::GET && request.id.is_none();
    let labels = match stored {
        Some(entry) => ObjectLabels::Stored(labels_in(&entry.value)),
        None if makes_object || is_list => ObjectLabels::Later,
        None => return Ok(()),
    };
    // Set once for each call.
    let _ = call.object_labels.set(labels);
    Ok(())
}

impl<'a> ObjectRights<'a> {
    /// Returns the rights of a caller; `None` for keys and administrators, who may do everything.
    pub(crate) fn from_call(admin: &'a Admin, call: &Call) -> Option<Self> {
        let options = &admin.parts.options;
        let Ok(Some(KeyHolder::Person(person))) = auth::holder(options, call) else { return None };
        if auth::caller_role(options, call) == Role::Admin {
            return None;
        }
        let registry = options.people.as_ref()?;
        Some(Self { principal: person.principal, registry })
    }

    /// Whether the caller may read an object.
    pub(crate) fn sees(&self, path: &str, value: &[u8]) -> bool {
        self.decide(READ, path, value) == Verdict::Allowed
            || self.decide(WRITE, path, value) == Verdict::Allowed
    }

    /// Refuses a write of an object that the caller may not write as it is or as it becomes.
    pub(crate) fn check_write(&self, path: &str, versions: &Versions<'_>) -> Result<(), Reply> {
        let before = versions.before.map(|entry| &entry.value[..]);
        let after = versions.after.map(str::as_bytes);
        let may = |value: &[u8]| self.decide(WRITE, path, value) == Verdict::Allowed;
        let is_denied = |(path, text): &(String, String)| {
            self.decide(WRITE, path, text.as_bytes()) == Verdict::Denied
        };
        if !before.into_iter().chain(after).all(may) || versions.below.iter().any(is_denied) {
            let text = format!(
                "no policy of this user allows to write {path} with its labels: both those that it has and those \
                 that it gets must be allowed, and those of what is deleted with it not denied"
            );
            return Err(Reply::refusal(StatusCode::FORBIDDEN, text));
        }
        Ok(())
    }

    fn decide(&self, function: &str, path: &str, value: &[u8]) -> Verdict {
        let (kind, name) = path.split_once('/').unwrap_or((path, ""));
        let labels = labels_in(value);
        let object = people::object(kind, name, Some(&labels));
        let attempt = Attempt { function, resources: &[object] };
        self.registry.state().decide(&self.principal, &attempt)
    }
}

/// Returns the labels in the text of an object.
fn labels_in(value: &[u8]) -> Metadata {
    let value: Value = serde_json::from_slice(value).unwrap_or_default();
    let labels = value.get("labels").and_then(Value::as_object).into_iter().flatten();
    let texts =
        labels.filter_map(|(key, label)| Some((key.as_str().into(), label.as_str()?.into())));
    texts.collect()
}
