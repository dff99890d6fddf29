//! Due times of renewals, and waits after failures.

use super::*;

const LIFE_S: u64 = 90 * DAY_S;
const NOW_S: u64 = 1_767_225_600;

fn facts() -> Facts {
    let issuer = String::new();
    Facts { issuer, not_before_s: NOW_S, not_after_s: NOW_S + LIFE_S, renewal_id: None }
}

#[test]
fn renewal_by_life_begins_just_before_two_thirds_of_it() {
    for seed in 0..100 {
        let (mut record, facts) = (CertificateRecord::default(), facts());
        plan_by_life(
            &mut record,
            &facts,
            NoWindow { wait: None, now_s: NOW_S },
            &mut Random::seeded(seed),
        );
        let at_s = due(&record, Some(&facts)).order_at_s;
        assert!((NOW_S + LIFE_S * 19 / 30..=NOW_S + LIFE_S * 2 / 3).contains(&at_s), "{at_s}");
        plan_by_life(
            &mut record,
            &facts,
            NoWindow { wait: None, now_s: NOW_S + 5 },
            &mut Random::seeded(seed + 1),
        );
        assert_eq!(due(&record, Some(&facts)).order_at_s, at_s, "a plan that stands is kept");
    }
}

#[test]
fn a_window_is_drawn_from_once_and_again_when_it_moves() {
    let (mut record, facts) = (CertificateRecord::default(), facts());
    let mut random = Random::seeded(1);
    let mut plan = |record: &mut CertificateRecord, window_s: (u64, u64)| {
        let wait = Some(Duration::from_secs(7_200));
        plan_by_window(record, &facts, WindowAnswer { window_s, wait, now_s: NOW_S }, &mut random);
        let due = due(record, Some(&facts));
        assert_eq!(due.ask_at_s, Some(NOW_S + 7_200));
        due.order_at_s
    };
    let window_s = (NOW_S + 1_000_000, NOW_S + 2_000_000);
    let first_s = plan(&mut record, window_s);
    assert!((window_s.0..=window_s.1).contains(&first_s));
    assert_eq!(plan(&mut record, window_s), first_s);
    let moved_s = (NOW_S - 2_000, NOW_S - 1_000);
    assert!((moved_s.0..=moved_s.1).contains(&plan(&mut record, moved_s)));
}

#[test]
fn whatever_a_window_says_the_last_twentieth_of_the_life_is_not_waited_for() {
    let (mut record, facts) = (CertificateRecord::default(), facts());
    let window_s = (facts.not_after_s + DAY_S, facts.not_after_s + 2 * DAY_S);
    let answer = WindowAnswer { window_s, wait: None, now_s: NOW_S };
    plan_by_window(&mut record, &facts, answer, &mut Random::seeded(1));
    assert_eq!(due(&record, Some(&facts)).order_at_s, facts.not_after_s - LIFE_S / 20);
}

#[test]
fn a_plan_is_for_one_certificate() {
    let (mut record, old) = (CertificateRecord::default(), facts());
    plan_by_life(&mut record, &old, NoWindow { wait: None, now_s: NOW_S }, &mut Random::seeded(1));
    let new = Facts { not_after_s: old.not_after_s + DAY_S, ..facts() };
    let due = due(&record, Some(&new));
    assert_eq!(due.ask_at_s, Some(0), "what is not planned is asked about at once");
    assert!(due.order_at_s > NOW_S, "and not ordered");
}

#[test]
fn waits_grow_and_are_never_shorter_than_what_the_authority_asks() {
    let mut record = CertificateRecord::default();
    let mut random = Random::seeded(1);
    let mut waits_s = Vec::new();
    for _ in 0..10 {
        let failure = Failure::new(Code::OrderRefused, "no");
        note_failure(&mut record, &failure, NOW_S, &mut random);
        waits_s.push(record.next_attempt_s - NOW_S);
    }
    for (wait_s, least_s) in waits_s.iter().zip(WAITS_S.iter().chain([&WAITS_S[7]; 2])) {
        assert!((*least_s..=least_s + least_s / 10 + 1).contains(wait_s), "{waits_s:?}");
    }
    let mut limited = Failure::new(Code::RateLimited, "later");
    limited.wait = Some(Duration::from_secs(34 * 3600));
    note_failure(&mut record, &limited, NOW_S, &mut random);
    assert!(record.next_attempt_s >= NOW_S + 34 * 3600);
}

#[test]
fn a_failure_of_the_authority_leaves_the_certificates_own_waits() {
    let mut record = CertificateRecord::default();
    let failure = Failure::new(Code::Unreachable, "no").with_authority_scope();
    note_failure(&mut record, &failure, NOW_S, &mut Random::seeded(1));
    assert_eq!((record.next_attempt_s, record.failures), (0, 0));
    assert!(record.last_error.is_some());
}
