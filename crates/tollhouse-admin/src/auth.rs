//! Access control: allow list of addresses, keys, and permissions of roles.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::{Method, StatusCode};
use serde_json::json;

use crate::call::Call;
use crate::options::{AdminKey, KeyCheck, Options, Role};
use crate::people::Person;
use crate::prefix;
use crate::reply::Reply;
use crate::session::{self, KeyHolder, Sessions};

/// Header with the caller's Admin API key.
const KEY_HEADER: &str = "x-api-key";

/// Refuses peers outside the allow list, with an HTML page as nginx does.
pub(crate) fn check_peer(options: &Options, peer: SocketAddr) -> Result<(), Reply> {
    if is_allowed(options, peer) { Ok(()) } else { Err(Reply::page(StatusCode::FORBIDDEN)) }
}

/// Whether the allow list contains a peer; an empty list allows all.
pub(crate) fn is_allowed(options: &Options, peer: SocketAddr) -> bool {
    let address = match peer.ip() {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4),
        address => address,
    };
    options.allow.is_empty() || options.allow.iter().any(|network| network.contains(&address))
}

/// Refuses requests that a foreign website may have made through a browser. Such a website can
/// resolve its own host name to this machine (DNS rebinding), and can send requests that carry its
/// origin. If keys are required, only calls of console paths are checked, and only those without a
/// valid key in the header and without TLS. The others cannot come from a website, because it has
/// neither a key nor a certificate for its host name on this machine.
pub(crate) fn check_browser(options: &Options, call: &Call) -> Result<(), Reply> {
    let is_keyed = options.key_check == KeyCheck::Required;
    if is_keyed && (!is_for_browsers(call) || is_encrypted(options) || shows_key(options, call)) {
        return Ok(());
    }
    let (host, origin) = tollhouse_web::host_and_origin(&call.headers);
    if !options.hosts.may_be_a_websites(host, origin) {
        return Ok(());
    }
    let hint = if is_keyed { "" } else { ", or admin.key_required to true" };
    let text = format!(
        "without a key only calls to an address, a local name or one of listen.hosts, and from no other website, \
         are answered here; set listen.hosts to the name that this machine is called by{hint}"
    );
    Err(Reply::refusal(StatusCode::FORBIDDEN, text))
}

/// Whether the path belongs to the console, which browsers call.
fn is_for_browsers(call: &Call) -> bool {
    let is_below = |prefix: &[&str]| call.segments_after(prefix).is_some();
    call.segments.is_empty() || is_below(&prefix::UI) || is_below(&prefix::CONSOLE)
}

fn is_encrypted(options: &Options) -> bool {
    options.sessions.as_ref().is_some_and(Sessions::is_encrypted)
}

/// Whether the call has a valid key in its header. A website cannot send one without knowing it.
fn shows_key(options: &Options, call: &Call) -> bool {
    call.header(KEY_HEADER).is_some_and(|key| is_known(options, key))
}

/// Refuses calls whose key does not permit the method.
pub(crate) fn check_key(options: &Options, call: &Call) -> Result<(), Reply> {
    if options.key_check == KeyCheck::Off {
        return Ok(());
    }
    authorise(options, call).map(drop).map_err(refusal)
}

/// Refuses calls without a valid key. For paths whose calls change nothing, whatever their method.
pub(crate) fn check_reader(options: &Options, call: &Call) -> Result<(), Reply> {
    if options.key_check == KeyCheck::Off {
        return Ok(());
    }
    identify(options, call).map(drop).map_err(refusal)
}

/// Refuses callers other than administrators, for calls that concern the process.
pub(crate) fn check_administrator(options: &Options, call: &Call) -> Result<(), Reply> {
    check_reader(options, call)?;
    match caller_role(options, call) {
        Role::Admin => Ok(()),
        Role::Operator | Role::Viewer => Err(refusal("this takes a key of the role admin")),
    }
}

pub(crate) fn refusal(description: &str) -> Reply {
    let body = json!({"error_msg": "failed to check token", "description": description});
    Reply::json(StatusCode::UNAUTHORIZED, &body)
}

/// Returns the role that determines how secrets are shown to the caller. For the console's own
/// pages this is always `Viewer`, so that secrets stay sealed, because other people see screens and
/// copy texts from them.
pub(crate) fn reader_role(options: &Options, call: &Call) -> Role {
    if session::is_own_page(call) { Role::Viewer } else { caller_role(options, call) }
}

/// Returns the role of a caller that [`check_reader`] has admitted.
pub(crate) fn caller_role(options: &Options, call: &Call) -> Role {
    match options.key_check {
        KeyCheck::Off => Role::Admin,
        KeyCheck::Required => identify(options, call).map_or(Role::Viewer, |key| key.role),
    }
}

/// Returns the key that the call presents, or that its session was opened with.
pub(crate) fn caller<'o>(options: &'o Options, call: &Call) -> Option<Cow<'o, AdminKey>> {
    identify(options, call).ok()
}

/// Finds the configured key that equals `presented`. Every key is compared in full, so that the
/// response time reveals nothing about the keys.
pub(crate) fn find<'k>(keys: &'k [AdminKey], presented: &str) -> Option<&'k AdminKey> {
    let mut found = None;
    for candidate in keys {
        if same(candidate.key.as_bytes(), presented.as_bytes()) {
            found = found.or(Some(candidate));
        }
    }
    found
}

/// Whether a key is configured, or the token of a user or group.
pub(crate) fn is_known(options: &Options, presented: &str) -> bool {
    find(&options.keys, presented).is_some() || person(options, presented).is_some()
}

/// Returns the user or group of a token.
pub(crate) fn person(options: &Options, presented: &str) -> Option<Person> {
    options.people.as_ref().and_then(|registry| Person::from_token(registry, presented))
}

/// Returns the current time in seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn authorise(options: &Options, call: &Call) -> Result<Role, &'static str> {
    let key = identify(options, call)?;
    match key.role {
        Role::Viewer if call.method != Method::GET => Err("invalid method for role viewer"),
        Role::Viewer | Role::Operator | Role::Admin => Ok(key.role),
    }
}

fn identify<'o>(options: &'o Options, call: &Call) -> Result<Cow<'o, AdminKey>, &'static str> {
    match key_holder(options, call)? {
        KeyHolder::Configured(key) => Ok(Cow::Borrowed(key)),
        KeyHolder::Person(person) => with_role(options, call, &person),
    }
}

fn key_holder<'o>(options: &'o Options, call: &Call) -> Result<KeyHolder<'o>, &'static str> {
    if let Some(presented) = presented(call) {
        if let Some(key) = find(&options.keys, presented) {
            return Ok(KeyHolder::Configured(key));
        }
        return person(options, presented).map(KeyHolder::Person).ok_or("wrong apikey");
    }
    let sessions = options.sessions.as_ref().ok_or("missing apikey")?;
    sessions.holder_of(options, call, now_s()).ok_or("missing apikey")
}

/// Returns the holder of the key or session of a call, whatever the call is allowed to do; `None`
/// if no key is required.
///
/// # Errors
/// If a key is required and the call has no valid one.
pub(crate) fn holder<'o>(
    options: &'o Options,
    call: &Call,
) -> Result<Option<KeyHolder<'o>>, Reply> {
    match options.key_check {
        KeyCheck::Off => Ok(None),
        KeyCheck::Required => key_holder(options, call).map(Some).map_err(refusal),
    }
}

/// Whether the caller may see changes of the registry, which contain files, users and policies: keys
/// may, and people who may do everything.
pub(crate) fn sees_registry_changes(options: &Options, call: &Call) -> bool {
    match holder(options, call) {
        Ok(Some(KeyHolder::Person(_))) => caller_role(options, call) == Role::Admin,
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Returns the name of the holder of a call's key or session.
pub(crate) fn holder_name(options: &Options, call: &Call) -> Option<String> {
    key_holder(options, call).ok().map(|holder| holder.name().to_owned())
}

/// Returns the key of a user or group with its role for a call.
fn with_role<'o>(
    options: &'o Options,
    call: &Call,
    person: &Person,
) -> Result<Cow<'o, AdminKey>, &'static str> {
    let key = options.people.as_ref().and_then(|registry| person.key_for(registry, call));
    key.map(Cow::Owned).ok_or("no policy of this user allows the call")
}

/// Whether a call carries a key, valid or not, rather than a session of a browser.
pub(crate) fn shows_any_key(call: &Call) -> bool {
    presented(call).is_some()
}

/// Whether a call carries an invalid key.
pub(crate) fn shows_wrong_key(options: &Options, call: &Call) -> bool {
    options.key_check == KeyCheck::Required
        && presented(call).is_some_and(|key| !is_known(options, key))
}

/// Returns the key in the query argument, the header, or for GET also the cookie of a call. The
/// cookie is ignored for writes, because browsers also send it with forms of other websites.
fn presented(call: &Call) -> Option<&str> {
    let header = || call.header(KEY_HEADER).or_else(|| call.header("x_api_key"));
    let cookie = || call.cookie("x_api_key").filter(|_| call.method == Method::GET);
    call.arguments.get("api_key").or_else(header).or_else(cookie)
}

fn same(expected: &[u8], presented: &[u8]) -> bool {
    let differences = expected.iter().zip(presented).fold(0, |sum, (a, b)| sum | (a ^ b));
    // An empty configured key matches nothing; otherwise an empty header would grant access.
    !expected.is_empty() && expected.len() == presented.len() && differences == 0
}
