//! Values in released files, for objects of the gateway that refer to them.

use serde_json::Value;
use tollhouse_registry::config::ConfigRelease;
use tollhouse_stdx::yaml;

use super::format::YAML_BOUNDS;
use super::sealing::plain;

/// Returns the plain content of a release, or the value of a key in it; `None` if the content has no
/// such key, or its format has no keys. An encrypted file is decrypted.
pub fn config_value(release: &ConfigRelease, key: Option<&str>) -> Option<String> {
    let content = plain(&release.content, &release.tags);
    let Some(key) = key else { return Some(content.into_owned()) };
    let document = match format_of(release) {
        "json" => serde_json::from_str(&content).ok()?,
        "yaml" | "yml" => yaml::parse_yaml_1_1::<Value>(&content, YAML_BOUNDS).ok()?,
        "properties" => return property(&content, key),
        _ => return None,
    };
    match find(&document, key)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns the declared format, or the extension of the name.
fn format_of(release: &ConfigRelease) -> &str {
    match &*release.format {
        "json" | "yaml" | "yml" | "properties" => &release.format,
        _ => release.key.name.rsplit_once('.').map_or("", |(_, extension)| extension),
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

/// Finds a value in lines of `key=value` or `key: value`; the last one counts.
fn property(content: &str, key: &str) -> Option<String> {
    let lines = content.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.starts_with(['#', '!']));
    let mut pairs = lines.filter_map(|line| line.split_once(['=', ':']));
    pairs.rfind(|(name, _)| name.trim_end() == key).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(name: &str, format: &str, content: &str, key: Option<&str>) -> Option<String> {
        let release = json!({
            "id": 1, "key": {"namespace": "ns", "group": "g", "name": name}, "name": "r",
            "content": content, "md5": "", "version": 1, "format": format, "comment": "",
            "tags": {}, "description": "", "labels": [],
            "dates": {"created_at": 0, "created_by": "", "modified_at": 0, "modified_by": ""},
            "revision": "00000000000000000000000000000001",
        });
        config_value(&serde_json::from_value(release).expect("a release"), key)
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
