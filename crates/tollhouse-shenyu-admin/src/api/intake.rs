//! Reading of request bodies: JSON, URL-encoded forms and multipart forms.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use memchr::memmem;
use serde_json::Value;
use tollhouse_shenyu::weight::values_at_most;
use tollhouse_stdx::{MemoryBudget, Reservation};

use crate::answer::Refusal;
use crate::call::Call;
use crate::limits::VALUE_BYTES;
use crate::query::Arguments;
use crate::row::Row;

/// Maximum time for a body to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Reads a whole request. The body is limited to `bytes_max`, and its bytes are charged to the
/// shared budget `memory`.
///
/// # Errors
///
/// If the body is too long, too slow or malformed, or if the budget is exhausted.
pub(super) async fn read(
    memory: &Arc<MemoryBudget>,
    bytes_max: usize,
    arguments: Arguments,
    request: Request,
) -> Result<Call, Refusal> {
    let (head, body) = request.into_parts();
    let mut reservation = None;
    let body = collect(body, bytes_max, memory, &mut reservation);
    let body = tokio::time::timeout(BODY_TIME_MAX, body).await;
    let body = body.map_err(|_| Refusal::error("the body did not arrive in time"))??;
    let kind =
        head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut file = None;
    let body = if body.is_empty() {
        Value::Null
    } else if kind.starts_with("application/x-www-form-urlencoded") {
        form(&String::from_utf8_lossy(&body))
    } else if let Some(boundary) = boundary(kind) {
        // A part that is not a file is copied as text, so its bytes count twice.
        grow(&mut reservation, body.len() as u64)?;
        let parts = parts(&body, boundary)?;
        file = parts.file;
        Value::Object(parts.members)
    } else {
        grow(&mut reservation, (values_at_most(&body) as u64).saturating_mul(VALUE_BYTES))?;
        serde_json::from_slice(&body).map_err(|error| {
            Refusal::error(format!("Request error! invalid argument [body: {error}]"))
        })?
    };
    Ok(Call { method: head.method, arguments, body, file, _reservation: reservation })
}

/// Reads the body and charges its bytes to the budget as they arrive.
async fn collect(
    body: Body,
    bytes_max: usize,
    memory: &Arc<MemoryBudget>,
    reservation: &mut Option<Reservation>,
) -> Result<Bytes, Refusal> {
    let mut body = Limited::new(body, bytes_max);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Refusal::error(format!("the body cannot be read, or has more than {bytes_max} bytes"))
        })?;
        let Ok(piece) = frame.into_data() else { continue };
        match reservation {
            None => *reservation = Some(memory.take(piece.len() as u64).ok_or_else(no_memory)?),
            Some(_) => grow(reservation, piece.len() as u64)?,
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// Enlarges the reservation for values that are built from a body.
fn grow(reservation: &mut Option<Reservation>, bytes: u64) -> Result<(), Refusal> {
    let Some(reservation) = reservation else { return Ok(()) };
    let more = reservation.bytes().saturating_add(bytes);
    if reservation.resize(more) { Ok(()) } else { Err(no_memory()) }
}

fn no_memory() -> Refusal {
    Refusal::error("bodies of requests take all the memory that they may; ask again")
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

#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    /// Parts by name. A file is represented by a short text, which shows that a file was sent.
    members: Row,
    file: Option<Bytes>,
}

/// Splits a multipart form into its parts (RFC 7578).
fn parts(body: &Bytes, boundary: &str) -> Result<Parts, Refusal> {
    let broken = || Refusal::error("malformed multipart form");
    let mut parts = Parts::default();
    let delimiter = format!("--{boundary}");
    let mut starts = memmem::find_iter(body, &delimiter).map(|at| at + delimiter.len()).peekable();
    while let Some(start) = starts.next() {
        let end = starts.peek().map_or(body.len(), |next| next - delimiter.len());
        let part = body.get(start..end).ok_or_else(broken)?;
        if part.starts_with(b"--") {
            return Ok(parts);
        }
        let head_length = memmem::find(part, b"\r\n\r\n").ok_or_else(broken)?;
        let (head, value) = part.split_at(head_length);
        let value = value.strip_prefix(b"\r\n\r\n").unwrap_or(value);
        let value = value.strip_suffix(b"\r\n").unwrap_or(value);
        let head = String::from_utf8_lossy(head);
        let parameter = |name: &str| {
            head.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next())
        };
        let name = parameter("name").ok_or_else(broken)?;
        if name == "file" && parameter("filename").is_some() {
            parts.file = Some(body.slice_ref(value));
        }
        // The text of a file is never read, so it is not copied.
        let text = if parts.file.is_some() && name == "file" && !value.is_empty() {
            "a file".to_owned()
        } else {
            String::from_utf8_lossy(value).into_owned()
        };
        parts.members.insert(name.to_owned(), text.into());
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
        let read = |body: &str| parts(&Bytes::copy_from_slice(body.as_bytes()), boundary);
        assert_eq!(Value::Object(read(body).unwrap().members), json!({"name": "mine"}));
        let body = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.zip\"\r\n\
                    Content-Type: application/zip\r\n\r\nPK\r\n\r\n\r\n--x--\r\n";
        let with_file = read(body).unwrap();
        assert_eq!(with_file.file.as_deref(), Some(&b"PK\r\n\r\n"[..]));
        assert_eq!(Value::Object(with_file.members), json!({"file": "a file"}));
        for broken in ["", "--x", "--x\r\n\r\n", "--x\r\n name=\"a\"\r\n\r\nb"] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
