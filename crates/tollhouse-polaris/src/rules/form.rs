//! JSON Schemas of rules, from which the console builds forms. Generated from the protocol's
//! descriptors, so that they contain every field of this version; the descriptions of fields are
//! here. Validation is in `rules.rs` and does not use the schemas.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use tollhouse_registry::RuleKind;

use super::layout_of;
use crate::schema::{descriptors, schema_name};

/// Fields set by the server, which forms leave out.
const SET_BY_SERVER: [&str; 6] = ["revision", "ctime", "mtime", "etime", "editable", "deleteable"];

/// Message types of `Any` fields, by kind of rule.
const HELD: [(RuleKind, &str, &[&str]); 3] = [
    (RuleKind::Routing, "routing_config", &["v1.RuleRoutingConfig", "v1.MetadataRoutingConfig"]),
    (RuleKind::NearbyRouting, "routing_config", &["v1.NearbyRoutingConfig"]),
    (RuleKind::Lane, "selector", &["v1.ServiceSelector", "v1.ServiceGatewaySelector"]),
];

/// Descriptions of fields, by full name or by name alone.
const MEANINGS: [(&str, &str); 62] = [
    ("name", "Name for operators."),
    ("namespace", "The namespace of the service; * for all."),
    ("service", "The name of the service; * for all."),
    ("description", "Free text for operators."),
    ("priority", "Rules of lower numbers are tried first."),
    ("enable", "Whether it is enabled."),
    ("enabled", "Whether it is enabled."),
    ("disable", "Whether it is disabled."),
    ("metadata", "Pairs for people and programs; the registry does not use them."),
    ("v1.Source.metadata", "Labels that the caller must have."),
    ("v1.Destination.metadata", "Labels that an instance must have."),
    ("routing_policy", "Type of routing: by the rule's conditions, by labels, or by nearness."),
    ("routing_config", "Contents of the rule."),
    ("rules", "Tried in order; the first that matches a call decides."),
    ("sources", "Callers that it applies to; one match is enough."),
    ("destinations", "Destinations of the calls."),
    ("v1.SourceService.arguments", "Conditions on a call; all must hold."),
    ("v1.Rule.arguments", "Conditions on a call; all must hold."),
    ("labels", "Labels that an instance must have."),
    ("v1.Rule.labels", "Labels that a call must have."),
    ("v1.Rule.subset", "Labels that an instance must have."),
    ("weight", "Share of the calls among destinations of one priority."),
    ("isolate", "Whether it gets no calls."),
    ("transfer", "Service that takes over if this one has no instance."),
    ("v1.MatchString.type", "Type of comparison."),
    ("v1.MatchString.value", "Value to compare with."),
    (
        "value_type",
        "Whether the value is a text, a part of the call, or a variable of the caller's environment.",
    ),
    ("key", "Name of the header, parameter, cookie or label."),
    ("match_level", "Level at which caller and instance must match."),
    ("max_match_level", "Widest level allowed if no instance is near."),
    ("strict_nearby", "Whether calls fail if no instance is near enough."),
    ("resource", "Counted resource: requests, or concurrent requests."),
    ("v1.Rule.type", "GLOBAL counts over all instances, LOCAL in each by itself."),
    ("amounts", "Limits, each with its period; all of them apply."),
    ("maxAmount", "Maximum number of requests in the period."),
    ("validDuration", "Period, such as 1s or 1m."),
    ("max_amount", "Maximum number of concurrent requests."),
    ("concurrency_amount", "Limit on concurrent requests."),
    ("action", "Handling of excess requests: reject, or unirate to delay them."),
    ("method", "The method or path of the interface."),
    ("regex_combine", "Whether all matches of a pattern are counted together."),
    ("amount_mode", "Whether the amount is for all instances together, or shared equally."),
    ("failover", "Behaviour if the counters cannot be reached."),
    ("max_queue_delay", "Seconds that a request may wait, with unirate."),
    ("customResponse", "Response to a refused request."),
    ("level", "Scope of the breaker: the service, an interface, a group, or one instance."),
    ("rule_matcher", "Callers and destinations that it applies to."),
    ("error_conditions", "Conditions for a call to count as an error."),
    ("trigger_condition", "Conditions for it to open; one is enough."),
    ("trigger_conditions", "Conditions for it to open; one is enough."),
    ("error_count", "Number of consecutive errors."),
    ("error_percent", "Share of errors, in percent."),
    ("v1.TriggerCondition.interval", "Seconds over which the share is counted."),
    ("minimum_request", "Minimum number of requests for the share to count."),
    ("sleep_window", "Seconds until it is tried again."),
    ("consecutiveSuccess", "Number of consecutive successes after which it closes."),
    ("max_ejection_percent", "Maximum share of ejected instances, in percent."),
    ("v1.FaultDetectRule.interval", "Seconds between two probes."),
    ("timeout", "Timeout of a probe, in milliseconds."),
    ("target_service", "Service and method to probe."),
    ("entries", "Entry points at which calls are assigned to a lane."),
    ("block_allow_policy", "Whether matching calls are allowed or blocked."),
];

/// Returns the JSON Schema of a kind.
pub fn rule_schema(kind: RuleKind) -> Value {
    let layout = layout_of(kind);
    let Some(message) = descriptors().get_message_by_name(layout.message) else {
        return json!({ "type": "object" });
    };
    let mut schema = Forms { kind, around: Vec::new() }.message(&message);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for name in SET_BY_SERVER {
            properties.shift_remove(name);
        }
    }
    if layout.is_name_required {
        schema["required"] = json!(["name"]);
    }
    schema
}

struct Forms {
    kind: RuleKind,
    /// Enclosing messages, so that recursive ones end.
    around: Vec<String>,
}

impl Forms {
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.full_name().to_owned();
        if self.around.contains(&name) {
            return json!({ "type": "object" });
        }
        self.around.push(name);
        let mut properties = Map::new();
        for field in message.fields() {
            let mut schema = self.field(&field);
            if let Some(meaning) = meaning(&field) {
                schema["description"] = meaning.into();
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        self.around.pop();
        json!({ "type": "object", "properties": properties })
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_map() {
            let Kind::Message(entry) = field.kind() else { return json!({ "type": "object" }) };
            let value = entry.map_entry_value_field();
            return json!({ "type": "object", "additionalProperties": self.value(&value) });
        }
        let value = self.value(field);
        if field.is_list() { json!({ "type": "array", "items": value }) } else { value }
    }

    fn value(&mut self, field: &FieldDescriptor) -> Value {
        match field.kind() {
            Kind::Message(message) => match message.full_name() {
                "google.protobuf.Any" => self.any(field),
                "google.protobuf.Duration" => json!({ "type": "string" }),
                name => match wrapped(name) {
                    Some(schema) => schema,
                    None => self.message(&message),
                },
            },
            Kind::Enum(known) => {
                let names: Vec<String> = known.values().map(|it| it.name().to_owned()).collect();
                json!({ "type": "string", "enum": names })
            }
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String | Kind::Bytes => json!({ "type": "string" }),
            Kind::Double | Kind::Float => json!({ "type": "number" }),
            // JSON readers in other languages would round large numbers, so that text is allowed.
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => {
                json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }] })
            }
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0 }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer" }),
        }
    }

    /// Returns the schema of an `Any`, which names the type of its message.
    fn any(&mut self, field: &FieldDescriptor) -> Value {
        let held =
            HELD.iter().find(|(kind, name, _)| *kind == self.kind && *name == field.json_name());
        let names = held.map_or([].as_slice(), |(_, _, names)| names);
        let mut variants: Vec<Value> = Vec::new();
        for name in names {
            let Some(message) = descriptors().get_message_by_name(name) else { continue };
            let mut schema = self.message(&message);
            let own = json!({ "type": "string", "enum": [format!("type.googleapis.com/{name}")] });
            if let Some(properties) = schema["properties"].as_object_mut() {
                properties.shift_insert(0, "@type".to_owned(), own);
            }
            schema["title"] = name.trim_start_matches("v1.").into();
            schema["required"] = json!(["@type"]);
            variants.push(schema);
        }
        match variants.len() {
            0 => json!({ "type": "object" }),
            1 => variants.remove(0),
            _ => json!({ "oneOf": variants }),
        }
    }
}

/// Returns the schema of a wrapper's bare value.
fn wrapped(name: &str) -> Option<Value> {
    let kind = name.strip_prefix("google.protobuf.")?.strip_suffix("Value")?;
    Some(match kind {
        "Bool" => json!({ "type": "boolean" }),
        "UInt32" => json!({ "type": "integer", "minimum": 0 }),
        "Int32" => json!({ "type": "integer" }),
        "Int64" | "UInt64" => json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }] }),
        "Float" | "Double" => json!({ "type": "number" }),
        _ => json!({ "type": "string" }),
    })
}

/// Returns the description of a field, by its name in the schema or in JSON.
fn meaning(field: &FieldDescriptor) -> Option<&'static str> {
    let names = [field.json_name().to_owned(), schema_name(field)];
    let message = field.parent_message();
    let own = names.iter().map(|name| format!("{}.{name}", message.full_name()));
    let mut all: Vec<String> = own.collect();
    all.extend(names);
    let find = |name: &String| MEANINGS.iter().find(|(known, _)| known == name);
    all.iter().find_map(find).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value in a kind's schema at a JSON pointer.
    fn at(kind: RuleKind, pointer: &str) -> Value {
        let schema = rule_schema(kind);
        schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not in {schema}")).clone()
    }

    #[test]
    fn every_kind_has_fields_and_none_that_the_server_sets() {
        for kind in RuleKind::ALL {
            let schema = rule_schema(kind);
            let fields = schema["properties"].as_object().expect("it has fields");
            assert!(fields.len() > 3, "{kind:?}");
            assert!(SET_BY_SERVER.iter().all(|name| !fields.contains_key(*name)), "{kind:?}");
        }
    }

    #[test]
    fn fields_have_the_shapes_that_rules_are_written_in() {
        let limit = "/properties/amounts/items/properties";
        assert_eq!(at(RuleKind::RateLimit, &format!("{limit}/validDuration"))["type"], "string");
        assert_eq!(at(RuleKind::RateLimit, &format!("{limit}/maxAmount"))["type"], "integer");
        assert_eq!(
            at(RuleKind::RateLimit, "/properties/resource/enum"),
            json!(["QPS", "CONCURRENCY"])
        );
        let config = "/properties/routing_config";
        assert_eq!(
            at(RuleKind::NearbyRouting, &format!("{config}/properties/@type/enum/0")),
            "type.googleapis.com/v1.NearbyRoutingConfig"
        );
        let destination = "oneOf/0/properties/rules/items/properties/destinations/items/properties";
        let labels = format!("{config}/{destination}/labels/additionalProperties/properties/value");
        assert_eq!(at(RuleKind::Routing, &labels)["type"], "string");
        assert_eq!(at(RuleKind::CircuitBreaker, "/required"), json!(["name"]));
    }

    #[test]
    fn every_meaning_is_of_a_field() {
        let texts: String = RuleKind::ALL.map(|kind| rule_schema(kind).to_string()).concat();
        for (name, text) in MEANINGS {
            assert!(texts.contains(text), "{name}: {text}");
        }
    }
}
