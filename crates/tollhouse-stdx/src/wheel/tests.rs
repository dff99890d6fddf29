//! The wheel against virtual time: a table of single timers, and a model of many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counting_waker() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (Arc::clone(&count), Waker::from(count))
}

fn woken(count: &Count) -> usize {
    count.0.load(Ordering::Relaxed)
}

fn wheel() -> Wheel {
    Wheel::new(TICK_DEFAULT)
}

#[test]
fn a_timer_fires_within_one_tick_and_never_early() {
    // (deadline, a time at which it must not have fired, a time at which it must have).
    let table = [
        (1, 0, 10),
        (10, 9, 10),
        (11, 19, 20),
        (10_230, 10_229, 10_230),
        (10_240, 10_239, 10_240),
        (60_000, 59_999, 60_000),
        (3_600_001, 3_600_000, 3_600_010),
    ];
    for (deadline, too_early, due) in table {
        let wheel = wheel();
        let timer = wheel.timer();
        let (count, waker) = counting_waker();
        timer.set_waker(&waker);
        timer.arm(deadline);
        wheel.advance(too_early);
        assert_eq!(woken(&count), 0, "deadline {deadline}");
        assert!(!timer.expired(deadline - 1));
        wheel.advance(due);
        assert_eq!(woken(&count), 1, "deadline {deadline}");
        assert!(timer.expired(due));
        wheel.advance(due + 100_000);
        assert_eq!(woken(&count), 1, "fires once: deadline {deadline}");
        assert_eq!(wheel.queued_len(), 0);
    }
}

#[test]
fn a_deadline_that_moves_away_is_only_stored() {
    let wheel = wheel();
    let timer = wheel.timer();
    let (count, waker) = counting_waker();
    timer.set_waker(&waker);
    timer.arm(100);
    let queued = timer.entry.queued_until_ms.get();
    for step in 0..50 {
        timer.arm(100 + step * 10);
        assert_eq!(timer.entry.queued_until_ms.get(), queued);
    }
    wheel.advance(589);
    assert_eq!(woken(&count), 0);
    wheel.advance(590);
    assert_eq!(woken(&count), 1);
}

#[test]
fn a_deadline_that_comes_closer_fires_at_the_closer_time_only() {
    let wheel = wheel();
    let timer = wheel.timer();
    let (count, waker) = counting_waker();
    timer.set_waker(&waker);
    timer.arm(5_000);
    timer.arm(50);
    assert_eq!(wheel.queued_len(), 1);
    wheel.advance(50);
    assert_eq!(woken(&count), 1);
    wheel.advance(6_000);
    assert_eq!(woken(&count), 1);
}

#[test]
fn a_deadline_in_the_past_fires_at_the_next_tick() {
    let wheel = wheel();
    wheel.advance(1_000);
    let timer = wheel.timer();
    let (count, waker) = counting_waker();
    timer.set_waker(&waker);
    timer.arm(3);
    assert!(timer.expired(1_000));
    assert_eq!(wheel.next_tick(1_000), Some(10));
    wheel.advance(1_010);
    assert_eq!(woken(&count), 1);
}

#[test]
fn a_nudge_wakes_once_beside_a_deadline_that_moves() {
    let wheel = wheel();
    let timer = wheel.timer();
    let (count, waker) = counting_waker();
    timer.set_waker(&waker);
    timer.nudge(200);
    timer.arm(60_000);
    wheel.advance(190);
    assert_eq!(woken(&count), 0);
    wheel.advance(200);
    assert_eq!(woken(&count), 1);
    assert!(!timer.expired(200), "the deadline is still to come");
    wheel.advance(59_990);
    assert_eq!(woken(&count), 1);
    wheel.advance(60_000);
    assert_eq!(woken(&count), 2);

    timer.arm(70_000);
    timer.nudge(60_200);
    timer.cancel_nudge();
    wheel.advance(69_990);
    assert_eq!(woken(&count), 2, "a nudge that was taken back");
    wheel.advance(70_000);
    assert_eq!(woken(&count), 3);
}

#[test]
fn a_disarmed_timer_stays_silent_and_can_be_armed_again() {
    let wheel = wheel();
    let timer = wheel.timer();
    let (count, waker) = counting_waker();
    timer.set_waker(&waker);
    timer.arm(50);
    timer.disarm();
    assert!(!timer.is_armed());
    assert!(!timer.expired(NEVER_MS));
    wheel.advance(100);
    assert_eq!((woken(&count), wheel.queued_len()), (0, 0));
    timer.arm(150);
    wheel.advance(150);
    assert_eq!(woken(&count), 1);
}

#[test]
fn a_dropped_timer_is_silent_and_its_place_is_used_again() {
    let wheel = wheel();
    let (count, waker) = counting_waker();
    for round in 0..1_000_u64 {
        let timer = wheel.timer();
        timer.set_waker(&waker);
        timer.arm(round * 10 + 500);
        drop(timer);
    }
    assert_eq!(wheel.inner.entries.borrow().len(), 1);
    assert_eq!(wheel.queued_len(), 0);
    wheel.advance(100_000);
    assert_eq!(woken(&count), 0);
    assert_eq!(Arc::strong_count(&count), 2, "the dropped timers hold no waker");
}

#[test]
fn the_waker_is_cloned_only_when_it_changes() {
    let wheel = wheel();
    let timer = wheel.timer();
    let (first, first_waker) = counting_waker();
    let (second, second_waker) = counting_waker();
    for _ in 0..10 {
        timer.set_waker(&first_waker);
    }
    assert_eq!(Arc::strong_count(&first), 3);
    timer.set_waker(&second_waker);
    timer.arm(10);
    wheel.advance(10);
    assert_eq!((woken(&first), woken(&second)), (0, 1));
}

#[test]
fn an_empty_wheel_wants_no_tick_and_a_full_one_says_when() {
    let wheel = wheel();
    assert_eq!(wheel.next_tick(0), None);
    let far = wheel.timer();
    far.arm(60_000);
    assert_eq!(wheel.next_tick(0), Some(10_230), "beyond one turn it is looked at on the way");
    let near = wheel.timer();
    near.arm(95);
    assert_eq!(wheel.next_tick(0), Some(100));
    assert_eq!(wheel.next_tick(70), Some(30));
    assert_eq!(wheel.next_tick(400), Some(0));
}

#[test]
fn the_ticker_is_woken_only_for_an_earlier_tick_than_announced() {
    let wheel = wheel();
    let (ticker, waker) = counting_waker();
    wheel.set_ticker(&waker);
    assert_eq!(wheel.next_tick(0), None);
    let timers: Vec<Timer> = (0..4).map(|_| wheel.timer()).collect();
    timers[0].arm(500);
    assert_eq!(woken(&ticker), 1, "nothing was announced");
    timers[1].arm(700);
    assert_eq!(woken(&ticker), 1, "later than announced");
    assert_eq!(wheel.next_tick(0), Some(500));
    timers[2].arm(100);
    timers[3].arm(100);
    assert_eq!(woken(&ticker), 2, "one earlier tick, announced once");
}

#[test]
fn a_waker_may_use_the_wheel_it_is_called_from() {
    // The other timer hangs in the same slot and is dropped while the slot is being emptied.
    std::thread_local! {
        static OTHER: RefCell<Option<Timer>> = const { RefCell::new(None) };
    }
    struct DropsOther;
    impl Wake for DropsOther {
        fn wake(self: Arc<Self>) {
            OTHER.take();
        }
    }
    let wheel = wheel();
    let (other_count, other_waker) = counting_waker();
    let other = wheel.timer();
    other.set_waker(&other_waker);
    other.arm(50);
    OTHER.set(Some(other));
    let timer = wheel.timer();
    timer.set_waker(&Waker::from(Arc::new(DropsOther)));
    timer.arm(50);
    wheel.advance(100);
    assert_eq!(woken(&other_count), 0);
    assert_eq!(wheel.queued_len(), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Arm { timer: usize, after_ms: u64 },
    Disarm(usize),
    Replace(usize),
    Advance(u64),
}

const TIMERS: usize = 8;

fn step() -> impl Strategy<Value = Step> {
    let timer = 0..TIMERS;
    let delay = prop_oneof![4 => 0..200_u64, 2 => 0..12_000_u64, 1 => 0..100_000_u64];
    prop_oneof![
        6 => (timer.clone(), delay.clone())
            .prop_map(|(timer, after_ms)| Step::Arm { timer, after_ms }),
        1 => timer.clone().prop_map(Step::Disarm),
        1 => timer.prop_map(Step::Replace),
        4 => delay.prop_map(Step::Advance),
    ]
}

/// One timer as the model sees it: its deadline until it has fired, and how often it should have.
#[derive(Default, Clone)]
struct Expected {
    deadline_ms: Option<u64>,
    fired: usize,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn timers_fire_exactly_when_a_list_of_deadlines_says(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let wheel = wheel();
        let fresh = || {
            let timer = wheel.timer();
            let (count, waker) = counting_waker();
            timer.set_waker(&waker);
            (timer, count)
        };
        let mut timers: Vec<(Timer, Arc<Count>)> = (0..TIMERS).map(|_| fresh()).collect();
        let mut model = vec![Expected::default(); TIMERS];
        let mut now_ms = 0;
        for step in steps {
            match step {
                Step::Arm { timer, after_ms } => {
                    timers[timer].0.arm(now_ms + after_ms);
                    model[timer].deadline_ms = Some(now_ms + after_ms);
                }
                Step::Disarm(timer) => {
                    timers[timer].0.disarm();
                    model[timer].deadline_ms = None;
                }
                Step::Replace(timer) => {
                    timers[timer] = fresh();
                    model[timer] = Expected::default();
                }
                Step::Advance(by_ms) => {
                    // Whole ticks, as a ticker does it: then "at most one tick late" is exact.
                    now_ms += by_ms.next_multiple_of(10).max(10);
                    wheel.advance(now_ms);
                    for expected in &mut model {
                        if expected.deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
                            expected.deadline_ms = None;
                            expected.fired += 1;
                        }
                    }
                }
            }
            for ((_, count), expected) in timers.iter().zip(&model) {
                prop_assert_eq!(woken(count), expected.fired);
            }
            let next = model.iter().filter_map(|expected| expected.deadline_ms).min();
            if let Some(next) = next {
                let tick_in = wheel.next_tick(now_ms);
                let due_in = next.div_ceil(10).saturating_mul(10).saturating_sub(now_ms).max(10);
                prop_assert!(tick_in.is_some_and(|tick_in| tick_in <= due_in));
            }
        }
    }
}
