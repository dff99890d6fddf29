//! Parser of the OCSP responses of an SSL object (`ocsp`, `ocsps`), which the operator has obtained
//! and which are stapled to its certificates.
//!
//! A response without a valid signature is an error. One that is out of date or reports a bad
//! status is a warning, because the certificate must stay in service when its response expires.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::CertificatePair;
use super::parse::FURTHER_PAIRS_MAX;
use crate::certificate::format_date;
use crate::certificate::status::{
    ANSWER_BYTES_MAX, CertificateStatus, StatusAnswer, StatusError, StatusQuestion,
};
use crate::reader::{Fields, Reader, Unknown};
use crate::secret::is_reference;

/// Reads the fields `ocsp` and `ocsps`. If a certificate is a reference to a secret, its response
/// is checked once the reference is resolved.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &Fields,
    pairs: &[CertificatePair],
    now: SystemTime,
) -> Vec<Arc<[u8]>> {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now_unix_s = i64::try_from(seconds).unwrap_or(i64::MAX);
    let mut read_one = |reader: &mut Reader<'_>, value: &Value| {
        let answer = decode(reader, value)?;
        check(reader, pairs, &answer, now_unix_s).then_some(answer)
    };
    let first = reader.optional(fields, "ocsp", read_one);
    let further = reader.optional(fields, "ocsps", |reader, value| {
        let items = reader.list(value)?;
        if items.len() > FURTHER_PAIRS_MAX {
            let reason = format!("expect array to have at most {FURTHER_PAIRS_MAX} items");
            reader.error_unquoted(reason, "give one for each certificate");
            return None;
        }
        reader.items(items, &mut read_one)
    });
    first.into_iter().chain(further.unwrap_or_default()).collect()
}

/// Shortest `cache_ttl` that APISIX accepts, in seconds.
const CACHE_TTL_MIN: i64 = 60;

/// Reads the settings of APISIX's `ocsp-stapling` (`ocsp_stapling`), and warns of those that differ
/// from what is done for each certificate: it is stapled, with a verified response, until that
/// response expires.
pub(super) fn read_settings(reader: &mut Reader<'_>, value: &Value) -> Option<()> {
    let known = ["enabled", "skip_verify", "cache_ttl"];
    let fields = reader.object(value, &known, Unknown::Ignored)?;
    let mut flag = |name, reason: &str, hint, unusual| {
        reader.optional(fields, name, |reader, value| {
            let is_set = reader.boolean(value)?;
            if is_set == unusual {
                reader.warning(value, reason, hint);
            }
            Some(())
        });
    };
    let hint = "tls.ocsp_stapling in the bootstrap file turns stapling off for all certificates";
    flag("enabled", "stapling cannot be turned off for one certificate", hint, false);
    let hint = "remove it; responses that are not signed by the issuer are never stapled";
    flag("skip_verify", "responses are verified all the same", hint, true);
    reader.optional(fields, "cache_ttl", |reader, value| {
        reader.integer(value, CACHE_TTL_MIN..=i64::MAX)
    });
    Some(())
}

fn decode(reader: &mut Reader<'_>, value: &Value) -> Option<Arc<[u8]>> {
    let text = reader.text(value)?;
    // Four characters for three bytes, and a line end after every 64 characters.
    let chars_max = ANSWER_BYTES_MAX.div_ceil(3) * 4 * 65 / 64 + 4;
    let hint = "give the answer of the responder (DER) in base64";
    if text.len() > chars_max {
        reader.error_unquoted("longer than 16 KiB", hint);
        return None;
    }
    let packed: String = text.split_ascii_whitespace().collect();
    match STANDARD.decode(packed) {
        Ok(answer) => Some(answer.into()),
        Err(error) => {
            reader.error_unquoted(format!("invalid base64: {error}"), hint);
            None
        }
    }
}

/// Verifies a response and reports problems; returns whether to keep it.
fn check(
    reader: &mut Reader<'_>,
    pairs: &[CertificatePair],
    answer: &[u8],
    now_unix_s: i64,
) -> bool {
    if pairs.iter().any(|pair| is_reference(&pair.cert)) {
        return true;
    }
    let mut found = Err(StatusError::OtherCertificate);
    for pair in pairs {
        found = StatusQuestion::from_pem(&pair.cert).and_then(|it| it.read(answer, now_unix_s));
        // Each certificate may have a response, so this one may belong to the next certificate.
        if found != Err(StatusError::OtherCertificate) {
            break;
        }
    }
    let (path, problems) = reader.parts();
    let (is_kept, problem) = match found {
        Ok(StatusAnswer { status: CertificateStatus::Good, .. }) => return true,
        Ok(StatusAnswer { status, since_unix_s, .. }) => {
            let reason = match status {
                CertificateStatus::Revoked => {
                    format!("the certificate was revoked by {}", format_date(since_unix_s))
                }
                _ => "the responder does not know the certificate".to_owned(),
            };
            (true, warning(path, &reason, "get a new certificate"))
        }
        Err(error @ (StatusError::Expired | StatusError::NotYet)) => (
            true,
            warning(path, &error.to_string(), "it is not sent to clients; give a newer response"),
        ),
        Err(error) => {
            let hint = match error {
                StatusError::NoIssuer => "append the certificate of the issuer in cert",
                _ => "give the answer of the responder that the certificate names (DER, in base64)",
            };
            (false, crate::Problem::error(path, error.to_string()).with_hint(hint))
        }
    };
    problems.push(problem);
    is_kept
}

fn warning(path: &str, reason: &str, hint: &str) -> crate::Problem {
    crate::Problem::warning(path, reason).with_hint(hint)
}
