//! Path that the node gets: the same one that plugins have judged.
//!
//! Plugins that protect, and exemptions from client certificates, judge the normalised path. Where they
//! do, the node gets that path, and a path that servers read in several ways is refused. Elsewhere the
//! client's bytes pass, and nothing here runs.

use std::borrow::Cow;

use tollhouse_router::{AmbiguousPaths, NormalizeOptions, escaped_path, is_ambiguous};
use tollhouse_telemetry::ErrorCode;

use crate::error::GatewayError;
use crate::exchange::Exchange;

/// Sees to it that the node gets the path that is judged, whatever plugins make of it later.
///
/// # Errors
/// The path is ambiguous, and the settings do not allow that.
#[inline]
pub(crate) fn apply(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let allows = cx.worker.settings.ambiguous_paths == AmbiguousPaths::Allow;
    match apply_unambiguous(cx) {
        Err(Ambiguous) if !allows => Err(ErrorCode::AmbiguousPath.into()),
        Err(Ambiguous) | Ok(()) => Ok(()),
    }
}

/// The path is one that servers read in several ways; the request is as it was.
pub(crate) struct Ambiguous;

/// The same for paths that are read in one way.
///
/// # Errors
/// The path is ambiguous.
#[inline]
pub(crate) fn apply_unambiguous(cx: &mut Exchange<'_>) -> Result<(), Ambiguous> {
    // Most paths are sent as they are matched. Those have no escape, so the rest is cheap to find.
    if !cx.state.path_is_rewritten && !tollhouse_router::may_be_ambiguous(cx.matched_path()) {
        return Ok(());
    }
    apply_rewritten(cx)
}

#[cold]
fn apply_rewritten(cx: &mut Exchange<'_>) -> Result<(), Ambiguous> {
    if is_ambiguous(cx.sent_path(), &cx.worker.settings.normalize) {
        return Err(Ambiguous);
    }
    let mut uri = escaped(cx).into_owned();
    if let Some(query) = cx.raw_query() {
        uri.push(b'?');
        uri.extend_from_slice(query);
    }
    if uri != *cx.sent_uri() {
        let plugins = &mut cx.state.plugins;
        // What is left there is cleared with the request also where it has no plugins.
        plugins.is_active = true;
        plugins.edits.set_upstream_uri(&uri);
    }
    Ok(())
}

/// The path as a node gets it. Parameters and an ending slash, which options leave out for routes alone,
/// stay.
pub(crate) fn escaped<'a>(cx: &'a Exchange<'_>) -> Cow<'a, [u8]> {
    let encoded_slash = cx.worker.settings.normalize.encoded_slash;
    let options = NormalizeOptions { encoded_slash, ..NormalizeOptions::default() };
    match cx.sent_path() {
        b"" => Cow::Borrowed(b"/"),
        // Of a path that routes were matched by nothing can be wrong; `*` asks for none.
        sent => escaped_path(sent, &options).unwrap_or(Cow::Borrowed(sent)),
    }
}
