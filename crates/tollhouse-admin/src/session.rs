//! Signing in: a key is shown once, and a cookie and a proof stand for it from then on, until they end or the key
//! changes.
//!
//! The cookie is a date, a number that no other sign-in has, and a code over both, made with the key and a secret of
//! the gateway: no sign-in is remembered here, and a gateway that takes over lets everybody stay signed in. Sign-outs
//! are remembered until the cookie would have ended by itself, here and in the store, for a restart and for other
//! gateways.
//!
//! A cookie goes to every port of its host (RFC 6265 §8.5), so that another server there learns it. It counts only
//! with the proof, another code over the same, which the page gets in the answer to its sign-in, keeps where only its
//! own origin reads, and sends in a header. No form and no other website's script can send that header (§6.2 of RFC
//! 6749; a header of its own makes browsers ask first, Fetch §4.9).

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

/// Prefixes of the signed text, so that a cookie cannot serve as a proof, nor a proof as a cookie.
const COOKIE_PURPOSE: &str = "console session until ";
const PROOF_PURPOSE: &str = "console page until ";

/// Bytes of the number of a sign-in: two never have the same.
const NUMBER_BYTES: usize = 12;

/// Cookies remembered whose owners have signed out, at some 100 bytes each. Only who is signed in signs out; beyond this
/// many in twelve hours, those that end first are forgotten.
pub(crate) const ENDED_MAX: usize = 10_000;

/// Ends and numbers of the cookies whose owners have signed out.
type Ended = BTreeSet<SignInId>;

/// Cookies of signed-in browsers.
#[derive(Clone)]
pub struct Sessions {
    secret: hmac::Key,
    is_encrypted: bool,
    ended: Arc<Mutex<Ended>>,
}

/// How browsers reach the listener. Over TLS they are asked to send cookies nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Over TLS, and so they know whom they call.
    Tls,
    /// In clear text.
    Off,
}

/// A sign-in: its end and its number.
pub(crate) type SignInId = (u64, Box<str>);

/// Credentials of a browser that has signed in.
pub(crate) struct SignedIn {
    /// The `Set-Cookie` line.
    pub(crate) line: String,
    /// Value of the header `X-Tollhouse-Console` in the requests of the page.
    pub(crate) proof: String,
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
    /// Made with this secret of the gateway.
    pub fn new(secret: &[u8], encryption: Encryption) -> Self {
        let is_encrypted = encryption == Encryption::Tls;
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self { secret, is_encrypted, ended: Arc::default() }
    }

    /// Whether browsers come over TLS, and so know whom they call.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The name of the cookie. Browsers send it to every port of the host: the port by which this gateway is called
    /// tells it from those of other gateways there. Names beginning with `__Host-` are taken by browsers over TLS only,
    /// and never from another host (RFC 6265bis §4.1.3).
    fn name(&self, call: &Call) -> String {
        let prefix = if self.is_encrypted { "__Host-" } else { "" };
        let host = call.header("host").unwrap_or_default();
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.map(|port| format!("_{port}")).unwrap_or_default();
        format!("{prefix}tollhouse_console{port}")
    }

    /// Signs a browser in with `key` until `SESSION_S` seconds after `now_s`.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn begin(
        &self,
        key: &AdminKey,
        call: &Call,
        now_s: u64,
    ) -> Result<SignedIn, Unspecified> {
        let end_s = now_s.saturating_add(SESSION_S);
        let mut random = [0; NUMBER_BYTES];
        rand::fill(&mut random)?;
        let number = hex(&random);
        let own = self.key_for(key);
        let code =
            |purpose| hex(hmac::sign(&own, text(purpose, end_s, &number).as_bytes()).as_ref());
        let value = format!("{end_s}.{number}.{}", code(COOKIE_PURPOSE));
        let line = self.line(call, &value, SESSION_S);
        Ok(SignedIn { line, proof: code(PROOF_PURPOSE) })
    }

    /// The line that signs a browser out.
    pub(crate) fn end_line(&self, call: &Call) -> String {
        self.line(call, "", 0)
    }

    /// Ends the sign-in that a call is made with: copies of its cookie count no more.
    pub(crate) fn end(&self, keys: &[AdminKey], call: &Call, now_s: u64) -> Option<SignInId> {
        self.key_of(keys, call, now_s)?;
        let id = self.cookie(call)?.id();
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended = ended.split_off(&(now_s, Box::default()));
        if ended.len() == ENDED_MAX {
            ended.pop_first();
        }
        ended.insert(id.clone());
        Some(id)
    }

    fn line(&self, call: &Call, value: &str, age_s: u64) -> String {
        let (name, secure) = (self.name(call), if self.is_encrypted { "; Secure" } else { "" });
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
        let proof = unhex(call.header(CONSOLE_HEADER)?)?;
        let text = text(PROOF_PURPOSE, cookie.end_s, cookie.number);
        hmac::verify(&self.key_for(found), text.as_bytes(), &proof).ok()?;
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        (!ended.contains(&cookie.id())).then_some(found)
    }

    /// The sign-in that a call is made with, unless it has ended here already.
    pub(crate) fn id_of(&self, keys: &[AdminKey], call: &Call, now_s: u64) -> Option<SignInId> {
        self.key_of(keys, call, now_s)?;
        Some(self.cookie(call)?.id())
    }

    fn cookie<'c>(&self, call: &'c Call) -> Option<Cookie<'c>> {
        let (end, rest) = call.cookie(&self.name(call))?.split_once('.')?;
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
            hmac::verify(&own, text(COOKIE_PURPOSE, *end_s, number).as_bytes(), code).is_ok()
        })
    }

    fn key_for(&self, key: &AdminKey) -> hmac::Key {
        let derived = hmac::sign(&self.secret, key.key.as_bytes());
        hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
    }
}

impl Cookie<'_> {
    fn id(&self) -> SignInId {
        (self.end_s, self.number.into())
    }
}

fn text(purpose: &str, end_s: u64, number: &str) -> String {
    format!("{purpose}{end_s} {number}")
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
