//! Values in released files, for objects of the gateway that refer to them.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::Value;
use tollhouse_registry::config::ConfigRelease;
use tollhouse_stdx::yaml;

use super::format::YAML_BOUNDS;
use super::sealing::decrypted;

/// Plain content of a release, parsed once, on the first look-up of a key.
#[derive(Debug)]
pub struct ConfigDocument {
    content: String,
    format: Format,
    parsed: OnceLock<Option<Parsed>>,
}

/// Format of a content with keys.
#[derive(Debug, Clone, Copy)]
enum Format {
    Json,
    Yaml,
    Properties,
    /// A format without keys.
    Other,
}

#[derive(Debug)]
enum Parsed {
    Tree(Value),
    Properties(HashMap<String, String>),
}

impl ConfigDocument {
    /// Decrypts a release; `None` if that fails, because the encrypted text is not the value.
    pub fn open(release: &ConfigRelease) -> Option<Self> {
        let content = decrypted(&release.content, &release.tags)?.into_owned();
        Some(Self { content, format: format_of(release), parsed: OnceLock::new() })
    }

    /// Length of the content in bytes. The parsed form may take several times as much.
    pub fn content_bytes(&self) -> usize {
        self.content.len()
    }

    /// Returns the content, or the value of a key in it; `None` if the content has no such key, or its
    /// format has no keys.
    pub fn value(&self, key: Option<&str>) -> Option<String> {
        let Some(key) = key else { return Some(self.content.clone()) };
        match self.parsed.get_or_init(|| self.format.parse(&self.content)).as_ref()? {
            Parsed::Properties(pairs) => pairs.get(key).cloned(),
            Parsed::Tree(tree) => match find(tree, key)? {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            },
        }
    }
}

impl Format {
    fn parse(self, content: &str) -> Option<Parsed> {
        match self {
            Self::Json => serde_json::from_str(content).ok().map(Parsed::Tree),
            Self::Yaml => {
                yaml::parse_yaml_1_1::<Value>(content, YAML_BOUNDS).ok().map(Parsed::Tree)
            }
            Self::Properties => Some(Parsed::Properties(properties(content))),
            Self::Other => None,
        }
    }
}

/// Returns the declared format, or that of the extension of the name.
fn format_of(release: &ConfigRelease) -> Format {
    let named = |name: &str| match name {
        "json" => Format::Json,
        "yaml" | "yml" => Format::Yaml,
        "properties" => Format::Properties,
        _ => Format::Other,
    };
    match named(&release.format) {
        Format::Other => {
            named(release.key.name.rsplit_once('.').map_or("", |(_, extension)| extension))
        }
        format => format,
    }
}

/// Finds a value by names joined with dots. A name with dots of its own is found too, and the longest
/// name wins.
fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let child = |name: &str| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    };
    if let Some(found) = child(path) {
        return Some(found);
    }
    let mut dots = path.rmatch_indices('.');
    dots.find_map(|(at, _)| find(child(&path[..at])?, &path[at + 1..]))
}

/// Parses lines of `key=value` or `key: value`; the last one of a key counts.
fn properties(content: &str) -> HashMap<String, String> {
    let lines = content.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.starts_with(['#', '!']));
    let pairs = lines.filter_map(|line| line.split_once(['=', ':']));
    pairs.map(|(name, value)| (name.trim_end().to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn release(name: &str, format: &str, content: &str, tags: Value) -> ConfigRelease {
        let release = json!({
            "id": 1, "key": {"namespace": "ns", "group": "g", "name": name}, "name": "r",
            "content": content, "md5": "", "version": 1, "format": format, "comment": "",
            "tags": tags, "description": "", "labels": [],
            "dates": {"created_at": 0, "created_by": "", "modified_at": 0, "modified_by": ""},
            "revision": "00000000000000000000000000000001",
        });
        serde_json::from_value(release).expect("a release")
    }

    fn value(name: &str, format: &str, content: &str, key: Option<&str>) -> Option<String> {
        ConfigDocument::open(&release(name, format, content, json!({})))?.value(key)
    }

    #[test]
    fn an_encrypted_content_that_does_not_decrypt_is_no_value() {
        for key in ["", "AAAAAAAAAAAAAAAAAAAAAA==", "tollhouse-sealed:1:x:y"] {
            let tags = json!({"internal-datakey": key, "internal-encrypted": "true"});
            let opened = ConfigDocument::open(&release("a", "text", "bm8gY2lwaGVydGV4dA==", tags));
            assert!(opened.is_none(), "{key}");
        }
    }

    #[test]
    fn values_are_found_by_key_in_the_format_of_their_file() {
        let yaml = "server:\n  port: 8080\n  a.b: dotted\nlist: [x, w]\nnone:\n";
        for (name, format, content, key, expected) in [
            ("a.txt", "text", "all", None, Some("all")),
            ("a.txt", "text", "k=v", Some("k"), None),
            ("a.yaml", "yaml", yaml, Some("server.port"), Some("8080")),
            ("a.yaml", "", yaml, Some("server.a.b"), Some("dotted")),
            ("a.yaml", "yaml", yaml, Some("list.1"), Some("w")),
            ("a.yaml", "yaml", yaml, Some("list"), Some("[\"x\",\"w\"]")),
            ("a.yaml", "yaml", yaml, Some("none"), None),
            ("a.yaml", "yaml", yaml, Some("server.none"), None),
            ("a.yaml", "yaml", "[", Some("a"), None),
            ("a", "json", "{\"a\": {\"b\": true}}", Some("a.b"), Some("true")),
            ("a.properties", "", "# k = no\nk = 1\nk=2\n x.y: z", Some("k"), Some("2")),
            ("a.properties", "properties", " x.y: z=1", Some("x.y"), Some("z=1")),
        ] {
            let found = value(name, format, content, key);
            assert_eq!(found.as_deref(), expected, "{name} {format} {key:?}");
        }
    }
}
