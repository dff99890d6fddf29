//! Which members of settings are secrets, and settings without them. What is a secret is told by the names of
//! members: plugins that nobody here knows have secrets too.

use serde_json::{Map, Value};

/// What stands in the place of a secret.
pub const COVER: &str = "******";

/// Names of secrets, in lower case, beside those that say so themselves.
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

/// Parts of names of secrets. ShenYu writes one of them otherwise than the dictionary.
const PARTS: &[&str] = &["password", "secret", "secrect", "credential"];

/// Texts of JSON within each other that are looked into.
const DEPTH_MAX: u8 = 4;

/// Whether settings, JSON written as text, hold a secret. What is no JSON may.
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

/// The same settings with [`COVER`] in the place of each secret; `None` where they hold none.
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

/// Settings as somebody writes them who has read them covered: each [`COVER`] stands for what is known at its place.
/// `None` where none does.
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

/// Whether settings with covers in them differ from those that are known in more than secrets, numbers and switches.
/// The rest decides where a secret is sent, or may: which members do is known to each plugin alone. Ports count.
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

/// Whether a value is a number or a switch, as such or as text, and no port.
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

/// JSON that stands in a text.
fn inner(text: &str, depth: u8) -> Option<Value> {
    let is_json = depth > 0 && text.trim_start().starts_with(['{', '[']);
    is_json.then(|| serde_json::from_str(text).ok()).flatten()
}

fn is_secret(name: &str, beside: &Map<String, Value>) -> bool {
    // A header or parameter, and what has to stand in it.
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
            // Whoever writes back what he was shown changes nothing.
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
        // Where nothing is known, it is what it says.
        assert_eq!(
            uncover(r#"{"password":"******"}"#, "{}").as_deref(),
            Some(r#"{"password":"******"}"#)
        );
    }
}
