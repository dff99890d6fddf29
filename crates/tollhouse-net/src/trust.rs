//! Verification of peer certificates: of servers that we connect to, and of clients that connect to
//! us.
//!
//! Rules beyond those of webpki, which checks everything else:
//! - Without verification, only the handshake signature is checked with the certificate's key.
//! - A peer whose own certificate is in the trusted list is accepted while the certificate is in
//!   date, regardless of its basic constraints and version.
//! - A version 1 certificate is accepted for a client if a listed authority has signed it directly.
//!   It contains no host names, so it never verifies a server, and it never signs other
//!   certificates.

use std::sync::{Arc, LazyLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, InconsistentKeys,
    OtherError, PeerMisbehaved, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SignatureVerificationAlgorithm,
    SubjectPublicKeyInfoDer, TrustAnchor, UnixTime,
};
use tollhouse_model::certificate::{CertificateParts, refuses_to_sign};
use webpki::{KeyUsage, RawPublicKeyEntity};

/// Cryptographic algorithms, shared by the process.
pub(crate) static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// Reasons for a refusal that the session layer does not define.
#[derive(thiserror::Error)]
enum Refusal {
    #[error("version 1 certificate: it names no hosts, so a server cannot be verified by it")]
    VersionOneServer,
    #[error("version 1 certificate: none of the listed authorities has signed it itself")]
    VersionOneIssuer,
    #[error("version 1 certificate in the place of an authority's")]
    VersionOneAuthority,
    #[error(
        "certificate of an authority (CA:TRUE), which is not itself in the list of trusted ones"
    )]
    AuthorityAsPeer,
}

impl std::fmt::Debug for Refusal {
    /// Writes the text, because the session layer formats foreign errors with `Debug`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, out)
    }
}

impl From<Refusal> for CertificateError {
    fn from(refusal: Refusal) -> Self {
        Self::Other(OtherError(Arc::new(refusal)))
    }
}

/// List of trusted certificates: authorities, and certificates of peers themselves.
#[derive(Debug)]
pub(crate) struct TrustedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    /// All listed certificates except those that may not sign others.
    authorities: Vec<TrustAnchor<'static>>,
    issuers: Vec<Issuer>,
}

/// An authority without name constraints, which could not be applied to version 1 certificates.
#[derive(Debug)]
struct Issuer {
    name: Box<[u8]>,
    key: SubjectPublicKeyInfoDer<'static>,
}

impl TrustedCertificates {
    /// Reads a list of trusted certificates.
    ///
    /// # Errors
    /// If a certificate cannot be read.
    pub(crate) fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, webpki::Error> {
        let (mut authorities, mut issuers) = (Vec::new(), Vec::new());
        for certificate in &certificates {
            let anchor = webpki::anchor_from_trusted_cert(certificate)?;
            if refuses_to_sign(certificate) {
                continue;
            }
            if let Some(parts) = CertificateParts::parse(certificate)
                && anchor.name_constraints.is_none()
            {
                let key = SubjectPublicKeyInfoDer::from(parts.public_key).into_owned();
                issuers.push(Issuer { name: parts.subject.into(), key });
            }
            authorities.push(anchor.to_owned());
        }
        Ok(Self { certificates, authorities, issuers })
    }

    /// Returns the issuer names by which a client selects its certificate (RFC 8446 §4.2.4).
    pub(crate) fn issuer_names(&self) -> Vec<DistinguishedName> {
        let name = |certificate: &CertificateDer<'_>| {
            let parts = CertificateParts::parse(certificate)?;
            let signs = !refuses_to_sign(certificate);
            Some(DistinguishedName::from(if signs { parts.subject } else { parts.issuer }.to_vec()))
        };
        self.certificates.iter().filter_map(name).collect()
    }

    /// Whether the peer's own certificate is in the list.
    ///
    /// # Errors
    /// If it is in the list but not in date.
    pub(crate) fn holds(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<bool, CertificateError> {
        let is_listed = self.certificates.iter().any(|listed| listed == certificate);
        if is_listed {
            check_dates(&parts(certificate)?, now)?;
        }
        Ok(is_listed)
    }

    /// Verifies a client's version 1 certificate, which a listed authority must have signed
    /// directly.
    ///
    /// # Errors
    /// If none has, or the certificate is not in date.
    pub(crate) fn check_version_one(
        &self,
        certificate: &CertificateParts<'_>,
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        check_dates(certificate, now)?;
        let algorithms = PROVIDER.signature_verification_algorithms.all;
        let is_signed_by = |issuer: &Issuer| {
            let Ok(key) = RawPublicKeyEntity::try_from(&issuer.key) else { return false };
            let fits = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
                algorithm.signature_alg_id().as_ref() == certificate.algorithm
            };
            algorithms.iter().filter(fits).any(|algorithm| {
                key.verify_signature(*algorithm, certificate.signed, certificate.signature).is_ok()
            })
        };
        let mut named = self.issuers.iter().filter(|issuer| *issuer.name == *certificate.issuer);
        match named.any(is_signed_by) {
            true => Ok(()),
            false => Err(Refusal::VersionOneIssuer.into()),
        }
    }

    /// Verifies a client's certificate with its intermediates; returns the number of intermediate
    /// certificates up to an authority.
    ///
    /// # Errors
    /// If no rule of this file accepts the certificate.
    pub(crate) fn check_client(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<usize, CertificateError> {
        if self.holds(own, now)? {
            return Ok(0);
        }
        let fields = parts(own)?;
        if fields.version == 1 {
            return self.check_version_one(&fields, now).map(|()| 0);
        }
        let algorithms = PROVIDER.signature_verification_algorithms.all;
        let certificate = webpki::EndEntityCert::try_from(own).map_err(certificate_error)?;
        let usage = KeyUsage::client_auth();
        let path = certificate.verify_for_usage(
            algorithms,
            &self.authorities,
            intermediates,
            now,
            usage,
            None,
            None,
        );
        Ok(path.map_err(certificate_error)?.intermediate_certificates().count())
    }
}

fn parts<'a>(
    certificate: &'a CertificateDer<'_>,
) -> Result<CertificateParts<'a>, CertificateError> {
    CertificateParts::parse(certificate).ok_or(CertificateError::BadEncoding)
}

fn check_dates(parts: &CertificateParts<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let seconds = parts.seconds().ok_or(CertificateError::BadEncoding)?;
    let now_unix_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now_unix_s < *seconds.start() {
        return Err(CertificateError::NotValidYet);
    }
    if now_unix_s > *seconds.end() {
        return Err(CertificateError::Expired);
    }
    Ok(())
}

fn certificate_error(error: webpki::Error) -> CertificateError {
    match error {
        webpki::Error::BadDer | webpki::Error::BadDerTime => CertificateError::BadEncoding,
        webpki::Error::CertExpired { .. } => CertificateError::Expired,
        webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        webpki::Error::CaUsedAsEndEntity => Refusal::AuthorityAsPeer.into(),
        webpki::Error::UnsupportedCertVersion => Refusal::VersionOneAuthority.into(),
        other => CertificateError::Other(OtherError(Arc::new(other))),
    }
}

#[derive(Debug)]
enum Servers {
    Any,
    /// Every server is refused, for this reason.
    Refused(&'static str),
    Listed {
        list: TrustedCertificates,
        below: Option<Arc<WebPkiServerVerifier>>,
    },
}

#[derive(Debug)]
pub struct ServerVerifier(Servers);

impl ServerVerifier {
    /// Trusts every server that has the key of its certificate, for operators who disable
    /// verification.
    pub fn any() -> Self {
        Self(Servers::Any)
    }

    /// Refuses every server for the given reason.
    pub fn refusing(reason: &'static str) -> Self {
        Self(Servers::Refused(reason))
    }

    /// Trusts servers that present one of these certificates, or one that they have signed; in both
    /// cases, the certificate must contain the server's name.
    ///
    /// # Errors
    /// If one of the certificates cannot be read.
    pub fn listed(certificates: Vec<CertificateDer<'static>>) -> Result<Self, Error> {
        let list = TrustedCertificates::new(certificates)
            .map_err(|error| Error::InvalidCertificate(certificate_error(error)))?;
        let roots = RootCertStore { roots: list.authorities.clone() };
        Ok(Self(Servers::Listed { list, below: webpki_verifier(Arc::new(roots))? }))
    }

    /// Trusts servers whose certificate is signed by an authority of `roots`.
    ///
    /// # Errors
    /// If the algorithms are unusable.
    pub fn signed_by(roots: Arc<RootCertStore>) -> Result<Self, Error> {
        let (certificates, authorities, issuers) = (Vec::new(), Vec::new(), Vec::new());
        let list = TrustedCertificates { certificates, authorities, issuers };
        Ok(Self(Servers::Listed { list, below: webpki_verifier(roots)? }))
    }

    /// Whether every server is refused, because no authority is known.
    pub fn trusts_nothing(&self) -> bool {
        match &self.0 {
            Servers::Any => false,
            Servers::Refused(_) => true,
            Servers::Listed { list, below } => list.certificates.is_empty() && below.is_none(),
        }
    }

    fn check(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let (list, below) = match &self.0 {
            Servers::Any => return Ok(()),
            Servers::Refused(reason) => return Err(Error::General((*reason).to_owned())),
            Servers::Listed { list, below } => (list, below),
        };
        if parts(own)?.version == 1 {
            return Err(CertificateError::from(Refusal::VersionOneServer).into());
        }
        if list.holds(own, now)? {
            return verify_server_name(&ParsedCertificate::try_from(own)?, server);
        }
        let Some(below) = below else { return Err(CertificateError::UnknownIssuer.into()) };
        let verified = below.verify_server_cert(own, intermediates, server, &[], now);
        match verified {
            Err(Error::InvalidCertificate(CertificateError::Other(OtherError(cause)))) => {
                let known = cause.downcast_ref::<webpki::Error>().cloned();
                let other = CertificateError::Other(OtherError(cause));
                Err(known.map_or(other, certificate_error).into())
            }
            verified => verified.map(drop),
        }
    }
}

/// `None` without authorities, because webpki requires at least one.
fn webpki_verifier(roots: Arc<RootCertStore>) -> Result<Option<Arc<WebPkiServerVerifier>>, Error> {
    if roots.is_empty() {
        return Ok(None);
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&PROVIDER));
    verifier.build().map(Some).map_err(|error| Error::General(error.to_string()))
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates, server_name, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake_1_2(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake_1_3(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies the signature of a TLS 1.2 handshake with the key of a certificate of any version.
pub(crate) fn verify_handshake_1_2(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = public_key(certificate)?;
    let key = RawPublicKeyEntity::try_from(&key).map_err(certificate_error)?;
    // A TLS 1.2 scheme does not name a curve, so several algorithms may apply (RFC 5246
    // §7.4.1.4.1).
    let mut unfit = webpki::Error::InvalidSignatureForPublicKey;
    for algorithm in algorithms_of(signed.scheme)? {
        match key.verify_signature(*algorithm, message, signed.signature()) {
            Ok(()) => return Ok(HandshakeSignatureValid::assertion()),
            Err(error @ webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)) => {
                unfit = error;
            }
            Err(error) => return Err(certificate_error(error).into()),
        }
    }
    Err(certificate_error(unfit).into())
}

/// Verifies the signature of a TLS 1.3 handshake with the key of a certificate of any version.
pub(crate) fn verify_handshake_1_3(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms: &WebPkiSupportedAlgorithms = &PROVIDER.signature_verification_algorithms;
    let key = public_key(certificate)?;
    rustls::crypto::verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
}

fn algorithms_of(
    scheme: SignatureScheme,
) -> Result<&'static [&'static dyn SignatureVerificationAlgorithm], Error> {
    let mapping = PROVIDER.signature_verification_algorithms.mapping;
    let entry = mapping.iter().find(|(known, _)| *known == scheme);
    let unoffered = PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme;
    entry.map(|(_, algorithms)| *algorithms).ok_or_else(|| unoffered.into())
}

fn public_key(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    Ok(SubjectPublicKeyInfoDer::from(parts(certificate)?.public_key).into_owned())
}

/// Combines a certificate chain with its private key. X.509 versions 1 to 3 are accepted.
///
/// # Errors
/// If the key is unusable or does not match the certificate.
pub(crate) fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let key = provider.key_provider.load_private_key(key)?;
    let own = chain.first().ok_or(Error::NoCertificatesPresented)?;
    let expected = public_key(own)?;
    if key.public_key().is_some_and(|public| public != expected) {
        return Err(InconsistentKeys::KeyMismatch.into());
    }
    Ok(CertifiedKey::new(chain, key))
}

#[cfg(test)]
mod tests;
