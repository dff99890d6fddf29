//! What the tests of TLS share: authorities that sign certificates, and clients that are not ours.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize, SigningKey, date_time_ymd,
};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
    StreamOwned,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tollhouse_testkit::certificate::{pem, version_one};
use tollhouse_testkit::responder::{AUTHORITY_INFORMATION_ACCESS, responder_at};

/// No wait is longer.
pub(crate) const PATIENCE: Duration = tollhouse_testkit::patience::DEADLINE;

/// A certificate and its key, PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub chain: String,
    pub key: String,
}

/// Somebody who signs certificates.
pub(crate) struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn certificate_pem(certificate: &rcgen::Certificate) -> String {
    pem("CERTIFICATE", certificate.der())
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = authority_params(name);
        let pem = certificate_pem(&params.self_signed(&key).expect("a certificate"));
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// An authority below this one; what it signs carries its certificate along.
    pub(crate) fn intermediate(&self, name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = authority_params(name);
        let pem = certificate_pem(&params.signed_by(&key, &self.issuer).expect("a certificate"));
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn server(&self, names: &[&str]) -> Pair {
        self.sign(params(names, ExtendedKeyUsagePurpose::ServerAuth), KeyPair::generate())
    }

    /// With its own certificate behind it, and naming who says whether it is revoked.
    pub(crate) fn server_with_responder(&self, names: &[&str], uri: &str) -> Pair {
        let mut params = params(names, ExtendedKeyUsagePurpose::ServerAuth);
        let content = responder_at(uri);
        let access = CustomExtension::from_oid_content(&AUTHORITY_INFORMATION_ACCESS, content);
        params.custom_extensions.push(access);
        self.sign(params, KeyPair::generate()).with(&[self])
    }

    /// Its signature of a text.
    pub(crate) fn sign_text(&self, text: &[u8]) -> Vec<u8> {
        self.issuer.key().sign(text).expect("it signs")
    }

    pub(crate) fn rsa_server(&self, names: &[&str]) -> Pair {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048);
        self.sign(params(names, ExtendedKeyUsagePurpose::ServerAuth), key)
    }

    pub(crate) fn client(&self, name: &str) -> Pair {
        self.sign(client_params(name), KeyPair::generate())
    }

    /// The same pair with a certificate of version 1.
    pub(crate) fn version_one(&self, pair: &Pair) -> Pair {
        let old = version_one(&der(pair), |text| self.sign_text(text));
        Pair { chain: pem("CERTIFICATE", &old), key: pair.key.clone() }
    }

    /// A pair whose certificate is an authority's (CA:TRUE) and nobody else's, as `openssl req -x509` makes it.
    pub(crate) fn own_authority(names: &[&str]) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let mut params = authority_params(names[0]);
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        params.subject_alt_names = CertificateParams::new(names).expect("names").subject_alt_names;
        let certificate = params.self_signed(&key).expect("a certificate");
        Pair { chain: certificate_pem(&certificate), key: pem("PRIVATE KEY", &key.serialize_der()) }
    }

    pub(crate) fn expired_client(&self, name: &str) -> Pair {
        let mut params = client_params(name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params, KeyPair::generate())
    }

    pub(crate) fn expired_server(&self, names: &[&str]) -> Pair {
        let mut params = params(names, ExtendedKeyUsagePurpose::ServerAuth);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(params, KeyPair::generate())
    }

    fn sign(&self, params: CertificateParams, key: Result<KeyPair, rcgen::Error>) -> Pair {
        let key = key.expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { chain: certificate_pem(&certificate), key: pem("PRIVATE KEY", &key.serialize_der()) }
    }
}

impl Pair {
    /// The same with the certificates of authorities behind it.
    pub(crate) fn with(mut self, authorities: &[&Authority]) -> Self {
        for authority in authorities {
            self.chain.push_str(&authority.pem);
        }
        self
    }
}

fn params(names: &[&str], purpose: ExtendedKeyUsagePurpose) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.extended_key_usages = vec![purpose];
    params
}

fn client_params(name: &str) -> CertificateParams {
    let mut params = params(&[], ExtendedKeyUsagePurpose::ClientAuth);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, "Tests, Inc.");
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params
}

/// An ssl object.
pub(crate) fn ssl(id: &str, snis: &[&str], pair: &Pair) -> Value {
    json!({ "id": id, "snis": snis, "cert": pair.chain, "key": pair.key })
}

/// How a client opens TLS.
pub(crate) struct TlsOptions {
    config: ClientConfig,
}

impl TlsOptions {
    /// Trusts what `authority` signs.
    pub(crate) fn new(authority: &Authority) -> Self {
        Self::with_provider(authority, rustls::crypto::aws_lc_rs::default_provider(), None)
    }

    /// Speaks TLS 1.2 and nothing newer.
    pub(crate) fn old(authority: &Authority) -> Self {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites.retain(|suite| suite.tls13().is_none());
        Self::with_provider(authority, provider, None)
    }

    /// Shows a certificate of its own.
    pub(crate) fn showing(authority: &Authority, pair: &Pair) -> Self {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Self::with_provider(authority, provider, Some(pair))
    }

    /// Can verify no signatures but those of RSA keys.
    pub(crate) fn rsa_only(authority: &Authority) -> Self {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let algorithms = &mut provider.signature_verification_algorithms;
        let is_rsa = |scheme: SignatureScheme| format!("{scheme:?}").starts_with("RSA");
        let kept: Vec<_> =
            algorithms.mapping.iter().copied().filter(|(scheme, _)| is_rsa(*scheme)).collect();
        algorithms.mapping = Box::leak(kept.into_boxed_slice());
        Self::with_provider(authority, provider, None)
    }

    fn with_provider(authority: &Authority, provider: CryptoProvider, pair: Option<&Pair>) -> Self {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("PEM");
        roots.add(root).expect("an authority");
        let speaks = |version: &&'static rustls::SupportedProtocolVersion| {
            let mut suites = provider.cipher_suites.iter();
            suites.any(|suite| suite.version() == *version)
        };
        let versions: Vec<_> = rustls::ALL_VERSIONS.iter().copied().filter(speaks).collect();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .expect("versions")
            .with_root_certificates(roots);
        let config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => builder.with_client_cert_resolver(Arc::new(shown(pair))),
        };
        Self { config }.offering(&["http/1.1"])
    }

    /// Offers these protocols (ALPN, RFC 7301), the dearest first, instead of HTTP/1.1 alone.
    pub(crate) fn offering(mut self, protocols: &[&str]) -> Self {
        let name = |protocol: &&str| protocol.as_bytes().to_vec();
        self.config.alpn_protocols = protocols.iter().map(name).collect();
        self
    }

    /// Takes whatever certificate it is shown.
    pub(crate) fn trusting_any(mut self) -> Self {
        let verifier = Arc::new(tollhouse_net::tls::ServerVerifier::any());
        self.config.dangerous().set_certificate_verifier(verifier);
        self
    }

    /// Comes without a name.
    pub(crate) fn nameless(mut self) -> Self {
        self.config.enable_sni = false;
        self
    }

    /// Never comes back with a ticket.
    pub(crate) fn forgetful(mut self) -> Self {
        self.config.resumption = Resumption::disabled();
        self
    }

    /// Ready to connect, as often as one likes.
    pub(crate) fn build(self) -> TlsClient {
        TlsClient(Arc::new(self.config))
    }
}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct TlsClient(pub(crate) Arc<ClientConfig>);

/// An open connection.
pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

impl TlsClient {
    /// A connection whose handshake has ended.
    pub(crate) fn connect(&self, address: SocketAddr, name: &str) -> std::io::Result<TlsStream> {
        let tcp = TcpStream::connect(address)?;
        self.over(tcp, name)
    }

    pub(crate) fn over(&self, tcp: TcpStream, name: &str) -> std::io::Result<TlsStream> {
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let session = ClientConnection::new(Arc::clone(&self.0), name).expect("a session");
        let mut stream = StreamOwned::new(session, tcp);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }

    /// Asks once, on a connection of its own.
    pub(crate) fn get(&self, address: SocketAddr, name: &str, target: &str) -> Answer {
        let opened = self.connect(address, name);
        Answer::from(opened.map(|mut stream| get(&mut stream, name, target)))
    }
}

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Status and text of the whole answer.
    Http(u16, String),
    /// The handshake failed, or the connection broke.
    Broken(String),
}

impl From<std::io::Result<Answer>> for Answer {
    fn from(result: std::io::Result<Answer>) -> Self {
        result.unwrap_or_else(|error| Answer::Broken(error.to_string()))
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        match self {
            Answer::Http(status, _) => *status,
            Answer::Broken(error) => panic!("no answer: {error}"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Answer::Http(_, text) | Answer::Broken(text) => text,
        }
    }
}

/// Asks over an open connection, which stays open.
pub(crate) fn get(stream: &mut TlsStream, host: &str, target: &str) -> Answer {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    match ask(stream, request.as_bytes()) {
        Ok(answer) => answer,
        Err(error) => Answer::Broken(error.to_string()),
    }
}

/// Sends a request and reads one answer with a length.
pub(crate) fn ask(stream: &mut TlsStream, request: &[u8]) -> std::io::Result<Answer> {
    stream.write_all(request)?;
    read_answer(stream)
}

pub(crate) fn read_answer(stream: &mut TlsStream) -> std::io::Result<Answer> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let text = head + &String::from_utf8_lossy(&body);
    Ok(Answer::Http(status.expect("a status"), text))
}

/// The certificate that the gateway has shown.
pub(crate) fn server_certificate(stream: &TlsStream) -> Vec<u8> {
    let chain = stream.conn.peer_certificates().expect("a certificate");
    chain[0].as_ref().to_vec()
}

/// The certificate of a pair, as it is shown.
pub(crate) fn der(pair: &Pair) -> Vec<u8> {
    CertificateDer::from_pem_slice(pair.chain.as_bytes()).expect("PEM").as_ref().to_vec()
}

/// A pair as it is shown; certificates of version 1, which rustls does not read, included.
fn shown(pair: &Pair) -> SingleCertAndKey {
    let chain = CertificateDer::pem_slice_iter(pair.chain.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM");
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).expect("a key");
    CertifiedKey::new(chain, key).into()
}

/// A node that says `ok` over TLS, to nobody without a certificate of `clients` where there are such.
pub(crate) fn tls_node(pair: &Pair, clients: Option<&Authority>) -> SocketAddr {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier: Arc<dyn ClientCertVerifier> = match clients {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(der(&clients.pem)).expect("an authority");
            let provider = Arc::clone(&provider);
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            verifier.build().expect("a verifier")
        }
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(shown(pair)));
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        while let Ok((tcp, _)) = listener.accept() {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = StreamOwned::new(session, tcp);
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
            // Whoever was refused is gone.
            let _ = stream.write_all(answer);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    address
}
