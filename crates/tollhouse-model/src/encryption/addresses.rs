//! Addresses that contain a password, `scheme://user:password@host`. Such texts are secrets even in
//! fields that otherwise are not secret.

use serde_json::Value;

use super::Keyring;

/// Whether a text is an address whose user information contains a password (RFC 3986 §3.2.1). Costs
/// one pass over the authority part.
pub fn has_password(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let user = rest[..end].rsplit_once('@').map(|(user, _)| user);
    let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
    is_scheme && password.is_some_and(|password| !password.is_empty())
}

/// Returns the dotted paths, in the form that `seal_fields` takes, of the texts below `value` that
/// are addresses with passwords or have the prefix of sealed values. Examines each text once.
pub fn address_fields(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    // An explicit stack instead of recursion, because lists may nest deeper than a thread's stack
    // allows.
    let mut waiting = vec![(String::new(), value)];
    while let Some((field, value)) = waiting.pop() {
        match value {
            Value::String(text) if has_password(text) || Keyring::is_marked(text) => {
                if !field.is_empty() && !found.contains(&field) {
                    found.push(field);
                }
            }
            Value::Array(items) => waiting.extend(items.iter().map(|item| (field.clone(), item))),
            Value::Object(fields) => {
                waiting.extend(fields.iter().map(|(name, value)| (below(&field, name), value)));
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// Returns the path of the field `name` of the object at `path`. A name with a dot cannot be part
/// of a path; for such a field, the path of the object is returned, which covers all its texts.
fn below(path: &str, name: &str) -> String {
    match (path, name.contains('.')) {
        ("", _) => name.to_owned(),
        (path, true) => path.to_owned(),
        (path, false) => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_has_a_password_before_its_host_or_nowhere() {
        let table = [
            ("http://user:secret@host/path", true),
            ("https://user:se%40cret@host:443", true),
            ("redis+sentinel://:secret@host", true),
            ("http://a@b:c@host", true),
            ("http://user@host/", false),
            ("http://user:@host/", false),
            ("http://host/a:b@c", false),
            ("http://host?u=a:b@c", false),
            ("http://host#a:b@c", false),
            ("http://host:80/", false),
            ("user:secret@host", false),
            ("://user:secret@host", false),
            ("1http://user:secret@host", false),
            ("see http://user:secret@host", false),
            ("", false),
        ];
        for (text, expected) in table {
            assert_eq!(has_password(text), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_found_wherever_they_stand() {
        let address = "http://u:p@h";
        let value = json!({
            "uri": address, "plain": "http://h", "list": ["http://h", address, address],
            "deep": {"er": [{"x": address}, {"y": 1}]}, "map": {"a.b": address},
        });
        let mut found = address_fields(&value);
        found.sort();
        assert_eq!(found, ["deep.er.x", "list", "map", "uri"]);
        assert!(address_fields(&json!(address)).is_empty(), "it has no field");
    }
}
