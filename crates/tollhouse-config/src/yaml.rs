//! Conversion of YAML to JSON values, with limits.

use serde_json::Value;
use tollhouse_model::Problem;
use tollhouse_stdx::yaml::{self, Bounds, YamlError};

/// Limits on YAML documents. Parts: some 500,000 routes of 60 parts each. Depth: more than any
/// document needs, and within the 128 levels allowed when the JSON text of an item is parsed.
/// Aliases: people write them by hand, in small numbers.
const BOUNDS: Bounds = Bounds {
    parts_max: 64_000_000,
    depth_max: 100,
    aliases_max: 100_000,
    aliased_parts_max: 1_000_000,
};

/// Parses one document; an empty one is null. Only `true` and `false` are booleans, so that `off`
/// and `no` stay words.
pub(crate) fn parse(text: &str) -> Result<Value, Problem> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    yaml::parse(text, BOUNDS).map_err(problem)
}

fn problem(error: YamlError) -> Problem {
    let path = match error.at {
        Some((line, column)) => format!("line {line}, column {column}"),
        None => "document".to_owned(),
    };
    Problem::error(path, error.why).with_hint("check the indentation and quotes around this place")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_become_json_values() {
        let table = [
            ("", Value::Null),
            ("# nothing\n", Value::Null),
            ("a: 1\nb: [x, 2.5, true, null]\n", json!({"a": 1, "b": ["x", 2.5, true, null]})),
            ("a: off\nb: no\nc: 'true'\n", json!({"a": "off", "b": "no", "c": "true"})),
            ("{\"a\": {\"b\": \"c\"}}", json!({"a": {"b": "c"}})),
            ("a: &x {k: 1}\nb: *x\n", json!({"a": {"k": 1}, "b": {"k": 1}})),
            ("a:\n  10.0.0.1:80: 1\n", json!({"a": {"10.0.0.1:80": 1}})),
            ("a: |\n  one\n  two\n", json!({"a": "one\ntwo\n"})),
            ("80: 1\n", json!({"80": 1})),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn mistakes_are_placed() {
        let problem = parse("a: 1\nb: [1\nc: 2\n").expect_err("a list is left open");
        assert!(problem.path.starts_with("line "), "{problem}");
        let problem = parse("a: 1\na: 2\n").expect_err("a key stands twice");
        assert!(problem.path.starts_with("line 2, column 1"), "{problem}");
    }

    #[test]
    fn documents_that_explode_are_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            let items = vec![before; 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(parse(&bomb).is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
