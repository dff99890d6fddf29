//! Taking credentials out of a request before it goes to a node.

use tollhouse_plugin::RequestContext;

/// Removes every argument of that name from the query that the node gets.
pub(crate) fn hide_argument(cx: &mut RequestContext<'_>, name: &str) {
    let uri = match &cx.edits().upstream_uri {
        Some(uri) => uri.clone(),
        None => cx.request_uri().to_vec(),
    };
    let Some(at) = uri.iter().position(|&byte| byte == b'?') else { return };
    let (path, query) = (&uri[..at], &uri[at + 1..]);
    let kept: Vec<&[u8]> = query
        .split(|&byte| byte == b'&')
        .filter(|argument| argument.split(|&byte| byte == b'=').next() != Some(name.as_bytes()))
        .collect();
    let mut next = path.to_vec();
    if !kept.is_empty() {
        next.push(b'?');
        next.extend_from_slice(&kept.join(&b'&'));
    }
    cx.edits().upstream_uri = Some(next);
}
