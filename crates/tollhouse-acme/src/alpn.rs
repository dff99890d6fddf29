//! Certificate for a `tls-alpn-01` challenge (RFC 8737 §3).

use aws_lc_rs::digest;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// ALPN protocol of the authority's handshake for a challenge. Its ClientHello offers no other
/// protocol.
pub const ACME_TLS_ALPN: &[u8] = b"acme-tls/1";

/// Creates a self-signed certificate for one name, and its key. A critical extension of the
/// certificate contains the digest of the key authorization.
///
/// # Errors
/// If the name is invalid in a certificate.
pub fn challenge_certificate(
    host: &str,
    key_authorization: &str,
) -> Result<(CertificateDer<'static>, PrivatePkcs8KeyDer<'static>), String> {
    let made = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        let digest = digest::digest(&digest::SHA256, key_authorization.as_bytes());
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok((certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der())))
    };
    made().map_err(|error| format!("{host}: {error}"))
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;

    #[test]
    fn the_digest_stands_in_a_critical_extension() {
        let (certificate, _) = challenge_certificate("a.example", "token.thumb").expect("a name");
        let (_, certificate) = X509Certificate::from_der(&certificate).expect("a certificate");
        // id-pe-acmeIdentifier (RFC 8737 §6.1).
        let found = certificate
            .extensions()
            .iter()
            .find(|it| it.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let extension = found.expect("it is there");
        assert!(extension.critical);
        let digest = digest::digest(&digest::SHA256, b"token.thumb");
        assert_eq!(extension.value, [&[0x04, 32], digest.as_ref()].concat(), "an octet string");
        let names = certificate.subject_alternative_name().expect("readable").expect("there");
        assert_eq!(names.value.general_names.len(), 1);
    }
}
