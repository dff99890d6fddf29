//! The node behind the cases: it answers as the request's `X-Answer` line says, which gives the
//! lines of the answer separated by `|` and its body behind `||`, such as
//! `200 OK|Content-Type: text/html||hello`. A version in front (`HTTP/1.0 200 OK`) is taken as it is.

use tollhouse_testkit::{Message, Origin};

use super::script::unescape;

/// What it says where a request asks for nothing.
const PLAIN: &str = "200 OK|Content-Type: text/plain||hello";

pub(super) fn start() -> Origin {
    Origin::script(|connection| {
        while let Some(request) = connection.request() {
            let answer = answer(&request);
            if !connection.send(&answer) || answer.starts_with(b"HTTP/1.0") {
                break;
            }
        }
    })
}

/// The bytes of the answer to `request`. Lines that frame the body are added where it has none.
fn answer(request: &Message) -> Vec<u8> {
    let wanted = request.field("x-answer").unwrap_or(PLAIN);
    let (head, body) = wanted.split_once("||").unwrap_or((wanted, ""));
    let body = unescape(body);
    let head = head.replace('|', "\r\n");
    let version = if head.starts_with("HTTP/") { "" } else { "HTTP/1.1 " };
    let lower = head.to_ascii_lowercase();
    let is_framed = lower.contains("transfer-encoding:")
        || lower.contains("content-length:")
        || version.is_empty()
        || ["204", "304"].iter().any(|status| head.starts_with(status));
    let length =
        if is_framed { String::new() } else { format!("\r\nContent-Length: {}", body.len()) };
    let body = if request.method() == "HEAD" { "" } else { &body };
    format!("{version}{head}{length}\r\n\r\n{body}").into_bytes()
}
