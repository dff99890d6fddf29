//! `/console/v1/certificates`: contents and faults of stored certificates, and a preview of
//! replacing one. Private keys are never shown, only whether one matches a certificate.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::certificate::{self, CertificateFacts, CertificateView, Validity};

use super::search::{self, ListQuery, PathPage};
use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::encrypt;
use crate::reply::Reply;

const SSLS: &str = "ssls";

/// Default and maximum page size; each row costs one store read and one certificate parse.
const ROWS: usize = 50;
const ROWS_MAX: usize = 200;

/// Prefix of the ids of ACME certificates.
const RENEWED: &str = "acme-";

/// Number of days before its expiry from which a certificate is listed with a fault.
const ENDS_SOON_DAYS: i64 = 30;

pub(super) async fn list(admin: &Admin, call: &Call) -> Result<Value, Reply> {
    let number = |name: &str| call.arguments.get(name).and_then(|text| text.parse().ok());
    let page: usize = number("page").unwrap_or(1).max(1);
    let rows: usize = number("page_size").unwrap_or(ROWS).clamp(1, ROWS_MAX);
    let query = ListQuery::parse(call, &HashMap::new())?;
    admin.index.catch_up().await?;
    let skip = (page - 1).saturating_mul(rows);
    let range = skip..skip.saturating_add(rows);
    let PathPage { total, paths } = search::page(admin, SSLS, &query, range).await;
    let mut list = Vec::new();
    for path in &paths {
        let Some(entry) = admin.parts.store.get(&admin.key_of(path)).await? else { continue };
        let value: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        let id = path.split_once('/').map_or("", |(_, id)| id);
        list.push(row(id, &value, entry.mod_revision.0));
    }
    Ok(json!({ "total": total, "page": page, "page_size": rows, "rows": list }))
}

/// Request body of a check: the new certificate, and its private key if that changes too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Renewal {
    cert: String,
    #[serde(default)]
    key: Option<String>,
}

/// Compares a new certificate with the stored one, and checks whether the stored private key and a
/// given one match the new certificate. Writes nothing.
pub(super) async fn check(
    admin: &Admin,
    call: &Call,
    id: &str,
    body: &[u8],
) -> Result<Value, Reply> {
    // Requires permission to write, because the answer reveals whether a certificate matches the
    // stored key.
    auth::check_key(&admin.parts.options, call)?;
    let renewed: Renewal = serde_json::from_slice(body)
        .map_err(|error| Reply::bad(format!("invalid request body: {error}")))?;
    let path = format!("{SSLS}/{id}");
    let entry = admin.parts.store.get(&admin.key_of(&path)).await?;
    let entry = entry
        .ok_or_else(|| Reply::refusal(StatusCode::NOT_FOUND, format!("there is no {path}")))?;
    let stored: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    certificate::check_chain(&renewed.cert).map_err(|error| Reply::bad(error.to_string()))?;
    let fits = |key: &str| certificate::check_pair(&renewed.cert, key).is_ok();
    let opened = encrypt::opened(&path, &stored, &admin.parts);
    let stored_key_fits = opened.get("key").and_then(Value::as_str).is_some_and(fits);
    let mut after = stored.clone();
    after["cert"] = renewed.cert.as_str().into();
    let revision = entry.mod_revision.0;
    Ok(json!({
        "revision": revision,
        "before": row(id, &stored, revision),
        "after": row(id, &after, revision),
        "stored_key_fits": stored_key_fits,
        "key_fits": renewed.key.as_deref().map(fits),
    }))
}

fn row(id: &str, value: &Value, revision: u64) -> Value {
    let pem = value.get("cert").and_then(Value::as_str).unwrap_or_default();
    let mut row = json!({
        "id": id,
        "revision": revision,
        "type": value.get("type").and_then(Value::as_str).unwrap_or("server"),
        "is_off": value.get("status").is_some_and(|status| status == 0),
        "renews_itself": id.starts_with(RENEWED),
        "snis": value.get("snis").or_else(|| value.get("sni")),
        "asks_clients": value.get("client").is_some_and(|client| client.get("ca").is_some()),
    });
    match certificate::check_chain(pem) {
        Ok(facts) => {
            row["faults"] = faults(&facts, value).into();
            let addresses = facts.subject_addresses.iter().map(ToString::to_string);
            let names: Vec<String> = facts.subject_names.iter().cloned().chain(addresses).collect();
            row["names"] = names.into();
            row["not_before"] = facts.not_before_unix_s.into();
            row["not_after"] = facts.not_after_unix_s.into();
            row["intermediates"] = facts.intermediates.into();
        }
        // An invalid certificate is listed too, with its fault.
        Err(error) => row["faults"] = vec![error.to_string()].into(),
    }
    let first = CertificateDer::pem_slice_iter(pem.as_bytes()).next().and_then(Result::ok);
    if let Some(shown) = first.as_ref().and_then(|der| CertificateView::parse(der)) {
        row["subject"] = shown.subject().into();
        row["issuer"] = shown.issuer().into();
        row["serial"] = shown.serial().into();
        row["fingerprint"] = shown.fingerprint().into();
        row["days_left"] = shown.days_left(SystemTime::now()).into();
    }
    row
}

fn faults(facts: &CertificateFacts, value: &Value) -> Vec<String> {
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let left_s = facts.not_after_unix_s - i64::try_from(seconds).unwrap_or(i64::MAX);
    let mut faults = Vec::new();
    match facts.validity(now) {
        Validity::NotYet => faults.push("it is not valid yet".to_owned()),
        Validity::Expired => faults.push("it has ended".to_owned()),
        Validity::Valid if left_s < ENDS_SOON_DAYS * 86_400 => {
            faults.push(format!("it ends in {} days", left_s / 86_400));
        }
        Validity::Valid => {}
    }
    if let Some(place) = facts.misplaced {
        faults.push(format!("certificate {place} of the chain is not signed by the one behind it"));
    }
    let hosts = value.get("snis").and_then(Value::as_array).into_iter().flatten();
    let hosts = hosts.chain(value.get("sni")).filter_map(Value::as_str);
    let uncovered = hosts.filter(|host| !facts.covers(&host.to_ascii_lowercase()));
    faults.extend(uncovered.map(|host| format!("it does not cover {host}")));
    faults
}
