//! Headers of an answer that no longer apply after its body has changed.

use tollhouse_plugin::ResponseContext;

/// Removes the headers that described the old body.
pub(crate) fn forget_old_body(cx: &mut ResponseContext<'_>) {
    cx.remove_header("Content-Length");
    // The last filter of the chain sets the encoding again.
    if !cx.is_encoded_last() {
        cx.remove_header("Content-Encoding");
    }
    cx.remove_header("Last-Modified");
    cx.remove_header("ETag");
}
