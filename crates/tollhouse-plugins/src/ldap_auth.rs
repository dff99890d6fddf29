//! Admits requests with a name and password (HTTP Basic) that an LDAP server knows.
//!
//! # Example
//! ```json
//! {"ldap_uri": "ldap.example.org:389", "base_dn": "ou=users,dc=example,dc=org", "uid": "cn"}
//! ```
//!
//! # Answers
//! - 401 `Missing authorization in request`, 401 `Invalid authorization in request`
//! - 401 `Invalid user authorization` for a wrong name or password, when no consumer has the user's
//!   name, and when the server does not answer
//!
//! # Notes
//! The password of `uid=NAME,base_dn` is checked with a bind, over a new connection for each request.
//! The consumer is the one whose `user_dn` is this name. Empty passwords are refused, because servers
//! admit anyone without one. Name and password are read as in `basic-auth`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_plugin::consumer::Identity;
use tollhouse_plugin::{
    Carrier, Category, ConfError, ConsumerSpec, Flow, Phases, Plugin, RequestContext, Scope, Step,
};

use crate::basic_auth::name_and_password;
use crate::shared::auth::gate::{Gate, REALM_PATTERN, Rejection};
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::{Verification, dial, prepare_tls};
use crate::shared::messages::request_document::text;

use self::bind::{bind, escape_dn};

mod bind;

const PORT: u16 = 389;
const TLS_PORT: u16 = 636;

/// Timeout for connection and answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Configuration of `ldap-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Address of the server: `host:port`, `ldap://host:port` or `ldaps://host:port`. `ldaps://`
    /// implies TLS and port 636.
    pub ldap_uri: String,
    /// Name of the object that contains the users.
    pub base_dn: String,
    /// Attribute in the names of users; `cn` by default.
    #[serde(default = "default_uid")]
    pub uid: String,
    /// Whether the connection uses TLS (LDAPS); off by default, except for `ldaps://`. Must not
    /// contradict the scheme of `ldap_uri`. Without TLS, passwords are sent in plain text.
    pub use_tls: Option<bool>,
    /// Whether the server's TLS certificate is verified; off by default.
    #[serde(default)]
    pub tls_verify: bool,
    /// Whether `Authorization` is removed before the request goes to a node; off by default.
    #[serde(default)]
    pub hide_credentials: bool,
    /// Realm in `WWW-Authenticate`; `ldap` by default.
    #[serde(default = "default_realm")]
    #[schemars(length(min = 1, max = 128), regex(pattern = REALM_PATTERN))]
    pub realm: String,
}

defaults! {
    default_uid: String = "cn".into();
    default_realm: String = "ldap".into();
}

/// User of a consumer for `ldap-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct User {
    /// Name of the user's object; unique among all consumers.
    pub user_dn: String,
}

impl Identity for User {
    const KEY_FIELD: &'static str = "user_dn";
}

#[derive(Debug)]
pub struct LdapAuth {
    gate: Gate,
    host: String,
    port: u16,
    tls: Option<Verification>,
    base_dn: String,
    uid: String,
    hides_credentials: bool,
}

impl Plugin for LdapAuth {
    const NAME: &'static str = "ldap-auth";
    const PRIORITY: i32 = 2540;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn consumer() -> Option<ConsumerSpec> {
        Some(ConsumerSpec::new::<User>())
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let uses_tls = match (Scheme::from_address(&config.ldap_uri), config.use_tls) {
            (Scheme::Ldaps, Some(false)) => {
                let text = "contradicts the scheme \"ldaps\" of ldap_uri: remove it or use ldap://";
                return Err(ConfError::in_field("use_tls", text));
            }
            (Scheme::Ldap, Some(true)) => {
                let text = "contradicts the scheme \"ldap\" of ldap_uri: use ldaps://";
                return Err(ConfError::in_field("use_tls", text));
            }
            (Scheme::Ldaps, _) => true,
            (Scheme::Ldap, _) => false,
            (Scheme::Unset, use_tls) => use_tls.unwrap_or(false),
        };
        let tls = uses_tls.then(|| Verification::from(config.tls_verify));
        let default_port = if tls.is_some() { TLS_PORT } else { PORT };
        let (host, port) = host_and_port(&config.ldap_uri, default_port)
            .ok_or_else(|| ConfError::in_field("ldap_uri", "invalid address: expected host:port"))?;
        tls.into_iter().for_each(prepare_tls);
        Ok(Self {
            gate: Gate::new("Basic", &config.realm, None),
            host,
            port,
            tls,
            base_dn: config.base_dn,
            uid: config.uid,
            hides_credentials: config.hide_credentials,
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            match self.admit(cx).await {
                Ok(()) => Flow::Continue,
                Err(rejection) => self.gate.refusal(rejection).into(),
            }
        })
    }
}

impl LdapAuth {
    async fn admit(&self, cx: &mut RequestContext<'_>) -> Result<(), Rejection> {
        const WRONG: &str = "Invalid user authorization";
        let header = cx.header("Authorization").ok_or("Missing authorization in request")?;
        let (name, password) =
            name_and_password(&header).ok_or("Invalid authorization in request")?;
        if name.is_empty() || password.is_empty() {
            return Err(WRONG.into());
        }
        let dn = format!("{}={},{}", self.uid, escape_dn(&text(&name)), self.base_dn);
        let asked = tokio::time::timeout(TIMEOUT, self.knows(&dn, &password)).await;
        let is_right = asked.map_err(std::io::Error::from).flatten().unwrap_or_else(|error| {
            tracing::warn!(%error, server = self.host, "the LDAP server gives no answer");
            false
        });
        let credential = cx.find_credential(Self::NAME, dn.as_bytes()).filter(|_| is_right);
        cx.authenticate(credential.ok_or(WRONG)?);
        cx.edits().identities.explain(Carrier::Authorization);
        if self.hides_credentials {
            cx.remove_header("Authorization");
        }
        Ok(())
    }

    /// Whether the server accepts the password.
    async fn knows(&self, dn: &str, password: &[u8]) -> std::io::Result<bool> {
        let mut stream = dial(&self.host, self.port, self.tls).await?;
        bind(&mut stream, dn, password).await
    }
}

/// Scheme of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Ldap,
    Ldaps,
    /// `use_tls` decides.
    Unset,
}

impl Scheme {
    const NAMES: [(&str, Scheme); 2] = [("ldap://", Scheme::Ldap), ("ldaps://", Scheme::Ldaps)];

    fn from_address(address: &str) -> Self {
        Self::split(address).0
    }

    /// Splits off the scheme, in any case (RFC 3986 §3.1).
    fn split(address: &str) -> (Self, &str) {
        for (name, scheme) in Self::NAMES {
            if let Some((start, rest)) = address.split_at_checked(name.len())
                && start.eq_ignore_ascii_case(name)
            {
                return (scheme, rest);
            }
        }
        (Self::Unset, address)
    }
}

/// Parses `host`, `host:port` or `[IPv6]:port`, also with the scheme of LDAP before it.
fn host_and_port(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (_, text) = Scheme::split(text);
    let text = text.trim_end_matches('/');
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Some(default_port), |port| port.parse().ok())?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use serde_json::json;
    use tollhouse_plugin::testing::Harness;
    use tollhouse_plugin::{Catalogue, Services};
    use tollhouse_testkit::ClosedPort;

    use super::*;
    use crate::shared::auth::base64::encode_base64;

    /// Starts a server that accepts the password `secret` of two users.
    fn server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut asked = Vec::new();
                let mut piece = [0; 1024];
                while !asked.ends_with(b"secret") && !asked.ends_with(b"wrong!") {
                    match stream.read(&mut piece) {
                        Ok(bytes @ 1..) => asked.extend_from_slice(&piece[..bytes]),
                        _ => break,
                    }
                }
                let code = if asked.ends_with(b"secret") { 0 } else { 49 };
                let answer = [0x30, 0x0c, 2, 1, 1, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0];
                // In two pieces, because networks split answers.
                let _ = stream.write_all(&answer[..5]);
                let _ = stream.write_all(&answer[5..]);
            }
        });
        address
    }

    fn ask(address: &str, login: &str) -> tollhouse_plugin::testing::Outcome {
        let conf = json!({"ldap_uri": address, "base_dn": "ou=users,dc=example,dc=org", "hide_credentials": true});
        let user = json!({"user_dn": "cn=user01,ou=users,dc=example,dc=org"});
        let mut harness = Harness::new::<LdapAuth>(&conf).consumer::<LdapAuth>("foo", &user);
        let header = format!("Basic {}", encode_base64(login));
        harness.request(&format!("GET / HTTP/1.1\nAuthorization: {header}\n\n"))
    }

    #[test]
    fn the_server_knows_the_password() {
        let address = server();
        let outcome = ask(&address, "user01:secret");
        assert_eq!(outcome.consumer.as_deref(), Some("foo"), "{:?}", outcome.answer);
        assert_eq!(outcome.edits, "+X-Consumer-Username: foo\n-Authorization\n");
        for login in ["user01:wrong!", "user02:secret", "user01:", ":secret", "user01,ou=users:secret"] {
            let outcome = ask(&address, login);
            assert_eq!(outcome.status(), 401, "{login}");
            assert_eq!(outcome.body(), "{\"message\":\"Invalid user authorization\"}\n");
            assert_eq!(outcome.header("www-authenticate"), Some("Basic realm=\"ldap\""));
        }
    }

    #[test]
    fn without_server_or_login_nobody_passes() {
        let closed = ClosedPort::new();
        assert_eq!(ask(&closed.address().to_string(), "user01:secret").status(), 401);
        let conf = json!({"ldap_uri": "127.0.0.1:1", "base_dn": "dc=a"});
        let mut harness = Harness::new::<LdapAuth>(&conf);
        for (sent, message) in [
            ("", "Missing authorization in request"),
            ("Authorization: Bearer x\n", "Invalid authorization in request"),
        ] {
            let outcome = harness.request(&format!("GET / HTTP/1.1\n{sent}\n"));
            assert_eq!(outcome.body(), format!("{{\"message\":\"{message}\"}}\n"));
        }
    }

    #[test]
    fn the_scheme_decides_about_tls() {
        let services = Arc::new(Services::new("test"));
        let catalogue = Catalogue::empty();
        for (uri, use_tls, port, uses_tls) in [
            ("ldaps://a", None, 636, true),
            ("ldaps://a:1636", Some(true), 1636, true),
            ("ldap://a", None, 389, false),
            ("a", None, 389, false),
            ("a:389", Some(true), 389, true),
            ("a", Some(true), 636, true),
        ] {
            let mut conf = json!({"ldap_uri": uri, "base_dn": "dc=a"});
            if let Some(use_tls) = use_tls {
                conf["use_tls"] = json!(use_tls);
            }
            let scope = Scope {
                owner: "routes/1",
                conf: &conf,
                metadata: None,
                protos: None,
                catalogue: &catalogue,
                services: &services,
            };
            let plugin = LdapAuth::compile(serde_json::from_value(conf.clone()).unwrap(), &scope);
            let plugin = plugin.unwrap();
            assert_eq!((plugin.port, plugin.tls.is_some()), (port, uses_tls), "{conf}");
        }
    }

    #[test]
    fn passwords_for_ldaps_are_not_sent_in_plain_text() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let first = std::thread::spawn(move || {
            let mut piece = [0; 1];
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut piece).unwrap();
            piece[0]
        });
        assert_eq!(ask(&format!("ldaps://{address}"), "user01:secret").status(), 401);
        assert_eq!(first.join().unwrap(), 0x16, "a TLS handshake (RFC 8446 §5.1)");
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, text) in [
            (json!({"base_dn": "a"}), "property \"ldap_uri\" is required"),
            (json!({"ldap_uri": "a"}), "property \"base_dn\" is required"),
            (json!({"ldap_uri": "a:b", "base_dn": "a"}), "invalid address"),
            (json!({"ldap_uri": "a", "base_dn": "a", "realm": "\""}), "failed to match pattern"),
        ] {
            let refusal = Harness::refusal::<LdapAuth>(&conf);
            assert!(refusal.contains(text), "{refusal}");
        }
        let with = |uri: &str, use_tls: bool| {
            json!({"ldap_uri": uri, "base_dn": "a", "use_tls": use_tls})
        };
        for (conf, text) in [
            (with("ldaps://a", false), "contradicts the scheme \"ldaps\""),
            (with("LDAPS://a", false), "contradicts the scheme \"ldaps\""),
            (with("ldap://a", true), "contradicts the scheme \"ldap\""),
            (with("ldaps://a", true), ""),
            (with("ldap://a", false), ""),
        ] {
            let refusal = Harness::refusal::<LdapAuth>(&conf);
            assert!(refusal.contains(text) && refusal.is_empty() == text.is_empty(), "{refusal}");
        }
        assert_eq!(host_and_port("ldaps://[::1]:1636", 389), Some(("::1".into(), 1636)));
        assert_eq!(host_and_port("localhost", 389), Some(("localhost".into(), 389)));
    }
}
