//! Answers the authority that issues certificates.

use crate::exchange::Exchange;

/// Prepares the answer where a request asks for a challenge that is pending; says whether it does.
/// Methods that would change something ask for something else.
#[cold]
pub(crate) fn prepare(cx: &mut Exchange<'_>) -> bool {
    if !matches!(cx.client_method(), b"GET" | b"HEAD") {
        return false;
    }
    let Some(answer) = cx.worker.snapshot.challenges().answer_to(cx.matched_path()) else {
        return false;
    };
    let plugins = &mut cx.state.plugins;
    // What is prepared is forgotten with what plugins leave, also where there are none.
    plugins.is_active = true;
    plugins.prepared.set(200, answer.as_bytes());
    true
}
