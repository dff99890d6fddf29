//! Decrypts a token (JWE) that clients send, and gives its content to nodes in a header.
//!
//! The token's header names the consumer (`kid`) whose secret decrypts it. Tokens are in compact form
//! with the algorithms `dir` and `A256GCM`.
//!
//! # Example
//! ```json
//! {"header": "Authorization", "forward_header": "X-Payload"}
//! ```
//!
//! # Answers
//! - 403 `missing JWE token in request`, unless `strict` is off
//! - 400 `JWE token invalid`, 400 `missing kid in JWE token`, 400 `invalid kid in JWE token`
//! - 400 `failed to decrypt JWE token` also when the token was changed
//!
//! # Notes
//! The token may follow the word `Bearer`. Tokens whose tag also covers their header (RFC 7516) and
//! tokens made without it, as other gateways make them, are both read. If `strict` is off, a
//! request without a token passes without `forward_header`, also if the client has sent one. The
//! consumer is not regarded as authenticated, because anyone may repeat a token.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::{
    Answer, Carrier, Category, ConfError, ConsumerSpec, Identity, Phases, Plugin, RefusalKind,
    RequestContext, Scope, Step,
};

use crate::shared::auth::base64::decode_base64_url;
use crate::shared::auth::grant::digest_of;
use crate::shared::auth::scheme::credentials;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};

/// Length of a key of AES-256, in bytes.
const KEY_BYTES: usize = 32;

/// Configuration of `jwe-decrypt`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Header that carries the token; `Authorization` by default.
    #[serde(default = "default_header")]
    pub header: String,
    /// Header in which nodes get the decrypted content; `Authorization` by default.
    #[serde(default = "default_header")]
    pub forward_header: String,
    /// Whether requests without a token are refused; on by default.
    #[serde(default = "default_true")]
    pub strict: bool,
}

defaults! {
    default_header: String = "Authorization".into();
}

/// Secret of a consumer for `jwe-decrypt`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Secret {
    /// Value of `kid` in the header of tokens; unique among all consumers.
    pub key: String,
    /// Key of 32 bytes.
    pub secret: SecretText,
    /// Whether `secret` is encoded in base64; off by default.
    #[serde(default)]
    pub is_base64_encoded: bool,
}

impl Secret {
    fn key(&self) -> Option<Vec<u8>> {
        match self.is_base64_encoded {
            true => decode_base64_url(self.secret.as_bytes()),
            false => Some(self.secret.as_bytes().to_vec()),
        }
        .filter(|key| key.len() == KEY_BYTES)
    }
}

impl tollhouse_plugin::consumer::Identity for Secret {
    const KEY_FIELD: &'static str = "key";
    const ENCRYPTED: &'static [&'static str] = &["key", "secret"];

    fn prepare(&mut self) -> Result<(), ConfError> {
        match (self.key(), self.is_base64_encoded) {
            (Some(_), _) => Ok(()),
            (None, true) => Err("the secret length after base64 decode should be 32 chars".into()),
            (None, false) => Err("the secret length should be 32 chars".into()),
        }
    }
}

#[derive(Debug)]
pub struct JweDecrypt {
    config: Config,
}

/// Token in its five parts.
struct Token<'t> {
    header_text: &'t [u8],
    header: Value,
    nonce: &'t [u8],
    content: &'t [u8],
    tag: &'t [u8],
}

impl Plugin for JweDecrypt {
    const NAME: &'static str = "jwe-decrypt";
    const PRIORITY: i32 = 2509;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn consumer() -> Option<ConsumerSpec> {
        Some(ConsumerSpec::new::<Secret>())
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self { config })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(header) = cx.header(&self.config.header).map(|value| value.into_owned()) else {
            return self.without_token(cx);
        };
        match decrypt(cx, credentials(&header, "Bearer").unwrap_or(&header)) {
            Ok((kid, content)) => {
                self.forward(cx, &kid, &content);
                Step::Continue
            }
            Err(message) => Answer::message(400, message).refused(RefusalKind::AuthInvalid).into(),
        }
    }
}

impl JweDecrypt {
    fn without_token<'a>(&'a self, cx: &mut RequestContext<'_>) -> Step<'a> {
        if self.config.strict {
            let answer = Answer::message(403, "missing JWE token in request");
            return answer.refused(RefusalKind::AuthMissing).into();
        }
        // A client must not be able to write the content itself.
        cx.remove_header(&self.config.forward_header);
        Step::Continue
    }

    fn forward(&self, cx: &mut RequestContext<'_>, kid: &str, content: &[u8]) {
        let grant = digest_of([content]);
        cx.note_identity(Identity { by: Self::NAME, name: kid.as_bytes(), grant: grant.as_ref() });
        if self.config.header.eq_ignore_ascii_case("Authorization") {
            cx.edits().identities.explain(Carrier::Authorization);
        }
        cx.set_header(&self.config.forward_header, content);
    }
}

/// Returns key id and content of a token.
fn decrypt(cx: &RequestContext<'_>, token: &[u8]) -> Result<(String, Vec<u8>), &'static str> {
    let token = Token::parse(token).ok_or("JWE token invalid")?;
    let kid = token.header.get("kid").and_then(Value::as_str).ok_or("missing kid in JWE token")?;
    let credential = cx.find_credential(JweDecrypt::NAME, kid.as_bytes());
    let secret = credential.and_then(|credential| credential.identity::<Secret>());
    let key = secret.and_then(Secret::key).ok_or("invalid kid in JWE token")?;
    let content = token.open(&key).ok_or("failed to decrypt JWE token")?;
    Ok((kid.to_owned(), content))
}

impl<'t> Token<'t> {
    fn parse(text: &'t [u8]) -> Option<Self> {
        let mut parts = text.splitn(5, |byte| *byte == b'.');
        let (header_text, _key) = (parts.next()?, parts.next()?);
        let (nonce, content, tag) = (parts.next()?, parts.next()?, parts.next()?);
        let header: Value = serde_json::from_slice(&decode_base64_url(header_text)?).ok()?;
        header.is_object().then_some(Self { header_text, header, nonce, content, tag })
    }

    /// Decrypts the content; `None` if its tag does not match.
    fn open(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = decode_base64_url(self.content)?;
        sealed.extend(decode_base64_url(self.tag)?);
        let nonce = decode_base64_url(self.nonce)?;
        let open = |covered: &[u8]| {
            let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
            let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
            let mut bytes = sealed.clone();
            Some(key.open_in_place(nonce, Aad::from(covered), &mut bytes).ok()?.to_vec())
        };
        open(self.header_text).or_else(|| open(b""))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::Harness;

    use super::*;
    use crate::shared::auth::base64::encode_base64;

    const SECRET: &str = "12345678901234567890123456789012";

    /// Makes a token; `covered` says whether the tag covers the header.
    fn token(header: &Value, content: &str, key: &str, covers: Covers) -> String {
        let url = |bytes: &[u8]| {
            encode_base64(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
        };
        let header = url(header.to_string().as_bytes());
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_bytes()).unwrap());
        let mut sealed = content.as_bytes().to_vec();
        let nonce = Nonce::assume_unique_for_key([7; 12]);
        let covered = if covers == Covers::Header { header.as_bytes() } else { b"" };
        key.seal_in_place_append_tag(nonce, Aad::from(covered), &mut sealed).unwrap();
        let (content, tag) = sealed.split_at(sealed.len() - 16);
        format!("{header}..{}.{}.{}", url(&[7; 12]), url(content), url(tag))
    }

    #[derive(PartialEq)]
    enum Covers {
        Header,
        Nothing,
    }

    fn harness(conf: Value) -> Harness {
        Harness::new::<JweDecrypt>(&conf)
            .consumer::<JweDecrypt>("jack", &json!({"key": "user-key", "secret": SECRET}))
            .consumer::<JweDecrypt>(
                "ann",
                &json!({"key": "b64", "secret": encode_base64(SECRET), "is_base64_encoded": true}),
            )
    }

    #[test]
    fn nodes_get_the_content() {
        let conf = json!({"forward_header": "X-Payload"});
        for kid in ["user-key", "b64"] {
            let header = json!({"alg": "dir", "enc": "A256GCM", "kid": kid});
            for covers in [Covers::Header, Covers::Nothing] {
                let token = token(&header, "{\"uid\":1}", SECRET, covers);
                for prefix in ["", "Bearer ", "bearer "] {
                    let request = format!("GET / HTTP/1.1\nAuthorization: {prefix}{token}\n\n");
                    let outcome = harness(conf.clone()).request(&request);
                    assert_eq!(outcome.edits, "+X-Payload: {\"uid\":1}\n", "{kid}");
                    assert_eq!(outcome.consumer, None);
                }
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let good = json!({"kid": "user-key"});
        let other = SECRET.replace('1', "0");
        for (sent, message) in [
            ("x.y".to_owned(), "JWE token invalid"),
            ("Ym9keQ..a.b.c".to_owned(), "JWE token invalid"),
            (token(&json!({}), "a", SECRET, Covers::Nothing), "missing kid in JWE token"),
            (token(&json!({"kid": "x"}), "a", SECRET, Covers::Nothing), "invalid kid in JWE token"),
            (token(&good, "a", &other, Covers::Nothing), "failed to decrypt JWE token"),
            (token(&good, "a", SECRET, Covers::Nothing) + "A", "failed to decrypt JWE token"),
        ] {
            let request = format!("GET / HTTP/1.1\nAuthorization: {sent}\n\n");
            let outcome = harness(json!({})).request(&request);
            assert_eq!(outcome.status(), 400, "{sent}");
            assert_eq!(outcome.body(), format!("{{\"message\":\"{message}\"}}\n"), "{sent}");
        }
    }

    #[test]
    fn a_missing_token_is_refused_or_leaves_no_content() {
        let outcome = harness(json!({})).request("GET / HTTP/1.1\n\n");
        assert_eq!(outcome.status(), 403);
        assert_eq!(outcome.body(), "{\"message\":\"missing JWE token in request\"}\n");
        let conf = json!({"strict": false, "forward_header": "X-Payload"});
        let outcome = harness(conf).request("GET / HTTP/1.1\nX-Payload: forged\n\n");
        assert_eq!(outcome.edits, "-X-Payload\n");
    }

    #[test]
    fn a_secret_has_the_length_of_a_key() {
        let plugin = tollhouse_plugin::PluginType::new::<JweDecrypt>();
        for (conf, text) in [
            (json!({"key": "a"}), "property \"secret\" is required"),
            (json!({"key": "a", "secret": "short"}), "the secret length should be 32 chars"),
            (
                json!({"key": "a", "secret": "c2hvcnQ", "is_base64_encoded": true}),
                "the secret length after base64 decode should be 32 chars",
            ),
        ] {
            let refusal = plugin.identify(&conf).err().map(String::from);
            assert_eq!(refusal.as_deref(), Some(text));
        }
        let refusal = Harness::refusal::<JweDecrypt>(&json!({"strict": 1}));
        assert!(refusal.contains("wrong type: expected boolean"), "{refusal}");
    }
}
