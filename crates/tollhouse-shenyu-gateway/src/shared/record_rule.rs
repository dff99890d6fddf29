//! Rules of the logging plugins: sampling, body limits and masking. The caller decides where
//! records are written.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::digest;
use tollhouse_shenyu::lenient;
use tollhouse_shenyu::weight::is_light;

use crate::handle::{self, HandleError};

/// Maximum size of a body in a record in bytes, as in ShenYu.
const BODY_BYTES_MAX: usize = 512 << 10;

/// Number of parts that correspond to a sampling rate of 1.
const SAMPLE_PARTS: u64 = 10_000;

/// Headers that are always masked, so that readers of the log cannot impersonate clients.
const CREDENTIALS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "set-cookie", "localkey", "x-access-token"];

/// Text that replaces masked values.
const MASK: &str = "******";

/// Rule of a logging plugin, combined with the plugin's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRule {
    /// Sampling rate in parts of [`SAMPLE_PARTS`].
    sample_parts: u64,
    /// Largest request body in a record.
    pub request_bytes_max: usize,
    /// Largest response body in a record.
    pub answer_bytes_max: usize,
    /// Names whose values are masked, in lower case.
    keywords: Vec<String>,
    mask: Mask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mask {
    Digest,
    Characters,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Config {
    #[serde(deserialize_with = "lenient::text")]
    sample_rate: Option<String>,
    #[serde(deserialize_with = "lenient::integer")]
    max_request_body: Option<i64>,
    #[serde(deserialize_with = "lenient::integer")]
    max_response_body: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Handle {
    #[serde(deserialize_with = "lenient::or_default")]
    keyword: String,
    #[serde(deserialize_with = "lenient::or_default")]
    mask_type: String,
    #[serde(deserialize_with = "lenient::or_false")]
    mask_status: bool,
}

impl RecordRule {
    /// Reads a handle and the plugin's configuration.
    ///
    /// # Errors
    ///
    /// If either is not a JSON object of this shape, or the rate or mask is invalid.
    pub fn read(handle: Option<&str>, config: Option<&str>) -> Result<Self, HandleError> {
        let wrong = HandleError::Malformed;
        let config: Config = handle::read(config)?;
        let handle: Handle = handle::read(handle)?;
        let rate = config.sample_rate.filter(|rate| !rate.trim().is_empty());
        let bytes = |bytes: Option<i64>| {
            let bytes = bytes.map_or(BODY_BYTES_MAX, |bytes| usize::try_from(bytes).unwrap_or(0));
            bytes.min(BODY_BYTES_MAX)
        };
        let keywords = handle.keyword.split(';').map(|word| word.trim().to_ascii_lowercase());
        let keywords = keywords.filter(|word| !word.is_empty() && handle.mask_status);
        Ok(Self {
            sample_parts: rate.map_or(Ok(SAMPLE_PARTS), |rate| parts(&rate))?,
            request_bytes_max: bytes(config.max_request_body),
            answer_bytes_max: bytes(config.max_response_body),
            keywords: keywords.collect(),
            mask: match &*handle.mask_type {
                "" | "dataMaskByMD5" => Mask::Digest,
                "dataMaskByCharReplace" => Mask::Characters,
                other => return Err(wrong(format!("unknown mask `{other}`"))),
            },
        })
    }

    /// Returns the rule with another sampling rate.
    ///
    /// # Errors
    ///
    /// If it is not a number from 0 to 1.
    pub fn with_rate(self, rate: &str) -> Result<Self, HandleError> {
        Ok(Self { sample_parts: parts(rate)?, ..self })
    }

    /// Whether the exchange with this random number is recorded.
    pub const fn takes(&self, draw: u64) -> bool {
        draw % SAMPLE_PARTS < self.sample_parts
    }

    /// Returns header fields for a record, with secrets masked.
    pub fn headers(&self, lines: impl IntoIterator<Item = (String, String)>) -> Value {
        let mut headers = Map::new();
        for (name, value) in lines {
            let folded = name.to_ascii_lowercase();
            let value = match &*folded {
                name if CREDENTIALS.contains(&name) => MASK.to_owned(),
                name if self.keywords.iter().any(|keyword| keyword == name) => self.masked(&value),
                _ => value,
            };
            headers.insert(name, value.into());
        }
        headers.into()
    }

    /// Returns a body for a record, with secrets masked. Returns `None` if it is not UTF-8, or if
    /// masking is required and it cannot be parsed as JSON.
    pub fn body(&self, body: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(body).ok()?;
        if self.keywords.is_empty() {
            return Some(text.to_owned());
        }
        let value = is_light(body).then(|| serde_json::from_str(text).ok()).flatten();
        let mut value: Value = value?;
        self.mask_members(&mut value);
        Some(value.to_string())
    }

    fn mask_members(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    if self.keywords.contains(&name.to_ascii_lowercase()) {
                        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        *value = self.masked(&text).into();
                    } else {
                        self.mask_members(value);
                    }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask_members(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn masked(&self, text: &str) -> String {
        match self.mask {
            Mask::Digest => {
                digest::upper_hex(&digest::md5(&[text.as_bytes()])).to_ascii_lowercase()
            }
            // A fixed length, because the length of a short secret would reveal much of it.
            Mask::Characters => MASK.to_owned(),
        }
    }
}

/// Converts a rate from 0 to 1 to parts of [`SAMPLE_PARTS`].
fn parts(rate: &str) -> Result<u64, HandleError> {
    let rate = rate.trim().parse::<f64>().ok().filter(|rate| (0.0..=1.0).contains(rate));
    let wrong = || HandleError::Malformed("`sampleRate` must be a number from 0 to 1".to_owned());
    Ok((rate.ok_or_else(wrong)? * SAMPLE_PARTS as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(handle: &str, config: &str) -> RecordRule {
        RecordRule::read(Some(handle), Some(config)).expect("both are good")
    }

    #[test]
    fn names_are_masked_in_headers_and_bodies_and_credentials_always() {
        let lines = || [("Authorization", "Bearer x"), ("X-Card", "4711"), ("Accept", "*/*")];
        let lines = || lines().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let masks =
            r#"{"keyword":"x-card;CARD","maskType":"dataMaskByCharReplace","maskStatus":"true"}"#;
        let masking = rule(masks, "");
        assert_eq!(
            masking.headers(lines()).to_string(),
            r#"{"Authorization":"******","X-Card":"******","Accept":"*/*"}"#
        );
        let body = br#"{"order":[{"card":{"n":1}},{"card":4711}],"a":"card"}"#;
        let expected = r#"{"order":[{"card":"******"},{"card":"******"}],"a":"card"}"#;
        assert_eq!(masking.body(body).as_deref(), Some(expected));
        assert_eq!(masking.body(b"card=4711"), None, "what cannot be masked is left out");
        let plain = rule("", "");
        assert_eq!(plain.body(b"card=4711").as_deref(), Some("card=4711"));
        assert_eq!(plain.body(b"\xff"), None);
        let headers = plain.headers(lines()).to_string();
        assert!(headers.contains("4711") && !headers.contains("Bearer"), "{headers}");
    }

    #[test]
    fn a_share_of_exchanges_is_written() {
        for (config, expected) in [
            ("", 10_000),
            (r#"{"sampleRate":"0.25"}"#, 2_500),
            (r#"{"sampleRate":0}"#, 0),
            (r#"{"sampleRate":""}"#, 10_000),
        ] {
            let rule = rule("", config);
            assert_eq!((0..10_000).filter(|draw| rule.takes(*draw)).count(), expected, "{config}");
        }
        let other = rule("", r#"{"sampleRate":"1"}"#).with_rate("0.5").expect("it is a share");
        assert_eq!((0..10_000).filter(|draw| other.takes(*draw)).count(), 5_000);
        assert!(other.with_rate("-1").is_err());
        let bounded = rule("", r#"{"maxRequestBody":99999999999,"maxResponseBody":"-1"}"#);
        assert_eq!((bounded.request_bytes_max, bounded.answer_bytes_max), (512 << 10, 0));
        for (handle, config) in [
            ("", r#"{"sampleRate":"NaN"}"#),
            ("", r#"{"sampleRate":"2"}"#),
            (r#"{"maskType":"rot13"}"#, ""),
            ("[]", ""),
        ] {
            assert!(RecordRule::read(Some(handle), Some(config)).is_err(), "{handle} {config}");
        }
    }
}
