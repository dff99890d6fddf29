//! JSON records in the store. Keys are sealed with the store's keyring, each bound to its place.

use serde::{Deserialize, Serialize};
use tollhouse_model::encryption::Keyring;

use crate::failure::{Code, Failure};
use crate::settings::ChallengeKind;

/// Place to which account keys are sealed.
pub(crate) const ACCOUNT_PLACE: &str = "acme.account";
/// Place to which the keys of ordered certificates are sealed.
pub(crate) const ORDER_PLACE: &str = "acme.order";

/// Stored account with an authority.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AccountRecord {
    pub(crate) directory: String,
    /// URL and key of the account, sealed.
    pub(crate) credentials: String,
    /// Contact addresses registered with the authority.
    pub(crate) contact: Vec<String>,
}

/// An order in progress. It is stored before the request to the authority, so that nothing is
/// ordered that cannot be stored, and again as soon as its URL is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OrderRecord {
    pub(crate) host: String,
    pub(crate) directory: String,
    /// URL of the order, once known.
    pub(crate) url: Option<String>,
    /// Private key for the certificate, PEM, sealed.
    pub(crate) key: String,
    /// Number of unusable certificates issued for this order.
    #[serde(default)]
    pub(crate) unusable: u8,
}

/// A pending challenge; the token is part of the store key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChallengeRecord {
    pub(crate) kind: ChallengeKind,
    pub(crate) host: String,
    pub(crate) key_authorization: String,
}

/// Stored progress of a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateRecord {
    pub(crate) host: String,
    /// Earliest time of the next attempt, in Unix time.
    #[serde(default)]
    pub(crate) next_attempt_s: u64,
    /// Failures since the last success.
    #[serde(default)]
    pub(crate) failures: u32,
    /// Times of failed challenges in the last hour.
    #[serde(default)]
    pub(crate) challenges_failed_s: Vec<u64>,
    /// Times at which certificates were issued in the last week.
    #[serde(default)]
    pub(crate) issued_s: Vec<u64>,
    /// Planned renewal of the certificate in service.
    #[serde(default)]
    pub(crate) renewal: Option<Renewal>,
    /// Error of the last attempt; cleared by a success.
    #[serde(default)]
    pub(crate) last_error: Option<LastError>,
}

/// Stored time of the renewal, and of the next request for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Renewal {
    /// Last second of validity, which identifies the certificate concerned.
    pub(crate) not_after_s: u64,
    pub(crate) at_s: u64,
    /// Window suggested by the authority (RFC 9773 §4.2).
    pub(crate) window_s: Option<(u64, u64)>,
    /// Time at which the authority is asked for the window again.
    pub(crate) ask_at_s: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastError {
    pub(crate) code: Code,
    pub(crate) detail: String,
    /// Time of the failure, in Unix time.
    pub(crate) at_s: u64,
}

/// Period in which an authority must not be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HoldRecord {
    /// End of the period, in Unix time.
    pub(crate) until_s: u64,
    /// Number of consecutive failures of the authority.
    pub(crate) failures: u32,
}

/// Encodes a record for the store.
pub(crate) fn to_json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have text keys and no foreign types")
}

/// Opens a value sealed for a place. A value in clear text is refused, because it was not written
/// by this program.
///
/// # Errors
/// If no key opens the value.
pub(crate) fn open(keyring: &Keyring, sealed: &str, place: &str) -> Result<String, Failure> {
    keyring.hidden_in(sealed, place).ok_or_else(|| {
        Failure::new(Code::KeyUnopened, format!("no key opens {place} in the store"))
    })
}
