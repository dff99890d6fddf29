//! Tests that documents agree with a parser that builds trees, and that paths find the values they
//! name.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;

/// Texts that are JSON or nearly.
const TEXTS: &[&str] = &[
    "",
    " ",
    "1",
    " -0.5e+3 ",
    "01",
    "1.",
    ".5",
    "-",
    "1e",
    "1e999",
    "true",
    "tru",
    "nullx",
    "\"a\"",
    "\"a",
    "\"\\u00e9\\n\\/\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\"\\ude00\"",
    "\"\\x\"",
    "\"a\tb\"",
    "[]",
    "[ ]",
    "[1,2]",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{}",
    "{ }",
    "{\"a\":1}",
    "{\"a\" : [ ] , \"b\":{}}",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\"}",
    "{\"a\":}",
    "[[[]]]",
    "[[[]]",
    "[}",
    "{]",
    "[1]]",
    "{\"a\":1,\"a\":2}",
    "é",
    "\"é\"",
    "{\"a\":{\"a\":1,\"\\u0061\":2},\"b\":3}",
];

#[test]
fn a_text_is_json_where_the_parser_of_trees_says_so() {
    for text in TEXTS {
        let tree = serde_json::from_str::<Value>(text);
        let document = Document::parse(text.as_bytes());
        assert_eq!(document.is_ok(), tree.is_ok(), "{text}");
        if let (Ok(document), Ok(tree)) = (document, tree) {
            let written = write_compact(&document, &Additions::new());
            let written = written.unwrap_or_else(|| text.as_bytes().to_vec());
            assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), tree, "{text}");
            assert_eq!(tree_of(document.root()), tree, "{text}");
        }
    }
    assert!(Document::parse(b"\"\xff\"").is_err());
}

/// Builds a tree by visiting the pieces of a document one by one.
fn tree_of(piece: Piece<'_>) -> Value {
    match piece.kind() {
        Kind::List => piece.items().map(tree_of).collect(),
        Kind::Object => {
            let member = |(name, value): (Piece<'_>, Piece<'_>)| {
                (name.text().unwrap().into_owned(), tree_of(value))
            };
            Value::Object(piece.members().map(member).collect())
        }
        _ => piece.to_value(),
    }
}

#[test]
fn long_documents_are_walked_like_short_ones() {
    let inner = json!({"a": [1, "two", {"three": [[], {}, "\"]}"]}], "long": "x".repeat(100)});
    let middle: Vec<Value> = (0..50).map(|n| json!([n, inner, {"k": n}])).collect();
    let tree = json!({"list": middle, "wide": (0..1000).collect::<Vec<_>>(), "end": inner});
    for text in [tree.to_string(), serde_json::to_string_pretty(&tree).unwrap()] {
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(tree_of(document.root()), tree);
        let written = write_compact(&document, &Additions::new());
        let compact = tree.to_string();
        assert_eq!(written.is_none(), text == compact);
        assert!(written.is_none_or(|written| written == compact.as_bytes()));
        assert!(document.noted.len() * 64 <= text.len());
    }
}

#[test]
fn an_outline_is_a_small_part_of_any_text() {
    let deep = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    for unit in ["1", "{}", "[1]", "[[[[1]]]]", "{\"a\":1}", &deep[1..2 * DEPTH_MAX - 1]] {
        let text = format!("[{unit}{}]", format!(",{unit}").repeat(20_000 / unit.len()));
        let document = Document::parse(text.as_bytes()).unwrap();
        assert!(document.noted.len() * size_of::<(u32, u32)>() * 8 <= text.len() + 64, "{unit}");
    }
    assert!(Document::parse(deep.as_bytes()).is_ok());
    assert!(Document::parse(format!("[{deep}]").as_bytes()).is_err());
}

#[test]
fn the_last_of_members_of_one_name_counts_and_is_written_alone() {
    let many: String = (0..20).map(|n| format!("\"k{}\":{n},", n % 10)).collect();
    for (text, expected) in [
        (r#"{"a":1,"b":2,"a":3}"#.to_owned(), r#"{"b":2,"a":3}"#.to_owned()),
        (r#"{"a":1,"\u0061":3}"#.into(), r#"{"\u0061":3}"#.into()),
        (r#"[{"a":{"b":1,"b":2},"a":[]}]"#.into(), r#"[{"a":[]}]"#.into()),
        (
            format!("{{{many}\"z\":0}}"),
            format!(
                "{{{}\"z\":0}}",
                (10..20).map(|n| format!("\"k{}\":{n},", n % 10)).collect::<String>()
            ),
        ),
    ] {
        let document = Document::parse(text.as_bytes()).unwrap();
        let written = write_compact(&document, &Additions::new()).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), expected, "{text}");
    }
}

#[test]
fn members_are_added_where_they_are_wanted() {
    let text = r#"{"a": {}, "b": [ ]}"#;
    let document = Document::parse(text.as_bytes()).unwrap();
    let begin = |name: &str| document.root().member(name).unwrap().begin();
    let mut additions = HashMap::new();
    additions.insert(begin("a"), vec![("x\"".into(), json!(1))]);
    additions.insert(begin("b"), vec![("y".into(), json!({"z": 2}))]);
    additions.insert(0, vec![("c".into(), json!("d"))]);
    let written = write_compact(&document, &additions).unwrap();
    let expected = r#"{"a":{"x\"":1},"b":{"y":{"z":2}},"c":"d"}"#;
    assert_eq!(String::from_utf8(written).unwrap(), expected);
}

#[test]
fn paths_find_what_they_name() {
    let document = json!({
        "a": {"b": [10, {"c": "x"}], "b c": 1, "": 2}, "n": null, "t": true, "d": 1.5,
        "messages": [
            {"role": "system", "content": [{"type": "text"}]},
            {"role": "user", "content": [{"type": "text"}, {"type": "image_url", "size": 3}]},
        ],
        "list": [0, 1, 2, 3, 4],
    });
    let text = document.to_string();
    let document = Document::parse(text.as_bytes()).unwrap();
    for (path, expected) in [
        ("a.b[0]", Some("10")),
        ("a.b[1].c", Some("x")),
        ("a['b c']", Some("1")),
        ("a.b[-1].c", Some("x")),
        ("a.b[-3]", None),
        ("a.b[1]", Some(r#"{"c":"x"}"#)),
        ("t", Some("true")),
        ("d", Some("1.5")),
        ("n", None),
        ("a.b[9]", None),
        ("missing.more", None),
        ("messages[*].content[*].type", Some(r#"["text","text","image_url"]"#)),
        ("messages.*.role", Some(r#"["system","user"]"#)),
        ("messages..type", Some(r#"["text","text","image_url"]"#)),
        ("messages[*].missing", None),
        ("messages[?(@.role == 'user')].content[1].type", Some(r#"["image_url"]"#)),
        ("messages[*].content[?(@.size > 2 && @.type)].type", Some(r#"["image_url"]"#)),
        ("messages[?(@.role=='x' || @.role==\"system\")].role", Some(r#"["system"]"#)),
        ("list[1:3]", Some("[1,2]")),
        ("list[-2:]", Some("[3,4]")),
        ("list[::2]", Some("[0,2,4]")),
        ("list[0,4]", Some("[0,4]")),
        (".list[0]", Some("0")),
    ] {
        let found = Path::parse(path).unwrap().find(&document);
        let found = found.map(|found| String::from_utf8(found).unwrap());
        assert_eq!(found.as_deref(), expected, "{path}");
    }
}

#[test]
fn paths_that_make_no_sense_are_refused() {
    for path in [
        "",
        "a[",
        "a[.b",
        "messages[.content[*].type",
        "a[]",
        "a]",
        "a.",
        "a[x]",
        "a['b",
        "a[1:2:0]",
        "a[?(b)]",
        "a[?(@.b ==)]",
    ] {
        assert!(Path::parse(path).is_err(), "{path}");
    }
}
