//! What a route says, in APISIX's words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::oidc::AssertionAlgorithm;

/// What a route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// The client's id at the provider.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: Option<SecretText>,
    /// Where the provider's discovery document is: `https://…/.well-known/openid-configuration`.
    pub discovery: String,
    /// What is asked for at log-in: words with spaces between them.
    #[serde(default = "default_scope")]
    pub scope: String,
    /// Whether the provider's certificate is verified.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Seconds that an answer of the provider is waited for.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1))]
    pub timeout: u64,
    /// What clients are told that the token is for.
    #[serde(default = "default_realm")]
    pub realm: String,
    /// Whether nobody logs in: only tokens count.
    #[serde(default)]
    pub bearer_only: bool,
    /// What becomes of requests without a good token or session: they are sent to the provider (`auth`), refused
    /// with 401 (`deny`), or pass as nobody's (`pass`).
    #[serde(default)]
    pub unauth_action: UnauthAction,
    /// The public key that verifies tokens, as PEM.
    pub public_key: Option<String>,
    /// Whether tokens are verified by the keys that the provider publishes.
    #[serde(default)]
    pub use_jwks: bool,
    /// Seconds after which published keys are fetched again.
    #[serde(default = "default_jwk_expires_in")]
    #[schemars(range(min = 0))]
    pub jwk_expires_in: u64,
    /// The algorithms that tokens may be signed by, such as `RS256`, with spaces between them.
    pub token_signing_alg_values_expected: Option<String>,
    /// Whether an ID token may be unsigned where it comes from the provider itself.
    #[serde(default)]
    pub accept_none_alg: bool,
    /// Changes nothing: tokens of algorithms that are not known are refused.
    #[serde(default = "default_true")]
    pub accept_unsupported_alg: bool,
    /// Seconds by which the provider's clock may differ.
    #[serde(default = "default_iat_slack")]
    #[schemars(range(min = 0))]
    pub iat_slack: u64,
    /// Changes nothing: each token is verified.
    #[serde(default)]
    pub jwt_verification_cache_ignore: bool,
    /// Where the provider is asked about tokens; by default where its document says.
    pub introspection_endpoint: Option<String>,
    /// How the client shows there who it is: `client_secret_basic`, `client_secret_post`, `client_secret_jwt` or
    /// `private_key_jwt`.
    #[serde(default = "default_auth_method")]
    pub introspection_endpoint_auth_method: String,
    /// Headers of a request that the provider gets when it is asked about its token.
    #[schemars(length(min = 1), inner(regex(pattern = "^[^:]+$")))]
    pub introspection_addon_headers: Option<Vec<String>>,
    /// The claim that says until when an answer about a token counts.
    #[serde(default = "default_expiry_claim")]
    pub introspection_expiry_claim: String,
    /// Seconds that such an answer counts at most; 0 for as long as the token does.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub introspection_interval: u64,
    /// Keeps answers about tokens apart from those of other confs.
    pub cache_segment: Option<String>,
    /// Scopes that must have been granted.
    #[serde(default)]
    pub required_scopes: Vec<String>,
    /// What claims of a token must be.
    pub claim_validator: Option<ClaimValidator>,
    /// A JSON schema: of a token's claims, or of `user`, `access_token` and `id_token` of who has logged in.
    pub claim_schema: Option<Map<String, Value>>,
    /// Where the provider sends browsers back to: a path of the route, or an address with one.
    pub redirect_uri: Option<String>,
    /// The path that ends a session.
    #[serde(default = "default_logout_path")]
    pub logout_path: String,
    /// Where browsers go after that.
    pub post_logout_redirect_uri: Option<String>,
    /// Whether the provider is told then that the tokens are of no use any more.
    #[serde(default)]
    pub revoke_tokens_on_logout: bool,
    /// Whether codes are bound to who was sent for them (PKCE).
    #[serde(default)]
    pub use_pkce: bool,
    /// Whether ID tokens have to bring back the nonce that was sent along.
    #[serde(default)]
    pub use_nonce: bool,
    /// More parameters for the way to the provider.
    pub authorization_params: Option<Map<String, Value>>,
    /// Parameters that go to the provider directly.
    pub par: Option<Par>,
    /// How the client shows who it is where it asks for tokens; as for introspection.
    #[serde(default = "default_auth_method")]
    pub token_endpoint_auth_method: String,
    /// The private key that the client signs with, as PEM.
    pub client_rsa_private_key: Option<SecretText>,
    /// What the provider calls it.
    pub client_rsa_private_key_id: Option<String>,
    /// Seconds that what it has signed counts.
    #[serde(default = "default_assertion_lifetime")]
    #[schemars(range(min = 1))]
    pub client_jwt_assertion_expires_in: u64,
    /// The algorithm that it signs by.
    pub client_jwt_assertion_alg: Option<AssertionAlgorithm>,
    /// For whom it signs; by default the endpoint.
    pub client_jwt_assertion_audience: Option<String>,
    /// Sessions of users who have logged in; needed unless `bearer_only` is set.
    pub session: Option<Session>,
    /// Whether access tokens of sessions are renewed when they end.
    #[serde(default = "default_true")]
    pub renew_access_token_on_expiry: bool,
    /// Seconds that access tokens last where the provider does not say.
    pub access_token_expires_in: Option<u64>,
    /// Seconds before their end that they are renewed.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub access_token_expires_leeway: u64,
    /// Seconds after which the provider is asked again who the user is.
    pub refresh_session_interval: Option<u64>,
    /// Not built in.
    #[serde(default)]
    pub force_reauthorize: bool,
    /// Whether nodes get the access token.
    #[serde(default = "default_true")]
    pub set_access_token_header: bool,
    /// Whether they get it in `Authorization` instead of `X-Access-Token`.
    #[serde(default)]
    pub access_token_in_authorization_header: bool,
    /// Whether nodes get the claims of the ID token, as JSON in base64, in `X-ID-Token`.
    #[serde(default = "default_true")]
    pub set_id_token_header: bool,
    /// Whether nodes get the ID token as it was signed, in `X-Raw-ID-Token`.
    #[serde(default)]
    pub set_raw_id_token_header: bool,
    /// Whether nodes get what is known of the user, as JSON in base64, in `X-Userinfo`.
    #[serde(default = "default_true")]
    pub set_userinfo_header: bool,
    /// Whether nodes get the refresh token in `X-Refresh-Token`.
    #[serde(default)]
    pub set_refresh_token_header: bool,
    /// Not built in.
    pub dpop: Option<Dpop>,
    /// Not built in.
    pub proxy_opts: Option<Map<String, Value>>,
    /// Fields of no name above: ignored, but for those of [`FLAT_OPTIONS`], which are refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: Map<String, Value>,
}

/// Options of lua-resty-openidc by their own names, and the field of a conf in which each belongs. They are refused, as
/// in APISIX: none of them would have an effect, and a key would be kept in the clear.
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

/// What claims of a token must be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ClaimValidator {
    /// Who may have signed.
    pub issuer: Option<IssuerRule>,
    /// For whom it has to be.
    pub audience: Option<AudienceRule>,
}

/// Who may have signed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct IssuerRule {
    /// Issuers; the provider alone, where there are none.
    pub valid_issuers: Option<Vec<String>>,
}

/// For whom a token has to be.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AudienceRule {
    /// The claim that says it.
    #[serde(default = "default_audience_claim")]
    pub claim: String,
    /// Whether it must be there.
    #[serde(default)]
    pub required: bool,
    /// Whether it must name this client.
    #[serde(default)]
    pub match_with_client_id: bool,
}

/// Parameters that go to the provider directly.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Par {
    /// Whether they do.
    #[serde(default)]
    pub enabled: bool,
    /// Where; by default where the provider's document says.
    pub endpoint: Option<String>,
    /// How the client shows there who it is; by default as where it asks for tokens.
    #[schemars(extend("enum" = [
        "client_secret_basic", "client_secret_post", "private_key_jwt", "client_secret_jwt",
    ]))]
    pub endpoint_auth_method: Option<String>,
}

/// Tokens that are bound to a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dpop {
    /// Not built in.
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

/// Sessions of users who have logged in.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// What their cookies are sealed with.
    #[schemars(length(min = 16))]
    pub secret: SecretText,
    /// Where they are kept: only `cookie` is built in.
    #[serde(default)]
    pub storage: Storage,
    /// How long cookies count.
    pub cookie: Option<Cookie>,
    /// The name of the cookie, `session` by default.
    #[schemars(length(min = 1))]
    pub cookie_name: Option<String>,
    /// Its path, `/` by default.
    pub cookie_path: Option<String>,
    /// Its domain; by default the host that was asked, and no other.
    pub cookie_domain: Option<String>,
    /// Whether it is kept from scripts, which it is by default.
    pub cookie_http_only: Option<bool>,
    /// Whether it travels over TLS alone; by default it does for who comes over TLS.
    pub cookie_secure: Option<bool>,
    /// Whether browsers send it along from other sites; `Lax` by default. `Strict` keeps it from those who come back
    /// from the provider, too.
    #[schemars(extend("default" = "Lax"))]
    pub cookie_same_site: Option<SameSiteName>,
    /// Seconds that a session lasts without being used, 900 by default; 0 for ever.
    pub idling_timeout: Option<u64>,
    /// Seconds that it lasts without being prolonged, which use does in the last quarter: 3600 by default.
    pub rolling_timeout: Option<u64>,
    /// Seconds that it lasts at all, 86400 by default.
    pub absolute_timeout: Option<u64>,
    /// Not built in.
    pub redis: Option<Redis>,
}

/// See [`Session::cookie`].
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Cookie {
    /// Seconds; the same as `rolling_timeout`, and browsers keep the cookie as long.
    pub lifetime: Option<u64>,
}

/// Where sessions would be kept.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Redis {
    /// Its password.
    pub password: Option<SecretText>,
}

/// Where sessions are kept.
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
