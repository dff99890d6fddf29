//! The configuration store shared by several gateways, and the shape of its addresses.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tollhouse_model::{Problem, Problems};

use super::shape::{Read, Shape, collect, refuse, show_list, text_of, texts_of};
use super::{Bootstrap, Secret};

/// Maximum number of etcd addresses; etcd itself advises against more than seven members.
const ENDPOINTS_MAX: usize = 16;

/// Choice of the configuration store: a local one, or an etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    /// Whether to start with an empty store if the one in the data folder is missing.
    pub allow_missing: bool,
    /// The shared etcd, if addresses are configured.
    pub etcd: Etcd,
}

/// Connection to an etcd cluster that several gateways share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etcd {
    /// URLs of the members' client ports; empty keeps the configuration in the data folder.
    pub endpoints: Vec<String>,
    /// User of etcd, if authentication is enabled there.
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub tls: EtcdTls,
    /// Timeout for a request to one member.
    pub timeout: Duration,
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            user: None,
            password: None,
            tls: EtcdTls::default(),
            timeout: Duration::from_secs(5),
        }
    }
}

/// TLS of the connections to etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdTls {
    /// CA certificates, PEM, that replace those of the system.
    pub ca: Option<PathBuf>,
    /// File with the client certificate in PEM format.
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM.
    pub key: Option<PathBuf>,
}

/// Reports invalid combinations of settings for a shared store.
pub(super) fn check(bootstrap: &Bootstrap, problems: &mut Problems) {
    let etcd = &bootstrap.store.etcd;
    let mut error = |name: &str, reason: &str, hint: &str| {
        problems.push(Problem::error(name, reason).with_hint(hint));
    };
    if etcd.user.is_some() != etcd.password.is_some() {
        let hint = "set both store.etcd.user and store.etcd.password, or neither";
        error("store.etcd.user", "a user and its password must be set together", hint);
    }
    if etcd.tls.cert.is_some() != etcd.tls.key.is_some() {
        let hint = "set both store.etcd.tls.cert and store.etcd.tls.key, or neither";
        error("store.etcd.tls", "a certificate and its key must be set together", hint);
    }
    if etcd.endpoints.is_empty() {
        return;
    }
    if bootstrap.resources.is_some() || bootstrap.admin.standalone {
        let hint = "leave out store.etcd.endpoints, or resources and admin.standalone";
        error("store.etcd.endpoints", "the configuration comes from elsewhere already", hint);
    }
    if bootstrap.encryption.keyring.is_empty() {
        let hint = "give all gateways of this etcd the same keys, APISIX nodes among them";
        let reason = "a store shared by gateways requires a shared keyring";
        error("encryption.keyring", reason, hint);
    }
}

/// Syntax of the URLs of etcd members.
pub(crate) struct EtcdUrls;

impl Shape for EtcdUrls {
    type Value = Vec<String>;
    fn takes() -> String {
        format!("URLs, at most {ENDPOINTS_MAX}")
    }
    fn read(value: &Value) -> Read<Vec<String>> {
        let urls = collect(texts_of(value)?.iter().map(|text| url(text)))?;
        if urls.len() > ENDPOINTS_MAX {
            return refuse(format!("{} addresses are too many", urls.len()), Self::takes());
        }
        Ok(urls)
    }
    fn show(value: &Vec<String>) -> String {
        show_list(value.iter().cloned(), "[]")
    }
}

fn url(text: &str) -> Read<String> {
    let hint = "for example http://127.0.0.1:2379, or https:// for TLS";
    let text = text_of(&Value::from(text))?;
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let is_host = |host: &str| {
        !host.is_empty()
            && !host.contains(['/', '@', '?', '#'])
            && !host.contains(char::is_whitespace)
    };
    if !host.is_some_and(is_host) {
        return refuse(format!("{text:?} is not the address of a member of etcd"), hint);
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Bootstrap, Problems> {
        Bootstrap::parse(Some(text), &|_| None, &[]).map(|loaded| loaded.bootstrap)
    }

    #[test]
    fn addresses_are_urls_of_hosts() {
        let table = [
            ("http://127.0.0.1:2379", Some("http://127.0.0.1:2379")),
            ("https://etcd.internal:2379/", Some("https://etcd.internal:2379")),
            ("http://[::1]:2379", Some("http://[::1]:2379")),
            ("127.0.0.1:2379", None),
            ("http://", None),
            ("http:///", None),
            ("http://a/v3", None),
            ("http://user:secret@a:2379", None),
            ("http://a b", None),
        ];
        for (text, expected) in table {
            assert_eq!(url(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_shared_store_is_whole_or_refused() {
        let etcd = "store: {etcd: {endpoints: [\"http://a:2379\", \"http://b:2379\"]";
        let keyring = "encryption: {keyring: [\"0123456789abcdef\"]}";
        let table = [
            (format!("{etcd}}}}}\n{keyring}\n"), true),
            (format!("{etcd}, user: u, password: p}}}}\n{keyring}\n"), true),
            (format!("{etcd}}}}}\n"), false),
            (format!("{etcd}, user: u}}}}\n{keyring}\n"), false),
            (format!("{etcd}, tls: {{cert: c.pem}}}}}}\n{keyring}\n"), false),
            (format!("{etcd}}}}}\n{keyring}\nresources: r.yaml\n"), false),
            (format!("{etcd}}}}}\n{keyring}\nadmin: {{standalone: true}}\n"), false),
        ];
        for (text, is_accepted) in table {
            let parsed = parse(&text);
            assert_eq!(parsed.is_ok(), is_accepted, "{text}: {parsed:?}");
        }
    }
}
