//! Sessions of signed-in browsers. After one presentation of the key, a cookie and a proof replace
//! it until the session expires or the key changes.
//!
//! The cookie contains the expiry, a random session number, and a MAC over both, made with the key
//! and a secret of the gateway. No session is stored, so that a successor accepts existing ones.
//! Sign-outs are remembered in memory and in the store until the cookie would expire, for restarts
//! and other gateways.
//!
//! Browsers send a cookie to every port of its host (RFC 6265 §8.5), so that another server there
//! can learn it. The cookie is therefore valid only together with the proof, a second MAC over the
//! same data. The page receives the proof in the answer to its sign-in, stores it where only its
//! own origin can read it, and sends it in a header. Neither forms nor scripts of other websites
//! can send this header, because a custom header requires a preflight (Fetch §4.9).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hmac, rand};

use crate::call::Call;
use crate::options::{AdminKey, Options};
use crate::people::Person;

/// Header in which the console sends its proof.
pub(crate) const CONSOLE_HEADER: &str = "x-tollhouse-console";

/// Duration of a session in seconds: 12 hours, a working shift.
pub(crate) const SESSION_S: u64 = 12 * 3600;

/// Prefixes of the authenticated text, so that a cookie is not valid as a proof or the other way
/// round.
const COOKIE_PURPOSE: &str = "console session until ";
const PROOF_PURPOSE: &str = "console page until ";

/// Text from which the key of log-ins at an identity provider is derived. Neither keys nor tokens
/// have a NUL, so that none of them gives the same key.
const LOG_IN_PURPOSE: &str = "\0log-in at the identity provider";

/// Number of bytes of a session's random number.
const NUMBER_BYTES: usize = 12;

/// Maximum number of remembered sign-outs, of about 100 bytes each. Only signed-in callers can sign
/// out. Beyond this number, the sign-outs whose cookies expire first are forgotten.
pub(crate) const ENDED_MAX: usize = 10_000;

/// Signed-out sessions whose cookies have not expired.
type SignOuts = BTreeSet<SignInId>;

/// Issuer and verifier of the cookies of signed-in browsers.
#[derive(Clone)]
pub struct Sessions {
    secret: hmac::Key,
    is_encrypted: bool,
    ended: Arc<Mutex<SignOuts>>,
}

/// Encryption of the connections between browsers and the listener. With TLS, cookies are marked as
/// secure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// TLS, so that browsers also verify the server.
    Tls,
    /// Browsers connect without TLS.
    Off,
}

/// Session id: expiry in seconds of Unix time, and random number.
pub(crate) type SignInId = (u64, Box<str>);

/// Credentials of a browser that has signed in.
pub(crate) struct SignedIn {
    /// Value of the header `Set-Cookie`.
    pub(crate) line: String,
    /// Value of the header `X-Tollhouse-Console` in the requests of the page.
    pub(crate) proof: String,
}

/// Holder of the key of a session.
#[derive(Debug, Clone)]
pub(crate) enum KeyHolder<'k> {
    Configured(&'k AdminKey),
    Person(Person),
}

impl KeyHolder<'_> {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Configured(key) => &key.name,
            Self::Person(person) => &person.name,
        }
    }

    /// Text that authenticates sessions, which end when it changes.
    fn secret(&self) -> &str {
        match self {
            Self::Configured(key) => &key.key,
            Self::Person(person) => &person.token,
        }
    }

    /// End of a cookie's value that names the user or group.
    fn suffix(&self) -> String {
        match self {
            Self::Configured(_) => String::new(),
            Self::Person(person) => {
                format!(".{}.{}", person.principal.kind.name(), person.principal.id)
            }
        }
    }
}

/// Parsed cookie: expiry, session number, MAC, and the user or group of a stored one.
struct Cookie<'c> {
    end_s: u64,
    number: &'c str,
    code: Vec<u8>,
    person: Option<(&'c str, &'c str)>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Sessions(***, {})", self.is_encrypted)
    }
}

impl Sessions {
    /// Creates the issuer; `secret` is a part of the key that authenticates cookies.
    pub fn new(secret: &[u8], encryption: Encryption) -> Self {
        let is_encrypted = encryption == Encryption::Tls;
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self { secret, is_encrypted, ended: Arc::default() }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the encryption of the listener.
    pub(crate) fn encryption(&self) -> Encryption {
        if self.is_encrypted { Encryption::Tls } else { Encryption::Off }
    }

    /// Returns the key that authenticates log-ins at an identity provider.
    pub(crate) fn log_in_key(&self) -> hmac::Key {
        self.key_for(LOG_IN_PURPOSE)
    }

    /// Returns the name of the cookie. The name contains the port in the `Host` header, because
    /// browsers send cookies to all ports of a host, where other gateways may listen. With TLS the
    /// name begins with `__Host-`, so that browsers accept the cookie over TLS only and never from
    /// another host (RFC 6265bis §4.1.3).
    fn name(&self, call: &Call) -> String {
        self.cookie_name(call, "tollhouse_console")
    }

    /// Returns the name of a cookie, which ends with the port as [`Self::name`] explains.
    pub(crate) fn cookie_name(&self, call: &Call, base: &str) -> String {
        let prefix = if self.is_encrypted { "__Host-" } else { "" };
        let host = call.header("host").unwrap_or_default();
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.map(|port| format!("_{port}")).unwrap_or_default();
        format!("{prefix}{base}{port}")
    }

    /// Signs a browser in with the key of `holder` until `SESSION_S` seconds after `now_s`.
    ///
    /// # Errors
    /// If the system's random number generator is unavailable.
    pub(crate) fn begin(
        &self,
        holder: &KeyHolder<'_>,
        call: &Call,
        now_s: u64,
    ) -> Result<SignedIn, Unspecified> {
        let end_s = now_s.saturating_add(SESSION_S);
        let mut random = [0; NUMBER_BYTES];
        rand::fill(&mut random)?;
        let number = hex(&random);
        let own = self.key_for(holder.secret());
        let code =
            |purpose| hex(hmac::sign(&own, text(purpose, end_s, &number).as_bytes()).as_ref());
        let value = format!("{end_s}.{number}.{}{}", code(COOKIE_PURPOSE), holder.suffix());
        let line = self.line(call, &value, SESSION_S);
        Ok(SignedIn { line, proof: code(PROOF_PURPOSE) })
    }

    /// Returns the value of the `Set-Cookie` header that deletes the cookie.
    pub(crate) fn end_line(&self, call: &Call) -> String {
        self.line(call, "", 0)
    }

    /// Ends the session of a call, so that copies of its cookie are no longer valid. Returns the id
    /// of the session, if there was a valid one.
    pub(crate) fn end(&self, options: &Options, call: &Call, now_s: u64) -> Option<SignInId> {
        self.holder_of(options, call, now_s)?;
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

    /// Returns the holder of the session of a call; `None` without a valid session, or if the call
    /// was not made by the console's page.
    pub(crate) fn holder_of<'k>(
        &self,
        options: &'k Options,
        call: &Call,
        now_s: u64,
    ) -> Option<KeyHolder<'k>> {
        if !is_own_page(call) {
            return None;
        }
        let cookie = self.cookie(call)?;
        let holder = self.owner(options, &cookie, now_s)?;
        let proof = unhex(call.header(CONSOLE_HEADER)?)?;
        let text = text(PROOF_PURPOSE, cookie.end_s, cookie.number);
        hmac::verify(&self.key_for(holder.secret()), text.as_bytes(), &proof).ok()?;
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        (!ended.contains(&cookie.id())).then_some(holder)
    }

    /// Returns the id of the session of a call, unless the session was signed out in this process.
    pub(crate) fn id_of(&self, options: &Options, call: &Call, now_s: u64) -> Option<SignInId> {
        self.holder_of(options, call, now_s)?;
        Some(self.cookie(call)?.id())
    }

    fn cookie<'c>(&self, call: &'c Call) -> Option<Cookie<'c>> {
        let (end, rest) = call.cookie(&self.name(call))?.split_once('.')?;
        let (number, rest) = rest.split_once('.')?;
        let (code, person) = match rest.split_once('.') {
            Some((code, person)) => (code, Some(person.split_once('.')?)),
            None => (rest, None),
        };
        let is_number = number.len() == 2 * NUMBER_BYTES;
        let (end_s, code) = (end.parse().ok()?, unhex(code)?);
        is_number.then_some(Cookie { end_s, number, code, person })
    }

    /// Returns the holder of the key that a cookie was made with, unless the cookie has expired.
    fn owner<'k>(
        &self,
        options: &'k Options,
        cookie: &Cookie<'_>,
        now_s: u64,
    ) -> Option<KeyHolder<'k>> {
        let Cookie { end_s, number, code, person } = cookie;
        if *end_s <= now_s || *end_s > now_s.saturating_add(SESSION_S) {
            return None;
        }
        let is_from = |holder: &KeyHolder<'_>| {
            let own = self.key_for(holder.secret());
            // An empty key authenticates no caller.
            !holder.secret().is_empty()
                && hmac::verify(&own, text(COOKIE_PURPOSE, *end_s, number).as_bytes(), code).is_ok()
        };
        if let Some((kind, id)) = person {
            let registry = options.people.as_ref()?;
            return Person::from_id(registry, kind, id).map(KeyHolder::Person).filter(is_from);
        }
        options.keys.iter().map(KeyHolder::Configured).find(is_from)
    }

    fn key_for(&self, secret: &str) -> hmac::Key {
        let derived = hmac::sign(&self.secret, secret.as_bytes());
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

/// Whether a call was made by the page that this listener served: it has the console's header, and
/// no header of the browser contradicts. Browsers omit `Sec-Fetch-Site` over plain HTTP to other
/// hosts; the console's header alone keeps other websites out then.
pub(crate) fn is_own_page(call: &Call) -> bool {
    let host = call.header("host").unwrap_or_default();
    let is_same = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
    call.headers.contains_key(CONSOLE_HEADER)
        && call.header("sec-fetch-site").is_none_or(|site| site == "same-origin")
        && call.header("origin").is_none_or(is_same)
}

/// Returns lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    /// Number of hexadecimal digits of a SHA-256 MAC.
    const DIGITS: usize = 64;
    if text.len() != DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..DIGITS).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
