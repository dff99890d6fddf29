//! Tests of paths, unknown fields and scalars.

use serde_json::json;

use super::*;

fn problem_of(value: &Value, read: impl FnOnce(&mut Reader<'_>, &Value)) -> String {
    let mut problems = Problems::new();
    read(&mut Reader::new("at", &mut problems), value);
    problems.to_string()
}

#[test]
fn paths_lead_to_the_value() {
    let mut problems = Problems::new();
    let mut reader = Reader::new("routes[3]", &mut problems);
    reader.in_field("upstream", |reader| {
        reader.in_field("nodes", |reader| {
            reader.in_field("a:x", |reader| reader.error_unquoted("wrong", ""));
            reader.in_item(2, |reader| reader.error_unquoted("wrong", ""));
        });
    });
    reader.error_unquoted("wrong", "");
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        ["routes[3].upstream.nodes[\"a:x\"]", "routes[3].upstream.nodes[2]", "routes[3]"]
    );
}

#[test]
fn a_field_of_the_whole_document_needs_no_dot() {
    let mut problems = Problems::new();
    let mut reader = Reader::new("", &mut problems);
    reader.in_field("uri", |reader| reader.error_unquoted("wrong", ""));
    assert_eq!(problems.to_string(), "uri: wrong");
}

#[test]
fn unknown_fields_are_named_with_what_was_meant() {
    let known = ["uri", "uris", "upstream"];
    let table = [
        (
            json!({"urii": 1}),
            Unknown::Refused,
            "at.urii: unknown field \"urii\"; did you mean \"uri\"?",
        ),
        (
            json!({"xyzzy": 1}),
            Unknown::Refused,
            "at.xyzzy: unknown field \"xyzzy\"; known fields: uri, uris, upstream",
        ),
        (
            json!({"upstraem": 1, "uri": 2}),
            Unknown::Ignored,
            "at.upstraem: unknown field \"upstraem\"; it has no effect; did you mean \
             \"upstream\"?",
        ),
        (json!(3), Unknown::Refused, "at: wrong type: expected object, got number (got 3)"),
    ];
    for (value, unknown, expected) in table {
        let found = problem_of(&value, |reader, value| {
            reader.object(value, &known, unknown);
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn integers_may_be_written_as_floats() {
    let table = [
        (json!(3), Some(3), ""),
        (json!(3.0), Some(3), ""),
        (json!(0), None, "at: expected 0 to be at least 1 (got 0)"),
        (json!(0.0), None, "at: expected 0 to be at least 1 (got 0.0)"),
        (json!(10), None, "at: expected 10 to be at most 9 (got 10)"),
        (json!(2.5), None, "at: wrong type: expected integer, got number (got 2.5)"),
        (
            json!(u64::MAX),
            None,
            "at: expected 18446744073709551615 to be at most 9 (got 18446744073709551615)",
        ),
        (
            json!("3"),
            None,
            "at: wrong type: expected integer, got string (got \"3\"); remove the quotes",
        ),
        (
            json!(null),
            None,
            "at: wrong type: expected integer, got null (got null); leave the field out \
             instead of giving null",
        ),
    ];
    for (value, expected, text) in table {
        let mut integer = None;
        let found = problem_of(&value, |reader, value| integer = reader.integer(value, 1..=9));
        assert_eq!(found, text);
        assert_eq!(integer, expected);
    }
}

#[test]
fn seconds_are_bounded_on_both_sides() {
    let table = [
        (json!(0.25), ""),
        (json!(1), ""),
        (json!(0), "at: expected 0 to be greater than 0 (got 0)"),
        (json!(-0.5), "at: expected -0.5 to be at least 0 (got -0.5)"),
        (json!(1e300), "at: expected 1e+300 to be at most 1000000000 (got 1e+300)"),
        (json!("1"), "at: wrong type: expected number, got string (got \"1\"); remove the quotes"),
    ];
    for (value, expected) in table {
        let found = problem_of(&value, |reader, value| {
            reader.seconds_above_zero(value);
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn lengths_count_characters() {
    let table = [
        (json!("éé"), ""),
        (json!(""), "at: string too short, expected at least 1, got 0 (got \"\")"),
        (json!("ééé"), "at: string too long, expected at most 2, got 3 (got \"ééé\")"),
    ];
    for (value, expected) in table {
        let found = problem_of(&value, |reader, value| {
            reader.text_within(value, 1..=2);
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn secrets_are_never_quoted() {
    let table = [
        (json!("hunter2"), "at: string too short, expected at least 9, got 7"),
        (json!(["hunter2"]), "at: wrong type: expected string, got array"),
    ];
    for (value, expected) in table {
        let found = problem_of(&value, |reader, value| {
            reader.secret_within(value, 9..=10);
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn networks_are_addresses_or_prefixes() {
    let table = [
        (json!("10.1.2.3"), Some("10.1.2.3/32")),
        (json!("10.1.2.3/8"), Some("10.0.0.0/8")),
        (json!("::1"), Some("::1/128")),
        (json!("2001:db8::1/32"), Some("2001:db8::/32")),
        (json!("10.1.2.3/33"), None),
        (json!("10.1.2"), None),
        (json!("example.com"), None),
        (json!(""), None),
    ];
    for (value, expected) in table {
        let mut problems = Problems::new();
        let network = Reader::new("at", &mut problems).network(&value);
        assert_eq!(network.map(|network| network.to_string()).as_deref(), expected);
        assert_eq!(problems.has_errors(), expected.is_none());
    }
}
