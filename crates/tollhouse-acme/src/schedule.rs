//! When something is to be done: pure functions of what is known and of the time.

use std::time::Duration;

use tollhouse_stdx::Random;

use crate::certificate::Facts;
use crate::failure::{Code, Failure, Scope};
use crate::records::{CertificateRecord, HoldRecord, LastError, Renewal};

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// Challenges of one name that may fail in any hour: one fewer than Let's Encrypt allows, so that a
/// person who tries by hand has one left.
pub(crate) const CHALLENGES_FAILED_MAX: usize = 4;

/// Certificates of one name that may be issued in any week: one fewer than Let's Encrypt allows.
pub(crate) const ISSUED_MAX: usize = 4;
const ISSUED_WITHIN_S: u64 = 7 * DAY_S;

/// How long to wait after failures in a row, in seconds; the last for all further ones. Six hours still are
/// forty attempts in the third of a certificate's life that is left.
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

/// A wait is lengthened by up to this part of it, so that many gateways do not come at once.
const JITTER: f64 = 0.1;

/// How often an authority is asked for the window of renewal, whatever it says itself: often enough to
/// hear of a recall within a day, not so often that a slip of the authority's pen makes a flood.
const ASK_LEAST_S: u64 = MINUTE_S;
const ASK_MOST_S: u64 = DAY_S;
/// And where it gave no window.
const ASK_AGAIN_S: u64 = 6 * HOUR_S;

/// Without a window, renewal begins at two thirds of the life, earlier by up to this part of it.
const RENEWAL_SPREAD: f64 = 1.0 / 30.0;

/// When all else says later, renewal begins with this part of the life left.
const LAST_PART: u64 = 20;

/// What is to be done for a certificate, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// When the authority is to be asked for the window of renewal; `None` where there is nothing to renew.
    pub(crate) ask_at_s: Option<u64>,
    /// When a certificate is to be ordered.
    pub(crate) order_at_s: u64,
}

impl Due {
    /// The earlier of the two.
    pub(crate) fn first_s(self) -> u64 {
        self.ask_at_s.map_or(self.order_at_s, |ask_at_s| ask_at_s.min(self.order_at_s))
    }
}

/// What is due for a certificate that is served (`facts`) or not.
pub(crate) fn due(record: &CertificateRecord, facts: Option<&Facts>) -> Due {
    let Some(facts) = facts else {
        return Due { ask_at_s: None, order_at_s: record.next_attempt_s };
    };
    let renewal = renewal_of(record, facts);
    // A renewal that has failed waits as any attempt does.
    let last_s = last_moment_s(facts);
    let order_at_s = renewal.map_or(last_s, |it| it.at_s.min(last_s));
    let ask_at_s = renewal.map_or(0, |it| it.ask_at_s);
    Due { ask_at_s: Some(ask_at_s), order_at_s: order_at_s.max(record.next_attempt_s) }
}

/// The renewal of the certificate that is meant, if it has been planned.
pub(crate) fn renewal_of<'r>(record: &'r CertificateRecord, facts: &Facts) -> Option<&'r Renewal> {
    record.renewal.as_ref().filter(|it| it.not_after_s == facts.not_after_s)
}

fn last_moment_s(facts: &Facts) -> u64 {
    facts.not_after_s - life_s(facts) / LAST_PART
}

fn life_s(facts: &Facts) -> u64 {
    facts.not_after_s.saturating_sub(facts.not_before_s)
}

/// Plans the renewal where the authority has suggested a window, and when it wants to be asked again.
pub(crate) fn plan_by_window(
    record: &mut CertificateRecord,
    facts: &Facts,
    answer: WindowAnswer,
    random: &mut Random,
) {
    let WindowAnswer { window_s: (start_s, end_s), wait, now_s } = answer;
    let kept = renewal_of(record, facts).filter(|it| it.window_s.is_some());
    // A time that was drawn is kept while it lies in the window: drawn anew each time, it would drift
    // towards the window's begin.
    let at_s = match kept {
        Some(kept) if (start_s..=end_s).contains(&kept.at_s) => kept.at_s,
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

/// What an authority says of a renewal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowAnswer {
    pub(crate) window_s: (u64, u64),
    /// How long it is not to be asked again.
    pub(crate) wait: Option<Duration>,
    pub(crate) now_s: u64,
}

/// Plans the renewal by the certificate's life, where the authority says nothing. A plan that stands is
/// kept.
pub(crate) fn plan_by_life(
    record: &mut CertificateRecord,
    facts: &Facts,
    ask_after: Option<Duration>,
    (now_s, random): (u64, &mut Random),
) {
    let life_s = life_s(facts);
    let earlier_s = part_of(life_s, RENEWAL_SPREAD * random.unit());
    let by_life_s = facts.not_before_s + life_s / 3 * 2 - earlier_s;
    let kept = renewal_of(record, facts);
    let (at_s, window_s) = kept.map_or((by_life_s, None), |it| (it.at_s, it.window_s));
    let ask_s = ask_after.map_or(ASK_AGAIN_S, |wait| wait.as_secs());
    record.renewal = Some(Renewal {
        not_after_s: facts.not_after_s,
        at_s,
        window_s,
        ask_at_s: now_s + ask_s.clamp(ASK_LEAST_S, ASK_MOST_S.max(ASK_AGAIN_S)),
    });
}

/// Notes that a certificate was issued.
pub(crate) fn note_issued(record: &mut CertificateRecord, now_s: u64) {
    record.failures = 0;
    record.next_attempt_s = 0;
    record.challenges_failed_s.clear();
    record.last_error = None;
    record.renewal = None;
    forget_before(&mut record.issued_s, now_s.saturating_sub(ISSUED_WITHIN_S));
    record.issued_s.push(now_s);
}

/// When one more certificate may be issued for the name, where that is later than now.
pub(crate) fn issued_too_often(record: &CertificateRecord, now_s: u64) -> Option<u64> {
    let oldest = record.issued_s.iter().rev().nth(ISSUED_MAX - 1)?;
    let free_s = oldest + ISSUED_WITHIN_S;
    (free_s > now_s).then_some(free_s)
}

/// Notes a failure, and when the next attempt may be. One that is the authority's leaves the certificate's
/// own waits as they are: the authority is left alone as a whole.
pub(crate) fn note_failure(
    record: &mut CertificateRecord,
    failure: &Failure,
    (now_s, random): (u64, &mut Random),
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

/// Notes a failure of the authority as a whole.
pub(crate) fn note_hold(
    hold: &mut HoldRecord,
    wait: Option<Duration>,
    (now_s, random): (u64, &mut Random),
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
