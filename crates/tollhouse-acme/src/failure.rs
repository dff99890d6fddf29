//! Failures on the way to a certificate: a stable code, the reported details, and the remedy.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Problem};
use serde::{Deserialize, Serialize};
use tollhouse_store::StoreError;

use crate::transport::TransportError;

/// Maximum length of a quotation of a message from outside, in characters.
const DETAIL_CHARS_MAX: usize = 500;

/// Prefix of all ACME problem types (RFC 8555 §6.7).
const PROBLEM_PREFIX: &str = "urn:ietf:params:acme:error:";

/// Class of a failure. The name of a class in logs and answers does not change between releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    Unreachable,
    /// The authority has limited the rate of requests (status 429).
    RateLimited,
    /// The authority failed with a 5xx status, or did not decide in time.
    Unavailable,
    /// The authority's response cannot be parsed.
    AnswerMalformed,
    AccountRefused,
    OrderRefused,
    /// The authority could not verify control of the name.
    ChallengeFailed,
    /// The certificate does not match the key and the name, or is invalid.
    CertificateUnusable,
    /// A private key in the store is sealed, and no key of the keyring opens it.
    KeyUnopened,
    /// The store cannot be read or written.
    StoreFailed,
    /// So many certificates were issued for the name recently that a fault is likely; no further
    /// one is ordered for now.
    IssuedTooOften,
}

impl Code {
    /// Returns the name used in logs, API responses and tables.
    pub fn name(self) -> &'static str {
        match self {
            Code::Unreachable => "acme_unreachable",
            Code::RateLimited => "acme_rate_limited",
            Code::Unavailable => "acme_unavailable",
            Code::AnswerMalformed => "acme_answer_malformed",
            Code::AccountRefused => "acme_account_refused",
            Code::OrderRefused => "acme_order_refused",
            Code::ChallengeFailed => "acme_challenge_failed",
            Code::CertificateUnusable => "acme_certificate_unusable",
            Code::KeyUnopened => "acme_key_unopened",
            Code::StoreFailed => "acme_store_failed",
            Code::IssuedTooOften => "acme_issued_too_often",
        }
    }

    /// Returns the advice for the operator, as a phrase.
    pub fn remedy(self) -> &'static str {
        match self {
            Code::Unreachable => {
                "check acme.directory, name resolution and outbound connections; if the authority is your own, \
                 give its root as acme.ca"
            }
            Code::RateLimited => {
                "no request is sent before the time that the authority named; for experiments \
                 use its staging directory"
            }
            Code::Unavailable => "nothing to do: the attempt is repeated",
            Code::AnswerMalformed => {
                "check that acme.directory is the URL of an ACME directory; the attempt is repeated"
            }
            Code::AccountRefused => {
                "check acme.agree, acme.contact, and acme.eab if the authority requires an account"
            }
            Code::OrderRefused => {
                "check the name in acme.hosts and its CAA records; the authority's own words say more"
            }
            Code::ChallengeFailed => {
                "the authority must reach this gateway by the name: check its DNS records, and that port \
                 80 (http-01, to listen.http) or 443 (tls-alpn-01, to listen.https) is forwarded"
            }
            Code::CertificateUnusable => "the former certificate stays in service; will retry",
            Code::KeyUnopened => {
                "restore the keyring that the store was sealed with, as data_dir/keyring; if it is lost for \
                 good, start once with encryption.allow_lost_keys=true"
            }
            Code::StoreFailed => {
                "make room on the disk, or grant write permission; until then nothing is ordered"
            }
            Code::IssuedTooOften => {
                "find out who deletes the certificates from the store; one more is ordered when a week \
                 has passed since the oldest of them"
            }
        }
    }
}

/// Set of requests that are delayed after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Certificate,
    /// All requests to the authority, for any certificate.
    Authority,
}

/// Why a certificate could not be obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub code: Code,
    /// Message of the authority or the library, truncated.
    pub detail: String,
    /// Wait that the authority asks for.
    pub(crate) wait: Option<Duration>,
    pub(crate) scope: Scope,
    /// Name of the ACME problem, such as `badNonce`; empty if unknown.
    pub(crate) problem: String,
}

impl Failure {
    /// Returns a failure that concerns one certificate only.
    pub(crate) fn new(code: Code, detail: impl fmt::Display) -> Self {
        let detail = bounded(&detail.to_string());
        Self { code, detail, wait: None, scope: Scope::Certificate, problem: String::new() }
    }

    /// Extends the failure to all requests to the authority.
    pub(crate) fn with_authority_scope(mut self) -> Self {
        self.scope = Scope::Authority;
        self
    }

    /// Whether the authority no longer knows the account.
    pub(crate) fn lost_account(&self) -> bool {
        self.problem == "accountDoesNotExist"
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.detail, self.code.remedy())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(Code::StoreFailed, error)
    }
}

/// Errors of our HTTP transport. The ACME library passes them through as opaque errors.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    NoAnswer(#[from] TransportError),
    /// The authority asks to retry later.
    #[error("the authority answered {status}{}{detail}", if detail.is_empty() { "" } else { ": " })]
    Later {
        /// HTTP status: 429, or 5xx.
        status: u16,
        /// Description in the problem document.
        detail: String,
        /// Type in the problem document, a URN.
        problem: String,
        /// Wait in `Retry-After`.
        wait: Option<Duration>,
    },
}

/// Whether the authority refused the nonce, in which case the request had no effect (RFC 8555
/// §6.5).
pub(crate) fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem_name(problem) == "badNonce")
}

/// Converts an error of the ACME library. `refused` is the code for a problem document whose type
/// has no code of its own.
pub(crate) fn from_protocol(error: Error, refused: Code) -> Failure {
    match error {
        Error::Api(problem) => from_problem(&problem, refused),
        Error::Other(inner) => match inner.downcast::<Fault>() {
            Ok(fault) => from_fault(*fault, refused),
            Err(other) => Failure::new(Code::AnswerMalformed, other),
        },
        other => Failure::new(Code::AnswerMalformed, other),
    }
}

/// Converts a problem document (RFC 7807). `refused` is the code for types without a code of their
/// own.
pub(crate) fn from_problem(problem: &Problem, refused: Code) -> Failure {
    let name = problem_name(problem);
    let code = match name {
        "rateLimited" => Code::RateLimited,
        "serverInternal" | "badNonce" => Code::Unavailable,
        "accountDoesNotExist"
        | "externalAccountRequired"
        | "userActionRequired"
        | "invalidContact"
        | "unsupportedContact" => Code::AccountRefused,
        // These types report that the authority could not verify a challenge.
        "caa" | "connection" | "dns" | "incorrectResponse" | "tls" => Code::ChallengeFailed,
        _ => refused,
    };
    let mut failure = Failure::new(code, words(problem));
    failure.problem = name.to_owned();
    failure
}

fn from_fault(fault: Fault, refused: Code) -> Failure {
    let text = fault.to_string();
    match fault {
        Fault::NoAnswer(_) => Failure::new(Code::Unreachable, text).with_authority_scope(),
        Fault::Later { status, wait, problem, .. } => {
            let code = if status == 429 { Code::RateLimited } else { Code::Unavailable };
            // Rate limits on orders concern names or sets of names; all others concern the account.
            let is_ours = status != 429 || refused != Code::OrderRefused;
            let scope = if is_ours { Scope::Authority } else { Scope::Certificate };
            Failure { wait, scope, problem, ..Failure::new(code, text) }
        }
    }
}

/// Returns the type of a problem without the common prefix.
fn problem_name(problem: &Problem) -> &str {
    let name = problem.r#type.as_deref().unwrap_or_default();
    name.strip_prefix(PROBLEM_PREFIX).unwrap_or(name)
}

/// Formats a problem document, with the authority's own description.
fn words(problem: &Problem) -> String {
    let mut text = match problem_name(problem) {
        "" => String::new(),
        name => format!("{name}: "),
    };
    text.push_str(problem.detail.as_deref().unwrap_or("the authority gives no reason"));
    for part in problem.subproblems.iter().filter_map(|part| part.detail.as_deref()) {
        text.push_str("; ");
        text.push_str(part);
    }
    text
}

/// Truncates a message of the authority to [`DETAIL_CHARS_MAX`], and replaces control characters,
/// which could affect a terminal.
pub(crate) fn bounded(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(DETAIL_CHARS_MAX).map(plain).collect()
}
