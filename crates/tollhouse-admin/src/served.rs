//! Store revisions as consistency tokens between gateways. A write returns its revision. A client
//! can send it with a read to another gateway. That gateway waits briefly until it serves the
//! revision, and returns the revision that it serves.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use tollhouse_store::Revision;

use crate::call::Call;
use crate::context::Admin;
use crate::reply::Reply;

/// Header with a store revision. In answers: the revision of the write, or the revision in service.
/// In reads: the revision to wait for.
const REVISION: HeaderName = HeaderName::from_static("x-tollhouse-revision");

/// Maximum time that a read waits for its revision; several times the normal delay between
/// gateways.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Waits until the revision that a read requests, if any, is in service.
///
/// # Errors
/// Returns 400 if the revision is invalid.
pub(crate) async fn wait(admin: &Admin, call: &Call) -> Result<(), Reply> {
    let Some(asked) = call.headers.get(REVISION) else { return Ok(()) };
    let revision = asked.to_str().ok().and_then(|text| text.trim().parse().ok());
    let revision = revision.map(Revision).ok_or_else(|| {
        Reply::bad(format!("invalid {REVISION}; send the value from the answer to a write"))
    })?;
    if let Some(in_service) = &admin.parts.in_service {
        in_service.reaches(revision, WAIT_MAX).await;
    }
    Ok(())
}

/// Adds the revision in service to the answer of a read. Without a store, no revisions exist.
pub(crate) fn report(admin: &Admin, reply: Reply) -> Reply {
    match &admin.parts.in_service {
        Some(in_service) => made(reply, in_service.revision()),
        None => reply,
    }
}

/// Returns the revision in a reply, if it contains one.
pub(crate) fn revision_of(reply: &Reply) -> Option<u64> {
    if let Some(value) = reply.header(&REVISION) {
        return value.to_str().ok()?.parse().ok();
    }
    reply.value()?.get("revision")?.as_u64()
}

/// Adds the revision of a write to its reply.
pub(crate) fn made(reply: Reply, revision: Revision) -> Reply {
    reply.with(REVISION, HeaderValue::from(revision.0))
}
