//! Identity provider: its endpoints and signing keys. Both are fetched once for all callers, kept
//! while the provider is down, and validated before use.

use std::time::Duration;

use serde_json::{Map, Value};

use std::sync::Arc;

use bytes::Bytes;

use super::cached::Cached;
use super::error::Unavailable;
use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target};
use crate::shared::auth::jwt::{Algorithm, KeySet, Signature, Token};
use crate::shared::dial::Verification;

/// Maximum length of an answer in bytes. Documents, keys and tokens have a few thousand.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// Age in milliseconds from which the document is fetched again.
const DOCUMENT_AGE_MAX_MS: u64 = 3_600_000;

/// Idle time of connections, and their number per core.
const REUSE: Reuse = Reuse::For { idle: Duration::from_secs(30), connections_max: 8 };

/// Discovery document (OpenID Connect Discovery §3), with the fields in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Document {
    /// Issuer identifier; empty without a discovery document.
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) jwks_uri: Option<String>,
    pub(crate) userinfo_endpoint: Option<String>,
    pub(crate) introspection_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) end_session_endpoint: Option<String>,
    pub(crate) pushed_authorization_request_endpoint: Option<String>,
    /// Whether redirects to us contain the issuer (RFC 9207).
    pub(crate) names_itself: bool,
}

/// Origin of the provider's endpoints.
#[derive(Debug)]
pub(crate) enum Source {
    /// Discovery document, fetched from this address.
    Discovery {
        address: String,
        /// Required issuer; `None` if the operator configured only the address.
        issuer: Option<String>,
    },
    /// The document is part of the configuration.
    Fixed(Arc<Document>),
}

/// Path of a document below its issuer's address (OpenID Connect Discovery §4).
const DOCUMENT_PATH: &str = "/.well-known/openid-configuration";

impl Source {
    /// Returns a source that accepts only this issuer (OpenID Connect Discovery §4.3).
    pub(crate) fn issuer(issuer: &str) -> Self {
        let address = format!("{issuer}{DOCUMENT_PATH}");
        Self::Discovery { address, issuer: Some(issuer.to_owned()) }
    }

    /// Returns a source at this address that accepts any issuer.
    pub(crate) fn address(address: &str) -> Self {
        Self::Discovery { address: address.to_owned(), issuer: None }
    }
}

/// Request to an endpoint of the provider.
#[derive(Debug)]
pub(crate) struct ProviderRequest<'r> {
    /// Purpose of the request, for the log.
    pub(crate) what: &'static str,
    pub(crate) address: &'r str,
    pub(crate) method: &'static str,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: String,
}

impl<'r> ProviderRequest<'r> {
    pub(crate) fn get(
        what: &'static str,
        address: &'r str,
        headers: Vec<(String, Vec<u8>)>,
    ) -> Self {
        Self { what, address, method: "GET", headers, body: String::new() }
    }
}

/// Answer of an endpoint, read whole.
#[derive(Debug)]
pub(crate) struct ProviderReply {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// HTTP client for the provider's endpoints. Neither follows redirects; both have limits of time
/// and size.
#[derive(Debug)]
enum Transport {
    /// Client of the data plane, which keeps connections for each core.
    Core(HttpClient),
    /// Client of the control side.
    Control(tollhouse_web::Client),
}

#[derive(Debug)]
pub(crate) struct Provider {
    source: Source,
    transport: Transport,
    document: Cached<Document>,
    keys: Cached<KeySet>,
}

impl Provider {
    /// Returns a provider with this timeout for its answers.
    pub(crate) fn new(source: Source, timeout: Duration, verification: Verification) -> Self {
        let client = HttpClient::new(timeout, verification, REUSE);
        let mut client = client.with_replies_up_to(REPLY_BYTES_MAX);
        let address = match &source {
            Source::Discovery { address, .. } => Some(address),
            Source::Fixed(document) => document.token_endpoint.as_ref(),
        };
        if let Some(target) = address.and_then(|address| Target::parse(address).ok()) {
            client = client.prepared_for(&target);
        }
        Self::over(Transport::Core(client), source)
    }

    /// Returns a provider for the control side.
    pub(crate) fn for_control(source: Source, client: tollhouse_web::Client) -> Self {
        Self::over(Transport::Control(client), source)
    }

    fn over(transport: Transport, source: Source) -> Self {
        Self { source, transport, document: Cached::default(), keys: Cached::default() }
    }

    /// Returns the discovery document.
    ///
    /// # Errors
    /// If no valid document has ever been fetched.
    pub(crate) async fn document(&self, now_ms: u64) -> Result<Arc<Document>, Unavailable> {
        match &self.source {
            Source::Fixed(document) => Ok(Arc::clone(document)),
            Source::Discovery { address, issuer } => {
                let fetch = async {
                    let document =
                        Document::read(&self.fetch("discovery", address).await?, address)?;
                    document.check_issuer(address, issuer.as_deref())?;
                    Ok(document)
                };
                self.document.get(now_ms, DOCUMENT_AGE_MAX_MS, fetch).await
            }
        }
    }

    /// Verifies a token with the provider's keys. If the token names an unknown key, the keys are
    /// fetched again, unless that was done shortly before.
    ///
    /// # Errors
    /// If no keys are available.
    pub(crate) async fn verify(
        &self,
        token: &Token<'_>,
        algorithm: Algorithm,
        now_ms: u64,
        age_max_ms: u64,
    ) -> Result<Signature, Unavailable> {
        let document = self.document(now_ms).await?;
        let address = document.jwks_uri.as_deref();
        let address =
            address.ok_or_else(|| Unavailable::new("keys", "no address of keys is known"))?;
        let fetch = || async {
            let keys = self.fetch("keys", address).await?;
            KeySet::read(&keys).map_err(|reason| Unavailable::new("keys", reason))
        };
        let keys = self.keys.get(now_ms, age_max_ms, fetch()).await?;
        let signature = keys.verify(token, algorithm);
        if signature != Signature::UnknownKey {
            return Ok(signature);
        }
        let newer = self.keys.newer(&keys, now_ms, fetch()).await;
        Ok(newer.map_or(signature, |keys| keys.verify(token, algorithm)))
    }

    /// Fetches a JSON document from an address.
    async fn fetch(&self, what: &'static str, address: &str) -> Result<Value, Unavailable> {
        let accept = vec![("Accept".to_owned(), b"application/json".to_vec())];
        let reply = self.send(ProviderRequest::get(what, address, accept)).await?;
        if reply.status != 200 {
            return Err(Unavailable::new(what, format!("it answers with status {}", reply.status)));
        }
        serde_json::from_slice(&reply.body)
            .map_err(|error| Unavailable::new(what, format!("its answer is not JSON: {error}")))
    }

    /// Fetches the data of the user of an access token; `None` without a usable answer.
    pub(crate) async fn userinfo(
        &self,
        endpoint: &str,
        access_token: &str,
    ) -> Option<Map<String, Value>> {
        let headers = vec![
            ("Authorization".to_owned(), format!("Bearer {access_token}").into_bytes()),
            ("Accept".to_owned(), b"application/json".to_vec()),
        ];
        let reply = self.send(ProviderRequest::get("userinfo", endpoint, headers)).await.ok()?;
        (reply.status == 200).then(|| serde_json::from_slice(&reply.body).ok()).flatten()
    }

    /// Sends a request and returns the answer, whatever its status. Redirects are not followed.
    ///
    /// # Errors
    /// If the provider does not answer.
    pub(crate) async fn send(
        &self,
        request: ProviderRequest<'_>,
    ) -> Result<ProviderReply, Unavailable> {
        let what = request.what;
        let sent = match &self.transport {
            Transport::Core(client) => send_from_core(client, request).await,
            Transport::Control(client) => send_from_control(client, request).await,
        };
        sent.map_err(|error| Unavailable::new(what, error))
    }
}

async fn send_from_core(
    client: &HttpClient,
    request: ProviderRequest<'_>,
) -> Result<ProviderReply, String> {
    let ProviderRequest { address, method, headers, body, .. } = request;
    let target = Target::parse(address).map_err(|error| error.to_string())?;
    let call = Call {
        method: method.into(),
        path: target.path.clone().into_bytes(),
        headers,
        body: body.into(),
        repeat: Repeat::ByMethod,
    };
    let reply = client.send(&target, call).await.map_err(|error| error.to_string())?;
    Ok(ProviderReply { status: reply.status, body: reply.body })
}

async fn send_from_control(
    client: &tollhouse_web::Client,
    request: ProviderRequest<'_>,
) -> Result<ProviderReply, String> {
    let ProviderRequest { address, method, headers, body, .. } = request;
    let mut sent = http::Request::builder().method(method).uri(address);
    for (name, value) in headers {
        sent = sent.header(name, value);
    }
    let sent = sent.body(Bytes::from(body)).map_err(|error| error.to_string())?;
    let reply = client.send(sent).await.map_err(|error| error.to_string())?;
    Ok(ProviderReply { status: reply.status().as_u16(), body: reply.into_body() })
}

impl Document {
    /// Checks the document's issuer against the configured one. If the operator has configured the document's address
    /// alone, another issuer is only logged: addresses within a cluster and those for many tenants seldom match it.
    ///
    /// # Errors
    /// If `issuer` is configured and the document names another.
    fn check_issuer(&self, address: &str, issuer: Option<&str>) -> Result<(), Unavailable> {
        let found = self.issuer.trim_end_matches('/');
        if issuer.is_some_and(|issuer| issuer.trim_end_matches('/') != found) {
            let reason = format!("it is about another issuer: {}", self.issuer);
            return Err(Unavailable::new("discovery", reason));
        }
        if address.strip_suffix(DOCUMENT_PATH) != Some(found) {
            let issuer = &self.issuer;
            tracing::warn!(
                address,
                issuer,
                "the identity provider's document names another issuer"
            );
        }
        Ok(())
    }

    /// Parses the discovery document from `address`.
    fn read(document: &Value, address: &str) -> Result<Self, Unavailable> {
        let wrong = |reason: String| Unavailable::new("discovery", reason);
        let fields = document.as_object().ok_or_else(|| wrong("it is not an object".to_owned()))?;
        let issuer = fields.get("issuer").and_then(Value::as_str).unwrap_or_default();
        if issuer.is_empty() {
            return Err(wrong("it names no issuer".to_owned()));
        }
        let endpoint = |name: &'static str| endpoint(fields, name, address);
        let names_itself = fields.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            jwks_uri: endpoint("jwks_uri")?,
            userinfo_endpoint: endpoint("userinfo_endpoint")?,
            introspection_endpoint: endpoint("introspection_endpoint")?,
            revocation_endpoint: endpoint("revocation_endpoint")?,
            end_session_endpoint: endpoint("end_session_endpoint")?,
            pushed_authorization_request_endpoint: endpoint(
                "pushed_authorization_request_endpoint",
            )?,
            names_itself: names_itself.and_then(Value::as_bool) == Some(true),
        })
    }
}

/// Returns an endpoint's address. If the document came over TLS, its endpoints must use TLS too.
fn endpoint(
    fields: &Map<String, Value>,
    name: &'static str,
    document_address: &str,
) -> Result<Option<String>, Unavailable> {
    let wrong =
        |reason: &dyn std::fmt::Display| Unavailable::new("discovery", format!("{name}: {reason}"));
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(address)) => {
            Target::parse(address).map_err(|error| wrong(&error))?;
            if !is_clean(address) {
                return Err(wrong(&"it contains characters that are invalid in an address"));
            }
            if is_https(document_address) && !is_https(address) {
                return Err(wrong(&"it is not https, and the document is"));
            }
            Ok(Some(address.clone()))
        }
        Some(_) => Err(wrong(&"it is not a text")),
    }
}

fn is_https(address: &str) -> bool {
    address.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// Whether an address is valid in a `Location` as it is.
pub(crate) fn is_clean(address: &str) -> bool {
    address.bytes().all(|byte| matches!(byte, 0x21..=0x7e) && !b"\"<>\\^`{|}".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_about_another_issuer_is_not_believed_where_one_is_named() {
        let document = Document { issuer: "https://id.test/".to_owned(), ..Document::default() };
        for (issuer, is_good) in [
            (None, true),
            (Some("https://id.test"), true),
            (Some("https://id.test/"), true),
            (Some("https://id.test/a"), false),
            (Some("http://id.test"), false),
        ] {
            let address = "http://inside/.well-known/openid-configuration";
            assert_eq!(document.check_issuer(address, issuer).is_ok(), is_good, "{issuer:?}");
        }
    }

    #[test]
    fn a_document_is_believed_where_it_is_what_it_has_to_be() {
        let address = "https://id.test/.well-known/openid-configuration";
        let good = json!({"issuer": "https://id.test", "token_endpoint": "https://id.test/token",
            "userinfo_endpoint": null, "authorization_response_iss_parameter_supported": true});
        let read = Document::read(&good, address).expect("it is good");
        assert_eq!(read.token_endpoint.as_deref(), Some("https://id.test/token"));
        assert_eq!((read.userinfo_endpoint, read.names_itself), (None, true));
        for (document, reason) in [
            (json!([]), "not an object"),
            (json!({}), "no issuer"),
            (json!({"issuer": 7}), "no issuer"),
            (json!({"issuer": "i", "jwks_uri": 7}), "jwks_uri: it is not a text"),
            (json!({"issuer": "i", "jwks_uri": "file:///etc/passwd"}), "neither http nor https"),
            (json!({"issuer": "i", "token_endpoint": "http://id.test/token"}), "not https"),
            (json!({"issuer": "i", "authorization_endpoint": "https://a/\r\nX: 1"}), "characters"),
        ] {
            let error = Document::read(&document, address).expect_err(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
