//! Public key of a private key, for comparison with the one in a certificate.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use super::CertificateError;

/// Prefix of a certificate or key in PEM form.
const PEM_MARK: &str = "-----BEGIN";

/// Markers of keys protected by a passphrase: PKCS #8 and the traditional form.
const ENCRYPTED_MARKS: [&str; 2] = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];

static CURVES: [&EcdsaSigningAlgorithm; 3] = [
    &ECDSA_P256_SHA256_ASN1_SIGNING,
    &ECDSA_P384_SHA384_ASN1_SIGNING,
    &ECDSA_P521_SHA512_ASN1_SIGNING,
];

/// Returns the public key of the first private key in `pem`.
///
/// # Errors
/// If no key is supported for TLS, or the key is protected by a passphrase.
pub(super) fn public_key(pem: &str) -> Result<Vec<u8>, CertificateError> {
    if !pem.contains(PEM_MARK) {
        return Err(CertificateError::StillEncrypted);
    }
    if ENCRYPTED_MARKS.iter().any(|mark| pem.contains(mark)) {
        let reason = "a passphrase protects it; give it without one";
        return Err(CertificateError::Key(reason.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| CertificateError::Key(error.to_string()))?;
    let found = match &key {
        PrivateKeyDer::Pkcs1(der) => rsa(RsaKeyPair::from_der(der.secret_pkcs1_der())),
        PrivateKeyDer::Sec1(der) => {
            elliptic(|curve| EcdsaKeyPair::from_private_key_der(curve, der.secret_sec1_der()).ok())
        }
        PrivateKeyDer::Pkcs8(der) => from_pkcs8(der.secret_pkcs8_der()),
        _ => None,
    };
    let known = "not a key of RSA (2048 bits or more), ECDSA (P-256, P-384, P-521) or Ed25519";
    found.ok_or_else(|| CertificateError::Key(known.to_owned()))
}

fn from_pkcs8(der: &[u8]) -> Option<Vec<u8>> {
    rsa(RsaKeyPair::from_pkcs8(der))
        .or_else(|| elliptic(|curve| EcdsaKeyPair::from_pkcs8(curve, der).ok()))
        .or_else(|| {
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
            Some(pair.public_key().as_ref().to_vec())
        })
}

fn rsa<E>(pair: Result<RsaKeyPair, E>) -> Option<Vec<u8>> {
    Some(pair.ok()?.public_key().as_ref().to_vec())
}

fn elliptic(
    read: impl Fn(&'static EcdsaSigningAlgorithm) -> Option<EcdsaKeyPair>,
) -> Option<Vec<u8>> {
    let pair = CURVES.iter().find_map(|curve| read(curve))?;
    Some(pair.public_key().as_ref().to_vec())
}
