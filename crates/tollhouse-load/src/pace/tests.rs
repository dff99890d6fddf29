//! Tests of paces: where requests are due, and which paces lead nowhere. No clock is looked at.
//! Sums are checked against the area under the rate.

use super::*;

fn starts_ms(pace: Pace, count: u64) -> Vec<u128> {
    (0..count).map(|n| pace.intended(n).expect("open").as_micros() / 1_000).collect()
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_closed_loop_has_no_schedule() {
    assert_eq!(Pace::Closed.intended(7), None);
    assert_eq!(Pace::Closed.due_before(s(10)), None);
    assert_eq!(Pace::Think(s(1)).rate_at(s(1)), None);
}

#[test]
fn a_rate_is_even() {
    assert_eq!(starts_ms(Pace::Rate(4.0), 5), [0, 250, 500, 750, 1_000]);
    assert_eq!(Pace::Rate(4.0).due_before(s(1)), Some(4));
    assert_eq!(Pace::Rate(0.5).due_before(s(10)), Some(5));
}

#[test]
fn steps_climb_and_hold_the_last_rate() {
    let pace = Pace::Steps(Steps { start: 2.0, step: 2.0, end: 4.0, every: s(1) });
    assert_eq!(starts_ms(pace, 8), [0, 500, 1_000, 1_250, 1_500, 1_750, 2_000, 2_250]);
    assert_eq!(pace.due_before(s(3)), Some(2 + 4 + 4));
    assert_eq!(pace.rate_at(Duration::from_millis(1_500)), Some(4.0));
}

#[test]
fn steps_also_go_down() {
    let pace = Pace::Steps(Steps { start: 4.0, step: -1.0, end: 2.0, every: s(1) });
    assert_eq!(pace.due_before(s(5)), Some(4 + 3 + 2 + 2 + 2));
}

#[test]
fn a_ramp_follows_the_area_under_its_line() {
    let pace = Pace::Ramp(Ramp { from: 0.0, to: 10.0, over: s(10) });
    assert_eq!(pace.due_before(s(10)), Some(50));
    assert_eq!(pace.due_before(s(12)), Some(70));
    assert_eq!(pace.rate_at(s(5)), Some(5.0));
    let down = Pace::Ramp(Ramp { from: 10.0, to: 2.0, over: s(10) });
    assert_eq!(down.due_before(s(11)), Some(62));
}

#[test]
fn bursts_are_due_at_once() {
    let pace = Pace::Burst(Burst { requests: 3, every: s(2) });
    assert_eq!(starts_ms(pace, 7), [0, 0, 0, 2_000, 2_000, 2_000, 4_000]);
    assert_eq!(pace.due_before(s(2)), Some(3));
}

#[test]
fn no_schedule_ever_goes_back() {
    let paces = [
        Pace::Rate(12_345.6),
        Pace::Steps(Steps { start: 100.0, step: 33.0, end: 1_000.0, every: s(1) }),
        Pace::Steps(Steps { start: 1_000.0, step: -77.0, end: 100.0, every: s(1) }),
        Pace::Ramp(Ramp { from: 0.0, to: 5_000.0, over: s(3) }),
        Pace::Ramp(Ramp { from: 5_000.0, to: 10.0, over: s(3) }),
        Pace::Burst(Burst { requests: 7, every: s(1) }),
    ];
    for pace in paces {
        let mut last = Duration::ZERO;
        for number in 0..20_000 {
            let at = pace.intended(number).expect("open");
            assert!(at >= last, "{pace:?} at {number}");
            last = at;
        }
    }
}

#[test]
fn a_pace_that_leads_nowhere_is_named() {
    for pace in [
        Pace::Rate(0.0),
        Pace::Rate(f64::NAN),
        Pace::Steps(Steps { start: 1.0, step: -1.0, end: 5.0, every: s(1) }),
        Pace::Steps(Steps { start: 1.0, step: 1.0, end: 5.0, every: s(0) }),
        Pace::Ramp(Ramp { from: 1.0, to: 0.0, over: s(1) }),
        Pace::Burst(Burst { requests: 0, every: s(1) }),
    ] {
        assert!(pace.problem().is_some(), "{pace:?}");
    }
    assert_eq!(Pace::Rate(5.0).problem(), None);
}
