//! Generic invocations (`org.apache.dubbo.rpc.service.GenericService`): requests that call any
//! method by name, and their replies.

use serde_json::Value;

use crate::frame::{self, STATUS_OK};
use crate::hessian::{ReadError, Reader, Writer};

/// Protocol version: the first whose replies may have attachments.
const PROTOCOL: &str = "2.0.2";

/// Version of a service without one.
const NO_VERSION: &str = "0.0.0";

/// Method of every generic call, and the types of its three parameters.
const METHOD: &str = "$invoke";
const SIGNATURE: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";

/// Call of a method through Dubbo's `GenericService`: parameter types are given as texts, so that
/// no Java class is needed.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    pub service: &'a str,
    /// Version of the service; empty for none.
    pub version: &'a str,
    /// Group of the service; empty for none.
    pub group: &'a str,
    pub method: &'a str,
    /// Parameter types in Java's notation: `java.lang.String`, `int`.
    pub types: &'a [String],
    /// Arguments, as many as there are types.
    pub arguments: &'a [Value],
    /// Timeout of the caller in milliseconds.
    pub timeout_ms: u64,
    /// Attachments beside the arguments. Names that the protocol needs itself are ignored.
    pub attachments: &'a [(String, String)],
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server did not execute the call.
    #[error("the server answers with status {status}: {text}")]
    Refused {
        /// Status of the reply; never [`STATUS_OK`].
        status: u8,
        /// Message that the server sent.
        text: String,
    },
    /// The method threw an exception with this message.
    #[error("the method failed: {0}")]
    Thrown(String),
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[from] ReadError),
    /// The reply has an unknown kind.
    #[error("the answer has the unknown kind {0}")]
    Unknown(i64),
}

/// Encodes a call as a frame.
pub fn write_request(id: u64, call: &Invocation<'_>) -> Vec<u8> {
    let version = if call.version.is_empty() { NO_VERSION } else { call.version };
    let mut body = Writer::default();
    for text in [PROTOCOL, call.service, version, METHOD, SIGNATURE, call.method] {
        body.text(text);
    }
    body.texts(&call.types.iter().map(String::as_str).collect::<Vec<_>>());
    body.objects(call.arguments);
    let timeout = call.timeout_ms.to_string();
    let own = [
        ("path", call.service),
        ("interface", call.service),
        ("version", call.version),
        ("group", call.group),
        ("timeout", &timeout),
        ("generic", "true"),
    ];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    // Attachments of the caller must not override those of the protocol.
    let others = call.attachments.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let others = others.filter(|(name, _)| {
        !["path", "interface", "version", "group", "timeout", "generic"].contains(name)
    });
    body.text_map(own.chain(others));
    frame::request(id, &body.into_bytes())
}

/// Decodes the reply to a call; the result is JSON.
///
/// # Errors
///
/// If the call failed, or the reply cannot be decoded.
pub fn read_reply(status: u8, body: &[u8]) -> Result<Value, Failure> {
    let mut reader = Reader::new(body);
    if status != STATUS_OK {
        let text = reader.value().map(|text| words(&text)).unwrap_or_default();
        return Err(Failure::Refused { status, text });
    }
    let kind = reader.value()?.as_i64().unwrap_or(-1);
    // Attachments may follow; they are not read.
    match kind {
        0 | 3 => Err(Failure::Thrown(words(&reader.value()?))),
        1 | 4 => Ok(reader.value()?),
        2 | 5 => Ok(Value::Null),
        other => Err(Failure::Unknown(other)),
    }
}

/// Returns the message in a failed reply: a text, or the message of an exception.
fn words(value: &Value) -> String {
    let text = value.as_str().or_else(|| {
        let members = ["exceptionMessage", "detailMessage"];
        members.iter().find_map(|name| value.get(*name)?.as_str())
    });
    text.unwrap_or_default().chars().take(FAILURE_CHARS_MAX).collect()
}

/// Maximum number of characters kept of a server's message, because it is logged.
const FAILURE_CHARS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frames, Message};
    use serde_json::json;

    #[test]
    fn a_call_says_interface_method_types_and_arguments() {
        let call = Invocation {
            service: "shop.Orders",
            version: "",
            group: "g",
            method: "find",
            types: &["int".to_owned()],
            arguments: &[json!(1)],
            timeout_ms: 3000,
            attachments: &[
                ("tag".to_owned(), "x".to_owned()),
                ("generic".to_owned(), "no".to_owned()),
            ],
        };
        let frame = write_request(5, &call);
        assert_eq!(&frame[..12], b"\xda\xbb\xc2\0\0\0\0\0\0\0\0\x05");
        let mut body = Reader::new(&frame[16..]);
        let values: Vec<_> =
            std::iter::from_fn(|| (!body.is_at_end()).then(|| body.value())).collect();
        let values: Vec<_> = values.into_iter().map(|value| value.expect("it is one")).collect();
        let expected = [
            json!("2.0.2"),
            json!("shop.Orders"),
            json!("0.0.0"),
            json!("$invoke"),
            json!(SIGNATURE),
            json!("find"),
            json!(["int"]),
            json!([1]),
            json!({"path": "shop.Orders", "interface": "shop.Orders", "group": "g", "timeout": "3000",
                "generic": "true", "tag": "x"}),
        ];
        assert_eq!(values, expected);
        // The caller gets no message for a request.
        let mut frames = Frames::default();
        frames.push(&frame);
        assert_eq!(frames.message(), Ok(Some(Message::Notice)));
    }

    #[test]
    fn replies_are_results_or_failures() {
        let thrown = b"\x90C\x0bshop.Failed\x91\x0ddetailMessage\x60\x04gone";
        let cases: [(u8, &[u8], Result<Value, Failure>); 8] = [
            (20, b"\x91\x05hello", Ok(json!("hello"))),
            (20, b"\x94\x05helloH\x05dubbo\x052.0.2Z", Ok(json!("hello"))),
            (20, b"\x92", Ok(Value::Null)),
            (20, b"\x95HZ", Ok(Value::Null)),
            (20, thrown, Err(Failure::Thrown("gone".to_owned()))),
            (20, b"\x99", Err(Failure::Unknown(9))),
            (20, b"\x91", Err(Failure::Unreadable(ReadError::Truncated))),
            (60, b"\x04none", Err(Failure::Refused { status: 60, text: "none".to_owned() })),
        ];
        for (status, body, expected) in cases {
            assert_eq!(read_reply(status, body), expected, "{body:?}");
        }
    }
}
