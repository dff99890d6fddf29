//! Sends requests to a function of AWS Lambda in the place of a node.
//!
//! # Example
//! ```json
//! {
//!   "function_uri": "https://x9w6z07gb9.execute-api.us-east-1.amazonaws.com/default/test",
//!   "authorization": {
//!     "iam": {"accesskey": "an access key", "secretkey": "its secret", "aws_region": "us-east-1"}
//!   }
//! }
//! ```
//!
//! # Answers
//! - the function's answer
//! - 400 when the body cannot be read or exceeds `max_req_body_size`
//! - 503 when the function does not answer within `timeout`
//!
//! # Notes
//! The function gets the client's method, headers, query and body, and after its path the part of
//! the path that `*` in the route's URI stands for. With `apikey`, the header `x-api-key` is added
//! unless the client sends one. Otherwise, with `iam`, requests are signed (Signature Version 4)
//! unless the client sends `Authorization`.

use aws_lc_rs::{digest, hmac};
use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_model::variable::decode_argument;
use tollhouse_plugin::{Category, ConfError, Phases, Plugin, RequestContext, Scope, Step};
use tollhouse_stdx::civil::CivilTime;

use crate::functions::{ConnectionFields, Function, default_timeout, has_header, set_if_absent};
use crate::http_client::Call;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const KEY_HEADER: &str = "x-api-key";

/// Configuration of `aws-lambda`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the function, or of the API gateway that calls it.
    pub function_uri: String,
    /// Credentials of the gateway.
    pub authorization: Option<Authorization>,
    /// Timeout for the function's answer, in milliseconds; 3000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 100))]
    pub timeout: u64,
    /// Connection to the function.
    #[serde(flatten)]
    pub connection: ConnectionFields,
}

/// Credentials of the gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Authorization {
    /// Key for the API gateway of AWS, sent as `x-api-key`.
    pub apikey: Option<SecretText>,
    /// Access key with which requests are signed.
    pub iam: Option<Iam>,
}

/// Access key with the scope of its signatures.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Iam {
    /// Id of the access key.
    pub accesskey: SecretText,
    /// Secret of the access key.
    pub secretkey: SecretText,
    /// Region of the function; `us-east-1` by default.
    #[serde(default = "default_region")]
    pub aws_region: String,
    /// Service that receives the request: `execute-api` by default, `lambda` for function URLs.
    #[serde(default = "default_service")]
    pub service: String,
}

defaults! {
    default_region: String = "us-east-1".into();
    default_service: String = "execute-api".into();
}

#[derive(Debug)]
pub struct AwsLambda {
    function: Function,
    authorization: Authorization,
}

impl Plugin for AwsLambda {
    const NAME: &'static str = "aws-lambda";
    const PRIORITY: i32 = -1899;
    const CATEGORY: Category = Category::Utility;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] =
        &["authorization.apikey", "authorization.iam.accesskey", "authorization.iam.secretkey"];
    const SENT_TO: &'static [&'static str] = &["function_uri", "ssl_verify"];
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let function = Function::new(&config.function_uri, config.timeout, &config.connection)?;
        Ok(Self { function, authorization: config.authorization.unwrap_or_default() })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let unix_seconds = i64::try_from(cx.now().unix_ms / 1_000).unwrap_or(i64::MAX);
        let sign = move |call: &mut Call| self.sign(call, CivilTime::from_unix_seconds(unix_seconds));
        Step::wait(async move { self.function.forward(cx, sign).await.into() })
    }
}

impl AwsLambda {
    fn sign(&self, call: &mut Call, now: CivilTime) {
        if let Some(key) = &self.authorization.apikey
            && !has_header(call, KEY_HEADER)
        {
            return set_if_absent(call, KEY_HEADER, key.as_str());
        }
        if let Some(iam) = &self.authorization.iam
            && !has_header(call, "authorization")
        {
            iam.sign(call, now);
        }
    }
}

impl Iam {
    /// Signs a call with Signature Version 4 of AWS. The query is sent exactly as it is signed.
    fn sign(&self, call: &mut Call, now: CivilTime) {
        let CivilTime { year, month, day, hour, minute, second, .. } = now;
        let date = format!("{year:04}{month:02}{day:02}");
        let time = format!("{date}T{hour:02}{minute:02}{second:02}Z");
        call.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("x-amz-date"));
        call.headers.push(("X-Amz-Date".into(), time.clone().into_bytes()));
        let path = String::from_utf8_lossy(&call.path).into_owned();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let query = canonical_query(query);
        let separator = if query.is_empty() { "" } else { "?" };
        call.path = format!("{path}{separator}{query}").into_bytes();
        let (lines, names) = canonical_headers(call);
        let method = String::from_utf8_lossy(&call.method).to_ascii_uppercase();
        let path = canonical_path(path);
        let body = sha256(&call.body);
        let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{body}");
        let scope = format!("{date}/{}/{}/aws4_request", self.aws_region, self.service);
        let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", sha256(request.as_bytes()));
        let signature = hex(self.key(&date, &text).as_ref());
        let value = format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.accesskey.as_str()
        );
        call.headers.push(("Authorization".into(), value.into_bytes()));
    }

    /// Returns the signature of `text` with the key that is derived for a day.
    fn key(&self, date: &str, text: &str) -> hmac::Tag {
        let step = |key: &[u8], text: &str| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
        };
        let key = step(format!("AWS4{}", self.secretkey.as_str()).as_bytes(), date);
        let key = step(key.as_ref(), &self.aws_region);
        let key = step(key.as_ref(), &self.service);
        let key = step(key.as_ref(), "aws4_request");
        step(key.as_ref(), text)
    }
}

/// Returns the path without a trailing slash.
fn canonical_path(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(shorter) => shorter,
    }
}

/// Returns the arguments of a query, encoded alike and in order.
fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let encode = |text: &str| encoded(&decode_argument(text.as_bytes()));
        (encode(name), encode(value))
    });
    let mut pairs: Vec<(String, String)> = pairs.collect();
    pairs.sort_unstable();
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join("&")
}

/// Encodes all bytes but the unreserved ones (RFC 3986 §2.3).
fn encoded(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns the signed header lines, and their names. Headers of the connection are not signed,
/// because they are not sent on.
fn canonical_headers(call: &mut Call) -> (String, String) {
    const UNSIGNED: [&str; 10] = [
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "proxy-authorization",
    ];
    let mut lines: Vec<(String, String)> = Vec::new();
    for (name, value) in &call.headers {
        let (name, value) = (name.to_ascii_lowercase(), String::from_utf8_lossy(value));
        if UNSIGNED.contains(&name.as_str()) {
            continue;
        }
        let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
        let value = words.join(" ");
        match lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, first)) => first.extend([",", &value]),
            None => lines.push((name, value)),
        }
    }
    lines.sort_unstable();
    let names: Vec<&str> = lines.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    (lines.iter().map(|(name, value)| format!("{name}:{value}\n")).collect(), names)
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;
    use tollhouse_plugin::testing::Harness;

    use super::*;
    use crate::http_client::Repeat;
    use crate::shared::test_server::{TestServer, header};

    /// The request and signature of the suite that AWS publishes as `get-vanilla-query-order-key-case`.
    #[test]
    fn a_signature_is_that_of_the_published_suite() {
        let iam = Iam {
            accesskey: "AKIDEXAMPLE".to_owned().into(),
            secretkey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            aws_region: "us-east-1".into(),
            service: "service".into(),
        };
        let mut call = Call {
            method: b"GET".to_vec(),
            path: b"/?Param2=value2&Param1=value1".to_vec(),
            headers: vec![("Host".into(), b"example.amazonaws.com".to_vec())],
            body: Bytes::new(),
            repeat: Repeat::ByMethod,
        };
        // 2015-08-30T12:36:00Z
        iam.sign(&mut call, CivilTime::from_unix_seconds(1_440_938_160));
        assert_eq!(call.path, b"/?Param1=value1&Param2=value2");
        let signed = String::from_utf8_lossy(&call.headers.last().unwrap().1).into_owned();
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500";
        assert_eq!(signed, expected);
    }

    #[test]
    fn arguments_are_encoded_alike_and_sorted() {
        for (query, expected) in
            [("", ""), ("b=2&a=%7e+x&a", "a=&a=~%20x&b=2"), ("a=b=c&", "a=b%3Dc")]
        {
            assert_eq!(canonical_query(query), expected);
        }
    }

    #[test]
    fn the_key_of_the_gateway_is_added_or_the_request_signed() {
        let server = TestServer::ok();
        let iam = json!({"accesskey": "id", "secretkey": "secret"});
        for (authorization, sent, key, is_signed) in [
            (json!({"apikey": "k", "iam": iam}), "", Some("k"), false),
            (json!({"apikey": "k"}), "X-Api-Key: own\n", Some("own"), false),
            (json!({"iam": iam}), "", None, true),
            (json!({"iam": iam}), "Authorization: own\n", None, false),
        ] {
            let conf = json!({"function_uri": server.url("/f"), "authorization": authorization});
            let request = format!("POST /x?b=1&a=2 HTTP/1.1\n{sent}\nhello");
            assert_eq!(Harness::new::<AwsLambda>(&conf).request(&request).status(), 200);
            let asked = server.next_request();
            assert_eq!(header(&asked, KEY_HEADER), key);
            let signed = header(&asked, "authorization").is_some_and(|it| it.starts_with(ALGORITHM));
            assert_eq!(signed, is_signed, "{asked}");
        }
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, text) in [
            (json!({}), "property \"function_uri\" is required"),
            (
                json!({"function_uri": "http://a/", "authorization": {"iam": {"accesskey": "a"}}}),
                "property \"secretkey\" is required",
            ),
            (json!({"function_uri": "http://a/", "timeout": 1}), "expected 1 to be at least 100"),
        ] {
            let refusal = Harness::refusal::<AwsLambda>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
