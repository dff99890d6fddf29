//! Plugin `casdoor`: admits requests with a token that Casdoor has signed for this application, or
//! with a code that can be exchanged for such a token. Claims about the user are passed to nodes in
//! headers.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tollhouse_plugin::RequestContext;
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey;

use crate::engines::Engines;
use crate::plugin::prelude::*;
use crate::shared::form;
use crate::shared::token::{Token, bearer, lasts, note_claims};
use crate::turn::Turn;
use crate::view::text_header;

/// Maximum number of concurrent exchanges of a code for a token. Any client can cause an exchange,
/// and each is a call to Casdoor.
const CODES_UNDER_WAY_MAX: usize = 64;

/// Path below the endpoint at which codes are exchanged for tokens.
pub const TOKEN_PATH: &str = "/api/login/oauth/access_token";

/// Maximum length of a code that is exchanged, in bytes.
const CODE_BYTES_MAX: usize = 1_024;

/// Claims about the user and the headers that carry them. A header whose claim is missing is
/// removed, so that a client cannot forge it.
const HEADERS: [(&str, &str); 3] = [("name", "name"), ("id", "id"), ("owner", "organization")];

/// Configuration of the plugin `casdoor`.
#[derive(Clone, PartialEq, Eq)]
pub struct CasdoorRule {
    /// Base URL of Casdoor without a trailing slash.
    pub endpoint: String,
    client_id: String,
    client_secret: String,
    organization: String,
    /// Public key of the certificate, as RSAPublicKey (RFC 8017).
    key: Vec<u8>,
}

impl fmt::Debug for CasdoorRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CasdoorRule({}, {}, ***)", self.endpoint, self.client_id)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::or_default")]
    endpoint: String,
    #[serde(deserialize_with = "lenient::or_default")]
    client_id: String,
    /// Client secret; the member's name is misspelled as in ShenYu.
    #[serde(deserialize_with = "lenient::or_default", alias = "client_secret")]
    client_secrect: String,
    #[serde(deserialize_with = "lenient::or_default")]
    certificate: String,
    #[serde(deserialize_with = "lenient::or_default", rename = "organization-name")]
    organization_name: String,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
}

impl CasdoorRule {
    /// Reads the plugin's configuration.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or lacks the client id or a usable certificate.
    pub fn read(config: Option<&str>) -> Result<Self, HandleError> {
        let wrong = |reason: &str| HandleError::Malformed(reason.to_owned());
        let config: Config = handle::read(config)?;
        let trimmed = |text: &str| text.trim().to_owned();
        let client_id = trimmed(&config.client_id);
        if client_id.is_empty() {
            return Err(wrong("`client_id` of the plugin is missing"));
        }
        let key = public_key(&config.certificate).ok_or_else(|| {
            wrong("`certificate` of the plugin is not a PEM certificate with an RSA key")
        })?;
        Ok(Self {
            endpoint: config.endpoint.trim().trim_end_matches('/').to_owned(),
            client_id,
            client_secret: trimmed(&config.client_secrect),
            organization: trimmed(&config.organization_name),
            key,
        })
    }

    /// Returns the claims of a token, with or without the `Bearer` prefix. The token must be signed
    /// with RS256 by the certificate's key, issued for this application and organization, and valid
    /// at `now_s`, in seconds since 1970.
    pub fn check(&self, authorization: &str, now_s: u64) -> Result<Value, Answer> {
        self.verify(bearer(authorization), now_s).ok_or(Answer::IllegalAuthorization)
    }

    fn verify(&self, token: &str, now_s: u64) -> Option<Value> {
        let token = Token::read(token)?;
        if token.algorithm != "RS256" {
            return None;
        }
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.key);
        key.verify(token.signed.as_bytes(), &token.signature).ok()?;
        let claims = token.claims()?;
        let is_for_us = match claims.get("aud")? {
            Value::String(audience) => *audience == self.client_id,
            Value::Array(all) => all.iter().any(|audience| audience == self.client_id.as_str()),
            _ => false,
        };
        let is_of_ours = self.organization.is_empty()
            || claims.get("owner").and_then(Value::as_str) == Some(&*self.organization);
        // Casdoor's tokens always expire, so one without `exp` is refused.
        let ends = claims.get("exp").is_some();
        (is_for_us && is_of_ours && ends && lasts(&claims, now_s)).then_some(claims)
    }

    /// Returns the form that exchanges a code for a token; `None` if the code is empty or too long.
    pub fn form(&self, code: &str) -> Option<Vec<(&'static str, String)>> {
        let is_code = !code.is_empty() && code.len() <= CODE_BYTES_MAX && !self.endpoint.is_empty();
        is_code.then(|| {
            vec![
                ("grant_type", "authorization_code".to_owned()),
                ("client_id", self.client_id.clone()),
                ("client_secret", self.client_secret.clone()),
                ("code", code.to_owned()),
            ]
        })
    }

    /// Returns the token in Casdoor's answer to [`Self::form`]; `None` if the answer has no token.
    pub fn granted(&self, answer: &[u8]) -> Option<String> {
        let granted: TokenResponse = serde_json::from_slice(answer).ok()?;
        Some(granted.access_token).filter(|token| !token.is_empty())
    }

    /// Returns the headers for the node, each with its claim if present.
    pub fn headers(claims: &Value) -> [(&'static str, Option<&str>); 3] {
        HEADERS.map(|(member, header)| (header, claims.get(member).and_then(Value::as_str)))
    }
}

/// Compiled rule of the plugin.
#[derive(Debug)]
pub(crate) struct CasdoorGate {
    rule: CasdoorRule,
    engines: Option<Arc<dyn Engines>>,
    under_way: AtomicUsize,
}

impl ShenyuPlugin for CasdoorGate {
    // ShenYu's gateways read the configuration even if the plugin is disabled, and fail without it.
    const ROW: Row = Row::protecting("casdoor", 40)
        .with(Seed::new("39", "Authentication").config(r#"{"endpoint":"http://localhost:8000"}"#));

    fn compile(place: &Place<'_>, resources: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = CasdoorRule::read(place.config())?;
        Ok(Self::new(rule, resources.any_engines()).into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        self.check(run.cx, run.turn).await.into()
    }
}

impl CasdoorGate {
    pub(crate) fn new(rule: CasdoorRule, engines: Option<Arc<dyn Engines>>) -> Self {
        Self { rule, engines, under_way: AtomicUsize::new(0) }
    }

    /// Admits a request, and puts the user's claims into its headers.
    pub(crate) async fn check(
        &self,
        cx: &mut RequestContext<'_>,
        turn: &Turn,
    ) -> Result<(), Answer> {
        let token = match text_header(cx, "authorization") {
            Some(token) => token,
            None => self.exchange(turn).await.ok_or(Answer::IllegalAuthorization)?,
        };
        let claims = self.rule.check(&token, cx.now().unix_ms / 1000)?;
        note_claims(cx, "casdoor", &claims);
        for (header, value) in CasdoorRule::headers(&claims) {
            // Claims may contain any characters, headers only some.
            let value =
                value.filter(|value| value.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            match value {
                Some(value) => cx.set_header(header, value.as_bytes()),
                None => cx.remove_header(header),
            }
        }
        Ok(())
    }

    /// Exchanges the code in a query for a token.
    async fn exchange(&self, turn: &Turn) -> Option<String> {
        let parameters = form::parameters(turn.query()?);
        let (_, code) = parameters.iter().find(|(name, _)| name == "code")?;
        let form = self.rule.form(code)?;
        let _permit = ExchangePermit::take(&self.under_way)?;
        let url = format!("{}{TOKEN_PATH}", self.rule.endpoint);
        let answer = self.engines.as_ref()?.post_form(&url, form::encode(&form)).await?;
        self.rule.granted(&answer)
    }
}

/// Permit for one exchange.
struct ExchangePermit<'a>(&'a AtomicUsize);

impl<'a> ExchangePermit<'a> {
    fn take(under_way: &'a AtomicUsize) -> Option<Self> {
        let permit = Self(under_way);
        // Relaxed, because only the number is shared. Dropping `permit` undoes the count, also when
        // the limit is reached.
        (under_way.fetch_add(1, Ordering::Relaxed) < CODES_UNDER_WAY_MAX).then_some(permit)
    }
}

impl Drop for ExchangePermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the RSA key of a certificate, or of a bare public key, in PEM.
fn public_key(text: &str) -> Option<Vec<u8>> {
    let body: String =
        text.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(body).ok()?;
    match X509Certificate::from_der(&der) {
        Ok((_, certificate)) => rsa_key(certificate.public_key()),
        Err(_) => rsa_key(&SubjectPublicKeyInfo::from_der(&der).ok()?.1),
    }
}

/// Returns an RSA key of at least 2048 bits. A shorter one would fail with every token, so it is
/// refused when the configuration is read.
fn rsa_key(key: &SubjectPublicKeyInfo<'_>) -> Option<Vec<u8>> {
    let PublicKey::RSA(rsa) = key.parsed().ok()? else { return None };
    (rsa.key_size() >= 2_048).then(|| key.subject_public_key.data.to_vec())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use rcgen::{CertificateParams, PKCS_RSA_SHA256, RsaKeySize};
    use serde_json::json;

    use super::*;

    struct Casdoor {
        key: RsaKeyPair,
        certificate: String,
    }

    impl Casdoor {
        fn new() -> Self {
            let key = rcgen::KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048);
            let key = key.expect("a key");
            let params = CertificateParams::new(vec!["casdoor".to_owned()]).expect("a name");
            let certificate = params.self_signed(&key).expect("a certificate").pem();
            let key = RsaKeyPair::from_pkcs8(&key.serialize_der()).expect("the same key");
            Self { key, certificate }
        }

        fn token(&self, alg: &str, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let signed = format!("{}.{}", part(&json!({"alg": alg, "typ": "JWT"})), part(claims));
            let mut signature = vec![0; self.key.public_modulus_len()];
            let random = SystemRandom::new();
            self.key
                .sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
                .expect("it signs");
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
        }

        fn rule(&self, organization: &str) -> CasdoorRule {
            let config = json!({"endpoint": "http://casdoor:8000/", "client_id": "shop", "client_secrect": "s3",
                "certificate": self.certificate, "organization-name": organization, "application-name": "app"});
            CasdoorRule::read(Some(&config.to_string())).expect("it is good")
        }
    }

    #[test]
    fn only_tokens_that_casdoor_signed_for_this_application_pass() {
        let casdoor = Casdoor::new();
        let rule = casdoor.rule("shops");
        let claims = json!({"name": "jack", "id": "7", "owner": "shops", "aud": ["shop"], "exp": 100, "nbf": 10});
        let good = casdoor.token("RS256", &claims);
        assert_eq!(rule.check(&format!("Bearer {good}"), 50), Ok(claims.clone()));
        assert_eq!(rule.check(&good, 50), Ok(claims.clone()));
        let with = |member: &str, value: Value| {
            let mut claims = claims.clone();
            claims[member] = value;
            casdoor.token("RS256", &claims)
        };
        let mut endless = claims.clone();
        endless.as_object_mut().expect("an object").remove("exp");
        let other = Casdoor::new();
        for (what, token) in [
            ("another key", other.token("RS256", &claims)),
            ("another algorithm", casdoor.token("HS256", &claims)),
            ("no algorithm", casdoor.token("none", &claims)),
            ("another application", with("aud", json!(["other"]))),
            ("another organization", with("owner", json!("others"))),
            ("over", with("exp", json!(50))),
            ("not yet", with("nbf", json!(51))),
            ("without an end", casdoor.token("RS256", &endless)),
            ("nothing", String::new()),
            ("no token", "a.b".to_owned()),
        ] {
            assert_eq!(rule.check(&token, 50), Err(Answer::IllegalAuthorization), "{what}");
        }
        assert_eq!(casdoor.rule("").check(&with("owner", json!("others")), 50).map(|_| ()), Ok(()));
        let known = json!({"name": "jack", "owner": "shops"});
        let headers = CasdoorRule::headers(&known);
        assert_eq!(
            headers,
            [("name", Some("jack")), ("id", None), ("organization", Some("shops"))]
        );
    }

    #[test]
    fn codes_are_changed_into_tokens() {
        let rule = Casdoor::new().rule("");
        assert_eq!(rule.endpoint, "http://casdoor:8000");
        let form = rule.form("c1").expect("it is a code");
        assert!(
            form.contains(&("code", "c1".to_owned()))
                && form.contains(&("client_secret", "s3".to_owned()))
        );
        assert_eq!(rule.form(""), None);
        assert_eq!(rule.form(&"c".repeat(2_000)), None);
        assert_eq!(
            rule.granted(br#"{"access_token":"t","token_type":"Bearer"}"#).as_deref(),
            Some("t")
        );
        for answer in ["", "{}", r#"{"access_token":""}"#, r#"{"error":"invalid_grant"}"#] {
            assert_eq!(rule.granted(answer.as_bytes()), None, "{answer}");
        }
        assert!(!format!("{rule:?}").contains("s3"));
    }

    #[test]
    fn a_configuration_without_what_verifies_is_refused() {
        for (config, part) in [
            ("{}", "`client_id`"),
            (r#"{"client_id":"a"}"#, "`certificate`"),
            (
                r#"{"client_id":"a","certificate":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}"#,
                "`certificate`",
            ),
        ] {
            let error = CasdoorRule::read(Some(config)).expect_err(config).to_string();
            assert!(error.contains(part), "{config}: {error}");
        }
    }

    #[test]
    fn places_are_bounded_and_go_back() {
        let under_way = AtomicUsize::new(0);
        let places: Vec<_> =
            (0..CODES_UNDER_WAY_MAX).map(|_| ExchangePermit::take(&under_way)).collect();
        assert!(places.iter().all(Option::is_some) && ExchangePermit::take(&under_way).is_none());
        drop(places);
        assert!(ExchangePermit::take(&under_way).is_some());
        assert_eq!(under_way.load(Ordering::Relaxed), 0);
    }
}
