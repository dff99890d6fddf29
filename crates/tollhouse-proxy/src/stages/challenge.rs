//! Answers ACME challenges of a certificate authority.

use crate::exchange::Exchange;

/// Prepares the response to a request for a pending challenge; returns whether it did. Only GET and
/// HEAD are answered.
#[cold]
pub(crate) fn prepare(cx: &mut Exchange<'_>) -> bool {
    if !matches!(cx.client_method(), b"GET" | b"HEAD") {
        return false;
    }
    let Some(answer) = cx.worker.snapshot.challenges().answer_to(cx.matched_path()) else {
        return false;
    };
    let plugins = &mut cx.state.plugins;
    // Marks the plugin state as used, so that the prepared response is cleared after the request
    // even if the route has no plugins.
    plugins.is_active = true;
    plugins.prepared.set(200, answer.as_bytes());
    true
}
