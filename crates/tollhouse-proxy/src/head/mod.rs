//! Writes the heads that leave the gateway: requests to nodes, responses to clients.
//!
//! Header lines that pass unchanged are copied in runs, straight from the bytes they were read
//! from; only what the gateway owns (`Host`, forwarding headers, framing, `Server`) is written.

pub(crate) mod request;
pub(crate) mod response;
mod status;
pub(crate) mod text;

use tollhouse_http::{Field, Fields};

pub(crate) use status::reason;

/// Copies the lines of `fields` that `keeps` says, in order, in as few pieces as possible.
/// `end` is where the last line ends in `bytes`.
#[inline]
fn copy_lines(
    out: &mut Vec<u8>,
    fields: &Fields,
    bytes: &[u8],
    end: usize,
    keeps: impl Fn(&Field) -> bool,
) {
    let mut run_start = None;
    for field in fields.iter() {
        let line_start = field.name().start as usize;
        match (keeps(field), run_start) {
            (true, None) => run_start = Some(line_start),
            (false, Some(start)) => {
                out.extend_from_slice(&bytes[start..line_start]);
                run_start = None;
            }
            _ => {}
        }
    }
    if let Some(start) = run_start {
        out.extend_from_slice(&bytes[start..end]);
    }
}

/// Appends one header line.
#[inline]
pub(crate) fn write_line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
