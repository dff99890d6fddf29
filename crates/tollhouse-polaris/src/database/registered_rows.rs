//! Conversion of namespaces, services, aliases and instances to rows of Polaris' database, the
//! reverse of `registered.rs`. Rules are in `rule_rows.rs`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollhouse_registry::{Alias, Metadata, Namespace, Revision, Service, StoredInstance};

use super::record::{Cell, Cells, DependentRows, Record, number, text};
use super::registered::LAST_BEAT;
use crate::registration::hex_digest;

/// Polaris' number for health checks by heartbeat.
const HEARTBEAT: i64 = 1;

/// Maximum length of an owner in the table of owners; longer ones are left out, because the table
/// is for searching only.
const OWNER_CHARS_MAX: usize = 32;

pub(super) fn namespace(namespace: &Namespace) -> Record {
    let Namespace { name, comment, owners, token, metadata, export_to, created_at, .. } = namespace;
    Record {
        table: "namespace",
        key: "name",
        cells: vec![
            text("name", &**name),
            text("comment", comment),
            text("token", token),
            text("owner", owners),
            text("service_export_to", exports(export_to)),
            text("metadata", pairs(metadata)),
            ("mtime", Cell::Now),
        ],
        born: vec![("ctime", Cell::Time(*created_at))],
        ..Record::default()
    }
}

/// Converts a service; `id` is the id of its existing or new row.
pub(super) fn service(service: &Service, id: &str) -> Record {
    let details = &service.details;
    let [first, second, third] = &details.cmdb_mod;
    let mut record = named(id, &service.key.namespace, &service.key.name, &details.owners);
    record.cells.extend([
        text("ports", &details.ports),
        text("business", &details.business),
        text("department", &details.department),
        text("cmdb_mod1", first),
        text("cmdb_mod2", second),
        text("cmdb_mod3", third),
        text("comment", &details.comment),
        text("token", &service.token),
        text("revision", service.revision.to_string()),
        text("platform_id", &details.platform_id),
        text("export_to", exports(&details.export_to)),
        text("reference", ""),
    ]);
    record.born = vec![("ctime", Cell::Time(service.created_at))];
    record.belongings.push(metadata("service_metadata", id, &service.metadata));
    record
}

/// Converts an alias; `target` is the row id of the service that it resolves to.
pub(super) fn alias(alias: &Alias, id: &str, target: &str) -> Record {
    let mut record = named(id, &alias.key.namespace, &alias.key.name, &alias.owners);
    record.cells.extend([
        text("reference", target),
        text("comment", &alias.comment),
        text("revision", alias.revision.to_string()),
    ]);
    record.born = vec![text("token", unknown_token()), ("ctime", Cell::Time(alias.created_at))];
    record.belongings.push(metadata("service_metadata", id, &alias.metadata));
    record.joined = vec![
        ("target_name", alias.target.name.to_string()),
        ("target_namespace", alias.target.namespace.to_string()),
    ];
    record
}

/// Returns the part that services and aliases have in common.
fn named(id: &str, namespace: &str, name: &str, owners: &str) -> Record {
    Record {
        table: "service",
        key: "id",
        cells: vec![
            text("id", id),
            text("name", name),
            text("namespace", namespace),
            text("owner", owners),
            ("mtime", Cell::Now),
        ],
        unique: &["name", "namespace"],
        belongings: vec![owned(namespace, name, owners)],
        ..Record::default()
    }
}

fn owned(namespace: &str, name: &str, owners: &str) -> DependentRows {
    let each = owners.split([';', ',']).map(str::trim);
    let fitting = each.filter(|it| !it.is_empty() && it.chars().nth(OWNER_CHARS_MAX).is_none());
    let row = |owner: &str| {
        let id = hex_digest(format!("{owner}##{namespace}##{name}").as_bytes());
        vec![
            text("id", &id[..32]),
            text("owner", owner),
            text("service", name),
            text("namespace", namespace),
        ]
    };
    // An owner that is listed twice gets one row.
    let rows: BTreeMap<&str, Cells> = fitting.map(|owner| (owner, row(owner))).collect();
    DependentRows {
        table: "owner_service_map",
        by: vec![text("service", name), text("namespace", namespace)],
        rows: rows.into_values().collect(),
    }
}

/// Converts an instance; `service` is the row id of its service.
pub(super) fn instance(instance: &StoredInstance, service: &str) -> Record {
    let id = &*instance.id;
    let place = |part: fn(&tollhouse_registry::Location) -> &str| {
        instance.location.as_ref().map(part).unwrap_or_default()
    };
    let mut own = instance.metadata.clone();
    if let Some(beat) = instance.expired_after_beat {
        own.insert(LAST_BEAT.into(), beat.to_string().into());
    }
    let check = instance
        .ttl_seconds
        .map(|ttl| vec![text("id", id), number("type", HEARTBEAT), number("ttl", i64::from(ttl))]);
    Record {
        table: "instance",
        key: "id",
        cells: vec![
            text("id", id),
            text("service_id", service),
            text("vpc_id", &*instance.vpc_id),
            text("host", &*instance.host),
            number("port", i64::from(instance.port)),
            text("protocol", &*instance.protocol),
            text("version", &*instance.version),
            number("health_status", i64::from(instance.healthy)),
            number("isolate", i64::from(instance.isolated)),
            number("weight", i64::from(instance.weight)),
            number("enable_health_check", i64::from(instance.ttl_seconds.is_some())),
            text("logic_set", &*instance.logic_set),
            text("cmdb_region", place(|it| &it.region)),
            text("cmdb_zone", place(|it| &it.zone)),
            text("cmdb_idc", place(|it| &it.campus)),
            number("priority", i64::from(instance.priority)),
            text("revision", instance.revision.to_string()),
            ("mtime", Cell::Now),
        ],
        born: vec![("ctime", Cell::Time(instance.created_at))],
        belongings: vec![
            DependentRows {
                table: "health_check",
                by: vec![text("id", id)],
                rows: check.into_iter().collect(),
            },
            metadata("instance_metadata", id, &own),
        ],
        joined: vec![
            ("service", instance.service.name.to_string()),
            ("namespace", instance.service.namespace.to_string()),
        ],
        ..Record::default()
    }
}

fn metadata(table: &'static str, id: &str, pairs: &Metadata) -> DependentRows {
    let rows = pairs
        .iter()
        .map(|(key, value)| vec![text("id", id), text("mkey", &**key), text("mvalue", &**value)]);
    DependentRows { table, by: vec![text("id", id)], rows: rows.collect() }
}

/// Encodes a list of namespaces as Polaris does: an object with the names as keys, or an empty
/// text.
fn exports(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let object: Map<String, Value> = names.iter().map(|name| (name.clone(), json!({}))).collect();
    Value::Object(object).to_string()
}

/// Encodes metadata as an object; an empty text without any.
pub(super) fn pairs(metadata: &Metadata) -> String {
    if metadata.is_empty() { String::new() } else { json!(metadata).to_string() }
}

/// Returns a random token for rows that must have one; it is never disclosed.
fn unknown_token() -> String {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
    Revision(u128::from_ne_bytes(bytes)).to_string()
}
