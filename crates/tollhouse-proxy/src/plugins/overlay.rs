//! Lays plugins' edits over a head that has been written as if there were none.
//!
//! Framing belongs to the gateway: what plugins say about lengths and connections does not count.

use tollhouse_plugin::HeaderEdits;

use crate::head::text::write_decimal;

/// How the body behind an edited head is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// As the head says already.
    Keep,
    /// By its length.
    Length(u64),
    /// In chunks.
    Chunked,
    /// By the end of the connection, or there is none.
    Unsaid,
}

/// Edits the head that begins at `start` of `out` and ends with it.
pub(crate) fn apply(out: &mut Vec<u8>, start: usize, edits: &HeaderEdits, framing: Framing) {
    if edits.hides_any() || framing != Framing::Keep {
        drop_lines(out, start, |name| {
            if is_framing(name) {
                framing != Framing::Keep && is_length(name)
            } else {
                edits.hides(name)
            }
        });
    }
    // The empty line moves behind what is added.
    out.truncate(out.len() - 2);
    let says_framing = edits.lines().any(|(name, _)| is_framing(name));
    match edits.wire().filter(|_| !says_framing) {
        Some(lines) => out.extend_from_slice(lines),
        None => write_lines(out, edits),
    }
    match framing {
        Framing::Keep | Framing::Unsaid => {}
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Framing::Length(bytes) => {
            out.extend_from_slice(b"Content-Length: ");
            write_decimal(out, bytes);
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the lines that are left, without those about framing.
fn write_lines(out: &mut Vec<u8>, edits: &HeaderEdits) {
    for (name, value) in edits.lines().filter(|(name, _)| !is_framing(name)) {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

/// Drops the header lines that `drops` says, in place.
fn drop_lines(out: &mut Vec<u8>, start: usize, drops: impl Fn(&[u8]) -> bool) {
    let line_end = |out: &[u8], from: usize| {
        memchr::memchr(b'\n', &out[from..]).map_or(out.len(), |at| from + at + 1)
    };
    let mut read = line_end(out, start);
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

fn is_length(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"transfer-encoding")
}

/// Asked for every line; the length decides for most.
#[inline]
fn is_framing(name: &[u8]) -> bool {
    match name.len() {
        7 => name.eq_ignore_ascii_case(b"upgrade"),
        10 => name.eq_ignore_ascii_case(b"connection") || name.eq_ignore_ascii_case(b"keep-alive"),
        14 | 17 => is_length(name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(head: &str, framing: Framing, edit: impl Fn(&mut HeaderEdits)) -> String {
        let mut edits = HeaderEdits::default();
        edit(&mut edits);
        let mut out = head.replace('\n', "\r\n").into_bytes();
        apply(&mut out, 0, &edits, framing);
        String::from_utf8(out).expect("text").replace("\r\n", "\n")
    }

    #[test]
    fn lines_are_added_replaced_and_dropped() {
        let head = "HTTP/1.1 200 OK\nA: 1\nb: 2\nContent-Length: 3\n\n";
        type Edit<'a> = &'a dyn Fn(&mut HeaderEdits);
        let cases: [(Edit<'_>, Framing, &str); 5] = [
            (&|_| {}, Framing::Keep, "HTTP/1.1 200 OK\nA: 1\nb: 2\nContent-Length: 3\n\n"),
            (
                &|edits| {
                    edits.set("B", b"3");
                    edits.add("a", b"4");
                },
                Framing::Keep,
                "HTTP/1.1 200 OK\nA: 1\nContent-Length: 3\nB: 3\na: 4\n\n",
            ),
            (
                &|edits| edits.remove("a"),
                Framing::Length(7),
                "HTTP/1.1 200 OK\nb: 2\nContent-Length: 7\n\n",
            ),
            (
                &|_| {},
                Framing::Chunked,
                "HTTP/1.1 200 OK\nA: 1\nb: 2\nTransfer-Encoding: chunked\n\n",
            ),
            // Framing is not the plugins' to change.
            (
                &|edits| edits.set("Content-Length", b"9"),
                Framing::Keep,
                "HTTP/1.1 200 OK\nA: 1\nb: 2\nContent-Length: 3\n\n",
            ),
        ];
        for (edit, framing, expected) in cases {
            assert_eq!(edited(head, framing, edit), expected);
        }
    }
}
