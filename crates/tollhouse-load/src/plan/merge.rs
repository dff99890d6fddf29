//! Expansion of a plan: merges defaults into cases, and multiplies cases by their matrix.

use super::node::{Key, Kind, Node};
use super::problem::{Problem, unfit};

/// Maximum number of cases after expansion: a week at ten minutes each.
pub(super) const CASES_MAX: usize = 1_000;
/// Keys whose value is a choice between variants; a case that sets one replaces the default
/// entirely.
const CHOICES: [&str; 3] = ["load.pace", "http.body", "grpc.data"];

/// Merges the defaults into a case; keys of the case take precedence.
pub(super) fn with_defaults(case: &Node, defaults: &Node) -> Node {
    merged(case, defaults, "")
}

fn merged(own: &Node, default: &Node, path: &str) -> Node {
    let (Kind::Map(entries), Kind::Map(defaults)) = (&own.kind, &default.kind) else {
        return own.clone();
    };
    if CHOICES.contains(&path) {
        return own.clone();
    }
    let mut entries = entries.clone();
    for (key, default) in defaults {
        let path = if path.is_empty() { key.text.clone() } else { format!("{path}.{}", key.text) };
        match entries.iter_mut().find(|(own, _)| own.text == key.text) {
            Some((_, own)) => *own = merged(own, default, &path),
            None => entries.push((key.clone(), default.clone())),
        }
    }
    Node { at: own.at, kind: Kind::Map(entries) }
}

/// Returns one case per combination of the matrix values; the last key changes fastest.
pub(super) fn multiplied(case: Node, matrix: Option<&Node>) -> Result<Vec<Node>, Problem> {
    let Some(matrix) = matrix else { return Ok(vec![case]) };
    let Kind::Map(keys) = &matrix.kind else {
        return Err(unfit(matrix, "a map from keys to lists: `load.connections: [600, 800]`")
            .within("matrix"));
    };
    let mut cases = vec![(case, Vec::new())];
    for (key, values) in keys {
        let Kind::List(values) = &values.kind else {
            return Err(unfit(values, "a list of values").within(&key.text).within("matrix"));
        };
        // Checked before any case is created, because three keys of a few hundred values each would
        // exhaust the memory.
        if values.is_empty() || values.len() > CASES_MAX / cases.len() {
            let why = format!(
                "has {} values; write 1 or more, for at most {CASES_MAX} cases in all",
                values.len()
            );
            return Err(Problem::new(why).at(key.at).within(&key.text).within("matrix"));
        }
        let mut next = Vec::with_capacity(cases.len() * values.len());
        for (case, labels) in cases {
            for value in values {
                next.push(varied(&case, &labels, key, value)?);
            }
        }
        cases = next;
    }
    Ok(cases.into_iter().map(|(case, labels)| named(case, &labels)).collect())
}

type Label = (String, String);

/// Returns a copy of the case with one more key set.
fn varied(
    case: &Node,
    labels: &[Label],
    key: &Key,
    value: &Node,
) -> Result<(Node, Vec<Label>), Problem> {
    let mut case = case.clone();
    set(&mut case, &key.text, key, value)?;
    let mut labels = labels.to_vec();
    labels.push((key.text.clone(), label(value)));
    Ok((case, labels))
}

fn set(node: &mut Node, path: &str, key: &Key, value: &Node) -> Result<(), Problem> {
    let at = node.at;
    let Kind::Map(entries) = &mut node.kind else {
        return Err(unfit(node, "a map of keys, which the matrix changes").within("matrix"));
    };
    let (first, rest) =
        path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let found = entries.iter().position(|(name, _)| name.text == first);
    let index = found.unwrap_or_else(|| {
        let name = Key { at: key.at, text: first.to_owned() };
        entries.push((name, Node { at, kind: Kind::Map(Vec::new()) }));
        entries.len() - 1
    });
    match rest {
        Some(rest) => set(&mut entries[index].1, rest, key, value),
        None => {
            entries[index].1 = value.clone();
            Ok(())
        }
    }
}

/// Formats a value for the name of a case.
fn label(value: &Node) -> String {
    match &value.kind {
        Kind::Null => "none".into(),
        Kind::List(items) => items.iter().map(label).collect::<Vec<_>>().join("+"),
        Kind::Map(entries) => {
            let one = |(key, value): &(Key, Node)| format!("{} {}", key.text, label(value));
            entries.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        _ => value.scalar().unwrap_or_default().to_owned(),
    }
}

/// Replaces `{connections}` or `{load.connections}` in the name. Values that the name does not
/// mention are appended, so that no two cases of a matrix share a name.
fn named(mut case: Node, labels: &[Label]) -> Node {
    let written = case.get("name").and_then(Node::scalar).unwrap_or_default().to_owned();
    let mut name = written;
    let mut added = Vec::new();
    for (path, value) in labels {
        let short = path.rsplit('.').next().unwrap_or(path);
        let before = name.clone();
        name = name.replace(&format!("{{{path}}}"), value).replace(&format!("{{{short}}}"), value);
        if name == before {
            added.push(format!("{short} {value}"));
        }
    }
    if !added.is_empty() {
        name = if name.is_empty() {
            added.join(", ")
        } else {
            format!("{name}, {}", added.join(", "))
        };
    }
    let at = case.get("name").map_or(case.at, |node| node.at);
    case.take("name");
    if let Kind::Map(entries) = &mut case.kind {
        entries.push((Key { at, text: "name".into() }, Node { at, kind: Kind::Text(name) }));
    }
    case
}

#[cfg(test)]
mod tests {
    use super::super::node::read;
    use super::*;

    #[test]
    fn a_case_takes_what_it_does_not_say_from_the_defaults() {
        let defaults =
            read("load: {connections: 1, timeout: 2s, pace: {rate: 5}}\nhttp: {method: PUT}");
        let case = read("load: {connections: 9, pace: closed}\nname: a");
        let merged = with_defaults(&case.expect("YAML"), &defaults.expect("YAML"));
        for (path, value) in [
            ("load.connections", "9"),
            ("load.timeout", "2s"),
            ("load.pace", "closed"),
            ("http.method", "PUT"),
            ("name", "a"),
        ] {
            assert_eq!(merged.nearest(path).scalar(), Some(value), "{path}");
        }
        let choice = read("load: {pace: {think: 1s}}").expect("YAML");
        let other = read("load: {pace: {rate: 5}}").expect("YAML");
        let Kind::Map(pace) = &with_defaults(&choice, &other).nearest("load.pace").kind.clone()
        else {
            panic!("a pace of one key")
        };
        assert_eq!(pace.len(), 1, "one choice replaces another");
    }

    fn names(case: &str, matrix: &str) -> Vec<String> {
        let matrix = read(matrix).expect("YAML");
        let cases = multiplied(read(case).expect("YAML"), Some(&matrix)).expect("a matrix");
        cases
            .iter()
            .map(|case| case.get("name").and_then(Node::scalar).unwrap_or("").to_owned())
            .collect()
    }

    #[test]
    fn a_matrix_multiplies_a_case_and_names_each() {
        let matrix = "load.connections: [600, 800]\nload.keep_alive: [true, false]";
        let expected = ["c600 true", "c600 false", "c800 true", "c800 false"];
        assert_eq!(names("name: 'c{connections} {load.keep_alive}'", matrix), expected);
        let added = ["a, connections 1", "a, connections 2"];
        assert_eq!(names("name: a", "load.connections: [1, 2]"), added);
        assert_eq!(names("x: 1", "load.pace: [closed, {rate: 5}]"), ["pace closed", "pace rate 5"]);
    }

    #[test]
    fn a_matrix_without_end_is_refused() {
        for matrix in ["a: []", "a: 5", "[a]", "a: [1, 2]\nb: [1, 2]\nname.x: [1]"] {
            let matrix = read(matrix).expect("YAML");
            assert!(
                multiplied(read("name: a").expect("YAML"), Some(&matrix)).is_err(),
                "{matrix:?}"
            );
        }
        let many = format!("a: [{}]\nb: [{}]", vec!["1"; 40].join(","), vec!["1"; 40].join(","));
        let many = read(&many).expect("YAML");
        let problem =
            multiplied(read("name: a").expect("YAML"), Some(&many)).expect_err("1600 cases");
        assert!(problem.to_string().contains("at most 1000"), "{problem}");
    }
}
