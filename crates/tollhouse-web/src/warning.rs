//! Warnings in answers to accepted writes of which a part has no effect: the header, and its text.

use hyper::header::{HeaderName, HeaderValue};

/// Header with the first problem of an accepted write that is not served as written.
pub const WARNING: HeaderName = HeaderName::from_static("x-tollhouse-warning");

/// Maximum number of problems in one answer; the text contains their total number.
pub const WARNINGS_MAX: usize = 20;

/// Maximum length of a problem in the text in bytes, because some clients refuse header lines of
/// 8 KiB.
const LINE_BYTES_MAX: usize = 1024;

/// Describes the first of `count` problems in one line.
pub fn warning_line(reason: &str, hint: &str, count: usize) -> String {
    let mut line = reason.to_owned();
    if !hint.is_empty() {
        line.push_str("; ");
        line.push_str(hint);
    }
    line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
    if count > 1 {
        line.push_str(&format!(" (1 of {count} warnings)"));
    }
    line
}

/// Returns the header's value. Control characters become spaces.
pub fn warning_value(line: &str) -> Option<HeaderValue> {
    let printable: Vec<u8> =
        line.bytes().map(|byte| if byte < b' ' || byte == 0x7f { b' ' } else { byte }).collect();
    HeaderValue::from_bytes(&printable).ok()
}
