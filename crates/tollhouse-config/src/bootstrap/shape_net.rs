//! Syntax of addresses and networks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value;

use super::parts::Peer;
use super::shape::{Read, Shape, collect, refuse, show_list, texts_of};
use super::shape_acme::whole_name;

/// Interface on which a port without an address is opened.
#[derive(Clone, Copy)]
pub(super) enum Reach {
    Anyone,
    ThisHost,
}

/// Default port of name servers.
const DNS_PORT: u16 = 53;

/// Maximum number of host names of this machine, because the `Host` of every call is compared with
/// each.
const OWN_NAMES_MAX: usize = 64;

/// Name for peers over a Unix socket, as in nginx.
const UNIX_SOCKET: &str = "unix:";

/// Syntax of listen addresses; a port alone is opened on all interfaces.
pub(crate) struct OpenAddresses;

impl Shape for OpenAddresses {
    type Value = Vec<SocketAddr>;
    fn takes() -> String {
        "addresses such as 9080, 0.0.0.0:9080 or [::]:9080; empty is off".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<SocketAddr>> {
        listen_addresses(value, Reach::Anyone)
    }
    fn show(value: &Vec<SocketAddr>) -> String {
        show_list(value.iter().map(SocketAddr::to_string), "off")
    }
}

/// Syntax of listen addresses; a port alone is opened on loopback.
pub(crate) struct LoopbackAddresses;

impl Shape for LoopbackAddresses {
    type Value = Vec<SocketAddr>;
    fn takes() -> String {
        "addresses such as 127.0.0.1:9090; a bare port is on 127.0.0.1; empty is off".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<SocketAddr>> {
        listen_addresses(value, Reach::ThisHost)
    }
    fn show(value: &Vec<SocketAddr>) -> String {
        OpenAddresses::show(value)
    }
}

pub(crate) struct NameServers;

impl Shape for NameServers {
    type Value = Vec<SocketAddr>;
    fn takes() -> String {
        "addresses such as 10.0.0.2 or 10.0.0.2:5353".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<SocketAddr>> {
        collect(texts_of(value)?.iter().map(|text| {
            let bare = text.parse::<IpAddr>().map(|host| SocketAddr::new(host, DNS_PORT));
            bare.or_else(|_| text.parse()).or_else(|_| {
                refuse(
                    format!("invalid address {text:?}"),
                    "give an IP address, with a port or not",
                )
            })
        }))
    }
    fn show(value: &Vec<SocketAddr>) -> String {
        show_list(value.iter().map(SocketAddr::to_string), "[]")
    }
}

/// Syntax of an address with a port that may be unset.
pub(crate) struct OptionalAddress;

impl Shape for OptionalAddress {
    type Value = Option<SocketAddr>;
    fn takes() -> String {
        "address such as 10.0.0.5:8091, or null".to_owned()
    }
    fn read(value: &Value) -> Read<Option<SocketAddr>> {
        let text = match value {
            Value::Null => "",
            Value::String(text) => text.trim(),
            _ => return refuse("not an address", "give an IP address and a port"),
        };
        if text.is_empty() || text == "null" {
            return Ok(None);
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_unspecified() || address.port() == 0 => {
                let hint = "give the address that clients connect to";
                refuse(format!("{text} is not an address to connect to"), hint)
            }
            Ok(address) => Ok(Some(address)),
            Err(_) => refuse(format!("invalid address {text:?}"), "give an IP address and a port"),
        }
    }
    fn show(value: &Option<SocketAddr>) -> String {
        value.map_or_else(|| "null".to_owned(), |address| address.to_string())
    }
}

pub(crate) struct Networks;

impl Shape for Networks {
    type Value = Vec<IpNet>;
    fn takes() -> String {
        "addresses and networks such as 10.0.0.0/8".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<IpNet>> {
        collect(texts_of(value)?.iter().map(|text| network(text)))
    }
    fn show(value: &Vec<IpNet>) -> String {
        show_list(value.iter().map(show_network), "[]")
    }
}

/// Syntax of a list of networks and Unix sockets.
pub(crate) struct Peers;

impl Shape for Peers {
    type Value = Vec<Peer>;
    fn takes() -> String {
        "addresses, networks such as 10.0.0.0/8, and unix:".to_owned()
    }
    fn read(value: &Value) -> Read<Vec<Peer>> {
        collect(texts_of(value)?.iter().map(|text| {
            if text == UNIX_SOCKET {
                return Ok(Peer::UnixSocket);
            }
            network(text).map(Peer::Network)
        }))
    }
    fn show(value: &Vec<Peer>) -> String {
        let show = |peer: &Peer| match peer {
            Peer::Network(network) => show_network(network),
            Peer::UnixSocket => UNIX_SOCKET.to_owned(),
        };
        show_list(value.iter().map(show), "[]")
    }
}

/// Syntax of the host names of this machine, stored in lower case.
pub(crate) struct OwnNames;

impl Shape for OwnNames {
    type Value = Vec<String>;
    fn takes() -> String {
        format!("names of hosts, at most {OWN_NAMES_MAX}")
    }
    fn read(value: &Value) -> Read<Vec<String>> {
        let names = collect(texts_of(value)?.iter().map(|text| whole_name(text)))?;
        if names.len() > OWN_NAMES_MAX {
            return refuse(format!("{} names are too many", names.len()), Self::takes());
        }
        Ok(names)
    }
    fn show(value: &Vec<String>) -> String {
        show_list(value.iter().cloned(), "[]")
    }
}

fn listen_addresses(value: &Value, reach: Reach) -> Read<Vec<SocketAddr>> {
    let texts = texts_of(value)?;
    if texts.len() == 1 && texts[0] == "off" {
        return Ok(Vec::new());
    }
    let bare = texts.iter().filter(|text| !text.is_empty());
    collect(bare.map(|text| listen_address(text.trim(), reach)))
}

pub(super) fn listen_address(text: &str, reach: Reach) -> Read<SocketAddr> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        let hint = "write a port, or address:port such as 0.0.0.0:9080 or [::]:9080";
        return text.parse().or_else(|_| refuse(format!("invalid listen address {text:?}"), hint));
    }
    let host = match reach {
        Reach::Anyone => Ipv4Addr::UNSPECIFIED,
        Reach::ThisHost => Ipv4Addr::LOCALHOST,
    };
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from((host, port))),
        Err(_) => {
            refuse(format!("invalid port {text}"), "ports go from 1 to 65535; 0 is any free one")
        }
    }
}

pub(super) fn network(text: &str) -> Read<IpNet> {
    let network = tollhouse_model::network::parse(text);
    let hint = "give an IPv4 or IPv6 address, or a network such as 10.0.0.0/8";
    network.map_or_else(|| refuse(format!("invalid address or network {text:?}"), hint), Ok)
}

fn show_network(network: &IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() {
        return network.addr().to_string();
    }
    network.to_string()
}
