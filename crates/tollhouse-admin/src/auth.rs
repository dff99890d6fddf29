//! Who may call: the allow list of addresses, keys, and what a role allows.

use std::net::{IpAddr, SocketAddr};

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
    authorise(&options.keys, call).map(drop).map_err(|description| {
        let body = json!({"error_msg": "failed to check token", "description": description});
        Reply::json(StatusCode::UNAUTHORIZED, &body)
    })
}

/// What a caller may do whom [`check_key`] has let in.
pub(crate) fn role(options: &Options, call: &Call) -> Role {
    match options.key_check {
        KeyCheck::Off => Role::Admin,
        KeyCheck::Required => authorise(&options.keys, call).unwrap_or(Role::Viewer),
    }
}

fn authorise(keys: &[AdminKey], call: &Call) -> Result<Role, &'static str> {
    let presented = presented(call).ok_or("missing apikey")?;
    // Every key is compared in full: how long it takes says nothing about any of them.
    let mut found = None;
    for candidate in keys {
        if same(candidate.key.as_bytes(), presented.as_bytes()) {
            found = found.or(Some(candidate));
        }
    }
    let key = found.ok_or("wrong apikey")?;
    match key.role {
        Role::Viewer if call.method != Method::GET => Err("invalid method for role viewer"),
        Role::Viewer | Role::Admin => Ok(key.role),
    }
}

fn presented(call: &Call) -> Option<&str> {
    let header = || call.header("x-api-key").or_else(|| call.header("x_api_key"));
    call.arguments.get("api_key").or_else(header).or_else(|| cookie(call, "x_api_key"))
}

fn cookie<'c>(call: &'c Call, name: &str) -> Option<&'c str> {
    let lines = call.headers.get_all(hyper::header::COOKIE).iter();
    let mut pairs = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';'));
    pairs.find_map(|pair| {
        let (candidate, value) = pair.trim().split_once('=')?;
        (candidate == name).then_some(value)
    })
}

fn same(expected: &[u8], presented: &[u8]) -> bool {
    let differences = expected.iter().zip(presented).fold(0, |sum, (a, b)| sum | (a ^ b));
    // An empty key would let everybody in who sends an empty header.
    !expected.is_empty() && expected.len() == presented.len() && differences == 0
}
