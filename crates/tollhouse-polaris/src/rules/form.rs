//! What a rule of each kind is made of, as a JSON Schema that forms are made from. It comes from the protocol's own
//! descriptors, so that it knows every field of this edition; what the fields mean is written here. Whether a rule is good
//! is judged when it is read (`rules.rs`), and not by this.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use tollhouse_registry::RuleKind;

use super::layout_of;
use crate::schema::{descriptors, schema_name};

/// Fields that the server sets: a rule is written without them.
const SET_BY_SERVER: [&str; 4] = ["revision", "ctime", "mtime", "etime"];

/// What a field that holds any message holds in rules of a kind.
const HELD: [(RuleKind, &str, &[&str]); 3] = [
    (RuleKind::Routing, "routing_config", &["v1.RuleRoutingConfig", "v1.MetadataRoutingConfig"]),
    (RuleKind::NearbyRouting, "routing_config", &["v1.NearbyRoutingConfig"]),
    (RuleKind::Lane, "selector", &["v1.ServiceSelector", "v1.ServiceGatewaySelector"]),
];

/// What fields mean: of a message, or of all that have one of that name.
const MEANINGS: [(&str, &str); 62] = [
    ("name", "What people call it."),
    ("namespace", "The namespace of the service; * for all."),
    ("service", "The name of the service; * for all."),
    ("description", "For people."),
    ("priority", "The smaller the number, the sooner it is looked at."),
    ("enable", "Whether it is on."),
    ("enabled", "Whether it is on."),
    ("disable", "Whether it is off."),
    ("metadata", "Pairs for people and programs; nothing here reads them."),
    ("v1.Source.metadata", "What the caller's labels must be."),
    ("v1.Destination.metadata", "What the labels of an instance must be."),
    ("routing_policy", "How the rule chooses: by what stands in it, by labels, or by nearness."),
    ("routing_config", "What the rule says."),
    ("rules", "Looked at in their order; the first that takes a call decides."),
    ("sources", "Whose calls it takes; one of them is enough."),
    ("destinations", "Where they go."),
    ("v1.SourceService.arguments", "What a call must have; all of it."),
    ("v1.Rule.arguments", "What a call must have; all of it."),
    ("labels", "What the labels of an instance must be."),
    ("v1.Rule.labels", "What the labels of a call must be."),
    ("v1.Rule.subset", "What the labels of an instance must be."),
    ("weight", "Share of the calls among destinations of one priority."),
    ("isolate", "Whether it gets no calls."),
    ("transfer", "The service that takes over where this one has no instance."),
    ("v1.MatchString.type", "How it is compared."),
    ("v1.MatchString.value", "What it is compared with."),
    (
        "value_type",
        "Whether the value is a text, a part of the call, or a variable of the caller's environment.",
    ),
    ("key", "Which one of them."),
    ("match_level", "How near an instance has to be."),
    ("max_match_level", "How far away an instance may be where none is near."),
    ("strict_nearby", "Whether calls fail where no instance is that near."),
    ("resource", "What is counted: requests, or those under way at once."),
    ("v1.Rule.type", "GLOBAL counts over all instances, LOCAL in each by itself."),
    ("amounts", "How many are let through in which time; all of them hold."),
    ("maxAmount", "Most requests in the time."),
    ("validDuration", "The time, such as 1s or 1m."),
    ("max_amount", "Most requests under way at once."),
    ("concurrency_amount", "How many may be under way at once."),
    ("action", "What becomes of the rest: reject, or unirate to have them wait."),
    ("method", "The method or path of the interface."),
    ("regex_combine", "Whether all that a pattern matches is counted together."),
    ("amount_mode", "Whether the amount is for all instances together, or shared equally."),
    ("failover", "What happens where the counters cannot be reached."),
    ("max_queue_delay", "Seconds that a request may wait, with unirate."),
    ("customResponse", "What a refused request is answered with."),
    ("level", "What is cut off: the service, an interface, a group, or one instance."),
    ("rule_matcher", "Whose calls to what it is about."),
    ("error_conditions", "What counts as an error."),
    ("trigger_condition", "When it opens; one of them is enough."),
    ("trigger_conditions", "When it opens; one of them is enough."),
    ("error_count", "Errors in a row."),
    ("error_percent", "Share of errors, in percent."),
    ("v1.TriggerCondition.interval", "Seconds over which the share is counted."),
    ("minimum_request", "Requests below which no share is counted."),
    ("sleep_window", "Seconds after which it is tried again."),
    ("consecutiveSuccess", "Good answers in a row after which it closes."),
    ("max_ejection_percent", "Most instances that are cut off, in percent."),
    ("v1.FaultDetectRule.interval", "Seconds between two probes."),
    ("timeout", "Milliseconds that a probe may take."),
    ("target_service", "What is probed."),
    ("entries", "Where calls get the colour of their lane."),
    ("block_allow_policy", "Whether what matches is let in or kept out."),
];

/// The schema of rules of a kind.
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
    /// The messages around a field, so that one that holds itself comes to an end.
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
            // Written as text: readers in other languages would round them.
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => {
                json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }] })
            }
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0 }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer" }),
        }
    }

    /// A message of one of several types, which says its own.
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

/// What stands in the place of a wrapper, which is there to tell nothing from a default.
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

/// What a field means, found by its name in the schema or in JSON.
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

    /// The value at a pointer.
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
