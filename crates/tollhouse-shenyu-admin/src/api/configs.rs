//! Export of the whole configuration as an archive, and import of such an archive.

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::call::Call;
use crate::transfer::{self, Incoming};

/// Answers `GET /configs/export` and `/configs/exportByNamespace`.
pub(super) fn export(admin: &ShenyuAdmin, call: &Call) -> Response {
    let namespace = call.argument("namespace").or_else(|| call.argument("namespaceId"));
    let archive = transfer::export(&admin.book.read(), namespace.as_deref());
    match archive {
        Ok(archive) => {
            let head = [
                (CONTENT_TYPE, "application/octet-stream"),
                (CONTENT_DISPOSITION, "attachment;filename=shenyu-config.zip"),
            ];
            (head, archive).into_response()
        }
        Err(error) => Refusal::error(error.to_string()).into_response(),
    }
}

/// Answers `POST /configs/import`: a form with a `file` and, optionally, the `namespace` that all
/// objects go into. Without `namespace` objects keep the namespace in the file.
pub(super) async fn import(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let file = call.file.clone();
    let file = file.ok_or_else(|| Refusal::invalid("file", "expected the zip of an export"))?;
    let namespace = call.argument("namespace").or_else(|| call.argument("namespaceId"));
    // Unpacking is CPU work, so it runs on the blocking pool.
    let read = tokio::task::spawn_blocking(move || Incoming::read(&file)).await;
    let incoming = read.map_err(|_| Refusal::error("the archive cannot be read; ask again"))?;
    let incoming = incoming.map_err(|error| Refusal::invalid("file", &error.to_string()))?;
    admin
        .book
        .write(move |draft| {
            let report = incoming.put(draft, namespace.as_deref());
            success("import success", report.to_json())
        })
        .await
}
