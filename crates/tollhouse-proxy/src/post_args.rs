//! Arguments in a request body, for routes that choose by `post_arg` variables.
//!
//! The body is read into the client's buffer and stays there, to be sent on; only a copy is looked
//! into. Reading happens only while some route asks for it.

use std::future::poll_fn;
use std::task::Poll;

use serde_json::Value;
use tollhouse_http::BodyLength;
use tollhouse_model::variable::query_argument;
use tollhouse_telemetry::ErrorCode;

use crate::buffer::BUFFER_BYTES;
use crate::client::Client;
use crate::error::GatewayError;
use crate::exchange::{PumpError, RequestPump};
use crate::request::Work;
use crate::worker::Worker;

/// A body's arguments.
#[derive(Debug)]
pub enum PostArgs {
    /// `application/x-www-form-urlencoded`, as sent.
    Form(Vec<u8>),
    /// `application/json`.
    Json(Value),
    /// `multipart/form-data`: name and value of each field.
    Multipart(Vec<(Vec<u8>, Vec<u8>)>),
}

impl PostArgs {
    /// `post_arg_<name>`: a field of a form.
    pub fn argument(&self, name: &str) -> Option<Vec<u8>> {
        match self {
            PostArgs::Form(text) => query_argument(text, name).map(|value| value.into_owned()),
            PostArgs::Json(_) => None,
            PostArgs::Multipart(fields) => {
                let found = fields.iter().find(|(field, _)| field == name.as_bytes());
                found.map(|(_, value)| value.clone())
            }
        }
    }

    /// `post_arg.<path>`: members and `[index]`es into JSON; a plain name into a form.
    pub fn path(&self, path: &str) -> Option<Vec<u8>> {
        let PostArgs::Json(root) = self else { return self.argument(path) };
        let mut value = root;
        for part in path.split('.') {
            let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
            if !name.is_empty() {
                value = value.get(name)?;
            }
            for index in indexes.split('[').filter(|index| !index.is_empty()) {
                value = value.get(index.strip_suffix(']')?.parse::<usize>().ok()?)?;
            }
        }
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone().into_bytes()),
            other => Some(other.to_string().into_bytes()),
        }
    }
}

/// Reads the whole body and takes it apart; `None` for a type that has no arguments, and for a
/// body past the limit, which is then passed on unread.
///
/// # Errors
/// When the client breaks off, takes too long, or breaks the framing.
pub(crate) async fn read(
    worker: &Worker,
    client: &mut Client,
    work: &Work,
    body: &mut RequestPump,
) -> Result<Option<PostArgs>, GatewayError> {
    let bytes = client.link.buffer.filled();
    let content_type = work.head.fields.first(tollhouse_http::Known::ContentType);
    let Some(content_type) = content_type.map(|span| span.of_buffer(bytes).to_vec()) else {
        return Ok(None);
    };
    let Some(kind) = Kind::of(&content_type) else { return Ok(None) };
    let limit = worker.settings.limits.post_args_bytes;
    if matches!(work.head.body, BodyLength::Known(length) if length > limit as u64) {
        return Ok(None);
    }
    collect(worker, client, work.head.head_bytes + limit, body).await?;
    if !body.is_received() {
        return Ok(None);
    }
    let raw = &client.link.buffer.filled()[work.head.head_bytes..body.end_in_buffer()];
    Ok(kind.parse(raw.to_vec(), &content_type))
}

/// Reads the whole body, of at most `bytes_max` bytes, without its chunk framing; it stays in the
/// client's buffer, to be sent on as it came.
///
/// # Errors
/// `BodyTooLarge` for a longer one; else as [`read`].
pub(crate) async fn whole_body(
    worker: &Worker,
    client: &mut Client,
    work: &Work,
    body: &mut RequestPump,
    bytes_max: u64,
) -> Result<Vec<u8>, GatewayError> {
    if matches!(work.head.body, BodyLength::Known(length) if length > bytes_max) {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    // A read may bring chunk framing along, which is taken out afterwards.
    let room = limit.saturating_add(BUFFER_BYTES);
    collect(worker, client, work.head.head_bytes.saturating_add(room), body).await?;
    let raw = &client.link.buffer.filled()[work.head.head_bytes..body.end_in_buffer()];
    if !body.is_received() || raw.len() > limit {
        return Err(ErrorCode::BodyTooLarge.into());
    }
    Ok(raw.to_vec())
}

/// Takes a body apart that has been read already.
pub(crate) fn of_body(client: &Client, work: &Work, body: &[u8]) -> Option<PostArgs> {
    let content_type = work.head.fields.first(tollhouse_http::Known::ContentType)?;
    let content_type = content_type.of_buffer(client.link.buffer.filled());
    Kind::of(content_type)?.parse(body.to_vec(), content_type)
}

/// Reads until the body is complete or the buffer as large as allowed.
async fn collect(
    worker: &Worker,
    client: &mut Client,
    size_max: usize,
    body: &mut RequestPump,
) -> Result<(), GatewayError> {
    let mut is_first = true;
    client.arm(worker, worker.settings.limits.body_read_time);
    while !body.is_received() && client.link.buffer.len() < size_max {
        if std::mem::take(&mut is_first) {
            let invitation = body.take_invitation();
            client.write_all(worker, invitation).await.map_err(|_| ErrorCode::DownstreamGone)?;
            client.arm(worker, worker.settings.limits.body_read_time);
        }
        if client.link.buffer.room().is_empty() {
            client.link.buffer.make_room(size_max);
        }
        let read = poll_fn(|context| match client.link.poll_fill(context, &worker.shelf) {
            Poll::Ready(Ok(read)) if read > 0 => Poll::Ready(Ok(())),
            Poll::Ready(_) => Poll::Ready(Err(ErrorCode::DownstreamGone)),
            Poll::Pending if client.is_late(worker) => Poll::Ready(Err(ErrorCode::BodyReadTimeout)),
            Poll::Pending => Poll::Pending,
        })
        .await;
        read?;
        client.arm(worker, worker.settings.limits.body_read_time);
        body.admit(&mut client.link.buffer).map_err(|error| match error {
            PumpError::BodyTooLarge => ErrorCode::BodyTooLarge,
            _ => ErrorCode::BadFraming,
        })?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Form,
    Json,
    Multipart,
}

impl Kind {
    fn of(content_type: &[u8]) -> Option<Kind> {
        let essence = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
        match essence.trim_ascii().to_ascii_lowercase().as_slice() {
            b"application/x-www-form-urlencoded" => Some(Kind::Form),
            b"application/json" => Some(Kind::Json),
            b"multipart/form-data" => Some(Kind::Multipart),
            _ => None,
        }
    }

    fn parse(self, body: Vec<u8>, content_type: &[u8]) -> Option<PostArgs> {
        match self {
            Kind::Form => Some(PostArgs::Form(body)),
            Kind::Json => serde_json::from_slice(&body).ok().map(PostArgs::Json),
            Kind::Multipart => multipart_fields(&body, content_type).map(PostArgs::Multipart),
        }
    }
}

/// The fields of a multipart body (RFC 7578), files included.
fn multipart_fields(body: &[u8], content_type: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let boundary = parameter(content_type, b"boundary")?;
    let delimiter = [b"\r\n--", boundary].concat();
    let whole = [b"\r\n", body].concat();
    let starts: Vec<usize> = memchr::memmem::find_iter(&whole, &delimiter).collect();
    let mut fields = Vec::new();
    for pair in starts.windows(2) {
        let part = &whole[pair[0] + delimiter.len()..pair[1]];
        let Some(split) = memchr::memmem::find(part, b"\r\n\r\n") else { continue };
        let head = part[..split].split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        let disposition = head.into_iter().find(|line| {
            line.get(..20).is_some_and(|name| name.eq_ignore_ascii_case(b"content-disposition:"))
        });
        if let Some(name) = disposition.and_then(|line| parameter(line, b"name")) {
            fields.push((name.to_vec(), part[split + 4..].to_vec()));
        }
    }
    Some(fields)
}

/// The value of `; name=value` or `; name="value"`.
fn parameter<'a>(header: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    header.split(|&byte| byte == b';').skip(1).find_map(|part| {
        let part = part.trim_ascii();
        let equals = part.iter().position(|&byte| byte == b'=')?;
        let value = part[equals + 1..].trim_ascii();
        let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        part[..equals].eq_ignore_ascii_case(name).then_some(unquoted.unwrap_or(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_paths_reach_members_and_elements() {
        let body = br#"{"a":{"b":[10,{"c":"x"}]},"n":null,"t":true}"#.to_vec();
        let args = Kind::Json.parse(body, b"").expect("valid JSON");
        for (path, expected) in [
            ("a.b[0]", Some("10")),
            ("a.b[1].c", Some("x")),
            ("t", Some("true")),
            ("n", None),
            ("a.b[9]", None),
            ("a.b[x]", None),
            ("missing.more", None),
        ] {
            assert_eq!(args.path(path).as_deref(), expected.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn multipart_fields_are_found() {
        let body = b"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n\
            --B\r\ncontent-disposition: form-data; name=b; filename=x\r\n\r\ntwo\r\n--B--\r\n";
        let content_type = b"multipart/form-data; boundary=B";
        let args = Kind::Multipart.parse(body.to_vec(), content_type).expect("a boundary");
        assert_eq!(args.argument("a").as_deref(), Some(&b"1"[..]));
        assert_eq!(args.argument("b").as_deref(), Some(&b"two"[..]));
        assert_eq!(args.argument("c"), None);
    }
}
