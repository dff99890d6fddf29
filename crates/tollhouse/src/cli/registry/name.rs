//! Names of services and addresses of instances on the command line.

use std::fmt;
use std::str::FromStr;

/// A service: `NAMESPACE/NAME`, or a name in the namespace `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceName {
    pub namespace: String,
    pub name: String,
}

impl FromStr for ServiceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A name may contain slashes.
        let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
        if namespace.is_empty() || name.is_empty() {
            return Err("expected NAMESPACE/NAME or NAME".to_owned());
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

impl ServiceName {
    /// Returns the path of the service in the Admin API.
    pub fn path(&self) -> String {
        format!("services/{}/{}", segment(&self.namespace), segment(&self.name))
    }
}

/// Address of an instance: `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address, without brackets.
    pub host: String,
    pub port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected HOST:PORT, such as 10.0.0.7:8080 or [::1]:8080".to_owned();
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || (bare.is_none() && host.contains(':')) {
            return Err(expected());
        }
        let port = port.parse().map_err(|_| expected())?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Parses a pair of metadata: `KEY=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Escapes a text as one segment of a path.
pub fn segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_a_namespace_and_a_name() {
        let table = [
            ("ns/svc", Some("services/ns/svc")),
            ("svc", Some("services/default/svc")),
            ("ns/a/b:c", Some("services/ns/a%2Fb%3Ac")),
            ("", None),
            ("/svc", None),
            ("ns/", None),
        ];
        for (text, expected) in table {
            let path = text.parse::<ServiceName>().ok().map(|name| name.path());
            assert_eq!(path.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn addresses_are_a_host_and_a_port() {
        let table = [
            ("10.0.0.7:8080", Some(("10.0.0.7", 8080))),
            ("orders.local:1", Some(("orders.local", 1))),
            ("[::1]:80", Some(("::1", 80))),
            ("::1:80", None),
            ("10.0.0.7", None),
            (":80", None),
            ("a:65536", None),
        ];
        for (text, expected) in table {
            let address = text.parse::<Address>().ok();
            let address = address.as_ref().map(|address| (&*address.host, address.port));
            assert_eq!(address, expected, "{text}");
        }
    }
}
