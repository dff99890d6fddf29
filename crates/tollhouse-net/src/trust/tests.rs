//! Whole handshakes in memory, with certificates that people have and rcgen alone does not write.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer as Signer, KeyPair, SigningKey,
    date_time_ymd,
};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use tollhouse_testkit::certificate::{pem, version_one};

use super::*;
use crate::server_tls::{ClientVerifier, Strictness};
use crate::tls::client_config;

type Chain = Vec<CertificateDer<'static>>;

fn params(name: &str, is_ca: IsCa) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = is_ca;
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(key.serialize_der().into())
}

struct Authority {
    certificate: CertificateDer<'static>,
    signer: Signer<'static, KeyPair>,
}

const ANY_DEPTH: IsCa = IsCa::Ca(BasicConstraints::Unconstrained);

impl Authority {
    fn new(name: &str) -> Self {
        let (params, key) = (params(name, ANY_DEPTH), key());
        let certificate = params.self_signed(&key).expect("a certificate").der().clone();
        Self { certificate, signer: Signer::new(params, key) }
    }

    fn below(&self, name: &str) -> Self {
        let (params, key) = (params(name, ANY_DEPTH), key());
        let certificate = params.signed_by(&key, &self.signer).expect("signed").der().clone();
        Self { certificate, signer: Signer::new(params, key) }
    }

    fn sign(&self, name: &str, key: &KeyPair) -> CertificateDer<'static> {
        params(name, IsCa::NoCa).signed_by(key, &self.signer).expect("signed").der().clone()
    }

    fn sign_version_one(&self, certificate: &[u8]) -> CertificateDer<'static> {
        version_one(certificate, |text| self.signer.key().sign(text).expect("signed")).into()
    }
}

fn self_signed(name: &str, is_ca: IsCa, key: &KeyPair) -> CertificateDer<'static> {
    params(name, is_ca).self_signed(key).expect("a certificate").der().clone()
}

fn list_text(certificates: &[&CertificateDer<'_>]) -> String {
    certificates.iter().map(|certificate| pem("CERTIFICATE", certificate)).collect()
}

/// Lets both sides speak until neither has anything to say; the first error of either.
fn handshake(client: rustls::ClientConfig, server: ServerConfig) -> Result<(), Error> {
    let name = ServerName::try_from("node.test").expect("a name");
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    for _ in 0..8 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).expect("memory");
        }
        let mut bytes = &wire[..];
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).expect("memory");
            server.process_new_packets()?;
        }
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire).expect("memory");
        }
        let mut bytes = &wire[..];
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).expect("memory");
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(())
}

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

fn server(
    version: &'static rustls::SupportedProtocolVersion,
    chain: Chain,
    key: &KeyPair,
    clients: Option<ClientVerifier>,
) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_protocol_versions(&[version])
        .expect("a version");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(Arc::new(clients)),
    };
    // Not compared, so that a test can show another's certificate.
    let key = PROVIDER.key_provider.load_private_key(private(key)).expect("a key");
    let shown = CertifiedKey::new(chain, key);
    builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)))
}

/// The first error of a handshake with a server that shows `chain`, in both versions; `ok` without one.
fn shown_by_server(verifier: impl Fn() -> ServerVerifier, chain: &Chain, key: &KeyPair) -> String {
    let texts = VERSIONS.map(|version| {
        let client = client_config(verifier(), None).expect("a configuration");
        match handshake(client, server(version, chain.clone(), key, None)) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    });
    assert_eq!(texts[0], texts[1]);
    let [text, _] = texts;
    text
}

fn shown_by_client(list: &[&CertificateDer<'_>], chain: &Chain, key: &KeyPair) -> String {
    let own = self::key();
    let certificate = self_signed("node.test", IsCa::NoCa, &own);
    let texts = VERSIONS.map(|version| {
        let clients =
            ClientVerifier::new(&list_text(list), 1, Strictness::Required).expect("a list");
        let shown = Some((chain.clone(), private(key)));
        let client = client_config(ServerVerifier::any(), shown).expect("a configuration");
        match handshake(client, server(version, vec![certificate.clone()], &own, Some(clients))) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    });
    assert_eq!(texts[0], texts[1]);
    let [text, _] = texts;
    text
}

fn listed(certificates: &[&CertificateDer<'static>]) -> ServerVerifier {
    let certificates = certificates.iter().map(|certificate| (*certificate).clone()).collect();
    ServerVerifier::listed(certificates).expect("a list")
}

#[test]
fn without_verification_any_certificate_is_taken_from_the_owner_of_its_key() {
    let (authority, own, other) = (Authority::new("authority"), key(), key());
    let version_three = authority.sign("node.test", &own);
    let version_one = authority.sign_version_one(&version_three);
    let authority_as_peer = self_signed("node.test", ANY_DEPTH, &own);
    for certificate in [version_three, version_one, authority_as_peer] {
        let chain = vec![certificate];
        assert_eq!(shown_by_server(ServerVerifier::any, &chain, &own), "ok");
        let forged = shown_by_server(ServerVerifier::any, &chain, &other);
        assert!(forged.contains("BadSignature"), "{forged}");
    }
}

#[test]
fn a_listed_server_is_trusted_by_its_very_certificate_while_it_has_the_name_and_is_in_date() {
    let own = key();
    let (pinned, elsewhere) =
        (self_signed("node.test", ANY_DEPTH, &own), self_signed("other.test", ANY_DEPTH, &own));
    let mut late = params("node.test", ANY_DEPTH);
    (late.not_before, late.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let late = late.self_signed(&own).expect("a certificate").der().clone();
    let refuses_to_sign = self_signed("node.test", IsCa::ExplicitNoCa, &own);
    for (list, shown, expected) in [
        (&pinned, &pinned, "ok"),
        (&refuses_to_sign, &refuses_to_sign, "ok"),
        (&elsewhere, &elsewhere, "not valid for name"),
        (&elsewhere, &pinned, "CA:TRUE"),
        (&late, &late, "Expired"),
    ] {
        let text = shown_by_server(|| listed(&[list]), &vec![shown.clone()], &own);
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn no_server_is_verified_by_a_certificate_of_version_1() {
    let (authority, own) = (Authority::new("authority"), key());
    let old = authority.sign_version_one(&authority.sign("node.test", &own));
    for list in [&authority.certificate, &old] {
        let text = shown_by_server(|| listed(&[list]), &vec![old.clone()], &own);
        assert!(text.contains("version 1 certificate"), "{text}");
    }
}

#[test]
fn a_client_with_a_certificate_of_version_1_needs_the_signature_of_a_listed_authority() {
    let (authority, own) = (Authority::new("authority"), key());
    let namesake = Authority::new("authority");
    let below = authority.below("below");
    let good = authority.sign("client", &own);
    let old = authority.sign_version_one(&good);
    let forged = namesake.sign_version_one(&good);
    let deep = below.sign_version_one(&below.sign("client", &own));
    let mut late = params("client", IsCa::NoCa);
    (late.not_before, late.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let late = late.signed_by(&own, &authority.signer).expect("signed").der().clone();
    let late = authority.sign_version_one(&late);
    let list = [&authority.certificate];
    for (chain, expected) in [
        (vec![good], "ok"),
        (vec![old.clone()], "ok"),
        (vec![forged], "version 1 certificate"),
        (vec![deep.clone(), below.certificate.clone()], "version 1 certificate"),
        (vec![late], "Expired"),
    ] {
        let text = shown_by_client(&list, &chain, &own);
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(shown_by_client(&[&below.certificate], &vec![deep], &own), "ok");
    assert_eq!(shown_by_client(&[&old], &vec![old.clone()], &own), "ok");
}

#[test]
fn a_certificate_of_version_1_signs_no_other() {
    let (authority, own) = (Authority::new("authority"), key());
    let below = authority.below("below");
    let old = authority.sign_version_one(&below.certificate);
    let chain = vec![below.sign("client", &own), old];
    let text = shown_by_client(&[&authority.certificate], &chain, &own);
    assert!(text.contains("version 1 certificate") || text.contains("UnknownIssuer"), "{text}");
}

#[test]
fn a_listed_client_is_trusted_whatever_it_may_sign_and_signs_nothing_it_may_not() {
    let own = key();
    let pinned = self_signed("client", ANY_DEPTH, &own);
    assert_eq!(shown_by_client(&[&pinned], &vec![pinned.clone()], &own), "ok");
    let (leaf_params, leaf_key) = (params("leaf", IsCa::ExplicitNoCa), key());
    let leaf = leaf_params.self_signed(&leaf_key).expect("a certificate").der().clone();
    let signer = Signer::new(leaf_params, leaf_key);
    let made = params("client", IsCa::NoCa).signed_by(&own, &signer).expect("signed").der().clone();
    let text = shown_by_client(&[&leaf], &vec![made], &own);
    assert!(text.contains("UnknownIssuer"), "{text}");
}

#[test]
fn a_listener_shows_a_certificate_of_version_1_with_its_own_key_alone() {
    let (authority, own) = (Authority::new("authority"), key());
    let old = authority.sign_version_one(&authority.sign("node.test", &own));
    let made = |key: &KeyPair| certified_key(vec![old.clone()], private(key), &PROVIDER).map(drop);
    assert_eq!(made(&own), Ok(()));
    assert_eq!(made(&key()), Err(InconsistentKeys::KeyMismatch.into()));
}
