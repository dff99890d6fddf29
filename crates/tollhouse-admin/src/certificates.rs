//! `/tollhouse/v1/certificates`: state of ACME certificates, and expiry and OCSP state of all
//! served certificates.

pub(crate) mod source;

use hyper::{Method, StatusCode};
use serde_json::json;

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::reply::Reply;

/// Answers a call about certificates below [`prefix::OWN`](crate::prefix::OWN).
pub(crate) async fn answer(admin: &Admin, call: &Call) -> Result<Reply, Reply> {
    auth::check_key(&admin.parts.options, call)?;
    let segments: Vec<&str> = call.whole_segments.iter().skip(2).map(String::as_str).collect();
    if segments != ["certificates"] {
        return Err(Reply::refusal(StatusCode::NOT_FOUND, "not found"));
    }
    if call.method != Method::GET {
        let text = "certificates are read here; they are changed by acme.hosts";
        return Err(Reply::refusal(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let source = admin.parts.staples.as_ref();
    let staples = source.map_or_else(|| json!([]), |source| source.list());
    let served = source.map_or_else(|| json!([]), |source| source.ends());
    let Some(source) = &admin.parts.certificates else {
        let value = json!({ "directory": null, "list": [], "staples": staples, "served": served });
        return Ok(Reply::json(StatusCode::OK, &value));
    };
    match source.list().await {
        Ok(list) => {
            let directory = source.directory();
            let value = json!({
                "directory": directory, "list": list, "staples": staples, "served": served,
            });
            Ok(Reply::json(StatusCode::OK, &value))
        }
        Err(reason) => Err(Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, reason)),
    }
}
