//! gRPC methods, and the form of their messages in request bodies of ShenYu.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tollhouse_shenyu::lenient;
use tollhouse_shenyu::model::Metadata;
use tollhouse_shenyu::weight::is_light;

use crate::handle;
use crate::shared::rpc::name;

/// Default timeout of a call in milliseconds.
const DEFAULT_TIMEOUT_MS: i64 = 5000;

/// Maximum timeout in milliseconds that metadata may set: one hour.
const TIMEOUT_MS_MAX: i64 = 3_600_000;

/// Suffix of the names of services that accept JSON messages; ShenYu's server-side library adds it.
const JSON_SERVICE: &str = "JSON";

/// Tag of field 1 with a length prefix (protobuf encoding, "Message Structure").
const JSON_FIELD: u8 = 0x0a;

/// Maximum number of messages of one request; each becomes a separate frame.
const MESSAGES_MAX: usize = 10_000;

/// gRPC method that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcMethod {
    /// Path of the method on the server.
    pub path: String,
    /// Maximum number of messages of a call; further ones are ignored, as in ShenYu.
    pub messages_max: usize,
    pub timeout: Duration,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Extension {
    #[serde(deserialize_with = "lenient::integer")]
    timeout: Option<i64>,
    #[serde(deserialize_with = "lenient::or_default")]
    method_type: String,
}

impl GrpcMethod {
    /// Reads a method from its metadata; `None` if they are invalid.
    pub fn read(metadata: &Metadata) -> Option<Self> {
        let service = name(metadata.service_name.as_deref())?;
        let method = name(metadata.method_name.as_deref())?;
        let extension: Extension = handle::read(metadata.rpc_ext.as_deref()).ok()?;
        let timeout_ms = extension.timeout.filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms));
        let timeout_ms = timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS);
        Some(Self {
            path: format!("/{service}{JSON_SERVICE}/{method}"),
            messages_max: match extension.method_type.as_str() {
                "CLIENT_STREAMING" | "BIDI_STREAMING" => MESSAGES_MAX,
                _ => 1,
            },
            timeout: Duration::from_millis(timeout_ms.try_into().ok()?),
        })
    }
}

/// Converts a body `{"data": [{…}, …]}` to gRPC frames, one for each of the first `messages_max`
/// messages. Returns `None` for other bodies.
pub fn frames_of_body(body: &[u8], messages_max: usize) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Body {
        data: Vec<Value>,
    }
    // Derived deserializers would also accept a JSON array with the members in order.
    if body.trim_ascii_start().first() != Some(&b'{') || !is_light(body) {
        return None;
    }
    let Body { data } = serde_json::from_slice(body).ok()?;
    if data.is_empty() || data.len() > MESSAGES_MAX {
        return None;
    }
    let mut frames = Vec::with_capacity(body.len() + data.len() * 16);
    for message in data.into_iter().take(messages_max) {
        let text = message.to_string();
        let mut length = Vec::with_capacity(5);
        append_varint(text.len() as u64, &mut length);
        let bytes = u32::try_from(1 + length.len() + text.len()).ok()?;
        frames.push(0);
        frames.extend_from_slice(&bytes.to_be_bytes());
        frames.push(JSON_FIELD);
        frames.extend_from_slice(&length);
        frames.extend_from_slice(text.as_bytes());
    }
    Some(frames)
}

fn append_varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        // Masked to the low seven bits.
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns the JSON in a message, without white space between tokens. An empty message yields an
/// empty JSON string, an invalid one `None`.
pub fn json_of_message(message: &[u8]) -> Option<String> {
    let Some((&field, mut rest)) = message.split_first() else { return Some("\"\"".to_owned()) };
    if field != JSON_FIELD {
        return None;
    }
    let mut length = 0_usize;
    for shift in (0..35).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let text = (rest.len() == length).then_some(rest)?;
            let text = std::str::from_utf8(text).ok()?;
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            return is_json.then(|| compact(text));
        }
    }
    None
}

/// Removes white space between the tokens of JSON.
fn compact(text: &str) -> String {
    let (mut made, mut in_string, mut is_escaped) =
        (String::with_capacity(text.len()), false, false);
    for letter in text.chars() {
        if in_string {
            in_string = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
        } else if letter.is_ascii_whitespace() {
            continue;
        } else {
            in_string = letter == '"';
        }
        made.push(letter);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(extension: &str) -> Metadata {
        Metadata {
            service_name: Some("shop.Orders".to_owned()),
            method_name: Some("place".to_owned()),
            rpc_ext: Some(extension.to_owned()),
            ..Metadata::default()
        }
    }

    #[test]
    fn methods_are_read_from_metadata() {
        let read = |extension| GrpcMethod::read(&metadata(extension));
        let unary = read("").expect("it is a method");
        assert_eq!(unary.path, "/shop.OrdersJSON/place");
        assert_eq!((unary.messages_max, unary.timeout), (1, Duration::from_secs(5)));
        for (kind, expected) in [
            ("SERVER_STREAMING", 1),
            ("CLIENT_STREAMING", MESSAGES_MAX),
            ("BIDI_STREAMING", MESSAGES_MAX),
        ] {
            let extension = format!(r#"{{"timeout":"100","methodType":"{kind}"}}"#);
            let stream = GrpcMethod::read(&metadata(&extension)).expect("it is a method");
            assert_eq!(
                (stream.messages_max, stream.timeout),
                (expected, Duration::from_millis(100))
            );
        }
        assert_eq!(read("no JSON"), None);
        for service in [None, Some(""), Some("a/b"), Some("a b")] {
            let service_name = service.map(str::to_owned);
            assert_eq!(GrpcMethod::read(&Metadata { service_name, ..metadata("") }), None);
        }
    }

    #[test]
    fn bodies_become_frames_and_messages_become_json() {
        let long = "x".repeat(200);
        let body = format!(r#"{{"data":[{{"a":1}},{{"b":"{long}"}}]}}"#);
        let frames = frames_of_body(body.as_bytes(), 2).expect("it is such a body");
        assert_eq!(&frames[..14], b"\0\0\0\0\x09\x0a\x07{\"a\":1}");
        let second = &frames[14..];
        assert_eq!(json_of_message(&second[5..]), Some(format!(r#"{{"b":"{long}"}}"#)));
        let first = frames_of_body(body.as_bytes(), 1).expect("it is such a body");
        assert_eq!(first, frames[..14], "a method that takes one gets the first");
        for bad in ["", "[]", "{}", r#"{"data":[]}"#, r#"{"data":{}}"#, r#"[[{"a":1}]]"#, "{"] {
            assert_eq!(frames_of_body(bad.as_bytes(), 1), None, "{bad}");
        }
        assert_eq!(json_of_message(b"").as_deref(), Some("\"\""));
        let spaced = b"\x0a\x16{\n \"a b\" : [1, \"\\\" \"]}";
        assert_eq!(json_of_message(spaced).as_deref(), Some(r#"{"a b":[1,"\" "]}"#));
        for bad in
            [&b"\x0a"[..], b"\x0a\x02{", b"\x12\x02{}", b"\x0a\x02xx", b"\x0a\xff\xff\xff\xff\xff"]
        {
            assert_eq!(json_of_message(bad), None, "{bad:?}");
        }
    }
}
