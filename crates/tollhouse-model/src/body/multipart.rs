//! Fields of `multipart/form-data` (RFC 7578), including files. Lines may end in LF alone, because
//! some clients send that.

use memchr::memmem;

use super::field_name;
use crate::variable::Variable;

/// Returns the first value of each wanted field.
pub(super) fn look_up(
    body: &[u8],
    content_type: &[u8],
    wanted: &[Variable],
) -> Vec<Option<Vec<u8>>> {
    let mut values = vec![None; wanted.len()];
    for (name, value) in fields(body, content_type) {
        for (variable, found) in wanted.iter().zip(&mut values) {
            if found.is_none() && field_name(variable).is_some_and(|it| it.as_bytes() == name) {
                *found = Some(value.to_vec());
            }
        }
    }
    values
}

/// Returns names and values of all fields, in order; nothing if the type has no boundary. Parts
/// without a name are left out.
pub fn fields<'b>(
    body: &'b [u8],
    content_type: &[u8],
) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
    let boundary = parameter(content_type, b"boundary").filter(|text| !text.is_empty());
    let delimiter = boundary.map(|boundary| [b"--", boundary].concat()).unwrap_or_default();
    let starts: Vec<usize> = match delimiter.is_empty() {
        true => Vec::new(),
        false => memmem::find_iter(body, &delimiter)
            .filter(|at| *at == 0 || body[at - 1] == b'\n')
            .collect(),
    };
    let pairs = starts.clone().into_iter().zip(starts.into_iter().skip(1));
    pairs.filter_map(move |(start, end)| {
        // The part between two delimiters, without the line end before the second one.
        let part = body.get(start + delimiter.len()..end - 1)?;
        field(part.strip_suffix(b"\r").unwrap_or(part))
    })
}

/// Splits a part into name and value. The part begins with the rest of the delimiter's line.
fn field(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = part;
    let mut name = None;
    let mut is_first = true;
    loop {
        let end = memchr::memchr(b'\n', rest)?;
        let line = rest[..end].trim_ascii();
        rest = &rest[end + 1..];
        if !std::mem::take(&mut is_first) && line.is_empty() {
            return Some((name?, rest));
        }
        let is_disposition =
            line.get(..20).is_some_and(|it| it.eq_ignore_ascii_case(b"content-disposition:"));
        if is_disposition {
            name = parameter(line, b"name");
        }
    }
}

/// Returns the value of a parameter `; name=value` or `; name="value"`.
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
    fn fields_are_found_whatever_lines_end_in() {
        let body = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--B\r\n\
            Content-Type: text/plain\r\ncontent-disposition: form-data; name=b; filename=x\r\n\r\n\
            two --B\r\nlines\r\n--B\r\nno name\r\n\r\nx\r\n--B\r\n\
            Content-Disposition: form-data; name=empty\r\n\r\n\r\n--B--\r\n";
        let wanted = ["a", "b", "c", "empty"].map(|name| Variable::PostArg(name.into()));
        let content_type = b"multipart/form-data; boundary=B";
        for (body, lines) in [
            (body.to_owned(), "two --B\r\nlines"),
            (body.replace("\r\n", "\n"), "two --B\nlines"),
            (format!("preamble\r\n{body}"), "two --B\r\nlines"),
        ] {
            let found = look_up(body.as_bytes(), content_type, &wanted);
            let expected = [Some("1"), Some(lines), None, Some("")];
            assert_eq!(found, expected.map(|text| text.map(|text| text.as_bytes().to_vec())));
        }
        assert_eq!(look_up(b"--B\n--B", b"multipart/form-data", &wanted), [const { None }; 4]);
    }
}
