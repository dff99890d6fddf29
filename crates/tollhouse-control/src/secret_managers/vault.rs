//! HashiCorp Vault client: reads one path of a key-value engine, version 1 or 2, with limits on
//! time and size.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, CONNECTION, HOST};
use axum::http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpStream, lookup_host};
use tollhouse_model::secret::{SecretText, Vault};
use tollhouse_net::connect::connect_tls;
use tollhouse_net::stream::Stream;
use tollhouse_net::tls::{self, Trust};

/// Timeout from the DNS query to the last byte; equals APISIX's.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Limit of a response head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Limit of header lines in a response.
const HEADER_LINES_MAX: usize = 64;

/// Limit of a response body, in bytes: Vault stores no larger entry.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

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
    match tokio::time::timeout(TIME_MAX, exchange(vault, token, path)).await {
        Ok(answered) => answered,
        Err(_) => Err(unknown(format!("no answer within {} s", TIME_MAX.as_secs()))),
    }
}

fn unknown(reason: impl std::fmt::Display) -> NoFields {
    NoFields::Unknown(reason.to_string())
}

/// Request path. Paths that lead out of the prefix are refused.
fn target(vault: &Vault, path: &str) -> Result<String, NoFields> {
    let parts = vault.prefix.split('/').chain(path.split('/'));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(unknown("the path leads out of the keeper's prefix"));
    }
    Ok(format!("/v1/{}", parts.join("/")))
}

async fn exchange(vault: &Vault, token: &str, path: &str) -> Result<Fields, NoFields> {
    let uri: Uri = vault.uri.parse().map_err(unknown)?;
    let authority = uri.authority().ok_or_else(|| unknown("its uri names no host"))?;
    let target = format!("{}{}", uri.path().trim_end_matches('/'), target(vault, path)?);
    let host = authority.as_str().rsplit('@').next().unwrap_or_default();
    let mut request = Request::get(target)
        .header(HOST, host)
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .header("X-Vault-Request", "true")
        .header("X-Vault-Token", token);
    if let Some(namespace) = &vault.namespace {
        request = request.header("X-Vault-Namespace", namespace.as_str());
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(unknown)?;
    let is_encrypted = uri.scheme_str() == Some("https");
    let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let name = authority.host().trim_matches(['[', ']']);
    let (status, body) = if is_encrypted {
        let connector = tls::connector(None, Trust::System).map_err(unknown)?;
        let mut addresses = lookup_host((name, port)).await.map_err(unknown)?;
        let address = addresses.next().ok_or_else(|| unknown("its name has no address"))?;
        let Stream::Tls(stream) = connect_tls(address, &connector, name).await.map_err(unknown)?
        else {
            return Err(unknown("no encrypted connection"));
        };
        send(stream, request).await?
    } else {
        let stream = TcpStream::connect((name, port)).await.map_err(unknown)?;
        send(stream, request).await?
    };
    read(status, &body)
}

async fn send<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<(StatusCode, Bytes), NoFields>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADER_LINES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(unknown)?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await.map_err(unknown)?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| unknown(format!("the answer cannot be read: {error}")))?;
        Ok((head.status, body.to_bytes()))
    };
    // Polls the connection together with the request. The connection may end before the request has
    // its complete response, and its error shows in the request's result.
    let (mut exchange, mut connection) = (pin!(exchange), pin!(connection));
    let mut has_ended = false;
    poll_fn(|context| {
        has_ended = has_ended || connection.as_mut().poll(context).is_ready();
        exchange.as_mut().poll(context)
    })
    .await
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
