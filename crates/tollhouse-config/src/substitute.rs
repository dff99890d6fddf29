//! Replacement of `${{VAR}}` and `${{VAR:=default}}` in the texts of a document.
//!
//! Variables are replaced in parsed values, never in the source text, so that a variable cannot
//! change the structure of the document. If the result is a number or a boolean, the value takes
//! that type.

use serde_json::{Map, Number, Value};
use tollhouse_model::{Problem, Problems};

/// Function that looks up an environment variable.
pub(crate) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// Maximum integer that a replaced text becomes. Larger ones stay text, because readers that use
/// floats would change them.
const RETYPED_INTEGER_MAX: u64 = 1 << 53;

/// Whether a text may contain a variable.
pub(crate) fn is_needed(text: &str) -> bool {
    text.contains(OPEN)
}

/// Replaces variables in every text and key below `value`, which is at `path`. A text that cannot
/// be replaced becomes `null` and adds a problem.
pub(crate) fn substitute(
    value: &mut Value,
    path: &str,
    environment: Environment<'_>,
    problems: &mut Problems,
) {
    match value {
        Value::String(text) if is_needed(text) => match replaced(text, environment) {
            Ok(text) => *value = retyped(text),
            Err(problem) => {
                problems.push(Problem { path: path.to_owned(), ..problem });
                *value = Value::Null;
            }
        },
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                substitute(item, &format!("{path}[{index}]"), environment, problems);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                substitute(field, &joined(path, name), environment, problems);
            }
            if fields.keys().any(|name| is_needed(name)) {
                let old = std::mem::take(fields);
                *fields = with_keys_replaced(old, path, environment, problems);
            }
        }
        _ => {}
    }
}

fn with_keys_replaced(
    fields: Map<String, Value>,
    path: &str,
    environment: Environment<'_>,
    problems: &mut Problems,
) -> Map<String, Value> {
    let mut renamed = Map::with_capacity(fields.len());
    for (name, field) in fields {
        match replaced(&name, environment) {
            Ok(name) => {
                renamed.insert(name, field);
            }
            Err(problem) => problems.push(Problem { path: joined(path, &name), ..problem }),
        }
    }
    renamed
}

fn replaced(text: &str, environment: Environment<'_>) -> Result<String, Problem> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let Some((inside, after)) = after.split_once(CLOSE) else {
            let problem = Problem::error("", "\"${{\" without \"}}\"");
            return Err(problem.with_value(&Value::from(text)));
        };
        result.push_str(before);
        let (name, default) = match inside.split_once(":=") {
            Some((name, default)) => (name.trim(), Some(default.trim())),
            None => (inside.trim(), None),
        };
        match environment(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => result.push_str(&value),
            None => {
                let problem = Problem::error("", format!("variable {name:?} is not set"));
                let hint = "set it in the environment, or give a default: ${{NAME:=default}}";
                return Err(problem.with_value(&Value::from(text)).with_hint(hint));
            }
        }
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

fn retyped(text: String) -> Value {
    match text.as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    let number: Option<Number> = text.parse().ok();
    let exact = |number: &Number| {
        number.as_f64().is_some_and(|float| float.abs() <= RETYPED_INTEGER_MAX as f64)
    };
    number.filter(exact).map_or(Value::String(text), Value::Number)
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "PORT" => Some("9080".to_owned()),
            "ON" => Some("true".to_owned()),
            "HOST" => Some("a.com".to_owned()),
            "QUOTE" => Some("\", \"x\": \"".to_owned()),
            "LONG" => Some("12345678901234567890123".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_and_retyped() {
        let table = [
            (json!("${{PORT}}"), json!(9080)),
            (json!("${{ON}}"), json!(true)),
            (json!("http://${{ HOST }}:${{PORT}}/"), json!("http://a.com:9080/")),
            (json!("${{NONE:=7}}"), json!(7)),
            (json!("${{NONE := a b }}"), json!("a b")),
            (json!("${{HOST:=x}}"), json!("a.com")),
            (json!("${{EMPTY:=x}}"), json!("")),
            (json!("${{QUOTE}}"), json!("\", \"x\": \"")),
            (json!("${{LONG}}"), json!("12345678901234567890123")),
            (json!({"${{HOST}}:80": ["${{PORT}}"]}), json!({"a.com:80": [9080]})),
            (json!("$x ${y} {{z}}"), json!("$x ${y} {{z}}")),
        ];
        for (mut value, expected) in table {
            let mut problems = Problems::new();
            substitute(&mut value, "", &environment, &mut problems);
            assert_eq!(value, expected);
            assert!(problems.is_empty(), "{problems}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_a_problem() {
        let mut value = json!({"a": ["${{NONE}}", "${{HOST"], "${{NO}}": 1});
        let mut problems = Problems::new();
        substitute(&mut value, "routes[0]", &environment, &mut problems);
        let hint = "set it in the environment, or give a default: ${{NAME:=default}}";
        assert_eq!(
            problems.to_string(),
            format!(
                "routes[0].a[0]: variable \"NONE\" is not set (got \"${{{{NONE}}}}\"); {hint}\n\
                 routes[0].a[1]: \"${{{{\" without \"}}}}\" (got \"${{{{HOST\")\n\
                 routes[0].${{{{NO}}}}: variable \"NO\" is not set (got \"${{{{NO}}}}\"); {hint}"
            )
        );
    }
}
