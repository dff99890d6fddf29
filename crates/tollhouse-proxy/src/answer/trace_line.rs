//! Id of the request's trace in error responses, which clients can quote to the operator.

use tollhouse_plugin::HeaderEdits;

use crate::exchange::Exchange;

/// Header with the id of the trace.
const TRACE_ID: &str = "X-Trace-Id";

/// Returns the id of the trace that clients may see; empty without one.
pub(super) fn visible_id<'c>(cx: &'c Exchange<'_>) -> &'c [u8] {
    let trace = &cx.state.trace;
    if cx.worker.settings.trace_in_errors { trace.trace_id_text() } else { b"" }
}

/// Returns the header line of a response with this status: a line for errors of traced requests,
/// unless a plugin has set one.
pub(super) fn line(cx: &Exchange<'_>, status: u16) -> HeaderEdits {
    let mut edits = HeaderEdits::default();
    if status >= 400 && cx.state.trace.is_active() {
        add(cx, &mut edits);
    }
    edits
}

#[cold]
fn add(cx: &Exchange<'_>, edits: &mut HeaderEdits) {
    let trace_id = visible_id(cx);
    let is_set = cx.state.plugins.response_edits.find(TRACE_ID.as_bytes()).is_some();
    if !trace_id.is_empty() && !is_set {
        edits.set(TRACE_ID, trace_id);
    }
}
