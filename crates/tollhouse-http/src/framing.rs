//! Length of a body (RFC 9112 §6.3), determined strictly from a head's fields.

use crate::field::list_elements;
use crate::{Fields, HeadError, Known, Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyLength {
    /// The message has no body.
    #[default]
    None,
    /// The body has this many bytes; never 0.
    Known(u64),
    /// The body consists of chunks, up to the last one of size 0.
    Chunked,
    /// The body extends until the connection closes; in responses only.
    UntilClose,
}

/// Framing that the fields declare, before the rules of methods and statuses apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeclaredFraming {
    Nothing,
    Length(u64),
    Chunked,
}

/// Reads `Content-Length` and `Transfer-Encoding`; refuses every ambiguous combination.
#[inline]
pub(crate) fn declared(
    fields: &Fields,
    buffer: &[u8],
    version: Version,
) -> Result<DeclaredFraming, HeadError> {
    let has_length = fields.has(Known::ContentLength);
    let has_coding = fields.has(Known::TransferEncoding);
    match (has_length, has_coding) {
        (false, false) => Ok(DeclaredFraming::Nothing),
        (true, false) => content_length(fields, buffer).map(DeclaredFraming::Length),
        (true, true) => Err(HeadError::BadFraming),
        (false, true) if version == Version::Http10 => Err(HeadError::BadFraming),
        (false, true) => transfer_coding(fields, buffer).map(|()| DeclaredFraming::Chunked),
    }
}

/// Number of digits up to which every number is below 2^64.
const LENGTH_DIGITS_SAFE: usize = 19;

/// Parses a single `Content-Length` of digits only; a repeated or list-valued one is refused even
/// if the values are equal.
fn content_length(fields: &Fields, buffer: &[u8]) -> Result<u64, HeadError> {
    let only = fields.first(Known::ContentLength).unwrap_or_default();
    if fields.is_repeated(Known::ContentLength) {
        return Err(HeadError::BadFraming);
    }
    let digits = only.bytes_in(buffer);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::BadFraming);
    }
    if digits.len() <= LENGTH_DIGITS_SAFE {
        return Ok(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')));
    }
    digits
        .iter()
        .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(HeadError::BadFraming)
}

/// Accepts `chunked` alone: it must be last, and other codings are not implemented.
fn transfer_coding(fields: &Fields, buffer: &[u8]) -> Result<(), HeadError> {
    if !fields.is_repeated(Known::TransferEncoding) {
        let value = fields.first(Known::TransferEncoding).unwrap_or_default().bytes_in(buffer);
        if value.eq_ignore_ascii_case(b"chunked") {
            return Ok(());
        }
    }
    Err(coding_error(fields, buffer))
}

/// Distinguishes codings that are not implemented from those that leave the end of the body
/// unclear.
#[cold]
fn coding_error(fields: &Fields, buffer: &[u8]) -> HeadError {
    let codings = || {
        fields
            .iter()
            .filter(|field| field.known == Known::TransferEncoding)
            .flat_map(|field| list_elements(field.value().bytes_in(buffer)))
    };
    let chunked = codings().filter(|coding| coding.eq_ignore_ascii_case(b"chunked")).count();
    let is_last = codings().last().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
    // `chunked` written as `,chunked` or in two lines is interpreted differently elsewhere.
    if chunked == 1 && is_last && codings().count() > 1 {
        HeadError::CodingNotImplemented
    } else {
        HeadError::BadFraming
    }
}
