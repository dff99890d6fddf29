//! Revisions of the store from gateway to gateway: a write is answered with the one that it made, and a read that
//! shows it to another gateway waits a moment until that one serves it, and is told how far it has come.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use tollhouse_store::Revision;

use crate::call::Call;
use crate::context::Admin;
use crate::reply::Reply;

/// In answers: the revision that a write made, or that this gateway serves. In reads: the one to wait for.
const REVISION: HeaderName = HeaderName::from_static("x-tollhouse-revision");

/// Longest wait of a read: several times what a change takes from one gateway to another.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Waits for the revision that a read asks for, if it asks for one.
///
/// # Errors
/// 400 for what is no revision.
pub(crate) async fn wait(admin: &Admin, call: &Call) -> Result<(), Reply> {
    let Some(asked) = call.headers.get(REVISION) else { return Ok(()) };
    let revision = asked.to_str().ok().and_then(|text| text.trim().parse().ok());
    let revision = revision.map(Revision).ok_or_else(|| {
        Reply::bad(format!("{REVISION} is no revision; send back what a write was answered with"))
    })?;
    if let Some(in_service) = &admin.parts.in_service {
        in_service.reaches(revision, WAIT_MAX).await;
    }
    Ok(())
}

/// The answer to a read, with how far this gateway has come; a file in place of a store has no revisions.
pub(crate) fn report(admin: &Admin, reply: Reply) -> Reply {
    match &admin.parts.in_service {
        Some(in_service) => made(reply, in_service.revision()),
        None => reply,
    }
}

/// The revision that an answer names.
pub(crate) fn revision_of(reply: &Reply) -> Option<u64> {
    if let Some(value) = reply.header(&REVISION) {
        return value.to_str().ok()?.parse().ok();
    }
    reply.value()?.get("revision")?.as_u64()
}

/// The answer to a write that made this revision.
pub(crate) fn made(reply: Reply, revision: Revision) -> Reply {
    reply.with(REVISION, HeaderValue::from(revision.0))
}
