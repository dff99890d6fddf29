//! What lies in the store as JSON. Keys are sealed with the store's keyring, each bound to its place.

use serde::{Deserialize, Serialize};
use tollhouse_model::encryption::Keyring;

use crate::failure::{Code, Failure};
use crate::settings::ChallengeKind;

/// Where account keys are sealed for.
pub(crate) const ACCOUNT_PLACE: &str = "acme.account";
/// Where the keys of certificates to be are sealed for.
pub(crate) const ORDER_PLACE: &str = "acme.order";

/// An account with an authority.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AccountRecord {
    /// The directory that it is for.
    pub(crate) directory: String,
    /// Its URL and key, sealed.
    pub(crate) credentials: String,
    /// Whom the authority was told it may write to.
    pub(crate) contact: Vec<String>,
}

/// An order under way. It is written before the authority is asked, so that what cannot be kept is never
/// ordered, and again with the URL before anything is done with that.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OrderRecord {
    /// The name it is for.
    pub(crate) host: String,
    /// The directory of the authority.
    pub(crate) directory: String,
    /// The order's URL, once the authority has given it.
    pub(crate) url: Option<String>,
    /// The private key that the certificate will have, PEM, sealed.
    pub(crate) key: String,
    /// How often what came of it could not be used.
    #[serde(default)]
    pub(crate) unusable: u8,
}

/// A challenge to be answered; its token is in the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChallengeRecord {
    pub(crate) kind: ChallengeKind,
    pub(crate) host: String,
    pub(crate) key_authorization: String,
}

/// How a certificate stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateRecord {
    /// The name it is for.
    pub(crate) host: String,
    /// No attempt before this, in Unix time.
    #[serde(default)]
    pub(crate) next_attempt_s: u64,
    /// Failures since the last success.
    #[serde(default)]
    pub(crate) failures: u32,
    /// When challenges of the last hour have failed.
    #[serde(default)]
    pub(crate) challenges_failed_s: Vec<u64>,
    /// When certificates of the last week were issued.
    #[serde(default)]
    pub(crate) issued_s: Vec<u64>,
    /// When the certificate that is served is to be renewed.
    #[serde(default)]
    pub(crate) renewal: Option<Renewal>,
    /// Why the last attempt has failed, until one succeeds.
    #[serde(default)]
    pub(crate) last_error: Option<LastError>,
}

/// When a certificate is to be renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Renewal {
    /// Which certificate is meant: the last second that it is good for.
    pub(crate) not_after_s: u64,
    /// When.
    pub(crate) at_s: u64,
    /// The window that the authority has suggested (RFC 9773 §4.2), if it does.
    pub(crate) window_s: Option<(u64, u64)>,
    /// When the authority is to be asked for it.
    pub(crate) ask_at_s: u64,
}

/// Why an attempt has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastError {
    pub(crate) code: Code,
    pub(crate) detail: String,
    /// When, in Unix time.
    pub(crate) at_s: u64,
}

/// Until when an authority is not asked for anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HoldRecord {
    /// In Unix time.
    pub(crate) until_s: u64,
    /// Failures of the authority since it has last answered as it should.
    pub(crate) failures: u32,
}

/// A record as the store takes it.
pub(crate) fn to_json(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have text keys and no foreign types")
}

/// Opens what was sealed for a place. What lies there in the clear was not put by us.
///
/// # Errors
/// No key opens it.
pub(crate) fn open(keyring: &Keyring, sealed: &str, place: &str) -> Result<String, Failure> {
    keyring.hidden_in(sealed, place).ok_or_else(|| {
        Failure::new(Code::KeyUnopened, format!("no key opens {place} in the store"))
    })
}
