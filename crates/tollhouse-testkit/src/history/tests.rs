//! The search finds what is wrong, and nothing that is right; a naive twin that tries all orders agrees.

use super::*;

/// A write that was answered.
fn write(value: u64, called: u64, answered: u64) -> Operation {
    let deed = Deed::Write(Some(value));
    Operation { deed, node: 0, sight: Sight::Everywhere, called, answered: Some(answered) }
}

/// A read of node 0 that has to show everything.
fn read(value: u64, called: u64, answered: u64) -> Operation {
    Operation { deed: Deed::Read(Some(value)), ..write(value, called, answered) }
}

fn take_away(called: u64, answered: u64) -> Operation {
    Operation { deed: Deed::Write(None), ..write(0, called, answered) }
}

fn find_nothing(called: u64, answered: u64) -> Operation {
    Operation { deed: Deed::Read(None), ..write(0, called, answered) }
}

/// The same, of which nobody knows what became.
fn unknown(operation: Operation) -> Operation {
    Operation { answered: None, ..operation }
}

/// The same at another node, where others' writes may be late.
fn at(node: usize, operation: Operation) -> Operation {
    Operation { node, sight: Sight::OfItsNode, ..operation }
}

fn has_order(operations: &[Operation]) -> bool {
    check(0, operations).is_ok()
}

#[test]
fn what_happens_one_after_the_other_has_its_order() {
    assert!(has_order(&[]));
    assert!(has_order(&[find_nothing(0, 1), write(1, 2, 3), read(1, 4, 5), take_away(6, 7)]));
    assert!(has_order(&[write(1, 0, 1), write(2, 2, 3), read(2, 4, 5), read(2, 6, 7)]));
}

#[test]
fn what_was_answered_and_is_not_there_is_found() {
    for lost in [
        vec![write(1, 0, 1), find_nothing(2, 3)],
        vec![write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)],
        vec![write(1, 0, 1), take_away(2, 3), read(1, 4, 5)],
        // Seen, and then not seen any more.
        vec![write(1, 0, 9), read(1, 1, 2), find_nothing(3, 4)],
        // Before it was asked for, and never asked for.
        vec![read(1, 0, 1), write(1, 2, 3)],
        vec![read(7, 0, 1)],
    ] {
        let disorder = check(3, &lost).expect_err("it has no order");
        assert!(disorder.operations.iter().any(|(_, is_placed)| !is_placed), "{disorder}");
        assert!(disorder.to_string().contains("register 3 has no order"), "{disorder}");
    }
}

#[test]
fn what_happens_at_once_may_come_in_either_order_for_all_alike() {
    let writes = [write(1, 0, 9), write(2, 0, 9)];
    for (first, last) in [(1, 2), (2, 1)] {
        let reads = [read(first, 1, 2), read(last, 10, 11)];
        assert!(has_order(&[&writes[..], &reads].concat()));
        let other = at(1, read(last, 12, 13));
        assert!(has_order(&[&writes[..], &reads, &[other]].concat()));
    }
    let two_minds = [read(1, 10, 11), read(2, 12, 13)];
    assert!(!has_order(&[&writes[..], &two_minds].concat()));
    // Node by node, each sees one order, and they are not the same.
    let apart = [
        at(1, read(1, 10, 11)),
        at(1, read(2, 12, 13)),
        at(2, read(2, 10, 11)),
        at(2, read(1, 12, 13)),
    ];
    assert!(!has_order(&[&writes[..], &apart].concat()));
}

#[test]
fn another_node_may_be_late_and_never_goes_back() {
    let begun = [write(1, 0, 1), write(2, 2, 3)];
    let late = at(1, read(1, 4, 5));
    assert!(has_order(&[&begun[..], &[late]].concat()));
    assert!(!has_order(&[&begun[..], &[Operation { sight: Sight::Everywhere, ..late }]].concat()));
    let back = at(1, read(2, 4, 5));
    let late = at(1, read(1, 6, 7));
    assert!(!has_order(&[&begun[..], &[back, late]].concat()));
    // What it has answered itself it shows.
    assert!(!has_order(&[&begun[..], &[at(0, read(1, 4, 5))]].concat()));
    assert!(!has_order(&[at(1, write(1, 0, 1)), at(1, find_nothing(2, 3))]));
}

#[test]
fn what_nobody_knows_may_have_been_done_once_or_never() {
    let lost = unknown(write(1, 0, 0));
    assert!(has_order(&[lost, find_nothing(5, 6)]));
    assert!(has_order(&[lost, find_nothing(5, 6), read(1, 7, 8)]), "it took its time");
    assert!(!has_order(&[lost, read(1, 5, 6), find_nothing(7, 8)]), "it was there");
    assert!(has_order(&[lost, unknown(take_away(1, 1)), read(1, 5, 6), find_nothing(7, 8)]));
    let twice = [lost, read(1, 5, 6), take_away(7, 8), read(1, 9, 10)];
    assert!(!has_order(&twice), "it is not done again");
    assert!(!has_order(&[unknown(write(1, 5, 5)), read(1, 2, 3)]), "before it was asked for");
}

#[test]
fn a_recorded_history_leaves_out_what_cannot_have_been_done() {
    let history = History::default();
    assert!(history.is_empty());
    history.write(0, 0, Some(1), || Ending::Done);
    history.write(0, 0, Some(2), || Ending::Refused);
    history.write(1, 0, Some(3), || Ending::Unknown);
    history.read(0, 1, Sight::OfItsNode, || None);
    history.read(0, 1, Sight::OfItsNode, || Some(None));
    assert_eq!(history.read(0, 0, Sight::Everywhere, || Some(Some(1))), Some(Some(1)));
    assert_eq!(history.len(), 4);
    history.check().expect("it is in order");
    history.read(0, 0, Sight::Everywhere, || Some(Some(2)));
    assert_eq!(history.check().expect_err("it was refused").register, 0);
}

#[test]
fn long_histories_of_one_register_are_judged() {
    let mut operations = Vec::new();
    for round in 0..300 {
        let time = 10 * round;
        // Three clients at once, of whom one never hears, and late readers elsewhere.
        operations.push(write(3 * round, time, time + 8));
        operations.push(write(3 * round + 1, time + 1, time + 7));
        operations.push(unknown(write(3 * round + 2, time + 2, 0)));
        operations.push(read(3 * round + (round % 2), time + 9, time + 9));
        operations.push(at(1, read(3 * round + 1 - (round % 2), time + 3, time + 9)));
    }
    assert!(has_order(&operations));
    operations.push(read(7, 4_000, 4_001));
    assert!(!has_order(&operations));
}

/// Whether any order of some of the operations, all that were answered among them, is one.
fn has_order_by_trying(operations: &[Operation]) -> bool {
    fn go_on(operations: &[Operation], done: &mut Vec<usize>, value: Value) -> bool {
        let left = || (0..operations.len()).filter(|place| !done.contains(place));
        if left().all(|place| operations[place].answered.is_none()) {
            return true;
        }
        for place in left().collect::<Vec<_>>() {
            let next = operations[place];
            let is_too_early = (0..operations.len())
                .any(|other| !done.contains(&other) && operations[other].precedes(&next));
            let held = match next.deed {
                Deed::Write(written) => written,
                Deed::Read(found) if found == value => value,
                Deed::Read(_) => continue,
            };
            if is_too_early {
                continue;
            }
            done.push(place);
            let is_one = go_on(operations, done, held);
            done.pop();
            if is_one {
                return true;
            }
        }
        false
    }
    go_on(operations, &mut Vec::new(), None)
}

#[test]
fn trying_all_orders_finds_the_same() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |count: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % count
    };
    let mut verdicts = [0_u32; 2];
    for _ in 0..20_000 {
        let count = 2 + below(5);
        let operations: Vec<Operation> = (0..count)
            .map(|_| {
                let value = below(3).checked_sub(1);
                let deed = if below(2) == 0 { Deed::Write(value) } else { Deed::Read(value) };
                let called = below(8);
                let is_unknown = matches!(deed, Deed::Write(_)) && below(4) == 0;
                let answered = (!is_unknown).then(|| called + 1 + below(4));
                let sight = if below(2) == 0 { Sight::Everywhere } else { Sight::OfItsNode };
                let node = usize::from(below(2) == 0);
                Operation { deed, node, sight, called, answered }
            })
            .collect();
        let found = has_order(&operations);
        assert_eq!(found, has_order_by_trying(&operations), "{operations:?}");
        verdicts[usize::from(found)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 2_000), "both are tried: {verdicts:?}");
}
