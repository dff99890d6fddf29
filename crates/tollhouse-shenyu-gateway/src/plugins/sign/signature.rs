//! Verification of signed requests, versions 1.0.0 and 2.0.0: signer, time, path and signature.
//!
//! Two checks are stricter than in ShenYu. Signatures are compared in constant time. In version 1,
//! a query parameter may not override `path`, `timestamp` or `version`. ShenYu signs the
//! parameter's value instead, so that an observer of one signature could use it for any path and
//! forever.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_lc_rs::{constant_time, hmac};
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::matching::Problem;
use tollhouse_shenyu::model::AppAuth;
use tollhouse_shenyu::pattern::AntPattern;
use tollhouse_shenyu::weight::is_light;
use tollhouse_shenyu::{Kind, lenient};

use crate::handle::{self, HandleError};
use crate::shared::digest::{hmac_md5, md5, upper_hex};

/// Default tolerance for the age of a signature, or for clocks that are ahead, in minutes
/// (`sign.delay`).
pub const DEFAULT_DELAY_MINUTES: u32 = 5;

/// Maximum length of `ShenYu-Authorization` in bytes. Three short members in base64 and a signature
/// take 300.
const TOKEN_BYTES_MAX: usize = 4096;

const BAD_VERSION: Answer = Answer::SignRefused("sign version does not exist or is wrong!");
const INCOMPLETE: Answer = Answer::SignRefused("sign parameters are incomplete!");
const NO_APP: Answer = Answer::SignRefused("sign appKey does not exist.");
const NO_PATH: Answer = Answer::SignRefused("you have not configured the sign path.");
const UNEQUAL: Answer = Answer::SignRefused("signature value is error!");

/// Parts of a request that a signature covers.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// Headers with the signature.
    pub headers: SignHeaders<'a>,
    /// Original path including the context path, still percent-encoded.
    pub path: &'a str,
    /// Original query, percent-decoded, without the question mark.
    pub query: Option<&'a str>,
    /// Query as the client sent it, still percent-encoded.
    pub raw_query: &'a str,
    /// Body, if the rule has `signRequestBody`; version 1 then signs the query parameters too.
    pub body: Option<&'a [u8]>,
    /// Context path, which selects the application's `appParam`.
    pub module: &'a str,
    /// Current time in milliseconds since 1970.
    pub now_ms: i64,
}

/// Headers of a signed request; absent ones are empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignHeaders<'a> {
    /// Value of the header `version`.
    pub version: &'a str,
    /// Value of the header `appKey` (version 1).
    pub app_key: &'a str,
    /// Value of the header `timestamp` (version 1): milliseconds since 1970.
    pub timestamp: &'a str,
    /// Value of the header `sign` (version 1).
    pub sign: &'a str,
    /// Value of `ShenYu-Authorization`, or else of `Authorization` (version 2).
    pub authorization: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signer<'a> {
    pub app_key: &'a str,
    /// Value of the header `appParam` for nodes of the module.
    pub app_param: Option<&'a str>,
}

/// Rule of the plugin `sign`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SignRule {
    /// Whether the body is signed too.
    #[serde(deserialize_with = "lenient::or_false")]
    pub sign_request_body: bool,
}

impl SignRule {
    /// Reads a rule's handle.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        handle::read(handle)
    }
}

/// Applications that may sign requests, by their keys.
#[derive(Debug, Default)]
pub struct Applications {
    by_key: HashMap<String, Application, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct Application {
    auth: AppAuth,
    paths: Vec<AntPattern>,
}

/// First part of a version 2 token. The time must be text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenParameters<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow)]
    app_key: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
}

#[derive(Clone, Copy)]
enum Algorithm {
    Md5,
    HmacMd5,
    HmacSha256,
    HmacSha512,
}

impl Applications {
    /// Compiles the applications and reports problems. An application without a secret may not
    /// sign; an invalid path pattern is skipped.
    pub fn build<'a>(all: impl IntoIterator<Item = &'a AppAuth>) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut by_key = HashMap::default();
        for auth in all {
            let mut problem = |reason: String| {
                let id = auth.app_key.clone();
                problems.push(Problem { kind: Kind::AppAuth, id, reason });
            };
            // Any client could sign with an empty secret.
            if auth.app_key.trim().is_empty() || auth.app_secret.is_empty() {
                problem("`appKey` and `appSecret` must not be empty".to_owned());
                continue;
            }
            let mut paths = Vec::new();
            for path in auth.path_data_list.iter().filter(|path| path.enabled) {
                match AntPattern::compile(&path.path) {
                    Ok(pattern) => paths.push(pattern),
                    Err(error) => problem(format!("path `{}`: {error}", path.path)),
                }
            }
            by_key.insert(auth.app_key.clone(), Application { auth: auth.clone(), paths });
        }
        (Self { by_key }, problems)
    }

    /// Verifies a signature whose time differs from the clock by at most `delay_minutes`.
    pub fn check(
        &self,
        signed: &SignedRequest<'_>,
        delay_minutes: u32,
    ) -> Result<Signer<'_>, Answer> {
        match signed.headers.version {
            "1.0.0" => self.check_v1(signed, delay_minutes),
            "2.0.0" => self.check_v2(signed, delay_minutes),
            _ => Err(BAD_VERSION),
        }
    }

    fn check_v1(
        &self,
        signed: &SignedRequest<'_>,
        delay_minutes: u32,
    ) -> Result<Signer<'_>, Answer> {
        let SignHeaders { app_key, timestamp, sign, .. } = signed.headers;
        if [app_key, timestamp, sign].iter().any(|header| header.trim().is_empty()) {
            return Err(INCOMPLETE);
        }
        let application = self.find(app_key, timestamp, signed, delay_minutes)?;
        let text = text_v1(signed).ok_or(UNEQUAL)?;
        let expected = upper_hex(&md5(&[text.as_bytes(), application.auth.app_secret.as_bytes()]));
        application.signer(sign, &expected, signed.module)
    }

    fn check_v2(
        &self,
        signed: &SignedRequest<'_>,
        delay_minutes: u32,
    ) -> Result<Signer<'_>, Answer> {
        let token = signed.headers.authorization;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(INCOMPLETE);
        }
        let (encoded, sign) = token.split_once('.').ok_or(INCOMPLETE)?;
        let decoded = STANDARD.decode(encoded).map_err(|error| not_base64(&error))?;
        let parameters: TokenParameters<'_> =
            serde_json::from_slice(&decoded).map_err(|_| INCOMPLETE)?;
        let algorithm = Algorithm::parse(&parameters.alg).ok_or(INCOMPLETE)?;
        if [&*parameters.app_key, sign].iter().any(|text| text.trim().is_empty()) {
            return Err(INCOMPLETE);
        }
        let application =
            self.find(&parameters.app_key, &parameters.timestamp, signed, delay_minutes)?;
        let mut data = format!("{encoded}{}", signed.path).into_bytes();
        if let Some(query) = signed.query.filter(|query| !query.is_empty()) {
            data.push(b'?');
            data.extend_from_slice(query.as_bytes());
        }
        data.extend_from_slice(signed.body.unwrap_or_default());
        let expected = algorithm.sign(&data, application.auth.app_secret.as_bytes());
        application.signer(sign, &expected, signed.module)
    }

    /// Finds the application after checking the time, and checks that it may request the path.
    fn find(
        &self,
        app_key: &str,
        timestamp: &str,
        signed: &SignedRequest<'_>,
        delay_minutes: u32,
    ) -> Result<&Application, Answer> {
        let timestamp: i64 = timestamp.trim().parse().map_err(|_| INCOMPLETE)?;
        if signed.now_ms.abs_diff(timestamp) > u64::from(delay_minutes) * 60_000 {
            return Err(Answer::SignExpired(delay_minutes));
        }
        let application = self.by_key.get(app_key).filter(|application| application.auth.enabled);
        let application = application.ok_or(NO_APP)?;
        if application.auth.open && !application.paths.iter().any(|path| path.matches(signed.path))
        {
            return Err(NO_PATH);
        }
        Ok(application)
    }
}

impl Application {
    fn signer(&self, sign: &str, expected: &str, module: &str) -> Result<Signer<'_>, Answer> {
        constant_time::verify_slices_are_equal(sign.as_bytes(), expected.as_bytes())
            .map_err(|_| UNEQUAL)?;
        let mut parameters = self.auth.param_data_list.iter();
        let parameter = parameters.find(|each| each.app_name.as_deref() == Some(module));
        Ok(Signer {
            app_key: &self.auth.app_key,
            app_param: parameter.and_then(|parameter| parameter.app_param.as_deref()),
        })
    }
}

/// Returns the answer to parameters that are not base64.
fn not_base64(error: &DecodeError) -> Answer {
    match error {
        // Java's message about misplaced padding differs.
        DecodeError::InvalidByte(_, byte) if *byte != b'=' => Answer::SignNotBase64(*byte),
        _ => INCOMPLETE,
    }
}

/// Returns the signed text of version 1: names and values, sorted by name and concatenated. Returns
/// `None` if a parameter would override a value of the request itself.
fn text_v1(signed: &SignedRequest<'_>) -> Option<String> {
    let mut members: BTreeMap<Cow<'_, str>, Cow<'_, str>> = BTreeMap::new();
    if let Some(body) = signed.body {
        add_body(&mut members, body)?;
        add_query(&mut members, signed)?;
    }
    for (name, value) in own(signed) {
        members.insert(name.into(), value.into());
    }
    // A signature cannot be part of the signed text.
    members.remove("sign");
    let text: String = members.iter().flat_map(|(name, value)| [&**name, &**value]).collect();
    Some(text.trim().to_owned())
}

/// Returns the members that every version 1 signature covers.
const fn own<'a>(signed: &SignedRequest<'a>) -> [(&'static str, &'a str); 3] {
    [
        ("path", signed.path),
        ("timestamp", signed.headers.timestamp),
        ("version", signed.headers.version),
    ]
}

fn add_body(members: &mut BTreeMap<Cow<'_, str>, Cow<'_, str>>, body: &[u8]) -> Option<()> {
    if body.is_empty() {
        return Some(());
    }
    if !is_light(body) {
        return None;
    }
    let body: serde_json::Map<String, Value> = serde_json::from_slice(body).ok()?;
    for (name, value) in body {
        let value = match value {
            Value::Null => continue,
            value => java_text(&value),
        };
        members.insert(name.into(), value.into());
    }
    Some(())
}

/// Formats a value as Java prints it: `{a=1, b=[x, null]}`.
fn java_text(value: &Value) -> String {
    let listed = |texts: Vec<String>| texts.join(", ");
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", listed(items.iter().map(java_text).collect())),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{name}={}", java_text(value));
            format!("{{{}}}", listed(members.iter().map(member).collect()))
        }
        other => other.to_string(),
    }
}

/// Adds the query parameters, still percent-encoded. Of duplicate names the first value counts,
/// because later plugins read that one.
fn add_query<'a>(
    members: &mut BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    signed: &SignedRequest<'a>,
) -> Option<()> {
    let mut parameters: BTreeMap<&str, &str> = BTreeMap::new();
    for pair in signed.raw_query.split('&').filter(|pair| !pair.is_empty()) {
        // ShenYu uses `null` as the value of a parameter without one.
        let (name, value) = pair.split_once('=').unwrap_or((pair, "null"));
        if own(signed).iter().any(|(own, meant)| name == *own && value != *meant) {
            return None;
        }
        parameters.entry(name).or_insert(value);
    }
    members.extend(parameters.into_iter().map(|(name, value)| (name.into(), value.into())));
    Some(())
}

impl Algorithm {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "MD5" => Self::Md5,
            "HMD5" => Self::HmacMd5,
            "HS256" => Self::HmacSha256,
            "HS512" => Self::HmacSha512,
            _ => return None,
        })
    }

    fn sign(self, data: &[u8], secret: &[u8]) -> String {
        let tag = |algorithm| hmac::sign(&hmac::Key::new(algorithm, secret), data);
        match self {
            Self::Md5 => upper_hex(&md5(&[data, secret])),
            Self::HmacMd5 => upper_hex(&hmac_md5(secret, data)),
            Self::HmacSha256 => upper_hex(tag(hmac::HMAC_SHA256).as_ref()),
            Self::HmacSha512 => upper_hex(tag(hmac::HMAC_SHA512).as_ref()),
        }
    }
}

#[cfg(test)]
mod tests;
