//! Applies the header edits of plugins to a head that was written without them.
//!
//! Some lines belong to the gateway. Edits of framing and connection headers are ignored. Edits of
//! a node's `Host` and of `X-Forwarded-For` were applied earlier. `X-Real-IP` always carries the
//! client address that the gateway knows: a plugin that determines another address changes the
//! address itself. Edits consist of well-formed lines (`HeaderEdits`), so they are appended
//! unchanged.

use tollhouse_plugin::exchange::join_line;
use tollhouse_plugin::{Codings, HeaderEdits};
use tollhouse_stdx::header_name::is_same_folded;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Head of a request to a node.
    Request,
    /// Head of a response to a client.
    Response,
}

/// Applies edits to `out`, which holds a whole head.
pub(crate) fn apply(out: &mut Vec<u8>, edits: &HeaderEdits, side: Side) {
    if edits.hides_any() {
        drop_lines(out, |name| !is_own(name, side) && edits.hides(name));
    }
    // The final empty line is removed and written again after the added lines.
    out.truncate(out.len() - 2);
    let says_own = edits.lines().any(|(name, _)| is_own(name, side));
    match edits.wire().filter(|_| !says_own) {
        Some(lines) => out.extend_from_slice(lines),
        None => write_lines(out, edits, side),
    }
    out.extend_from_slice(b"\r\n");
}

/// Restricts `Accept-Encoding` in `out`, a whole head for a node, to these codings.
#[cold]
pub(crate) fn narrow_codings(out: &mut Vec<u8>, codings: Codings) {
    const NAME: &[u8] = b"accept-encoding";
    let mut accepted: Option<Vec<u8>> = None;
    for line in out.split(|&byte| byte == b'\n').skip(1) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let value = line[colon + 1..].trim_ascii();
        match &mut accepted {
            _ if !line[..colon].eq_ignore_ascii_case(NAME) => {}
            Some(accepted) => join_line(accepted, NAME, value),
            None => accepted = Some(value.to_vec()),
        }
    }
    drop_lines(out, |name| is_same_folded(name, NAME));
    // The final empty line is removed and written again after the added line.
    out.truncate(out.len() - 2);
    out.extend_from_slice(b"Accept-Encoding: ");
    out.extend_from_slice(&codings.narrow(accepted.as_deref()));
    out.extend_from_slice(b"\r\n\r\n");
}

/// Appends the edited lines, except those that belong to the gateway.
fn write_lines(out: &mut Vec<u8>, edits: &HeaderEdits, side: Side) {
    for (name, value) in edits.lines().filter(|(name, _)| !is_own(name, side)) {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

/// Removes in place the header lines for whose name `drops` holds.
fn drop_lines(out: &mut Vec<u8>, drops: impl Fn(&[u8]) -> bool) {
    let line_end = |out: &[u8], from: usize| {
        memchr::memchr(b'\n', &out[from..]).map_or(out.len(), |at| from + at + 1)
    };
    let mut read = line_end(out, 0);
    let mut write = read;
    while read < out.len() {
        let next = line_end(out, read);
        let line = &out[read..next];
        let name_end = memchr::memchr(b':', line).unwrap_or(0);
        if name_end == 0 || !drops(&line[..name_end]) {
            out.copy_within(read..next, write);
            write += next - read;
        }
        read = next;
    }
    out.truncate(write);
}

/// Whether only the gateway writes lines called `name`. Called for every line; the length decides
/// in most cases.
#[inline]
fn is_own(name: &[u8], side: Side) -> bool {
    let first = name.first().map_or(0, |first| first | 0x20);
    let is = |other: &[u8]| other.first() == Some(&first) && name.eq_ignore_ascii_case(other);
    match name.len() {
        2 => is(b"te"),
        4 => side == Side::Request && is(b"host"),
        7 => is(b"upgrade") || is(b"trailer"),
        9 => side == Side::Request && is(b"x-real-ip"),
        10 => is(b"connection") || is(b"keep-alive"),
        14 => is(b"content-length"),
        15 => side == Side::Request && is(b"x-forwarded-for"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(head: &str, side: Side, edit: impl Fn(&mut HeaderEdits)) -> String {
        let mut edits = HeaderEdits::default();
        edit(&mut edits);
        let mut out = head.replace('\n', "\r\n").into_bytes();
        apply(&mut out, &edits, side);
        String::from_utf8(out).expect("text").replace("\r\n", "\n")
    }

    #[test]
    fn lines_are_added_replaced_and_dropped() {
        let head = "HTTP/1.1 200 OK\nA: 1\nb: 2\nContent-Length: 3\n\n";
        type Edit<'a> = &'a dyn Fn(&mut HeaderEdits);
        let cases: [(Edit<'_>, &str); 4] = [
            (&|_| {}, "HTTP/1.1 200 OK\nA: 1\nb: 2\nContent-Length: 3\n\n"),
            (
                &|edits| {
                    edits.set("B", b"3");
                    edits.add("a", b"4");
                },
                "HTTP/1.1 200 OK\nA: 1\nContent-Length: 3\nB: 3\na: 4\n\n",
            ),
            (&|edits| edits.remove("a"), "HTTP/1.1 200 OK\nb: 2\nContent-Length: 3\n\n"),
            // Plugins cannot change the framing.
            (
                &|edits| {
                    edits.set("Content-Length", b"9");
                    edits.set("transfer-encoding", b"chunked");
                    edits.add("Trailer", b"x");
                    edits.add("C", b"5");
                },
                "HTTP/1.1 200 OK\nA: 1\nb: 2\nContent-Length: 3\nC: 5\n\n",
            ),
        ];
        for (edit, expected) in cases {
            assert_eq!(edited(head, Side::Response, edit), expected);
        }
    }

    #[test]
    fn a_node_is_asked_for_codings_that_plugins_can_read() {
        for (lines, expected) in [
            ("A: 1\naccept-encoding: zstd, gzip\nAccept_Encoding: zstd\n", "Accept-Encoding: gzip"),
            (
                "A: 1\nAccept-Encoding: gzip;q=0.5\nAccept-Encoding: br\n",
                "Accept-Encoding: gzip;q=0.5",
            ),
            ("A: 1\n", "Accept-Encoding: identity"),
        ] {
            let mut out = format!("GET / HTTP/1.1\n{lines}\n").replace('\n', "\r\n").into_bytes();
            narrow_codings(&mut out, Codings::GZIP);
            let out = String::from_utf8_lossy(&out).replace("\r\n", "\n");
            assert_eq!(out, format!("GET / HTTP/1.1\nA: 1\n{expected}\n\n"), "{lines}");
        }
    }

    #[test]
    fn a_node_gets_one_host_one_client_and_one_chain_of_addresses() {
        let head = "GET / HTTP/1.1\nHost: a\nX-Real-IP: 2\nX-Forwarded-For: 1, 2\n\n";
        let edit = |edits: &mut HeaderEdits| {
            edits.set("host", b"b");
            edits.set("x-real-ip", b"6");
            edits.set("x-forwarded-for", b"1");
        };
        assert_eq!(edited(head, Side::Request, edit), head);
    }
}
