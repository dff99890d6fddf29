//! Masking of secrets in settings. Secrets are recognised by member names, so that unknown plugins
//! are covered too.

use serde_json::{Map, Value};

/// Text shown in place of a secret.
pub const COVER: &str = "******";

/// Names of secret members in lower case, in addition to those that contain one of [`PARTS`].
const NAMES: &[&str] = &[
    "authorization",
    "token",
    "accesstoken",
    "accesskey",
    "apikey",
    "api_key",
    "realapikey",
    "fallbackapikey",
    "decryptkey",
    "encryptkey",
    "privatekey",
];

/// Parts of the names of secret members. `secrect` is a misspelling in ShenYu.
const PARTS: &[&str] = &["password", "secret", "secrect", "credential"];

/// Maximum depth to which JSON texts within JSON strings are searched.
const DEPTH_MAX: u8 = 4;

/// Whether settings, which are JSON text, contain a secret. Other text may contain one, so it
/// counts as secret.
pub fn holds_secret(settings: &str) -> bool {
    let settings = settings.trim();
    if settings.is_empty() {
        return false;
    }
    match serde_json::from_str(settings) {
        Ok(value) => any(&value, DEPTH_MAX),
        Err(_) => true,
    }
}

/// Replaces each secret in settings by [`COVER`]; `None` if they hold no secret.
pub fn cover(settings: &str) -> Option<String> {
    if !holds_secret(settings) {
        return None;
    }
    let Ok(mut value) = serde_json::from_str(settings.trim()) else {
        return Some(COVER.to_owned());
    };
    cover_value(&mut value, DEPTH_MAX);
    Some(value.to_string())
}

/// Restores masked settings: each [`COVER`] becomes the value at its place in `known`. Returns
/// `None` if there is no [`COVER`].
pub fn uncover(written: &str, known: &str) -> Option<String> {
    if written.trim() == COVER {
        return Some(known.to_owned());
    }
    if !written.contains(COVER) {
        return None;
    }
    let mut value = serde_json::from_str(written.trim()).ok()?;
    let known = serde_json::from_str(known.trim()).ok()?;
    uncover_value(&mut value, &known, DEPTH_MAX);
    Some(value.to_string())
}

/// Whether masked settings differ from `known` in more than secrets, numbers and booleans. Any
/// other member, and any port, may decide where a secret is sent; only the plugin knows.
pub fn redirects(written: &str, known: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text.trim());
    match (parse(written), parse(known)) {
        (Ok(written), Ok(known)) => differ("", &written, &known, DEPTH_MAX),
        _ => written.trim() != known.trim() && written.trim() != COVER,
    }
}

fn differ(name: &str, written: &Value, known: &Value, depth: u8) -> bool {
    match (written, known) {
        (written, known) if written == known || *written == COVER => false,
        (Value::Object(written), Value::Object(known)) => {
            let names = written.keys().chain(known.keys().filter(|it| !written.contains_key(*it)));
            names.filter(|name| !is_secret(name, written)).any(|name| {
                let of =
                    |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                differ(name, &of(written), &of(known), depth)
            })
        }
        (Value::Array(written), Value::Array(known)) => {
            let mut pairs = written.iter().zip(known);
            written.len() != known.len()
                || pairs.any(|(written, known)| differ(name, written, known, depth))
        }
        (written, known) if !is_filled(written) && !is_filled(known) => false,
        (Value::String(text), Value::String(other)) if depth > 0 => {
            match (inner(text, depth), inner(other, depth)) {
                (Some(written), Some(known)) => differ(name, &written, &known, depth - 1),
                _ => !is_quantity(name, written) || !is_quantity(name, known),
            }
        }
        (written, known) => !is_quantity(name, written) || !is_quantity(name, known),
    }
}

/// Whether a value is a number or boolean, also as text, and the member is not a port.
fn is_quantity(name: &str, value: &Value) -> bool {
    let is_one = match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => {
            text.parse::<f64>().is_ok() || matches!(text.as_str(), "" | "true" | "false")
        }
        Value::Null => true,
        Value::Array(_) | Value::Object(_) => false,
    };
    is_one && !name.to_ascii_lowercase().contains("port")
}

fn uncover_value(value: &mut Value, known: &Value, depth: u8) {
    match (value, known) {
        (Value::Object(members), Value::Object(known)) => {
            for (name, value) in members {
                if let Some(known) = known.get(name) {
                    uncover_value(value, known, depth);
                }
            }
        }
        (Value::Array(values), Value::Array(known)) => {
            values
                .iter_mut()
                .zip(known)
                .for_each(|(value, known)| uncover_value(value, known, depth));
        }
        (value, known) if *value == COVER => *value = known.clone(),
        (Value::String(text), Value::String(known)) => {
            if let (Some(mut written), Some(known)) = (inner(text, depth), inner(known, depth)) {
                uncover_value(&mut written, &known, depth - 1);
                *text = written.to_string();
            }
        }
        _ => {}
    }
}

fn any(value: &Value, depth: u8) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            (is_secret(name, members) && is_filled(value)) || any(value, depth)
        }),
        Value::Array(values) => values.iter().any(|value| any(value, depth)),
        Value::String(text) => inner(text, depth).is_some_and(|inner| any(&inner, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn cover_value(value: &mut Value, depth: u8) {
    match value {
        Value::Object(members) => {
            let is_meant = |(name, value): (&String, &Value)| {
                (is_secret(name, members) && is_filled(value)).then(|| name.clone())
            };
            let secrets: Vec<String> = members.iter().filter_map(is_meant).collect();
            for (name, value) in members {
                if secrets.contains(name) {
                    *value = COVER.into();
                } else {
                    cover_value(value, depth);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| cover_value(value, depth)),
        Value::String(text) => {
            if let Some(mut inner) = inner(text, depth) {
                cover_value(&mut inner, depth - 1);
                *text = inner.to_string();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Parses JSON that is the value of a string member.
fn inner(text: &str, depth: u8) -> Option<Value> {
    let is_json = depth > 0 && text.trim_start().starts_with(['{', '[']);
    is_json.then(|| serde_json::from_str(text).ok()).flatten()
}

fn is_secret(name: &str, beside: &Map<String, Value>) -> bool {
    // A rule of `keyAuth`: the name of a header and its secret value.
    if name == "key" && beside.contains_key("keyName") {
        return true;
    }
    let name = name.to_ascii_lowercase();
    NAMES.contains(&&*name) || PARTS.iter().any(|part| name.contains(part))
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_covered_and_nothing_else() {
        let cases = [
            (
                r#"{"mode":"standalone","password":"x","database":1}"#,
                Some(r#"{"mode":"standalone","password":"******","database":1}"#),
            ),
            (r#"{"client_secrect":"x"}"#, Some(r#"{"client_secrect":"******"}"#)),
            (r#"{"keyName":"apiKey","key":"x"}"#, Some(r#"{"keyName":"apiKey","key":"******"}"#)),
            (
                r#"{"header":{"setHeaders":{"Authorization":"Bearer x"}}}"#,
                Some(r#"{"header":{"setHeaders":{"Authorization":"******"}}}"#),
            ),
            (
                r#"{"defaultHandleJson":"{\"authorization\":\"a:b\"}"}"#,
                Some(r#"{"defaultHandleJson":"{\"authorization\":\"******\"}"}"#),
            ),
            (r#"[{"apiKey":["x"]}]"#, Some(r#"[{"apiKey":"******"}]"#)),
            ("password=x", Some("******")),
            (r#"{"addParameterKeys":[{"path":"$","key":"a","value":"b"}]}"#, None),
            (r#"{"groupKey":"g","commandKey":"c","password":"","secretKey":null}"#, None),
            ("", None),
            ("[]", None),
        ];
        for (settings, expected) in cases {
            assert_eq!(cover(settings).as_deref(), expected, "{settings}");
            assert_eq!(holds_secret(settings), expected.is_some(), "{settings}");
            // Writing masked settings back changes nothing.
            if let Some(covered) = cover(settings) {
                assert_eq!(uncover(&covered, settings).as_deref(), Some(settings));
            }
        }
    }

    #[test]
    fn beside_a_cover_only_numbers_switches_and_secrets_may_change() {
        let known = r#"{"mode":"standalone","url":"redis:6379","password":"x","max":8,"on":"true","port":"1"}"#;
        let with = |change: fn(&mut Value)| {
            let mut written: Value = serde_json::from_str(known).expect("it is JSON");
            written["password"] = COVER.into();
            change(&mut written);
            redirects(&written.to_string(), known)
        };
        assert!(!with(|_| {}));
        assert!(!with(|it| it["max"] = 9.into()));
        assert!(!with(|it| it["max"] = "9".into()));
        assert!(!with(|it| it["on"] = "false".into()));
        assert!(!with(|it| it["more"] = "".into()));
        assert!(with(|it| it["url"] = "evil:6379".into()));
        assert!(with(|it| it["mode"] = "cluster".into()));
        assert!(with(|it| it["port"] = "2".into()));
        assert!(with(|it| it["proxy"] = "evil:1".into()));
        assert!(with(|it| it["url"] = Value::Null));
        assert!(!redirects(COVER, "password=x"));
    }

    #[test]
    fn what_is_written_beside_a_cover_counts() {
        let known = r#"{"keyName":"apiKey","key":"x"}"#;
        let written = r#"{"keyName":"token","key":"******"}"#;
        assert_eq!(uncover(written, known).as_deref(), Some(r#"{"keyName":"token","key":"x"}"#));
        assert_eq!(uncover(r#"{"keyName":"token","key":"y"}"#, known), None);
        // Without a known value the text is taken literally.
        assert_eq!(
            uncover(r#"{"password":"******"}"#, "{}").as_deref(),
            Some(r#"{"password":"******"}"#)
        );
    }
}
