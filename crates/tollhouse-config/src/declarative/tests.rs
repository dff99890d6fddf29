//! Tests of documents in both formats and of problem texts in golden files, and that no input
//! panics.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::golden;

fn described(result: Result<Document, Problems>) -> String {
    let document = match result {
        Ok(document) => document,
        Err(problems) => return format!("refused\n{problems}"),
    };
    let mut text = String::new();
    for item in &document.items {
        text.push_str(&format!("{} {} {}: {}\n", item.kind, item.id, item.path, item.text));
    }
    for problem in document.problems.iter() {
        text.push_str(&format!("{:?} {problem}\n", problem.severity));
    }
    text
}

#[test]
fn golden_yaml_documents() {
    golden::check("declarative_yaml", |input| {
        described(parse(input, Format::Yaml, &golden::environment))
    });
}

#[test]
fn golden_json_documents() {
    golden::check("declarative_json", |input| {
        described(parse(input, Format::Json, &golden::environment))
    });
}

#[test]
fn both_formats_say_the_same() {
    let yaml = "routes:\n  - {id: 1, uri: /a}\n  - uri: /b\nupstreams:\n  - {id: u}\n#END\n";
    let json = r#"{"routes":[{"id":1,"uri":"/a"},{"uri":"/b"}],"upstreams":[{"id":"u"}]}"#;
    let none = |_: &str| None;
    let from_yaml = parse(yaml, Format::Yaml, &none).expect("it is a document");
    let from_json = parse(json, Format::Json, &none).expect("it is a document");
    assert_eq!(from_yaml, from_json);
    let ids: Vec<&str> = from_json.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, ["1", "arr_2", "u"]);
    assert_eq!(from_json.items[0].value(), Ok(json!({"id": 1, "uri": "/a"})));
}

#[test]
fn an_item_that_nests_too_deep_is_a_problem_of_its_own() {
    let deep =
        format!("{{\"routes\":[{{\"id\":1,\"a\":{}{}}}]}}", "[".repeat(500), "]".repeat(500));
    let document = parse(&deep, Format::Json, &|_| None).expect("it is a document");
    let problem = document.items[0].value().expect_err("it nests too deep");
    assert!(problem.reason.contains("recursion limit"), "{problem}");
}

#[test]
fn the_format_follows_the_name() {
    for (name, expected) in [
        ("a.json", Format::Json),
        ("a.JSON", Format::Json),
        ("a.yaml", Format::Yaml),
        ("a", Format::Yaml),
    ] {
        assert_eq!(Format::from_path(Path::new(name)), expected, "{name}");
    }
}

#[test]
fn a_file_is_read_by_its_name() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("r.json");
    std::fs::write(&path, r#"{"routes":[{"id":"x"}]}"#).expect("the file can be written");
    let document = read(&path, &|_| None).expect("it is a document");
    assert_eq!(document.items.len(), 1);
    let missing = read(&directory.path().join("none.yaml"), &|_| None);
    assert!(missing.is_err_and(|problems| problems.to_string().contains("cannot be read")));
}

/// Strategy for texts of at most `chars_max` arbitrary characters.
fn any_text(chars_max: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 0..=chars_max)
        .prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any_text(200)) {
        let _ = parse(&text, Format::Json, &|_| None);
        let _ = parse(&format!("{text}\n#END"), Format::Yaml, &|_| None);
    }

    #[test]
    fn no_document_of_familiar_parts_makes_it_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "routes", "upstreams", ":", "\n", "  ", "- ", "{", "}", "[", "]", ",", "\"",
                "id", "1", "null", "${{", "}}", "&a ", "*a", "'", "|", "#", "ssls",
            ]),
            0..60,
        ),
    ) {
        let text = parts.concat();
        let _ = parse(&text, Format::Json, &|_| None);
        let _ = parse(&format!("{text}\n#END"), Format::Yaml, &|_| None);
    }
}

#[test]
fn a_literal_document_reads_no_environment() {
    let text = r#"{"routes": [{"id": "1", "uri": "/${{HOME}}", "name": "${{X:=d}}"}]}"#;
    let document = parse_literal(text).expect("it is a document");
    assert!(document.problems.is_empty() && document.withheld.is_empty());
    let value = document.items[0].value().expect("it is JSON");
    assert_eq!((&value["uri"], &value["name"]), (&"/${{HOME}}".into(), &"${{X:=d}}".into()));
}

#[test]
fn a_plugin_without_a_configuration_has_an_empty_one() {
    let text =
        "routes:\n  - id: 1\n    uri: /a\n    plugins:\n      key-auth:\n      cors: {}\n#END\n";
    let document = parse(text, Format::Yaml, &|_| None).expect("it is a document");
    let expected = json!({"id": 1, "uri": "/a", "plugins": {"key-auth": {}, "cors": {}}});
    assert_eq!(document.items[0].value(), Ok(expected));
}
