//! Configuration for ShenYu's own gateways: the objects of each group in a namespace, and the
//! changes that a commit makes.

pub(crate) mod permits;
pub(crate) mod polling;
pub(crate) mod websocket;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::model::{
    AppAuth, DiscoveryUpstreams, Metadata, Plugin, ProxySelector, Rule, Selector,
};

use crate::clock;
use crate::row::Row;
use crate::table::Table;
use crate::tables::{Tables, namespace};

/// Maximum number of namespaces whose groups are cached.
const SNAPSHOTS_MAX: usize = 64;

/// Converts a row to the object that gateways expect, with only the members that they know, in
/// their spelling. Returns `None` if the row is invalid for its kind.
pub(crate) fn synced(kind: Kind, row: &Row) -> Option<Value> {
    match kind {
        Kind::Plugin => typed::<Plugin>(row),
        Kind::Selector => typed::<Selector>(row),
        Kind::Rule => typed::<Rule>(row),
        Kind::Metadata => typed::<Metadata>(row),
        Kind::AppAuth => typed::<AppAuth>(row),
        Kind::ProxySelector => typed::<ProxySelector>(row),
        Kind::DiscoveryUpstream => typed::<DiscoveryUpstreams>(row),
    }
}

fn typed<T: DeserializeOwned + Serialize>(row: &Row) -> Option<Value> {
    let value = serde_json::from_value::<T>(Value::Object(row.clone()));
    let value = value.and_then(serde_json::to_value);
    value.inspect_err(|error| tracing::warn!(%error, "an object is not sent to gateways")).ok()
}

/// Lists the objects of a group in a namespace.
pub(crate) fn group(tables: &Tables, kind: Kind, wanted: &str) -> Vec<Value> {
    let Some(table) = Table::ALL.into_iter().find(|table| table.kind() == Some(kind)) else {
        return Vec::new();
    };
    let rows = tables.rows(table).filter(|(_, row)| namespace(row) == wanted);
    rows.filter_map(|(_, row)| synced(kind, row)).collect()
}

/// Objects of one kind with their checksum, in the JSON form of long polling.
#[derive(Debug)]
pub(crate) struct Group {
    kind: Kind,
    /// Checksum; gateways compare it but do not interpret it.
    sum: String,
    modified_ms: u64,
    objects: Vec<Value>,
}

impl Group {
    fn to_json(&self) -> Value {
        json!({"md5": self.sum, "lastModifyTime": self.modified_ms, "data": self.objects})
    }
}

type Groups = Arc<Vec<Group>>;

/// Cache of the latest groups of each namespace.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<HashMap<String, (u64, Groups)>>);

impl Snapshots {
    /// Returns the groups of a namespace, from the cache if they were built at this version.
    /// `tables` must be of this version or a later one.
    pub(crate) fn at(&self, version: u64, tables: &Tables, namespace: &str) -> Groups {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.get(namespace);
        if let Some((known, groups)) = before
            && *known == version
        {
            return Arc::clone(groups);
        }
        let before = before.map(|(_, groups)| Arc::clone(groups));
        let make = |kind: Kind| {
            let objects = group(tables, kind, namespace);
            let sum = checksum(&objects);
            let same = before
                .iter()
                .flat_map(|groups| groups.iter())
                .find(|it| it.kind == kind && it.sum == sum);
            let modified_ms = same.map_or_else(clock::now_ms, |group| group.modified_ms);
            Group { kind, sum, modified_ms, objects }
        };
        let groups: Groups = Arc::new(Kind::ALL.into_iter().map(make).collect());
        if kept.len() >= SNAPSHOTS_MAX && !kept.contains_key(namespace) {
            kept.clear();
        }
        kept.insert(namespace.to_owned(), (version, Arc::clone(&groups)));
        groups
    }
}

/// Returns 32 hexadecimal digits, the form of an MD5 that gateways expect. They are taken from
/// SHA-256, because MD5 is broken.
fn checksum(objects: &[Value]) -> String {
    let text = serde_json::to_vec(objects).unwrap_or_default();
    let sum = digest::digest(&digest::SHA256, &text);
    sum.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
