//! Distinction of bootstrap files and resource files by their top-level keys.
//!
//! Only top-level keys are compared. A file with a syntax error is therefore recognised too, and
//! the parser's message is about the right kind of file.

use std::path::Path;

use tollhouse_config::declarative::{NOT_SERVED, SHENYU_SECTION};
use tollhouse_config::{Bootstrap, Format};
use tollhouse_model::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Bootstrap configuration: settings of the process.
    Bootstrap,
    /// Routes, services, upstreams and similar objects.
    Resources,
}

/// Returns the kind of file: the one of whose top-level keys the file has more. If the numbers are
/// equal, as in a file without known keys, the file counts as resources if it is JSON or ends with
/// `#END`.
pub(super) fn guess(path: &Path, text: &str) -> FileKind {
    let keys = match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(fields)) => fields.keys().cloned().collect(),
        _ => keys_of_lines(text),
    };
    let sections = bootstrap_sections();
    let count = |is_known: &dyn Fn(&str) -> bool| keys.iter().filter(|key| is_known(key)).count();
    let of_resources = count(&is_list);
    let of_bootstrap = count(&|key| sections.iter().any(|section| section == key));
    let closes_as_resources =
        Format::from_path(path) == Format::Json || text.trim_end().ends_with("#END");
    let is_resources =
        of_resources > of_bootstrap || (of_resources == of_bootstrap && closes_as_resources);
    if is_resources { FileKind::Resources } else { FileKind::Bootstrap }
}

fn is_list(key: &str) -> bool {
    // The bootstrap configuration has a section of the same name, so that the key counts for both
    // kinds.
    Kind::from_list_name(key).is_some() || NOT_SERVED.contains(&key) || key == SHENYU_SECTION
}

/// Returns the first segments of all bootstrap keys, such as `listen` of `listen.http`.
fn bootstrap_sections() -> Vec<String> {
    let Ok(defaults) = Bootstrap::parse(None, &|_| None, &[]) else { return Vec::new() };
    let first = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    defaults.sources().map(|(name, _)| first(name)).collect()
}

/// Returns the keys that begin YAML lines without indentation.
fn keys_of_lines(text: &str) -> Vec<String> {
    let key = |line: &str| {
        let (key, _) = line.split_once(':')?;
        let begins = line.starts_with(|first: char| !first.is_whitespace() && first != '#');
        begins.then(|| key.trim_matches(['"', '\'', ' ']).to_owned())
    };
    text.lines().filter_map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_their_keys() {
        let table = [
            ("a.yaml", "workers: 2\nlisten:\n  http: []\n", FileKind::Bootstrap),
            ("a.yaml", "routes: []\n#END\n", FileKind::Resources),
            ("a.yaml", "routes:\n  - [\n", FileKind::Resources),
            ("a.yaml", "\"upstreams\": []\n", FileKind::Resources),
            ("a.yaml", "consumers: []\n", FileKind::Resources),
            ("a.yaml", "resources: apisix.yaml\nroutes: []\n#END\nlog: x\n", FileKind::Bootstrap),
            ("a.yaml", "", FileKind::Bootstrap),
            ("a.yaml", "#END", FileKind::Resources),
            ("a.yaml", "wrokers: 2\n", FileKind::Bootstrap),
            ("a.json", "{\"routes\": []}", FileKind::Resources),
            ("a.json", "{\"workers\": 2}", FileKind::Bootstrap),
            ("a.json", "{\"rotues\": []}", FileKind::Resources),
            ("a.yaml", "{routes: []}", FileKind::Bootstrap),
            ("a.yaml", "shenyu:\n  rules: []\n#END\n", FileKind::Resources),
            ("a.yaml", "shenyu:\n  comes_first: true\n", FileKind::Bootstrap),
            ("a.yaml", "shenyu:\n  rules: []\nroutes: []\n#END", FileKind::Resources),
            ("a.json", "{\"shenyu\": {\"rules\": []}}", FileKind::Resources),
        ];
        for (path, text, expected) in table {
            assert_eq!(guess(Path::new(path), text), expected, "{text:?}");
        }
    }
}
