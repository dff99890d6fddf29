//! Path sent to the node, equal to the path that plugins judged.
//!
//! Plugins that protect, and exemptions from client certificates, judge the normalised path. In
//! these cases the node gets that path, and a path that servers interpret differently is refused.
//! In all other cases the client's bytes are passed on and this module is not used.

use std::borrow::Cow;

use tollhouse_router::{AmbiguousPaths, NormalizeOptions, escaped_path, is_ambiguous};
use tollhouse_telemetry::ErrorCode;

use crate::error::GatewayError;
use crate::exchange::Exchange;

/// Makes the node receive the judged path, unless a plugin rewrites it later.
///
/// # Errors
/// If the path is ambiguous and the settings refuse such paths.
#[inline]
pub(crate) fn apply(cx: &mut Exchange<'_>) -> Result<(), GatewayError> {
    let allows = cx.worker.settings.ambiguous_paths == AmbiguousPaths::Allow;
    match apply_unambiguous(cx) {
        Err(Ambiguous) if !allows => Err(ErrorCode::AmbiguousPath.into()),
        Err(Ambiguous) | Ok(()) => Ok(()),
    }
}

/// Error: servers interpret the path differently. The request is unchanged.
pub(crate) struct Ambiguous;

/// Like [`apply`], but refuses ambiguous paths regardless of the settings.
///
/// # Errors
/// If the path is ambiguous.
#[inline]
pub(crate) fn apply_unambiguous(cx: &mut Exchange<'_>) -> Result<(), Ambiguous> {
    // Most paths are matched as sent. They contain no escapes, so the remaining check is cheap.
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
        // Marks the plugin state as used, so that the edit is cleared after the request even if the
        // route has no plugins.
        plugins.is_active = true;
        plugins.edits.set_upstream_uri(&uri);
    }
    Ok(())
}

/// Returns the normalised path as the node receives it. Path parameters and a trailing slash are
/// kept; the normalisation options remove them only for matching.
pub(crate) fn escaped<'a>(cx: &'a Exchange<'_>) -> Cow<'a, [u8]> {
    let encoded_slash = cx.worker.settings.normalize.encoded_slash;
    let options = NormalizeOptions { encoded_slash, ..NormalizeOptions::default() };
    match cx.sent_path() {
        b"" => Cow::Borrowed(b"/"),
        // The path was accepted by the normalisation before, so it cannot fail; `*` is returned
        // unchanged.
        sent => escaped_path(sent, &options).unwrap_or(Cow::Borrowed(sent)),
    }
}
