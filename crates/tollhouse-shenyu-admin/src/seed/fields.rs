//! Fields of the forms in ShenYu's console, one for each plain member of a plugin's configuration
//! and of its selector and rule handles. The console has built-in forms for nested members.

use serde_json::{Value, json};
use tollhouse_shenyu::forms::forms;

/// Input type of a field, by ShenYu's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    Number = 1,
    Text = 2,
    /// Chosen from the dictionary entries whose type is the field's name.
    Choice = 3,
}

/// Forms of a plugin, with ShenYu's numbers.
const FORMS: [(&str, i64); 3] = [("selector", 1), ("rule", 2), ("config", 3)];

/// Returns the fields of a plugin as rows; `in_dictionary` tells for which types the dictionary has
/// entries.
pub(super) fn fields(
    (id, plugin): (&str, &str),
    in_dictionary: &dyn Fn(&str) -> bool,
) -> Vec<Value> {
    let mut rows = Vec::new();
    for (form, number) in FORMS {
        let Some(schema) = forms().pointer(&format!("/plugins/{plugin}/{form}")) else { continue };
        // For arrays the form describes one element.
        let schema = schema.get("items").unwrap_or(schema);
        let required = schema.get("required").and_then(Value::as_array);
        let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let plain = members.filter_map(|(name, member)| {
            Some((name, member, filled(name, member, in_dictionary)?))
        });
        for (sort, (name, member, filled)) in (0..).zip(plain) {
            let is_required = required.is_some_and(|required| required.contains(&json!(name)));
            let default = match member.get("default") {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            let further = json!({"required": if is_required { "1" } else { "0" },
                "defaultValue": default, "placeholder": member.get("description")});
            rows.push(json!({"pluginId": id, "field": name, "label": name,
                "dataType": filled as i64, "type": number, "sort": sort,
                "extObj": further.to_string()}));
        }
    }
    rows
}

/// Returns the type of the form field for a member of a configuration, or `None` for an object or
/// array.
fn filled(name: &str, member: &Value, in_dictionary: &dyn Fn(&str) -> bool) -> Option<Filled> {
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
        return Some(Filled::Choice);
    }
    let are_numbers = values.is_some_and(|values| values.iter().all(Value::is_number));
    Some(if are_numbers || is("integer") || is("number") { Filled::Number } else { Filled::Text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_fields_of_the_right_kind() {
        let rows = fields(("5", "divide"), &|kind| kind == "loadBalance");
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
        assert!(fields(("20", "request"), &|_| false).iter().all(|row| row["field"] != "header"));
        assert!(fields(("0", "nothing"), &|_| false).is_empty());
    }
}
