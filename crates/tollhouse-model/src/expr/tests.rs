//! Tests of expressions: results and problem texts in tables, and that no JSON value panics.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Expr;
use crate::Problems;
use crate::limits::EXPRESSION_DEPTH_MAX;
use crate::problem::Severity;
use crate::variable::{Lookup, Variable};

/// A request with a few arguments, and a variable that holds an array.
struct Request;

impl Lookup for Request {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        let value: &[u8] = match variable {
            Variable::Named(name) if name == "tags" => br#"["red","blue",3]"#,
            Variable::Arg(name) => match name.as_str() {
                "a" => b"10",
                "name" => b"Json",
                "empty" => b"",
                "ip" => b"10.1.2.3",
                "mapped" => b"::ffff:10.1.2.3",
                "hex" => b"0x0a",
                "bytes" => b"\xff\xfe",
                "bracket" => b"[",
                _ => return None,
            },
            _ => return None,
        };
        Some(Cow::Borrowed(value))
    }
}

/// Returns the expression, or path and reason of every error; warnings are ignored.
fn parse(value: &Value) -> Result<Expr, Vec<(String, String)>> {
    let mut problems = Problems::new();
    let expr = Expr::parse(value, "vars", &mut problems);
    assert_eq!(expr.is_none(), problems.has_errors(), "{value}");
    expr.ok_or_else(|| {
        let errors = problems.into_iter().filter(|problem| problem.severity == Severity::Error);
        errors.map(|problem| (problem.path, problem.reason)).collect()
    })
}

fn check(condition: Value, expected: bool) {
    let expr = parse(&json!([condition])).expect("a good expression");
    assert_eq!(expr.matches(&Request), expected, "{condition}");
}

#[test]
fn equality_follows_the_type_of_the_right_side() {
    check(json!(["arg_a", "==", "10"]), true);
    check(json!(["arg_a", "==", "10.0"]), false);
    check(json!(["arg_a", "==", 10]), true);
    check(json!(["arg_a", "==", 10.0]), true);
    check(json!(["arg_hex", "==", 10]), true);
    check(json!(["arg_name", "==", 10]), false);
    check(json!(["arg_name", "~=", 10]), true);
    check(json!(["arg_name", "~=", "Json"]), false);
    check(json!(["arg_none", "==", 10]), false);
    check(json!(["arg_none", "~=", 10]), true);
    check(json!(["arg_none", "==", ""]), false);
    check(json!(["arg_empty", "==", ""]), true);
    check(json!(["arg_none", "~=", "x"]), true);
    check(json!(["arg_a", "==", true]), false);
    check(json!(["arg_a", "~=", true]), true);
    check(json!(["arg_a", "!", "==", "10"]), false);
    check(json!(["arg_a", "!", "~=", "10"]), true);
}

#[test]
fn two_elements_are_an_equality() {
    check(json!(["arg_a", "10"]), true);
    check(json!(["arg_a", 10]), true);
    check(json!(["arg_a", "11"]), false);
    check(json!(["arg_none", null]), true);
    check(json!(["arg_none", "=="]), true);
}

#[test]
fn null_compares_with_absence() {
    check(json!(["arg_none", "==", null]), true);
    check(json!(["arg_a", "==", null]), false);
    check(json!(["arg_empty", "==", null]), false);
    check(json!(["arg_none", "~=", null]), false);
    check(json!(["arg_a", "~=", null]), true);
}

#[test]
fn orderings_convert_both_sides_to_numbers() {
    check(json!(["arg_a", ">", 9]), true);
    check(json!(["arg_a", ">", "9"]), true);
    check(json!(["arg_a", ">", 10]), false);
    check(json!(["arg_a", ">=", 10]), true);
    check(json!(["arg_a", "<", 10.5]), true);
    check(json!(["arg_a", "<=", 10]), true);
    check(json!(["arg_a", "<=", 9]), false);
    check(json!(["arg_name", ">", 0]), false);
    check(json!(["arg_name", "<", 0]), false);
    check(json!(["arg_none", "<", 5]), false);
    check(json!(["arg_a", ">", "nine"]), false);
    check(json!(["arg_a", ">", [1]]), false);
    check(json!(["arg_none", "!", "<", 5]), true);
}

#[test]
fn patterns_are_searched_in_bytes() {
    check(json!(["arg_name", "~~", "^J"]), true);
    check(json!(["arg_name", "~~", "so"]), true);
    check(json!(["arg_name", "~~", "^json$"]), false);
    check(json!(["arg_name", "~*", "^json$"]), true);
    check(json!(["arg_none", "~~", ".*"]), false);
    check(json!(["arg_none", "!", "~~", ".*"]), true);
    check(json!(["arg_bytes", "~~", "^..$"]), true);
    check(json!(["arg_bytes", "~~", "\\xff"]), true);
    check(json!(["arg_name", "~~", "[éJ]son"]), true);
}

#[test]
fn patterns_with_look_around_and_back_references_work() {
    check(json!(["arg_name", "~~", "^(?!Xml)Js"]), true);
    check(json!(["arg_name", "~~", "^(?!Json)"]), false);
    check(json!(["arg_name", "~*", "(?<=j)son"]), true);
    check(json!(["arg_bytes", "~~", "^(?!a).."]), true);
    check(json!(["arg_a", "~~", "(1)0(?!\\1)"]), true);
}

#[test]
fn in_compares_texts_strictly() {
    check(json!(["arg_a", "in", ["9", "11", "10"]]), true);
    check(json!(["arg_a", "IN", ["10"]]), true);
    check(json!(["arg_a", "in", [10]]), false);
    check(json!(["arg_a", "in", []]), false);
    check(json!(["arg_a", "in", "10"]), false);
    check(json!(["arg_none", "in", [""]]), false);
    check(json!(["arg_a", "!", "in", ["9"]]), true);
}

#[test]
fn has_asks_variables_that_hold_arrays() {
    check(json!(["tags", "has", "red"]), true);
    check(json!(["tags", "has", 3]), true);
    check(json!(["tags", "has", "green"]), false);
    check(json!(["tags", "!", "has", "green"]), true);
    check(json!(["arg_a", "has", "10"]), false);
    check(json!(["arg_bracket", "has", "["]), false);
    check(json!(["arg_none", "has", "red"]), false);
}

#[test]
fn ipmatch_takes_addresses_and_networks() {
    check(json!(["arg_ip", "ipmatch", "10.0.0.0/8"]), true);
    check(json!(["arg_ip", "ipmatch", "10.9.9.9/8"]), true);
    check(json!(["arg_ip", "ipmatch", ["192.168.0.0/16", "10.1.2.3"]]), true);
    check(json!(["arg_ip", "ipmatch", ["192.168.0.0/16", "::1"]]), false);
    check(json!(["arg_mapped", "IpMatch", "10.1.2.3"]), true);
    check(json!(["arg_name", "ipmatch", "0.0.0.0/0"]), false);
    check(json!(["arg_none", "ipmatch", "0.0.0.0/0"]), false);
    check(json!(["arg_none", "!", "ipmatch", "0.0.0.0/0"]), true);
}

#[test]
fn groups_join_conditions() {
    let (yes, no) = (json!(["arg_a", "==", "10"]), json!(["arg_a", "==", "0"]));
    let cases = [
        (json!([]), true),
        (json!([yes, yes]), true),
        (json!([yes, no]), false),
        (json!(["OR", yes, no]), true),
        (json!(["or", no, no]), false),
        (json!(["AND", yes, yes]), true),
        (json!(["!AND", yes, no]), true),
        (json!(["!AND", yes, yes]), false),
        (json!(["!or", no, no]), true),
        (json!(["!OR", no, yes]), false),
        (json!([yes, ["OR", no, ["!AND", yes, no]]]), true),
        (json!(["OR", no, [yes, no]]), false),
        (json!(["OR", no, [yes, yes]]), true),
    ];
    for (value, expected) in cases {
        let expr = parse(&value).expect("a good expression");
        assert_eq!(expr.matches(&Request), expected, "{value}");
    }
}

#[test]
fn what_is_wrong_is_said_in_known_words() {
    let yes = json!(["arg_a", "==", "10"]);
    let cases = [
        (json!(["arg_x", "==", "1"]), "vars", "rule should be wrapped inside brackets"),
        (json!([1]), "vars", "rule should be wrapped inside brackets"),
        (json!("x"), "vars", "wrong type: expected array, got string"),
        (json!([["arg_x", "=", "1"]]), "vars[0]", "invalid operator '='"),
        (json!([["arg_x", "!", "=", "1"]]), "vars[0]", "invalid operator '='"),
        (json!([["arg_x", 5, "1"]]), "vars[0]", "invalid operator '5'"),
        (json!(["AND"]), "vars", "rule too short"),
        (json!(["OR", yes]), "vars", "rule too short"),
        (json!([["OR", yes]]), "vars[0]", "rule too short"),
        (json!([[]]), "vars[0]", "rule too short"),
        (json!([["arg_x"]]), "vars[0]", "invalid expression"),
        (
            json!([["post_arg.messages[.content[*].type", "has", "image_url"]]),
            "vars[0]",
            "invalid expression: bad path in 'post_arg.messages[.content[*].type': unexpected '.' at \
             character 10",
        ),
        (json!([[5, "==", 5]]), "vars[0]", "wrong type: expected string, got number"),
        (json!([yes, 5]), "vars[1]", "wrong type: expected array, got number"),
        (json!([["arg_x", "?", "==", "1"]]), "vars[0]", "bad 'not' expression"),
        (json!([["arg_x", "~~", 5]]), "vars[0]", "wrong type: expected string, got number"),
        (json!([["arg_x", "ipmatch", "300.1.1.1"]]), "vars[0]", "invalid ip address: 300.1.1.1"),
        (json!([["arg_x", "ipmatch", ["::1", 5]]]), "vars[0]", "invalid ip address: 5"),
    ];
    for (value, path, reason) in cases {
        let reason = format!("failed to validate the 'vars' expression: {reason}");
        assert_eq!(parse(&value), Err(vec![(path.to_owned(), reason)]), "{value}");
    }
}

#[test]
fn what_can_never_hold_is_a_warning() {
    for value in [
        json!([["arg_x", "==", true]]),
        json!([["arg_x", ">", "nine"]]),
        json!([["arg_x", "in", "1"]]),
        json!([["arg_x", "in", [1]]]),
        json!([["arg_x", "==", "1", "2", "3"]]),
    ] {
        let mut problems = Problems::new();
        assert!(Expr::parse(&value, "vars", &mut problems).is_some(), "{value}");
        assert_eq!((problems.len(), problems.has_errors()), (1, false), "{value}");
    }
}

#[test]
fn every_problem_is_reported() {
    let problems = parse(&json!(["OR", ["a", "=", 1], [["b", "<>", 1], ["c", "~~", "("]]]));
    let paths: Vec<String> = problems.unwrap_err().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["vars[1]", "vars[2][0]", "vars[2][1]"]);
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| {
        (1..depth).fold(json!(["arg_a", "10"]), |inner, _| Value::Array(vec![inner]))
    };
    assert!(parse(&nested(EXPRESSION_DEPTH_MAX)).unwrap().matches(&Request));
    let problems = parse(&nested(EXPRESSION_DEPTH_MAX + 1)).unwrap_err();
    assert!(problems[0].1.contains("levels deep"), "{problems:?}");
}

#[test]
fn a_pattern_without_bounds_is_refused() {
    for pattern in ["((\\w{100}){100}){100}", &"a".repeat(10_000), "(", "(?<=a+)b)"] {
        let problems = parse(&json!([["arg_a", "~~", pattern]])).unwrap_err();
        assert!(problems[0].1.contains("invalid regular expression: "), "{problems:?}");
        assert!(!problems[0].1.contains('\n'), "{problems:?}");
    }
}

#[test]
fn a_search_that_backtracks_too_much_does_not_match() {
    struct Long;
    impl Lookup for Long {
        fn variable(&self, _variable: &Variable) -> Option<Cow<'_, [u8]>> {
            Some(Cow::Owned(vec![b'a'; 4_000]))
        }
    }
    let expr = parse(&json!([["arg_a", "~~", "^(?=(a+)+$)(a|aa)+\\1b$"]])).unwrap();
    assert!(!expr.matches(&Long));
}

#[test]
fn expressions_are_equal_by_what_was_written() {
    let of = |value: Value| parse(&value).unwrap();
    let pattern = json!([["arg_a", "~~", "^x"]]);
    assert_eq!(of(pattern.clone()), of(pattern.clone()));
    assert_ne!(of(pattern.clone()), of(json!([["arg_a", "~*", "^x"]])));
    assert_eq!(of(pattern).to_string(), r#"[["arg_a","~~","^x"]]"#);
}

#[test]
fn body_variables_are_found_at_any_depth() {
    let reads = |value: Value| parse(&value).unwrap().reads_body();
    assert!(reads(json!([["OR", ["arg_a", "1"], ["post_arg_b", "!", "==", "2"]]])));
    assert!(reads(json!([["post_arg.b[0]", "1"]])));
    assert!(!reads(json!([["OR", ["arg_a", "1"], ["http_b", "!", "==", "2"]]])));
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "AND",
        "or",
        "!AND",
        "!",
        "==",
        "~=",
        ">",
        "~~",
        "~*",
        "in",
        "has",
        "ipmatch",
        "arg_a",
        "arg_none",
        "tags",
        "10",
        "(",
        "^1",
        "(?!1)",
        "10.0.0.0/8",
        "",
    ]);
    let leaf = prop_oneof![
        6 => word.prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| prop::collection::vec(inner, 0..5).prop_map(Value::Array))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_json_is_read_or_refused_with_a_reason(value in any_json()) {
        if let Ok(expr) = parse(&value) {
            expr.matches(&Request);
        }
    }
}
