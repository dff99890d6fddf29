//! Descriptions of the fields of a JSON Schema, in words.

use serde_json::{Map, Value};

/// Maximum nesting of the fields that are listed separately; deeper fields are described with the
/// field that contains them.
const DEPTH_MAX: usize = 5;

pub(in crate::cli) struct Field {
    /// Path within the conf, such as `rules[].count`.
    pub(in crate::cli) name: String,
    /// Accepted types or values, in words.
    pub(in crate::cli) takes: String,
    /// Meaning of the field's absence: an error, or a default.
    pub(in crate::cli) presence: Presence,
    /// Constraints on the value, in words; empty without constraints.
    pub(in crate::cli) bounds: String,
    pub(in crate::cli) description: String,
}

/// Meaning of an absent field in a conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Presence {
    /// A conf without the field is refused.
    Required,
    /// Value that applies if the field is absent, as JSON.
    Default(String),
    /// The field may be absent and has no default.
    Optional,
}

impl Field {
    /// Iterates over the texts about the field other than name and description.
    pub(in crate::cli) fn facts(&self) -> impl Iterator<Item = &str> {
        let presence = match &self.presence {
            Presence::Required => "required",
            Presence::Default(value) => value.as_str(),
            Presence::Optional => "",
        };
        [self.takes.as_str(), presence, self.bounds.as_str()]
            .into_iter()
            .filter(|fact| !fact.is_empty())
    }
}

/// Returns the fields of an object schema, including nested ones.
pub(in crate::cli) fn from_schema(schema: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    add_properties(&mut fields, schema, "", 0);
    add_conditional(&mut fields, schema);
    fields
}

/// Adds the fields that depend on the value of another field, such as those of a policy.
fn add_conditional(fields: &mut Vec<Field>, schema: &Value) {
    let own = fields.len();
    let mut rest = Some(schema);
    while let Some(branch) = rest {
        if let (Some(condition), Some(then)) = (branch.get("if"), branch.get("then")) {
            let condition = condition_of(condition);
            let mut further = Vec::new();
            add_properties(&mut further, then, "", 0);
            for mut field in further {
                if let Some(known) = fields[own..].iter_mut().find(|it| it.name == field.name) {
                    known.description.push_str(&format!(" Also where {condition}."));
                } else if !fields.iter().any(|known| known.name == field.name) {
                    let words = format!("{} Where {condition}.", field.description);
                    field.description = words.trim().to_owned();
                    fields.push(field);
                }
            }
        }
        rest = branch.get("else");
    }
}

/// Formats the condition of a branch: `policy` is `"redis"`.
fn condition_of(condition: &Value) -> String {
    let properties = condition.get("properties").and_then(Value::as_object);
    let words = properties.into_iter().flatten().map(|(name, rules)| {
        let values = rules.get("enum").and_then(Value::as_array).cloned();
        let values = values.or_else(|| rules.get("const").map(|value| vec![value.clone()]));
        let values: Vec<String> =
            values.unwrap_or_default().iter().map(|value| format!("`{value}`")).collect();
        format!("`{name}` is {}", values.join(" or "))
    });
    words.collect::<Vec<_>>().join(" and ")
}

fn add_properties(fields: &mut Vec<Field>, schema: &Value, path: &str, depth: usize) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    if depth == DEPTH_MAX {
        return;
    }
    let required: Vec<&str> = names(schema.get("required"));
    for (name, property) in properties {
        let name = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let presence = match property.get("default") {
            _ if required.contains(&name.rsplit('.').next().unwrap_or_default()) => {
                Presence::Required
            }
            Some(value) => Presence::Default(format!("default {value}")),
            None => Presence::Optional,
        };
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        fields.push(Field {
            takes: takes(property),
            bounds: bounds(property).join(", "),
            description: description.split_whitespace().collect::<Vec<_>>().join(" "),
            presence,
            name: name.clone(),
        });
        add_below(fields, property, &name, depth + 1);
    }
}

/// Adds the fields below a field: those of an object, of the items of a list, or of alternative
/// schemas.
fn add_below(fields: &mut Vec<Field>, property: &Value, name: &str, depth: usize) {
    add_properties(fields, property, name, depth);
    if let Some(items) = property.get("items") {
        add_below(fields, items, &format!("{name}[]"), depth);
    }
    if let Some(values) = property.get("additionalProperties").filter(|it| it.is_object()) {
        add_below(fields, values, &format!("{name}.*"), depth);
    }
    for keyword in ["anyOf", "oneOf"] {
        let branches = property.get(keyword).and_then(Value::as_array).into_iter().flatten();
        for branch in branches {
            let before = fields.len();
            add_below(fields, branch, name, depth);
            // Alternatives often share fields.
            let mut index = before;
            while index < fields.len() {
                let is_known = fields[..index].iter().any(|it| it.name == fields[index].name);
                if is_known {
                    fields.remove(index);
                } else {
                    index += 1;
                }
            }
        }
    }
}

/// Returns the accepted types of a value.
fn takes(schema: &Value) -> String {
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        let of = takes(items);
        return if of.is_empty() { "list".to_owned() } else { format!("list of {of}") };
    }
    match schema.get("type") {
        Some(Value::String(name)) => type_word(name).to_owned(),
        Some(Value::Array(types)) => {
            let types = types.iter().filter_map(Value::as_str).map(type_word);
            types.collect::<Vec<_>>().join(" or ")
        }
        _ => {
            let mut found: Vec<String> = Vec::new();
            for keyword in ["anyOf", "oneOf"] {
                let branches = schema.get(keyword).and_then(Value::as_array);
                for branch in branches.into_iter().flatten() {
                    let words = takes(branch);
                    if !words.is_empty() && !found.contains(&words) {
                        found.push(words);
                    }
                }
            }
            found.join(" or ")
        }
    }
}

fn type_word(name: &str) -> &str {
    match name {
        "array" => "list",
        other => other,
    }
}

/// Returns the constraints on a value, in words.
fn bounds(schema: &Value) -> Vec<String> {
    let Some(rules) = schema.as_object() else { return Vec::new() };
    let mut found = Vec::new();
    found.extend(range(rules, ["minimum", "maximum"], ""));
    found.extend(rules.get("exclusiveMinimum").map(|least| format!("more than {least}")));
    found.extend(rules.get("exclusiveMaximum").map(|most| format!("less than {most}")));
    found.extend(range(rules, ["minLength", "maxLength"], "characters"));
    found.extend(range(rules, ["minItems", "maxItems"], "items"));
    found.extend(range(rules, ["minProperties", "maxProperties"], "fields"));
    if let Some(values) = rules.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        found.push(format!("one of {}", values.join(", ")));
    }
    if let Some(pattern) = rules.get("pattern").and_then(Value::as_str) {
        found.push(format!("matches `{pattern}`"));
    }
    if rules.get("uniqueItems") == Some(&Value::Bool(true)) {
        found.push("no item twice".to_owned());
    }
    if let Some(items) = rules.get("items").filter(|items| items.is_object()) {
        found.extend(bounds(items).into_iter().map(|bound| format!("each: {bound}")));
    }
    found
}

fn range(rules: &Map<String, Value>, [least, most]: [&str; 2], unit: &str) -> Option<String> {
    let words = match (rules.get(least), rules.get(most)) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => return None,
    };
    Some(format!("{words} {unit}").trim_end().to_owned())
}

/// Returns the constraints on several fields together, such as "at least one of".
pub(in crate::cli) fn alternatives(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, words) in [("anyOf", "At least one"), ("oneOf", "Exactly one")] {
        let Some(branches) = schema.get(keyword).and_then(Value::as_array) else { continue };
        let lists: Vec<String> = branches
            .iter()
            .map(|branch| names(branch.get("required")))
            .filter(|list| !list.is_empty())
            .map(|list| {
                let list: Vec<String> = list.iter().map(|name| format!("`{name}`")).collect();
                list.join(" with ")
            })
            .collect();
        if lists.len() > 1 {
            found.push(format!("{words} of these must be given: {}.", lists.join(", ")));
        }
    }
    found
}

fn names(list: Option<&Value>) -> Vec<&str> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_told_with_their_rules() {
        let schema = json!({
            "type": "object",
            "required": ["count", "rules"],
            "properties": {
                "count": {"type": "integer", "minimum": 1, "description": "How\n many."},
                "key": {"type": "string", "default": "a", "minLength": 1, "maxLength": 8},
                "policy": {"enum": ["local", "redis"], "type": "string"},
                "rules": {
                    "type": "array", "minItems": 1, "uniqueItems": true,
                    "items": {"type": "object", "properties": {"n": {"type": ["integer", "string"]}}},
                },
                "uri": {"type": "string", "pattern": "^/"},
                "free": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "string"}]},
                "codes": {"type": "array", "items": {"type": "integer", "maximum": 599}},
            },
            "oneOf": [{"required": ["uri"]}, {"required": ["key", "free"]}],
            "if": {"properties": {"policy": {"enum": ["redis"]}}},
            "then": {"properties": {"host": {"type": "string", "description": "Its host."}}},
            "else": {
                "if": {"properties": {"policy": {"const": "cluster"}}},
                "then": {"properties": {"host": {"type": "string"}, "key": {"type": "string"}}},
            },
        });
        let found: Vec<String> = from_schema(&schema)
            .iter()
            .map(|field| {
                let facts: Vec<&str> = field.facts().collect();
                format!("{}: {} | {}", field.name, facts.join("; "), field.description)
            })
            .collect();
        let expected = [
            "count: integer; required; at least 1 | How many.",
            "key: string; default \"a\"; 1 to 8 characters | ",
            "policy: string; one of `\"local\"`, `\"redis\"` | ",
            "rules: list of object; required; at least 1 items, no item twice | ",
            "rules[].n: integer or string | ",
            "uri: string; matches `^/` | ",
            "free: string or number | ",
            "codes: list of integer; each: at most 599 | ",
            "host: string | Its host. Where `policy` is `\"redis\"`. Also where `policy` is \
             `\"cluster\"`.",
        ];
        assert_eq!(found, expected);
        let notes = alternatives(&schema);
        assert_eq!(notes, ["Exactly one of these must be given: `uri`, `key` with `free`."]);
    }
}
