//! Plugin `jwt`: admits requests with a token signed with the configured secret. Claims can be
//! copied to headers.

use std::fmt;

use aws_lc_rs::hmac;
use serde_json::Value;
use tollhouse_plugin::RequestContext;

use crate::plugin::prelude::*;
use crate::shared::token::{Token, lasts, note_claims};
use crate::view::text_header;

/// Rule of `jwt`, from the plugin's configuration and a rule's handle.
#[derive(Clone, PartialEq, Eq)]
pub struct JwtRule {
    secret: String,
    /// Path of a claim, and the header that it is copied to.
    pub headers: Vec<(Vec<String>, String)>,
}

impl fmt::Debug for JwtRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "JwtRule({:?}, ***)", self.headers)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::or_default")]
    secret_key: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Handle {
    #[serde(deserialize_with = "lenient::or_default")]
    converter: Vec<Converter>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Converter {
    #[serde(deserialize_with = "lenient::or_default")]
    jwt_val: String,
    #[serde(deserialize_with = "lenient::or_default")]
    header_val: String,
}

impl JwtRule {
    /// Reads a rule's handle and the plugin's configuration.
    pub fn read(handle: Option<&str>, config: Option<&str>) -> Result<Self, HandleError> {
        let config: Config = handle::read(config)?;
        let handle: Handle = handle::read(handle)?;
        let is_whole =
            |it: &Converter| !it.jwt_val.trim().is_empty() && !it.header_val.trim().is_empty();
        let converters = handle.converter.into_iter().filter(is_whole);
        let headers = converters.map(|it| {
            let path = it.jwt_val.split('.').map(str::to_owned).collect();
            (path, it.header_val.trim().to_owned())
        });
        Ok(Self { secret: config.secret_key, headers: headers.collect() })
    }

    /// Returns the claims of a token (RFC 7519) that is signed with the secret and valid at
    /// `now_s`, in seconds since 1970. The signature (RFC 7515) is HS256, or HS384 or
    /// HS512 if the secret is as long as RFC 7518, section 3.2, asks for. `token` and
    /// `authorization` are the headers of these names; the second counts only if the first is
    /// missing.
    pub fn check(
        &self,
        token: Option<&str>,
        authorization: Option<&str>,
        now_s: u64,
    ) -> Result<Value, Answer> {
        if self.secret.trim().is_empty() {
            return Err(Answer::SecretKeyMissing);
        }
        let token = token.map(str::trim).filter(|token| !token.is_empty());
        let token = token.or(authorization).and_then(without_scheme);
        token.and_then(|token| self.verify(token, now_s)).ok_or(Answer::IllegalAuthorization)
    }

    fn verify(&self, token: &str, now_s: u64) -> Option<Value> {
        let token = Token::read(token)?;
        let (algorithm, key_bytes_min) = match &*token.algorithm {
            "HS256" => (hmac::HMAC_SHA256, 0),
            "HS384" => (hmac::HMAC_SHA384, 48),
            "HS512" => (hmac::HMAC_SHA512, 64),
            _ => return None,
        };
        if self.secret.len() < key_bytes_min {
            return None;
        }
        let key = hmac::Key::new(algorithm, self.secret.as_bytes());
        hmac::verify(&key, token.signed.as_bytes(), &token.signature).ok()?;
        token.claims().filter(|claims| names_are_texts(claims) && lasts(claims, now_s))
    }

    /// Lists the headers to set from the claims. A header whose claim is missing has no value and
    /// must be removed, so that a client cannot forge it.
    pub fn claimed<'a>(
        &'a self,
        claims: &'a Value,
    ) -> impl Iterator<Item = (&'a str, Option<String>)> {
        self.headers.iter().map(move |(path, header)| {
            let found = path.iter().try_fold(claims, |value, name| value.get(name));
            let text = found.and_then(|value| match value {
                Value::Null => None,
                value => Some(text_of(value)),
            });
            (header.as_str(), text)
        })
    }
}

/// Whether the registered claims that are names (RFC 7519, section 4.1) are texts,
/// and `aud` a text or a list of texts. ShenYu refuses other tokens.
fn names_are_texts(claims: &Value) -> bool {
    let is_text = |value: &Value| value.is_string() || value.is_null();
    let is_audience = |value: &Value| match value {
        Value::Array(items) => items.iter().all(is_text),
        other => is_text(other),
    };
    ["iss", "sub", "jti"].iter().filter_map(|name| claims.get(name)).all(is_text)
        && claims.get("aud").is_none_or(is_audience)
}

/// Formats a claim as ShenYu's nodes expect it: like Java's lists (`[a, b]`) and maps (`{a=b}`).
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(text_of).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, value)| format!("{name}={}", text_of(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the second word if the text contains `Bearer` (case-sensitive), otherwise the whole
/// text. `None` if the second word is missing.
fn without_scheme(text: &str) -> Option<&str> {
    let text = text.trim();
    if text.contains("Bearer") { text.split_whitespace().nth(1) } else { Some(text) }
}

impl ShenyuPlugin for JwtRule {
    const ROW: Row = Row::protecting("jwt", 30)
        .with(Seed::new("19", "Authentication").config(r#"{"secretKey":""}"#));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle(), place.config())?.into())
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        match check_token(self, run.cx) {
            Err(Answer::IllegalAuthorization) if has_no_token(run.cx) => {
                Verdict::Unauthenticated(Answer::IllegalAuthorization)
            }
            checked => checked.into(),
        }
    }
}

fn has_no_token(cx: &RequestContext<'_>) -> bool {
    ["token", "authorization"].iter().all(|name| cx.header(name).is_none())
}

fn check_token(rule: &JwtRule, cx: &mut RequestContext<'_>) -> Result<(), Answer> {
    let (token, authorization) = (text_header(cx, "token"), text_header(cx, "authorization"));
    let now_s = cx.now().unix_ms / 1000;
    let claims = rule.check(token.as_deref(), authorization.as_deref(), now_s)?;
    note_claims(cx, "jwt", &claims);
    for (name, value) in rule.claimed(&claims) {
        match value {
            Some(value) => cx.set_header(name, value.as_bytes()),
            None => cx.remove_header(name),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::*;

    fn token(alg: &str, algorithm: hmac::Algorithm, claims: &Value, secret: &str) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": alg, "typ": "JWT"})), part(claims));
        let key = hmac::Key::new(algorithm, secret.as_bytes());
        let tag = hmac::sign(&key, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    fn rule() -> JwtRule {
        let handle = r#"{"converter":[{"jwtVal":"user.name","headerVal":"X-Name"},{"jwtVal":"level","headerVal":"X-Level"},{"jwtVal":"","headerVal":"X"}]}"#;
        JwtRule::read(Some(handle), Some(r#"{"secretKey":"secret"}"#)).expect("it is one")
    }

    #[test]
    fn only_tokens_that_the_secret_signed_pass() {
        let claims = json!({"user": {"name": "jack"}, "exp": 100, "nbf": 10});
        let good = token("HS256", hmac::HMAC_SHA256, &claims, "secret");
        let rule = rule();
        assert_eq!(rule.check(Some(&good), None, 50), Ok(claims.clone()));
        assert_eq!(rule.check(None, Some(&format!("Bearer {good}")), 50), Ok(claims.clone()));
        assert_eq!(rule.check(Some(" "), Some(&good), 50), Ok(claims.clone()));
        assert_eq!(rule.check(Some(&format!("Bearer {good}")), None, 50), Ok(claims.clone()));
        let small = format!("bearer {good}");
        assert_eq!(rule.check(None, Some(&small), 50), Err(Answer::IllegalAuthorization));
        let none = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            URL_SAFE_NO_PAD.encode("{}")
        );
        let bad = [
            token("HS256", hmac::HMAC_SHA256, &claims, "other"),
            token("HS512", hmac::HMAC_SHA256, &claims, "secret"),
            token("HS256", hmac::HMAC_SHA256, &json!({"exp": "100"}), "secret"),
            token("HS256", hmac::HMAC_SHA256, &json!([]), "secret"),
            token("HS256", hmac::HMAC_SHA256, &json!({"sub": 1}), "secret"),
            token("HS256", hmac::HMAC_SHA256, &json!({"iss": ["a"]}), "secret"),
            token("HS256", hmac::HMAC_SHA256, &json!({"jti": true}), "secret"),
            token("HS256", hmac::HMAC_SHA256, &json!({"aud": 1}), "secret"),
            token("HS256", hmac::HMAC_SHA256, &json!({"aud": ["a", 1]}), "secret"),
            none,
            String::new(),
            "a.b.c".to_owned(),
            "é".repeat(9),
        ];
        for token in bad {
            assert_eq!(
                rule.check(None, Some(&token), 50),
                Err(Answer::IllegalAuthorization),
                "{token}"
            );
        }
        for now in [9, 100] {
            assert_eq!(rule.check(Some(&good), None, now), Err(Answer::IllegalAuthorization));
        }
        assert_eq!(rule.check(None, None, 50), Err(Answer::IllegalAuthorization));
        let bare = JwtRule::read(None, None).expect("it is one");
        assert_eq!(bare.check(Some(&good), None, 50), Err(Answer::SecretKeyMissing));
    }

    #[test]
    fn registered_names_that_are_texts_or_missing_pass() {
        for claims in [
            json!({"iss": "a", "sub": "b", "jti": "c", "aud": "d"}),
            json!({"sub": null, "aud": ["d", "e"]}),
            json!({}),
        ] {
            let token = token("HS256", hmac::HMAC_SHA256, &claims, "secret");
            assert_eq!(rule().check(Some(&token), None, 50), Ok(claims));
        }
    }

    #[test]
    fn longer_digests_ask_for_secrets_as_long() {
        let algorithms = [("HS384", hmac::HMAC_SHA384, 48), ("HS512", hmac::HMAC_SHA512, 64)];
        for (alg, algorithm, bytes) in algorithms {
            for (secret, passes) in [("k".repeat(bytes - 1), false), ("k".repeat(bytes), true)] {
                let config = json!({"secretKey": secret}).to_string();
                let rule = JwtRule::read(None, Some(&config)).expect("it is one");
                let signed = token(alg, algorithm, &json!({}), &secret);
                assert_eq!(rule.check(Some(&signed), None, 0).is_ok(), passes, "{alg} {bytes}");
            }
        }
    }

    #[test]
    fn claims_become_headers_and_missing_ones_take_the_clients_away() {
        let rule = rule();
        let claims = json!({"user": {"name": "jack"}});
        let found: Vec<_> = rule.claimed(&claims).collect();
        assert_eq!(found, [("X-Name", Some("jack".to_owned())), ("X-Level", None)]);
    }

    #[test]
    fn claims_are_formatted_like_javas_lists_and_maps() {
        let cases = [
            (json!("a, b"), "a, b"),
            (json!(7), "7"),
            (json!(1.5), "1.5"),
            (json!(true), "true"),
            (json!([1, "a", null]), "[1, a, null]"),
            (json!({"a": "b", "c": [1, 2]}), "{a=b, c=[1, 2]}"),
            (json!([]), "[]"),
        ];
        let handle = r#"{"converter":[{"jwtVal":"claim","headerVal":"X-Claim"}]}"#;
        let rule = JwtRule::read(Some(handle), None).expect("a valid handle");
        for (claim, expected) in cases {
            let claims = json!({"claim": claim});
            let found: Vec<_> = rule.claimed(&claims).collect();
            assert_eq!(found, [("X-Claim", Some(expected.to_owned()))]);
        }
    }
}
