//! State in the browser: sealed, so that it can be neither read nor changed, and split over several
//! cookies if needed.
//!
//! The sealed data is bound to its client, provider and purpose (authenticated context). A cookie
//! of another client, provider or purpose does not open, even with the same secret.

use std::ops::RangeInclusive;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollhouse_plugin::RequestContext;

use crate::http_client::Scheme;

/// Longest value of one cookie. Browsers accept 4,096 bytes including name and attributes.
const PART_BYTES_MAX: usize = 3_600;

/// Largest number of cookies per value. All cookies of a request form one header line, which is
/// limited to 8 KiB.
const PARTS_MAX: usize = 2;

/// Sending of a cookie with requests from other sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SameSite {
    Strict,
    Lax,
    None,
    /// Attribute absent, so that the browser's default applies.
    Unsaid,
}

/// Lifetime of a cookie, and the scheme that decides whether it is `Secure`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CookieTerms {
    /// Seconds. `None`: until the browser is closed.
    pub(crate) age_s: Option<u64>,
    pub(crate) scheme: Scheme,
}

/// Settings and key of the cookies of one conf.
#[derive(Debug)]
pub(crate) struct Jar {
    /// Name of the first session cookie.
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) domain: Option<String>,
    pub(crate) is_http_only: bool,
    pub(crate) same_site: SameSite,
    /// Whether cookies are `Secure`. `None`: if the browser uses TLS.
    pub(crate) is_secure: Option<bool>,
    seal: Seal,
}

struct Seal {
    key: RandomizedNonceKey,
    context: String,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("***")
    }
}

/// Cookies of a request that form one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CookieValue {
    /// Opened content; `None` if the cookies are missing or invalid.
    pub(crate) content: Option<Vec<u8>>,
    /// Number of cookies.
    pub(crate) parts: usize,
}

impl Jar {
    /// Returns a jar with a key derived from `secret`, bound to `context`.
    pub(crate) fn new(name: &str, secret: &[u8], context: &str) -> Self {
        let derived = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, secret),
            b"tollhouse openid-connect cookies 1",
        );
        let key = RandomizedNonceKey::new(&AES_256_GCM, derived.as_ref());
        let key = key.expect("a derived key has the cipher's length");
        Self {
            name: name.to_owned(),
            path: "/".to_owned(),
            domain: None,
            is_http_only: true,
            same_site: SameSite::Lax,
            is_secure: None,
            seal: Seal { key, context: context.to_owned() },
        }
    }

    /// Seals a text for `purpose`; `None` if the system's random number generator fails.
    pub(crate) fn seal(&self, purpose: &str, text: &[u8]) -> Option<String> {
        let mut bytes = text.to_vec();
        let aad = Aad::from(self.aad(purpose));
        let nonce = self.seal.key.seal_in_place_append_tag(aad, &mut bytes).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce.as_ref()[..], &bytes].concat()))
    }

    /// Opens a value that was sealed for `purpose`.
    pub(crate) fn open(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let whole = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = whole.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.seal.key.open_in_place(nonce, Aad::from(self.aad(purpose)), &mut sealed);
        opened.ok().map(|opened| opened.to_vec())
    }

    fn aad(&self, purpose: &str) -> Vec<u8> {
        format!("{purpose}\0{}\0{}", self.name, self.seal.context).into_bytes()
    }

    /// Reads the value under a name. The first cookie begins with a digit: the number of cookies.
    pub(crate) fn find(&self, cx: &RequestContext<'_>, name: &str, purpose: &str) -> CookieValue {
        let Some(first) = cx.cookie(name) else { return CookieValue::default() };
        let parts = match first.first() {
            Some(digit @ b'1'..=b'9') => usize::from(digit - b'0'),
            _ => 0,
        };
        let mut sealed = first.get(1..).unwrap_or_default().to_vec();
        if !(1..=PARTS_MAX).contains(&parts) {
            return CookieValue { content: None, parts: 1 };
        }
        for part in 2..=parts {
            let Some(more) = cx.cookie(&part_name(name, part)) else {
                return CookieValue { content: None, parts: part - 1 };
            };
            sealed.extend(more);
        }
        CookieValue { content: self.open(purpose, &sealed), parts }
    }

    /// Returns the `Set-Cookie` lines for a value; `None` if it is too long for all cookies.
    /// `before` is the number of old cookies; superfluous ones are removed.
    pub(crate) fn set(
        &self,
        name: &str,
        sealed: &str,
        terms: CookieTerms,
        before: usize,
    ) -> Option<Vec<String>> {
        let parts = sealed.len().div_ceil(PART_BYTES_MAX).max(1);
        if parts > PARTS_MAX {
            return None;
        }
        let attributes = self.attributes(terms);
        let mut lines = Vec::new();
        for part in 1..=parts {
            let start = (part - 1) * PART_BYTES_MAX;
            let text = &sealed[start..sealed.len().min(start + PART_BYTES_MAX)];
            let number = if part == 1 { parts.to_string() } else { String::new() };
            lines.push(format!("{}={number}{text}{attributes}", part_name(name, part)));
        }
        lines.extend(self.removal(name, parts + 1..=before, terms.scheme));
        Some(lines)
    }

    /// Returns the line that sets a value as it is, such as a random id.
    pub(crate) fn plain(&self, name: &str, value: &str, terms: CookieTerms) -> String {
        format!("{name}={value}{}", self.attributes(terms))
    }

    /// Returns the lines that remove a value.
    pub(crate) fn remove(&self, name: &str, parts: usize, scheme: Scheme) -> Vec<String> {
        self.removal(name, 1..=parts.max(1), scheme)
    }

    fn removal(&self, name: &str, parts: RangeInclusive<usize>, scheme: Scheme) -> Vec<String> {
        let attributes = self.attributes(CookieTerms { age_s: Some(0), scheme });
        parts.map(|part| format!("{}={attributes}", part_name(name, part))).collect()
    }

    fn attributes(&self, terms: CookieTerms) -> String {
        let mut text = format!("; Path={}", self.path);
        if let Some(domain) = &self.domain {
            text.push_str(&format!("; Domain={domain}"));
        }
        if let Some(age_s) = terms.age_s {
            text.push_str(&format!("; Max-Age={age_s}"));
        }
        if self.is_http_only {
            text.push_str("; HttpOnly");
        }
        // Browsers refuse `None` without `Secure`.
        if self
            .is_secure
            .unwrap_or(terms.scheme == Scheme::Https || self.same_site == SameSite::None)
        {
            text.push_str("; Secure");
        }
        text.push_str(match self.same_site {
            SameSite::Strict => "; SameSite=Strict",
            SameSite::Lax => "; SameSite=Lax",
            SameSite::None => "; SameSite=None",
            SameSite::Unsaid => "",
        });
        text
    }
}

/// Returns the names of all cookies that a value may use.
pub(crate) fn part_names(name: &str) -> impl Iterator<Item = String> {
    (1..=PARTS_MAX).map(move |part| part_name(name, part))
}

fn part_name(name: &str, part: usize) -> String {
    if part == 1 { name.to_owned() } else { format!("{name}{part}") }
}

#[cfg(test)]
mod tests {
    use tollhouse_plugin::consumer::NoConsumers;
    use tollhouse_plugin::memory::Memory;
    use tollhouse_plugin::testing::FakeExchange;

    use super::*;

    fn find(jar: &Jar, cookies: &str) -> CookieValue {
        let request = format!("GET / HTTP/1.1\nCookie: {cookies}\n\n");
        let mut exchange = FakeExchange::parse(&request, 0);
        let mut memory = Memory::default();
        jar.find(&RequestContext::new(&mut exchange, &NoConsumers, &mut memory), "s", "session")
    }

    fn pairs(lines: &[String]) -> Vec<&str> {
        lines.iter().map(|line| line.split(';').next().unwrap_or_default()).collect()
    }

    #[test]
    fn what_is_sealed_opens_for_the_same_client_and_purpose_alone() {
        let jar = Jar::new("s", b"0123456789abcdef", "client");
        let sealed = jar.seal("session", b"text").expect("random numbers");
        assert_eq!(jar.open("session", sealed.as_bytes()).as_deref(), Some(&b"text"[..]));
        assert_ne!(jar.seal("session", b"text").expect("random numbers"), sealed);
        assert_eq!(jar.open("login", sealed.as_bytes()), None);
        for other in [
            Jar::new("s", b"0123456789abcdef", "other client"),
            Jar::new("s", b"fedcba9876543210", "client"),
            Jar::new("t", b"0123456789abcdef", "client"),
        ] {
            assert_eq!(other.open("session", sealed.as_bytes()), None);
        }
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(jar.open("session", &bytes), None, "{at}");
            assert_eq!(jar.open("session", &sealed.as_bytes()[..at]), None, "{at}");
        }
    }

    #[test]
    fn what_is_long_is_spread_over_cookies_that_only_count_together() {
        let jar = Jar::new("s", b"0123456789abcdef", "client");
        let text = vec![b'x'; 4_000];
        let sealed = jar.seal("session", &text).expect("random numbers");
        let lines = jar
            .set("s", &sealed, CookieTerms { age_s: Some(60), scheme: Scheme::Http }, 0)
            .expect("it fits");
        let pairs = pairs(&lines);
        let [one, two] = pairs[..] else { panic!("{pairs:?}") };
        assert!(one.starts_with("s=2") && two.starts_with("s2="), "{one} {two}");
        assert!(lines.iter().all(|line| line.len() < 4_096));
        let whole = find(&jar, &format!("a=b; {two}; {one}"));
        assert_eq!(whole, CookieValue { content: Some(text), parts: 2 });
        let short = jar.seal("session", b"x").expect("random numbers");
        let other_short = jar
            .set("s", &short, CookieTerms { age_s: None, scheme: Scheme::Https }, 2)
            .expect("it fits");
        assert_eq!(other_short[1], "s2=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax");
        let cut = one[..one.len() - 1].to_owned();
        for cookies in [
            one.to_owned(),
            two.to_owned(),
            format!("{one}; {}", two.replacen('A', "B", 1).replacen('C', "D", 1) + "A"),
            format!("{cut}; {two}"),
            format!("{one}; s2="),
            "s=".to_owned(),
            "s=9x".to_owned(),
            "s=0".to_owned(),
            format!("s={}", "1".repeat(5_000)),
        ] {
            assert_eq!(find(&jar, &cookies).content, None, "{cookies}");
        }
        let long = jar.seal("session", &[0; 6_000]).expect("random numbers");
        assert_eq!(jar.set("s", &long, CookieTerms { age_s: None, scheme: Scheme::Http }, 0), None);
    }
}
