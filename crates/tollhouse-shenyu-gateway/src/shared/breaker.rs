//! Circuit breaker shared by `hystrix`, `sentinel` and `resilience4j`: the settings of a rule, and
//! the state that admits or refuses calls. The caller passes the time in. Every admitted call
//! counts until it [ends](Breaker::end).

use std::collections::VecDeque;

use serde::Deserialize;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::lenient;

/// Maximum length of a window, in calls or seconds. It bounds the memory of a breaker's state.
pub(crate) const WINDOW_MAX: u64 = 10_000;

/// Rule of any of the three plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerRule {
    pub(crate) circuit: Option<Circuit>,
    pub(crate) flow: Option<Flow>,
    /// Maximum number of concurrent calls; `None` for no limit.
    pub(crate) open_calls_max: Option<u64>,
    /// Timeout of a call in milliseconds.
    pub time_max_ms: Option<u64>,
    /// Responses of nodes that count as failures.
    pub(crate) failures: Failures,
    pub(crate) refusals: Refusals,
    pub(crate) fallback: Fallback,
    pub(crate) on_failure: Option<FailedCall>,
}

/// Answers to calls that a node did not answer, for rules without a fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedCall {
    /// Answer to a call that timed out.
    pub late: Answer,
    /// Answer to a call that failed otherwise.
    pub broken: Answer,
}

/// Answers of `hystrix` and `resilience4j`.
pub(crate) const FAILED_CALL: FailedCall =
    FailedCall { late: Answer::BreakerTimeout, broken: Answer::BreakerOpen };

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Circuit {
    pub(crate) window: Window,
    pub(crate) calls_min: u64,
    pub(crate) trips: Trips,
    pub(crate) open_ms: u64,
    /// Number of trial calls once the open time has passed.
    pub(crate) probes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Window {
    Calls(u64),
    Seconds(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Trips {
    /// The circuit opens when the share of failures reaches this limit, from 0 to 1.
    FailureRatio(f64),
    /// The circuit opens when the share of failures exceeds this limit, from 0 to 1.
    FailureRatioAbove(f64),
    /// The circuit opens when the number of failures exceeds this limit.
    FailureCountAbove(u64),
    /// The circuit opens when the share of slow calls exceeds `ratio`.
    SlowRatioAbove { slower_than_ms: u64, ratio: f64 },
}

/// Rate limit: a number of calls per period.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flow {
    pub(crate) calls: u64,
    pub(crate) period_ms: u64,
    /// Maximum time in milliseconds that a call waits until a later period admits it; a call that
    /// would wait longer is refused.
    pub(crate) wait_max_ms: u64,
    /// Whether waiting calls are spread evenly over the period.
    pub(crate) is_paced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failures {
    /// No response, or a status of 500 and above.
    Errors,
    /// No response, or a status other than 200 to 299.
    AllButSuccess,
}

/// Answers to refused calls, for rules without a fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusals {
    pub(crate) flow: Answer,
    pub(crate) circuit: Answer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// The client gets the plugin's answer.
    None,
    /// The request runs through the gateway again with this path.
    Inside(String),
    /// The client is redirected to this location.
    Elsewhere(String),
}

impl Fallback {
    pub(crate) fn read(text: &str) -> Self {
        let text = text.trim();
        match text.strip_prefix("fallback:") {
            _ if text.is_empty() => Self::None,
            Some(path) if path.starts_with('/') => Self::Inside(path.to_owned()),
            Some(path) => Self::Inside(format!("/{path}")),
            None => Self::Elsewhere(text.to_owned()),
        }
    }
}

/// Text member that distinguishes absence (`None`) from `null` (empty text).
#[derive(Debug, Default)]
pub(crate) struct Absent(Option<String>);

impl<'de> Deserialize<'de> for Absent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::or_default(deserializer).map(|text| Self(Some(text)))
    }
}

impl Absent {
    pub(crate) fn or<'a>(&'a self, default: &'a str) -> &'a str {
        self.0.as_deref().unwrap_or(default)
    }
}

/// Returns the number, or the default unless it is above 0, as ShenYu does.
pub(crate) fn positive(number: Option<i64>, default: u64) -> u64 {
    number.and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0).unwrap_or(default)
}

pub(crate) fn fraction(text: Option<&str>, default: f64) -> f64 {
    let number = text.and_then(|text| text.trim().parse().ok());
    number.filter(|it: &f64| it.is_finite() && *it > 0.0).unwrap_or(default)
}

impl BreakerRule {
    pub fn fallback(&self) -> &Fallback {
        &self.fallback
    }

    /// Returns the answers to calls that a node did not answer; `None` leaves them to the proxy.
    pub fn on_failure(&self) -> Option<FailedCall> {
        self.on_failure
    }

    /// Whether a call with this response status, or `None` without a response, counts as failed.
    pub fn is_failure(&self, status: Option<u16>) -> bool {
        match self.failures {
            Failures::Errors => status.is_none_or(|status| status >= 500),
            Failures::AllButSuccess => !status.is_some_and(|status| (200..300).contains(&status)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Admission of a call, with the wait before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Time to wait before the call, in milliseconds.
    pub wait_ms: u64,
    /// Number of the opening that this trial call belongs to, if it is one.
    probe: Option<u64>,
}

/// Outcome of an admitted call, reported when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Done {
        /// Whether the call failed, as [`BreakerRule::is_failure`] defines.
        failed: bool,
        /// Duration of the call in milliseconds.
        took_ms: u64,
    },
    /// The outcome is unknown, because the request ended early.
    Unknown,
}

/// Circuit breaker: outcomes of recent calls, and the state derived from them.
#[derive(Debug)]
pub struct Breaker {
    rule: BreakerRule,
    open_calls: u64,
    state: State,
    /// Number of times that the circuit has opened. It identifies trial calls of earlier openings
    /// that end late.
    opening: u64,
    outcomes: VecDeque<Bucket>,
    /// Period of the next free turn, counted from 1970, and the turns left in it.
    next_turn: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open {
        until_ms: u64,
    },
    /// Trial calls are in progress: how many may still begin, have ended and have failed.
    Trying {
        left: u64,
        ended: u64,
        failed: u64,
    },
}

/// Outcomes of one second, or of one call.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    second: u64,
    calls: u64,
    failed: u64,
}

impl Breaker {
    /// Creates the state of a rule, with a closed circuit.
    pub fn new(rule: BreakerRule) -> Self {
        Self {
            rule,
            open_calls: 0,
            state: State::Closed,
            opening: 0,
            outcomes: VecDeque::new(),
            next_turn: None,
        }
    }

    pub fn rule(&self) -> &BreakerRule {
        &self.rule
    }

    /// Admits or refuses a call at `now_ms`. Every admitted call must be ended with [`Self::end`].
    pub fn begin(&mut self, now_ms: u64) -> Result<Admission, Answer> {
        if let State::Open { until_ms } = self.state {
            let Some(circuit) = self.rule.circuit.as_ref().filter(|_| now_ms >= until_ms) else {
                return Err(self.rule.refusals.circuit);
            };
            self.state = State::Trying { left: circuit.probes, ended: 0, failed: 0 };
        }
        if matches!(self.state, State::Trying { left: 0, .. }) {
            return Err(self.rule.refusals.circuit);
        }
        if self.rule.open_calls_max.is_some_and(|max| self.open_calls >= max) {
            return Err(self.rule.refusals.flow);
        }
        let wait_ms = self.take_turn(now_ms).ok_or(self.rule.refusals.flow)?;
        self.open_calls += 1;
        let probe = match &mut self.state {
            State::Trying { left, .. } => {
                *left -= 1;
                Some(self.opening)
            }
            State::Closed | State::Open { .. } => None,
        };
        Ok(Admission { wait_ms, probe })
    }

    /// Records the end of an admitted call.
    pub fn end(&mut self, passed: Admission, end: End, now_ms: u64) {
        self.open_calls = self.open_calls.saturating_sub(1);
        let Some(circuit) = self.rule.circuit.clone() else { return };
        let has_failed = match (end, circuit.trips) {
            (End::Unknown, _) => None,
            (End::Done { took_ms, .. }, Trips::SlowRatioAbove { slower_than_ms, .. }) => {
                Some(took_ms > slower_than_ms)
            }
            (End::Done { failed, .. }, _) => Some(failed),
        };
        match (&mut self.state, passed.probe) {
            (State::Trying { left, ended, failed }, Some(opening)) if opening == self.opening => {
                let Some(has_failed) = has_failed else {
                    // A trial call without an outcome passes its turn to the next one. Otherwise
                    // the circuit could stay open forever.
                    *left += 1;
                    return;
                };
                *ended += 1;
                *failed += u64::from(has_failed);
                if *ended == circuit.probes {
                    let is_over = !circuit.trips.trip(*failed, *ended);
                    if is_over { self.close() } else { self.open(&circuit, now_ms) }
                }
            }
            (State::Closed, None) => {
                if let Some(has_failed) = has_failed {
                    self.note(&circuit, u64::from(has_failed), now_ms);
                }
            }
            _ => {}
        }
    }

    /// Records one call, of which `failed` have failed.
    fn note(&mut self, circuit: &Circuit, failed: u64, now_ms: u64) {
        let second = now_ms / 1_000;
        let bucket = Bucket { second, calls: 1, failed };
        match (circuit.window, self.outcomes.back_mut()) {
            (Window::Seconds(_), Some(last)) if last.second == second => {
                last.calls += 1;
                last.failed += bucket.failed;
            }
            _ => self.outcomes.push_back(bucket),
        }
        let is_stale = |outcomes: &VecDeque<Bucket>| match circuit.window {
            Window::Calls(size) => outcomes.len() as u64 > size,
            Window::Seconds(size) => {
                outcomes.front().is_some_and(|first| first.second.saturating_add(size) <= second)
            }
        };
        // Bounded by the calls or seconds in the window, and so is the cost of the sum below.
        while is_stale(&self.outcomes) {
            self.outcomes.pop_front();
        }
        let (calls, failed) = self
            .outcomes
            .iter()
            .fold((0, 0), |(calls, failed), bucket| (calls + bucket.calls, failed + bucket.failed));
        if calls >= circuit.calls_min && circuit.trips.trip(failed, calls) {
            self.open(circuit, now_ms);
        }
    }

    fn open(&mut self, circuit: &Circuit, now_ms: u64) {
        self.state = State::Open { until_ms: now_ms.saturating_add(circuit.open_ms) };
        self.opening += 1;
        self.outcomes.clear();
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.outcomes.clear();
    }

    /// Reserves a turn and returns the wait for it in milliseconds; `None` if the wait would exceed
    /// its limit.
    fn take_turn(&mut self, now_ms: u64) -> Option<u64> {
        let Some(flow) = &self.rule.flow else { return Some(0) };
        if flow.calls == 0 {
            return None;
        }
        let (calls, period_ms) = match flow.is_paced {
            true => (1, (flow.period_ms / flow.calls.max(1)).max(1)),
            false => (flow.calls, flow.period_ms),
        };
        let current = now_ms / period_ms;
        let (period, left) = match self.next_turn {
            Some((period, 0)) if period >= current => (period + 1, calls),
            Some((period, left)) if period >= current => (period, left),
            _ => (current, calls),
        };
        let wait_ms = period.saturating_mul(period_ms).saturating_sub(now_ms);
        if wait_ms > flow.wait_max_ms {
            return None;
        }
        self.next_turn = Some((period, left.saturating_sub(1)));
        Some(wait_ms)
    }
}

impl Trips {
    fn trip(self, failed: u64, calls: u64) -> bool {
        match self {
            Self::FailureRatio(limit) => failed > 0 && ratio(failed, calls) >= limit,
            Self::FailureRatioAbove(limit) | Self::SlowRatioAbove { ratio: limit, .. } => {
                is_above(ratio(failed, calls), limit)
            }
            Self::FailureCountAbove(limit) => failed > limit,
        }
    }
}

/// Whether a share exceeds its limit, as in Sentinel. No share exceeds 1, so that all calls count
/// as more than it.
fn is_above(share: f64, limit: f64) -> bool {
    share > limit || (share >= 1.0 && limit >= 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::{hystrix, resilience4j, sentinel};

    fn call(breaker: &mut Breaker, failed: bool, now_ms: u64) -> bool {
        match breaker.begin(now_ms) {
            Ok(passed) => {
                breaker.end(passed, End::Done { failed, took_ms: 10 }, now_ms);
                true
            }
            Err(_) => false,
        }
    }

    fn hystrix(handle: &str) -> Breaker {
        Breaker::new(hystrix::read(Some(handle)).expect("it is one"))
    }

    #[test]
    fn hystrix_opens_at_its_share_of_failures_and_tries_once() {
        let mut breaker =
            hystrix(r#"{"requestVolumeThreshold":4,"sleepWindowInMilliseconds":1000}"#);
        for failed in [true, false, true] {
            assert!(call(&mut breaker, failed, 0));
        }
        assert!(call(&mut breaker, true, 0), "the fourth trips it");
        assert_eq!(breaker.begin(999), Err(Answer::BreakerOpen));
        let probe = breaker.begin(1_000).expect("one tries");
        assert_eq!(breaker.begin(1_000), Err(Answer::BreakerOpen));
        breaker.end(probe, End::Done { failed: true, took_ms: 1 }, 1_000);
        assert_eq!(breaker.begin(1_999), Err(Answer::BreakerOpen));
        assert!(call(&mut breaker, false, 2_000), "it is over");
        assert!(call(&mut breaker, true, 2_000), "and counts anew");
        assert!(call(&mut breaker, true, 2_000));
    }

    #[test]
    fn a_try_whose_end_nobody_knows_is_made_again() {
        let mut breaker = hystrix(r#"{"requestVolumeThreshold":1,"sleepWindowInMilliseconds":10}"#);
        call(&mut breaker, true, 0);
        let probe = breaker.begin(10).expect("one tries");
        breaker.end(probe, End::Unknown, 10);
        assert!(call(&mut breaker, false, 11));
        assert!(call(&mut breaker, false, 11));
    }

    #[test]
    fn what_came_before_a_window_does_not_count() {
        let mut breaker = hystrix(r#"{"requestVolumeThreshold":2}"#);
        call(&mut breaker, true, 0);
        call(&mut breaker, false, 20_000);
        assert!(call(&mut breaker, false, 20_000), "of two calls none has failed");
        assert!(call(&mut breaker, false, 20_000));
    }

    #[test]
    fn calls_under_way_are_bounded() {
        let mut breaker = hystrix(r#"{"maxConcurrentRequests":1}"#);
        let first = breaker.begin(0).expect("there is room");
        assert_eq!(breaker.begin(0), Err(Answer::BreakerOpen));
        breaker.end(first, End::Unknown, 0);
        assert!(breaker.begin(0).is_ok());
    }

    #[test]
    fn sentinel_limits_calls_a_second_and_trips_by_its_grade() {
        let read = |handle: &str| Breaker::new(sentinel::read(Some(handle)).expect("it is one"));
        let mut limited = read(r#"{"flowRuleEnable":1,"flowRuleCount":"2","degradeRuleEnable":0}"#);
        assert!(call(&mut limited, false, 0) && call(&mut limited, false, 0));
        assert_eq!(limited.begin(999), Err(Answer::TooManyRequests));
        assert!(call(&mut limited, true, 1_000));
        for paced in [0, 2] {
            let mut none = read(&format!(
                r#"{{"flowRuleCount":"0","flowRuleControlBehavior":{paced},"degradeRuleEnable":0}}"#
            ));
            assert_eq!(none.begin(0), Err(Answer::TooManyRequests), "{paced}");
        }
        let mut queued = read(
            r#"{"flowRuleCount":10,"flowRuleControlBehavior":2,"flowRuleMaxQueueingTimeMs":150,"degradeRuleEnable":0}"#,
        );
        let waits: Vec<_> = (0..3).map(|_| queued.begin(10_000).map(|it| it.wait_ms)).collect();
        assert_eq!(waits, [Ok(0), Ok(100), Err(Answer::TooManyRequests)]);
        for (grade, count, failed) in [(0, "5", false), (1, "0.5", true), (2, "2", true)] {
            let mut tripped = read(&format!(
                r#"{{"flowRuleEnable":0,"degradeRuleGrade":{grade},"degradeRuleCount":{count},"degradeRuleTimeWindow":2,"degradeRuleMinRequestAmount":3}}"#
            ));
            for _ in 0..3 {
                assert!(call(&mut tripped, failed, 0), "{grade}");
            }
            assert_eq!(tripped.begin(1_999), Err(Answer::BreakerOpen), "{grade}");
            assert!(tripped.begin(2_000).is_ok(), "{grade}");
        }
    }

    #[test]
    fn sentinel_trips_above_its_limit_and_not_at_it() {
        // Grade, limit, share of slow calls, failures among four calls, whether it opens.
        let cases = [
            (2, "2", "0.5", 2, false),
            (2, "2", "0.5", 3, true),
            (1, "0.5", "0.5", 2, false),
            (1, "0.5", "0.5", 3, true),
            (1, "1", "0.5", 3, false),
            (1, "1", "0.5", 4, true),
            (0, "50", "0.5", 2, false),
            (0, "50", "0.5", 3, true),
            (0, "50", "1", 4, true),
        ];
        for (grade, count, share, failures, opens) in cases {
            let handle = format!(
                r#"{{"flowRuleEnable":0,"degradeRuleGrade":{grade},"degradeRuleCount":{count},"degradeRuleSlowRatioThreshold":{share},"degradeRuleMinRequestAmount":4}}"#
            );
            let rule = sentinel::read(Some(&handle)).expect("a valid handle");
            let mut breaker = Breaker::new(rule);
            for index in 0..4 {
                let failed = index >= 4 - failures;
                let passed = breaker.begin(0).expect("the circuit is closed");
                let took_ms = if failed { 60 } else { 10 };
                breaker.end(passed, End::Done { failed, took_ms }, 0);
            }
            assert_eq!(breaker.begin(0).is_err(), opens, "{handle}, {failures} failures");
        }
    }

    #[test]
    fn resilience4j_waits_for_a_turn_and_tries_several_calls() {
        let read =
            |handle: &str| Breaker::new(resilience4j::read(Some(handle)).expect("it is one"));
        let mut limited =
            read(r#"{"limitForPeriod":1,"limitRefreshPeriod":100,"timeoutDurationRate":150}"#);
        let waits: Vec<_> = (0..3).map(|_| limited.begin(1_000).map(|it| it.wait_ms)).collect();
        assert_eq!(waits, [Ok(0), Ok(100), Err(Answer::TooManyRequests)]);
        let mut breaker = read(
            r#"{"circuitEnable":1,"slidingWindowSize":4,"minimumNumberOfCalls":4,"failureRateThreshold":50,"waitIntervalFunctionInOpenState":10,"permittedNumberOfCallsInHalfOpenState":2}"#,
        );
        for failed in [true, false, false, true] {
            assert!(call(&mut breaker, failed, 0));
        }
        assert_eq!(breaker.begin(9), Err(Answer::BreakerOpen));
        assert!(call(&mut breaker, false, 10) && call(&mut breaker, false, 10));
        assert!(call(&mut breaker, true, 10), "both tries went well");
        let rule = resilience4j::read(None).expect("it is one");
        assert_eq!((rule.circuit, rule.time_max_ms), (None, None), "it only limits");
    }

    #[test]
    fn a_rule_without_a_fallback_has_the_page_of_its_plugin_and_an_empty_one_none() {
        let page = |path: &str| Fallback::Elsewhere(path.to_owned());
        let of_hystrix = |text| hystrix::read(text).map(|rule| rule.fallback);
        let of_sentinel = |text| sentinel::read(text).map(|rule| rule.fallback);
        let of_resilience = |text| resilience4j::read(text).map(|rule| rule.fallback);
        for text in [None, Some("{}")] {
            assert_eq!(of_hystrix(text), Ok(page("/fallback/hystrix")));
            assert_eq!(of_sentinel(text), Ok(page("/fallback/sentinel")));
            assert_eq!(of_resilience(text), Ok(Fallback::None), "it only limits");
        }
        let breaks = Some(r#"{"circuitEnable":1}"#);
        assert_eq!(of_resilience(breaks), Ok(page("/fallback/resilience4j")));
        let off = Some(r#"{"circuitEnable":1,"fallbackUri":"0"}"#);
        assert_eq!(of_resilience(off), Ok(Fallback::None));
        for text in [r#"{"callBackUri":""}"#, r#"{"callBackUri":null}"#] {
            assert_eq!(of_hystrix(Some(text)), Ok(Fallback::None), "{text}");
        }
        let rule = resilience4j::read(breaks).expect("it is one");
        assert!(rule.is_failure(Some(400)) && rule.is_failure(None));
    }

    #[test]
    fn refused_calls_go_where_the_rule_says() {
        for (text, expected) in [
            ("", Fallback::None),
            (" ", Fallback::None),
            ("fallback:/fallback/hystrix", Fallback::Inside("/fallback/hystrix".to_owned())),
            ("https://a.com/sorry", Fallback::Elsewhere("https://a.com/sorry".to_owned())),
        ] {
            assert_eq!(Fallback::read(text), expected, "{text}");
        }
    }
}
