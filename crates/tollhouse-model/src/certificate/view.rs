//! Fields of a client certificate, formatted for variables.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollhouse_stdx::civil::CivilTime;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

/// Characters in a line of PEM (RFC 7468 §2).
const PEM_LINE: usize = 64;

const DAY_S: i64 = 24 * 3600;

/// Month names, as OpenSSL writes them.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Client certificate whose fields variables can read.
#[derive(Debug)]
pub struct CertificateView<'a> {
    der: &'a [u8],
    fields: X509Certificate<'a>,
}

impl<'a> CertificateView<'a> {
    /// Parses the DER of a certificate; `None` if it is invalid.
    pub fn parse(der: &'a [u8]) -> Option<Self> {
        let (_, fields) = X509Certificate::from_der(der).ok()?;
        Some(Self { der, fields })
    }

    /// Returns the subject name in the format of RFC 2253: `CN=name,O=organisation`.
    pub fn subject(&self) -> String {
        distinguished_name(self.fields.subject())
    }

    /// Returns the issuer name in the format of RFC 2253.
    pub fn issuer(&self) -> String {
        distinguished_name(self.fields.issuer())
    }

    /// Returns the serial number in upper-case hexadecimal digits.
    pub fn serial(&self) -> String {
        let digits = hexadecimal(self.fields.raw_serial());
        // A leading zero octet only makes the number positive; OpenSSL does not print it.
        let digits = digits.to_ascii_uppercase();
        match digits.strip_prefix("00").filter(|rest| !rest.is_empty()) {
            Some(rest) => rest.to_owned(),
            None => digits,
        }
    }

    /// Returns the SHA-1 of the DER in hexadecimal digits. An identifier only, not a proof.
    pub fn fingerprint(&self) -> String {
        let digest =
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, self.der);
        hexadecimal(digest.as_ref())
    }

    /// Returns the start of validity: `Nov 23 08:00:00 2026 GMT`.
    pub fn not_before(&self) -> String {
        date(self.fields.validity().not_before.timestamp())
    }

    /// Returns the end of validity, in the format of `not_before`.
    pub fn not_after(&self) -> String {
        date(self.fields.validity().not_after.timestamp())
    }

    /// Returns the number of whole days until expiry; 0 once expired.
    pub fn days_left(&self, now: SystemTime) -> i64 {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let left = self.fields.validity().not_after.timestamp().saturating_sub(now);
        (left / DAY_S).max(0)
    }

    pub fn pem(&self) -> String {
        let text = STANDARD.encode(self.der);
        let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, behind) = rest.split_at(rest.len().min(PEM_LINE));
            out.push_str(line);
            out.push('\n');
            rest = behind;
        }
        out.push_str("-----END CERTIFICATE-----\n");
        out
    }
}

/// Formats a name with its last part first, separated by commas (RFC 2253 §2.1).
fn distinguished_name(name: &X509Name<'_>) -> String {
    let mut parts = Vec::new();
    for set in name.iter_rdn() {
        let of_set: Vec<String> = set
            .iter()
            .map(|attribute| {
                let kind = attribute.attr_type();
                let registry = x509_parser::objects::oid_registry();
                let short = x509_parser::objects::oid2abbrev(kind, registry);
                let short = short.map_or_else(|_| kind.to_id_string(), str::to_owned);
                format!("{short}={}", escaped(attribute.as_str().unwrap_or_default()))
            })
            .collect();
        parts.push(of_set.join("+"));
    }
    parts.reverse();
    parts.join(",")
}

/// Escapes special characters with a backslash (RFC 2253 §2.4). Control characters are removed,
/// because headers and logs cannot hold them.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.len().saturating_sub(1);
    for (place, character) in value.char_indices() {
        let is_special = matches!(character, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || character == '#' && place == 0
            || character == ' ' && (place == 0 || place == last);
        if character.is_control() {
            continue;
        }
        if is_special {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn date(unix_s: i64) -> String {
    let at = CivilTime::from_unix_seconds(unix_s);
    let month = usize::from(at.month).checked_sub(1).and_then(|month| MONTHS.get(month));
    let month = month.copied().unwrap_or("???");
    let (day, year) = (at.day, at.year);
    let (hour, minute, second) = (at.hour, at.minute, at.second);
    format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_says_whose_it_is_and_for_how_long() {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Tests, Inc.");
        params.distinguished_name.push(rcgen::DnType::CommonName, "name\r\nX: y");
        params.serial_number = Some(vec![0x0a, 0xff].into());
        params.not_before = rcgen::date_time_ymd(2026, 1, 2);
        params.not_after = rcgen::date_time_ymd(2027, 11, 30);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let view = CertificateView::parse(certificate.der()).expect("it is one");
        assert_eq!(view.subject(), "CN=nameX: y,O=Tests\\, Inc.");
        assert_eq!(view.issuer(), view.subject());
        assert_eq!(view.serial(), "0AFF");
        assert_eq!(view.fingerprint().len(), 40);
        assert_eq!(view.not_before(), "Jan  2 00:00:00 2026 GMT");
        assert_eq!(view.not_after(), "Nov 30 00:00:00 2027 GMT");
        let end = UNIX_EPOCH + std::time::Duration::from_secs(1_827_532_800);
        assert_eq!(view.days_left(end), 0);
        assert_eq!(view.days_left(end - std::time::Duration::from_secs(86_401)), 1);
        let pem = view.pem();
        assert!(pem.lines().all(|line| line.len() <= PEM_LINE), "{pem}");
        assert_eq!(super::super::check_chain(&pem).expect("it reads back").intermediates, 0);
        assert!(CertificateView::parse(b"none").is_none());
    }
}
