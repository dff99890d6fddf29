//! Writing paths and queries for nodes and for `Location`.

use tollhouse_plugin::RequestContext;

/// Appends a decoded path as it may stand in a request line: whatever nginx encodes in whole URIs
/// becomes `%XX`.
pub(crate) fn encode_into(path: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path {
        if is_plain(byte) {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(
            byte,
            b'"' | b'#' | b'%' | b'<' | b'>' | b'?' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
        )
}

/// A decoded path as it may stand in a request line.
pub(crate) fn encode(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 16);
    encode_into(path, &mut out);
    out
}

/// Encodes what stands before the first `?`, and leaves the query behind it as it is: there, only what
/// no request line can hold is encoded, and that when it is written.
pub(crate) fn encode_path(uri: &[u8]) -> Vec<u8> {
    let at = uri.iter().position(|&byte| byte == b'?').unwrap_or(uri.len());
    let mut out = Vec::with_capacity(uri.len() + 16);
    encode_into(&uri[..at], &mut out);
    out.extend_from_slice(&uri[at..]);
    out
}

/// The query that the node would get: the client's, or what plugins made of it. An empty one counts
/// as none.
pub(crate) fn query_for_node(cx: &mut RequestContext<'_>) -> Option<Vec<u8>> {
    let query = match cx.edits().upstream_uri() {
        Some(uri) => {
            let at = uri.iter().position(|&byte| byte == b'?')?;
            uri[at + 1..].to_vec()
        }
        None => cx.query()?.to_vec(),
    };
    (!query.is_empty()).then_some(query)
}

/// Appends a query to a URI that may have one.
pub(crate) fn append_query(uri: &mut Vec<u8>, query: &[u8]) {
    uri.push(if uri.contains(&b'?') { b'&' } else { b'?' });
    uri.extend_from_slice(query);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stand_in_a_request_line_is_encoded() {
        for (uri, expected) in [
            ("/a/b-c_d.e~f!$&'()*+,;=:@", "/a/b-c_d.e~f!$&'()*+,;=:@"),
            ("/a b#c%d\u{7f}é", "/a%20b%23c%25d%7F%C3%A9"),
            ("/a|b?c d", "/a%7Cb?c d"),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8(encode_path(uri.as_bytes())).unwrap(), expected);
        }
    }
}
