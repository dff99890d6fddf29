//! Pebble, the test authority of Let's Encrypt, with a name server that sends every name here.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tollhouse_testkit::ReservedPort;
use tollhouse_testkit::patience::wait_for;
use tollhouse_testkit::program::{self, Running};

/// What a test wants of it.
pub struct Wishes {
    /// Percent of requests whose nonces are refused.
    pub bad_nonces: u8,
    /// Whether accounts need an external one: `kid-1` with [`EXTERNAL_KEY`].
    pub external_account: bool,
    /// Where challenges are looked for over HTTP and over TLS.
    pub ports: (u16, u16),
}

/// The key of the external account, in base64url.
pub const EXTERNAL_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

/// A running authority.
pub struct Pebble {
    folder: TempDir,
    listen: SocketAddr,
    management: SocketAddr,
    _programs: [Running; 2],
    /// Held for as long as the programs listen: they cannot be told to take any.
    _ports: [ReservedPort; 4],
}

impl Pebble {
    /// Starts it; `None`, with a message, where it is not installed.
    pub fn start(wishes: &Wishes) -> Option<Self> {
        let pebble = program::find("pebble")?;
        let names = program::find("pebble-challtestsrv")?;
        let folder = tempfile::tempdir().expect("a folder");
        let ports: [ReservedPort; 4] = std::array::from_fn(|_| ReservedPort::new());
        let [listen, management, dns, dns_management] = ports.each_ref().map(ReservedPort::address);
        let names = Running::start(Command::new(names).args([
            "-dnsserver",
            &dns.to_string(),
            "-management",
            &dns_management.to_string(),
            "-defaultIPv4",
            "127.0.0.1",
            "-defaultIPv6",
            "",
            "-http01",
            "",
            "-https01",
            "",
            "-tlsalpn01",
            "",
            "-doh",
            "",
        ]));
        names.output().wait_line("the name server answers", |line| {
            line.contains("Starting management server").then_some(())
        });
        make_certificates(&folder);
        let path = |name: &str| folder.path().join(name).display().to_string();
        let keys = json!({ "kid-1": EXTERNAL_KEY });
        let config = json!({"pebble": {
            "listenAddress": listen.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": path("cert.pem"), "privateKey": path("key.pem"),
            "httpPort": wishes.ports.0, "tlsPort": wishes.ports.1, "ocspResponderURL": "",
            "externalAccountBindingRequired": wishes.external_account,
            "externalAccountMACKeys": if wishes.external_account { keys } else { json!({}) },
            "retryAfter": {"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
            "profiles": {"default": {"description": "", "validityPeriod": 7_776_000}},
        }});
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("a folder");
        let mut command = Command::new(pebble);
        command.args(["-strict", "-config", &path("config.json"), "-dnsserver", &dns.to_string()]);
        command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_AUTHZREUSE", "0");
        command.env("PEBBLE_WFE_NONCEREJECT", wishes.bad_nonces.to_string());
        let pebble = Running::start(&mut command);
        pebble.output().wait_line("pebble listens", |line| {
            line.contains("ACME directory available at").then_some(())
        });
        // It says so a moment before it listens.
        wait_for("pebble accepts", || TcpStream::connect(listen).ok());
        Some(Self { folder, listen, management, _programs: [names, pebble], _ports: ports })
    }

    /// Its directory.
    pub fn directory(&self) -> String {
        format!("https://{}/dir", self.listen)
    }

    /// Where one sets how it behaves.
    pub fn management(&self, path: &str) -> String {
        format!("https://{}{path}", self.management)
    }

    /// Who signs for its own server, PEM.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }
}

/// What makes it give a certificate a window of renewal.
pub fn window_wish(certificate: &str, start: &str, end: &str) -> Value {
    let first = certificate.split_inclusive("-----END CERTIFICATE-----").next().unwrap_or_default();
    let window = json!({"suggestedWindow": {"start": start, "end": end}});
    json!({"certificate": first, "ariResponse": window.to_string()})
}

fn make_certificates(folder: &TempDir) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = params.self_signed(&key).expect("it signs");
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().expect("a key");
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names).expect("names");
    let certificate = certificate.signed_by(&own, &issuer).expect("it signs");
    let files = [
        ("ca.pem", authority.pem()),
        ("cert.pem", certificate.pem()),
        ("key.pem", own.serialize_pem()),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a folder");
    }
}
