//! The section `shenyu` of a document: lists of ShenYu's objects, in the form that its admin sends.
//! `handle` and `config`, which ShenYu encodes as JSON within a text, may also be written as
//! objects.

use std::sync::Arc;

use serde_json::{Map, Value};
use tollhouse_model::{Problem, Problems};
use tollhouse_shenyu::Kind;
use tollhouse_stdx::nearest;

use super::collect::Collector;
use crate::substitute::{self, Environment};

/// Key of the section with ShenYu's objects.
pub const SECTION: &str = "shenyu";

/// Members that ShenYu encodes as JSON within a text.
const TEXTS: [&str; 4] = ["handle", "config", "props", "rpcExt"];

/// Lists in the section, with the kinds of their objects.
const LISTS: [(&str, Kind); 7] = [
    ("plugins", Kind::Plugin),
    ("selectors", Kind::Selector),
    ("rules", Kind::Rule),
    ("metadata", Kind::Metadata),
    ("appAuths", Kind::AppAuth),
    ("proxySelectors", Kind::ProxySelector),
    ("discoveryUpstreams", Kind::DiscoveryUpstream),
];

/// Object of ShenYu in a declarative document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShenyuItem {
    pub kind: Kind,
    /// Id of the object. A plugin without an id has its name, an application its key, and upstreams
    /// of discovery their selector. The default is `arr_<n>`, counted from 1.
    pub id: String,
    /// Position in the document, such as `shenyu.rules[3]`.
    pub path: String,
    /// JSON text of the object, as sent over the wire.
    pub text: Arc<str>,
}

/// Adds the section to the document, with variables replaced.
pub(super) fn collect(
    collector: &mut Collector,
    mut section: Value,
    environment: Option<Environment<'_>>,
) {
    let mut problems = Problems::new();
    if let Some(environment) = environment {
        substitute::substitute(&mut section, SECTION, environment, &mut problems);
    }
    let is_whole = problems.is_empty();
    collector.problems(problems);
    // If a variable is not set, the whole section is withheld, because the affected object may be
    // one that protects others.
    if is_whole {
        collector.shenyu(&section);
    } else {
        collector.withhold_shenyu();
    }
}

/// Splits the section into items; `None` if the section or one of its objects has the wrong type.
pub(super) fn read(section: &Value, problems: &mut Problems) -> Option<Vec<ShenyuItem>> {
    let lists = match section {
        Value::Null => return Some(Vec::new()),
        Value::Object(lists) => lists,
        // An incomplete list would remove the missing objects from service, so the last valid
        // section stays instead.
        other => {
            let problem = Problem::error(SECTION, "wrong type: expected object").with_value(other);
            problems.push(problem.with_hint("begin with a list, such as \"plugins:\""));
            return None;
        }
    };
    let mut items = Vec::new();
    let mut is_whole = true;
    for (name, list) in lists {
        let path = format!("{SECTION}.{name}");
        let Some((_, kind)) = LISTS.iter().find(|(known, _)| known == name) else {
            problems.push(unknown(path, name));
            continue;
        };
        match list {
            Value::Null => {}
            Value::Array(objects) => {
                for (index, object) in objects.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    match object {
                        Value::Object(fields) => items.push(item(*kind, index, path, fields)),
                        other => {
                            is_whole = false;
                            let problem = Problem::error(path, "wrong type: expected object");
                            problems.push(problem.with_value(other));
                        }
                    }
                }
            }
            other => {
                is_whole = false;
                let problem = Problem::error(path, "wrong type: expected array").with_value(other);
                problems.push(problem.with_hint("write one object a dash, or [] for none"));
            }
        }
    }
    is_whole.then_some(items)
}

fn item(kind: Kind, index: usize, path: String, fields: &Map<String, Value>) -> ShenyuItem {
    let mut fields = fields.clone();
    // Proxy selectors have `props` as an object, unlike all other kinds.
    let is_text = |name: &&str| kind != Kind::ProxySelector || *name != "props";
    for name in TEXTS.into_iter().filter(is_text) {
        if let Some(value @ (Value::Object(_) | Value::Array(_))) = fields.get_mut(name) {
            *value = Value::String(value.to_string());
        }
    }
    if let Some(Value::Array(upstreams)) = fields.get_mut("upstreamDataList") {
        for properties in upstreams.iter_mut().filter_map(|it| it.get_mut("props")) {
            if properties.is_object() {
                *properties = Value::String(properties.to_string());
            }
        }
    }
    let names: &[&str] = match kind {
        Kind::Plugin => &["id", "name"],
        Kind::AppAuth => &["appKey"],
        Kind::DiscoveryUpstream => &["selectorId"],
        _ => &["id"],
    };
    let text = |name: &&str| match fields.get(*name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let id = names.iter().find_map(text).unwrap_or_else(|| format!("arr_{}", index + 1));
    // An id written as a number is sent as text.
    if let Some(number @ Value::Number(_)) = fields.get_mut("id") {
        *number = Value::String(id.clone());
    }
    if let Some(number @ Value::Number(_)) = fields.get_mut("selectorId") {
        *number = Value::String(number.to_string());
    }
    ShenyuItem { kind, id, path, text: Value::Object(fields).to_string().into() }
}

fn unknown(path: String, name: &str) -> Problem {
    let known = LISTS.map(|(name, _)| name);
    let hint = match nearest(name, known.into_iter()) {
        Some(near) => format!("it has no effect; did you mean \"{near}\"?"),
        None => format!("it has no effect; known lists: {}", known.join(", ")),
    };
    Problem::warning(path, format!("unknown key \"{name}\"")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declarative::{Format, parse};

    fn items(text: &str) -> (Option<Vec<ShenyuItem>>, Vec<String>) {
        let document = parse(text, Format::Yaml, &|_| None).expect("it is a document");
        let problems = document.problems.iter().map(|it| format!("{}: {}", it.path, it.reason));
        let problems = problems.collect();
        (document.shenyu, problems)
    }

    #[test]
    fn handles_may_be_written_as_objects() {
        let (items, problems) = items(concat!(
            "shenyu:\n",
            "  plugins:\n  - {name: divide, config: {a: 1}}\n",
            "  rules:\n  - {id: 7, selectorId: 8, handle: \"{}\"}\n",
            "  appAuths:\n  - {appKey: A1}\n",
            "  discoveryUpstreams:\n  - {selectorId: s, upstreamDataList: [{props: {gray: true}}]}\n",
            "#END\n",
        ));
        assert_eq!(problems, [""; 0]);
        let items = items.expect("the section is whole");
        let mut lines: Vec<_> = items
            .iter()
            .map(|it| format!("{} {} {} {}", it.kind.segment(), it.id, it.path, it.text))
            .collect();
        lines.sort();
        assert_eq!(
            lines,
            [
                r#"appAuth A1 shenyu.appAuths[0] {"appKey":"A1"}"#,
                r#"discoveryUpstream s shenyu.discoveryUpstreams[0] {"selectorId":"s","upstreamDataList":[{"props":"{\"gray\":true}"}]}"#,
                r#"plugin divide shenyu.plugins[0] {"name":"divide","config":"{\"a\":1}"}"#,
                r#"rule 7 shenyu.rules[0] {"id":"7","selectorId":"8","handle":"{}"}"#,
            ]
        );
    }

    #[test]
    fn what_cannot_be_told_leaves_everything_as_it_is() {
        for (text, expected) in [
            ("shenyu: []\n#END\n", "shenyu: wrong type: expected object"),
            ("shenyu: {rules: {}}\n#END\n", "shenyu.rules: wrong type: expected array"),
            ("shenyu: {rules: [1]}\n#END\n", "shenyu.rules[0]: wrong type: expected object"),
        ] {
            let (items, problems) = items(text);
            assert_eq!((items, problems), (None, vec![expected.to_owned()]), "{text}");
        }
        let (known, problems) = items("shenyu: {rulez: []}\n#END\n");
        assert_eq!(known, Some(Vec::new()));
        assert_eq!(problems, ["shenyu.rulez: unknown key \"rulez\""]);
        assert_eq!(items("shenyu:\n#END\n").0, Some(Vec::new()));
        assert_eq!(items("routes: []\n#END\n").0, Some(Vec::new()));
    }
}
