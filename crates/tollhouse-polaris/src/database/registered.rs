//! Import of namespaces, services, aliases and instances from Polaris' database. Rules are in
//! `rules.rs`; reading rows from a server is up to the caller.

use std::collections::BTreeMap;

use tollhouse_registry::limits::{TTL_SECONDS_DEFAULT, TTL_SECONDS_MAX};
use tollhouse_registry::{
    Alias, Location, Metadata, Namespace, Object, Service, ServiceDetails, ServiceKey,
    StoredInstance,
};

use super::row::metadata;
use super::{Column, Details, ImportRefusal, Part, Row};

/// Returns a column that the query needs; without it the import fails.
pub(super) const fn column(
    name: &'static str,
    expression: &'static str,
    table: &'static str,
    column: &'static str,
) -> Column {
    Column { name, expression, table, column, otherwise: None }
}

/// Returns a column that later versions added.
pub(super) const fn later_column(
    name: &'static str,
    expression: &'static str,
    table: &'static str,
    column: &'static str,
) -> Column {
    Column { name, expression, table, column, otherwise: Some("NULL") }
}

pub(super) const NAMESPACES: Part = Part {
    name: "namespaces",
    from: "namespace n",
    condition: "n.flag = 0",
    key: "n.name",
    columns: &[
        column("name", "n.name", "namespace", "name"),
        column("comment", "n.comment", "namespace", "comment"),
        column("token", "n.token", "namespace", "token"),
        column("owner", "n.owner", "namespace", "owner"),
        column("ctime", "UNIX_TIMESTAMP(n.ctime)", "namespace", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(n.mtime)", "namespace", "mtime"),
        later_column("export_to", "n.service_export_to", "namespace", "service_export_to"),
        later_column("metadata", "n.metadata", "namespace", "metadata"),
    ],
    details: None,
    read: namespace,
    is_optional: false,
};

const SERVICE_COLUMNS: &[Column] = &[
    column("id", "s.id", "service", "id"),
    column("name", "s.name", "service", "name"),
    column("namespace", "s.namespace", "service", "namespace"),
    column("ports", "s.ports", "service", "ports"),
    column("business", "s.business", "service", "business"),
    column("department", "s.department", "service", "department"),
    column("cmdb_mod1", "s.cmdb_mod1", "service", "cmdb_mod1"),
    column("cmdb_mod2", "s.cmdb_mod2", "service", "cmdb_mod2"),
    column("cmdb_mod3", "s.cmdb_mod3", "service", "cmdb_mod3"),
    column("comment", "s.comment", "service", "comment"),
    column("token", "s.token", "service", "token"),
    column("revision", "s.revision", "service", "revision"),
    column("owner", "s.owner", "service", "owner"),
    later_column("platform_id", "s.platform_id", "service", "platform_id"),
    column("ctime", "UNIX_TIMESTAMP(s.ctime)", "service", "ctime"),
    column("mtime", "UNIX_TIMESTAMP(s.mtime)", "service", "mtime"),
    later_column("export_to", "s.export_to", "service", "export_to"),
];

const SERVICE_METADATA: Details = Details {
    table: "service_metadata",
    by: ("id", "id"),
    condition: "1 = 1",
    columns: &[
        column("id", "d.id", "service_metadata", "id"),
        column("mkey", "d.mkey", "service_metadata", "mkey"),
        column("mvalue", "d.mvalue", "service_metadata", "mvalue"),
    ],
};

pub(super) const SERVICES: Part = Part {
    name: "services",
    from: "service s",
    condition: "s.flag = 0 AND (s.reference IS NULL OR s.reference = '')",
    key: "s.id",
    columns: SERVICE_COLUMNS,
    details: Some(SERVICE_METADATA),
    read: service,
    is_optional: false,
};

pub(super) const ALIASES: Part = Part {
    name: "aliases",
    from: "service s LEFT JOIN service t ON t.id = s.reference AND t.flag = 0",
    condition: "s.flag = 0 AND s.reference <> ''",
    key: "s.id",
    columns: &[
        column("id", "s.id", "service", "id"),
        column("name", "s.name", "service", "name"),
        column("namespace", "s.namespace", "service", "namespace"),
        column("target_name", "t.name", "service", "name"),
        column("target_namespace", "t.namespace", "service", "namespace"),
        column("comment", "s.comment", "service", "comment"),
        column("revision", "s.revision", "service", "revision"),
        column("owner", "s.owner", "service", "owner"),
        column("ctime", "UNIX_TIMESTAMP(s.ctime)", "service", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(s.mtime)", "service", "mtime"),
    ],
    details: Some(SERVICE_METADATA),
    read: alias,
    is_optional: false,
};

pub(super) const INSTANCES: Part = Part {
    name: "instances",
    from: "instance i LEFT JOIN service s ON s.id = i.service_id AND s.flag = 0 LEFT JOIN health_check h ON h.id = \
           i.id",
    condition: "i.flag = 0",
    key: "i.id",
    columns: &[
        column("id", "i.id", "instance", "id"),
        column("service", "s.name", "service", "name"),
        column("namespace", "s.namespace", "service", "namespace"),
        column("vpc_id", "i.vpc_id", "instance", "vpc_id"),
        column("host", "i.host", "instance", "host"),
        column("port", "i.port", "instance", "port"),
        column("protocol", "i.protocol", "instance", "protocol"),
        column("version", "i.version", "instance", "version"),
        column("health_status", "i.health_status", "instance", "health_status"),
        column("isolate", "i.isolate", "instance", "isolate"),
        column("weight", "i.weight", "instance", "weight"),
        column("enable_health_check", "i.enable_health_check", "instance", "enable_health_check"),
        column("logic_set", "i.logic_set", "instance", "logic_set"),
        column("cmdb_region", "i.cmdb_region", "instance", "cmdb_region"),
        column("cmdb_zone", "i.cmdb_zone", "instance", "cmdb_zone"),
        column("cmdb_idc", "i.cmdb_idc", "instance", "cmdb_idc"),
        column("priority", "i.priority", "instance", "priority"),
        column("revision", "i.revision", "instance", "revision"),
        column("ctime", "UNIX_TIMESTAMP(i.ctime)", "instance", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(i.mtime)", "instance", "mtime"),
        column("ttl", "h.ttl", "health_check", "ttl"),
    ],
    details: Some(Details {
        table: "instance_metadata",
        by: ("id", "id"),
        condition: "1 = 1",
        columns: &[
            column("id", "d.id", "instance_metadata", "id"),
            column("mkey", "d.mkey", "instance_metadata", "mkey"),
            column("mvalue", "d.mvalue", "instance_metadata", "mvalue"),
        ],
    }),
    read: instance,
    is_optional: false,
};

/// Namespace of Polaris itself; `OWN_SERVERS` is the name prefix of its services.
const SYSTEM: &str = tollhouse_registry::SYSTEM_NAMESPACE;
const OWN_SERVERS: &str = "polaris.";

/// Metadata key under which Polaris stores the last heartbeat of an unhealthy instance.
pub(super) const LAST_BEAT: &str = "internal-lastheartbeat";

fn namespace(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let pairs: BTreeMap<Box<str>, Box<str>> = row.json("metadata")?;
    Ok(Object::Namespace(Box::new(Namespace {
        name: row.text("name").into(),
        comment: row.text("comment").to_owned(),
        owners: row.text("owner").to_owned(),
        token: row.text("token").to_owned(),
        metadata: pairs,
        export_to: exports(row)?,
        created_at: row.time("ctime")?,
        modified_at: row.time("mtime")?,
        revision: row.revision(),
    })))
}

fn service(row: &Row, details: &[Row]) -> Result<Object, ImportRefusal> {
    let key = ServiceKey::new(row.text("namespace"), row.text("name"));
    refuse_own_server(&key)?;
    let text = |name: &str| row.text(name).to_owned();
    Ok(Object::Service(Box::new(Service {
        id: text("id"),
        key,
        metadata: metadata(details),
        details: ServiceDetails {
            ports: text("ports"),
            business: text("business"),
            department: text("department"),
            cmdb_mod: ["cmdb_mod1", "cmdb_mod2", "cmdb_mod3"].map(text),
            comment: text("comment"),
            owners: text("owner"),
            platform_id: text("platform_id"),
            export_to: exports(row)?,
        },
        token: text("token"),
        created_at: row.time("ctime")?,
        modified_at: row.time("mtime")?,
        revision: row.revision(),
    })))
}

fn alias(row: &Row, details: &[Row]) -> Result<Object, ImportRefusal> {
    if row.text("target_name").is_empty() {
        return Err(ImportRefusal::NoService);
    }
    Ok(Object::Alias(Box::new(Alias {
        id: row.text("id").to_owned(),
        key: ServiceKey::new(row.text("namespace"), row.text("name")),
        target: ServiceKey::new(row.text("target_namespace"), row.text("target_name")),
        comment: row.text("comment").to_owned(),
        owners: row.text("owner").to_owned(),
        metadata: metadata(details),
        created_at: row.time("ctime")?,
        modified_at: row.time("mtime")?,
        revision: row.revision(),
    })))
}

fn instance(row: &Row, details: &[Row]) -> Result<Object, ImportRefusal> {
    if row.text("service").is_empty() {
        return Err(ImportRefusal::NoService);
    }
    let service = ServiceKey::new(row.text("namespace"), row.text("service"));
    refuse_own_server(&service)?;
    let ttl_seconds = if row.flag("enable_health_check")? { Some(ttl_seconds(row)?) } else { None };
    let healthy = row.flag("health_status")?;
    let mut metadata = metadata(details);
    let last_beat = metadata.remove(LAST_BEAT).and_then(|text| text.parse().ok());
    Ok(Object::Instance(Box::new(StoredInstance {
        id: row.text("id").into(),
        service,
        host: row.text("host").into(),
        port: row.small("port")?,
        vpc_id: row.text("vpc_id").into(),
        protocol: row.text("protocol").into(),
        version: row.text("version").into(),
        priority: row.small("priority")?,
        weight: row.small("weight")?,
        ttl_seconds,
        healthy,
        isolated: row.flag("isolate")?,
        location: location(row),
        metadata: without_labels_of_fields(metadata, row),
        logic_set: row.text("logic_set").into(),
        created_at: row.time("ctime")?,
        modified_at: row.time("mtime")?,
        revision: row.revision(),
        expired_after_beat: last_beat.filter(|_| !healthy && ttl_seconds.is_some()),
        unknown: bytes::Bytes::new(),
    })))
}

fn refuse_own_server(key: &ServiceKey) -> Result<(), ImportRefusal> {
    if is_own_server(key) { Err(ImportRefusal::OwnServer) } else { Ok(()) }
}

/// Whether Polaris' servers find each other by this service.
pub(super) fn is_own_server(key: &ServiceKey) -> bool {
    &*key.namespace == SYSTEM && key.name.starts_with(OWN_SERVERS)
}

/// Returns the heartbeat interval; a value out of range becomes five seconds, as in Polaris.
fn ttl_seconds(row: &Row) -> Result<u8, ImportRefusal> {
    Ok(match u8::try_from(row.number("ttl")?) {
        Ok(ttl @ 1..=TTL_SECONDS_MAX) => ttl,
        _ => TTL_SECONDS_DEFAULT,
    })
}

fn location(row: &Row) -> Option<Location> {
    let part = |name: &str| Box::<str>::from(row.text(name));
    let [region, zone, campus] = ["cmdb_region", "cmdb_zone", "cmdb_idc"].map(part);
    let is_somewhere = [&region, &zone, &campus].iter().any(|part| !part.is_empty());
    is_somewhere.then_some(Location { region, zone, campus })
}

/// Removes labels that repeat a field. Polaris adds five fields as labels to what it sends, and its
/// console stores them back; the registry adds these labels itself.
fn without_labels_of_fields(mut metadata: Metadata, row: &Row) -> Metadata {
    let labels = [
        ("version", "version"),
        ("protocol", "protocol"),
        ("region", "cmdb_region"),
        ("zone", "cmdb_zone"),
        ("campus", "cmdb_idc"),
    ];
    for (label, column) in labels {
        if metadata.get(label).is_some_and(|value| **value == *row.text(column)) {
            metadata.remove(label);
        }
    }
    metadata
}

/// Decodes the namespaces that see this one: a list of names, or an object with names as keys.
fn exports(row: &Row) -> Result<Vec<String>, ImportRefusal> {
    let value: serde_json::Value = row.json("export_to")?;
    Ok(match value {
        serde_json::Value::Array(names) => {
            names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect()
        }
        serde_json::Value::Object(names) => names.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    })
}
