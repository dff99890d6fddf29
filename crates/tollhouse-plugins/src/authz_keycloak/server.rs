//! Requests to Keycloak: discovery, the gateway's own token, resources, decisions.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tollhouse_plugin::Moment;

use super::Config;
use crate::http_client::{Call, ClientError, HttpClient, Repeat, Reuse, Target};
use crate::oidc::form::{encode, with_query};
use crate::oidc::{Cached, Unavailable};
use crate::shared::auth::secret::SecretText;

/// Longest answer of Keycloak, in bytes.
const REPLY_BYTES_MAX: usize = 1 << 20;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:uma-ticket";

/// Keycloak as the conf describes it, with what it has told before.
#[derive(Debug)]
pub(super) struct Keycloak {
    client: HttpClient,
    client_id: String,
    client_secret: Option<SecretText>,
    discovery: Option<String>,
    discovery_age_max_ms: u64,
    token_endpoint: Option<String>,
    resource_endpoint: Option<String>,
    access_lifetime_s: u64,
    access_leeway_s: u64,
    document: Cached<Value>,
    own_token: Cached<OwnToken>,
}

/// Token of the gateway itself.
#[derive(Debug)]
struct OwnToken {
    token: SecretText,
    /// Monotonic milliseconds.
    end_ms: u64,
}

/// Answer of an endpoint.
pub(super) struct EndpointReply {
    pub status: u16,
    pub body: Vec<u8>,
}

impl EndpointReply {
    /// Whether a decision grants the request.
    pub(super) fn is_granted(&self) -> bool {
        let decision = serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
        decision["result"] == true
    }

    pub(super) fn is_json(&self) -> bool {
        serde_json::from_slice::<serde::de::IgnoredAny>(&self.body).is_ok()
    }
}

/// Why Keycloak gives no usable answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    NoEndpoint(&'static str),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("bad address: {0}")]
    Address(String),
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Keycloak {
    pub(super) fn new(config: &Config) -> Self {
        let idle = Duration::from_millis(config.keepalive_timeout);
        let connections_max = usize::try_from(config.keepalive_pool).unwrap_or(usize::MAX);
        let reuse = match config.keepalive {
            true => Reuse::For { idle, connections_max },
            false => Reuse::Never,
        };
        let timeout = Duration::from_millis(config.timeout);
        let client = HttpClient::new(timeout, config.ssl_verify.into(), reuse);
        let client = client.with_replies_up_to(REPLY_BYTES_MAX);
        let named = config.discovery.iter().chain(&config.token_endpoint);
        let client = named.filter_map(|uri| Target::parse(uri).ok()).fold(client, |client, target| {
            client.prepared_for(&target)
        });
        Self {
            client,
            client_id: config.client_id.clone(),
            client_secret: config.client_secret.clone(),
            discovery: config.discovery.clone(),
            discovery_age_max_ms: config.cache_ttl_seconds.saturating_mul(1_000),
            token_endpoint: config.token_endpoint.clone(),
            resource_endpoint: config.resource_registration_endpoint.clone(),
            access_lifetime_s: config.access_token_expires_in,
            access_leeway_s: config.access_token_expires_leeway,
            document: Cached::default(),
            own_token: Cached::default(),
        }
    }

    /// Asks whether a token grants a permission; without one, whether it grants any.
    pub(super) async fn decide(
        &self,
        token: &[u8],
        permission: Option<&str>,
        now: Moment,
    ) -> Result<EndpointReply, Failure> {
        let mut fields = vec![
            ("grant_type", GRANT_TYPE.to_owned()),
            ("audience", self.client_id.clone()),
            ("response_mode", "decision".to_owned()),
        ];
        fields.extend(permission.map(|it| ("permission", it.to_owned())));
        let endpoint = self.token_endpoint(now).await?;
        self.post(&endpoint, &fields, Some(token)).await
    }

    /// Exchanges a name and a password for tokens.
    pub(super) async fn password_grant(
        &self,
        username: String,
        password: String,
        now: Moment,
    ) -> Result<EndpointReply, Failure> {
        let mut fields = self.own_fields("password");
        fields.extend([("username", username), ("password", password)]);
        let endpoint = self.token_endpoint(now).await?;
        self.post(&endpoint, &fields, None).await
    }

    /// Returns the ids of the resources of a path.
    pub(super) async fn resources(&self, path: &str, now: Moment) -> Result<Vec<String>, Failure> {
        let missing = "Unable to determine registration endpoint.";
        let name = "resource_registration_endpoint";
        let endpoint = self.endpoint(self.resource_endpoint.as_deref(), name, missing, now).await?;
        let token = self.own_token(now).await?;
        let query = [("uri", path.to_owned()), ("matchingUri", "true".to_owned())];
        let bearer = format!("Bearer {}", token.as_str());
        let headers = vec![("Authorization".to_owned(), bearer.into_bytes())];
        let reply = self.send("GET", &with_query(&endpoint, &query), headers, Bytes::new()).await?;
        let unusable = |reason: String| Unavailable::new("resources", reason).into();
        if reply.status != 200 {
            return Err(unusable(format!("status {}", reply.status)));
        }
        serde_json::from_slice(&reply.body).map_err(|error| unusable(error.to_string()))
    }

    /// Returns the gateway's own token, renewed if it has expired.
    async fn own_token(&self, now: Moment) -> Result<SecretText, Failure> {
        let fetch = async || {
            let endpoint = self.token_endpoint(now).await.map_err(|it| unavailable("token", &it))?;
            let fields = self.own_fields("client_credentials");
            let reply = self.post(&endpoint, &fields, None).await;
            let reply = reply.map_err(|failure| unavailable("token", &failure))?;
            self.read_token(&reply, now)
        };
        let ms = now.monotonic_ms;
        let token = self.own_token.get(ms, u64::MAX, fetch()).await?;
        let token = match token.end_ms > ms {
            true => Some(token),
            false => self.own_token.newer(&token, ms, fetch()).await,
        };
        let token = token.ok_or_else(|| Unavailable::new("token", "it has expired"))?;
        Ok(token.token.clone())
    }

    fn read_token(&self, reply: &EndpointReply, now: Moment) -> Result<OwnToken, Unavailable> {
        let unusable = |reason: &str| Unavailable::new("token", reason);
        if reply.status != 200 {
            return Err(unusable(&format!("status {}", reply.status)));
        }
        let document: Value =
            serde_json::from_slice(&reply.body).map_err(|error| unusable(&error.to_string()))?;
        let token = document["access_token"].as_str();
        let token = token.ok_or_else(|| unusable("it does not contain access_token"))?;
        let lasts_s = document["expires_in"].as_u64().unwrap_or(self.access_lifetime_s);
        let lasts_s = lasts_s.saturating_sub(1 + self.access_leeway_s);
        let end_ms = now.monotonic_ms.saturating_add(lasts_s.saturating_mul(1_000));
        Ok(OwnToken { token: token.to_owned().into(), end_ms })
    }

    fn own_fields(&self, grant_type: &str) -> Vec<(&'static str, String)> {
        let mut fields = vec![
            ("grant_type", grant_type.to_owned()),
            ("client_id", self.client_id.clone()),
        ];
        let secret = self.client_secret.as_ref();
        fields.extend(secret.map(|secret| ("client_secret", secret.as_str().to_owned())));
        fields
    }

    async fn token_endpoint(&self, now: Moment) -> Result<String, Failure> {
        let missing = "Unable to determine token endpoint.";
        self.endpoint(self.token_endpoint.as_deref(), "token_endpoint", missing, now).await
    }

    /// Returns an endpoint: that of the conf, or else that of the discovery document.
    async fn endpoint(
        &self,
        configured: Option<&str>,
        name: &str,
        missing: &'static str,
        now: Moment,
    ) -> Result<String, Failure> {
        if let Some(endpoint) = configured {
            return Ok(endpoint.to_owned());
        }
        let Some(discovery) = &self.discovery else { return Err(Failure::NoEndpoint(missing)) };
        let fetch = async {
            let reply = self.send("GET", discovery, Vec::new(), Bytes::new()).await;
            let reply = reply.map_err(|failure| unavailable("discovery", &failure))?;
            let unusable = |reason: String| Unavailable::new("discovery", reason);
            match reply.status {
                200 => serde_json::from_slice::<Value>(&reply.body)
                    .map_err(|error| unusable(error.to_string())),
                status => Err(unusable(format!("status {status}"))),
            }
        };
        let document =
            self.document.get(now.monotonic_ms, self.discovery_age_max_ms, fetch).await?;
        let endpoint = document[name].as_str().ok_or(Failure::NoEndpoint(missing))?;
        Ok(endpoint.to_owned())
    }

    async fn post(
        &self,
        endpoint: &str,
        fields: &[(&str, String)],
        token: Option<&[u8]>,
    ) -> Result<EndpointReply, Failure> {
        let kind = b"application/x-www-form-urlencoded".to_vec();
        let mut headers = vec![("Content-Type".to_owned(), kind)];
        headers.extend(token.map(|token| ("Authorization".to_owned(), token.to_vec())));
        self.send("POST", endpoint, headers, encode(fields).into()).await
    }

    async fn send(
        &self,
        method: &str,
        address: &str,
        headers: Vec<(String, Vec<u8>)>,
        body: Bytes,
    ) -> Result<EndpointReply, Failure> {
        let target = Target::parse(address).map_err(|error| Failure::Address(error.to_string()))?;
        let path = target.path.clone().into_bytes();
        let method = method.as_bytes().to_vec();
        // Each request is a question that may be asked twice.
        let call = Call { method, path, headers, body, repeat: Repeat::Always };
        let reply = self.client.send(&target, call).await?;
        Ok(EndpointReply { status: reply.status, body: reply.body.to_vec() })
    }
}

fn unavailable(what: &'static str, failure: &Failure) -> Unavailable {
    Unavailable::new(what, failure.to_string())
}
