//! What follows from changing the body of an answer: lines of its head that describe the body as it
//! was are taken out.

use tollhouse_plugin::ResponseContext;

/// Takes out the lines that described the body as it was.
pub(crate) fn forget_old_body(cx: &mut ResponseContext<'_>) {
    cx.remove_header("Content-Length");
    // A filter at the end of the chain encodes whatever becomes of the body.
    if !cx.is_encoded_last() {
        cx.remove_header("Content-Encoding");
    }
    cx.remove_header("Last-Modified");
    cx.remove_header("ETag");
}
