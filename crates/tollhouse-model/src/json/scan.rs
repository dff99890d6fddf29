//! Tokens of JSON. The `checked_` functions are strict, for text from outside; the others assume
//! text that was checked.

/// Returns the end of the white space at `at`.
#[inline]
pub(super) fn space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Returns the end of the string that begins at `at`, in checked text.
#[inline]
pub(super) fn string_end(text: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(&byte) = text.get(from) {
        match byte {
            b'"' => return from + 1,
            b'\\' => from += 2,
            _ => from += 1,
        }
    }
    text.len()
}

/// Returns the end of the number or word that begins at `at`, in checked text.
#[inline]
pub(super) fn word_end(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.')) {
        at += 1;
    }
    at
}

/// Checks the string that begins at `at` and returns its end, or the offset of the first fault.
pub(super) fn checked_string(text: &[u8], at: usize) -> Result<usize, usize> {
    let mut from = at + 1;
    loop {
        match text.get(from) {
            Some(b'"') => return Ok(from + 1),
            Some(b'\\') => from = checked_escape(text, from)?,
            Some(0..=0x1f) | None => return Err(from),
            Some(_) => from += 1,
        }
    }
}

/// Checks the escape that begins at `at` and returns its end. Surrogates must come in pairs.
fn checked_escape(text: &[u8], at: usize) -> Result<usize, usize> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match hex4(text, at + 2).ok_or(at + 2)? {
            0xdc00..=0xdfff => Err(at),
            0xd800..=0xdbff => {
                let is_pair = text.get(at + 6..at + 8) == Some(b"\\u")
                    && matches!(hex4(text, at + 8), Some(0xdc00..=0xdfff));
                if is_pair { Ok(at + 12) } else { Err(at + 6) }
            }
            _ => Ok(at + 6),
        },
        _ => Err(at + 1),
    }
}

fn hex4(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 4)?;
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}

/// Checks the number or word that begins at `at` and returns its end, or the offset of the first
/// fault.
pub(super) fn checked_word(text: &[u8], at: usize) -> Result<usize, usize> {
    for word in [&b"true"[..], b"false", b"null"] {
        if text[at..].starts_with(word) {
            return Ok(at + word.len());
        }
    }
    let digits = |mut from: usize| {
        let begin = from;
        while text.get(from).is_some_and(u8::is_ascii_digit) {
            from += 1;
        }
        if from > begin { Ok(from) } else { Err(from) }
    };
    let first = at + usize::from(text.get(at) == Some(&b'-'));
    let mut end = if text.get(first) == Some(&b'0') { first + 1 } else { digits(first)? };
    if text.get(end) == Some(&b'.') {
        end = digits(end + 1)?;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        end = digits(signed)?;
        // Only numbers with an exponent, or extremely long ones, can overflow to infinity.
        let is_finite = number(&text[at..end]).is_finite();
        return if is_finite { Ok(end) } else { Err(end) };
    }
    Ok(end)
}

pub(super) fn number(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::INFINITY)
}

/// Unescapes the text between the quotes of a string.
pub(super) fn unescaped(inside: &str) -> std::borrow::Cow<'_, str> {
    if !inside.contains('\\') {
        return inside.into();
    }
    let mut out = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(slash) = rest.find('\\') {
        out.push_str(&rest[..slash]);
        let bytes = rest.as_bytes();
        let letter = bytes.get(slash + 1).copied().unwrap_or_default();
        let mut used = 2;
        let plain = match letter {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                used = 6;
                let first = hex4(bytes, slash + 2).unwrap_or_default();
                // Characters above U+FFFF are written as two escapes (RFC 8259 §7). A lone
                // surrogate becomes the replacement character.
                let pair = (0xd800..0xdc00).contains(&first).then(|| hex4(bytes, slash + 8));
                let code = match pair.flatten() {
                    Some(second) => {
                        used = 12;
                        0x1_0000 + ((first - 0xd800) << 10) + second.wrapping_sub(0xdc00)
                    }
                    None => first,
                };
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => char::from(other),
        };
        out.push(plain);
        rest = rest.get(slash + used..).unwrap_or_default();
    }
    out.push_str(rest);
    out.into()
}
