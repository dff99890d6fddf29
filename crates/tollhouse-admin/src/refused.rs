//! Log of recently refused writes of authenticated callers. It is kept only in memory, because no
//! commit contains a refused write.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::auth;
use crate::call::Call;
use crate::options::{KeyCheck, Options, Role};
use crate::prefix;
use crate::reply::Reply;

/// Maximum number of stored refusals; the oldest are dropped first.
const KEPT_MAX: usize = 200;

/// Maximum length in bytes of the path and of the reason in the log.
const TEXT_BYTES_MAX: usize = 512;

/// Recent writes that were refused, for the console.
#[derive(Default)]
pub(crate) struct RefusalLog(Mutex<VecDeque<Attempt>>);

struct Attempt {
    at_ms: u64,
    actor: Option<String>,
    from: String,
    method: String,
    path: String,
    status: u16,
    reason: String,
}

impl RefusalLog {
    /// Records an answer, if it refuses a write of an authenticated caller.
    pub(crate) fn note(&self, options: &Options, call: &Call, refusal: &Reply) {
        let is_write = !matches!(call.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let actor = auth::caller(options, call).map(|key| key.name.clone());
        let needs_key = options.key_check == KeyCheck::Required;
        let is_refusal =
            refusal.status().is_client_error() && refusal.status() != StatusCode::NOT_FOUND;
        // Console calls that change nothing, although their method is POST, are not recorded.
        let asks = call.segments_after(&prefix::CONSOLE).is_some_and(|rest| {
            rest.first().is_none_or(|first| first != "changes" && first != "shenyu")
        });
        if !is_write || asks || !is_refusal || (needs_key && actor.is_none()) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let attempt = Attempt {
            at_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            actor,
            from: call.peer.ip().to_string(),
            method: call.method.to_string(),
            path: cut(&format!("/{}", call.segments.join("/"))),
            status: refusal.status().as_u16(),
            reason: cut(&refusal.error_text()),
        };
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() == KEPT_MAX {
            attempts.pop_front();
        }
        attempts.push_back(attempt);
    }

    /// Returns the refused writes, newest first. A reason may quote written values, so that it is
    /// shown only to administrators and to the caller of the write.
    pub(crate) fn list(&self, options: &Options, call: &Call) -> Value {
        let own = auth::caller(options, call);
        let own = own.as_ref().map(|key| key.name.as_str());
        let is_administrator = auth::caller_role(options, call) == Role::Admin;
        let is_told = |actor: Option<&str>| is_administrator || (actor.is_some() && actor == own);
        let attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = attempts.iter().rev().map(|it| {
            json!({
                "at_ms": it.at_ms,
                "actor": it.actor,
                "from": it.from,
                "method": it.method,
                "path": it.path,
                "status": it.status,
                "reason": is_told(it.actor.as_deref()).then_some(&it.reason),
            })
        });
        shown.collect()
    }
}

fn cut(text: &str) -> String {
    text.chars()
        .scan(0, |bytes, one| {
            *bytes += one.len_utf8();
            (*bytes <= TEXT_BYTES_MAX).then_some(one)
        })
        .collect()
}
