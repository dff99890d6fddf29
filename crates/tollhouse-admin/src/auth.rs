//! Who may call: the allow list of addresses, keys, and what a role allows.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::header::{HOST, ORIGIN};
use hyper::{Method, StatusCode};
use serde_json::json;

use crate::call::Call;
use crate::options::{AdminKey, KeyCheck, Options, Role};
use crate::prefix;
use crate::reply::Reply;
use crate::session::{self, Sessions};

/// The header in which a call shows its key.
const KEY_HEADER: &str = "x-api-key";

/// Refuses peers that the allow list does not have, with a page as a web server does.
pub(crate) fn check_peer(options: &Options, peer: SocketAddr) -> Result<(), Reply> {
    if is_allowed(options, peer) { Ok(()) } else { Err(Reply::page(StatusCode::FORBIDDEN)) }
}

/// Whether the allow list has a peer.
pub(crate) fn is_allowed(options: &Options, peer: SocketAddr) -> bool {
    let address = match peer.ip() {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4),
        address => address,
    };
    options.allow.is_empty() || options.allow.iter().any(|network| network.contains(&address))
}

/// Refuses calls that a page of some website may have a browser make: those that come under a name which that
/// website may have had resolved to this machine, and those that say where they come from. Where keys are needed
/// they are for the console alone: whoever shows a key is known, and over TLS a name has to have a certificate.
pub(crate) fn check_browser(options: &Options, call: &Call) -> Result<(), Reply> {
    let is_keyed = options.key_check == KeyCheck::Required;
    if is_keyed && (!is_for_browsers(call) || is_encrypted(options) || shows_key(options, call)) {
        return Ok(());
    }
    // What is no text is no name of this machine either.
    let text = |name| call.headers.get(name).map(|value| value.to_str().unwrap_or(".."));
    if !options.hosts.may_be_a_websites(text(HOST).unwrap_or_default(), text(ORIGIN)) {
        return Ok(());
    }
    let hint = if is_keyed { "" } else { ", or admin.key_required to true" };
    let text = format!(
        "without a key only calls to an address, a local name or one of listen.hosts, and from no other website, \
         are answered here; set listen.hosts to the name that this machine is called by{hint}"
    );
    Err(Reply::refusal(StatusCode::FORBIDDEN, text))
}

/// Whether a call is for the console, which people open in browsers.
fn is_for_browsers(call: &Call) -> bool {
    let is_below = |prefix: &[&str]| call.segments_after(prefix).is_some();
    call.segments.is_empty() || is_below(&prefix::UI) || is_below(&prefix::CONSOLE)
}

fn is_encrypted(options: &Options) -> bool {
    options.sessions.as_ref().is_some_and(Sessions::is_encrypted)
}

/// Whether a call has a right key in its header, which no page can put there that does not know it.
fn shows_key(options: &Options, call: &Call) -> bool {
    call.header(KEY_HEADER).is_some_and(|key| find(&options.keys, key).is_some())
}

/// Refuses calls without a key that allows them.
pub(crate) fn check_key(options: &Options, call: &Call) -> Result<(), Reply> {
    if options.key_check == KeyCheck::Off {
        return Ok(());
    }
    authorise(options, call).map(drop).map_err(refusal)
}

/// Refuses calls without a key, for paths that change nothing whatever their method.
pub(crate) fn check_reader(options: &Options, call: &Call) -> Result<(), Reply> {
    if options.key_check == KeyCheck::Off {
        return Ok(());
    }
    identify(options, call).map(drop).map_err(refusal)
}

/// Refuses calls that concern the process to all but administrators.
pub(crate) fn check_administrator(options: &Options, call: &Call) -> Result<(), Reply> {
    check_reader(options, call)?;
    match caller_role(options, call) {
        Role::Admin => Ok(()),
        Role::Operator | Role::Viewer => Err(refusal("this takes a key of the role admin")),
    }
}

fn refusal(description: &str) -> Reply {
    let body = json!({"error_msg": "failed to check token", "description": description});
    Reply::json(StatusCode::UNAUTHORIZED, &body)
}

/// As whom a caller reads objects that have secrets. A page is read by whoever passes by, and its texts are copied: in
/// the console's they stay sealed, whoever is signed in.
pub(crate) fn reader_role(options: &Options, call: &Call) -> Role {
    if session::is_own_page(call) { Role::Viewer } else { caller_role(options, call) }
}

/// What a caller is whom [`check_reader`] has let in, whatever the method.
pub(crate) fn caller_role(options: &Options, call: &Call) -> Role {
    match options.key_check {
        KeyCheck::Off => Role::Admin,
        KeyCheck::Required => identify(options, call).map_or(Role::Viewer, |key| key.role),
    }
}

/// Whose key a call has or is signed in with.
pub(crate) fn caller<'o>(options: &'o Options, call: &Call) -> Option<&'o AdminKey> {
    identify(options, call).ok()
}

/// The key of this text. Every key is compared in full: how long it takes says nothing about any of them.
pub(crate) fn find<'k>(keys: &'k [AdminKey], presented: &str) -> Option<&'k AdminKey> {
    let mut found = None;
    for candidate in keys {
        if same(candidate.key.as_bytes(), presented.as_bytes()) {
            found = found.or(Some(candidate));
        }
    }
    found
}

/// Seconds since 1970.
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

fn identify<'o>(options: &'o Options, call: &Call) -> Result<&'o AdminKey, &'static str> {
    if let Some(presented) = presented(call) {
        return find(&options.keys, presented).ok_or("wrong apikey");
    }
    let sessions = options.sessions.as_ref();
    let signed_in = sessions.and_then(|it| it.key_of(&options.keys, call, now_s()));
    signed_in.ok_or("missing apikey")
}

/// Whether a call brings a key, right or wrong, and so is not made by a signed-in browser.
pub(crate) fn shows_any_key(call: &Call) -> bool {
    presented(call).is_some()
}

/// Whether a call brings a wrong key.
pub(crate) fn shows_wrong_key(options: &Options, call: &Call) -> bool {
    options.key_check == KeyCheck::Required
        && presented(call).is_some_and(|key| find(&options.keys, key).is_none())
}

/// The key of a call. A cookie does not count for a write, because browsers send it along with the forms of other sites.
fn presented(call: &Call) -> Option<&str> {
    let header = || call.header(KEY_HEADER).or_else(|| call.header("x_api_key"));
    let cookie = || call.cookie("x_api_key").filter(|_| call.method == Method::GET);
    call.arguments.get("api_key").or_else(header).or_else(cookie)
}

fn same(expected: &[u8], presented: &[u8]) -> bool {
    let differences = expected.iter().zip(presented).fold(0, |sum, (a, b)| sum | (a ^ b));
    // An empty key would let everybody in who sends an empty header.
    !expected.is_empty() && expected.len() == presented.len() && differences == 0
}
