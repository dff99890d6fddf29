//! Writing of documents in APISIX's standalone format, the reverse of reading them.
//!
//! The text is meant for people and version control: one field per line, certificates as blocks,
//! and deterministic for the same objects. Texts that any YAML reader might take for another type
//! are quoted.

use std::fmt::Write;

use serde_json::{Map, Value};
use tollhouse_model::Kind;

use super::Format;

/// Last line of every YAML document; readers take a document without it as incomplete.
const END: &str = "#END\n";

/// Words that YAML readers take for a type other than text.
const WORDS: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "y"];

const STRING: &str = "writing to a string cannot fail";

/// Writes a document with these items; the values contain their ids. Lists are in the order of the
/// kinds, and items in the given order. Credentials are listed among the consumers.
pub fn write(items: &[(Kind, Value)], format: Format) -> String {
    let mut document = Map::new();
    for list in Kind::lists() {
        let belongs =
            |kind: Kind| kind == list || (list == Kind::Consumer && kind == Kind::Credential);
        let members: Vec<Value> = items
            .iter()
            .filter(|(kind, _)| belongs(*kind))
            .map(|(_, value)| value.clone())
            .collect();
        if !members.is_empty() {
            document.insert(list.plural().to_owned(), Value::Array(members));
        }
    }
    match format {
        Format::Yaml => {
            let mut text = String::new();
            if !document.is_empty() {
                add_fields(&mut text, &document, 0);
            }
            text.push_str(END);
            text
        }
        Format::Json => format!("{:#}\n", Value::Object(document)),
    }
}

/// Appends fields, one per line. The first one is not indented, because the caller has done so.
fn add_fields(text: &mut String, fields: &Map<String, Value>, depth: usize) {
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            indent(text, depth);
        }
        add_scalar_text(text, name);
        text.push(':');
        add_value(text, value, depth);
    }
}

/// Appends the value of a field whose name and colon are already written.
fn add_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            indent(text, depth + 1);
            add_fields(text, fields, depth + 1);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            for item in items {
                indent(text, depth);
                add_item(text, item, depth);
            }
        }
        Value::String(block) if is_block(block) => add_block(text, block, depth),
        other => {
            text.push(' ');
            add_flow(text, other);
            text.push('\n');
        }
    }
}

/// Appends a list item, beginning with its dash.
fn add_item(text: &mut String, item: &Value, depth: usize) {
    text.push('-');
    match item {
        Value::Object(fields) if !fields.is_empty() => {
            text.push(' ');
            add_fields(text, fields, depth + 1);
        }
        Value::String(block) if is_block(block) => add_block(text, block, depth),
        other => {
            text.push(' ');
            add_flow(text, other);
            text.push('\n');
        }
    }
}

/// Appends a value on one line.
fn add_flow(text: &mut String, value: &Value) {
    match value {
        Value::String(scalar) => add_scalar_text(text, scalar),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                add_flow(text, item);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                add_scalar_text(text, name);
                text.push_str(": ");
                add_flow(text, value);
            }
            text.push('}');
        }
        other => write!(text, "{other}").expect(STRING),
    }
}

/// Appends a text on one line, quoted unless it is unambiguous.
fn add_scalar_text(text: &mut String, scalar: &str) {
    if is_plain(scalar) {
        text.push_str(scalar);
        return;
    }
    text.push('"');
    for letter in scalar.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if is_printable(letter) => text.push(letter),
            _ if u32::from(letter) <= 0xFFFF => {
                write!(text, "\\u{:04X}", u32::from(letter)).expect(STRING);
            }
            _ => write!(text, "\\U{:08X}", u32::from(letter)).expect(STRING),
        }
    }
    text.push('"');
}

/// Whether every YAML parser accepts the character unescaped in a double-quoted string.
fn is_printable(letter: char) -> bool {
    let breaks_lines = matches!(letter, '\u{2028}' | '\u{2029}' | '\u{FEFF}');
    !letter.is_control() && !breaks_lines && letter != '\u{FFFE}' && letter != '\u{FFFF}'
}

/// Whether every YAML parser reads the unquoted text as a string.
fn is_plain(scalar: &str) -> bool {
    let begins = |first: char| first.is_ascii_alphabetic() || first == '/';
    let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    scalar.starts_with(begins)
        && scalar.bytes().all(goes_on)
        && scalar.len() > 1
        && !WORDS.iter().any(|word| scalar.eq_ignore_ascii_case(word))
}

/// Whether a text, such as a certificate, has several lines and can be written as a block without
/// loss.
fn is_block(scalar: &str) -> bool {
    let clean = |line: &str| {
        !line.starts_with([' ', '\t'])
            && !line.ends_with([' ', '\t'])
            && line.chars().all(is_printable)
    };
    let Some(body) = scalar.strip_suffix('\n') else { return false };
    let has_lines = body.contains('\n') && !body.ends_with('\n') && !body.starts_with('\n');
    has_lines && body.split('\n').all(clean)
}

fn add_block(text: &mut String, block: &str, depth: usize) {
    text.push_str(" |\n");
    for line in block.lines() {
        if !line.is_empty() {
            indent(text, depth + 1);
            text.push_str(line);
        }
        text.push('\n');
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::declarative::parse;

    #[test]
    fn a_document_reads_as_people_write_it() {
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let items = [
            (Kind::Consumer, json!({"username": "jack", "plugins": {}})),
            (
                Kind::Credential,
                json!({"id": "jack/credentials/c1", "plugins": {"key-auth": {"key": "1"}}}),
            ),
            (
                Kind::Route,
                json!({
                    "id": "1", "uris": ["/a", "/b*"], "status": 1, "name": "on", "vars": [["arg_a", "==", "b"]],
                    "upstream": {"nodes": {"127.0.0.1:80": 1}, "retry_timeout": 1.0},
                }),
            ),
            (Kind::Ssl, json!({"id": "s", "cert": certificate, "certs": [certificate]})),
        ];
        let expected = "\
routes:
- id: \"1\"
  uris:
  - /a
  - \"/b*\"
  status: 1
  name: \"on\"
  vars:
  - [arg_a, \"==\", \"b\"]
  upstream:
    nodes:
      \"127.0.0.1:80\": 1
    retry_timeout: 1.0
consumers:
- username: jack
  plugins: {}
- id: jack/credentials/c1
  plugins:
    key-auth:
      key: \"1\"
ssls:
- id: \"s\"
  cert: |
    -----BEGIN CERTIFICATE-----
    MIIB
    -----END CERTIFICATE-----
  certs:
  - |
    -----BEGIN CERTIFICATE-----
    MIIB
    -----END CERTIFICATE-----
#END
";
        assert_eq!(write(&items, Format::Yaml), expected);
        assert_eq!(write(&[], Format::Yaml), "#END\n");
        assert_eq!(write(&[], Format::Json), "{}\n");
    }

    /// Strategy for texts that YAML parsers may take for another type, or that consist of lines.
    fn any_text() -> impl Strategy<Value = String> {
        let odd = prop::sample::select(vec![
            "",
            "true",
            "No",
            "~",
            "null",
            "1",
            "1e3",
            "0x1F",
            "-",
            "- a",
            "a: b",
            "a #b",
            "|",
            "&a",
            "*a",
            "!a",
            "a\n",
            "a\nb\n",
            "a\nb",
            "\na\nb\n",
            "a\n\nb\n",
            " a\nb\n",
            "a\n b\n",
            "a\tb\nc\n",
            "a\r\nb\n",
            "\u{85}",
            "\u{2028}\nx\n",
            "\u{FEFF}",
            "...",
            "---\n---\n",
            "2001-01-01",
            "12:30:45",
            ".inf",
            "<<",
            "=",
            "é",
            "😀",
            "#END",
            "%a\n%b\n",
            "\u{7f}",
        ]);
        prop_oneof![odd.prop_map(str::to_owned), any::<String>(), "[a-z #:\n-]{0,12}"]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
            any_text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any_text(), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any_value()) {
            let item = json!({"id": "1", "desc": value});
            for format in [Format::Yaml, Format::Json] {
                let text = write(&[(Kind::Route, item.clone())], format);
                // Variables are replaced when a document is read.
                prop_assume!(!text.contains("${{"));
                let document = parse(&text, format, &|_| None);
                let document = document.map_err(|problems| TestCaseError::fail(format!("{problems}\n{text}")))?;
                let found = document.items[0].value().expect("it is JSON");
                prop_assert_eq!(&found, &item, "{}", text);
            }
        }
    }
}
