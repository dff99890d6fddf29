//! Handling of requests before any plugin of ShenYu's gateway runs: repeated slashes, the gateway's
//! own interface, CORS, health checks, upload limits and fixed answers. Performs no IO.

use std::collections::BTreeSet;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;

/// Path prefix of the gateway's own interface.
pub const LOCAL_PREFIX: &str = "/shenyu/";

/// Path prefix at which the gateway lists its objects.
const ACTUATOR_PREFIX: &str = "/actuator/";

/// Path at which the gateway answers health checks.
const HEALTH_PATH: &str = "/actuator/health";

/// Body of the answer to a health check.
pub const HEALTHY: &str = r#"{"status":"UP"}"#;

/// Request headers that CORS responses always allow, as in ShenYu; configured headers are added.
const ALLOWED_HEADERS: &str = "x-requested-with, authorization, Content-Type, credential, X-XSRF-TOKEN, \
                               token, username, client, ShenYu-Authorization";

/// Settings of all filters; by default each is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    /// Whether repeated slashes in paths are collapsed.
    pub collapse_slashes: bool,
    /// Key of the gateway's own interface; without a key, the interface is off.
    pub local_key: Option<LocalKey>,
    /// CORS settings; without them no CORS headers are added.
    pub cross: Option<Cross>,
    /// Prefixes of further paths that are health checks.
    pub health_prefixes: Vec<String>,
    /// Whether objects are listed below `/actuator/`.
    pub actuator: bool,
    /// Maximum size of a multipart form in bytes; 0 means no limit.
    pub file_bytes_max: u64,
    /// Paths that get an empty answer.
    pub exclude: BTreeSet<String>,
    /// Paths answered with a breaker's fallback page.
    pub fallback: BTreeSet<String>,
}

/// Handling of a request, by its path alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnPath<'a> {
    /// Call to the gateway's own interface.
    Local,
    Health,
    /// Request for the objects at this path.
    Actuator(&'a str),
    Excluded,
    /// Request that is answered with a breaker's fallback page.
    Fallback(&'a str),
}

impl Filters {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the filter that answers a path; `None` leaves the request to plugins.
    pub fn taken<'a>(&self, path: &'a str) -> Option<OwnPath<'a>> {
        if self.local_key.is_some() && path.starts_with(LOCAL_PREFIX) {
            return Some(OwnPath::Local);
        }
        // Unlike ShenYu, whole segments are compared, so that a service may have a path such as
        // `/actuator-x`.
        let is_health = |prefix: &String| {
            path.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/')
            })
        };
        if self.actuator && path.starts_with(ACTUATOR_PREFIX) && path != HEALTH_PATH {
            return Some(OwnPath::Actuator(path));
        }
        if path == HEALTH_PATH && self.actuator || self.health_prefixes.iter().any(is_health) {
            return Some(OwnPath::Health);
        }
        if self.exclude.contains(path) {
            return Some(OwnPath::Excluded);
        }
        self.fallback.contains(path).then_some(OwnPath::Fallback(path))
    }
}

/// Returns the path with repeated slashes collapsed; `None` if it needs no change.
pub fn collapse(path: &str) -> Option<String> {
    if !path.contains("//") {
        return None;
    }
    let mut made = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter != '/' || !made.ends_with('/') {
            made.push(letter);
        }
    }
    Some(made)
}

/// Returns the gateway's answer at a default fallback path of a breaker; `None` for other paths.
pub fn fallback_answer(path: &str) -> Option<String> {
    let plugin = match path {
        "/fallback/hystrix" => "HystrixPlugin",
        "/fallback/resilience4j" => "Resilience4JPlugin",
        "/fallback/sentinel" => "SentinelPlugin",
        _ => return None,
    };
    let text = "fallback success, please check your service status!";
    Some(format!(r#"{{"code":429,"message":"{plugin} {text}"}}"#))
}

/// SHA-512 digest of the key of the local API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalKey(Box<[u8]>);

/// The text is not a digest of 128 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected 128 hexadecimal digits: the SHA-512 digest of the key, as `shenyu.local.sha512Key` has it"
)]
pub struct NoLocalKey;

impl LocalKey {
    /// Parses hexadecimal digits in either case.
    ///
    /// # Errors
    ///
    /// If the text does not consist of 128 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, NoLocalKey> {
        let digits: Option<Vec<u32>> =
            text.trim().chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits.filter(|digits| digits.len() == 2 * digest::SHA512_OUTPUT_LEN);
        let byte = |pair: &[u32]| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8);
        Ok(Self(digits.ok_or(NoLocalKey)?.chunks(2).map(byte).collect()))
    }

    /// Whether the key has this digest; compares in constant time.
    pub fn is_of(&self, key: &[u8]) -> bool {
        let digest = digest::digest(&digest::SHA512, key);
        verify_slices_are_equal(digest.as_ref(), &self.0).is_ok()
    }
}

/// CORS settings: the pages that may read answers across origins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cross {
    /// Origins that are allowed; empty allows all.
    pub origins: BTreeSet<String>,
    /// Request headers that pages may send, in addition to ShenYu's list.
    pub headers: Vec<String>,
    /// Response headers that pages may read.
    pub exposed: Vec<String>,
    /// Whether requests with cookies are allowed.
    pub credentials: bool,
    /// Time in seconds for which browsers cache the answer to a preflight request.
    pub max_age_s: u64,
}

impl Cross {
    /// Whether `origin` belongs to another site than `host`.
    pub fn is_cross(origin: &str, host: &str) -> bool {
        origin.split_once("://").is_none_or(|(_, site)| !site.eq_ignore_ascii_case(host))
    }

    /// Returns the CORS headers for an origin; empty if it is not allowed.
    pub fn headers_for(&self, origin: &str) -> Vec<(&'static str, String)> {
        if !self.origins.is_empty() && !self.origins.contains(origin) {
            return Vec::new();
        }
        let mut headers = vec![
            ("Access-Control-Allow-Origin", origin.to_owned()),
            ("Access-Control-Allow-Methods", "*".to_owned()),
            ("Access-Control-Max-Age", self.max_age_s.to_string()),
        ];
        let mut allowed = ALLOWED_HEADERS.to_owned();
        for name in &self.headers {
            allowed.push_str(", ");
            allowed.push_str(name);
        }
        headers.push(("Access-Control-Allow-Headers", allowed));
        if !self.exposed.is_empty() {
            headers.push(("Access-Control-Expose-Headers", self.exposed.join(", ")));
        }
        if self.credentials {
            headers.push(("Access-Control-Allow-Credentials", "true".to_owned()));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_whole_and_in_shenyus_order() {
        let key = LocalKey::parse(&"0a".repeat(64)).unwrap();
        let set = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let filters = Filters {
            local_key: Some(key),
            health_prefixes: vec!["/actuator".into(), "/live/".into()],
            actuator: false,
            exclude: set(&["/favicon.ico", "/fallback/hystrix"]),
            fallback: set(&["/fallback/hystrix", "/fallback/sentinel"]),
            ..Filters::default()
        };
        for (path, expected) in [
            ("/shenyu/plugin/deleteAll", Some(OwnPath::Local)),
            ("/shenyu", None),
            ("/actuator", Some(OwnPath::Health)),
            ("/actuator/health", Some(OwnPath::Health)),
            ("/actuator-x", None),
            ("/live/now", Some(OwnPath::Health)),
            ("/favicon.ico", Some(OwnPath::Excluded)),
            ("/favicon.icon", None),
            ("/fallback/hystrix", Some(OwnPath::Excluded)),
            ("/fallback/sentinel", Some(OwnPath::Fallback("/fallback/sentinel"))),
            ("/fallback/resilience4j", None),
        ] {
            assert_eq!(filters.taken(path), expected, "{path}");
        }
        assert!(Filters::default().is_empty() && !filters.is_empty());
        assert_eq!(Filters::default().taken("/shenyu/plugin/deleteAll"), None);
    }

    #[test]
    fn only_the_key_of_the_digest_is_one() {
        // Output of `printf key | sha512sum`.
        let digits = "50e4d6f95e2c07862cc0ae78e4f59b8ae9b96ebc3cc4d4c7f5ff3fc9bc5b3ba4";
        assert_eq!(LocalKey::parse(digits), Err(NoLocalKey), "half of one");
        let digest = digest::digest(&digest::SHA512, b"key");
        let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let key = LocalKey::parse(&digits).unwrap();
        assert!(key.is_of(b"key"));
        for other in [&b""[..], b"Key", b"key ", digits.as_bytes()] {
            assert!(!key.is_of(other));
        }
        for broken in ["", "zz", &"g".repeat(128), &"\u{661}".repeat(128)] {
            assert_eq!(LocalKey::parse(broken), Err(NoLocalKey), "{broken}");
        }
    }

    #[test]
    fn pages_of_other_sites_read_answers_where_they_may() {
        assert!(Cross::is_cross("https://a.example", "b.example"));
        assert!(Cross::is_cross("null", "b.example"));
        assert!(!Cross::is_cross("https://B.example:8080", "b.example:8080"));
        let names = |cross: &Cross, origin| -> Vec<&str> {
            cross.headers_for(origin).into_iter().map(|(name, _)| name).collect()
        };
        let any = Cross::default();
        assert_eq!(names(&any, "https://a.example").len(), 4);
        assert!(!names(&any, "https://a.example").contains(&"Access-Control-Allow-Credentials"));
        let one = Cross {
            origins: ["https://a.example".to_owned()].into(),
            credentials: true,
            exposed: vec!["X-A".into()],
            ..Cross::default()
        };
        assert_eq!(names(&one, "https://a.example").len(), 6);
        assert_eq!(names(&one, "https://a.example.evil"), [""; 0]);
    }

    #[test]
    fn runs_of_slashes_are_one() {
        for (path, expected) in [("/a//b", Some("/a/b")), ("///", Some("/")), ("/a/b", None)] {
            assert_eq!(collapse(path).as_deref(), expected, "{path}");
        }
    }
}
