//! OCSP responses (RFC 6960), valid and invalid, for requests as received.
//!
//! Handles only bytes; the test signs and transports them.

/// Extension in which a certificate names its responder (RFC 5280 §4.2.2.1).
pub const AUTHORITY_INFORMATION_ACCESS: [u64; 9] = [1, 3, 6, 1, 5, 5, 7, 1, 1];

/// Encoded object identifier `id-ad-ocsp`.
const AD_OCSP: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01];

/// Encoded object identifier `id-pkix-ocsp-basic`.
const BASIC_ANSWER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// Encoded algorithm identifier `ecdsa-with-SHA256`.
const ECDSA_SHA256: &[u8] =
    &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// Encodes a DER element of less than 64 KiB.
pub fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("shorter than 64 KiB");
    let [high, low] = length.to_be_bytes();
    let head = match length {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [&head, content].concat()
}

/// Returns the content of [`AUTHORITY_INFORMATION_ACCESS`] that names a responder.
pub fn responder_at(uri: &str) -> Vec<u8> {
    let location = der(0x86, uri.as_bytes());
    der(0x30, &der(0x30, &[der(0x06, AD_OCSP), location].concat()))
}

/// Certificate status that the responder reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    Good,
    Revoked,
    /// The responder does not know the certificate.
    Unknown,
}

/// Content of an OCSP response before it is signed.
#[derive(Debug, Clone)]
pub struct Answer {
    pub says: Says,
    /// Start of validity, in seconds since 1970.
    pub since_unix_s: i64,
    /// End of validity in seconds since 1970, if stated.
    pub until_unix_s: Option<i64>,
    /// Certificates in the response, as DER.
    pub certificates: Vec<Vec<u8>>,
}

impl Answer {
    /// Returns a response that the certificate is good between two times.
    pub fn good(since_unix_s: i64, until_unix_s: i64) -> Self {
        let until_unix_s = Some(until_unix_s);
        Self { says: Says::Good, since_unix_s, until_unix_s, certificates: Vec::new() }
    }

    /// Encodes the response to a request, signed with the key of a P-256 certificate.
    pub fn to(&self, question: &[u8], sign: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        // Descends through the request: its signed part, the list, the first entry, and the
        // certificate's id.
        let id = (0..4).fold(question, |outer, _| content(outer));
        let status = match self.says {
            Says::Good => der(0x80, &[]),
            Says::Revoked => der(0xa1, &time(self.since_unix_s)),
            Says::Unknown => der(0x82, &[]),
        };
        let until = self.until_unix_s.map(|until| der(0xa0, &time(until))).unwrap_or_default();
        let single = der(0x30, &[id, &status, &time(self.since_unix_s), &until].concat());
        let who = der(0xa2, &der(0x04, &[7; 20]));
        let data = [who, time(self.since_unix_s), der(0x30, &single)].concat();
        let data = der(0x30, &data);
        let signature = der(0x03, &[&[0], &sign(&data)[..]].concat());
        let certificates = match self.certificates.is_empty() {
            true => Vec::new(),
            false => der(0xa0, &der(0x30, &self.certificates.concat())),
        };
        let basic = [&data, ECDSA_SHA256, &signature, &certificates].concat();
        let bytes = [der(0x06, BASIC_ANSWER), der(0x04, &der(0x30, &basic))].concat();
        der(0x30, &[der(0x0a, &[0]), der(0xa0, &der(0x30, &bytes))].concat())
    }

    /// Encodes a response without content, with this error status.
    pub fn refusal(number: u8) -> Vec<u8> {
        der(0x30, &der(0x0a, &[number]))
    }
}

/// Returns the content of the first element.
fn content(element: &[u8]) -> &[u8] {
    match element[1] {
        0x81 => &element[3..],
        0x82 => &element[4..],
        _ => &element[2..],
    }
}

/// Encodes a time as an ASN.1 `GeneralizedTime`.
fn time(unix_s: i64) -> Vec<u8> {
    let (days, second) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    // Counts years from March, so that a leap day is the last day of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + year_of_era + era * 400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let text = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    der(0x18, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_responders_write_them() {
        for (unix_s, expected) in [
            (0, "19700101000000Z"),
            (951_868_799, "20000229235959Z"),
            (1_795_000_000, "20261118110640Z"),
        ] {
            assert_eq!(&time(unix_s)[2..], expected.as_bytes());
        }
    }
}
