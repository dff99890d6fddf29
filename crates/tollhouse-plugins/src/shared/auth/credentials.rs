//! Removal of credentials from a request before a node gets it.

use tollhouse_model::variable::query_argument;
use tollhouse_plugin::RequestContext;

/// Removes every argument with this name from the node's query.
pub(crate) fn hide_argument(cx: &mut RequestContext<'_>, name: &str) {
    let uri = match cx.edits().upstream_uri() {
        Some(uri) => uri.to_vec(),
        None => cx.real_request_uri().into_owned(),
    };
    let Some(at) = uri.iter().position(|&byte| byte == b'?') else { return };
    let (path, query) = (&uri[..at], &uri[at + 1..]);
    // Arguments are compared by their decoded name, so that encoding cannot hide one.
    let others: Vec<&[u8]> = query
        .split(|&byte| byte == b'&')
        .filter(|argument| query_argument(argument, name).is_none())
        .collect();
    let mut next = path.to_vec();
    if !others.is_empty() {
        next.push(b'?');
        next.extend_from_slice(&others.join(&b'&'));
    }
    cx.edits().set_upstream_uri(&next);
}

/// Removes every cookie with this name.
pub(crate) fn hide_cookie(cx: &mut RequestContext<'_>, name: &str) {
    hide_cookies(cx, |key| key == name.as_bytes());
}

/// Removes every cookie whose name satisfies `is_hidden`.
pub(crate) fn hide_cookies(cx: &mut RequestContext<'_>, is_hidden: impl Fn(&[u8]) -> bool) {
    let lines = cx.headers_named("cookie");
    if lines.is_empty() {
        return;
    }
    let pairs = lines.iter().flat_map(|line| line.split(|&byte| byte == b';'));
    let others: Vec<&[u8]> = pairs
        .map(<[u8]>::trim_ascii)
        .filter(|pair| {
            let key = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
            !pair.is_empty() && !is_hidden(key.trim_ascii())
        })
        .collect();
    let others = others.join(&b"; "[..]);
    if others.is_empty() {
        cx.remove_header("Cookie");
    } else {
        cx.set_header("Cookie", &others);
    }
}
