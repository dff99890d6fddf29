//! Bodies: JSON, forms, and forms in parts.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use serde_json::Value;

use super::Call;
use crate::answer::Refusal;
use crate::limits::BODY_BYTES_MAX;
use crate::query::Arguments;
use crate::row::Row;

/// How long a body may take to come.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Reads a request whole.
///
/// # Errors
/// When its body is too long, too slow, or not what it says it is.
pub(super) async fn read(arguments: Arguments, request: Request) -> Result<Call, Refusal> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, BODY_BYTES_MAX)).await;
    let body = body.map_err(|_| Refusal::error("the body has not come in time"))?;
    let body = body.map_err(|_| {
        Refusal::error(format!("the body cannot be read, or has more than {BODY_BYTES_MAX} bytes"))
    })?;
    let kind =
        head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let body = if body.is_empty() {
        Value::Null
    } else if kind.starts_with("application/x-www-form-urlencoded") {
        form(&String::from_utf8_lossy(&body))
    } else if let Some(boundary) = boundary(kind) {
        parts(&body, boundary)?
    } else {
        serde_json::from_slice(&body).map_err(|error| {
            Refusal::error(format!("Request error! invalid argument [body: {error}]"))
        })?
    };
    Ok(Call { method: head.method, arguments, body })
}

fn form(text: &str) -> Value {
    let mut row = Row::new();
    for (name, value) in Arguments::parse(text).iter() {
        row.entry(name).or_insert_with(|| value.into());
    }
    Value::Object(row)
}

fn boundary(kind: &str) -> Option<&str> {
    let parameters = kind.strip_prefix("multipart/form-data")?;
    let mut parameters = parameters.split(';').map(str::trim);
    parameters.find_map(|it| it.strip_prefix("boundary=")).map(|it| it.trim_matches('"'))
}

/// The parts of a form (RFC 7578) as members; one with a file name that is not empty as the text that it
/// would be, so that it is seen that there was one.
fn parts(body: &[u8], boundary: &str) -> Result<Value, Refusal> {
    let text = String::from_utf8_lossy(body);
    let broken = || Refusal::error("the parts of the form cannot be told from each other");
    let mut row = Row::new();
    let delimiter = format!("--{boundary}");
    for part in text.split(delimiter.as_str()).skip(1) {
        if part.starts_with("--") {
            return Ok(Value::Object(row));
        }
        let (head, value) = part.split_once("\r\n\r\n").ok_or_else(broken)?;
        let value = value.strip_suffix("\r\n").unwrap_or(value);
        let name = head.split("name=\"").nth(1).and_then(|rest| rest.split('"').next());
        row.insert(name.ok_or_else(broken)?.to_owned(), value.into());
    }
    Err(broken())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_are_read_in_both_encodings() {
        assert_eq!(form("name=a+b&config=%7B%7D&name=c"), json!({"name": "a b", "config": "{}"}));
        let boundary = boundary("multipart/form-data; boundary=\"x\"").unwrap();
        let body = "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nmine\r\n--x--\r\n";
        assert_eq!(parts(body.as_bytes(), boundary).unwrap(), json!({"name": "mine"}));
        for broken in ["", "--x", "--x\r\n\r\n", "--x\r\nname=\"a\"\r\n\r\nb"] {
            assert!(parts(broken.as_bytes(), "x").is_err(), "{broken}");
        }
    }
}
