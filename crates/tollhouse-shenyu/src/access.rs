//! Decisions of `waf`, `keyAuth` and `basicAuth`, from their configuration and the request. A
//! handle that cannot be read yields an error, with which the caller refuses requests.

use std::fmt;

use aws_lc_rs::constant_time;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::answer::Answer;
use crate::handle::Malformed;
use crate::{handle, lenient};

/// Default code in the body of a refusal.
const FORBIDDEN_CODE: i32 = 403;

/// Why a configuration or a handle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The text is not JSON of this shape.
    #[error("the handle cannot be read: {0}")]
    Malformed(String),
    /// A member is missing or has an unsupported value.
    #[error("`{member}` is `{value}`; possible are {possible}")]
    Value {
        member: &'static str,
        /// Value in the rule; empty if it is missing.
        value: String,
        /// Values that are supported, for the message.
        possible: &'static str,
    },
}

impl From<Malformed> for AccessError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// Treatment of requests that no selector or rule of `waf` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WafModel {
    /// Requests without a matching rule pass.
    Black,
    /// Requests without a matching rule are refused.
    Mixed,
}

/// Treatment of requests that a rule of `waf` matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WafRule {
    Allow,
    /// Requests are refused, with this code in the body.
    Reject(i32),
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WafHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    model: String,
    #[serde(deserialize_with = "lenient::or_default")]
    permission: String,
    #[serde(deserialize_with = "lenient::text")]
    status_code: Option<String>,
}

impl WafModel {
    /// Reads the plugin's configuration.
    ///
    /// # Errors
    ///
    /// If it is not `{"model": "black"}` or `{"model": "mixed"}`.
    pub fn read(config: Option<&str>) -> Result<Self, AccessError> {
        let model = read::<WafHandle>(config)?.model;
        match model.as_str() {
            "black" => Ok(Self::Black),
            "mixed" => Ok(Self::Mixed),
            _ => {
                Err(AccessError::Value { member: "model", value: model, possible: "black, mixed" })
            }
        }
    }

    /// Returns the answer to a request that no selector or rule matches; `None` lets it pass.
    pub const fn unmatched(self) -> Option<Answer> {
        match self {
            Self::Black => None,
            Self::Mixed => Some(Answer::Forbidden(FORBIDDEN_CODE)),
        }
    }
}

impl WafRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If the permission is missing or unknown, or the code is not a whole number.
    pub fn read(handle: Option<&str>) -> Result<Self, AccessError> {
        let handle: WafHandle = read(handle)?;
        match handle.permission.as_str() {
            "allow" => Ok(Self::Allow),
            "reject" => {
                let code = handle.status_code.unwrap_or_default();
                match code.trim() {
                    "" => Ok(Self::Reject(FORBIDDEN_CODE)),
                    text => text.parse().map(Self::Reject).map_err(|_| AccessError::Value {
                        member: "statusCode",
                        value: text.to_owned(),
                        possible: "whole numbers",
                    }),
                }
            }
            _ => Err(AccessError::Value {
                member: "permission",
                value: handle.permission,
                possible: "reject, allow",
            }),
        }
    }

    /// Returns the answer to a request that the rule matches; `None` lets it pass.
    pub const fn answer(self) -> Option<Answer> {
        match self {
            Self::Allow => None,
            Self::Reject(code) => Some(Answer::Forbidden(code)),
        }
    }
}

/// Key that requests must present in a header or query parameter.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyAuthRule {
    /// Name of the header and of the query parameter.
    #[serde(deserialize_with = "lenient::or_default")]
    pub key_name: String,
    #[serde(deserialize_with = "lenient::or_default")]
    key: String,
}

impl fmt::Debug for KeyAuthRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeyAuthRule({}, ***)", self.key_name)
    }
}

impl KeyAuthRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape.
    pub fn read(handle: Option<&str>) -> Result<Self, AccessError> {
        read(handle)
    }

    /// Checks the values of a request's header and query parameter [`Self::key_name`]: either must
    /// equal the key.
    ///
    /// # Errors
    ///
    /// The answer with which the request is refused.
    pub fn check(&self, header: Option<&str>, query: Option<&str>) -> Result<(), Answer> {
        if self.key_name.trim().is_empty() || self.key.trim().is_empty() {
            return Err(Answer::KeyAuthUnconfigured);
        }
        let (header, query) = (header.unwrap_or_default(), query.unwrap_or_default());
        // Both are compared, so that the duration does not reveal which one matched.
        match equal(header, &self.key) | equal(query, &self.key) {
            true => Ok(()),
            false => Err(Answer::KeyIncorrect),
        }
    }
}

/// Credentials that requests must present: `user:password`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BasicAuthRule {
    #[serde(deserialize_with = "lenient::or_default")]
    authorization: String,
}

impl fmt::Debug for BasicAuthRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BasicAuthRule(***)")
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct BasicAuthConfig {
    default_handle_json: Option<String>,
}

impl BasicAuthRule {
    /// Reads a rule's handle, or if that has no credentials, the default handle in the plugin's
    /// configuration.
    ///
    /// # Errors
    ///
    /// If either is not a JSON object of its shape.
    pub fn read(handle: Option<&str>, config: Option<&str>) -> Result<Self, AccessError> {
        let rule: Self = read(handle)?;
        if !rule.authorization.trim().is_empty() {
            return Ok(rule);
        }
        read(read::<BasicAuthConfig>(config)?.default_handle_json.as_deref())
    }

    /// Returns the user name of the credentials.
    pub fn user(&self) -> &str {
        self.authorization.split(':').next().unwrap_or_default()
    }

    /// Checks the header `Authorization`: either `Basic` with base64 (RFC 7617 §2), or the
    /// credentials as plain text, the only form that ShenYu accepts. Refuses every request if no
    /// credentials are configured.
    ///
    /// # Errors
    ///
    /// The answer with which the request is refused.
    pub fn check(&self, header: Option<&str>) -> Result<(), Answer> {
        let header = header.map(str::trim).unwrap_or_default();
        let decoded = header
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))
            .and_then(|(_, encoded)| STANDARD.decode(encoded.trim()).ok())
            .and_then(|decoded| String::from_utf8(decoded).ok());
        let matches = decoded.as_deref().is_some_and(|decoded| equal(decoded, &self.authorization))
            || equal(header, &self.authorization);
        match matches && !self.authorization.trim().is_empty() {
            true => Ok(()),
            false => Err(Answer::IllegalAuthorization),
        }
    }
}

/// Compares two texts in constant time, so that the duration does not reveal where they differ.
fn equal(given: &str, secret: &str) -> bool {
    constant_time::verify_slices_are_equal(given.as_bytes(), secret.as_bytes()).is_ok()
}

fn read<'a, T: Deserialize<'a> + Default>(text: Option<&'a str>) -> Result<T, AccessError> {
    Ok(handle::read(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waf_decides_by_model_and_rule() {
        let model = |text| WafModel::read(Some(text)).map(WafModel::unmatched);
        assert_eq!(model(r#"{"model":"black"}"#), Ok(None));
        assert_eq!(model(r#"{"model":"mixed"}"#), Ok(Some(Answer::Forbidden(403))));
        let rule = |text| WafRule::read(Some(text)).map(WafRule::answer);
        assert_eq!(rule(r#"{"permission":"allow","statusCode":"403"}"#), Ok(None));
        let cases = [
            (r#"{"permission":"reject","statusCode":"405"}"#, 405),
            (r#"{"permission":"reject","statusCode":406}"#, 406),
            (r#"{"permission":"reject"}"#, 403),
        ];
        for (handle, code) in cases {
            assert_eq!(rule(handle), Ok(Some(Answer::Forbidden(code))), "{handle}");
        }
    }

    #[test]
    fn a_waf_that_does_not_say_what_it_does_is_refused() {
        for text in ["", "{}", "[]", "no JSON", r#"{"model":"white"}"#, r#"{"permission":"maybe"}"#]
        {
            assert!(WafModel::read(Some(text)).is_err(), "{text}");
            assert!(WafRule::read(Some(text)).is_err(), "{text}");
        }
        let text = r#"{"permission":"reject","statusCode":"teapot"}"#;
        assert!(WafRule::read(Some(text)).is_err());
    }

    #[test]
    fn a_key_counts_in_the_header_and_in_the_query() {
        let rule =
            KeyAuthRule::read(Some(r#"{"keyName":"apiKey","key":"k1"}"#)).unwrap_or_default();
        assert_eq!(rule.key_name, "apiKey");
        let cases = [
            (Some("k1"), None, Ok(())),
            (None, Some("k1"), Ok(())),
            (Some(" "), Some("k1"), Ok(())),
            (Some("k2"), Some("k1"), Ok(())),
            (Some("k2"), Some("k2"), Err(Answer::KeyIncorrect)),
            (None, Some("k11"), Err(Answer::KeyIncorrect)),
            (None, None, Err(Answer::KeyIncorrect)),
        ];
        for (header, query, expected) in cases {
            assert_eq!(rule.check(header, query), expected, "{header:?} {query:?}");
        }
        for handle in [None, Some("{}"), Some(r#"{"keyName":"apiKey","key":""}"#)] {
            let checked = KeyAuthRule::read(handle).map(|rule| rule.check(Some(""), Some("")));
            assert_eq!(checked, Ok(Err(Answer::KeyAuthUnconfigured)));
        }
        assert!(KeyAuthRule::read(Some(r#"["apiKey","k1"]"#)).is_err());
    }

    #[test]
    fn basic_auth_takes_base64_and_the_literal_text() {
        let config = r#"{"defaultHandleJson":"{\"authorization\":\"test:test123\"}"}"#;
        let of_rule = BasicAuthRule::read(Some(r#"{"authorization":"a:b"}"#), Some(config));
        let of_config = BasicAuthRule::read(None, Some(config));
        let refused = Err(Answer::IllegalAuthorization);
        let cases = [
            (&of_rule, Some("a:b"), Ok(())),
            (&of_rule, Some("Basic YTpi"), Ok(())),
            (&of_rule, Some("basic  YTpi"), Ok(())),
            (&of_rule, Some("Bearer YTpi"), refused),
            (&of_rule, Some("Basic a:b"), refused),
            (&of_rule, Some("Basic YTpj"), refused),
            (&of_rule, Some("test:test123"), refused),
            (&of_rule, None, refused),
            (&of_config, Some("test:test123"), Ok(())),
        ];
        for (rule, header, expected) in cases {
            let checked = rule.as_ref().map(|rule| rule.check(header)).ok();
            assert_eq!(checked, Some(expected), "{header:?}");
        }
        for header in [None, Some(""), Some("Basic "), Some("Basic =")] {
            let checked = BasicAuthRule::read(None, None).map(|rule| rule.check(header));
            assert_eq!(checked, Ok(refused), "{header:?}");
        }
    }
}
