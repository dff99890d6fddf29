//! Admits requests signed with a consumer's secret key, and tells nodes which consumer it is.
//!
//! The client signs its key id, the request line and headers of its choice, and sends
//! `Authorization: Signature keyId="…",algorithm="hmac-sha256",headers="@request-target
//! date",signature="…"`.
//! The secret is never sent. An intercepted request can be repeated only while its `Date` is within
//! the clock skew.
//!
//! # Example
//! ```json
//! {"allowed_algorithms": ["hmac-sha256", "hmac-sha512"], "clock_skew": 60, "validate_request_body": true}
//! ```
//!
//! # Answers
//! - 401 `client request can't be validated: missing Authorization header`, 401 `client request can't
//!   be validated: Authorization header does not start with 'Signature'`
//! - 401 `client request can't be validated` for any other fault
//! - 401 `Invalid user authorization` when the anonymous consumer does not exist
//! - 413 when a body to be checked exceeds `max_req_body_size`
//!
//! # Notes
//! The body is read as a whole only if `validate_request_body` is set. All lines of a header are
//! signed, joined with `, `. A request that also has another spelling of a signed name (`X_Amount`
//! beside `X-Amount`) is refused, because nodes may confuse the two.

use aws_lc_rs::{digest, hmac};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::consumer::Identity;
use tollhouse_plugin::{
    Answer, BodyError, Carrier, Category, ConfError, ConsumerSpec, Credential, Flow, Phases,
    Plugin, RefusalKind, RequestContext, Scope, Step,
};

use self::fields::Fields;
use crate::shared::auth::base64::{decode_base64, encode_base64};
use crate::shared::auth::gate::{Gate, REALM_PATTERN, Rejection};
use crate::shared::auth::secret::{SecretText, are_equal};
use crate::shared::confs::defaults::defaults;
use crate::shared::messages::http_date::parse_http_date;
use tollhouse_stdx::header_name::is_same_folded;

mod fields;
#[cfg(test)]
mod tests;

/// Answer to most faults. It gives no details, so that forgers cannot learn from it.
const REFUSED: &str = "client request can't be validated";

/// Name of the request line among the signed headers.
const REQUEST_TARGET: &str = "@request-target";

/// Configuration of `hmac-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Algorithms that clients may use; all three by default.
    #[serde(default = "default_algorithms")]
    #[schemars(length(min = 1))]
    pub allowed_algorithms: Vec<Algorithm>,
    /// Largest difference between a request's `Date` and the gateway's clock, in seconds; 300 by
    /// default.
    #[serde(default = "default_clock_skew")]
    #[schemars(range(min = 1))]
    pub clock_skew: i64,
    /// Headers that a client must sign and name in `headers`; `date` by default.
    #[serde(default = "default_signed_headers")]
    #[schemars(inner(length(min = 1, max = 50)))]
    pub signed_headers: Vec<String>,
    /// Whether `Digest` must hold the SHA-256 of the body; off by default.
    #[serde(default)]
    pub validate_request_body: bool,
    /// Longest body that is validated, in bytes; 64 MiB by default.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: i64,
    /// Whether `Authorization` is removed before the request goes to a node.
    #[serde(default)]
    pub hide_credentials: bool,
    /// Consumer for requests without a valid signature. Unset: such requests are refused.
    #[schemars(length(min = 1))]
    pub anonymous_consumer: Option<String>,
    /// Realm in `WWW-Authenticate`; `hmac` by default.
    #[serde(default = "default_realm")]
    #[schemars(length(min = 1, max = 128), regex(pattern = REALM_PATTERN))]
    pub realm: String,
}

/// Signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
pub enum Algorithm {
    #[serde(rename = "hmac-sha1")]
    HmacSha1,
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    #[serde(rename = "hmac-sha512")]
    HmacSha512,
}

impl Algorithm {
    const ALL: [Algorithm; 3] = [Self::HmacSha1, Self::HmacSha256, Self::HmacSha512];

    fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().as_bytes() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::HmacSha1 => "hmac-sha1",
            Self::HmacSha256 => "hmac-sha256",
            Self::HmacSha512 => "hmac-sha512",
        }
    }

    fn primitive(self) -> hmac::Algorithm {
        match self {
            Self::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::HmacSha256 => hmac::HMAC_SHA256,
            Self::HmacSha512 => hmac::HMAC_SHA512,
        }
    }
}

defaults! {
    default_algorithms: Vec<Algorithm> = Algorithm::ALL.to_vec();
    default_clock_skew: i64 = 300;
    default_signed_headers: Vec<String> = vec!["date".into()];
    default_body_bytes_max: i64 = 64 << 20;
    default_realm: String = "hmac".into();
}

/// Credential of a consumer for `hmac-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SigningKey {
    /// Name of the key in requests; unique among all consumers.
    #[schemars(length(min = 1, max = 256))]
    pub key_id: String,
    /// Secret key.
    #[schemars(length(min = 1, max = 256))]
    pub secret_key: SecretText,
}

impl Identity for SigningKey {
    const KEY_FIELD: &'static str = "key_id";
    const ENCRYPTED: &'static [&'static str] = &["secret_key"];
}

#[derive(Debug)]
pub struct HmacAuth {
    config: Config,
    gate: Gate,
}

impl Plugin for HmacAuth {
    const NAME: &'static str = "hmac-auth";
    const PRIORITY: i32 = 2530;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        // APISIX's bounds apply to the items, which can only be the names of algorithms.
        schema["properties"]["allowed_algorithms"]["items"] = serde_json::json!({
            "type": "string",
            "enum": Algorithm::ALL.map(Algorithm::name),
        });
    }

    fn consumer() -> Option<ConsumerSpec> {
        Some(ConsumerSpec::new::<SigningKey>())
    }

    fn compile(mut config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let gate = Gate::new("hmac", &config.realm, config.anonymous_consumer.take());
        Ok(Self { config, gate })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let credential = match self.verify(cx) {
            Ok(credential) => credential,
            Err(rejection) => return self.turn_away(cx, rejection),
        };
        if !self.config.validate_request_body {
            return self.admit(cx, credential);
        }
        Step::wait(async move {
            let bytes_max = self.config.max_req_body_size.unsigned_abs();
            let body = cx.read_body(bytes_max).await.map(drop);
            let step = match body {
                Err(BodyError::TooLarge) => {
                    Answer::status(413).refused(RefusalKind::RequestInvalid).into()
                }
                Ok(()) if digest_matches(cx) => self.admit(cx, credential),
                Ok(()) | Err(BodyError::Broken) => self.turn_away(cx, REFUSED),
            };
            match step {
                Step::Answer(answer) => Flow::Answer(answer),
                Step::Continue | Step::Wait(_) => Flow::Continue,
            }
        })
    }
}

/// Verdict on the time that a request was signed with.
#[derive(Debug, Clone, Copy)]
enum SignedTime {
    Recent,
    /// Time differs from the gateway's by more than `clock_skew`.
    Skewed,
}

impl HmacAuth {
    /// Returns the credential that the signature belongs to.
    fn verify<'r>(&self, cx: &RequestContext<'r>) -> Result<&'r Credential, Rejection> {
        let header = cx.header("Authorization").ok_or_else(|| {
            Rejection::missing("client request can't be validated: missing Authorization header")
        })?;
        let fields = Fields::parse(&header).ok_or(
            "client request can't be validated: Authorization header does not start with 'Signature'",
        )?;
        let (credential, time) = self.verify_fields(cx, &fields).ok_or(REFUSED)?;
        match time {
            SignedTime::Recent => Ok(credential),
            SignedTime::Skewed => Err(Rejection::clock_differs(REFUSED)),
        }
    }

    /// Returns the credential whose key signed the request, with the verdict on the signed time.
    fn verify_fields<'r>(
        &self,
        cx: &RequestContext<'r>,
        fields: &Fields<'_>,
    ) -> Option<(&'r Credential, SignedTime)> {
        let (key_id, signature) = (fields.key_id?, decode_base64(fields.signature?)?);
        let algorithm = Algorithm::from_name(fields.algorithm?)
            .filter(|algorithm| self.config.allowed_algorithms.contains(algorithm))?;
        let credential = cx.find_credential(Self::NAME, key_id)?;
        let identity = credential.identity::<SigningKey>()?;
        let time = self.signed_time(cx, fields)?;
        if !self.signs_enough(fields) || has_other_spellings(cx, fields) {
            return None;
        }
        let key = hmac::Key::new(algorithm.primitive(), identity.secret_key.as_bytes());
        let signs = |target: &[u8]| {
            hmac::verify(&key, &signing_string(cx, fields, target), &signature).is_ok()
        };
        // APISIX signs the normalised path, but clients only know the path that they sent. Both are
        // accepted.
        let normalised = normalised_target(cx);
        let is_signed =
            normalised.is_some_and(|target| signs(&target)) || signs(&cx.real_request_uri());
        is_signed.then_some((credential, time))
    }

    /// Compares the signed time with the gateway's; `None` without one. An unsigned time does
    /// not count, because a forger could renew it for ever.
    fn signed_time(&self, cx: &RequestContext<'_>, fields: &Fields<'_>) -> Option<SignedTime> {
        let mut headers = ["Date", "X-Date"].into_iter();
        let (name, date) = headers.find_map(|name| Some((name, cx.header(name)?)))?;
        if !fields.headers().any(|signed| signed.eq_ignore_ascii_case(name.as_bytes())) {
            return None;
        }
        let seconds = parse_http_date(&date)?;
        let now_seconds = i64::try_from(cx.now().unix_ms / 1_000).unwrap_or(i64::MAX);
        let is_recent = now_seconds.abs_diff(seconds) <= self.config.clock_skew.unsigned_abs();
        Some(if is_recent { SignedTime::Recent } else { SignedTime::Skewed })
    }

    fn signs_enough(&self, fields: &Fields<'_>) -> bool {
        let signed = |required: &String| {
            fields.headers().any(|name| name.eq_ignore_ascii_case(required.as_bytes()))
        };
        self.config.signed_headers.iter().all(signed)
    }

    fn admit<'a, 'r>(&self, cx: &mut RequestContext<'r>, credential: &'r Credential) -> Step<'a> {
        cx.authenticate(credential);
        cx.edits().identities.explain(Carrier::Authorization);
        self.hide(cx);
        Step::Continue
    }

    fn turn_away<'a>(
        &'a self,
        cx: &mut RequestContext<'_>,
        rejection: impl Into<Rejection>,
    ) -> Step<'a> {
        let step = self.gate.turn_away(cx, rejection);
        if matches!(step, Step::Continue) {
            self.hide(cx);
        }
        step
    }

    fn hide(&self, cx: &mut RequestContext<'_>) {
        if self.config.hide_credentials {
            cx.remove_header("Authorization");
        }
    }
}

/// Whether an unsigned header has a name that could be confused with that of a signed one.
fn has_other_spellings(cx: &RequestContext<'_>, fields: &Fields<'_>) -> bool {
    let mut has_other = false;
    cx.each_header(&mut |name, _| {
        let is_other =
            |signed: &[u8]| is_same_folded(signed, name) && !signed.eq_ignore_ascii_case(name);
        has_other = has_other || fields.headers().any(is_other);
    });
    has_other
}

/// Returns the text that must be signed: the key id, and all lines of each header that is present.
fn signing_string(cx: &RequestContext<'_>, fields: &Fields<'_>, target: &[u8]) -> Vec<u8> {
    let mut text = fields.key_id.unwrap_or_default().to_vec();
    text.push(b'\n');
    for name in fields.headers() {
        let value = std::str::from_utf8(name).ok().and_then(|name| cx.header(name));
        if let Some(value) = value {
            text.extend_from_slice(&[name, b": ", &value[..], b"\n"].concat());
        } else if name == REQUEST_TARGET.as_bytes() {
            text.extend_from_slice(&[cx.method(), b" ", target, b"\n"].concat());
        }
    }
    text
}

/// Returns the decoded path with the query. `None` if the path contains bytes that would start
/// another line or query in the signed text.
fn normalised_target(cx: &RequestContext<'_>) -> Option<Vec<u8>> {
    let mut target = cx.path().to_vec();
    if target.iter().any(|byte| byte.is_ascii_control() || *byte == b'?') {
        return None;
    }
    if let Some(query) = cx.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    Some(target)
}

/// Whether `Digest` matches the body, which must have been read.
fn digest_matches(cx: &RequestContext<'_>) -> bool {
    let Some(sent) = cx.header("Digest") else { return false };
    let expected = format!("SHA-256={}", encode_base64(digest::digest(&digest::SHA256, cx.body())));
    are_equal(&sent, expected.as_bytes())
}
