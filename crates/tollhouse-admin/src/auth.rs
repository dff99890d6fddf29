//! Who may call: the allow list of addresses, keys, and what a role allows.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::{Method, StatusCode};
use serde_json::json;

use crate::call::Call;
use crate::options::{AdminKey, KeyCheck, Options, Role};
use crate::reply::Reply;

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

/// Where nobody needs a key, refuses calls that a page of some website has a browser make: those that
/// come under a name which that website may have made up, and those that say where they come from.
pub(crate) fn check_browser(options: &Options, call: &Call) -> Result<(), Reply> {
    if options.key_check == KeyCheck::Required {
        return Ok(());
    }
    let host = call.header("host").unwrap_or_default();
    let is_same = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
    if tollhouse_net::local_name::is_local(host) && call.header("origin").is_none_or(is_same) {
        return Ok(());
    }
    Err(Reply::refusal(
        StatusCode::FORBIDDEN,
        "without a key only calls to an address or a local name, and from no other website, are \
         answered; set admin.key_required to true",
    ))
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

fn refusal(description: &str) -> Reply {
    let body = json!({"error_msg": "failed to check token", "description": description});
    Reply::json(StatusCode::UNAUTHORIZED, &body)
}

/// What a caller may do whom [`check_key`] has let in.
pub(crate) fn role(options: &Options, call: &Call) -> Role {
    match options.key_check {
        KeyCheck::Off => Role::Admin,
        KeyCheck::Required => authorise(options, call).unwrap_or(Role::Viewer),
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
        Role::Viewer | Role::Admin => Ok(key.role),
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

fn presented(call: &Call) -> Option<&str> {
    let header = || call.header("x-api-key").or_else(|| call.header("x_api_key"));
    call.arguments.get("api_key").or_else(header).or_else(|| call.cookie("x_api_key"))
}

fn same(expected: &[u8], presented: &[u8]) -> bool {
    let differences = expected.iter().zip(presented).fold(0, |sum, (a, b)| sum | (a ^ b));
    // An empty key would let everybody in who sends an empty header.
    !expected.is_empty() && expected.len() == presented.len() && differences == 0
}
