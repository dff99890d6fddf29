//! What goes wrong on the way to a certificate: a stable code, what was said, and what helps.

use std::fmt;
use std::time::Duration;

use instant_acme::{Error, Problem};
use serde::{Deserialize, Serialize};
use tollhouse_store::StoreError;

use crate::transport::TransportError;

/// Letters of somebody else's words that are repeated.
const DETAIL_CHARS_MAX: usize = 500;

/// What every problem type of ACME begins with (RFC 8555 §6.7).
const PROBLEM_PREFIX: &str = "urn:ietf:params:acme:error:";

/// What has gone wrong. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The authority cannot be reached.
    Unreachable,
    /// It asks for patience: 429.
    RateLimited,
    /// It has a fault of its own: 5xx, or no decision in time.
    Unavailable,
    /// It answers what nobody can read.
    AnswerMalformed,
    /// It does not want us as a client.
    AccountRefused,
    /// It does not take the order.
    OrderRefused,
    /// It could not see that the name is ours.
    ChallengeFailed,
    /// What it gave is no certificate for this key and this name.
    CertificateUnusable,
    /// A key of ours in the store is sealed, and nothing opens it.
    KeyUnopened,
    /// The store cannot be written or read.
    StoreFailed,
    /// So many certificates were issued for the name of late that something must be wrong.
    IssuedTooOften,
}

impl Code {
    /// Its name in logs, answers and tables.
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

    /// What helps.
    pub fn remedy(self) -> &'static str {
        match self {
            Code::Unreachable => {
                "check acme.directory, name resolution and the way out; where the authority is your own, \
                 give its root as acme.ca"
            }
            Code::RateLimited => {
                "nothing is asked before the time that the authority named; while you try things out, \
                 use its staging directory"
            }
            Code::Unavailable => "nothing to do: it is tried again",
            Code::AnswerMalformed => {
                "check that acme.directory is the URL of an ACME directory; it is tried again"
            }
            Code::AccountRefused => {
                "check acme.agree, acme.contact, and acme.eab where the authority asks for an account"
            }
            Code::OrderRefused => {
                "check the name in acme.hosts and its CAA records; the authority's own words say more"
            }
            Code::ChallengeFailed => {
                "the authority must reach this gateway by the name: check its DNS records, and that port \
                 80 (http-01, to listen.http) or 443 (tls-alpn-01, to listen.https) is forwarded"
            }
            Code::CertificateUnusable => "the one before it is served on; it is tried again",
            Code::KeyUnopened => {
                "put the keyring back that the store was sealed with, as data_dir/keyring; if it is lost for \
                 good, start once with encryption.allow_lost_keys=true"
            }
            Code::StoreFailed => {
                "make room on the disk, or the right to write; nothing is ordered before"
            }
            Code::IssuedTooOften => {
                "find out who deletes the certificates from the store; one more is ordered when a week \
                 has passed since the oldest of them"
            }
        }
    }
}

/// What a failure keeps from going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Certificate,
    /// All that is asked of the authority.
    Authority,
}

/// Why there is no certificate yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What has gone wrong.
    pub code: Code,
    /// What was said of it, bounded.
    pub detail: String,
    /// How long the authority asks to be left alone.
    pub(crate) wait: Option<Duration>,
    pub(crate) scope: Scope,
    /// The authority's own word for it, such as `badNonce`; empty where it said none.
    pub(crate) problem: String,
}

impl Failure {
    /// Of one certificate.
    pub(crate) fn new(code: Code, detail: impl fmt::Display) -> Self {
        let detail = bounded(&detail.to_string());
        Self { code, detail, wait: None, scope: Scope::Certificate, problem: String::new() }
    }

    /// Of everything that is asked of the authority.
    pub(crate) fn with_authority_scope(mut self) -> Self {
        self.scope = Scope::Authority;
        self
    }

    /// Whether the authority has forgotten the account.
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

/// What the transport found, on its way through a library that passes errors on unread.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// There is no answer.
    #[error("{0}")]
    NoAnswer(#[from] TransportError),
    /// An answer that says: later.
    #[error("the authority answered {status}{}{detail}", if detail.is_empty() { "" } else { ": " })]
    Later {
        /// 429, or 5xx.
        status: u16,
        /// What it says beside that.
        detail: String,
        /// The authority's own word for it.
        problem: String,
        /// How long to wait, if it says that.
        wait: Option<Duration>,
    },
}

/// Whether the authority did not take the nonce: the request has had no effect (RFC 8555 §6.5).
pub(crate) fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem_name(problem) == "badNonce")
}

/// What an error of the protocol means where `refused` is what the authority may refuse.
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

/// What a problem document says (RFC 7807).
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
        // These come with the verdict on a challenge.
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
            // Limits on orders are of names and sets of names; all others are ours.
            let is_ours = status != 429 || refused != Code::OrderRefused;
            let scope = if is_ours { Scope::Authority } else { Scope::Certificate };
            Failure { wait, scope, problem, ..Failure::new(code, text) }
        }
    }
}

/// The part of a problem's type that tells it from others.
fn problem_name(problem: &Problem) -> &str {
    let name = problem.r#type.as_deref().unwrap_or_default();
    name.strip_prefix(PROBLEM_PREFIX).unwrap_or(name)
}

/// A problem in the authority's words.
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

/// Somebody else's words, cut where they are long, without what moves a terminal's cursor.
pub(crate) fn bounded(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(DETAIL_CHARS_MAX).map(plain).collect()
}
