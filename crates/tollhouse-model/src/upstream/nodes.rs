//! Parser of the nodes of an upstream: a map of addresses to weights, or a list of objects.

use serde_json::Value;
use tollhouse_stdx::{UnixPath, UnixPathError};

use super::{Node, Scheme};
use crate::reader::{Reader, Unknown, host_is_valid};

const NODE_FIELDS: [&str; 5] = ["host", "port", "weight", "priority", "metadata"];

const ADDRESS_HINT: &str = "write host:port, such as 10.0.0.1:8080 or [::1]:8080, or unix:/path";

const SOCKET_HINT: &str = "write unix: and an absolute path, such as unix:/run/app.sock";

const PORT_MAX: i64 = 65_535;

pub(super) fn read(reader: &mut Reader<'_>, value: &Value, scheme: Scheme) -> Option<Vec<Node>> {
    match value {
        Value::Object(_) => read_map(reader, value, scheme),
        Value::Array(items) => reader.items(items, |reader, item| read_node(reader, item, scheme)),
        _ => {
            reader.wrong_type(value, "one of object, array");
            None
        }
    }
}

fn read_map(reader: &mut Reader<'_>, value: &Value, scheme: Scheme) -> Option<Vec<Node>> {
    let entries = reader.map(value)?;
    let mut nodes = Vec::with_capacity(entries.len());
    for (address, weight) in entries {
        nodes.extend(reader.in_field(address, |reader| {
            let place = match NodeLocation::parse(address) {
                Ok(place) => Some(place),
                Err(reason) => {
                    reader.error_unquoted(reason.to_string(), ADDRESS_HINT);
                    None
                }
            };
            let weight = read_weight(reader, weight)?;
            place?.node(reader, NodeDefaults { port: None, scheme }, weight)
        }));
    }
    (nodes.len() == entries.len()).then_some(nodes)
}

fn read_node(reader: &mut Reader<'_>, value: &Value, scheme: Scheme) -> Option<Node> {
    let fields = reader.object(value, &NODE_FIELDS, Unknown::Ignored)?;
    let place = reader.required(fields, "host", read_host);
    let port = reader.optional(fields, "port", read_port);
    let weight = reader.required(fields, "weight", read_weight);
    let priority = reader.optional(fields, "priority", |reader, value| {
        reader.integer(value, i64::from(i32::MIN)..=i64::from(i32::MAX))
    });
    reader.optional(fields, "metadata", |reader, value| reader.map(value));
    let priority = priority.and_then(|priority| priority.try_into().ok()).unwrap_or_default();
    let node = place?.node(reader, NodeDefaults { port, scheme }, weight?)?;
    Some(Node { priority, ..node })
}

/// Settings beside the address of a node that complete its location: the field for its port, and
/// the scheme of its upstream.
struct NodeDefaults {
    port: Option<u16>,
    scheme: Scheme,
}

/// Location of a node, as parsed from its address.
enum NodeLocation {
    Host(String, Option<u16>),
    Socket(UnixPath),
}

impl NodeLocation {
    fn parse(text: &str) -> Result<Self, AddressError> {
        if UnixPath::is_meant(text) {
            return Ok(Self::Socket(UnixPath::parse(text)?));
        }
        parse_address(text).map(|(host, port)| Self::Host(host, port))
    }

    /// Creates a node of this weight at this location. A port in the address takes precedence over
    /// the field `port`.
    fn node(self, reader: &mut Reader<'_>, written: NodeDefaults, weight: u32) -> Option<Node> {
        match self {
            Self::Host(host, behind) => {
                let port = behind.or(written.port).unwrap_or(written.scheme.default_port());
                Some(Node { host, port, socket: None, weight, priority: 0 })
            }
            Self::Socket(_) if written.scheme == Scheme::Udp => {
                reader.error_unquoted("no datagrams are sent to a Unix socket", "give host:port");
                None
            }
            Self::Socket(path) => {
                let host = path.to_string();
                Some(Node { host, port: 0, socket: Some(path), weight, priority: 0 })
            }
        }
    }
}

/// Refuses nodes with an invalid address, whether they are a map or a list.
///
/// # Errors
/// The first invalid address.
pub(crate) fn check_addresses(nodes: &Value) -> Result<(), AddressError> {
    match nodes {
        Value::Object(entries) => {
            entries.keys().try_for_each(|it| NodeLocation::parse(it).map(drop))
        }
        // Hosts other than sockets are checked by the pattern of the schema.
        Value::Array(items) => {
            let hosts = items.iter().filter_map(|item| item.get("host")?.as_str());
            let mut sockets = hosts.filter(|host| UnixPath::is_meant(host));
            sockets.try_for_each(|it| UnixPath::parse(it).map(drop).map_err(Into::into))
        }
        _ => Ok(()),
    }
}

/// Reads the host of a node: `host`, `host:port`, `[v6]`, `[v6]:port`, `unix:/path`, or an IPv6
/// address without brackets, whose port is in a separate field.
fn read_host(reader: &mut Reader<'_>, value: &Value) -> Option<NodeLocation> {
    if let Some(text) = value.as_str().filter(|text| UnixPath::is_meant(text)) {
        return match UnixPath::parse(text) {
            Ok(path) => Some(NodeLocation::Socket(path)),
            Err(error) => {
                reader.error(value, error.to_string(), SOCKET_HINT);
                None
            }
        };
    }
    let host = reader.host(value)?;
    let whole = || NodeLocation::Host(host.to_owned(), None);
    if host.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some(whole());
    }
    // An invalid address is taken as a name that will not resolve, as in APISIX.
    Some(NodeLocation::parse(host).unwrap_or_else(|_| whole()))
}

fn read_weight(reader: &mut Reader<'_>, value: &Value) -> Option<u32> {
    reader.integer(value, 0..=i64::from(u32::MAX))?.try_into().ok()
}

fn read_port(reader: &mut Reader<'_>, value: &Value) -> Option<u16> {
    reader.integer(value, 1..=PORT_MAX)?.try_into().ok()
}

impl Scheme {
    /// Returns the port of nodes that are configured without one.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http | Scheme::Grpc | Scheme::Tcp | Scheme::Udp => 80,
            Scheme::Https | Scheme::Grpcs | Scheme::Tls => 443,
        }
    }
}

/// Why the address of a node is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An IPv6 address without brackets, whose port cannot be told from its last group.
    #[error("IPv6 address must be enclosed with '[' and ']'")]
    Brackets,
    /// The text after `]` does not begin with a colon.
    #[error("unexpected text after ']': {0:?}")]
    Trailing(String),
    /// The host is neither a name nor an address.
    #[error("invalid host {0:?}")]
    Host(String),
    /// The text in brackets is not an IPv6 address.
    #[error("invalid IPv6 address {0:?}")]
    Ipv6(String),
    /// The port is not a number from 1 to 65535.
    #[error("invalid port {0}")]
    Port(String),
    /// The path of a Unix socket is invalid.
    #[error("invalid Unix socket: {0}")]
    Socket(#[from] UnixPathError),
}

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`; the host is returned without brackets.
///
/// # Errors
/// If the host or the port is invalid.
pub fn parse_address(text: &str) -> Result<(String, Option<u16>), AddressError> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((host, after)) = rest.split_once(']') else {
            return Err(AddressError::Brackets);
        };
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(AddressError::Trailing(after.to_owned())),
        }
    } else {
        match text.split_once(':') {
            // With a second colon this is an IPv6 address without brackets, whose port is
            // ambiguous.
            Some((_, port)) if port.contains(':') => {
                return Err(AddressError::Brackets);
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if !host_is_valid(host) {
        return Err(AddressError::Host(host.to_owned()));
    }
    if text.starts_with('[') && host.parse::<std::net::Ipv6Addr>().is_err() {
        return Err(AddressError::Ipv6(host.to_owned()));
    }
    let port = port.map(parse_port).transpose()?;
    Ok((host.to_owned(), port))
}

fn parse_port(text: &str) -> Result<u16, AddressError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = if digits { text.parse::<u16>().ok().filter(|port| *port > 0) } else { None };
    port.ok_or_else(|| AddressError::Port(text.to_owned()))
}
