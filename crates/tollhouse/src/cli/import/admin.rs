//! An Admin API as the target of an import: read by lists, written by PUT and DELETE.
//!
//! Any server with this API works, including APISIX.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Map, Value};
use tollhouse_admin::transfer::Change;
use tollhouse_config::Bootstrap;
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Credential, Id, Kind};

use crate::cli::admin_client::{AdminClient, refusal};
use crate::cli::objects::{Object, Objects};
use tollhouse_control::secrets;

/// Path prefix of the resources.
const BASE: &str = "/apisix/admin";

/// Connection to the Admin API of the import's target.
pub(super) struct AdminApi {
    client: AdminClient,
    keyring: Option<Keyring>,
}

impl AdminApi {
    /// Parses the address; the first request opens the connection.
    pub(super) fn open(
        url: &str,
        key: Option<&str>,
        bootstrap: &Bootstrap,
    ) -> anyhow::Result<Self> {
        let client = AdminClient::open(url, key, bootstrap)?;
        Ok(Self { client, keyring: secrets::keyring_if_any(bootstrap)? })
    }

    /// Returns the URL of the target for messages.
    pub(super) fn name(&self) -> String {
        format!("http://{}{BASE}", self.client.authority())
    }

    /// Returns the keyring of the data directory on this machine, if it has one.
    pub(super) fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    pub(super) fn objects(&mut self) -> anyhow::Result<Objects> {
        let mut found = Objects::new();
        for kind in Kind::lists() {
            self.add_list(&mut found, kind, &format!("{BASE}/{kind}"))?;
        }
        let consumers: Vec<Id> = found
            .keys()
            .filter(|(kind, _)| *kind == Kind::Consumer)
            .map(|(_, id)| id.clone())
            .collect();
        for consumer in consumers {
            let path = format!("{BASE}/consumers/{consumer}/credentials");
            self.add_list(&mut found, Kind::Credential, &path)?;
        }
        Ok(found)
    }

    fn add_list(&mut self, found: &mut Objects, kind: Kind, path: &str) -> anyhow::Result<()> {
        let (status, body) = self.client.ask("GET", path, Bytes::new())?;
        // For the credentials of a consumer, 404 means an empty list; for other lists, that the
        // server does not support this kind of object.
        if status == StatusCode::NOT_FOUND || (kind == Kind::StreamRoute && !status.is_success()) {
            return Ok(());
        }
        if !status.is_success() {
            bail!("failed to read {path}: {}", refusal(status, &body));
        }
        let list: List = serde_json::from_slice(&body)
            .with_context(|| format!("failed to read {path}: the answer is not a list"))?;
        found.extend(list.objects(kind));
        Ok(())
    }

    /// Makes the changes with one request each.
    pub(super) fn apply(&mut self, changes: &[Change]) -> anyhow::Result<()> {
        for (written, change) in changes.iter().enumerate() {
            self.make(change).with_context(|| {
                format!("{written} of {} changes were written, and no more", changes.len())
            })?;
        }
        Ok(())
    }

    fn make(&mut self, change: &Change) -> anyhow::Result<()> {
        let path = path_of(change.kind, &change.id);
        let (method, body) = match &change.new {
            Some(object) => ("PUT", body_of(change.kind, object)),
            None => ("DELETE", Bytes::new()),
        };
        let (status, answer) = self.client.ask(method, &path, body)?;
        // A credential may be missing, because the server deletes credentials with their consumer.
        let is_gone = method == "DELETE" && status == StatusCode::NOT_FOUND;
        if !status.is_success() && !is_gone {
            bail!("failed to {method} {path}: {}", refusal(status, &answer));
        }
        Ok(())
    }
}

fn path_of(kind: Kind, id: &Id) -> String {
    match kind {
        Kind::Credential => format!("{BASE}/consumers/{id}"),
        _ => format!("{BASE}/{kind}/{id}"),
    }
}

/// Returns the body of a PUT: without the id, which is in the path; the server sets the times.
fn body_of(kind: Kind, object: &Object) -> Bytes {
    let mut value = object.value.clone();
    if let Value::Object(fields) = &mut value
        && kind != Kind::Consumer
    {
        fields.shift_remove("id");
    }
    value.to_string().into()
}

struct List(Vec<(String, Map<String, Value>)>);

impl<'de> serde::Deserialize<'de> for List {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let answer = BTreeMap::<String, Value>::deserialize(reader)?;
        let entry = |entry: &Value| {
            let key = entry.get("key")?.as_str()?.to_owned();
            Some((key, entry.get("value")?.as_object()?.clone()))
        };
        match answer.get("list") {
            Some(Value::Array(entries)) => Ok(Self(entries.iter().filter_map(entry).collect())),
            // Servers written in Lua encode an empty list as `{}`.
            Some(Value::Object(fields)) if fields.is_empty() => Ok(Self(Vec::new())),
            _ => Err(serde::de::Error::custom("no list")),
        }
    }
}

impl List {
    /// Iterates over the objects of a kind; ids are taken from the keys.
    fn objects(self, kind: Kind) -> impl Iterator<Item = ((Kind, Id), Object)> {
        let infix = match kind {
            Kind::Credential => "/consumers/".to_owned(),
            _ => format!("/{kind}/"),
        };
        self.0.into_iter().filter_map(move |(key, fields)| {
            let id = Id::new(&key[key.find(&infix)? + infix.len()..]);
            // Some servers list credentials among the consumers; their ids contain a path.
            let is_credential = Credential::split_key(id.as_str()).is_some();
            let belongs = is_credential == (kind == Kind::Credential);
            belongs.then(|| ((kind, id.clone()), Object::new(kind, &id, fields)))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_become_objects() {
        let list = json!({"total": 2, "list": [
            {"key": "/apisix/consumers/jack", "value": {"username": "jack", "create_time": 1}},
            {"key": "/apisix/consumers/jack/credentials/c", "value": {"id": "c"}},
        ]});
        for (kind, expected) in [
            (Kind::Consumer, json!({"username": "jack"})),
            (Kind::Credential, json!({"id": "jack/credentials/c"})),
        ] {
            let list: List = serde_json::from_value(list.clone()).expect("it is a list");
            let found: Vec<_> = list.objects(kind).map(|(_, object)| object.value).collect();
            assert_eq!(found, [expected]);
        }
        let empty: Result<List, _> = serde_json::from_value(json!({"list": {}, "total": 0}));
        assert!(empty.is_ok_and(|list| list.0.is_empty()));
        assert!(serde_json::from_value::<List>(json!({"message": "x"})).is_err());
    }

    #[test]
    fn objects_are_put_where_they_belong() {
        let id = Id::new("jack/credentials/c");
        let path = path_of(Kind::Credential, &id);
        assert_eq!(path, "/apisix/admin/consumers/jack/credentials/c");
        assert_eq!(path_of(Kind::Secret, &Id::new("vault/1")), "/apisix/admin/secrets/vault/1");
        let fields = json!({"id": "c", "plugins": {}, "create_time": 1});
        let fields = fields.as_object().expect("an object").clone();
        let object = Object::new(Kind::Credential, &id, fields);
        assert_eq!(&body_of(Kind::Credential, &object)[..], br#"{"plugins":{}}"#);
    }
}
