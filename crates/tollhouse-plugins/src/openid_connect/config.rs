//! Configuration of `openid-connect`, with APISIX's field names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::oidc::AssertionAlgorithm;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

/// Configuration of `openid-connect`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Client id at the provider.
    pub client_id: String,
    /// Client secret at the provider. Required, unless the client needs none, for instance with
    /// `use_pkce` or `private_key_jwt`.
    pub client_secret: Option<SecretText>,
    /// Address of the provider's discovery document: `https://…/.well-known/openid-configuration`.
    pub discovery: String,
    /// Scopes requested at login, separated by spaces; `openid` by default.
    #[serde(default = "default_scope")]
    pub scope: String,
    /// Whether the provider's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Timeout for answers of the provider, in seconds; 3 by default. Multiples of 1,000 count as
    /// milliseconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// Realm in `WWW-Authenticate`; `apisix` by default.
    #[serde(default = "default_realm")]
    pub realm: String,
    /// Whether only tokens are accepted and logins are off. Set it for APIs without browsers.
    #[serde(default)]
    pub bearer_only: bool,
    /// Treatment of requests without a valid token or session: redirect to the provider (`auth`,
    /// the default), refusal with 401 (`deny`), or pass without a user (`pass`).
    #[serde(default)]
    pub unauth_action: UnauthAction,
    /// Public key that verifies tokens, as PEM.
    pub public_key: Option<String>,
    /// Whether tokens are verified with the keys that the provider publishes (JWKS); off by
    /// default.
    #[serde(default)]
    pub use_jwks: bool,
    /// Seconds after which published keys are fetched again; one day by default.
    #[serde(default = "default_jwk_expires_in")]
    #[schemars(range(min = 0))]
    pub jwk_expires_in: u64,
    /// Accepted signature algorithms, such as `RS256`, separated by spaces. Unset: all supported
    /// ones.
    pub token_signing_alg_values_expected: Option<String>,
    /// Whether an unsigned ID token is accepted if it comes directly from the provider; off by
    /// default.
    #[serde(default)]
    pub accept_none_alg: bool,
    /// No effect: tokens with unknown algorithms are always refused.
    #[serde(default = "default_true")]
    pub accept_unsupported_alg: bool,
    /// Largest difference between the provider's and the gateway's clock, in seconds; 120 by
    /// default.
    #[serde(default = "default_iat_slack")]
    #[schemars(range(min = 0))]
    pub iat_slack: u64,
    /// No effect: each token is verified.
    #[serde(default)]
    pub jwt_verification_cache_ignore: bool,
    /// Introspection endpoint. Unset: the one in the provider's discovery document.
    pub introspection_endpoint: Option<String>,
    /// Client authentication at the introspection endpoint: `client_secret_basic` (the default),
    /// `client_secret_post`, `client_secret_jwt` or `private_key_jwt`.
    #[serde(default = "default_auth_method")]
    pub introspection_endpoint_auth_method: String,
    /// Headers of the request that are also sent to the introspection endpoint.
    #[schemars(length(min = 1), inner(regex(pattern = "^[^:]+$")))]
    pub introspection_addon_headers: Option<Vec<String>>,
    /// Claim in introspection answers with the end of their validity; `exp` by default.
    #[serde(default = "default_expiry_claim")]
    pub introspection_expiry_claim: String,
    /// Longest time for which an introspection answer is cached, in seconds. 0, the default, caches
    /// it as long as the token is valid.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub introspection_interval: u64,
    /// Namespace of cached introspection answers. Set it to separate them from those of other
    /// confs.
    pub cache_segment: Option<String>,
    /// Scopes that a token must have been granted.
    #[serde(default)]
    pub required_scopes: Vec<String>,
    /// Requirements on the claims of a token.
    pub claim_validator: Option<ClaimValidator>,
    /// JSON Schema for the claims of a token, or for `user`, `access_token` and `id_token` of a
    /// logged-in user.
    pub claim_schema: Option<Map<String, Value>>,
    /// Address to which the provider sends browsers back: a path of the route, or a full URL.
    /// Unset: the requested path followed by `/.apisix/redirect`.
    pub redirect_uri: Option<String>,
    /// Path that ends a session; `/logout` by default.
    #[serde(default = "default_logout_path")]
    pub logout_path: String,
    /// Address to which browsers are redirected after a logout.
    pub post_logout_redirect_uri: Option<String>,
    /// Whether a logout revokes the tokens at the provider; off by default.
    #[serde(default)]
    pub revoke_tokens_on_logout: bool,
    /// Whether authorization codes are bound to the browser's login (PKCE); off by default.
    #[serde(default)]
    pub use_pkce: bool,
    /// Whether ID tokens must return the nonce of the login; off by default.
    #[serde(default)]
    pub use_nonce: bool,
    /// Additional query parameters for the redirect to the provider.
    pub authorization_params: Option<Map<String, Value>>,
    /// Pushed authorization requests: login parameters go to the provider directly instead of
    /// through the browser.
    pub par: Option<Par>,
    /// Client authentication at the token endpoint; same values as for introspection,
    /// `client_secret_basic` by default.
    #[serde(default = "default_auth_method")]
    pub token_endpoint_auth_method: String,
    /// Private key for `private_key_jwt`, as PEM.
    pub client_rsa_private_key: Option<SecretText>,
    /// Id of that key at the provider.
    pub client_rsa_private_key_id: Option<String>,
    /// Lifetime of signed client assertions, in seconds; 60 by default.
    #[serde(default = "default_assertion_lifetime")]
    #[schemars(range(min = 1))]
    pub client_jwt_assertion_expires_in: u64,
    /// Signature algorithm of client assertions.
    pub client_jwt_assertion_alg: Option<AssertionAlgorithm>,
    /// Audience of client assertions. Unset: the endpoint.
    pub client_jwt_assertion_audience: Option<String>,
    /// Sessions of logged-in users; required unless `bearer_only` is set.
    pub session: Option<Session>,
    /// Whether expired access tokens of sessions are renewed; on by default.
    #[serde(default = "default_true")]
    pub renew_access_token_on_expiry: bool,
    /// Lifetime of access tokens in seconds, if the provider does not report one.
    pub access_token_expires_in: Option<u64>,
    /// Seconds before their expiry at which access tokens are renewed; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub access_token_expires_leeway: u64,
    /// Seconds after which the provider is asked again who the user is. Unset: never.
    pub refresh_session_interval: Option<u64>,
    /// Not supported.
    #[serde(default)]
    pub force_reauthorize: bool,
    /// Whether nodes get the access token; on by default.
    #[serde(default = "default_true")]
    pub set_access_token_header: bool,
    /// Whether nodes get the access token in `Authorization` instead of `X-Access-Token`.
    #[serde(default)]
    pub access_token_in_authorization_header: bool,
    /// Whether nodes get the claims of the ID token in `X-ID-Token`, as base64 of JSON; on by
    /// default.
    #[serde(default = "default_true")]
    pub set_id_token_header: bool,
    /// Whether nodes get the signed ID token in `X-Raw-ID-Token`; off by default.
    #[serde(default)]
    pub set_raw_id_token_header: bool,
    /// Whether nodes get the user's data in `X-Userinfo`, as base64 of JSON; on by default.
    #[serde(default = "default_true")]
    pub set_userinfo_header: bool,
    /// Whether nodes get the refresh token in `X-Refresh-Token`; off by default.
    #[serde(default)]
    pub set_refresh_token_header: bool,
    /// Not supported.
    pub dpop: Option<Dpop>,
    /// Not supported.
    pub proxy_opts: Option<Map<String, Value>>,
    /// Fields of no name above: ignored, but for those of [`FLAT_OPTIONS`], which are refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: Map<String, Value>,
}

/// Options of lua-resty-openidc by their original names, and the field of a conf in which each
/// belongs. These options are refused, as in APISIX: they would have no effect, and a key would be
/// kept in the clear.
pub const FLAT_OPTIONS: [(&str, &str); 7] = [
    ("use_par", "par.enabled"),
    ("pushed_authorization_request_endpoint", "par.endpoint"),
    ("pushed_authorization_request_endpoint_auth_method", "par.endpoint_auth_method"),
    ("use_dpop", "dpop.enabled"),
    ("dpop_signing_alg", "dpop.signing_alg"),
    ("dpop_private_key", "dpop.private_key"),
    ("dpop_public_jwk", "dpop.public_jwk"),
];

/// See [`Config::unauth_action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnauthAction {
    #[default]
    Auth,
    Deny,
    Pass,
}

/// Requirements on the claims of a token.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ClaimValidator {
    /// Accepted issuers.
    pub issuer: Option<IssuerRule>,
    /// Required audience.
    pub audience: Option<AudienceRule>,
}

/// Accepted issuers.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct IssuerRule {
    /// Names of the issuers. Unset: only the provider.
    pub valid_issuers: Option<Vec<String>>,
}

/// Required audience.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AudienceRule {
    /// Claim that holds the audience; `aud` by default.
    #[serde(default = "default_audience_claim")]
    pub claim: String,
    /// Whether the claim must exist; off by default.
    #[serde(default)]
    pub required: bool,
    /// Whether the claim must contain `client_id`; off by default. Set it if the provider also
    /// issues tokens for other services.
    #[serde(default)]
    pub match_with_client_id: bool,
}

/// Pushed authorization requests (RFC 9126).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Par {
    /// Whether they are used; off by default.
    #[serde(default)]
    pub enabled: bool,
    /// Endpoint for them. Unset: the one in the provider's discovery document.
    pub endpoint: Option<String>,
    /// Client authentication at that endpoint. Unset: the same as at the token endpoint.
    #[schemars(extend("enum" = [
        "client_secret_basic", "client_secret_post", "private_key_jwt", "client_secret_jwt",
    ]))]
    pub endpoint_auth_method: Option<String>,
}

/// Tokens bound to a key (DPoP). Not supported.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dpop {
    /// Not supported.
    #[serde(default)]
    pub enabled: bool,
    /// The algorithm of proofs.
    #[serde(default)]
    pub signing_alg: DpopAlgorithm,
    /// The key that proofs are signed with, as PEM.
    pub private_key: Option<SecretText>,
    /// The public part of the key, as a JWK.
    pub public_jwk: Option<Map<String, Value>>,
}

/// See [`Dpop::signing_alg`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
pub enum DpopAlgorithm {
    #[default]
    ES256,
    RS256,
    PS256,
}

/// Sessions of logged-in users.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Secret with which session cookies are sealed; the same on all gateways of a site.
    #[schemars(length(min = 16))]
    pub secret: SecretText,
    /// Storage of sessions. Only `cookie`, the default, is supported.
    #[serde(default)]
    pub storage: Storage,
    /// Lifetime of cookies.
    pub cookie: Option<Cookie>,
    /// Cookie name; `session` by default.
    #[schemars(length(min = 1))]
    pub cookie_name: Option<String>,
    /// Cookie path; `/` by default.
    pub cookie_path: Option<String>,
    /// Cookie domain. Unset: only the requested host.
    pub cookie_domain: Option<String>,
    /// Whether scripts are kept from the cookie (`HttpOnly`); on by default.
    pub cookie_http_only: Option<bool>,
    /// Whether the cookie is sent over TLS only (`Secure`). Unset: if the client uses TLS.
    pub cookie_secure: Option<bool>,
    /// Sending of the cookie with requests from other sites (`SameSite`); `Lax` by
    /// default. `Strict` also withholds it on the return from the provider.
    #[schemars(extend("default" = "Lax"))]
    pub cookie_same_site: Option<SameSiteName>,
    /// Seconds without use after which a session ends; 900 by default, 0 disables this limit.
    pub idling_timeout: Option<u64>,
    /// Seconds after which a session ends unless it is extended; 3600 by default. Use in the last
    /// quarter of that time extends it.
    pub rolling_timeout: Option<u64>,
    /// Seconds after which a session ends in any case; 86400 by default.
    pub absolute_timeout: Option<u64>,
    /// Not supported.
    pub redis: Option<Redis>,
}

/// Lifetime of cookies; see [`Session::cookie`].
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Cookie {
    /// Lifetime in seconds. Replaces the default of `rolling_timeout`; browsers keep the cookie as
    /// long.
    pub lifetime: Option<u64>,
}

/// Redis storage of sessions. Not supported.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Redis {
    /// Password.
    pub password: Option<SecretText>,
}

/// Storage of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    #[default]
    Cookie,
    Redis,
}

/// See [`Session::cookie_same_site`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum SameSiteName {
    Strict,
    Lax,
    None,
    Default,
}

defaults! {
    default_scope: String = "openid".into();
    default_timeout: u64 = 3;
    default_realm: String = "apisix".into();
    default_jwk_expires_in: u64 = 86_400;
    default_iat_slack: u64 = 120;
    default_auth_method: String = "client_secret_basic".into();
    default_expiry_claim: String = "exp".into();
    default_logout_path: String = "/logout".into();
    default_assertion_lifetime: u64 = 60;
    default_audience_claim: String = "aud".into();
}
