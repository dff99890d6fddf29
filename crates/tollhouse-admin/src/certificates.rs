//! `/tollhouse/v1/certificates`: certificates that renew themselves, how they stand and why.

use std::future::Future;
use std::pin::Pin;

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::reply::Reply;

/// Where what is ours alone begins.
pub(crate) const PREFIX: [&str; 2] = ["tollhouse", "v1"];

/// A list on its way.
pub type Certificates<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;

/// Who knows how certificates stand.
pub trait CertificateSource: Send + Sync {
    /// The authority's directory.
    fn directory(&self) -> &str;

    /// All of them, as a JSON array.
    fn list(&self) -> Certificates<'_>;
}

/// Answers a call below [`PREFIX`].
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
    let Some(source) = &admin.parts.certificates else {
        return Ok(Reply::json(StatusCode::OK, &json!({ "directory": null, "list": [] })));
    };
    match source.list().await {
        Ok(list) => {
            let value = json!({ "directory": source.directory(), "list": list });
            Ok(Reply::json(StatusCode::OK, &value))
        }
        Err(reason) => Err(Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, reason)),
    }
}
