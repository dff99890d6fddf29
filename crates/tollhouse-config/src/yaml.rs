//! YAML to JSON values, with bounds; the only file that knows which library does it.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use tollhouse_model::Problem;

/// Deepest nesting: beyond any document of ours, and inside the 128 levels that JSON text may have
/// when an item is read back.
const DEPTH_MAX: usize = 100;

/// Most parts of a document: some 500,000 routes of 60 parts each.
const EVENTS_MAX: usize = 64_000_000;

/// Most anchors and aliases: documents name what they repeat by hand, not by the million.
const ALIASES_MAX: usize = 100_000;

/// Most parts that aliases may add: ends documents that grow by repeating what repeats.
const ALIASED_EVENTS_MAX: usize = 1_000_000;

/// Reads one document; an empty one is null. Only `true` and `false` are booleans, so that `off`
/// and `no` stay words.
pub(crate) fn parse(text: &str) -> Result<Value, Problem> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: EVENTS_MAX,
            max_nodes: EVENTS_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_depth: DEPTH_MAX,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIASED_EVENTS_MAX,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    };
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str_with_options(text, options).map_err(|error| problem(&error))
}

fn problem(error: &serde_saphyr::Error) -> Problem {
    let path = match error.location() {
        Some(location) => format!("line {}, column {}", location.line(), location.column()),
        None => "document".to_owned(),
    };
    let text = error.to_string();
    // The place is in the path already; further lines would only draw it.
    let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let reason = reason.strip_suffix(&format!(" at {path}")).unwrap_or(reason);
    Problem::error(path, reason).with_hint("check the indentation and quotes around this place")
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
