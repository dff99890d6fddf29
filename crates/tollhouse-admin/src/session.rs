//! Signing in: a key is shown once, and a cookie stands for it from then on, until it ends or the key changes.
//!
//! The cookie is a date, a number that no other sign-in has, and a code over both, made with the key and a secret of the
//! gateway: no sign-in is remembered here, and a gateway that takes over lets everybody stay signed in. What is
//! remembered, until it would have ended by itself, is who has signed out: a copy of such a cookie opens nothing. It counts only with a header that no form and
//! no other website's script can send, so that another page cannot use it (§6.2 of RFC 6749 calls this CSRF; a
//! header of its own makes browsers ask first, Fetch §4.9).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hmac, rand};

use crate::call::Call;
use crate::options::AdminKey;

/// The header with which the console says who asks.
pub(crate) const CONSOLE_HEADER: &str = "x-tollhouse-console";

/// How long a sign-in lasts, in seconds: a shift.
pub(crate) const SESSION_S: u64 = 12 * 3600;

/// What the code of a cookie is made over, beside its end, so that it stands for nothing else.
const PURPOSE: &str = "console session until ";

/// Bytes of the number of a sign-in: two never have the same.
const NUMBER_BYTES: usize = 12;

/// Cookies remembered whose owners have signed out, at some 100 bytes each. Only who is signed in signs out; beyond this
/// many in twelve hours, those that end first are forgotten.
const ENDED_MAX: usize = 10_000;

/// Ends and numbers of the cookies whose owners have signed out.
type Ended = BTreeSet<(u64, Box<str>)>;

/// Cookies of signed-in browsers.
#[derive(Clone)]
pub struct Sessions {
    secret: hmac::Key,
    is_encrypted: bool,
    ended: Arc<Mutex<Ended>>,
}

/// What a cookie says: when it ends, which sign-in it is of, and the code over that.
struct Cookie<'c> {
    end_s: u64,
    number: &'c str,
    code: Vec<u8>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sessions(***, {})", self.is_encrypted)
    }
}

impl Sessions {
    /// Made with this secret of the gateway; whether browsers may be asked to send cookies over TLS only.
    pub fn new(secret: &[u8], is_encrypted: bool) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self { secret, is_encrypted, ended: Arc::default() }
    }

    /// Whether browsers come over TLS, and so know whom they call.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// What a cookie of this name holds. Names beginning with `__Host-` are taken by browsers over TLS only, and
    /// never from another host (RFC 6265bis §4.1.3).
    fn name(&self) -> &'static str {
        if self.is_encrypted { "__Host-tollhouse_console" } else { "tollhouse_console" }
    }

    /// The line that signs a browser in with `key` until `SESSION_S` seconds after `now_s`.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn begin(&self, key: &AdminKey, now_s: u64) -> Result<String, Unspecified> {
        let end_s = now_s.saturating_add(SESSION_S);
        let mut random = [0; NUMBER_BYTES];
        rand::fill(&mut random)?;
        let number = hex(&random);
        let code = hmac::sign(&self.key_for(key), text(end_s, &number).as_bytes());
        Ok(self.line(&format!("{end_s}.{number}.{}", hex(code.as_ref())), SESSION_S))
    }

    /// The line that signs a browser out. The cookie that the call has counts no more, whoever else may have it.
    pub(crate) fn end(&self, keys: &[AdminKey], call: &Call, now_s: u64) -> String {
        if let Some(cookie) = self.cookie(call).filter(|it| self.owner(keys, it, now_s).is_some()) {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            *ended = ended.split_off(&(now_s, Box::default()));
            if ended.len() == ENDED_MAX {
                ended.pop_first();
            }
            ended.insert((cookie.end_s, cookie.number.into()));
        }
        self.line("", 0)
    }

    fn line(&self, value: &str, age_s: u64) -> String {
        let (name, secure) = (self.name(), if self.is_encrypted { "; Secure" } else { "" });
        format!("{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
    }

    /// The key that a call is signed in with, if it is and was made by the console's own page.
    pub(crate) fn key_of<'k>(
        &self,
        keys: &'k [AdminKey],
        call: &Call,
        now_s: u64,
    ) -> Option<&'k AdminKey> {
        if !is_own_page(call) {
            return None;
        }
        let cookie = self.cookie(call)?;
        let found = self.owner(keys, &cookie, now_s)?;
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        (!ended.contains(&(cookie.end_s, cookie.number.into()))).then_some(found)
    }

    fn cookie<'c>(&self, call: &'c Call) -> Option<Cookie<'c>> {
        let (end, rest) = call.cookie(self.name())?.split_once('.')?;
        let (number, code) = rest.split_once('.')?;
        let is_number = number.len() == 2 * NUMBER_BYTES;
        is_number.then_some(Cookie { end_s: end.parse().ok()?, number, code: unhex(code)? })
    }

    /// The key that a cookie was made with, while it lasts.
    fn owner<'k>(&self, keys: &'k [AdminKey], cookie: &Cookie, now_s: u64) -> Option<&'k AdminKey> {
        let Cookie { end_s, number, code } = cookie;
        if *end_s <= now_s || *end_s > now_s.saturating_add(SESSION_S) {
            return None;
        }
        // An empty key stands for nobody, as everywhere.
        let mut keys = keys.iter().filter(|key| !key.key.is_empty());
        keys.find(|key| {
            let own = self.key_for(key);
            hmac::verify(&own, text(*end_s, number).as_bytes(), code).is_ok()
        })
    }

    fn key_for(&self, key: &AdminKey) -> hmac::Key {
        let derived = hmac::sign(&self.secret, key.key.as_bytes());
        hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
    }
}

fn text(end_s: u64, number: &str) -> String {
    format!("{PURPOSE}{end_s} {number}")
}

/// Whether a call comes from the page that this listener served: it has the console's header, and the browser says
/// nothing else. `Sec-Fetch-Site` is missing on plain HTTP to other hosts; the header alone keeps others out there.
pub(crate) fn is_own_page(call: &Call) -> bool {
    let host = call.header("host").unwrap_or_default();
    let is_same = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
    call.headers.contains_key(CONSOLE_HEADER)
        && call.header("sec-fetch-site").is_none_or(|site| site == "same-origin")
        && call.header("origin").is_none_or(is_same)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    /// Digits of a code of SHA-256.
    const DIGITS: usize = 64;
    if text.len() != DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..DIGITS).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
