//! Certificates with private keys, which are stored encrypted and never returned.

use serde_json::Value;
use tollhouse_model::certificate;
use tollhouse_model::secret::is_reference;

use super::certificate_pair::{check_pair, check_pair_of, error_text};
use super::definition::{Candidate, Layout, Resource, Verb, no_guard};
use crate::reply::Reply;

pub(crate) const RESOURCE: Resource = Resource {
    name: "ssls",
    kind: "ssl",
    summary: "A certificate with its key: shown to clients by server name, or to nodes by id.",
    schema: "ssl",
    layout: Layout::Id,
    further: &[Verb::Post, Verb::Patch],
    plugins: None,
    check,
    guard: no_guard,
};

/// Protocol version that APISIX's schema allows but this gateway does not support.
const NOT_SERVED: &str = "TLSv1.1";

/// Refuses an object whose only protocol versions are unsupported, because no client could connect.
fn check_protocols(ssl: &Value) -> Result<(), Reply> {
    let Some(Value::Array(protocols)) = ssl.get("ssl_protocols") else { return Ok(()) };
    if protocols.is_empty() || !protocols.iter().all(|protocol| protocol == NOT_SERVED) {
        return Ok(());
    }
    let text = "ssl_protocols: TLSv1.1 is not served; add TLSv1.2 or TLSv1.3";
    Err(Reply::bad(text))
}

fn check(ssl: &Candidate<'_>) -> Result<(), Reply> {
    check_pair_of(ssl.value, "cert", "key")?;
    let list = |name: &str| ssl.value.get(name).and_then(Value::as_array);
    let empty = Vec::new();
    let certs = list("certs").unwrap_or(&empty);
    let keys = list("keys").unwrap_or(&empty);
    if certs.len() != keys.len() {
        return Err(Reply::bad("mismatched number of certs and keys"));
    }
    for (index, (cert, key)) in certs.iter().zip(keys).enumerate() {
        check_pair(cert, key).map_err(|error| {
            Reply::bad(format!("failed to handle cert-key pair[{}]: {error}", index + 1))
        })?;
    }
    check_protocols(ssl.value)?;
    let authority = ssl.value.get("client").and_then(|client| client.get("ca"));
    if let Some(Value::String(authority)) = authority
        && !is_reference(authority)
        && let Err(error) = certificate::check_authorities(authority)
    {
        return Err(Reply::bad(format!("failed to validate client_cert: {}", error_text(&error))));
    }
    Ok(())
}
