//! The raw form of the configuration: the values of a file by dotted key.

use serde_json::{Map, Value};
use tollhouse_model::{Problem, Problems};
use tollhouse_stdx::nearest;

use super::keys::{KEYS, find};

/// Values of one source, such as the file or the environment, by key.
pub(super) type Layer = Vec<(&'static str, Value)>;

/// Splits the content of a file into dotted keys. A null counts as absent.
pub(super) fn parse_layer(value: Value, problems: &mut Problems) -> Layer {
    let mut layer = Layer::new();
    match value {
        Value::Null => {}
        Value::Object(fields) => walk("", fields, &mut layer, problems),
        other => {
            let problem = Problem::error("document", "wrong type: expected object");
            let hint = "write keys such as \"workers: auto\"";
            problems.push(problem.with_value(&other).with_hint(hint));
        }
    }
    layer
}

fn walk(prefix: &str, fields: Map<String, Value>, layer: &mut Layer, problems: &mut Problems) {
    for (name, value) in fields {
        let name = format!("{prefix}{name}");
        if let Some(key) = find(&name) {
            if !value.is_null() {
                layer.push((key.name, value));
            }
            continue;
        }
        let section = format!("{name}.");
        if !KEYS.iter().any(|key| key.name.starts_with(&section)) {
            problems.push(unknown(&name));
            continue;
        }
        match value {
            Value::Null => {}
            Value::Object(fields) => walk(&section, fields, layer, problems),
            other => {
                let problem = Problem::error(name, "wrong type: expected object");
                let hint = format!("its keys are {}", children(&section).join(", "));
                problems.push(problem.with_value(&other).with_hint(hint));
            }
        }
    }
}

/// Reports an unknown key. The value is left out, because it may be a secret.
pub(super) fn unknown(name: &str) -> Problem {
    let reason = format!("unknown key \"{name}\"");
    Problem::error(name, reason).with_hint(suggestion(name))
}

fn suggestion(name: &str) -> String {
    let (section, last) = match name.rsplit_once('.') {
        Some((section, last)) => (format!("{section}."), last),
        None => (String::new(), name),
    };
    let siblings = children(&section);
    if let Some(near) = nearest(last, siblings.iter().copied()) {
        return format!("did you mean \"{section}{near}\"?");
    }
    // The last part may be right, but at the wrong level.
    let same_last = |key: &&str| key.rsplit('.').next() == Some(last);
    let names = || KEYS.iter().map(|key| key.name);
    if let Some(near) = names().find(same_last).or_else(|| nearest(name, names())) {
        return format!("did you mean \"{near}\"?");
    }
    format!("known keys: {}", siblings.join(", "))
}

/// Returns the names one level below a section, each once.
fn children(section: &str) -> Vec<&'static str> {
    let mut parts: Vec<&'static str> = Vec::new();
    for key in KEYS {
        let Some(rest) = key.name.strip_prefix(section) else { continue };
        let part = rest.split('.').next().unwrap_or(rest);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}
