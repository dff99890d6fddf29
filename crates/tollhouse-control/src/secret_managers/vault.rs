//! HashiCorp Vault client: reads one path of a key-value engine, version 1 or 2.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::ACCEPT;
use axum::http::{Request, StatusCode, Uri};
use serde_json::Value;
use tollhouse_model::secret::{SecretText, Vault};
use tollhouse_web::client::{Client, Limits};

/// Limits of a response. The timeout equals APISIX's, and Vault stores no larger entry.
const LIMITS: Limits = Limits { time_max: Duration::from_secs(5), body_bytes_max: 1024 * 1024 };

/// Fields of a path, as text.
pub(super) type Fields = BTreeMap<String, SecretText>;

/// Why a path has no fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoFields {
    /// The path does not exist in Vault.
    Gone,
    /// Unknown, because the manager is unreachable or refuses access. The text is for operators.
    Unknown(String),
}

/// Reads a path below the manager's prefix. `token` is the resolved token.
///
/// # Errors
/// If the path does not exist, or Vault cannot be reached or refuses access.
pub(super) async fn ask(vault: &Vault, token: &str, path: &str) -> Result<Fields, NoFields> {
    let request = request(vault, token, path)?;
    let response = Client::new(LIMITS).send(request).await.map_err(unknown)?;
    read(response.status(), response.body())
}

fn unknown(reason: impl std::fmt::Display) -> NoFields {
    NoFields::Unknown(reason.to_string())
}

/// Returns the request path. Paths that lead out of the prefix are refused.
fn target(vault: &Vault, path: &str) -> Result<String, NoFields> {
    let parts = vault.prefix.split('/').chain(path.split('/'));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(unknown("the path leads out of the keeper's prefix"));
    }
    Ok(format!("/v1/{}", parts.join("/")))
}

fn request(vault: &Vault, token: &str, path: &str) -> Result<Request<Bytes>, NoFields> {
    let uri: Uri = vault.uri.parse().map_err(unknown)?;
    let authority = uri.authority().ok_or_else(|| unknown("its uri names no host"))?;
    let scheme = uri.scheme_str().unwrap_or("http");
    let base = uri.path().trim_end_matches('/');
    let url = format!("{scheme}://{authority}{base}{}", target(vault, path)?);
    let mut request = Request::get(url)
        .header(ACCEPT, "application/json")
        .header("X-Vault-Request", "true")
        .header("X-Vault-Token", token);
    if let Some(namespace) = &vault.namespace {
        request = request.header("X-Vault-Namespace", namespace.as_str());
    }
    request.body(Bytes::new()).map_err(unknown)
}

/// Parses a response. Version 2 of the engine nests the fields under `data.data`, beside
/// `metadata`, and answers 404 for a deleted version too.
fn read(status: StatusCode, body: &[u8]) -> Result<Fields, NoFields> {
    match status {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Err(NoFields::Gone),
        other => return Err(unknown(format!("status {}", other.as_u16()))),
    }
    // Error texts never quote the body, because it may be the secret.
    let answer: Value =
        serde_json::from_slice(body).map_err(|_| unknown("the answer is not valid JSON"))?;
    let Some(data) = answer.get("data") else { return Err(unknown("the answer has no data")) };
    let is_versioned =
        data.get("metadata").is_some_and(Value::is_object) && data.get("data").is_some();
    let data = if is_versioned { &data["data"] } else { data };
    let Value::Object(fields) = data else { return Err(NoFields::Gone) };
    let texts = fields.iter().filter_map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => return None,
            // Numbers and booleans as text, lists and objects as JSON.
            other => other.to_string(),
        };
        Some((name.clone(), SecretText::new(text)))
    });
    Ok(texts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(prefix: &str) -> Vault {
        Vault {
            uri: "http://127.0.0.1:1".into(),
            prefix: prefix.into(),
            token: SecretText::new("t"),
            namespace: None,
        }
    }

    #[test]
    fn a_path_stays_below_the_prefix() {
        for (prefix, path, expected) in [
            ("kv/apisix", "jack", Some("/v1/kv/apisix/jack")),
            ("/kv//apisix/", "a/./b", Some("/v1/kv/apisix/a/b")),
            ("kv/apisix", "../other", None),
            ("kv/apisix", "a/../../other", None),
        ] {
            assert_eq!(target(&vault(prefix), path).ok().as_deref(), expected, "{prefix} {path}");
        }
    }

    #[test]
    fn answers_of_both_versions_are_read() {
        let fields = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            let read = read(status, body.as_bytes())?;
            let shown = read.iter().map(|(name, value)| format!("{name}={}", value.expose()));
            Ok::<_, NoFields>(shown.collect::<Vec<_>>().join(" "))
        };
        let good = [
            (r#"{"data":{"key":"k","port":7,"none":null}}"#, "key=k port=7"),
            (r#"{"data":{"data":{"key":"k"},"metadata":{"version":3}}}"#, "key=k"),
            // Engine version 1, with a field named `data`.
            (r#"{"data":{"data":"x"}}"#, "data=x"),
        ];
        for (body, expected) in good {
            assert_eq!(fields(200, body).as_deref(), Ok(expected), "{body}");
        }
        let deleted = r#"{"data":{"data":null,"metadata":{"deletion_time":"2026"}}}"#;
        for (status, body) in [(404, "{}"), (404, deleted), (200, deleted)] {
            assert_eq!(fields(status, body), Err(NoFields::Gone), "{status} {body}");
        }
        for (status, body) in [(403, "{}"), (500, ""), (307, ""), (200, "k"), (200, "{}")] {
            assert!(matches!(fields(status, body), Err(NoFields::Unknown(_))), "{status} {body}");
        }
    }
}
