//! Which staples there are, which are due, and why one is missing. Time is an argument, and nobody is asked
//! from here.
//!
//! A staple is asked for at once, again at half of its time, and, where that fails, less and less often; the
//! one that is there is shown until its end. An answer that says nothing good takes it away at once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use tollhouse_model::certificate::requires_staple;
use tollhouse_model::certificate::status::{
    CertificateStatus, StatusAnswer, StatusError, StatusQuestion,
};
use tollhouse_net::server_tls::{Identity, Staple};
use tollhouse_stdx::random::Random;

use super::Fetched;
use super::kept::Fingerprint;

/// Responders that are asked at a time.
const ASKED_AT_ONCE_MAX: usize = 8;

/// The longest between two questions about a certificate: what has been revoked is not shown as good for
/// longer than it must.
const REFRESH_MAX_S: i64 = 24 * 3600;

/// The shortest, where an answer ends soon.
const REFRESH_MIN_S: i64 = 5 * 60;

/// The wait behind a first failure; it doubles with each further one.
const RETRY_FIRST_S: i64 = 60;

/// The longest such wait, which is also that behind an answer that says nothing good.
const RETRY_MAX_S: i64 = 3600;

/// Characters of what is told of a failure: a responder's address may be as long as a certificate.
const DETAIL_CHARS_MAX: usize = 300;

/// A host that clients are shown certificates of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served<'a> {
    /// The id of its object.
    pub ssl: &'a str,
    /// The names that it is for.
    pub names: &'a [String],
    /// Its certificates.
    pub identities: &'a [Arc<Identity>],
    /// What its object has of answers.
    pub given: &'a [Arc<[u8]>],
}

/// A certificate of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    ssl: Arc<str>,
    certificate: Fingerprint,
}

/// A question that is due.
#[derive(Debug)]
pub(super) struct Asked {
    key: Key,
    /// What is to be asked, and whom.
    pub question: Arc<StatusQuestion>,
}

impl Asked {
    /// The object whose certificate it is about.
    pub(super) fn ssl(&self) -> &str {
        &self.key.ssl
    }

    /// The certificate.
    pub(super) fn certificate(&self) -> &Fingerprint {
        &self.key.certificate
    }
}

/// How a staple stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StapleState {
    /// It is shown.
    Stapled,
    /// It is shown, and the last attempt to get a newer one has failed.
    RenewalFailing,
    /// There is none yet; it is being got.
    Asking,
    /// There is none, and the last attempt to get one has failed.
    Failing,
    /// The responder says that the certificate is revoked.
    Revoked,
    /// The certificate names nobody who could be asked, and none is given.
    None,
}

/// A certificate's staple, for people and tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StapleView {
    /// The id of the object.
    pub ssl: String,
    /// The names that the object is for.
    pub names: Vec<String>,
    /// Whether clients that check revocation refuse the certificate without a staple (OCSP must-staple).
    pub required: bool,
    /// Who is asked.
    pub responder: Option<String>,
    /// How it stands.
    pub state: StapleState,
    /// Since when what is shown is so, in Unix time.
    pub since: Option<i64>,
    /// Until when it holds.
    pub until: Option<i64>,
    /// When the responder is asked next.
    pub next_attempt: Option<i64>,
    /// Why the last attempt has failed.
    pub last_error: Option<FailureView>,
}

/// Why there is no staple, or no newer one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureView {
    /// A stable code.
    pub code: &'static str,
    /// What happened.
    pub detail: String,
    /// What helps.
    pub remedy: &'static str,
    /// When, in Unix time.
    pub at: i64,
}

/// A failure that has just been noted.
#[derive(Debug)]
pub(super) struct Noted {
    pub code: &'static str,
    pub detail: String,
    /// Whether the attempt before it had none, or another one.
    pub is_first: bool,
    /// Whether clients that check revocation refuse the certificate until a staple is there.
    pub is_refused: bool,
}

/// What is known of one certificate.
#[derive(Debug)]
struct Entry {
    names: Vec<String>,
    /// What shows it.
    identity: Arc<Identity>,
    question: Result<Arc<StatusQuestion>, StatusError>,
    held: Option<Held>,
    failure: Option<FailureView>,
    /// How many attempts in a row have failed.
    failures: u32,
    is_revoked: bool,
    /// When it is asked for next; nothing while it is, or where nobody can be asked.
    due_unix_s: Option<i64>,
}

/// A staple that is shown.
#[derive(Debug, Clone)]
struct Held {
    staple: Staple,
    since_unix_s: i64,
}

/// See the module.
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

    /// Replaces what is served. What is known of certificates that go on being served is kept, and shown
    /// with them when this returns; what is not known is recalled, if `recall` has kept an answer about it.
    /// Says whether anything is served no more.
    pub(super) fn serve<'a>(
        &mut self,
        served: impl Iterator<Item = Served<'a>>,
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

    /// The certificates that are served.
    pub(super) fn certificates(&self) -> Vec<Fingerprint> {
        self.entries.keys().map(|key| key.certificate).collect()
    }

    /// What is shown with the certificate that a question is about.
    pub(super) fn held(&self, asked: &Asked) -> Option<Arc<[u8]>> {
        let held = self.entries.get(&asked.key)?.held.as_ref()?;
        Some(Arc::clone(&held.staple.answer))
    }

    /// The questions that are due, no more at a time than may be asked at once.
    pub(super) fn ask(&mut self, now: i64) -> Vec<Asked> {
        let mut asked = Vec::new();
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
                asked.push(Asked { key, question: Arc::clone(question) });
            }
        }
        asked
    }

    /// Takes in what came of a question.
    ///
    /// # Errors
    /// Nothing that could be shown.
    pub(super) fn answer(
        &mut self,
        asked: &Asked,
        fetched: Fetched,
        now: i64,
    ) -> Result<(), Noted> {
        self.asked = self.asked.saturating_sub(1);
        // One that is not served any more is nobody's failure.
        let Some(entry) = self.entries.get_mut(&asked.key) else { return Ok(()) };
        let taken = entry.take(&asked.question, fetched, now);
        let due = match &taken {
            Ok(answer) => next_refresh(*answer, now),
            Err(_) => now + entry.retry_s(),
        };
        // Spread, so that what was served together is not asked for together for ever.
        let spread = u32::try_from((due - now) / 10).unwrap_or(u32::MAX).max(1);
        let due = due - i64::from(self.random.below(spread));
        if let Some(before) = entry.due_unix_s.replace(due) {
            self.due.remove(&(before, asked.key.clone()));
        }
        self.due.insert((due, asked.key.clone()));
        taken.map(|_| ())
    }

    /// When something is due next; nothing while as many are asked as may be.
    pub(super) fn next_look(&self) -> Option<i64> {
        let may_ask = self.asked < ASKED_AT_ONCE_MAX;
        self.due.first().filter(|_| may_ask).map(|(due, _)| *due)
    }

    /// How many certificates are shown with a staple.
    pub(super) fn stapled(&self, now: i64) -> usize {
        self.entries.values().filter(|entry| entry.held_at(now).is_some()).count()
    }

    /// How every certificate stands, in the order of their objects.
    pub(super) fn report(&self, now: i64) -> Vec<StapleView> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        entries.into_iter().map(|(key, entry)| entry.view(&key.ssl, now)).collect()
    }
}

impl Entry {
    fn new(identity: &Arc<Identity>, host: Served<'_>, now: i64) -> Self {
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

    /// With what was kept of it by a process before, if that still holds; then nobody is asked before it is time.
    fn with_kept(mut self, recall: &impl Fn(&Fingerprint) -> Option<Vec<u8>>, now: i64) -> Self {
        let Ok(question) = self.question.clone() else { return self };
        // Nobody has answered about it who could not be asked.
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

    /// The same where another object of the session layer shows the certificate from now on, because its object was
    /// written. The operator may have repaired what failed, so
    /// that the wait behind failures ends.
    fn moved_to(mut self, identity: &Arc<Identity>, host: Served<'_>, now: i64) -> Self {
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

    /// With whatever of `given` is about it and lasts longer than what it has.
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
        self.held = Some(Held { staple, since_unix_s: read.since_unix_s });
    }

    /// Shows what came, or notes why nothing did.
    fn take(
        &mut self,
        question: &StatusQuestion,
        fetched: Fetched,
        now: i64,
    ) -> Result<StatusAnswer, Noted> {
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
                // Whatever was shown until now, the authority stands behind it no more.
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
        Err(Noted { code, detail, is_first, is_refused })
    }

    /// How long to wait behind the failures so far.
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

    /// What is shown at `now`.
    fn held_at(&self, now: i64) -> Option<&Held> {
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
            // Revoked outweighs the rest: no answer that is still held makes it good.
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

/// When a newer answer is asked for: at half of its time, but within a day, and not at once again.
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
            "put the certificate of its issuer behind it, where responders should be asked"
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
        _ => "ask the authority, or whoever stands between",
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
