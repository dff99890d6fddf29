//! Changes of headers, parameters, cookies and bodies by the rules of `request`, `modifyResponse`
//! and `paramMapping`. The order is always: add, set, rename, remove.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::divide::HandleError;
use crate::json_path::JsonPath;
use crate::weight::is_light;
use crate::{handle, lenient};

/// Changes of headers, query parameters or cookies by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// Pairs that are added; existing values stay.
    pub add: Vec<(String, String)>,
    /// Values that replace all values of their name.
    pub set: Vec<(String, String)>,
    /// Pairs of old and new names.
    pub rename: Vec<(String, String)>,
    /// Names whose values are removed.
    pub remove: Vec<String>,
}

impl Edits {
    /// Whether the lists of changes are all empty.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty()
            && self.set.is_empty()
            && self.rename.is_empty()
            && self.remove.is_empty()
    }

    /// Applies the changes to a list of names and values; `is_same` compares names.
    pub fn apply(&self, values: &mut Vec<(String, String)>, is_same: fn(&str, &str) -> bool) {
        values.extend(self.add.iter().cloned());
        for (name, value) in &self.set {
            match values.iter().position(|(known, _)| is_same(known, name)) {
                Some(first) => {
                    values[first].1.clone_from(value);
                    let mut place = 0;
                    values.retain(|(known, _)| {
                        place += 1;
                        place - 1 <= first || !is_same(known, name)
                    });
                }
                None => values.push((name.clone(), value.clone())),
            }
        }
        for (old, new) in &self.rename {
            for (name, _) in values.iter_mut().filter(|(name, _)| is_same(name, old)) {
                name.clone_from(new);
            }
        }
        values.retain(|(name, _)| !self.remove.iter().any(|gone| is_same(gone, name)));
    }
}

/// Choice among several lines of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    /// Only the first line remains.
    First,
    /// Only the last line remains.
    Last,
    /// The first line of each distinct value.
    Each,
}

impl Unique {
    fn read(name: &str) -> Option<Self> {
        match name {
            "RETAIN_FIRST" => Some(Self::First),
            "RETAIN_LAST" => Some(Self::Last),
            "RETAIN_UNIQUE" => Some(Self::Each),
            _ => None,
        }
    }

    pub fn choose<T: PartialEq>(self, mut values: Vec<T>) -> Vec<T> {
        match self {
            Self::First => values.truncate(1),
            Self::Last => values = values.pop().into_iter().collect(),
            Self::Each => {
                let mut left: Vec<T> = Vec::with_capacity(values.len());
                for value in values {
                    if !left.contains(&value) {
                        left.push(value);
                    }
                }
                values = left;
            }
        }
        values
    }
}

/// Rule of the plugin `request`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestRule {
    pub headers: Edits,
    pub parameters: Edits,
    pub cookies: Edits,
    /// Whether the client's `Host` is sent to nodes.
    pub preserve_host: bool,
    /// Request headers that are reduced to fewer lines, and the choice among their lines.
    pub unique_request: Option<(Vec<String>, Unique)>,
    /// Response headers that are reduced to fewer lines, and the choice among their lines.
    pub unique_answer: Option<(Vec<String>, Unique)>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RequestHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    header: HeaderEdits,
    #[serde(deserialize_with = "lenient::or_default")]
    parameter: ParameterEdits,
    #[serde(deserialize_with = "lenient::or_default")]
    cookie: CookieEdits,
    #[serde(deserialize_with = "lenient::or_false")]
    preserve_host: bool,
    #[serde(deserialize_with = "lenient::or_default")]
    request_unique_headers: String,
    #[serde(deserialize_with = "lenient::or_default")]
    request_header_unique_strategy: String,
    #[serde(deserialize_with = "lenient::or_default")]
    resp_unique_headers: String,
    #[serde(deserialize_with = "lenient::or_default")]
    resp_header_unique_strategy: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HeaderEdits {
    #[serde(deserialize_with = "texts")]
    add_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_header_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_header_keys: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ParameterEdits {
    #[serde(deserialize_with = "texts")]
    add_parameters: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_parameters: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_parameter_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_parameter_keys: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CookieEdits {
    #[serde(deserialize_with = "texts")]
    add_cookies: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_cookies: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_cookie_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_cookie_keys: Vec<String>,
}

impl RequestRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: RequestHandle = read(handle)?;
        let RequestHandle { header, parameter, cookie, preserve_host, .. } = handle;
        let unique = |names: &str, strategy: &str| {
            let list = names.split(';').map(str::trim).filter(|name| !name.is_empty());
            let list: Vec<String> = list.map(str::to_owned).collect();
            (!list.is_empty()).then_some(list).zip(Unique::read(strategy))
        };
        Ok(Self {
            headers: Edits {
                add: header.add_headers,
                set: header.set_headers,
                rename: header.replace_header_keys,
                remove: header.remove_header_keys,
            },
            parameters: Edits {
                add: parameter.add_parameters,
                set: parameter.set_parameters,
                rename: parameter.replace_parameter_keys,
                remove: parameter.remove_parameter_keys,
            },
            cookies: Edits {
                add: cookie.add_cookies,
                set: cookie.set_cookies,
                rename: cookie.replace_cookie_keys,
                remove: cookie.remove_cookie_keys,
            },
            preserve_host,
            unique_request: unique(
                &handle.request_unique_headers,
                &handle.request_header_unique_strategy,
            ),
            unique_answer: unique(&handle.resp_unique_headers, &handle.resp_header_unique_strategy),
        })
    }
}

/// Changes of members in a JSON body.
#[derive(Debug, Clone, Default)]
pub struct BodyEdits {
    /// Path of the object, name and value of the new member.
    add: Vec<(JsonPath, String, String)>,
    /// Path of the object, old and new name of the member.
    rename: Vec<(JsonPath, String, String)>,
    remove: Vec<JsonPath>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct BodyEdit {
    #[serde(deserialize_with = "lenient::or_default")]
    path: String,
    #[serde(deserialize_with = "lenient::or_default")]
    key: String,
    #[serde(deserialize_with = "lenient::text")]
    value: Option<String>,
}

impl BodyEdits {
    fn new(
        add: Vec<BodyEdit>,
        rename: Vec<BodyEdit>,
        remove: &[String],
    ) -> Result<Self, HandleError> {
        let parse = |path: &str| {
            JsonPath::parse(path).map_err(|reason| {
                HandleError::Malformed(format!("invalid body path `{path}`: {reason}"))
            })
        };
        let places = |edits: Vec<BodyEdit>| -> Result<Vec<_>, HandleError> {
            let place = |it: BodyEdit| Ok((parse(&it.path)?, it.key, it.value.unwrap_or_default()));
            edits.into_iter().map(place).collect()
        };
        Ok(Self {
            add: places(add)?,
            rename: places(rename)?,
            remove: remove.iter().map(|path| parse(path)).collect::<Result<_, _>>()?,
        })
    }

    /// Whether the lists of changes are all empty.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.rename.is_empty() && self.remove.is_empty()
    }

    /// Applies the changes to a value. Paths that match nothing are ignored.
    pub fn apply(&self, body: &mut Value) {
        for (path, key, value) in &self.add {
            path.each(body, &mut |found| {
                if let Value::Object(members) = found {
                    members.insert(key.clone(), Value::from(value.as_str()));
                }
            });
        }
        for (path, old, new) in &self.rename {
            path.each(body, &mut |found| {
                if let Value::Object(members) = found
                    && let Some(value) = members.shift_remove(old)
                {
                    members.insert(new.clone(), value);
                }
            });
        }
        for path in &self.remove {
            path.remove(body);
        }
    }

    /// Applies the changes to the text of a body; `None` if it is not JSON, or has too many values
    /// to be parsed.
    pub fn apply_to_text(&self, body: &[u8]) -> Option<Vec<u8>> {
        if !is_light(body) {
            return None;
        }
        let mut value: Value = serde_json::from_slice(body).ok()?;
        self.apply(&mut value);
        serde_json::to_vec(&value).ok()
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MappingHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    add_parameter_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    replace_parameter_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_parameter_keys: Vec<String>,
}

/// Reads a handle of `paramMapping`: changes of the request body.
///
/// # Errors
///
/// If it is not a JSON object of this shape, or a path is invalid.
pub fn read_parameter_mapping(handle: Option<&str>) -> Result<BodyEdits, HandleError> {
    let handle: MappingHandle = read(handle)?;
    BodyEdits::new(
        handle.add_parameter_keys,
        handle.replace_parameter_keys,
        &handle.remove_parameter_keys,
    )
}

/// Rule of the plugin `modifyResponse`.
#[derive(Debug, Clone, Default)]
pub struct ResponseRule {
    pub headers: Edits,
    /// Status that replaces the node's.
    pub status: Option<u16>,
    pub body: BodyEdits,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResponseHandle {
    #[serde(deserialize_with = "texts")]
    add_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_header_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_header_keys: Vec<String>,
    #[serde(deserialize_with = "lenient::integer")]
    status_code: Option<i64>,
    #[serde(deserialize_with = "lenient::or_default")]
    add_body_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    replace_body_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_body_keys: Vec<String>,
}

impl ResponseRule {
    /// Reads a rule's handle; a status of 0 means no change.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or the status or a path is invalid.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: ResponseHandle = read(handle)?;
        let status = handle.status_code.filter(|status| *status != 0).map(|status| {
            let status = u16::try_from(status).ok().filter(|it| (200..=599).contains(it));
            status.ok_or_else(|| {
                HandleError::Malformed("`statusCode` must be a status from 200 to 599".to_owned())
            })
        });
        Ok(Self {
            headers: Edits {
                add: handle.add_headers,
                set: handle.set_headers,
                rename: handle.replace_header_keys,
                remove: handle.remove_header_keys,
            },
            status: status.transpose()?,
            body: BodyEdits::new(
                handle.add_body_keys,
                handle.replace_body_keys,
                &handle.remove_body_keys,
            )?,
        })
    }
}

/// Reads an object of texts; numbers and booleans are taken as written.
fn texts<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Vec<(String, String)>, D::Error> {
    let values: Option<BTreeMap<String, Value>> = Option::deserialize(reader)?;
    let values = values.unwrap_or_default().into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        Value::Null => (name, String::new()),
        other => (name, other.to_string()),
    });
    Ok(values.collect())
}

fn read<'a, T: Deserialize<'a> + Default>(text: Option<&'a str>) -> Result<T, HandleError> {
    Ok(handle::read(text)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_added_set_renamed_and_removed_in_this_order() {
        let handle = json!({"header": {
            "addHeaders": {"a": "2"}, "setHeaders": {"b": "set", "new": 7},
            "replaceHeaderKeys": {"c": "d"}, "removeHeaderKeys": ["e"],
        }});
        let rule = RequestRule::read(Some(&handle.to_string())).expect("it is one");
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut values: Vec<_> =
            [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1"), ("e", "1")].iter().map(pair).collect();
        rule.headers.apply(&mut values, str::eq_ignore_ascii_case);
        let expected: Vec<_> = [("a", "1"), ("b", "set"), ("d", "1"), ("a", "2"), ("new", "7")]
            .iter()
            .map(pair)
            .collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn a_blank_handle_changes_nothing() {
        for handle in [None, Some(""), Some("{}"), Some(r#"{"header":null,"cookie":{}}"#)] {
            assert_eq!(RequestRule::read(handle), Ok(RequestRule::default()));
            let rule = ResponseRule::read(handle).expect("it is one");
            assert!(rule.headers.is_empty() && rule.body.is_empty() && rule.status.is_none());
        }
        for handle in [r#"{"header":7}"#, "[]", "x"] {
            assert!(RequestRule::read(Some(handle)).is_err(), "{handle}");
        }
        for handle in [r#"{"statusCode":99}"#, r#"{"removeBodyKeys":["a["]}"#] {
            assert!(ResponseRule::read(Some(handle)).is_err(), "{handle}");
        }
    }

    #[test]
    fn bodies_are_edited_where_paths_lead() {
        let handle = json!({
            "addBodyKeys": [{"path": "$.a", "key": "n", "value": "v"}, {"path": "$.list[*]", "key": "x", "value": "1"}],
            "replaceBodyKeys": [{"path": "$", "key": "old", "value": "new"}, {"path": "$.none", "key": "p", "value": "q"}],
            "removeBodyKeys": ["$.gone", "$.list[0].y", "$.nothing.here"],
        });
        let rule = ResponseRule::read(Some(&handle.to_string())).expect("it is one");
        let body = json!({"a": {}, "old": 1, "gone": 2, "list": [{"y": 3}, {"y": 4}]});
        let edited = rule.body.apply_to_text(body.to_string().as_bytes()).expect("it is JSON");
        let edited: Value = serde_json::from_slice(&edited).expect("JSON");
        let expected = json!({"a": {"n": "v"}, "new": 1, "list": [{"x": "1"}, {"y": 4, "x": "1"}]});
        assert_eq!(edited, expected);
        assert_eq!(rule.body.apply_to_text(b"no JSON"), None);
    }

    #[test]
    fn one_of_several_lines_stays() {
        let values = vec!["a", "b", "a"];
        assert_eq!(Unique::First.choose(values.clone()), ["a"]);
        assert_eq!(Unique::Last.choose(values.clone()), ["a"]);
        assert_eq!(Unique::Each.choose(values), ["a", "b"]);
    }
}
