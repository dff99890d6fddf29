//! The normalised path with its query, as one text: `request_uri`.

/// Returns a normalised path followed by its query. Bytes of the path that would be read as a
/// delimiter (`?`, `#`, `%`) or are not allowed in a header are escaped. An empty query is omitted.
pub fn request_uri(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let query = query.filter(|query| !query.is_empty());
    let mut out = Vec::with_capacity(path.len() + query.map_or(0, <[u8]>::len) + 1);
    for (index, &byte) in path.iter().enumerate() {
        // A slash that normalisation has kept escaped.
        let is_slash = matches!(path[index..], [b'%', b'2', b'F' | b'f', ..]);
        if (matches!(byte, b'?' | b'#' | b'%') && !is_slash) || byte.is_ascii_control() {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::request_uri;

    #[test]
    fn a_path_is_never_read_as_more_than_that() {
        for (path, query, expected) in [
            ("/a", None, "/a"),
            ("/a", Some(""), "/a"),
            ("/a", Some("b=c%20d?e"), "/a?b=c%20d?e"),
            ("/a b/é", Some("q"), "/a b/é?q"),
            ("/a?b", Some("c"), "/a%3Fb?c"),
            ("/a%3Fb#c", None, "/a%253Fb%23c"),
            ("/a\r\nb\t\u{7f}", None, "/a%0D%0Ab%09%7F"),
            ("/a%2Fb%2fc", None, "/a%2Fb%2fc"),
        ] {
            let found = request_uri(path.as_bytes(), query.map(str::as_bytes));
            assert_eq!(String::from_utf8_lossy(&found), expected);
        }
    }
}
