//! Import of governance rules from Polaris' database: a few columns, and the rest as the JSON of a
//! message. Each rule is then decoded by the code that decodes rules of clients.

use prost::Message;
use serde_json::{Map, Value, json};
use tollhouse_registry::{Object, Rule, RuleKind};

use super::registered::{column, later_column};
use super::{Details, ImportRefusal, Part, Row};
use crate::json::{ReadError, read, read_plain};
use crate::rules::read_rule;
use crate::{descriptors, v1};

/// Upper bound of the times that Polaris stores as the enabling time of a disabled rule: a second
/// of 1980.
const NEVER_ENABLED: u64 = 315_619_200;

pub(super) const ROUTING_FIRST: Part = Part {
    name: "routing rules of the first generation",
    from: "routing_config r LEFT JOIN service s ON s.id = r.id AND s.flag = 0",
    condition: "r.flag = 0",
    key: "r.id",
    columns: &[
        column("id", "r.id", "routing_config", "id"),
        column("service", "s.name", "service", "name"),
        column("namespace", "s.namespace", "service", "namespace"),
        column("in_bounds", "r.in_bounds", "routing_config", "in_bounds"),
        column("out_bounds", "r.out_bounds", "routing_config", "out_bounds"),
        column("revision", "r.revision", "routing_config", "revision"),
        column("ctime", "UNIX_TIMESTAMP(r.ctime)", "routing_config", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(r.mtime)", "routing_config", "mtime"),
    ],
    details: None,
    read: routing_first,
    is_optional: true,
};

pub(super) const ROUTING: Part = Part {
    name: "routing rules",
    from: "routing_config_v2 r",
    condition: "r.flag = 0",
    key: "r.id",
    columns: &[
        column("id", "r.id", "routing_config_v2", "id"),
        column("name", "r.name", "routing_config_v2", "name"),
        column("namespace", "r.namespace", "routing_config_v2", "namespace"),
        column("policy", "r.policy", "routing_config_v2", "policy"),
        column("config", "r.config", "routing_config_v2", "config"),
        column("enable", "r.enable", "routing_config_v2", "enable"),
        column("revision", "r.revision", "routing_config_v2", "revision"),
        column("description", "r.description", "routing_config_v2", "description"),
        column("priority", "r.priority", "routing_config_v2", "priority"),
        column("ctime", "UNIX_TIMESTAMP(r.ctime)", "routing_config_v2", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(r.mtime)", "routing_config_v2", "mtime"),
        later_column("etime", "UNIX_TIMESTAMP(r.etime)", "routing_config_v2", "etime"),
    ],
    details: None,
    read: routing,
    is_optional: true,
};

pub(super) const RATE_LIMITS: Part = Part {
    name: "rate limits",
    from: "ratelimit_config r LEFT JOIN service s ON s.id = r.service_id AND s.flag = 0",
    condition: "r.flag = 0",
    key: "r.id",
    columns: &[
        column("id", "r.id", "ratelimit_config", "id"),
        later_column("name", "r.name", "ratelimit_config", "name"),
        later_column("disable", "r.disable", "ratelimit_config", "disable"),
        column("service", "s.name", "service", "name"),
        column("namespace", "s.namespace", "service", "namespace"),
        later_column("method", "r.method", "ratelimit_config", "method"),
        column("labels", "r.labels", "ratelimit_config", "labels"),
        column("priority", "r.priority", "ratelimit_config", "priority"),
        column("rule", "r.rule", "ratelimit_config", "rule"),
        column("revision", "r.revision", "ratelimit_config", "revision"),
        column("ctime", "UNIX_TIMESTAMP(r.ctime)", "ratelimit_config", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(r.mtime)", "ratelimit_config", "mtime"),
        later_column("etime", "UNIX_TIMESTAMP(r.etime)", "ratelimit_config", "etime"),
    ],
    details: None,
    read: rate_limit,
    is_optional: true,
};

pub(super) const CIRCUIT_BREAKERS: Part = Part {
    name: "circuit breakers",
    from: "circuitbreaker_rule_v2 r",
    condition: "r.flag = 0",
    key: "r.id",
    columns: &[
        column("id", "r.id", "circuitbreaker_rule_v2", "id"),
        column("name", "r.name", "circuitbreaker_rule_v2", "name"),
        column("namespace", "r.namespace", "circuitbreaker_rule_v2", "namespace"),
        column("enable", "r.enable", "circuitbreaker_rule_v2", "enable"),
        column("revision", "r.revision", "circuitbreaker_rule_v2", "revision"),
        column("description", "r.description", "circuitbreaker_rule_v2", "description"),
        column("level", "r.level", "circuitbreaker_rule_v2", "level"),
        column("config", "r.config", "circuitbreaker_rule_v2", "config"),
        column("ctime", "UNIX_TIMESTAMP(r.ctime)", "circuitbreaker_rule_v2", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(r.mtime)", "circuitbreaker_rule_v2", "mtime"),
        later_column("etime", "UNIX_TIMESTAMP(r.etime)", "circuitbreaker_rule_v2", "etime"),
    ],
    details: None,
    read: circuit_breaker,
    is_optional: true,
};

pub(super) const FAULT_DETECTORS: Part = Part {
    name: "fault detectors",
    from: "fault_detect_rule r",
    condition: "r.flag = 0",
    key: "r.id",
    columns: &[
        column("id", "r.id", "fault_detect_rule", "id"),
        column("name", "r.name", "fault_detect_rule", "name"),
        column("namespace", "r.namespace", "fault_detect_rule", "namespace"),
        column("revision", "r.revision", "fault_detect_rule", "revision"),
        column("description", "r.description", "fault_detect_rule", "description"),
        column("config", "r.config", "fault_detect_rule", "config"),
        column("ctime", "UNIX_TIMESTAMP(r.ctime)", "fault_detect_rule", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(r.mtime)", "fault_detect_rule", "mtime"),
    ],
    details: None,
    read: fault_detector,
    is_optional: true,
};

pub(super) const LANES: Part = Part {
    name: "lane groups",
    from: "lane_group r",
    condition: "r.flag = 0",
    key: "r.id",
    columns: &[
        column("id", "r.id", "lane_group", "id"),
        column("name", "r.name", "lane_group", "name"),
        column("rule", "r.rule", "lane_group", "rule"),
        column("description", "r.description", "lane_group", "description"),
        column("revision", "r.revision", "lane_group", "revision"),
        column("ctime", "UNIX_TIMESTAMP(r.ctime)", "lane_group", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(r.mtime)", "lane_group", "mtime"),
    ],
    details: Some(Details {
        table: "lane_rule",
        by: ("group_name", "name"),
        condition: "d.flag = 0",
        columns: &[
            column("id", "d.id", "lane_rule", "id"),
            column("name", "d.name", "lane_rule", "name"),
            column("group_name", "d.group_name", "lane_rule", "group_name"),
            column("rule", "d.rule", "lane_rule", "rule"),
            column("revision", "d.revision", "lane_rule", "revision"),
            column("priority", "d.priority", "lane_rule", "priority"),
            column("description", "d.description", "lane_rule", "description"),
            column("enable", "d.enable", "lane_rule", "enable"),
        ],
    }),
    read: lane_group,
    is_optional: true,
};

fn routing_first(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let (service, namespace) = service(row)?;
    let bounds = |column: &'static str| row.json::<Option<Value>>(column);
    let message = json!({
        "service": {"value": service}, "namespace": {"value": namespace},
        "inbounds": bounds("in_bounds")?, "outbounds": bounds("out_bounds")?,
    });
    let message = plain("v1.Routing", "in_bounds", &message)?;
    rule(row, RuleKind::RoutingV1, &message)
}

fn routing(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let (policy, config) = match row.text("policy") {
        "MetadataPolicy" => (v1::RoutingPolicy::MetadataPolicy, "v1.MetadataRoutingConfig"),
        "NearbyPolicy" => (v1::RoutingPolicy::NearbyPolicy, "v1.NearbyRoutingConfig"),
        "RulePolicy" => (v1::RoutingPolicy::RulePolicy, "v1.RuleRoutingConfig"),
        other => {
            let reason = format!("unknown routing policy {other:?}");
            return Err(ImportRefusal::Unreadable { column: "policy", reason });
        }
    };
    let text = row.text("config");
    let descriptor = descriptors().get_message_by_name(config);
    let value = match descriptor.filter(|_| text.starts_with('{')) {
        Some(descriptor) => read(&descriptor, text.as_bytes()).map_err(unreadable("config"))?,
        // The first versions of Polaris stored the binary message here.
        None => text.as_bytes().to_vec(),
    };
    let type_url = format!("type.googleapis.com/{config}");
    let message = v1::RouteRule {
        id: row.text("id").to_owned(),
        name: row.text("name").to_owned(),
        namespace: row.text("namespace").to_owned(),
        enable: row.flag("enable")?,
        routing_policy: policy.into(),
        routing_config: Some(prost_types::Any { type_url, value }),
        priority: row.small("priority")?,
        description: row.text("description").to_owned(),
        ..v1::RouteRule::default()
    };
    rule(row, RuleKind::Routing, &message.encode_to_vec())
}

fn rate_limit(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let mut fields: Map<String, Value> = row.json("rule")?;
    // Since version 1.17 the rule contains its service, and `service_id` is empty.
    let (service, namespace) = match (wrapped(&fields, "service"), wrapped(&fields, "namespace")) {
        (Some(service), Some(namespace)) => (service, namespace),
        _ => service(row).map(|(name, namespace)| (name.to_owned(), namespace.to_owned()))?,
    };
    let is_empty = |fields: &Map<String, Value>, name: &str| match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(pairs)) => pairs.is_empty(),
        Some(_) => false,
    };
    // Before version 1.11 method and labels are in their own columns only.
    if is_empty(&fields, "method") && !row.text("method").is_empty() {
        let method = json!({"value": {"value": row.text("method")}});
        fields.insert("method".to_owned(), method);
    }
    if is_empty(&fields, "labels") && is_empty(&fields, "arguments") {
        let labels: Map<String, Value> = row.json("labels")?;
        fields.insert("labels".to_owned(), Value::Object(labels));
    }
    let columns = [
        ("id", json!(row.text("id"))),
        ("service", json!(service)),
        ("namespace", json!(namespace)),
        ("name", json!(row.text("name"))),
        ("priority", json!(row.number("priority")?)),
        ("disable", json!(row.flag("disable")?)),
    ];
    for (name, value) in columns {
        fields.insert(name.to_owned(), json!({"value": value}));
    }
    let message = plain("v1.Rule", "rule", &Value::Object(fields))?;
    rule(row, RuleKind::RateLimit, &message)
}

fn circuit_breaker(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let mut fields: Map<String, Value> = row.json("config")?;
    fields.insert("enable".to_owned(), json!(row.flag("enable")?));
    fields.insert("level".to_owned(), json!(row.number("level")?));
    let message = named("v1.CircuitBreakerRule", row, fields)?;
    rule(row, RuleKind::CircuitBreaker, &message)
}

fn fault_detector(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let message = named("v1.FaultDetectRule", row, row.json("config")?)?;
    rule(row, RuleKind::FaultDetector, &message)
}

/// Encodes the message of a rule whose names are in columns.
fn named(
    message: &str,
    row: &Row,
    mut fields: Map<String, Value>,
) -> Result<Vec<u8>, ImportRefusal> {
    for name in ["id", "name", "namespace", "description"] {
        fields.insert(name.to_owned(), json!(row.text(name)));
    }
    plain(message, "config", &Value::Object(fields))
}

fn lane_group(row: &Row, lanes: &[Row]) -> Result<Object, ImportRefusal> {
    let mut fields: Map<String, Value> = row.json("rule")?;
    for name in ["id", "name", "description"] {
        fields.insert(name.to_owned(), json!(row.text(name)));
    }
    let lanes = lanes.iter().map(|lane| {
        let mut fields: Map<String, Value> = lane.json("rule")?;
        for name in ["id", "name", "group_name", "description", "revision"] {
            fields.insert(name.to_owned(), json!(lane.text(name)));
        }
        fields.insert("priority".to_owned(), json!(lane.number("priority")?));
        fields.insert("enable".to_owned(), json!(lane.flag("enable")?));
        Ok(Value::Object(fields))
    });
    let lanes = lanes.collect::<Result<Vec<_>, ImportRefusal>>()?;
    fields.insert("rules".to_owned(), Value::Array(lanes));
    let message = plain("v1.LaneGroup", "rule", &Value::Object(fields))?;
    rule(row, RuleKind::Lane, &message)
}

/// Returns the text of a wrapper message (`google.protobuf.StringValue`); `None` if it is empty.
fn wrapped(fields: &Map<String, Value>, name: &str) -> Option<String> {
    let text = fields.get(name)?.get("value")?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns name and namespace of the service that a rule is for.
fn service(row: &Row) -> Result<(&str, &str), ImportRefusal> {
    match row.text("service") {
        "" => Err(ImportRefusal::NoService),
        name => Ok((name, row.text("namespace"))),
    }
}

fn plain(message: &str, column: &'static str, json: &Value) -> Result<Vec<u8>, ImportRefusal> {
    let descriptor = descriptors().get_message_by_name(message);
    let descriptor = descriptor.ok_or_else(|| ImportRefusal::Unreadable {
        column,
        reason: format!("{message} is not declared"),
    })?;
    read_plain(&descriptor, json).map_err(unreadable(column))
}

fn unreadable(column: &'static str) -> impl Fn(ReadError) -> ImportRefusal {
    move |error| ImportRefusal::Unreadable { column, reason: error.to_string() }
}

/// Decodes a rule, and adds times and revision of its row.
fn rule(row: &Row, kind: RuleKind, message: &[u8]) -> Result<Object, ImportRefusal> {
    let read = read_rule(kind, message).map_err(ImportRefusal::Rule)?;
    let enabled_at = match row.text("etime") {
        "" => 0,
        _ => Some(row.time("etime")?).filter(|time| *time > NEVER_ENABLED).unwrap_or_default(),
    };
    Ok(Object::Rule(Box::new(Rule {
        kind: read.kind,
        id: read.id,
        name: read.name,
        namespace: read.namespace,
        targets: read.targets,
        priority: read.priority,
        enabled: read.enabled,
        created_at: row.time("ctime")?,
        modified_at: row.time("mtime")?,
        enabled_at,
        revision: row.revision(),
        body: read.body,
        encoded: Default::default(),
    })))
}
