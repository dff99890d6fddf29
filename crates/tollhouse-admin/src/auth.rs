//! Who may call: the allow list of addresses, keys, and what a role allows.

use std::net::{IpAddr, SocketAddr};

use hyper::{Method, StatusCode};
use serde_json::json;

use crate::call::Call;
use crate::options::{AdminKey, KeyCheck, Options, Role};
use crate::reply::Reply;

/// Refuses peers that the allow list does not have, with a page as a web server does.
pub(crate) fn check_peer(options: &Options, peer: SocketAddr) -> Result<(), Reply> {
    let address = match peer.ip() {
        IpAddr::V6(address) => address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4),
        address => address,
    };
    let is_allowed =
        options.allow.is_empty() || options.allow.iter().any(|network| network.contains(&address));
    if is_allowed { Ok(()) } else { Err(Reply::page(StatusCode::FORBIDDEN)) }
}

/// Refuses calls without a key that allows them.
pub(crate) fn check_key(options: &Options, call: &Call) -> Result<(), Reply> {
    if options.key_check == KeyCheck::Off {
        return Ok(());
    }
    judge(&options.keys, call).map_err(|description| {
        let body = json!({"error_msg": "failed to check token", "description": description});
        Reply::json(StatusCode::UNAUTHORIZED, &body)
    })
}

fn judge(keys: &[AdminKey], call: &Call) -> Result<(), &'static str> {
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
        Role::Viewer | Role::Admin => Ok(()),
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
