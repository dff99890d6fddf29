//! Console calls about the process: its log, findings, reload, and the load generator. Calls that
//! change something require a key of the role admin.

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::source::BenchFile;
use crate::auth;
use crate::body::{self, RequestBody};
use crate::call::Call;
use crate::context::Admin;
use crate::reply::Reply;

/// Maximum size of a request body, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Default time in seconds for which a temporary log level applies.
const LEVEL_SECONDS: u64 = 600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLevel {
    level: String,
    seconds: Option<u64>,
}

/// Handles a call from an authenticated caller.
pub(super) async fn answer<B>(
    admin: &Admin,
    call: &Call,
    segments: &[&str],
    body: B,
) -> Result<Reply, Reply>
where
    B: RequestBody,
{
    let argument = |name: &str| call.arguments.get(name).unwrap_or_default();
    let only_admin = || auth::check_administrator(&admin.parts.options, call);
    let unknown = || Reply::refusal(StatusCode::NOT_FOUND, "unknown measurement");
    let source = admin.console()?;
    let value = match (segments, &call.method) {
        (["log", "lines"], &Method::GET) => {
            // Only administrators may read the log, because its lines may contain values that
            // callers have written.
            only_admin()?;
            source.log_lines(argument("from").parse().unwrap_or(0))
        }
        (["log"], &Method::GET) => source.log_level(),
        (["log"], &Method::PUT) => {
            only_admin()?;
            let NewLevel { level, seconds } = read(body).await?;
            let seconds = seconds.unwrap_or(LEVEL_SECONDS);
            source.set_log_level(&level, seconds).map_err(Reply::bad)?;
            source.log_level()
        }
        (["doctor"], &Method::GET) => json!({ "findings": source.findings() }),
        (["reload"], &Method::POST) => {
            body::discard(body).await;
            only_admin()?;
            source.reload().map_err(Reply::unavailable)?;
            json!({ "is_reloading": true })
        }
        (["bench"], &Method::GET) => source.benches(),
        (["bench", "runs"], &Method::POST) => {
            only_admin()?;
            let question: Value = read(body).await?;
            source.start_bench(&question).map_err(Reply::bad)?
        }
        (["bench", "runs", id], &Method::GET) => source.bench(id).ok_or_else(unknown)?,
        (["bench", "runs", id], &Method::DELETE) => {
            body::discard(body).await;
            only_admin()?;
            if !source.end_bench(id) {
                return Err(unknown());
            }
            json!({})
        }
        (["bench", "runs", id, file @ ("page" | "result")], &Method::GET) => {
            let file = if *file == "page" { BenchFile::Page } else { BenchFile::Result };
            let bytes = source.bench_file(id, file).ok_or_else(unknown)?;
            // Sent as a download, because the page has its own script, which must not run under
            // this origin.
            return Ok(Reply::download(bytes));
        }
        (["bench", "compare"], &Method::GET) => {
            compare(admin, argument("before"), argument("after")).await?
        }
        _ => {
            body::discard(body).await;
            return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found"));
        }
    };
    Ok(Reply::json(StatusCode::OK, &value))
}

/// Compares two load tests. Only one comparison runs at a time, because each starts a process. The
/// comparison runs on a blocking thread, so that other calls do not wait.
async fn compare(admin: &Admin, before: &str, after: &str) -> Result<Value, Reply> {
    let Ok(_turn) = admin.comparison.try_acquire() else {
        let text = "another comparison is under way; ask again when it has ended";
        return Err(Reply::refusal(StatusCode::TOO_MANY_REQUESTS, text));
    };
    let source = admin.parts.console.clone();
    let (before, after) = (before.to_owned(), after.to_owned());
    let compared = tokio::task::spawn_blocking(move || {
        source.map(|source| source.compare_benches(&before, &after))
    });
    let compared = compared.await.map_err(|error| Reply::unavailable(error.to_string()))?;
    compared.unwrap_or_else(|| Err("nothing is in service yet".to_owned())).map_err(Reply::bad)
}

async fn read<T, B>(body: B) -> Result<T, Reply>
where
    T: serde::de::DeserializeOwned,
    B: RequestBody,
{
    let body = body::read(body, BODY_BYTES_MAX).await?;
    serde_json::from_slice(&body)
        .map_err(|error| Reply::bad(format!("invalid request body: {error}")))
}
