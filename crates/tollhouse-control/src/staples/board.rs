//! State and schedule of OCSP staples. Time is an argument, and no query is sent from here.
//!
//! An answer is requested at once, and again at half of its validity. After failures, the interval
//! between attempts grows; a valid staple is used until it expires. An answer other than "good"
//! removes the staple at once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use tollhouse_model::certificate::requires_staple;
use tollhouse_model::certificate::status::{
    CertificateStatus, StatusAnswer, StatusError, StatusQuestion,
};
use tollhouse_net::server_tls::{Identity, Staple};
use tollhouse_stdx::random::Random;

use super::FetchResult;
use super::folder::Fingerprint;

/// Maximum number of concurrent queries to responders.
const ASKED_AT_ONCE_MAX: usize = 8;

/// Maximum interval between queries for one certificate, so that a revocation is noticed.
const REFRESH_MAX_S: i64 = 24 * 3600;

/// Shortest interval, for answers that expire soon.
const REFRESH_MIN_S: i64 = 5 * 60;

/// Wait after the first failure; doubled after each further one.
const RETRY_FIRST_S: i64 = 60;

/// Maximum wait after a failed query; also the wait after an answer other than "good".
const RETRY_MAX_S: i64 = 3600;

/// Limit of an error text in characters, because a responder URL may be as long as a certificate.
const DETAIL_CHARS_MAX: usize = 300;

/// A host whose certificates are served.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostCertificates<'a> {
    pub ssl: &'a str,
    pub names: &'a [String],
    pub identities: &'a [Arc<Identity>],
    /// OCSP answers that the object contains.
    pub given: &'a [Arc<[u8]>],
}

/// Certificate of an `ssls` object, as key of its state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    ssl: Arc<str>,
    certificate: Fingerprint,
}

/// Query to a responder that is due.
#[derive(Debug)]
pub(super) struct StatusQuery {
    key: Key,
    /// Prepared OCSP request, with the URL of the responder.
    pub question: Arc<StatusQuestion>,
}

impl StatusQuery {
    /// Returns the id of the object that has the certificate.
    pub(super) fn ssl(&self) -> &str {
        &self.key.ssl
    }

    pub(super) fn certificate(&self) -> &Fingerprint {
        &self.key.certificate
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StapleState {
    Stapled,
    /// A staple is served, but the last attempt to renew it failed.
    RenewalFailing,
    /// The certificate has no staple yet; a query is pending.
    Asking,
    /// The certificate has no staple, and the last attempt failed.
    Failing,
    /// The responder reports the certificate as revoked.
    Revoked,
    /// The certificate has no staple, because it names no responder and the object contains no
    /// answer.
    None,
}

/// State of a certificate's staple, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StapleView {
    pub ssl: String,
    pub names: Vec<String>,
    /// Whether the certificate requires a staple (OCSP must-staple), so that checking clients
    /// refuse it without one.
    pub required: bool,
    pub responder: Option<String>,
    pub state: StapleState,
    /// Start of the staple's validity, in Unix time.
    pub since: Option<i64>,
    /// End of the staple's validity, in Unix time.
    pub until: Option<i64>,
    /// Time of the next query, in Unix time.
    pub next_attempt: Option<i64>,
    /// Error of the last failed attempt.
    pub last_error: Option<FailureView>,
}

/// Why a staple is missing or could not be renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureView {
    /// Code of the failure; does not change between releases.
    pub code: &'static str,
    pub detail: String,
    pub remedy: &'static str,
    /// Time of the failure, in Unix time.
    pub at: i64,
}

/// A failure that was just recorded.
#[derive(Debug)]
pub(super) struct FailureReport {
    pub code: &'static str,
    pub detail: String,
    /// Whether the previous attempt succeeded or failed with another code.
    pub is_first: bool,
    /// Whether clients that check refuse the certificate, because a required staple is missing.
    pub is_refused: bool,
}

#[derive(Debug)]
struct Entry {
    names: Vec<String>,
    /// Certificate as used in handshakes; receives the staple.
    identity: Arc<Identity>,
    question: Result<Arc<StatusQuestion>, StatusError>,
    held: Option<ActiveStaple>,
    failure: Option<FailureView>,
    /// Number of failures in a row.
    failures: u32,
    is_revoked: bool,
    /// Time of the next query; `None` while one is pending or without a responder.
    due_unix_s: Option<i64>,
}

/// Staple that is sent to clients.
#[derive(Debug, Clone)]
struct ActiveStaple {
    staple: Staple,
    since_unix_s: i64,
}

/// State of the staples of all certificates in service.
#[derive(Debug)]
pub(super) struct Board {
    entries: HashMap<Key, Entry>,
    due: BTreeSet<(i64, Key)>,
    asked: usize,
    random: Random,
}

impl Board {
    pub(super) fn new(random: Random) -> Self {
        Self { entries: HashMap::new(), due: BTreeSet::new(), asked: 0, random }
    }

    /// Replaces the set of served certificates. Certificates that remain keep their staples. For
    /// new ones, `recall` may return a stored answer. Staples are attached when this returns.
    /// Returns whether a certificate was removed.
    pub(super) fn serve<'a>(
        &mut self,
        served: impl Iterator<Item = HostCertificates<'a>>,
        recall: impl Fn(&Fingerprint) -> Option<Vec<u8>>,
        now: i64,
    ) -> bool {
        let mut before = std::mem::take(&mut self.entries);
        for host in served {
            let ssl: Arc<str> = host.ssl.into();
            for identity in host.identities {
                let key = Key { ssl: Arc::clone(&ssl), certificate: *identity.fingerprint() };
                let entry = match before.remove(&key) {
                    Some(entry) => {
                        if let Some(due) = entry.due_unix_s {
                            self.due.remove(&(due, key.clone()));
                        }
                        entry.moved_to(identity, host, now)
                    }
                    None => Entry::new(identity, host, now).with_kept(&recall, now),
                };
                let entry = entry.with_given(host.given, now);
                if let Some(due) = entry.due_unix_s {
                    self.due.insert((due, key.clone()));
                }
                self.entries.insert(key, entry);
            }
        }
        let has_less = !before.is_empty();
        for (key, gone) in before {
            if let Some(due) = gone.due_unix_s {
                self.due.remove(&(due, key));
            }
        }
        has_less
    }

    pub(super) fn certificates(&self) -> Vec<Fingerprint> {
        self.entries.keys().map(|key| key.certificate).collect()
    }

    /// Returns the OCSP answer in use for the query's certificate, if any.
    pub(super) fn held(&self, asked: &StatusQuery) -> Option<Arc<[u8]>> {
        let active = self.entries.get(&asked.key)?.held.as_ref()?;
        Some(Arc::clone(&active.staple.answer))
    }

    /// Takes the queries that are due, within the limit of concurrent queries.
    pub(super) fn ask(&mut self, now: i64) -> Vec<StatusQuery> {
        let mut queries = Vec::new();
        while self.asked < ASKED_AT_ONCE_MAX {
            let Some((due, key)) = self.due.pop_first() else { break };
            if due > now {
                self.due.insert((due, key));
                break;
            }
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.due_unix_s = None;
            if let Ok(question) = &entry.question {
                self.asked += 1;
                queries.push(StatusQuery { key, question: Arc::clone(question) });
            }
        }
        queries
    }

    /// Records the result of a query.
    ///
    /// # Errors
    /// Returns the failure if the result gives no valid staple.
    pub(super) fn answer(
        &mut self,
        asked: &StatusQuery,
        fetched: FetchResult,
        now: i64,
    ) -> Result<(), FailureReport> {
        self.asked = self.asked.saturating_sub(1);
        // The certificate is no longer served.
        let Some(entry) = self.entries.get_mut(&asked.key) else { return Ok(()) };
        let outcome = entry.take(&asked.question, fetched, now);
        let due = match &outcome {
            Ok(answer) => next_refresh(*answer, now),
            Err(_) => now + entry.retry_s(),
        };
        // Randomised, so that certificates that were added together are not queried together
        // forever.
        let spread = u32::try_from((due - now) / 10).unwrap_or(u32::MAX).max(1);
        let due = due - i64::from(self.random.below(spread));
        if let Some(before) = entry.due_unix_s.replace(due) {
            self.due.remove(&(before, asked.key.clone()));
        }
        self.due.insert((due, asked.key.clone()));
        outcome.map(|_| ())
    }

    /// Returns the time of the next due query; `None` while the limit of concurrent queries is
    /// reached.
    pub(super) fn next_look(&self) -> Option<i64> {
        let may_ask = self.asked < ASKED_AT_ONCE_MAX;
        self.due.first().filter(|_| may_ask).map(|(due, _)| *due)
    }

    /// Returns the number of certificates with a valid staple.
    pub(super) fn stapled(&self, now: i64) -> usize {
        self.entries.values().filter(|entry| entry.held_at(now).is_some()).count()
    }

    /// Returns the state of all certificates, sorted by object.
    pub(super) fn report(&self, now: i64) -> Vec<StapleView> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        entries.into_iter().map(|(key, entry)| entry.view(&key.ssl, now)).collect()
    }
}

impl Entry {
    fn new(identity: &Arc<Identity>, host: HostCertificates<'_>, now: i64) -> Self {
        let question = match identity.chain() {
            [own, issuer, ..] => StatusQuestion::from_pair(own, issuer).map(Arc::new),
            [..] => Err(StatusError::NoIssuer),
        };
        let can_ask = question.as_ref().is_ok_and(|question| question.responder().is_some());
        Self {
            names: host.names.to_vec(),
            identity: Arc::clone(identity),
            question,
            held: None,
            failure: None,
            failures: 0,
            is_revoked: false,
            due_unix_s: can_ask.then_some(now),
        }
    }

    /// Uses a stored answer if it is still valid; the next query then waits until the answer is due
    /// for renewal.
    fn with_kept(mut self, recall: &impl Fn(&Fingerprint) -> Option<Vec<u8>>, now: i64) -> Self {
        let Ok(question) = self.question.clone() else { return self };
        // Without a responder, no answer can be stored.
        if self.due_unix_s.is_none() {
            return self;
        }
        let Some(answer) = recall(self.identity.fingerprint()) else { return self };
        if let Ok(read) = question.read(&answer, now)
            && read.status == CertificateStatus::Good
        {
            self.hold(answer.into(), read);
            self.due_unix_s = Some(next_refresh(read, now));
        }
        self
    }

    /// Attaches the state to a new identity for the same certificate, because its object was
    /// written again. The operator may have fixed the cause of failures, so that a waiting retry
    /// becomes due at once.
    fn moved_to(mut self, identity: &Arc<Identity>, host: HostCertificates<'_>, now: i64) -> Self {
        if !Arc::ptr_eq(&self.identity, identity) {
            self.identity = Arc::clone(identity);
            identity.set_staple(self.held.as_ref().map(|held| &held.staple));
            if self.failure.is_some() && self.due_unix_s.is_some() {
                self.failures = 0;
                self.due_unix_s = Some(now);
            }
        }
        self.names = host.names.to_vec();
        self
    }

    /// Uses the answer of `given` for this certificate that is valid longest, if it outlasts the
    /// current one.
    fn with_given(mut self, given: &[Arc<[u8]>], now: i64) -> Self {
        let Ok(question) = self.question.clone() else { return self };
        for answer in given {
            let Ok(read) = question.read(answer, now) else { continue };
            let lasts_longer =
                self.held.as_ref().is_none_or(|held| read.until_unix_s > held.staple.until_unix_s);
            if read.status == CertificateStatus::Good && lasts_longer && !self.is_revoked {
                self.hold(Arc::clone(answer), read);
            }
        }
        self
    }

    fn hold(&mut self, answer: Arc<[u8]>, read: StatusAnswer) {
        let staple = Staple { answer, until_unix_s: read.until_unix_s };
        self.identity.set_staple(Some(&staple));
        self.held = Some(ActiveStaple { staple, since_unix_s: read.since_unix_s });
    }

    /// Uses the result of a query, or records the failure.
    fn take(
        &mut self,
        question: &StatusQuestion,
        fetched: FetchResult,
        now: i64,
    ) -> Result<StatusAnswer, FailureReport> {
        let read = fetched.map_err(|detail| ("ocsp_unreachable", detail)).and_then(|answer| {
            let read = question.read(&answer, now);
            let read = read.map_err(|error| (code_of(&error), error.to_string()))?;
            Ok((answer, read))
        });
        let (code, detail) = match read {
            Ok((answer, read)) if read.status == CertificateStatus::Good => {
                self.hold(answer.into(), read);
                self.failure = None;
                self.failures = 0;
                self.is_revoked = false;
                return Ok(read);
            }
            Ok((_, read)) => {
                // The authority no longer vouches for the certificate, so that an earlier staple is
                // removed.
                self.held = None;
                self.identity.set_staple(None);
                self.is_revoked = read.status == CertificateStatus::Revoked;
                match self.is_revoked {
                    true => ("ocsp_revoked", "the certificate is revoked".to_owned()),
                    false => ("ocsp_unknown", "the responder does not know it".to_owned()),
                }
            }
            Err(failure) => failure,
        };
        let detail = shortened(detail);
        let is_first = self.failure.as_ref().is_none_or(|before| before.code != code);
        self.failures = self.failures.saturating_add(1);
        let remedy = remedy(code);
        self.failure = Some(FailureView { code, detail: detail.clone(), remedy, at: now });
        let is_refused = self.held_at(now).is_none() && self.is_required();
        Err(FailureReport { code, detail, is_first, is_refused })
    }

    /// Returns the delay before the next attempt, in seconds.
    fn retry_s(&self) -> i64 {
        let says_nothing_good = self
            .failure
            .as_ref()
            .is_some_and(|failure| matches!(failure.code, "ocsp_revoked" | "ocsp_unknown"));
        if says_nothing_good {
            return RETRY_MAX_S;
        }
        let doublings = self.failures.saturating_sub(1).min(10);
        (RETRY_FIRST_S << doublings).min(RETRY_MAX_S)
    }

    fn is_required(&self) -> bool {
        self.identity.chain().first().is_some_and(|own| requires_staple(own))
    }

    /// Returns the staple, unless it has expired by `now`.
    fn held_at(&self, now: i64) -> Option<&ActiveStaple> {
        self.held.as_ref().filter(|held| now < held.staple.until_unix_s)
    }

    fn view(&self, ssl: &str, now: i64) -> StapleView {
        let responder = self.question.as_ref().ok().and_then(|question| question.responder());
        let shown = self.held_at(now);
        let own = self.question.as_ref().err();
        let failure = self.failure.clone().or(own.map(|error| {
            let (code, detail) = (code_of(error), error.to_string());
            FailureView { code, detail, remedy: remedy(code), at: now }
        }));
        let state = match (shown, &self.failure) {
            // Revocation takes precedence over any staple.
            _ if self.is_revoked => StapleState::Revoked,
            (Some(_), None) => StapleState::Stapled,
            (Some(_), Some(_)) => StapleState::RenewalFailing,
            (None, Some(_)) => StapleState::Failing,
            (None, None) if responder.is_some() => StapleState::Asking,
            (None, None) => StapleState::None,
        };
        StapleView {
            ssl: ssl.to_owned(),
            names: self.names.clone(),
            required: self.is_required(),
            responder: responder.map(|responder| shortened(responder.to_owned())),
            state,
            since: shown.map(|held| held.since_unix_s),
            until: shown.map(|held| held.staple.until_unix_s),
            next_attempt: self.due_unix_s,
            last_error: failure,
        }
    }
}

/// Returns the time of the next renewal: at half of the validity, but between the shortest and the
/// longest interval.
fn next_refresh(answer: StatusAnswer, now: i64) -> i64 {
    let half = answer.since_unix_s + (answer.until_unix_s - answer.since_unix_s) / 2;
    half.clamp(now + REFRESH_MIN_S, now + REFRESH_MAX_S)
}

fn code_of(error: &StatusError) -> &'static str {
    match error {
        StatusError::NoIssuer | StatusError::Unreadable => "ocsp_no_issuer",
        StatusError::Malformed(_) => "ocsp_answer_malformed",
        StatusError::Refused(_) => "ocsp_refused",
        StatusError::OtherCertificate => "ocsp_other_certificate",
        StatusError::Untrusted => "ocsp_untrusted",
        StatusError::NotYet | StatusError::Expired => "ocsp_out_of_date",
    }
}

fn remedy(code: &str) -> &'static str {
    match code {
        "ocsp_no_issuer" => {
            "append the issuer's certificate to the chain, so that its responder can be asked"
        }
        "ocsp_unreachable" => {
            "let this machine reach the responder over plain HTTP, or set tls.ocsp_stapling to false"
        }
        "ocsp_revoked" => {
            "get a new certificate; clients that ask are told that this one is revoked"
        }
        "ocsp_unknown" => {
            "ask the authority; a certificate that was just issued is known after a while"
        }
        "ocsp_out_of_date" => "compare this machine's clock; else ask the authority",
        _ => "ask the certificate authority, or the operator of a proxy in between",
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
