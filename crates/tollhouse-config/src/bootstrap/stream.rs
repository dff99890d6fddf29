//! `listen.stream`: the listeners for stream routes, and their syntax.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};

use super::shape::{Read, Shape, collect, refuse};
use super::shape_net::{Reach, listen_address};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamListen {
    pub address: SocketAddr,
    pub protocol: StreamProtocol,
    pub tls: StreamTls,
    /// Whether connections begin with a PROXY header.
    pub proxy_protocol: bool,
    /// Version of the PROXY protocol header that is sent to nodes; none by default.
    pub to_upstream: HeaderToNodes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamProtocol {
    Tcp,
    Udp,
}

/// Handling of TLS by a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTls {
    /// Connections are not encrypted.
    Off,
    /// The server name in the TLS hello selects the route; the bytes are forwarded unchanged.
    PassThrough,
    /// TLS is terminated with the certificates of the SSL objects.
    Terminated,
}

/// Version of the PROXY protocol header that is sent to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderToNodes {
    None,
    V1,
    V2,
}

const FIELDS: [&str; 5] =
    ["address", "protocol", "tls", "proxy_protocol", "proxy_protocol_to_upstream"];

/// Syntax of `listen.stream`: a list of tables, which may also be written as JSON text.
pub(crate) struct StreamListeners;

impl Shape for StreamListeners {
    type Value = Vec<StreamListen>;
    fn takes() -> String {
        "list of tables such as {address: 0.0.0.0:9100, protocol: tcp}, as JSON in a variable or flag"
            .to_owned()
    }
    fn read(value: &Value) -> Read<Vec<StreamListen>> {
        match value {
            Value::Array(items) => collect(items.iter().map(read_one)),
            Value::String(text) if text.trim().is_empty() => Ok(Vec::new()),
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(Value::Array(items)) => collect(items.iter().map(read_one)),
                _ => no_list(),
            },
            _ => no_list(),
        }
    }
    fn show(value: &Vec<StreamListen>) -> String {
        let items = value.iter().map(|listener| {
            json!({
                "address": listener.address.to_string(),
                "protocol": match listener.protocol {
                    StreamProtocol::Tcp => "tcp",
                    StreamProtocol::Udp => "udp",
                },
                "tls": match listener.tls {
                    StreamTls::Off => Value::Bool(false),
                    StreamTls::PassThrough => "passthrough".into(),
                    StreamTls::Terminated => Value::Bool(true),
                },
                "proxy_protocol": listener.proxy_protocol,
                "proxy_protocol_to_upstream": match listener.to_upstream {
                    HeaderToNodes::None => Value::Bool(false),
                    HeaderToNodes::V1 => "v1".into(),
                    HeaderToNodes::V2 => "v2".into(),
                },
            })
        });
        Value::Array(items.collect()).to_string()
    }
}

fn no_list<T>() -> Read<T> {
    refuse(
        "not a list of listeners",
        "write a list of tables such as [{\"address\": \"0.0.0.0:9100\"}]",
    )
}

/// Parses one listener: a table, or only an address.
fn read_one(value: &Value) -> Read<StreamListen> {
    let alone = Map::from_iter([("address".to_owned(), value.clone())]);
    let fields = match value {
        Value::Object(fields) => fields,
        Value::String(_) | Value::Number(_) => &alone,
        _ => return no_list(),
    };
    if let Some(name) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
        let near = tollhouse_stdx::nearest(name, FIELDS.into_iter());
        let hint = near.map_or_else(
            || format!("its fields are {}", FIELDS.join(", ")),
            |near| format!("did you mean \"{near}\"?"),
        );
        return refuse(format!("unknown field \"{name}\" of a listener"), hint);
    }
    let address = match fields.get("address") {
        Some(Value::String(text)) => listen_address(text.trim(), Reach::Anyone)?,
        Some(Value::Number(port)) => listen_address(&port.to_string(), Reach::Anyone)?,
        _ => return refuse("a listener without an address", "give it, such as 0.0.0.0:9100"),
    };
    let word = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.to_ascii_lowercase(),
        Some(other) => other.to_string(),
    };
    let listener = StreamListen {
        address,
        protocol: match word("protocol").as_str() {
            "" | "tcp" => StreamProtocol::Tcp,
            "udp" => StreamProtocol::Udp,
            other => return refuse(format!("unknown protocol {other}"), "use tcp or udp"),
        },
        tls: match word("tls").as_str() {
            "" | "false" => StreamTls::Off,
            "passthrough" => StreamTls::PassThrough,
            "true" => StreamTls::Terminated,
            other => {
                return refuse(format!("unknown tls {other}"), "use true, false or passthrough");
            }
        },
        proxy_protocol: match word("proxy_protocol").as_str() {
            "" | "false" => false,
            "true" => true,
            other => {
                return refuse(format!("unknown proxy_protocol {other}"), "use true or false");
            }
        },
        to_upstream: match word("proxy_protocol_to_upstream").as_str() {
            "" | "false" => HeaderToNodes::None,
            // `true` means version 1, as in APISIX.
            "true" | "v1" => HeaderToNodes::V1,
            "v2" => HeaderToNodes::V2,
            other => {
                let reason = format!("unknown proxy_protocol_to_upstream {other}");
                return refuse(reason, "use false, v1 or v2");
            }
        },
    };
    check_one(listener)
}

/// Refuses a listener whose options contradict each other.
fn check_one(listener: StreamListen) -> Read<StreamListen> {
    if listener.protocol == StreamProtocol::Udp {
        if listener.tls != StreamTls::Off {
            return refuse("datagrams have no TLS", "leave tls out, or use protocol tcp");
        }
        if listener.proxy_protocol {
            let hint = "leave proxy_protocol out, or use protocol tcp";
            return refuse("PROXY headers are not read from datagrams", hint);
        }
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read_from_tables_addresses_and_text_and_shown_so_that_they_are_read_again() {
        let table = [
            (json!([]), "[]"),
            (json!(""), "[]"),
            (json!([9100]), "tcp 0.0.0.0:9100"),
            (json!(["[::1]:53"]), "tcp [::1]:53"),
            (json!([{"address": "127.0.0.1:53", "protocol": "udp"}]), "udp 127.0.0.1:53"),
            (
                json!([{"address": 1, "tls": "passthrough", "proxy_protocol": true}]),
                "tcp 0.0.0.0:1 PassThrough header",
            ),
            (
                json!("[{\"address\": 1, \"proxy_protocol_to_upstream\": \"v2\"}]"),
                "tcp 0.0.0.0:1 V2",
            ),
            (json!([{"address": 1, "proxy_protocol_to_upstream": true}]), "tcp 0.0.0.0:1 V1"),
            (json!([{"address": 1, "tls": true}]), "tcp 0.0.0.0:1 Terminated"),
        ];
        let say = |listeners: &Vec<StreamListen>| {
            let one = |listener: &StreamListen| {
                let mut text = match listener.protocol {
                    StreamProtocol::Tcp => format!("tcp {}", listener.address),
                    StreamProtocol::Udp => format!("udp {}", listener.address),
                };
                if listener.tls != StreamTls::Off {
                    text.push_str(&format!(" {:?}", listener.tls));
                }
                if listener.proxy_protocol {
                    text.push_str(" header");
                }
                if listener.to_upstream != HeaderToNodes::None {
                    text.push_str(&format!(" {:?}", listener.to_upstream));
                }
                text
            };
            let all: Vec<String> = listeners.iter().map(one).collect();
            if all.is_empty() { "[]".to_owned() } else { all.join(", ") }
        };
        for (value, expected) in table {
            let read =
                StreamListeners::read(&value).unwrap_or_else(|why| panic!("{value}: {why:?}"));
            assert_eq!(say(&read), expected, "{value}");
            let again = StreamListeners::read(&Value::String(StreamListeners::show(&read)));
            assert_eq!(again, Ok(read), "{value}");
        }
    }

    #[test]
    fn what_no_listener_can_be_is_refused_with_a_reason() {
        let table = [
            (json!({"address": 1}), "not a list of listeners"),
            (json!([{}]), "without an address"),
            (json!([{"adress": 1}]), "unknown field \"adress\""),
            (json!([{"address": "x"}]), "invalid listen address"),
            (json!([{"address": 1, "protocol": "sctp"}]), "unknown protocol"),
            (json!([{"address": 1, "tls": "x"}]), "unknown tls"),
            (json!([{"address": 1, "protocol": "udp", "tls": "passthrough"}]), "no TLS"),
            (json!([{"address": 1, "protocol": "udp", "proxy_protocol": true}]), "not read"),
            (json!([{"address": 1, "proxy_protocol": "v1"}]), "unknown proxy_protocol"),
            (json!([{"address": 1, "proxy_protocol_to_upstream": 3}]), "unknown proxy_protocol_to"),
        ];
        for (value, expected) in table {
            let refusals = StreamListeners::read(&value).expect_err("it is refused");
            assert!(refusals[0].reason.contains(expected), "{value}: {refusals:?}");
        }
    }
}
