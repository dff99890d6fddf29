//! Fields of the forms in ShenYu's console, one for each plain member of a plugin's configuration
//! and of its selector and rule handles. The console has built-in forms for nested members.

use serde_json::{Value, json};
use tollhouse_shenyu_gateway::forms::forms;

/// Input type of a field, by ShenYu's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputType {
    Number = 1,
    Text = 2,
    /// Choice from the dictionary entries whose type is the field's name.
    Choice = 3,
}

/// Forms of a plugin, with ShenYu's numbers.
const FORMS: [(&str, i64); 3] = [("selector", 1), ("rule", 2), ("config", 3)];

/// Plugins with a complete form for rules in ShenYu's console. A field here would be shown a second time, without effect.
const BUILT_IN_RULES: [&str; 2] = ["hystrix", "modifyResponse"];

/// Returns the fields of a plugin with this id as rows; `in_dictionary` tells for which types the dictionary has
/// entries.
pub(super) fn fields(plugin: &str, id: &str, in_dictionary: &dyn Fn(&str) -> bool) -> Vec<Value> {
    let mut rows = Vec::new();
    for (form, number) in FORMS {
        if form == "rule" && BUILT_IN_RULES.contains(&plugin) {
            continue;
        }
        let Some(schema) = forms().pointer(&format!("/plugins/{plugin}/{form}")) else { continue };
        // For arrays the form describes one element.
        let schema = schema.get("items").unwrap_or(schema);
        let required = schema.get("required").and_then(Value::as_array);
        let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let plain = members.filter_map(|(name, member)| {
            Some((name, member, input_type(name, member, in_dictionary)?))
        });
        for (sort, (name, member, input)) in (0..).zip(plain) {
            let is_required = required.is_some_and(|required| required.contains(&json!(name)));
            let default = match member.get("default") {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            let further = json!({"required": if is_required { "1" } else { "0" },
                "defaultValue": default, "placeholder": member.get("description")});
            rows.push(json!({"pluginId": id, "field": name, "label": name,
                "dataType": input as i64, "type": number, "sort": sort,
                "extObj": further.to_string()}));
        }
    }
    rows
}

/// Returns the input type of a member, or `None` for an object or array.
fn input_type(
    name: &str,
    member: &Value,
    in_dictionary: &dyn Fn(&str) -> bool,
) -> Option<InputType> {
    let kinds = member.get("type");
    let is = |kind: &str| match kinds {
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it == kind),
        Some(one) => one == kind,
        None => false,
    };
    let values = member.get("enum").and_then(Value::as_array);
    if is("object") || is("array") {
        return None;
    }
    if (values.is_some() || is("boolean")) && in_dictionary(name) {
        return Some(InputType::Choice);
    }
    let are_numbers = values.is_some_and(|values| values.iter().all(Value::is_number));
    Some(if are_numbers || is("integer") || is("number") {
        InputType::Number
    } else {
        InputType::Text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_fields_of_the_right_kind() {
        let rows = fields("divide", "5", &|kind| kind == "loadBalance");
        let find = |kind: i64, field: &str| {
            rows.iter().find(|row| row["type"] == kind && row["field"] == field).unwrap()
        };
        assert_eq!(find(2, "loadBalance")["dataType"], 3);
        assert_eq!(find(2, "timeout")["dataType"], 1);
        assert_eq!(find(1, "upstreamUrl")["dataType"], 2);
        let further = find(1, "upstreamUrl")["extObj"].as_str().unwrap();
        let further: Value = serde_json::from_str(further).unwrap();
        assert_eq!(further["required"], "1");
        let timeout: Value =
            serde_json::from_str(find(2, "timeout")["extObj"].as_str().unwrap()).unwrap();
        assert_eq!((&timeout["required"], &timeout["defaultValue"]), (&json!("0"), &json!("3000")));
        // Headers are nested members, for which the console has a built-in form.
        assert!(fields("request", "20", &|_| false).iter().all(|row| row["field"] != "header"));
        assert!(fields("nothing", "0", &|_| false).is_empty());
    }
}
