//! TLS sessions opened by clients: certificates by server name, client certificates, session
//! tickets, and the stream.
//!
//! This file defines the TLS terms of a host. The caller selects the host once the ClientHello has
//! arrived ([`stream::ServerTls::poll_handshake`]).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::CryptoProvider;
use rustls::server::{NoClientAuth, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

mod alert;
mod clients;
mod failure;
mod identity;
pub mod stream;
pub mod tickets;

pub use self::clients::{ClientVerifier, Strictness};
pub use self::failure::failure_of;
pub use self::identity::{Identity, Staple};
pub use self::stream::{Hello, ServerTls};

use self::identity::Identities;
use self::tickets::{PolicyTickets, TicketKeys};
use crate::trust::PROVIDER;

/// Protocols offered by ALPN, the preferred one first.
const APPLICATION_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Why a host cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("failed to parse cert: {0}")]
    Certificate(String),
    #[error("failed to parse key: {0}")]
    Key(String),
    /// Key and certificate do not match.
    #[error("failed to handle cert-key pair: {0}")]
    Pair(rustls::Error),
    /// The authorities of client certificates cannot be read.
    #[error("failed to validate client_cert: {0}")]
    Authorities(String),
    /// Every allowed TLS version is unsupported.
    #[error("none of the versions in ssl_protocols is served: TLSv1.2 and TLSv1.3 are")]
    Versions,
    #[error("no cipher suite is called {0:?}")]
    Cipher(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub v1_2: bool,
    pub v1_3: bool,
}

impl Versions {
    pub const ALL: Self = Self { v1_2: true, v1_3: true };

    fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        let v1_3 = self.v1_3.then_some(&rustls::version::TLS13);
        let v1_2 = self.v1_2.then_some(&rustls::version::TLS12);
        v1_3.into_iter().chain(v1_2).collect()
    }
}

/// A certificate chain and its key in PEM.
#[derive(Clone, Copy)]
pub struct PemPair<'a> {
    /// Certificate chain, leaf first.
    pub chain: &'a str,
    pub key: &'a str,
}

/// Cryptography and ticket keys common to all TLS hosts of the process.
#[derive(Debug, Clone)]
pub struct ServerTerms {
    provider: Arc<CryptoProvider>,
    /// Versions of hosts that do not configure their own.
    pub versions: Versions,
    /// Keys of session tickets; `None` disables tickets.
    pub tickets: Option<Arc<TicketKeys>>,
}

impl Default for ServerTerms {
    /// Returns all suites and versions, without tickets.
    fn default() -> Self {
        Self { provider: Arc::clone(&PROVIDER), versions: Versions::ALL, tickets: None }
    }
}

impl ServerTerms {
    /// Creates the common TLS settings with these cipher suites, named as in OpenSSL or by IANA; an
    /// empty list enables all.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn new(
        ciphers: &[String],
        versions: Versions,
        tickets: Option<Arc<TicketKeys>>,
    ) -> Result<Self, HostError> {
        let mut provider = CryptoProvider::clone(&PROVIDER);
        if !ciphers.is_empty() {
            let mut suites = Vec::with_capacity(ciphers.len());
            for name in ciphers {
                let wanted = plain_suite_name(name);
                let all = provider.cipher_suites.iter();
                let found = all.copied().find(|suite| {
                    plain_suite_name(suite.suite().as_str().unwrap_or_default()) == wanted
                });
                suites.push(found.ok_or_else(|| HostError::Cipher(name.clone()))?);
            }
            provider.cipher_suites = suites;
        }
        Ok(Self { provider: Arc::new(provider), versions, tickets })
    }

    /// Returns the TLS terms of a host: certificates, one per type of key, verification of client
    /// certificates, and TLS versions if configured.
    ///
    /// # Errors
    /// If a certificate, a key or the set of versions is unusable.
    pub fn host(
        &self,
        pairs: &[PemPair<'_>],
        clients: Option<Arc<ClientVerifier>>,
        versions: Option<Versions>,
    ) -> Result<HostTerms, HostError> {
        let identities = Arc::new(Identities::new(pairs, &self.provider)?);
        let versions = versions.unwrap_or(self.versions).supported();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&versions)
            .map_err(|_| HostError::Versions)?;
        let policy = clients.as_ref().map_or([0; 32], |clients| clients.fingerprint());
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_client_cert_verifier(Arc::new(NoClientAuth)),
        };
        let mut config = builder.with_cert_resolver(Arc::<Identities>::clone(&identities));
        config.alpn_protocols = APPLICATION_PROTOCOLS.iter().map(|name| name.to_vec()).collect();
        // Session storage would have to be shared by all cores and bounded, which tickets avoid.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match &self.tickets {
            Some(keys) => {
                config.ticketer = Arc::new(PolicyTickets::new(Arc::clone(keys), policy));
            }
            None => config.send_tls13_tickets = 0,
        }
        Ok(HostTerms { config: Arc::new(config), identities })
    }
}

/// Normalises the name of a cipher suite, so that `ECDHE-RSA-AES128-GCM-SHA256`,
/// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` and `TLS13_AES_128_GCM_SHA256` lose their differences in
/// spelling.
fn plain_suite_name(name: &str) -> String {
    let upper = name.to_ascii_uppercase().replace(['-', '_'], "");
    let short = upper.strip_prefix("TLS13").or_else(|| upper.strip_prefix("TLS"));
    // OpenSSL omits the hash of the ChaCha20 suites.
    let short = short.unwrap_or(&upper).replace("WITH", "");
    match short.strip_suffix("SHA256").filter(|rest| rest.ends_with("CHACHA20POLY1305")) {
        Some(rest) => rest.to_owned(),
        None => short,
    }
}

/// TLS terms of one host; cheap to clone.
#[derive(Clone)]
pub struct HostTerms {
    config: Arc<ServerConfig>,
    identities: Arc<Identities>,
}

impl HostTerms {
    /// Returns the terms for handshakes with a single certificate and a single application
    /// protocol, such as those of a certificate authority that validates a challenge.
    ///
    /// # Errors
    /// If the key is unusable.
    pub fn for_protocol(
        protocol: &[u8],
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, HostError> {
        let key = PROVIDER.key_provider.load_private_key(key).map_err(HostError::Pair)?;
        // Key and certificate are not compared, because the certificate may have a critical
        // extension that the session layer does not support.
        let identity = CertifiedKey::new(vec![certificate], key);
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_safe_default_protocol_versions()
            .map_err(|_| HostError::Versions)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.alpn_protocols = vec![protocol.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), identities: Arc::default() })
    }

    /// Returns a copy of the terms without ALPN (RFC 7301), for listeners that carry any protocol.
    /// The copy costs little compared with a handshake.
    #[must_use]
    pub fn without_protocols(&self) -> Self {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols.clear();
        Self { config: Arc::new(config), identities: Arc::clone(&self.identities) }
    }

    /// Returns the session configuration, for listeners that use their own streams.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Returns the host's certificates, to which OCSP staples can be attached.
    pub fn identities(&self) -> &[Arc<Identity>] {
        self.identities.all()
    }
}

impl std::fmt::Debug for HostTerms {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("HostTerms")
    }
}

/// Reads the certificates of a PEM text; at least one.
fn read_certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err("no certificate in PEM found".to_owned()),
        Ok(chain) => Ok(chain),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the SHA-256 of all `parts`, each prefixed with its length, so that different lists never
/// share an input.
fn fingerprint_of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut text = Vec::new();
    for part in parts {
        text.extend_from_slice(&(part.len() as u64).to_be_bytes());
        text.extend_from_slice(part);
    }
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest(&SHA256, &text).as_ref());
    fingerprint
}
