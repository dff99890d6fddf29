//! Configuration files in JSON, TOML or YAML. The extension determines the format; otherwise all
//! three are tried.
//!
//! JSON may contain comments (`//`, `/* */`) and trailing commas, because published ghz
//! configurations do, with the advice to remove them.

use std::path::Path;

use serde_json::Value;
use tollhouse_stdx::yaml::{self, Bounds};

use super::keys;
use super::settings::{Settings, Source};
use tollhouse_load::error::BenchError;

/// Largest file in bytes, for data of many messages.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Limits of YAML. `parts_max` allows for the messages of the largest file; depth and aliases for
/// files written by hand.
const YAML_BOUNDS: Bounds = Bounds {
    parts_max: 16_000_000,
    depth_max: 100,
    aliases_max: 10_000,
    aliased_parts_max: 1_000_000,
};

/// Reads and parses a configuration file.
pub(super) fn load(path: &Path) -> Result<Settings, BenchError> {
    parse(path, &tollhouse_load::file::read_text(path, FILE_BYTES_MAX)?)
}

/// Parses the text of a configuration file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Settings, BenchError> {
    let refused = |why: String| BenchError::File { path: path.to_owned(), why };
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    let value = match extension.as_deref().and_then(|extension| extension.to_str()) {
        Some("json") => json(text),
        Some("toml") => toml(text),
        Some("yaml" | "yml") => parse_yaml(text),
        _ => toml(text).or_else(|_| json(text)).or_else(|_| parse_yaml(text)),
    };
    let Value::Object(entries) = value.map_err(refused)? else {
        return Err(refused("must be an object of keys, such as {\"total\": 200}".into()));
    };
    let mut settings = Settings::for_file(path.to_owned());
    for (name, value) in entries {
        let key = keys::file_key(&name).map_err(refused)?;
        settings.set(key.name, value, Source::File(path.to_owned()));
    }
    Ok(settings)
}

fn json(text: &str) -> Result<Value, String> {
    let plain = without_comments(text);
    serde_json::from_str(&plain).map_err(|error| format!("is not JSON: {error}"))
}

fn toml(text: &str) -> Result<Value, String> {
    let value = ::toml::from_str::<::toml::Table>(text)
        .map_err(|error| format!("is not TOML: {}", error.message()))?;
    serde_json::to_value(value).map_err(|error| format!("cannot be read: {error}"))
}

fn parse_yaml(text: &str) -> Result<Value, String> {
    yaml::parse_yaml_1_1(text, YAML_BOUNDS).map_err(|error| format!("is not YAML: {error}"))
}

/// Replaces comments and trailing commas by spaces, so that positions in errors stay correct.
fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = bytes.to_vec();
    // Last comma followed only by spaces and comments.
    let mut comma = None;
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                comma = None;
                at = text_end(bytes, at);
                continue;
            }
            (b'/', Some(b'/')) => {
                memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length)
            }
            (b'/', Some(b'*')) => memchr::memmem::find(&bytes[at + 2..], b"*/")
                .map_or(bytes.len(), |length| at + 2 + length + 2),
            (b',', _) => {
                comma = Some(at);
                at += 1;
                continue;
            }
            (byte, _) => {
                if matches!(byte, b'}' | b']')
                    && let Some(comma) = comma.take()
                {
                    plain[comma] = b' ';
                }
                if !byte.is_ascii_whitespace() {
                    comma = None;
                }
                at += 1;
                continue;
            }
        };
        for byte in &mut plain[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Only whole comments were replaced, so the rest is still valid UTF-8.
    String::from_utf8(plain).unwrap_or_else(|_| text.to_owned())
}

/// Returns the position after the closing quote.
fn text_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_become_spaces() {
        for (text, expected) in [
            ("{\"a\": 1 // é\n}", "{\"a\": 1      \n}"),
            ("{/* x\ny */\"a\":1,}", "{    \n    \"a\":1 }"),
            ("[1, // one\n 2, ]", "[1,       \n 2  ]"),
            ("{\"a\": \"http://h/*x*/,]\"}", "{\"a\": \"http://h/*x*/,]\"}"),
            ("{\"a\": \"\\\"//\", }", "{\"a\": \"\\\"//\"  }"),
            ("[,]", "[ ]"),
            ("{} // end", "{}       "),
            ("{} /* never closed", "{}                "),
            ("\"open", "\"open"),
        ] {
            assert_eq!(without_comments(text), expected, "{text}");
        }
    }
}
