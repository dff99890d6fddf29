//! Pending logins: redirects to the provider and the return from it.
//!
//! The state of a login is sealed in a browser cookie. Only this browser can complete the login,
//! once, within ten minutes. The original address is in the cookie too, and in no URL.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use tollhouse_plugin::RequestContext;

use super::cookies::{CookieTerms, Jar};
use super::provider::is_clean;
use super::random::token;
use crate::http_client::Scheme;
use crate::shared::auth::secret::are_equal;

/// Purpose for which login cookies are sealed.
const PURPOSE: &str = "login";
/// Number of concurrent logins per browser, for instance in several windows. A further login
/// replaces another one.
pub(crate) const SLOTS: u8 = 8;
/// Maximum time for a login at the provider, in seconds.
const AGE_MAX_S: u64 = 600;
/// Maximum length of the original address in bytes. Of a longer one, only the path is kept.
const TARGET_BYTES_MAX: usize = 1_500;
/// Maximum number of used states that are stored until they expire.
const USED_MAX: usize = 8_192;
/// Suffix of the callback address, by default.
pub(crate) const DEFAULT_SUFFIX: &str = "/.apisix/redirect";

/// Address to which the provider sends browsers back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Callback {
    /// The callback is the requested path with a suffix.
    Below,
    /// The callback is this path on the requested host.
    Path(String),
    /// The callback is this address, with this path.
    Address(String, String),
}

impl Callback {
    /// Parses the field `redirect_uri` of a conf.
    pub(crate) fn read(uri: Option<&str>) -> Result<Self, &'static str> {
        let Some(uri) = uri.filter(|uri| !uri.is_empty()) else { return Ok(Self::Below) };
        if !is_clean(uri) {
            return Err("it contains characters that are invalid in an address");
        }
        if uri.starts_with('/') {
            return Ok(Self::Path(path_of(uri).to_owned()));
        }
        let rest = uri.split_once("://").map(|(_, rest)| rest);
        let rest = rest.ok_or("it is neither a path nor an http or https address")?;
        let path = rest.find('/').map_or("/", |at| &rest[at..]);
        Ok(Self::Address(uri.to_owned(), path_of(path).to_owned()))
    }

    /// Whether a path belongs to a return from the provider.
    pub(crate) fn is(&self, path: &[u8]) -> bool {
        match self {
            Self::Below => path.ends_with(DEFAULT_SUFFIX.as_bytes()),
            Self::Path(own) | Self::Address(_, own) => path == own.as_bytes(),
        }
    }

    /// Returns the redirect address for a request of `origin`.
    pub(crate) fn address(&self, origin: &str, path: &[u8]) -> String {
        match self {
            Self::Address(address, _) => address.clone(),
            Self::Path(path) => format!("{origin}{path}"),
            Self::Below => {
                let path = encoded(path);
                let path = path.trim_end_matches('/');
                format!("{origin}{path}{DEFAULT_SUFFIX}")
            }
        }
    }
}

fn path_of(uri: &str) -> &str {
    uri.split(['?', '#']).next().unwrap_or_default()
}

/// Login that the browser has not completed, sealed in its cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingLogin {
    /// Id of the login, in the provider's answer; begins with the number of its cookie.
    #[serde(rename = "s")]
    pub(crate) state: String,
    #[serde(rename = "n")]
    pub(crate) nonce: String,
    /// PKCE verifier, which proves that the code is used by the client that requested it (RFC
    /// 7636).
    #[serde(rename = "v")]
    pub(crate) verifier: Option<String>,
    /// Requested path and query, to which the browser returns.
    #[serde(rename = "t")]
    pub(crate) target: String,
    #[serde(rename = "r")]
    pub(crate) redirect_uri: String,
    #[serde(rename = "b")]
    pub(crate) begun_s: u64,
    /// Whether the provider was asked not to interact with the user.
    #[serde(rename = "q", default)]
    pub(crate) is_silent: bool,
}

impl PendingLogin {
    /// Starts a login; `None` if the system's random number generator fails.
    pub(crate) fn new(target: String, redirect_uri: String, now_s: u64) -> Option<Self> {
        let random = token()?;
        let slot = random.bytes().next()? % SLOTS;
        Some(Self {
            state: format!("{slot}{random}"),
            nonce: token()?,
            verifier: None,
            target,
            redirect_uri,
            begun_s: now_s,
            is_silent: false,
        })
    }

    /// Returns the PKCE challenge for the provider.
    pub(crate) fn challenge(&self) -> Option<String> {
        let verifier = self.verifier.as_ref()?;
        let digest = digest::digest(&digest::SHA256, verifier.as_bytes());
        Some(URL_SAFE_NO_PAD.encode(digest))
    }

    /// Returns the lines of its cookie; `None` if the login is too large for one.
    pub(crate) fn cookie(&self, jar: &Jar, scheme: Scheme) -> Option<Vec<String>> {
        let name = cookie_name(jar, &self.state)?;
        let sealed = jar.seal(PURPOSE, &serde_json::to_vec(self).ok()?)?;
        jar.set(&name, &sealed, CookieTerms { age_s: Some(AGE_MAX_S), scheme }, 0)
    }

    /// Returns the login with this state, if this browser started it and it has not expired.
    pub(crate) fn find(
        cx: &RequestContext<'_>,
        jar: &Jar,
        state: &str,
        now_s: u64,
    ) -> Option<Self> {
        let cookie = jar.find(cx, &cookie_name(jar, state)?, PURPOSE);
        let pending: Self = serde_json::from_slice(&cookie.content?).ok()?;
        let is_same = are_equal(pending.state.as_bytes(), state.as_bytes());
        let is_young = now_s < pending.begun_s.saturating_add(AGE_MAX_S);
        (is_same && is_young).then_some(pending)
    }

    /// Returns the lines that remove its cookie.
    pub(crate) fn removal(jar: &Jar, state: &str, scheme: Scheme) -> Vec<String> {
        cookie_name(jar, state).map_or_else(Vec::new, |name| jar.remove(&name, 1, scheme))
    }
}

/// Returns the name of the cookie for a state.
fn cookie_name(jar: &Jar, state: &str) -> Option<String> {
    let slot = state.bytes().next()?.checked_sub(b'0').filter(|slot| *slot < SLOTS)?;
    Some(format!("{}_login{slot}", jar.name))
}

/// Whether a cookie belongs to a pending login.
pub(crate) fn is_login_cookie(jar_name: &str, name: &[u8]) -> bool {
    let rest = name.strip_prefix(jar_name.as_bytes());
    rest.and_then(|rest| rest.strip_prefix(b"_login")).is_some_and(|slot| slot.len() == 1)
}

/// Used states, none of which is accepted again.
#[derive(Debug, Default)]
pub(crate) struct UsedStates(Mutex<HashMap<String, u64>>);

impl UsedStates {
    /// Marks a state as used; `false` if it was used before.
    pub(crate) fn take(&self, state: &str, now_s: u64) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(state) {
            return false;
        }
        if used.len() >= USED_MAX {
            used.retain(|_, until_s| now_s < *until_s);
        }
        if used.len() >= USED_MAX {
            // Clearing is safe, because the provider accepts no code twice.
            used.clear();
        }
        used.insert(state.to_owned(), now_s.saturating_add(AGE_MAX_S));
        true
    }
}

/// Returns the address after a login: the requested path on the requested host, never another host
/// (`//host`, `/\host`).
pub(crate) fn safe_target(uri: &[u8]) -> String {
    let whole = encoded(uri);
    let path = || path_of(&whole).to_owned();
    let target = if whole.len() <= TARGET_BYTES_MAX { whole.to_string() } else { path() };
    let target = if target.len() <= TARGET_BYTES_MAX { target } else { String::new() };
    format!("/{}", target.trim_start_matches('/'))
}

/// Escapes characters that are invalid in a URL: browsers drop tabs and line ends and read `\` as
/// `/`.
fn encoded(uri: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(uri) {
        Ok(text) if is_clean(text) => Cow::Borrowed(text),
        _ => {
            let mut out = String::with_capacity(uri.len());
            for byte in uri {
                let one = [*byte];
                match std::str::from_utf8(&one) {
                    Ok(text) if is_clean(text) => out.push_str(text),
                    _ => out.push_str(&format!("%{byte:02X}")),
                }
            }
            Cow::Owned(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_sent_back_to_paths_of_the_same_host_alone() {
        for (uri, expected) in [
            ("/a/b?c=d", "/a/b?c=d"),
            ("//evil.com/a", "/evil.com/a"),
            ("///evil.com", "/evil.com"),
            ("/\\evil.com", "/%5Cevil.com"),
            ("\\\\evil.com", "/%5C%5Cevil.com"),
            ("/\t/evil.com", "/%09/evil.com"),
            ("/a\r\nSet-Cookie: x", "/a%0D%0ASet-Cookie:%20x"),
            ("https://evil.com/", "/https://evil.com/"),
            ("/\u{e4}", "/%C3%A4"),
            ("", "/"),
        ] {
            assert_eq!(safe_target(uri.as_bytes()), expected, "{uri}");
        }
        assert_eq!(safe_target(format!("/a?{}", "x".repeat(2_000)).as_bytes()), "/a");
        assert_eq!(safe_target(format!("/{}", "x".repeat(2_000)).as_bytes()), "/");
    }

    #[test]
    fn the_place_to_come_back_to_is_as_the_conf_says() {
        let address = |uri, path: &str| {
            Callback::read(uri).expect("it is good").address("https://a", path.as_bytes())
        };
        assert_eq!(address(None, "/x/y"), "https://a/x/y/.apisix/redirect");
        assert_eq!(address(None, "/x/"), "https://a/x/.apisix/redirect");
        assert_eq!(address(None, "/"), "https://a/.apisix/redirect");
        assert_eq!(address(Some("/cb?a=b"), "/x"), "https://a/cb");
        assert_eq!(address(Some("http://b:1/cb"), "/x"), "http://b:1/cb");
        let is = |uri, path: &str| Callback::read(uri).expect("it is good").is(path.as_bytes());
        assert!(is(None, "/x/.apisix/redirect") && !is(None, "/x"));
        assert!(is(Some("/cb"), "/cb") && !is(Some("/cb"), "/cb/"));
        assert!(is(Some("https://b/cb?x=1"), "/cb") && is(Some("https://b"), "/"));
        assert!(Callback::read(Some("cb")).is_err() && Callback::read(Some("/c b")).is_err());
    }

    #[test]
    fn a_state_comes_back_once() {
        let used = UsedStates::default();
        assert!(used.take("a", 0) && !used.take("a", 1) && used.take("b", 1));
        for number in 0..USED_MAX * 2 {
            used.take(&number.to_string(), 2);
        }
        assert!(used.0.lock().expect("no test panicked").len() <= USED_MAX);
    }
}
