//! Verifies the certificates of peers: servers that we connect to, and clients that connect to us.
//!
//! Rules beyond those of webpki, which judges everything else:
//! - Without verification nothing of a certificate is judged; its key must have signed the handshake.
//! - A peer whose very certificate is in the list of trusted ones is trusted while that is in date, whatever its
//!   basic constraints and its version.
//! - A certificate of version 1 is good for a client if an authority of the list itself has signed it. It names no
//!   hosts, so no server can be verified by one, and it never signs another.

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

/// The algorithms; one set for all.
pub(crate) static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// Reasons for a refusal that the session layer has no word for.
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
    /// The text, because the session layer writes errors that are not its own by `Debug`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, out)
    }
}

impl From<Refusal> for CertificateError {
    fn from(refusal: Refusal) -> Self {
        Self::Other(OtherError(Arc::new(refusal)))
    }
}

/// A list of trusted certificates: authorities, and peers' own.
#[derive(Debug)]
pub(crate) struct TrustedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    /// All but those that refuse to sign others.
    authorities: Vec<TrustAnchor<'static>>,
    issuers: Vec<Issuer>,
}

/// An authority without constraints on names, which certificates of version 1 could not be measured by.
#[derive(Debug)]
struct Issuer {
    name: Box<[u8]>,
    key: SubjectPublicKeyInfoDer<'static>,
}

impl TrustedCertificates {
    /// # Errors
    /// If one of them cannot be read.
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

    /// Names of issuers by which a client recognises that a certificate of its own is wanted (RFC 8446 §4.2.4).
    pub(crate) fn issuer_names(&self) -> Vec<DistinguishedName> {
        let name = |certificate: &CertificateDer<'_>| {
            let parts = CertificateParts::parse(certificate)?;
            let signs = !refuses_to_sign(certificate);
            Some(DistinguishedName::from(if signs { parts.subject } else { parts.issuer }.to_vec()))
        };
        self.certificates.iter().filter_map(name).collect()
    }

    /// Whether the peer's very certificate is trusted, and in date.
    ///
    /// # Errors
    /// If it is in the list but out of date.
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

    /// Verifies a client's certificate of version 1, which one of the authorities must have signed.
    ///
    /// # Errors
    /// If none has, or the certificate is out of date.
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

    /// Verifies a client's certificate with those behind it; returns the number of certificates between it and an
    /// authority.
    ///
    /// # Errors
    /// If none of the rules of this file makes it good.
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

/// Servers that are trusted.
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

/// Verifies the certificates that servers show.
#[derive(Debug)]
pub struct ServerVerifier(Servers);

impl ServerVerifier {
    /// Trusts every server that has the key of its certificate: for operators who ask for no verification.
    pub fn any() -> Self {
        Self(Servers::Any)
    }

    /// Refuses every server, for the given reason.
    pub fn refusing(reason: &'static str) -> Self {
        Self(Servers::Refused(reason))
    }

    /// Trusts the servers with one of these certificates, and those whose certificate one of them has signed; in
    /// both cases the certificate must name the server.
    ///
    /// # Errors
    /// If one of the certificates cannot be read.
    pub fn listed(certificates: Vec<CertificateDer<'static>>) -> Result<Self, Error> {
        let list = TrustedCertificates::new(certificates)
            .map_err(|error| Error::InvalidCertificate(certificate_error(error)))?;
        let roots = RootCertStore { roots: list.authorities.clone() };
        Ok(Self(Servers::Listed { list, below: webpki_verifier(Arc::new(roots))? }))
    }

    /// Trusts the servers whose certificate an authority of `roots` has signed.
    ///
    /// # Errors
    /// If the algorithms are unusable.
    pub fn signed_by(roots: Arc<RootCertStore>) -> Result<Self, Error> {
        let (certificates, authorities, issuers) = (Vec::new(), Vec::new(), Vec::new());
        let list = TrustedCertificates { certificates, authorities, issuers };
        Ok(Self(Servers::Listed { list, below: webpki_verifier(roots)? }))
    }

    /// Whether no server can be trusted, for want of authorities.
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

/// `None` without authorities: webpki needs one.
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

/// Verifies the signature of a TLS 1.2 handshake by the bare key of a certificate of any version.
pub(crate) fn verify_handshake_1_2(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = public_key(certificate)?;
    let key = RawPublicKeyEntity::try_from(&key).map_err(certificate_error)?;
    // A scheme of TLS 1.2 names no curve, so that several algorithms may be meant (RFC 5246 §7.4.1.4.1).
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

/// Verifies the signature of a TLS 1.3 handshake by the bare key of a certificate of any version.
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

/// A certificate of any version with its key.
///
/// # Errors
/// If the key cannot be used, or is another certificate's.
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
