//! `/ui/`: the console's page and its files. The HTML document is generated for each request,
//! because its Content-Security-Policy contains a nonce. The files are served as immutable, because
//! their URLs contain the build id.

use aws_lc_rs::rand;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};

use crate::call::Call;
use crate::reply::Reply;

/// Path segment between the URL of the page and those of its files.
const FILES: &str = "a";

/// Number of random bytes of a nonce; CSP3 §7.1 requires at least 16.
const NONCE_BYTES: usize = 16;

/// Handles a call below [`prefix::UI`](crate::prefix::UI), or to the root.
pub(crate) fn answer(call: &Call) -> Result<Reply, Reply> {
    if !matches!(call.method, Method::GET | Method::HEAD) {
        return Err(Reply::page(StatusCode::NOT_FOUND));
    }
    let segments: Vec<&str> = call.segments.iter().skip(1).map(String::as_str).collect();
    match segments.as_slice() {
        _ if call.segments.is_empty() => {
            let place = HeaderValue::from_static("/ui/");
            Ok(Reply::bare(StatusCode::FOUND).with(LOCATION, place))
        }
        [FILES, build, name @ ..] => file(call, build, &name.join("/")),
        _ => document(),
    }
}

fn file(call: &Call, build: &str, name: &str) -> Result<Reply, Reply> {
    let asset = tollhouse_console::asset(name).filter(|_| build == tollhouse_console::build_id());
    // A page of an older build gets 404 for its files, and then asks the user to reload.
    let asset = asset.ok_or_else(|| Reply::page(StatusCode::NOT_FOUND))?;
    let takes_gzip = call.headers.get_all(ACCEPT_ENCODING).iter().any(|line| {
        line.to_str().is_ok_and(|line| line.split(',').any(|one| one.trim().starts_with("gzip")))
    });
    let value = HeaderValue::from_static;
    let bytes = if takes_gzip { asset.gzip() } else { asset.bytes() };
    let reply = Reply::file(asset.kind(), bytes)
        .with(CACHE_CONTROL, value("public, max-age=31536000, immutable"))
        .with(X_CONTENT_TYPE_OPTIONS, value("nosniff"))
        .with(HeaderName::from_static("cross-origin-resource-policy"), value("same-origin"))
        .with(VARY, value("Accept-Encoding"));
    Ok(if takes_gzip { reply.with(CONTENT_ENCODING, value("gzip")) } else { reply })
}

fn document() -> Result<Reply, Reply> {
    let mut random = [0; NONCE_BYTES];
    rand::fill(&mut random).map_err(|_| Reply::unavailable("no random numbers are available"))?;
    let nonce: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let base = format!("/ui/{FILES}/{}/", tollhouse_console::build_id());
    let Some(text) = tollhouse_console::document(&nonce, &base) else {
        return Err(Reply::refusal(StatusCode::NOT_FOUND, "this build has no console"));
    };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy)
        .map_err(|_| Reply::unavailable("the content security policy is not a valid header"))?;
    let value = HeaderValue::from_static;
    Ok(Reply::document(text)
        .with(CONTENT_SECURITY_POLICY, policy)
        .with(CACHE_CONTROL, value("no-store"))
        .with(X_CONTENT_TYPE_OPTIONS, value("nosniff"))
        .with(REFERRER_POLICY, value("no-referrer"))
        .with(HeaderName::from_static("cross-origin-opener-policy"), value("same-origin"))
        .with(HeaderName::from_static("cross-origin-resource-policy"), value("same-origin")))
}
