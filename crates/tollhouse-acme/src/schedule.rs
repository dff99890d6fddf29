//! Scheduling of attempts and renewals: pure functions of the records and the time.

use std::time::Duration;

use tollhouse_stdx::Random;

use crate::certificate::Facts;
use crate::failure::{Code, Failure, Scope};
use crate::records::{CertificateRecord, HoldRecord, LastError, Renewal};

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// Maximum number of failed challenges of one name per hour; one fewer than Let's Encrypt allows,
/// so that a manual attempt is left.
pub(crate) const CHALLENGES_FAILED_MAX: usize = 4;

/// Maximum number of certificates issued for one name per week; one fewer than Let's Encrypt
/// allows.
pub(crate) const ISSUED_MAX: usize = 4;
const ISSUED_WITHIN_S: u64 = 7 * DAY_S;

/// Waits after consecutive failures, in seconds; the last wait repeats. With six hours, a
/// certificate with a lifetime of 30 days still gets forty attempts in its last third.
const WAITS_S: [u64; 8] = [
    MINUTE_S,
    2 * MINUTE_S,
    5 * MINUTE_S,
    10 * MINUTE_S,
    30 * MINUTE_S,
    HOUR_S,
    3 * HOUR_S,
    6 * HOUR_S,
];

/// Maximum random extension of a wait, as a fraction of the wait, so that many gateways do not send
/// requests simultaneously.
const JITTER: f64 = 0.1;

/// Bounds of the interval between requests for the renewal window, in seconds; an interval that the
/// authority asks for is limited to them. The maximum lets the gateway learn of a recall within a
/// day. The minimum prevents a flood of requests if the authority asks for a very short interval.
const ASK_LEAST_S: u64 = MINUTE_S;
const ASK_MOST_S: u64 = DAY_S;
/// Interval between requests for the renewal window in seconds, unless the authority asks for
/// another.
const ASK_AGAIN_S: u64 = 6 * HOUR_S;

/// Maximum random time by which a renewal without a window is earlier, as a fraction of the
/// lifetime. Otherwise such a renewal is due after two thirds of the lifetime.
const RENEWAL_SPREAD: f64 = 1.0 / 30.0;

/// Divisor of the lifetime for the latest start of a renewal: when one twentieth of the lifetime is
/// left.
const LAST_PART: u64 = 20;

/// Times at which the next actions for a certificate are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// Time of the next request to the authority for the renewal window; `None` without a
    /// certificate.
    pub(crate) ask_at_s: Option<u64>,
    pub(crate) order_at_s: u64,
}

impl Due {
    /// Returns the earlier of the two times.
    pub(crate) fn first_s(self) -> u64 {
        self.ask_at_s.map_or(self.order_at_s, |ask_at_s| ask_at_s.min(self.order_at_s))
    }
}

/// Returns the due times for a certificate; `facts` describes the one in service, if there is one.
pub(crate) fn due(record: &CertificateRecord, facts: Option<&Facts>) -> Due {
    let Some(facts) = facts else {
        return Due { ask_at_s: None, order_at_s: record.next_attempt_s };
    };
    let renewal = renewal_of(record, facts);
    // After a failed renewal, the next attempt is due after the usual wait, not at the planned
    // time.
    let last_s = last_moment_s(facts);
    let order_at_s = renewal.map_or(last_s, |it| it.at_s.min(last_s));
    let ask_at_s = renewal.map_or(0, |it| it.ask_at_s);
    Due { ask_at_s: Some(ask_at_s), order_at_s: order_at_s.max(record.next_attempt_s) }
}

/// Returns the planned renewal, if the plan is for the certificate that `facts` describes.
pub(crate) fn renewal_of<'r>(record: &'r CertificateRecord, facts: &Facts) -> Option<&'r Renewal> {
    record.renewal.as_ref().filter(|it| it.not_after_s == facts.not_after_s)
}

fn last_moment_s(facts: &Facts) -> u64 {
    facts.not_after_s - life_s(facts) / LAST_PART
}

fn life_s(facts: &Facts) -> u64 {
    facts.not_after_s.saturating_sub(facts.not_before_s)
}

/// Plans the renewal at a random time within the window suggested by the authority, and the next
/// request for the window.
pub(crate) fn plan_by_window(
    record: &mut CertificateRecord,
    facts: &Facts,
    answer: WindowAnswer,
    random: &mut Random,
) {
    let WindowAnswer { window_s: (start_s, end_s), wait, now_s } = answer;
    let previous = renewal_of(record, facts).filter(|it| it.window_s.is_some());
    // A time drawn earlier is kept while it is inside the window. Drawing again each time would
    // move it towards the start of the window.
    let at_s = match previous {
        Some(previous) if (start_s..=end_s).contains(&previous.at_s) => previous.at_s,
        _ => start_s + part_of(end_s.saturating_sub(start_s), random.unit()),
    };
    let wait_s = wait.map_or(ASK_AGAIN_S, |wait| wait.as_secs());
    record.renewal = Some(Renewal {
        not_after_s: facts.not_after_s,
        at_s,
        window_s: Some((start_s, end_s)),
        ask_at_s: now_s + wait_s.clamp(ASK_LEAST_S, ASK_MOST_S),
    });
}

/// Renewal window that the authority suggests (ACME Renewal Information, RFC 9773).
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowAnswer {
    pub(crate) window_s: (u64, u64),
    /// Wait that the authority asks for before the next request for the window.
    pub(crate) wait: Option<Duration>,
    pub(crate) now_s: u64,
}

/// The authority returned no renewal window: it supports none, or did not answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoWindow {
    /// Wait before the next request for the window; `None` for the default.
    pub(crate) wait: Option<Duration>,
    pub(crate) now_s: u64,
}

/// Plans the renewal by the certificate's lifetime, if the authority suggests no window. An
/// existing plan is kept.
pub(crate) fn plan_by_life(
    record: &mut CertificateRecord,
    facts: &Facts,
    answer: NoWindow,
    random: &mut Random,
) {
    let NoWindow { wait, now_s } = answer;
    let life_s = life_s(facts);
    let earlier_s = part_of(life_s, RENEWAL_SPREAD * random.unit());
    let by_life_s = facts.not_before_s + life_s / 3 * 2 - earlier_s;
    let previous = renewal_of(record, facts);
    let (at_s, window_s) = previous.map_or((by_life_s, None), |it| (it.at_s, it.window_s));
    let ask_s = wait.map_or(ASK_AGAIN_S, |wait| wait.as_secs());
    record.renewal = Some(Renewal {
        not_after_s: facts.not_after_s,
        at_s,
        window_s,
        ask_at_s: now_s + ask_s.clamp(ASK_LEAST_S, ASK_MOST_S.max(ASK_AGAIN_S)),
    });
}

/// Updates the record after a certificate was issued.
pub(crate) fn note_issued(record: &mut CertificateRecord, now_s: u64) {
    record.failures = 0;
    record.next_attempt_s = 0;
    record.challenges_failed_s.clear();
    record.last_error = None;
    record.renewal = None;
    forget_before(&mut record.issued_s, now_s.saturating_sub(ISSUED_WITHIN_S));
    record.issued_s.push(now_s);
}

/// Returns the time at which another certificate may be ordered for the name; `None` if it may be
/// ordered now.
pub(crate) fn issued_too_often(record: &CertificateRecord, now_s: u64) -> Option<u64> {
    let oldest = record.issued_s.iter().rev().nth(ISSUED_MAX - 1)?;
    let free_s = oldest + ISSUED_WITHIN_S;
    (free_s > now_s).then_some(free_s)
}

/// Updates the record after a failure and sets the time of the next attempt. A failure of the
/// authority does not change the waits of the certificate, because all requests to the authority
/// are suspended.
pub(crate) fn note_failure(
    record: &mut CertificateRecord,
    failure: &Failure,
    now_s: u64,
    random: &mut Random,
) {
    let Failure { code, detail, wait, scope, .. } = failure;
    record.last_error = Some(LastError { code: *code, detail: detail.clone(), at_s: now_s });
    if *scope == Scope::Authority {
        return;
    }
    record.failures = record.failures.saturating_add(1);
    let wait_s = wait.map_or_else(|| wait_s(record.failures), |wait| wait.as_secs());
    record.next_attempt_s = now_s + lengthened(wait_s, random);
    if *code == Code::ChallengeFailed {
        forget_before(&mut record.challenges_failed_s, now_s.saturating_sub(HOUR_S));
        record.challenges_failed_s.push(now_s);
    }
    let first_of_max = record.challenges_failed_s.iter().rev().nth(CHALLENGES_FAILED_MAX - 1);
    if let Some(failed_s) = first_of_max {
        let free_s = failed_s + HOUR_S + lengthened(MINUTE_S, random);
        record.next_attempt_s = record.next_attempt_s.max(free_s);
    }
}

/// Extends the period in which no request is sent to the authority, after a failure of the
/// authority.
pub(crate) fn note_hold(
    hold: &mut HoldRecord,
    wait: Option<Duration>,
    now_s: u64,
    random: &mut Random,
) {
    hold.failures = hold.failures.saturating_add(1);
    let wait_s = wait.map_or_else(|| wait_s(hold.failures), |wait| wait.as_secs());
    hold.until_s = hold.until_s.max(now_s + lengthened(wait_s, random));
}

fn wait_s(failures: u32) -> u64 {
    let index = usize::try_from(failures.max(1) - 1).unwrap_or(usize::MAX);
    WAITS_S[index.min(WAITS_S.len() - 1)]
}

fn lengthened(wait_s: u64, random: &mut Random) -> u64 {
    wait_s + part_of(wait_s, JITTER * random.unit()) + 1
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part between 0 and 1 of a time of some years"
)]
fn part_of(whole_s: u64, part: f64) -> u64 {
    (whole_s as f64 * part) as u64
}

fn forget_before(times_s: &mut Vec<u64>, first_s: u64) {
    times_s.retain(|time_s| *time_s >= first_s);
}

#[cfg(test)]
mod tests;
