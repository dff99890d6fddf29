//! JSON records in the store. Private keys in them are sealed with the store's keyring, each for
//! the place of its record, so that it cannot be opened elsewhere.

use serde::{Deserialize, Serialize};
use tollhouse_model::encryption::Keyring;

use crate::failure::{Code, Failure};
use crate::settings::ChallengeKind;

/// Place to which the sealed URLs and keys of accounts are bound.
pub(crate) const ACCOUNT_PLACE: &str = "acme.account";
/// Place to which the sealed keys of ordered certificates are bound.
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

/// An order in progress. The record is stored before the request to the authority, so that nothing
/// is ordered if the store fails, and again as soon as the URL of the order is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OrderRecord {
    pub(crate) host: String,
    pub(crate) directory: String,
    /// URL of the order, once known.
    pub(crate) url: Option<String>,
    /// Private key for the certificate, PEM, sealed.
    pub(crate) key: String,
    /// Number of unusable certificates that the authority has issued for this order.
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
    /// Number of consecutive failures since the last success.
    #[serde(default)]
    pub(crate) failures: u32,
    /// Times of failed challenges in the last hour, in Unix time.
    #[serde(default)]
    pub(crate) challenges_failed_s: Vec<u64>,
    /// Times at which certificates were issued in the last week, in Unix time.
    #[serde(default)]
    pub(crate) issued_s: Vec<u64>,
    /// Planned renewal of the certificate in service.
    #[serde(default)]
    pub(crate) renewal: Option<Renewal>,
    /// Error of the last attempt; cleared by a success.
    #[serde(default)]
    pub(crate) last_error: Option<LastError>,
}

/// Planned time of a renewal, and of the next request for the renewal window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Renewal {
    /// Last second of validity of the certificate that the plan is for, which identifies the
    /// certificate.
    pub(crate) not_after_s: u64,
    pub(crate) at_s: u64,
    /// Renewal window that the authority suggests (RFC 9773 §4.2), in Unix time.
    pub(crate) window_s: Option<(u64, u64)>,
    /// Time at which the authority is asked for the window again, in Unix time.
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

/// Opens a value that was sealed for `place`. A value in clear text is refused, because this
/// program does not write such values.
///
/// # Errors
/// If no key opens the value.
pub(crate) fn open(keyring: &Keyring, sealed: &str, place: &str) -> Result<String, Failure> {
    keyring.hidden_in(sealed, place).ok_or_else(|| {
        Failure::new(Code::KeyUnopened, format!("no key opens {place} in the store"))
    })
}
