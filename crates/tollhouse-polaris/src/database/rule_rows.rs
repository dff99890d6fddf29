//! Conversion of governance rules to rows of Polaris' database, the reverse of `rules.rs`. A few
//! fields have their own columns. The rest is one JSON text: as Go's encoder writes the message, or
//! the canonical protobuf JSON for routing.

use prost::Message;
use serde_json::{Map, Value, json};
use tollhouse_registry::{Rule, RuleKind};

use super::ExportRefusal;
use super::record::{Cell, Cells, DependentRows, Record, number, text};
use crate::json::{print_plain, print_sparse};
use crate::rules::{layout_of, rule_message};
use crate::{descriptors, v1};

/// Time that Polaris stores as the enabling time of a disabled rule.
const NEVER_ENABLED: Cell = Cell::Time(315_532_801);

/// Returns the name of the table for this kind of rules; `None` if Polaris has no table for it.
pub(super) fn table(kind: RuleKind) -> Option<&'static str> {
    match kind {
        RuleKind::RoutingV1 => Some("routing_config"),
        RuleKind::Routing | RuleKind::NearbyRouting => Some("routing_config_v2"),
        RuleKind::RateLimit => Some("ratelimit_config"),
        RuleKind::CircuitBreaker => Some("circuitbreaker_rule_v2"),
        RuleKind::FaultDetector => Some("fault_detect_rule"),
        RuleKind::Lane => Some("lane_group"),
        RuleKind::Lossless
        | RuleKind::BlockAllow
        | RuleKind::TrafficMirroring
        | RuleKind::FaultInjection => None,
    }
}

/// Converts a rule; `service` is the row id of the service that the rule is for, if it is for one.
pub(super) fn record(rule: &Rule, service: Option<&str>) -> Result<Record, ExportRefusal> {
    let table = table(rule.kind).ok_or(ExportRefusal::NoPlace)?;
    let layout = layout_of(rule.kind);
    let descriptor = descriptors().get_message_by_name(layout.message);
    let descriptor = descriptor.ok_or(ExportRefusal::NoPlace)?;
    let message = rule_message(rule);
    let Value::Object(mut fields) = print_plain(&descriptor, message).map_err(unwritable)? else {
        return Err(ExportRefusal::NoPlace);
    };
    for set_by_server in ["id", "revision", "ctime", "mtime", "etime"] {
        fields.remove(set_by_server);
    }
    let mut record = Record {
        table,
        key: "id",
        cells: vec![text("revision", rule.revision.to_string()), ("mtime", Cell::Now)],
        born: vec![("ctime", Cell::Time(rule.created_at))],
        ..Record::default()
    };
    match rule.kind {
        RuleKind::RoutingV1 => routing_first(rule, service, &mut fields, &mut record)?,
        RuleKind::Routing | RuleKind::NearbyRouting => routing(rule, message, &mut record)?,
        RuleKind::RateLimit => rate_limit(rule, service, fields, &mut record)?,
        RuleKind::CircuitBreaker => circuit_breaker(rule, fields, &mut record),
        RuleKind::FaultDetector => fault_detector(rule, fields, &mut record),
        _ => lane_group(rule, fields, &mut record),
    }
    Ok(record)
}

fn unwritable(error: impl ToString) -> ExportRefusal {
    ExportRefusal::Unwritable(error.to_string())
}

/// Returns the row id of the rule's service, and sets the joined columns.
fn service_row(
    rule: &Rule,
    service: Option<&str>,
    record: &mut Record,
) -> Result<String, ExportRefusal> {
    let (Some(target), Some(id)) = (rule.targets.first(), service) else {
        return Err(ExportRefusal::NoService);
    };
    record.joined =
        vec![("service", target.name.to_string()), ("namespace", target.namespace.to_string())];
    Ok(id.to_owned())
}

fn routing_first(
    rule: &Rule,
    service: Option<&str>,
    fields: &mut Map<String, Value>,
    record: &mut Record,
) -> Result<(), ExportRefusal> {
    // A service has at most one such rule, under the id of the service.
    let id = service_row(rule, service, record)?;
    let mut bounds = |name| fields.remove(name).unwrap_or_else(|| json!([])).to_string();
    record.cells.extend([
        text("id", id),
        text("in_bounds", bounds("inbounds")),
        text("out_bounds", bounds("outbounds")),
    ]);
    Ok(())
}

fn routing(rule: &Rule, message: &[u8], record: &mut Record) -> Result<(), ExportRefusal> {
    let read = v1::RouteRule::decode(message).map_err(unwritable)?;
    let config = read.routing_config.unwrap_or_default();
    let name = config.type_url.rsplit('/').next().unwrap_or_default();
    let descriptor = descriptors().get_message_by_name(name).ok_or(ExportRefusal::NoPlace)?;
    let config = print_sparse(&descriptor, &config.value).map_err(unwritable)?;
    let policy = v1::RoutingPolicy::try_from(read.routing_policy).map_err(unwritable)?;
    record.cells.extend([
        text("id", &*rule.id),
        text("name", &*rule.name),
        text("namespace", &*rule.namespace),
        text("policy", policy.as_str_name()),
        text("config", config.to_string()),
        number("enable", i64::from(rule.enabled)),
        number("priority", i64::from(rule.priority)),
        text("description", read.description),
        ("etime", enabled_at(rule)),
    ]);
    Ok(())
}

fn rate_limit(
    rule: &Rule,
    service: Option<&str>,
    mut fields: Map<String, Value>,
    record: &mut Record,
) -> Result<(), ExportRefusal> {
    let id = service_row(rule, service, record)?;
    let method = fields.get("method").map(matched).unwrap_or_default();
    let labels = fields.get("labels").cloned().unwrap_or_else(|| json!({}));
    fields.remove("priority");
    record.belongings.push(DependentRows {
        table: "ratelimit_revision",
        by: vec![text("service_id", &id)],
        rows: vec![vec![
            text("service_id", &id),
            text("last_revision", rule.revision.to_string()),
            ("mtime", Cell::Now),
        ]],
    });
    record.cells.extend([
        text("id", &*rule.id),
        text("name", &*rule.name),
        number("disable", i64::from(!rule.enabled)),
        text("service_id", id),
        text("method", method),
        text("labels", labels.to_string()),
        number("priority", i64::from(rule.priority)),
        text("rule", Value::Object(fields).to_string()),
        ("etime", enabled_at(rule)),
    ]);
    Ok(())
}

fn circuit_breaker(rule: &Rule, mut fields: Map<String, Value>, record: &mut Record) {
    let level = fields.remove("level").and_then(|level| level.as_i64()).unwrap_or_default();
    let matcher = fields.get("rule_matcher").cloned().unwrap_or_default();
    fields.remove("enable");
    record.cells.extend([
        number("enable", i64::from(rule.enabled)),
        number("level", level),
        text("src_service", named(&matcher["source"], "service")),
        text("src_namespace", named(&matcher["source"], "namespace")),
        ("etime", enabled_at(rule)),
    ]);
    push_destination(&matcher["destination"], record);
    push_named(rule, fields, record);
}

fn fault_detector(rule: &Rule, fields: Map<String, Value>, record: &mut Record) {
    let target = fields.get("target_service").cloned().unwrap_or_default();
    push_destination(&target, record);
    push_named(rule, fields, record);
}

fn push_destination(destination: &Value, record: &mut Record) {
    record.cells.extend([
        text("dst_service", named(destination, "service")),
        text("dst_namespace", named(destination, "namespace")),
        text("dst_method", matched(&destination["method"])),
    ]);
}

/// Adds the columns that named rules have in common, and the remaining fields as one JSON text.
fn push_named(rule: &Rule, mut fields: Map<String, Value>, record: &mut Record) {
    let description = fields.remove("description").unwrap_or_default();
    for name in ["name", "namespace"] {
        fields.remove(name);
    }
    record.cells.extend([
        text("id", &*rule.id),
        text("name", &*rule.name),
        text("namespace", &*rule.namespace),
        text("description", description.as_str().unwrap_or_default()),
        text("config", Value::Object(fields).to_string()),
    ]);
}

fn lane_group(rule: &Rule, mut fields: Map<String, Value>, record: &mut Record) {
    let lanes = fields.remove("rules").unwrap_or_default();
    let description = fields.get("description").cloned().unwrap_or_default();
    let lanes = lanes.as_array().into_iter().flatten().filter_map(Value::as_object);
    record.belongings.push(DependentRows {
        table: "lane_rule",
        by: vec![text("group_name", &*rule.name)],
        rows: lanes.map(|lane| lane_row(rule, lane)).collect(),
    });
    record.unique = &["name"];
    record.cells.extend([
        text("id", &*rule.id),
        text("name", &*rule.name),
        text("rule", Value::Object(fields).to_string()),
        text("description", description.as_str().unwrap_or_default()),
    ]);
}

fn lane_row(rule: &Rule, lane: &Map<String, Value>) -> Cells {
    let of = |name: &str| lane.get(name).and_then(Value::as_str).unwrap_or_default();
    let enabled = lane.get("enable").and_then(Value::as_bool).unwrap_or_default();
    let priority = lane.get("priority").and_then(Value::as_i64).unwrap_or_default();
    let revision = match of("revision") {
        "" => rule.revision.to_string(),
        own => own.to_owned(),
    };
    vec![
        text("id", of("id")),
        text("name", of("name")),
        text("group_name", &*rule.name),
        text("rule", Value::Object(lane.clone()).to_string()),
        text("revision", revision),
        number("priority", priority),
        text("description", of("description")),
        number("enable", i64::from(enabled)),
        ("mtime", Cell::Now),
        ("etime", if enabled { Cell::Now } else { NEVER_ENABLED }),
    ]
}

fn enabled_at(rule: &Rule) -> Cell {
    match (rule.enabled, rule.enabled_at) {
        (false, _) => NEVER_ENABLED,
        (true, 0) => Cell::Now,
        (true, seconds) => Cell::Time(seconds),
    }
}

fn named(object: &Value, name: &str) -> String {
    object[name].as_str().unwrap_or_default().to_owned()
}

/// Returns the text that a match condition compares with.
fn matched(condition: &Value) -> String {
    condition["value"]["value"].as_str().unwrap_or_default().to_owned()
}
